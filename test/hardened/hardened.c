/* Hardened mode from inside: seals over every size and every byte, random placement, the quarantine's order and bounds, guards that
 * run out, runs that are closed and opened again, and what a walk and the statistics say. Runs with HEDDLE=hardened.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>
#include <heddle.h>

#include "../support/support.h"
#include "core/hardened.h"
#include "core/options.h"
#include "core/report.h"
#include "core/space.h"
#include "os/os.h"

/* ---- seals ------------------------------------------------------------------------------------------------------- */

static void test_every_slack(void **state) {
  (void)state;
  static _Alignas(16) uint8_t block[1024];
  for (size_t bytes = 16; bytes <= sizeof block; bytes += 16) {
    for (size_t asked = 0; asked + HD_SEAL_BYTES <= bytes; asked++) {
      memset(block, 0x5c, sizeof block);
      hdi_seal_set(block, bytes, asked);
      assert_int_equal(hdi_seal_asked(block, bytes), asked);
      for (size_t i = 0; i < asked; i++) assert_int_equal(block[i], 0x5c);
      for (size_t i = bytes; i < sizeof block; i++) assert_int_equal(block[i], 0x5c);
    }
  }
}

/* Each byte behind the asked ones, as far as the pattern reaches, and each byte of the word, in every value it can be given. */
static void test_every_changed_byte(void **state) {
  (void)state;
  static _Alignas(16) uint8_t block[256];
  for (size_t asked = 0; asked + HD_SEAL_BYTES <= sizeof block; asked += asked < 225 ? 7 : 1) { /* each near slack */
    size_t watched = hdi_seal_span(sizeof block - HD_SEAL_BYTES - asked);
    hdi_seal_set(block, sizeof block, asked);
    for (size_t at = asked; at < sizeof block; at++) {
      if (at >= asked + watched && at < sizeof block - HD_SEAL_BYTES) continue;
      for (unsigned change = 1; change < 256; change++) {
        block[at] ^= (uint8_t)change;
        assert_true(hdi_seal_asked(block, sizeof block) == HD_SEAL_BROKEN);
        block[at] ^= (uint8_t)change;
      }
    }
    assert_int_equal(hdi_seal_asked(block, sizeof block), asked);
  }
}

/* A string's end one too far is a change wherever the string ends. */
static void test_first_byte_is_never_zero(void **state) {
  (void)state;
  for (size_t asked = 0; asked <= 2000; asked++) {
    uint8_t *p = hd_malloc(asked);
    assert_int_not_equal(p[asked], 0);
    hd_free(p);
  }
}

/* A guard word that says that the block begins before its start, and the pattern that belongs to that. */
static void test_impossible_slack(void **state) {
  enum { BYTES = 112, BEFORE = 8 };
  static _Alignas(16) uint8_t memory[BEFORE * 2 + BYTES];
  uint8_t *block = memory + BEFORE * 2;
  (void)state;
  hdi_seal_fill_to(block - BEFORE + HD_SEAL_PATTERN_MAX, HD_SEAL_PATTERN_MAX, hdi_seal_word(block) | HD_SEAL_NOT_ZERO);
  hdi_seal_store(block + BYTES - HD_SEAL_BYTES, hdi_seal_word(block) ^ (BYTES + BEFORE) * HD_SEAL_LANES);
  assert_true(hdi_seal_asked(block, BYTES) == HD_SEAL_BROKEN);
}

/* ---- placement --------------------------------------------------------------------------------------------------- */

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t) * (void *const *)a, y = (uintptr_t) * (void *const *)b;
  return (x > y) - (x < y);
}

static void test_placement_is_random(void **state) {
  enum { COUNT = 4096 };
  static void *block[COUNT], *sorted[COUNT];
  size_t neighbours = 0;
  (void)state;
  for (size_t i = 0; i < COUNT; i++) sorted[i] = block[i] = hd_malloc(200);
  qsort(sorted, COUNT, sizeof *sorted, by_address);
  for (size_t i = 1; i < COUNT; i++) {
    assert_true((uint8_t *)sorted[i] - (uint8_t *)sorted[i - 1] >= 208); /* and no two overlap */
    neighbours += (uint8_t *)block[i] - (uint8_t *)block[i - 1] == 208;
  }
  assert_true(neighbours < COUNT / 8); /* in order it would be nearly all of them */
  for (size_t i = 0; i < COUNT; i++) hd_free(block[i]);
}

