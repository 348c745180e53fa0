/* Hardened mode on systems unlike the one that tests run on, each in a child of its own: guards that the system refuses to set or to take
 * away, memory that it neither gives nor takes back, pages of 64 KiB, threads that can't have a heap. What is refused stands in systems.c.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "core/hardened.h"
#include "core/store.h"
#include "core/thread.h"
#include "heddle.h"
#include "os/os.h"
#include "systems.h"

#define MIB ((size_t)1 << 20)

enum { SHORT = 60000 /* its run comes from the reserve, and is kept when it is freed */, LARGE = 300000, HUGE_BLOCK = 9 << 20 };

/* Start in hardened mode, with a guard page for one in so many small blocks. */
static void start(int sample) {
  char options[64];
  snprintf(options, sizeof options, "hardened,hardened-sample:%d", sample);
  setenv("HEDDLE", options, 1);
  hd_free(hd_malloc(1));
  TS_CHECK(hdi_hardened_is_on(), "hardened mode");
}

static uint8_t *filled(size_t bytes) {
  uint8_t *p = hd_malloc(bytes);
  TS_CHECK(p != NULL, "%zu bytes", bytes);
  return memset(p, 0x5a, bytes);
}

static void check_zero(const uint8_t *p, size_t bytes) {
  TS_CHECK(p != NULL && p[0] == 0 && memcmp(p, p + 1, bytes - 1) == 0, "%zu bytes of zero", bytes);
}

static void check_filled(const uint8_t *p, size_t bytes) {
  TS_CHECK(p[0] == 0x5a && memcmp(p, p + 1, bytes - 1) == 0, "%zu bytes of content", bytes);
}

static void use(void) {
  for (size_t bytes = 1; bytes < 16 * MIB; bytes = bytes * 2 + 1) {
    uint8_t *p = filled(bytes);
    p = hd_realloc(p, bytes + bytes / 3 + 1);
    check_filled(p, bytes);
    TS_CHECK(hd_usable_size(p) == bytes + bytes / 3 + 1, "%zu usable bytes", hd_usable_size(p));
    hd_free(p);
    p = hd_calloc(1, bytes);
    check_zero(p, bytes);
    hd_free(p);
  }
  hd_thread_idle();
  hd_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_stats_get(&stats) && stats.live == 0, "%zu bytes are live at the end", stats.live);
}

static unsigned guards_of(const void *p) { return hdi_space_find(p)->state; }

static void no_guards(void) {
  start(0);
  refuse.guard = -1;
  uint8_t *p = filled(LARGE);
  TS_CHECK(guards_of(p) == 0, "guards %u", guards_of(p));
  TS_CHECK(hd_expand(p, LARGE + 1) == p && hd_expand(p, 2 * LARGE) == NULL, "room in the run, and no more");
  hd_free(p);
  use();
}

static void no_front_guard(void) {
  start(0);
  refuse.guard_after = 1;
  refuse.guard = 1;
  uint8_t *p = filled(LARGE);
  TS_CHECK(guards_of(p) == 1, "guards %u", guards_of(p));
  hd_free(p);
  use();
}

/* The block is free, but can be touched: so it can't rest in the quarantine. */
static void no_closing(void) {
  start(0);
  uint8_t *p = filled(LARGE);
  refuse.guard = 1;
  hd_free(p);
  TS_CHECK(hdi_heap_mine()->hardened->run_count == 0, "a run that can be touched is in quarantine");
  p = filled(SHORT);
  refuse.guard = 1;
  hd_free(p);
  TS_CHECK(hdi_heap_mine()->hardened->run_count == 0, "a short run that can be touched is in quarantine");
  p = filled(LARGE);
  refuse.guard = refuse.unguard = -1;
  hd_free(p);
  TS_CHECK(p[0] == 0 && p[LARGE - 1] == 0, "a block that can neither be closed nor given back keeps its content");
  refuse.guard = refuse.unguard = 0;
  use();
}

static void set_limit(size_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%zu", bytes);
  TS_CHECK(hd_option_set("limit", text) == HD_OK, "limit %s", text);
}

