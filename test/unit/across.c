/* Blocks that are taken long and cut to what they hold: the next one begins where the last one ends, in memory that is old at first and new
 * behind; a long run of which little is kept stays whole; and what shrinks by little keeps what it has.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/heap.h"
#include "core/options.h"
#include "core/space.h"
#include "heddle.h"

#define MIB ((size_t)1 << 20)
enum { LONG = 2000, OLD = 10, NEW = 10, MOST = 16 };

static size_t top(void) { return hd_load_relaxed(&hdi_space.top); }
static uint8_t *memory_of(const hd_unit *unit) { return hdi_space_address(&hdi_space, unit); }

/* Nothing old is left in the space, nor with the heap; nor much that was. */
static int no_old_memory(void **state) {
  (void)state;
  hd_collect(0);
  hd_thread_idle();
  while (hdi_space_has_dirty(&hdi_space, 1)) assert_non_null(hdi_space_take_dirty(&hdi_space, 1));
  while (hdi_space_take_clean_again(&hdi_space, MOST) != NULL) {
  }
  return 0;
}

/* A run that ends at the top. */
static hd_unit *run_at_top(void) {
  hd_unit *run = hdi_space_take_clean(&hdi_space, LONG, 1);
  assert_non_null(run);
  assert_ptr_equal(run + LONG, hdi_space.units + top());
  return run;
}

/* Old units with new ones behind them, all between others. */
static hd_unit *lay(void) {
  hd_unit *run = run_at_top();
  memset(memory_of(run + 1), 0xff, (size_t)OLD << HD_UNIT_SHIFT);
  hdi_space_give(&hdi_space, run + 1, OLD, true);
  hdi_space_give(&hdi_space, run + 1 + OLD, NEW, false);
  return run + 1;
}

static void test_old_and_new(void **state) {
  (void)state;
  size_t dirty = 0;
  hd_unit *old = lay();
  assert_null(hdi_space_take_across(&hdi_space, OLD, 1, &dirty));           /* the old run is long enough */
  assert_null(hdi_space_take_across(&hdi_space, OLD + NEW + 1, 1, &dirty)); /* there are not so many */
  assert_null(hdi_space_take_across(&hdi_space, OLD + 1, OLD + 1, &dirty)); /* not so many are old */
  size_t unused = hd_load_relaxed(&hdi_space.free_units), before = top();
  hd_unit *run = hdi_space_take_across(&hdi_space, OLD + 7, OLD, &dirty);
  assert_ptr_equal(run, old);
  assert_int_equal(dirty, OLD);
  assert_int_equal(run->run_units, OLD + 7);
  assert_int_equal(hd_load_relaxed(&hdi_space.free_units), unused - OLD - 7);
  assert_int_equal(hd_load_relaxed(&hdi_space.dirty.units), 0);
  assert_int_equal(top(), before);
  assert_int_equal(hd_load_relaxed(&run[OLD + 7].kind), HD_UNIT_CLEAN);
  assert_int_equal(run[OLD + 7].run_units, NEW - 7);
  assert_int_equal(memory_of(run)[0], 0xff);
  assert_int_equal(memory_of(run + OLD)[0], 0);
}

static void test_up_to_the_top(void **state) {
  (void)state;
  size_t dirty = 0;
  hd_unit *run = run_at_top() + LONG - OLD;
  size_t before = top();
  hdi_space_give(&hdi_space, run, OLD, true);
  assert_ptr_equal(hdi_space_take_across(&hdi_space, OLD + 7, OLD, &dirty), run);
  assert_int_equal(dirty, OLD);
  assert_int_equal(top(), before + 7);
}

/* What is right behind an old run may be anybody's. */
static void test_nothing_behind(void **state) {
  (void)state;
  size_t dirty = 0;
  hd_unit *run = run_at_top(), *others = run_at_top();
  assert_ptr_equal(others, run + LONG);
  hdi_space_give(&hdi_space, others - OLD, OLD, true);
  assert_null(hdi_space_take_across(&hdi_space, OLD + 1, OLD, &dirty));
}

/* New memory is not taken while there is old enough, wherever that is. */
static void test_old_enough(void **state) {
  (void)state;
  size_t dirty = 0;
  lay();
  hd_unit *run = run_at_top();
  hdi_space_give(&hdi_space, run + 1, OLD + NEW, true);
  assert_null(hdi_space_take_across(&hdi_space, OLD + 1, OLD, &dirty));
}

static void test_limit(void **state) {
  (void)state;
  size_t dirty = 0;
  hd_unit *old = lay();
  hdi_options.limit = (int64_t)(hdi_space_used(&hdi_space) + OLD) << HD_UNIT_SHIFT;
  hd_unit *run = hdi_space_take_across(&hdi_space, OLD + 1, OLD, &dirty);
  hdi_options.limit = 0;
  assert_null(run);
  assert_ptr_equal(hdi_space_take_across(&hdi_space, OLD + 1, OLD, &dirty), old);
}