/* ---- quarantine -------------------------------------------------------------------------------------------------- */

static void test_freed_blocks_rest(void **state) {
  (void)state;
  for (int round = 0; round < 200; round++) {
    void *freed = hd_malloc(40);
    hd_free(freed);
    for (int i = 0; i < HD_QUARANTINE_BLOCKS - 1; i++) {
      void *p = hd_malloc(40);
      assert_ptr_not_equal(p, freed);
      hd_free(p);
    }
  }
}

static void test_freed_blocks_are_clear(void **state) {
  (void)state;
  for (size_t bytes = 1; bytes <= HD_HARDENED_MAX; bytes += bytes / 3 + 1) {
    uint8_t *p = hd_malloc(bytes);
    memset(p, 0xab, bytes);
    hd_free(p);
    for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0);
  }
}

static void test_quarantine_is_bounded(void **state) {
  (void)state;
  hd_heap *heap = hdi_heap_mine();
  for (int i = 0; i < 3000; i++) {
    hd_free(hd_malloc((size_t)(i * 37) % 60000));
    assert_true(heap->hardened->count <= HD_QUARANTINE_BLOCKS && heap->hardened->bytes <= 256 * HD_KIB);
    hd_free(hd_malloc(60000 + (size_t)i * 1000));
    assert_true(heap->hardened->run_count <= HD_QUARANTINE_RUNS);
  }
  hd_thread_idle();
  assert_int_equal(heap->hardened->count + heap->hardened->run_count + heap->hardened->spare_count, 0);
  assert_int_equal(heap->hardened->bytes + heap->hardened->run_units, 0);
}

static void *free_one(void *p) {
  hd_free(p);
  return NULL;
}