static size_t held(void) {
  return (hd_load_relaxed(&hdi_space.top) - hd_load_relaxed(&hdi_space.free_units) - hd_load_relaxed(&hdi_space.passed_units))
         << HD_UNIT_SHIFT;
}

static size_t held_at_rest(void) {
  hdi_hardened_run_yield();
  hd_collect(0);
  return held();
}

/* Runs that can't be opened wait, without memory where the system takes that, and come back when they can. */
static void no_opening(void) {
  start(0);
  size_t before = held_at_rest();
  for (int refused = 0; refused < 2; refused++) {
    for (int i = 0; i < 100; i++) hd_free(filled(i % 2 == 0 ? LARGE : SHORT));
    TS_CHECK(hdi_heap_mine()->hardened->spare_count > 0 && hdi_heap_mine()->hardened->kept_units > 0, "spare runs, and kept ones");
    refuse.unguard = -1;
    uint8_t *p = filled(LARGE), *q = filled(SHORT);
    hd_free(p);
    hd_free(q);
    refuse.guard = refused == 1 ? -1 : 0;
    size_t waiting = held_at_rest();
    TS_CHECK(waiting > before && hdi_heap_mine()->hardened->kept_units == 0, "%zu bytes wait, %zu before", waiting, before);
    TS_CHECK(held_at_rest() == waiting, "what waits has grown");
    refuse.guard = refuse.unguard = 0;
    size_t after = held_at_rest();
    TS_CHECK(after <= before + MIB / 4, "%zu bytes are held, %zu before", after, before);
    check_zero(q = hd_calloc(1, SHORT), SHORT);
    hd_free(q);
  }
  use();
}

/* Another thread takes from the reserve while this one learns that it can't have its part of it opened: the part is not lost. */
static uint8_t *taken;

static void *take_short(void *unused) {
  taken = filled(SHORT);
  return unused;
}