/* The pattern of programs that read into a buffer that is long enough for anything: no page is moved, and new memory is taken by as much
 * as is kept. */
static void test_cut_blocks_lie_side_by_side(void **state) {
  (void)state;
  uint8_t *blocks[MOST];
  hd_unit *run = run_at_top();
  hdi_space_give(&hdi_space, run, LONG / 2, false);
  for (size_t i = 0; i < MOST; i++) {
    blocks[i] = hd_malloc(MIB);
    assert_ptr_equal(blocks[i], memory_of(run + 2 * i));
    memset(blocks[i], (int)i, 2 * HD_UNIT_BYTES);
    assert_ptr_equal(hd_realloc(blocks[i], 2 * HD_UNIT_BYTES), blocks[i]);
  }
  for (size_t i = 0; i < MOST; i++) assert_true(blocks[i][0] == i && memcmp(blocks[i], blocks[i] + 1, 2 * HD_UNIT_BYTES - 1) == 0);
  for (size_t i = 0; i < MOST; i++) hd_free(blocks[i]);
}

/* calloc promises zero, and would have to clear what nobody may ever touch. */
static void test_zeroed_blocks_are_new(void **state) {
  (void)state;
  hd_unit *old = lay();
  unsigned char *p = hd_zalloc((size_t)(OLD + 5) << HD_UNIT_SHIFT);
  assert_non_null(p);
  assert_ptr_not_equal(p, memory_of(old));
  assert_true(p[0] == 0 && memcmp(p, p + 1, ((size_t)(OLD + 5) << HD_UNIT_SHIFT) - 1) == 0);
  hd_free(p);
}

/* Little of a long block is copied, where there is old memory for it, and the run is there for the next. More stays where it is. */
static void test_long_runs_stay_whole(void **state) {
  (void)state;
  lay();
  uint8_t *p = hd_malloc(8 * MIB);
  memset(p, 0x5a, 8 * MIB);
  hd_unit *first = hdi_space_find(p);
  size_t units = first->run_units;
  assert_ptr_equal(hd_realloc(p, 4 * MIB + 1), p);
  assert_ptr_equal(hd_realloc(p, 8 * MIB), p);
  uint8_t *kept = hd_realloc(p, 400000);
  assert_ptr_not_equal(kept, p);
  assert_true(kept[0] == 0x5a && memcmp(kept, kept + 1, 400000 - 1) == 0);
  assert_int_equal(hd_load_relaxed(&first->kind), HD_UNIT_DIRTY);
  assert_in_range(first->run_units, units, SIZE_MAX);
  uint8_t *again = hd_malloc(8 * MIB);
  assert_ptr_equal(again, p);
  void *old = hd_malloc(3 * MIB), *wall = hd_malloc(MIB);
  memset(old, 1, 3 * MIB);
  hd_free(old);
  assert_true(hdi_space_has_dirty(&hdi_space, HD_EXACT_BINS));
  assert_ptr_equal(hd_realloc(again, 2 * MIB), again); /* too much to copy */
  hd_free(wall);
  hd_free(again);
  hd_free(kept);
}

static void expect_units(size_t from, size_t to, size_t left) {
  uint8_t *p = hd_malloc(from << HD_UNIT_SHIFT);
  hd_unit *first = hdi_space_find(p);
  assert_int_equal(first->run_units, from);
  assert_ptr_equal(hd_realloc(p, to << HD_UNIT_SHIFT), p);
  assert_int_equal(first->run_units, left);
  hd_free(p);
}

/* A quarter goes back, or 1 MiB, and an eighth at least. */
static void test_little_is_kept(void **state) {
  (void)state;
  expect_units(8, 7, 8);
  expect_units(8, 6, 6);
  expect_units(3, 2, 2);
  expect_units(60, 45, 45);
  expect_units(60, 46, 60);
  hdi_options.limit = INT64_MAX; /* no whole huge pages */
  expect_units(100, 85, 100);
  expect_units(100, 84, 84);
  expect_units(1600, 1401, 1600);
  expect_units(1600, 1400, 1400);
  hdi_options.limit = 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_old_and_new, no_old_memory),
      cmocka_unit_test_setup(test_up_to_the_top, no_old_memory),
      cmocka_unit_test_setup(test_nothing_behind, no_old_memory),
      cmocka_unit_test_setup(test_old_enough, no_old_memory),
      cmocka_unit_test_setup(test_limit, no_old_memory),
      cmocka_unit_test_setup(test_cut_blocks_lie_side_by_side, no_old_memory),
      cmocka_unit_test_setup(test_zeroed_blocks_are_new, no_old_memory),
      cmocka_unit_test_setup(test_long_runs_stay_whole, no_old_memory),
      cmocka_unit_test_setup(test_little_is_kept, no_old_memory),
  };
  return cmocka_run_group_tests_name("across", tests, NULL, NULL);
}