/* A block freed by a thread that has no heap, and by one that has and ends: the memory comes back to its owner. */
static void test_other_threads_give_back(void **state) {
  (void)state;
  hd_stats before = {.struct_bytes = sizeof before}, after = {.struct_bytes = sizeof after};
  hd_collect(0);
  hd_stats_get(&before);
  for (int i = 0; i < 100; i++) {
    pthread_t thread;
    assert_int_equal(pthread_create(&thread, NULL, free_one, hd_malloc(i % 10 == 0 ? 300000 : 5000)), 0);
    pthread_join(thread, NULL);
  }
  hd_collect(0);
  hd_stats_get(&after);
  assert_true(after.live <= before.live + 4096 && after.free_in_pages <= before.free_in_pages + HD_MIB);
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* More blocks than may have guards: the rest have a pattern instead, and everything else holds. */
static void test_guards_run_out(void **state) {
  enum { COUNT = 9000 };
  static uint8_t *block[COUNT];
  (void)state;
  uint8_t *grown = hd_malloc(300001);
  memset(grown, 0x5c, 300001);
  assert_int_not_equal(hdi_space_find(grown)->state, 0);
  for (size_t i = 0; i < COUNT; i++) {
    block[i] = hd_malloc(60001);
    assert_non_null(block[i]);
    block[i][0] = block[i][60000] = (uint8_t)i;
    assert_int_equal((uintptr_t)block[i] % 16, 0);
  }
  assert_true(hdi_hardened_run_is_whole(hdi_space_find(block[COUNT - 1])));
  uint8_t *aligned = hd_aligned_alloc(8192, 60001);
  assert_int_equal((uintptr_t)aligned % 8192, 0);
  assert_int_equal(hdi_space_find(aligned)->state, 0);
  hd_free(aligned);
  grown = hd_realloc(grown, HD_MIB);
  assert_int_equal(hdi_space_find(grown)->state, 0);
  for (size_t i = 0; i < 300001; i++) assert_int_equal(grown[i], 0x5c);
  hd_free(grown);
  for (size_t i = 0; i < COUNT; i++) {
    assert_int_equal(block[i][60000], (uint8_t)i);
    hd_free(block[i]);
  }
  void *again = hd_malloc(60001);
  assert_int_not_equal(hdi_space_find(again)->state, 0); /* guards are to be had again */
  hd_free(again);
}

/* A system call says it without a fault. */
static bool can_touch(const uint8_t *p) {
  int ends[2];
  assert_int_equal(pipe(ends), 0);
  bool can = write(ends[1], p, 1) == 1;
  close(ends[0]);
  close(ends[1]);
  return can;
}

static uint8_t *page_of(uint8_t *p) { return (uint8_t *)hd_round_down((uintptr_t)p, hdi_os.page_bytes); }

static uint8_t *behind(uint8_t *p, size_t bytes) { return (uint8_t *)hd_round_up((uintptr_t)p + bytes, hdi_os.page_bytes); }

static void assert_guarded(uint8_t *p, size_t bytes) {
  assert_true(can_touch(p) && can_touch(p + bytes - 1));
  assert_false(can_touch(page_of(p) - 1));
  assert_false(can_touch(behind(p, bytes)));
}

static void assert_filled(const uint8_t *p, size_t bytes, uint8_t with) {
  assert_int_equal(p[0], with);
  assert_int_equal(memcmp(p, p + 1, bytes - 1), 0);
}

/* Short runs lie side by side in the reserve, long ones anywhere: each is closed on both sides, all the time. */
static void test_guards_on_both_sides(void **state) {
  enum { COUNT = 300 };
  static uint8_t *block[COUNT];
  (void)state;
  hd_thread_idle();
  for (size_t i = 0; i < COUNT; i++) {
    size_t bytes = 60000 + i * 1000;
    block[i] = hd_malloc(bytes);
    assert_guarded(block[i], bytes);
  }
  for (size_t i = 0; i < COUNT; i++) {
    size_t bytes = 60000 + i * 1000;
    assert_guarded(block[i], bytes);
    hd_free(block[i]);
    for (size_t at = 0; at < bytes; at += hdi_os.page_bytes) assert_false(can_touch(block[i] + at));
  }
}

/* Freed runs that stay resident can't be touched, hold nothing, and are bounded. Of a block that grew and shrank as well. */
static void test_kept_runs(void **state) {
  enum { BYTES = 100000, COUNT = 200 };
  static uint8_t *block[COUNT];
  (void)state;
  hd_thread_idle();
  hd_hardened *own = hdi_heap_mine()->hardened;
  assert_int_equal(own->kept_units, 0);
  size_t again = 0, reused = 0;
  for (size_t i = 0; i < COUNT; i++) {
    size_t bytes = i % 3 == 0 ? BYTES : 61000;
    uint8_t *p = block[i] = hd_calloc(1, bytes);
    assert_filled(p, bytes, 0);
    assert_guarded(p, bytes);
    for (size_t before = 0; before < i; before++) again += block[before] == p;
    memset(p, 0xab, bytes);
    if (i % 3 == 0) {
      assert_true(hd_expand(p, BYTES - 20000) == p);
      assert_true(hd_expand(p, BYTES - 10000) == p);
      assert_filled(p, BYTES - 20000, 0xab);
    }
    size_t kept = own->kept_units;
    hd_free(p);
    reused += own->kept_units > kept;
    assert_false(can_touch(p) || can_touch(p + 50000));
    assert_true(own->kept_units <= 32 && own->kept_units <= own->run_units + (size_t)HD_QUARANTINE_SPARES * 4);
  }
  assert_true(again > COUNT / 2 && reused > 0); /* or nothing was shown */
  hd_thread_idle();
  assert_int_equal(own->kept_units, 0);
}

/* Memory that is locked can't be given back in the ordinary way: what stood in it must be gone all the same. */
static void test_locked_memory(void **state) {
  enum { BYTES = 300000, COUNT = 12 };
  (void)state;
  for (int i = 0; i < COUNT; i++) {
    uint8_t *p = hd_calloc(1, BYTES);
    assert_filled(p, BYTES, 0);
    memset(p, 0xab, BYTES);
    uint8_t *page = (uint8_t *)((uintptr_t)p & ~(uintptr_t)4095);
    if (mlock(page, (size_t)(p + BYTES - page)) != 0) skip(); /* the system allows less */
    hd_free(p);
  }
  hd_thread_idle(); /* to the common space, for whoever comes */
  uint8_t *kept[COUNT];
  for (int i = 0; i < COUNT; i++) assert_filled(kept[i] = hd_calloc(1, BYTES), BYTES, 0);
  for (int i = 0; i < COUNT; i++) hd_free(kept[i]);
}

/* Growth by moving: the content goes along, guards stand around it, and nothing is left where it was. */
static void test_growth_by_moving(void **state) {
  (void)state;
  size_t bytes = 200001;
  uint8_t *p = hd_malloc(bytes);
  memset(p, 0x5c, bytes);
  size_t moves = 0;
  while (bytes < 64 * HD_MIB) {
    size_t wanted = bytes * 2 + 777;
    uint8_t *moved = hd_realloc(p, wanted);
    assert_non_null(moved);
    assert_guarded(moved, wanted);
    assert_int_equal((uintptr_t)moved % 16, 0);
    assert_int_equal(hd_usable_size(moved), wanted);
    assert_filled(moved, bytes, 0x5c);
    assert_true(hdi_hardened_run_is_whole(hdi_space_find(moved)));
    for (size_t at = 0; moved != p && at < bytes; at += bytes / 7) assert_false(can_touch(p + at));
    moves += moved != p;
    memset(moved, 0x5c, wanted);
    p = moved, bytes = wanted;
  }
  assert_true(moves >= 4);
  hd_free(p);
  assert_false(can_touch(p));
}

/* No place to move to: the block stays, whole. */
static void test_growth_without_memory(void **state) {
  enum { BYTES = 300000 };
  (void)state;
  uint8_t *p = hd_malloc(BYTES);
  memset(p, 0x6d, BYTES);
  assert_null(hd_realloc(p, hdi_space.unit_count << HD_UNIT_SHIFT)); /* more than the window has */
  assert_filled(p, BYTES, 0x6d);
  assert_guarded(p, BYTES);
  hd_free(p);
}

/* Another thread may free the block at the very moment, which is the program's mistake: nothing is moved, and nothing is lost. */
static void test_freed_while_it_moves(void **state) {
  (void)state;
  hd_stats before = {.struct_bytes = sizeof before}, after = before;
  hd_hardened *own = hdi_heap_mine()->hardened;
  uint8_t *p = hd_malloc(300001);
  hd_unit *unit = hdi_space_find(p);
  hd_free(p);
  uint32_t resting = own->run_count;
  size_t held = hdi_space.top - hdi_space.free_units - hdi_space.passed_units;
  hd_stats_get(&before);
  assert_null(hdi_hardened_run_move(hdi_heap_mine(), unit, HD_MIB));
  hd_stats_get(&after);
  assert_int_equal(after.moved_total, before.moved_total);
  assert_int_equal(own->run_count, resting);
  assert_int_equal(hd_load_relaxed(&unit->live), 0);
  assert_int_equal(hdi_space.top - hdi_space.free_units - hdi_space.passed_units, held);
  assert_false(can_touch(p));
  hd_thread_idle();
}

/* Under a limit of memory nothing is set aside for later, and what had been goes before a request fails. */
static void test_under_a_limit(void **state) {
  enum { COUNT = 2000, BYTES = 60001 };
  static uint8_t *block[COUNT];
  (void)state;
  hd_free(hd_malloc(BYTES));
  hd_collect(0);
  size_t used = (hdi_space.top - hdi_space.free_units - hdi_space.passed_units) << HD_UNIT_SHIFT;
  char limit[32];
  snprintf(limit, sizeof limit, "%zu", used + HD_MIB);
  assert_int_equal(hd_option_set("limit", limit), HD_OK);
  size_t count = 0;
  while (count < COUNT && (block[count] = hd_malloc(BYTES)) != NULL) assert_guarded(block[count++], BYTES);
  assert_true(count >= 16 && count < COUNT); /* a MiB, and what the reserve had left */
  assert_true((hdi_space.top - hdi_space.free_units - hdi_space.passed_units) << HD_UNIT_SHIFT <= used + HD_MIB);
  for (size_t i = 0; i < count; i++) hd_free(block[i]);
  for (size_t i = 0; i < 100; i++) {
    uint8_t *p = hd_malloc(BYTES);
    assert_guarded(p, BYTES);
    hd_free(p);
  }
  assert_int_equal(hd_option_set("limit", "0"), HD_OK);
}

/* Threads take from one reserve, renew it and give it up at the same time: no two blocks share a page. */
static void *take_and_fill(void *mark) {
  enum { COUNT = 40, ROUNDS = 60, BYTES = 61000 };
  uint8_t *block[COUNT];
  for (int round = 0; round < ROUNDS; round++) {
    for (int i = 0; i < COUNT; i++) {
      block[i] = hd_calloc(1, BYTES);
      if (block[i] == NULL || block[i][0] != 0 || block[i][BYTES - 1] != 0) return NULL;
      memset(block[i], *(uint8_t *)mark, BYTES);
    }
    if (round % 8 == 7) hdi_hardened_run_yield();
    for (int i = 0; i < COUNT; i++) {
      if (block[i][0] != *(uint8_t *)mark || memcmp(block[i], block[i] + 1, BYTES - 1) != 0) return NULL;
      hd_free(block[i]);
    }
    if (round % 5 == 4) hd_thread_idle();
  }
  return mark;
}

static void test_threads_share_the_reserve(void **state) {
  enum { THREADS = 4 };
  static uint8_t mark[THREADS] = {1, 2, 3, 4};
  pthread_t thread[THREADS];
  (void)state;
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, take_and_fill, &mark[i]), 0);
  for (int i = 0; i < THREADS; i++) {
    void *done = NULL;
    pthread_join(thread[i], &done);
    assert_ptr_equal(done, &mark[i]);
  }
}

