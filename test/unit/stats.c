/* Walks and statistics: every area and block once, stopped wherever the visitor says so, heaps in their own memory with the rest; sums that
 * agree with what the program holds; structs of other lengths.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "heddle.h"
#include "heddle/arena.h"

enum { SMALL = 200, LARGE = 3, OWN = 50, MIB = 1 << 20 };

static void *small[SMALL], *large[LARGE], *own[OWN];
static hd_heap *heap, *own_heap;
static hd_arena *arena;
static void *memory;

static int fill(void **state) {
  (void)state;
  hd_heap_config config = {.struct_bytes = sizeof config, .memory = memory = malloc(2 * MIB), .memory_bytes = 2 * MIB};
  heap = hd_heap_create(NULL);
  own_heap = hd_heap_create(&config);
  arena = hd_arena_create(NULL);
  for (int i = 0; i < SMALL; i++) small[i] = hd_heap_malloc(heap, (size_t)i * 50);
  for (int i = 0; i < LARGE; i++) large[i] = hd_heap_malloc(heap, (size_t)(i + 1) * 100000);
  for (int i = 0; i < OWN; i++) own[i] = hd_heap_malloc(own_heap, 1000);
  return arena == NULL || own_heap == NULL || hd_arena_alloc(arena, 100) == NULL;
}

static int empty(void **state) {
  (void)state;
  hd_arena_destroy(arena);
  hd_heap_destroy(heap);
  hd_heap_destroy(own_heap);
  free(memory);
  return 0;
}

typedef struct seen {
  size_t calls, stop_at;  /* visits; the visit that stops the walk, 0: none */
  size_t areas[HD_AREA_HANDLES + 1], blocks, block_bytes;
} seen;

static bool visit(const hd_area *area, void *block, size_t block_bytes, void *user) {
  seen *here = user;
  if (block == NULL) {
    here->areas[area->kind]++;
  } else {
    assert_int_equal(block_bytes, hd_usable_size(block));
    assert_true((uint8_t *)block >= (const uint8_t *)area->address);
    assert_true((uint8_t *)block + block_bytes <= (const uint8_t *)area->address + area->bytes);
    here->blocks++;
    here->block_bytes += block_bytes;
  }
  return ++here->calls != here->stop_at;
}

static seen walk(hd_heap *of, bool blocks, size_t stop_at) {
  seen found = {.stop_at = stop_at};
  bool whole = hd_heap_walk(of, blocks, visit, &found);
  assert_int_equal(whole, stop_at == 0 || found.calls < stop_at);
  assert_true(stop_at == 0 || found.calls <= stop_at);
  return found;
}

static void test_one_heap(void **state) {
  (void)state;
  seen all = walk(heap, true, 0);
  assert_int_equal(all.blocks, SMALL + LARGE);
  assert_int_equal(all.areas[HD_AREA_LARGE], LARGE);
  assert_int_equal(all.areas[HD_AREA_ARENA], 0);
  seen areas = walk(heap, false, 0);
  assert_int_equal(areas.blocks, 0);
  assert_int_equal(areas.areas[HD_AREA_PAGE], all.areas[HD_AREA_PAGE]);
  assert_int_equal(walk(own_heap, true, 0).blocks, OWN);
}

/* Stopped at each of its visits in turn, of all kinds. */
static void test_stops(void **state) {
  (void)state;
  hd_heap *const of[] = {heap, own_heap, NULL};
  for (int i = 0; i < 3; i++) {
    for (int blocks = 0; blocks < 2; blocks++) {
      size_t calls = walk(of[i], blocks, 0).calls;
      for (size_t at = 1; at <= calls; at++) assert_int_equal(walk(of[i], blocks, at).calls, at);
    }
  }
}

static void test_all_heaps(void **state) {
  (void)state;
  seen all = walk(NULL, true, 0);
  assert_true(all.blocks >= SMALL + LARGE + OWN);
  assert_int_equal(all.areas[HD_AREA_ARENA], 1);
  assert_false(hd_heap_walk(NULL, true, NULL, NULL));
  hd_heap_destroy(own_heap); /* gone from the walk with its memory */
  seen fewer = walk(NULL, true, 0);
  assert_int_equal(all.blocks - fewer.blocks, OWN);
  own_heap = NULL;
}