static void take_meanwhile(void) {
  pthread_t thread;
  TS_CHECK(pthread_create(&thread, NULL, take_short, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
}

static void no_opening_meanwhile(void) {
  start(0);
  size_t before = held_at_rest();
  uint8_t *first = filled(SHORT);
  refuse.unguard = 1;
  refuse.meanwhile = take_meanwhile;
  uint8_t *p = filled(SHORT);
  TS_CHECK(taken != NULL && refuse.unguard == 0, "another thread was there meanwhile");
  size_t apart = (size_t)(taken - first) >> HD_UNIT_SHIFT;
  TS_CHECK(apart == 2 * (size_t)hdi_space_find(first)->run_units, "%zu units between a run and the one after the next", apart);
  hd_free(first);
  hd_free(taken);
  hd_free(p);
  size_t after = held_at_rest();
  TS_CHECK(after == before, "%zu bytes are held, %zu before", after, before);
  use();
}

/* Blocks grow by copying where their pages can't be moved, or the new run has no guards. */
static void no_moving(void) {
  start(0);
  for (int round = 0; round < 4; round++) {
    uint8_t *p = filled(LARGE);
    if (round == 0) refuse.move = 1;
    if (round == 1) refuse.guard = 1;
    if (round == 2) refuse.move = refuse.unguard = 1;
    if (round == 3) set_limit(held() + 10 * MIB);
    uint8_t *moved = hd_realloc(p, 9 * MIB);
    refuse = (struct refuse){0};
    set_limit(0);
    TS_CHECK(moved != NULL && moved != p, "a block that has moved");
    check_filled(moved, LARGE);
    hd_free(moved);
    hd_collect(0);
  }
  use();
}

static size_t moved_total(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_stats_get(&stats), "statistics");
  return stats.moved_total;
}

static void without_moves(void) { hdi_os.can_move = false; }
static void no_moves(void) {
  refuse.init = without_moves;
  refuse.move = 1;
  start(0);
  uint8_t *p = hd_realloc(filled(LARGE), 9 * MIB);
  check_filled(p, LARGE);
  hd_free(p);
  use();
  TS_CHECK(moved_total() == 0 && refuse.move == 1, "%zu bytes were moved, or were to be moved", moved_total());
}

/* A process makes so many moves and no more. */
static void many_moves(void) {
  enum { MOVES_MAX = 8192 };
  start(0);
  for (int i = 0; i < MOVES_MAX + 100; i++) {
    uint8_t *p = hd_malloc(LARGE);
    p[0] = p[LARGE - 1] = 0x5a;
    p = hd_realloc(p, 3 * LARGE);
    TS_CHECK(p != NULL && p[0] == 0x5a && p[LARGE - 1] == 0x5a, "content of block %d", i);
    hd_free(p);
  }
  size_t each = hd_round_up(LARGE, hdi_os.page_bytes);
  TS_CHECK(moved_total() == MOVES_MAX * each, "%zu blocks were moved", moved_total() / each);
  use();
}

static void no_resizing(void) {
  start(0);
  uint8_t *p = filled(LARGE);
  refuse.guard = 1;
  TS_CHECK(hd_expand(p, LARGE / 2) == p && hd_usable_size(p) == LARGE / 2, "it shrinks, though its end stays open,");
  TS_CHECK(p[LARGE - 10000] == 0 && p[LARGE - 1] == 0, "and clear");
  refuse.unguard = 1;
  TS_CHECK(hd_expand(p, LARGE) == NULL && hd_usable_size(p) == LARGE / 2, "refused, and nothing has changed");
  p = hd_realloc(p, LARGE);
  memset(p, 0x5a, LARGE);
  refuse.guard = 1;
  p = hd_realloc(p, LARGE - 50000);
  check_filled(p, LARGE - 50000);
  hd_free(p);
  use();
}

/* What was freed keeps its content, so that it has to be cleared by hand. */
static void no_purge(void) {
  start(0);
  refuse.purge = refuse.guard = -1;
  for (int round = 0; round < 3; round++) {
    hd_free(filled(HUGE_BLOCK));
    hd_free(filled(LARGE));
    uint8_t *p = hd_calloc(1, HUGE_BLOCK), *q = hd_calloc(1, LARGE);
    check_zero(p, HUGE_BLOCK);
    check_zero(q, LARGE);
    hd_free(p);
    hd_free(q);
  }
  use();
  refuse.purge = 0;
  uint8_t *p = hd_calloc(1, HUGE_BLOCK); /* dirty, but now it can be exchanged */
  check_zero(p, HUGE_BLOCK);
  hd_free(p);
  use();
}

static void with_large_pages(void) { hdi_os.page_bytes = HD_UNIT_BYTES; }
static void large_pages(void) {
  refuse.init = with_large_pages;
  refuse.seems_resident = true; /* the real system counts in shorter pages */
  start(3);
  uint8_t *p = filled(LARGE);
  TS_CHECK(guards_of(p) == 1, "a front guard of a whole unit");
  hd_free(p);
  p = hd_aligned_alloc(32768, LARGE);
  TS_CHECK(p != NULL && (uintptr_t)p % 32768 == 0, "aligned");
  hd_free(p);
  use();
}

/* More small blocks between guards than there may be: the rest lie in pages. */
static void many_samples(void) {
  enum { COUNT = 2000 };
  static uint8_t *blocks[COUNT];
  int guarded = 0;
  start(1);
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = filled(100);
    guarded += hd_load_relaxed(&hdi_space_find(blocks[i])->kind) == HD_UNIT_LARGE;
  }
  TS_CHECK(guarded == 1024, "%d samples", guarded);
  blocks[0] = hd_realloc(blocks[0], 56000); /* longer than its run, and still no large block */
  check_filled(blocks[0], 100);
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  use();
}