static void test_every_alignment(void **state) {
  (void)state;
  for (size_t alignment = 16; alignment <= 4 * HD_MIB; alignment *= 2) {
    for (size_t bytes = 0; bytes <= 300000; bytes = bytes * 3 + 1) {
      uint8_t *p = hd_aligned_zalloc(alignment, bytes);
      assert_non_null(p);
      assert_int_equal((uintptr_t)p & (alignment - 1), 0);
      assert_int_equal(hd_usable_size(p), bytes);
      for (size_t i = 0; i < bytes; i++) assert_int_equal(p[i], 0);
      memset(p, 0xff, bytes);
      hd_free_aligned_sized(p, alignment, bytes);
      p = hd_aligned_alloc(alignment, bytes);
      assert_int_equal((uintptr_t)p & (alignment - 1), 0);
      assert_int_equal(hd_usable_size(p), bytes);
      hd_free_aligned_sized(p, alignment, bytes);
    }
  }
}

/* ---- looking ----------------------------------------------------------------------------------------------------- */

static bool find_block(const hd_area *area, void *block, size_t block_bytes, void *user) {
  void **wanted = user;
  (void)area;
  if (block == NULL || block != wanted[0]) return true;
  wanted[1] = (void *)block_bytes;
  return false;
}

static void test_usable_is_what_was_asked(void **state) {
  (void)state;
  for (size_t bytes = 0; bytes < 200000; bytes += bytes / 5 + 1) {
    void *p = hd_malloc(bytes);
    void *found[2] = {p, NULL};
    assert_int_equal(hd_usable_size(p), bytes);
    assert_int_equal(hd_good_size(bytes), bytes);
    assert_false(hd_heap_walk(NULL, true, find_block, found));
    assert_int_equal((size_t)found[1], bytes);
    p = hd_realloc(p, bytes + 100);
    assert_int_equal(hd_usable_size(p), bytes + 100);
    assert_true(hd_expand(p, bytes + 50) == p);
    assert_int_equal(hd_usable_size(p), bytes + 50);
    hd_free_sized(p, bytes + 50);
  }
}