static void test_sums(void **state) {
  (void)state;
  hd_stats stats = {.struct_bytes = sizeof stats};
  assert_true(hd_heap_stats_get(heap, &stats));
  seen all = walk(heap, true, 0);
  assert_int_equal(stats.live_count, SMALL + LARGE);
  assert_int_equal(stats.live, all.block_bytes);
  size_t usable = 0;
  for (int i = 0; i < LARGE; i++) usable += hd_usable_size(large[i]);
  assert_int_equal(stats.large, usable);
  assert_int_equal(stats.page_count, all.areas[HD_AREA_PAGE]);
  assert_int_equal(stats.objects, 0);
  assert_int_equal(stats.resident, 0); /* of the process, not of a heap */
  for (int i = 0; i < SMALL; i++) hd_free(small[i]);
  for (int i = 0; i < LARGE; i++) hd_free(large[i]);
  assert_true(hd_heap_stats_get(heap, &stats));
  assert_int_equal(stats.live | stats.live_count | stats.large, 0);
}

static void test_lengths(void **state) {
  (void)state;
  struct {
    hd_stats stats;
    size_t behind;
  } longer;
  hd_stats stats;
  memset(&longer, 0x77, sizeof longer);
  longer.stats.struct_bytes = sizeof longer;
  assert_true(hd_stats_get(&longer.stats));
  assert_int_equal(longer.behind, 0x7777777777777777u);
  memset(&stats, 0x77, sizeof stats);
  stats.struct_bytes = offsetof(hd_stats, live_count);
  assert_true(hd_stats_get(&stats));
  assert_true(stats.live > 0 && stats.live != 0x7777777777777777u);
  assert_int_equal(stats.live_count, 0x7777777777777777u);
  stats.struct_bytes--;
  assert_false(hd_stats_get(&stats));
  assert_false(hd_stats_get(NULL));
  assert_false(hd_heap_stats_get(NULL, &stats));
  assert_false(hd_heap_stats_get(heap, NULL));
}

static void test_texts(void **state) {
  (void)state;
  size_t (*const print[])(char *, size_t) = {hd_stats_text, hd_stats_json};
  for (int i = 0; i < 2; i++) {
    char whole[4096], part[100];
    size_t length = print[i](whole, sizeof whole);
    assert_int_equal(length, strlen(whole));
    assert_true(print[i](part, sizeof part) > sizeof part);
    assert_int_equal(strlen(part), sizeof part - 1);
    assert_true(print[i](NULL, 0) > sizeof part);
    assert_non_null(strstr(whole, hd_version_text()));
  }
  assert_int_equal(hd_version(), HEDDLE_VERSION);
}

enum { UNIT = 65536, ROW = 12, HOLE = 4, BEHIND = 9 };

typedef struct row {
  hd_heap *heap;
  void *block[ROW];
  size_t seen_behind;
} row;

/* As another thread might at that moment. */
static bool free_the_middle(const hd_area *area, void *block, size_t block_bytes, void *user) {
  row *here = user;
  assert_true(block == NULL && block_bytes == 0);
  if (area->address == here->block[HOLE]) hd_heap_free(here->heap, here->block[HOLE]);
  for (int i = BEHIND; i < ROW; i++) here->seen_behind += area->address == here->block[i];
  return true;
}

/* The walk stands at a block between two free runs, which become one with it: it comes upon the last unit of that without having seen the
 * first, and must not take it for one. */
static void test_a_run_put_together_under_the_walk(void **state) {
  (void)state;
  void *place = malloc(2 * MIB);
  hd_heap_config config = {.struct_bytes = sizeof config, .memory = place, .memory_bytes = 2 * MIB};
  row here = {.heap = hd_heap_create(&config)};
  for (int i = 0; i < ROW; i++) {
    here.block[i] = hd_heap_malloc(here.heap, UNIT);
    assert_true(i == 0 || here.block[i] == (char *)here.block[i - 1] + UNIT);
  }
  for (int i = 0; i < BEHIND; i++) {
    if (i != HOLE) hd_heap_free(here.heap, here.block[i]);
  }
  assert_true(hd_heap_walk(here.heap, false, free_the_middle, &here));
  assert_int_equal(here.seen_behind, ROW - BEHIND);
  hd_heap_destroy(here.heap);
  free(place);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_one_heap, fill, empty),  cmocka_unit_test_setup_teardown(test_stops, fill, empty),
      cmocka_unit_test_setup_teardown(test_all_heaps, fill, empty), cmocka_unit_test_setup_teardown(test_sums, fill, empty),
      cmocka_unit_test_setup_teardown(test_lengths, fill, empty),   cmocka_unit_test_setup_teardown(test_texts, fill, empty),
      cmocka_unit_test(test_a_run_put_together_under_the_walk),
  };
  return cmocka_run_group_tests_name("stats", tests, NULL, NULL);
}
