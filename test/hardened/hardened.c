/* Hardened mode from inside: seals over every size and every byte, random placement, the quarantine's order and bounds, guards that
 * run out, and what a walk and the statistics say. Runs with HEDDLE=hardened.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>
#include <heddle.h>

#include "core/hardened.h"
#include "core/options.h"

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
  for (size_t asked = 0; asked + HD_SEAL_BYTES <= sizeof block; asked += 7) {
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
  for (size_t i = 0; i < COUNT; i++) {
    block[i] = hd_malloc(60001);
    assert_non_null(block[i]);
    block[i][0] = block[i][60000] = (uint8_t)i;
    assert_int_equal((uintptr_t)block[i] % 16, 0);
  }
  assert_true(hdi_hardened_run_is_whole(hdi_space_find(block[COUNT - 1])));
  for (size_t i = 0; i < COUNT; i++) {
    assert_int_equal(block[i][60000], (uint8_t)i);
    hd_free(block[i]);
  }
  void *again = hd_malloc(60001);
  assert_int_not_equal(hdi_space_find(again)->state, 0); /* guards are to be had again */
  hd_free(again);
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

int main(void) {
  hd_free(hd_malloc(1));
  if (!hdi_hardened_is_on()) return 77;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_slack),
      cmocka_unit_test(test_every_changed_byte),
      cmocka_unit_test(test_first_byte_is_never_zero),
      cmocka_unit_test(test_placement_is_random),
      cmocka_unit_test(test_freed_blocks_rest),
      cmocka_unit_test(test_freed_blocks_are_clear),
      cmocka_unit_test(test_quarantine_is_bounded),
      cmocka_unit_test(test_other_threads_give_back),
      cmocka_unit_test(test_guards_run_out),
      cmocka_unit_test(test_every_alignment),
      cmocka_unit_test(test_usable_is_what_was_asked),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