/* A heap with one user has no hardened blocks, and a block that anybody else resizes leaves it: without room to grow (core/resize.c). */
static void test_usable_is_what_was_asked_of_a_heaps_block(void **state) {
  (void)state;
  hd_heap *heap = hd_heap_create(&(hd_heap_config){.one_user = true});
  for (size_t bytes = 1024; bytes < 50000; bytes += bytes / 8) {
    size_t more = hd_usable_size(hd_heap_malloc(heap, bytes)) + 1;
    void *p = hd_realloc(hd_heap_malloc(heap, bytes), more);
    assert_int_equal(hd_usable_size(p), more);
    hd_free_sized(p, more);
  }
  hd_heap_destroy(heap);
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

static int begin_reports(void **state) {
  (void)state;
  ts_reports.count = 0;
  hd_misuse_hook_set(ts_count_report);
  return hd_option_set("onerror", "ignore") == HD_OK ? 0 : -1;
}

static int end_reports(void **state) {
  (void)state;
  hd_thread_idle();
  hd_misuse_hook_set(NULL);
  return hd_option_set("onerror", "abort") == HD_OK ? 0 : -1;
}

static void assert_told(const char *code, int count) {
  assert_int_equal(ts_reports.count, count);
  assert_string_equal(ts_reports.code, code);
}

/* Of long blocks the beginning, the middle and the end are looked at when they leave the quarantine. */
static void test_writes_to_freed_blocks(void **state) {
  (void)state;
  enum { BYTES = 20400 };
  static const size_t places[] = {0, 100, BYTES / 2 + 300, BYTES - 1};
  for (int i = 0; i < 4; i++) {
    uint8_t *p = hd_malloc(BYTES);
    hd_free(p);
    p[places[i]] = 1;
    hd_thread_idle();
    assert_told("HD-E11", i + 1);
    p[places[i]] = 0;
  }
}

static void test_freed_again(void **state) {
  (void)state;
  static const size_t sizes[] = {100, 20000, 300000};
  for (int i = 0; i < 3; i++) {
    void *p = hd_malloc(sizes[i]);
    hd_free(p);
    hd_free(p);
    assert_told("HD-E03", 2 * i + 1);
    assert_int_equal(hd_usable_size(p), 0);
    assert_told("HD-E04", 2 * i + 2);
    hd_thread_idle();
  }
}

/* What lies behind the end was written to; the size of the block is told as far as it is known. */
static void test_overrun(void **state) {
  (void)state;
  static const size_t sizes[] = {100, 20001, 300001};
  for (int i = 0; i < 3; i++) {
    uint8_t *p = hd_malloc(sizes[i]);
    uint8_t kept = p[sizes[i]];
    p[sizes[i]] ^= 0x55;
    assert_int_equal(hd_usable_size(p), sizes[i]);
    assert_told("HD-E10", 2 * i + 1);
    hd_free(p);
    assert_told("HD-E10", 2 * i + 2);
    (void)kept;
  }
  uint8_t *p = hd_malloc(100);
  memset(p + 100, 0, 12); /* the guard word too: all that is left is the class */
  assert_int_equal(hd_usable_size(p), 112 - HD_SEAL_BYTES);
  assert_told("HD-E10", 7);
  void *found[2] = {p, NULL};
  assert_false(hd_heap_walk(NULL, true, find_block, found));
  assert_int_equal((size_t)found[1], 112 - HD_SEAL_BYTES);
  hd_free(p);
  assert_told("HD-E10", 8);
}

/* A guard word that says what no block can have, told as often as it should be: it is no word of ours. */
static void test_forged_word(void **state) {
  (void)state;
  static const uint64_t slacks[] = {0, 1, HD_SEAL_BYTES - 1, 113, 0xffff};
  for (int i = 0; i < 5; i++) {
    uint8_t *p = hd_malloc(100);
    size_t bytes = hdi_space_find(p)->block_bytes;
    assert_int_equal(bytes, 112);
    hdi_seal_store(p + bytes - HD_SEAL_BYTES, hdi_seal_word(p) ^ slacks[i] * HD_SEAL_LANES);
    assert_true(hdi_seal_guess(p, bytes) == HD_SEAL_BROKEN);
    assert_int_equal(hd_usable_size(p), bytes - HD_SEAL_BYTES);
    assert_told("HD-E10", 2 * i + 1);
    hd_free(p);
    assert_told("HD-E10", 2 * i + 2);
  }
}

/* A sized free is compared where there is a block to compare it with; all else is for the free itself to tell. */
static void test_said_sizes(void **state) {
  (void)state;
  static const size_t sizes[] = {100, 300001};
  hd_free_sized(NULL, 77);
  assert_int_equal(ts_reports.count, 0);
  for (int i = 0; i < 2; i++) {
    uint8_t *p = hd_malloc(sizes[i]);
    ts_reports.count = 0;
    hd_free_sized(p, sizes[i] + 1);
    assert_told("HD-E13", 1);
    hd_free_aligned_sized(p, (size_t)1 << 30, sizes[i]);
    assert_told("HD-E13", 2);
    hd_free_sized(p + 16, sizes[i]);
    assert_told("HD-E01", 3);
    p[sizes[i]] ^= 0x55;
    if (i == 0) {
      hd_free_sized(p, sizes[i]);
      assert_told("HD-E10", 4);
    } else {
      p[sizes[i]] ^= 0x55;
      hd_free_sized(p, sizes[i]);
      assert_int_equal(ts_reports.count, 3);
    }
    ts_reports.count = 0;
    hd_free_sized(p, sizes[i]);
    assert_told("HD-E03", 1);
    hd_thread_idle();
  }
}

/* What a fault's handler says, of addresses all around a block between guards; silence about all others. */
static void test_faults(void **state) {
  (void)state;
  hd_heap *heap = hd_heap_create(NULL); /* of the default mode */
  uint8_t *p = hd_malloc(300000), *q = hd_heap_malloc(heap, 300000), *small = hd_malloc(100);
  const uint8_t *silent[] = {NULL, (const uint8_t *)&ts_reports, small, q, q + 100000};
  for (int i = 0; i < 5; i++) hdi_report_fault(silent[i]);
  assert_int_equal(ts_reports.count, 0);
  hdi_report_fault(p - 4096);
  hdi_report_fault(p + 300000);
  hdi_report_fault(p - 1);
  assert_told("HD-E12", 3);
  hd_free(p);
  hdi_report_fault(p + 100);
  assert_told("HD-E12", 4);
  hd_free(small);
  hd_heap_destroy(heap);
}

int main(void) {
  hd_free(hd_malloc(1));
  if (!hdi_hardened_is_on()) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_slack),
      cmocka_unit_test(test_every_changed_byte),
      cmocka_unit_test(test_first_byte_is_never_zero),
      cmocka_unit_test(test_impossible_slack),
      cmocka_unit_test(test_placement_is_random),
      cmocka_unit_test(test_freed_blocks_rest),
      cmocka_unit_test(test_freed_blocks_are_clear),
      cmocka_unit_test(test_quarantine_is_bounded),
      cmocka_unit_test(test_other_threads_give_back),
      cmocka_unit_test(test_guards_run_out),
      cmocka_unit_test(test_guards_on_both_sides),
      cmocka_unit_test(test_kept_runs),
      cmocka_unit_test(test_locked_memory),
      cmocka_unit_test(test_growth_by_moving),
      cmocka_unit_test(test_growth_without_memory),
      cmocka_unit_test(test_freed_while_it_moves),
      cmocka_unit_test(test_under_a_limit),
      cmocka_unit_test(test_threads_share_the_reserve),
      cmocka_unit_test(test_every_alignment),
      cmocka_unit_test(test_usable_is_what_was_asked),
      cmocka_unit_test(test_usable_is_what_was_asked_of_a_heaps_block),
      cmocka_unit_test_setup_teardown(test_writes_to_freed_blocks, begin_reports, end_reports),
      cmocka_unit_test_setup_teardown(test_freed_again, begin_reports, end_reports),
      cmocka_unit_test_setup_teardown(test_overrun, begin_reports, end_reports),
      cmocka_unit_test_setup_teardown(test_forged_word, begin_reports, end_reports),
      cmocka_unit_test_setup_teardown(test_said_sizes, begin_reports, end_reports),
      cmocka_unit_test_setup_teardown(test_faults, begin_reports, end_reports),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