/* ENOMEM for each kind of block, sampled or not, and the block that was to grow stays; one that is to shrink can do so even then. */
static void refuse_all(void) {
  uint8_t *small = filled(100), *large = filled(LARGE);
  set_limit(1);
  for (size_t bytes = 1; bytes < HUGE_BLOCK; bytes = bytes * 3 + 1) {
    while (hd_malloc(bytes) != NULL) {
    }
    errno = 0;
    TS_CHECK(hd_malloc(bytes) == NULL && errno == ENOMEM, "%zu bytes", bytes);
    TS_CHECK(hd_aligned_alloc(8192, bytes) == NULL && errno == ENOMEM, "%zu aligned bytes", bytes);
  }
  TS_CHECK(hd_realloc(small, 20 * MIB) == NULL && hd_realloc(large, 20 * MIB) == NULL, "blocks that can't grow");
  TS_CHECK(hd_malloc((size_t)PTRDIFF_MAX + (large != NULL)) == NULL, "more than there can be");
  errno = 0;
  TS_CHECK(hd_realloc(large, LARGE / 4) == large && hd_usable_size(large) == LARGE / 4 && errno == 0, "a block shrinks where it stands");
  check_filled(small, 100);
  check_filled(large, LARGE / 4);
  set_limit(0);
  hd_free(small);
  hd_free(large);
}

static void no_memory(void) {
  start(0);
  refuse_all();
}

static void no_memory_sampled(void) {
  start(1);
  refuse_all();
}

/* What rests in the quarantine is given up before a request is refused. */
static void quarantine_before_refusal(void) {
  enum { COUNT = 8 };
  uint8_t *blocks[COUNT];
  start(0);
  for (int i = 0; i < COUNT; i++) blocks[i] = filled(MIB);
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  set_limit(held());
  uint8_t *p = filled(6 * MIB);
  set_limit(0);
  hd_free(p);
  use();
}

/* ---- threads without a heap ------------------------------------------------------------------------------------------ */

static void *without_heap(void *given) {
  uint8_t **blocks = given;
  errno = 0;
  TS_CHECK(hd_malloc(100) == NULL && errno == ENOMEM, "malloc without a heap");
  TS_CHECK(hd_aligned_alloc(256, 100) == NULL && hd_calloc(1, LARGE) == NULL, "nothing of any kind");
  TS_CHECK(hd_realloc(blocks[0], 2 * LARGE) == NULL, "what was to grow stays");
  TS_CHECK(hdi_heap_is_empty(hdi_heap_mine()), "no heap");
  for (int i = 0; i < 3; i++) {
    check_filled(blocks[i], 100);
    hd_free(blocks[i]);
  }
  return NULL;
}

/* Nothing is left for a heap; or, where one was destroyed, for what hardened mode adds to one. */
static void no_heaps(void) {
  enum { ROUNDS = 2 };
  uint8_t *blocks[ROUNDS][3];
  start(0);
  hd_heap *spare = hd_heap_create(NULL);
  for (int i = 0; i < ROUNDS; i++) {
    blocks[i][0] = filled(LARGE);
    blocks[i][1] = filled(100);
    blocks[i][2] = filled(20000);
  }
  refuse.claim = refuse.commit = -1;
  for (size_t bytes = HD_STORE_MAX; bytes >= HD_STORE_MIN; bytes /= 2) {
    while (hdi_store_take(bytes) != NULL) {
    }
  }
  for (int i = 0; i < ROUNDS; i++) {
    pthread_t thread;
    TS_CHECK(pthread_create(&thread, NULL, without_heap, blocks[i]) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    if (i == 0) hd_heap_destroy(spare);
  }
  hd_stats stats = {.struct_bytes = sizeof stats};
  hd_thread_idle();
  hd_collect(0);
  TS_CHECK(hd_stats_get(&stats) && stats.live == 0, "%zu bytes are live at the end", stats.live);
}

static const struct system systems[] = {
    {"no_guards", no_guards}, {"no_front_guard", no_front_guard}, {"no_closing", no_closing}, {"no_opening", no_opening},
    {"no_opening_meanwhile", no_opening_meanwhile}, {"no_moving", no_moving}, {"no_moves", no_moves}, {"many_moves", many_moves},
    {"no_resizing", no_resizing}, {"no_purge", no_purge}, {"large_pages", large_pages},
    {"many_samples", many_samples}, {"no_memory", no_memory}, {"no_memory_sampled", no_memory_sampled},
    {"quarantine_before_refusal", quarantine_before_refusal}, {"no_heaps", no_heaps},
};

int main(void) { return run_systems(systems, sizeof systems / sizeof systems[0]); }
