/* A long run of which little was touched stays whole when it is freed: the next block of about its length begins where it began. One that
 * was filled, tables from calloc and runs of up to 512 KiB are dirty memory like any other; and so are sparse ones when nothing else is
 * left.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/counters.h"
#include "core/options.h"
#include "core/space.h"
#include "core/space_fixed.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"

#define MIB ((size_t)1 << 20)
enum { PAUSES = 15, LEAST = 9, KEPT = 16 };

static bool system_is_silent;
static size_t looks;

size_t __real_hdi_os_resident_until(const void *address, size_t bytes, size_t *end);
size_t __wrap_hdi_os_resident_until(const void *address, size_t bytes, size_t *end);
size_t __wrap_hdi_os_resident_until(const void *address, size_t bytes, size_t *end) {
  looks++;
  if (!system_is_silent) return __real_hdi_os_resident_until(address, bytes, end);
  *end = bytes;
  return 0;
}

static size_t sparse_units(void) { return hd_load_relaxed(&hdi_space.sparse.units); }
static hd_unit *unit_at(const void *p) { return hdi_space_find(p); }
static unsigned kind_at(const void *p) { return hd_load_relaxed(&unit_at(p)->kind); }

/* A block of which the first byte is written, or all. What lies behind it is in use. */
static uint8_t *begun(size_t bytes) {
  uint8_t *p = hd_malloc(bytes);
  assert_non_null(p);
  assert_non_null(hd_malloc(HD_UNIT_BYTES));
  p[0] = 0x5a;
  return p;
}

static uint8_t *filled(size_t bytes) { return memset(begun(bytes), 0x5a, bytes); }

static uint8_t *freed(uint8_t *p) {
  hd_free(p);
  return p;
}

/* There are no sparse runs, and the next one that is freed is asked about: the last two differed. */
static int begin(void **state) {
  (void)state;
  for (int fill = 1; fill >= 0; fill--) {
    for (size_t before = looks; looks == before;) {
      hd_collect(0); /* or it would be a part of old memory */
      hd_free(fill ? filled(2 * MIB) : begun(2 * MIB));
    }
  }
  assert_in_range(sparse_units(), 2 * MIB >> HD_UNIT_SHIFT, SIZE_MAX);
  hd_collect(0);
  assert_int_equal(sparse_units(), 0);
  return 0;
}

static void test_stays_whole(void **state) {
  (void)state;
  uint8_t *p = begun(8 * MIB);
  size_t unused = hd_load_relaxed(&hdi_space.free_units), dirty = hd_load_relaxed(&hdi_space.dirty.units), units = unit_at(p)->run_units;
  hd_free(p);
  assert_int_equal(kind_at(p), HD_UNIT_SPARSE);
  assert_int_equal(hd_load_relaxed(&unit_at(p)[units - 1].kind), HD_UNIT_SPARSE);
  assert_int_equal(sparse_units(), units);
  assert_int_equal(hd_load_relaxed(&hdi_space.free_units), unused + units);
  assert_int_equal(hd_load_relaxed(&hdi_space.dirty.units), dirty);
  hd_stats stats = {.struct_bytes = sizeof stats};
  assert_true(hd_stats_get(&stats));
  assert_int_equal(stats.cached, (dirty + units) << HD_UNIT_SHIFT);
  assert_ptr_equal(hd_malloc(3 * MIB), p);
  assert_int_equal(p[0], 0x5a);
  assert_int_equal(unit_at(p)->run_units, units);
  assert_int_equal(hd_load_relaxed(&unit_at(p)[units - 1].kind), HD_UNIT_NONE);
  assert_int_equal(sparse_units(), 0);
  assert_int_equal(hd_load_relaxed(&hdi_space.free_units), unused);
  hd_free(p);
  assert_int_equal(sparse_units(), units);
}

/* The shortest that is long enough, and no more than four times as long. */
static void test_which_one(void **state) {
  (void)state;
  uint8_t *p[] = {begun(8 * MIB), begun(4 * MIB), begun(6 * MIB), begun(16 * MIB)};
  for (int i = 0; i < 4; i++) hd_free(p[i]);
  assert_ptr_equal(begun(5 * MIB), p[2]);
  assert_ptr_equal(begun(5 * MIB), p[0]);
  assert_ptr_equal(hdi_space_take_sparse(&hdi_space, (4 * MIB >> HD_UNIT_SHIFT) + 1, 1), unit_at(p[3]));
  assert_null(hdi_space_take_sparse(&hdi_space, (4 * MIB >> HD_UNIT_SHIFT) + 1, 1));
  hdi_space_give_sparse(&hdi_space, unit_at(p[3]));
  assert_int_equal(sparse_units(), 20 * MIB >> HD_UNIT_SHIFT);
  assert_ptr_equal(hdi_space_take_sparse(&hdi_space, MIB >> HD_UNIT_SHIFT, 1), unit_at(p[1]));
  assert_null(hdi_space_take_sparse(&hdi_space, (4 * MIB >> HD_UNIT_SHIFT) - 1, 1));
  assert_ptr_equal(hdi_space_take_sparse(&hdi_space, 4 * MIB >> HD_UNIT_SHIFT, 1), unit_at(p[3]));
}

static void test_not_what_was_filled(void **state) {
  (void)state;
  uint8_t *kept = begun(KEPT * HD_UNIT_BYTES);
  uint8_t *p = filled(8 * MIB), *q = begun((LEAST - 1) * HD_UNIT_BYTES), *r = begun(LEAST * HD_UNIT_BYTES);
  assert_int_not_equal(kind_at(freed(p)), HD_UNIT_SPARSE);
  assert_int_equal(kind_at(freed(kept)), HD_UNIT_LARGE); /* its heap keeps that, and has no room for more */
  hd_free(q);
  assert_int_equal(sparse_units(), 0);
  assert_int_equal(kind_at(freed(r)), HD_UNIT_SPARSE);
}

/* A block without huge pages, of which [from, to) is written: what its run is when it is freed. */
static unsigned kind_of_written(size_t bytes, size_t from, size_t to) {
  void *none = NULL;
  begin(&none);
  uint8_t *p = begun(bytes);
  hdi_space_leave_huge(p, (size_t)unit_at(p)->run_units << HD_UNIT_SHIFT);
  memset(p + from, 1, to - from);
  hd_free(p);
  return kind_at(p);
}

/* The unit in the middle of the run tells, and nothing else. */
static void test_its_middle_tells(void **state) {
  (void)state;
  assert_int_equal(kind_of_written(8 * MIB, 0, 4 * MIB), HD_UNIT_SPARSE);
  assert_int_equal(kind_of_written(8 * MIB, 4 * MIB + HD_UNIT_BYTES, 8 * MIB), HD_UNIT_SPARSE);
  assert_int_not_equal(kind_of_written(8 * MIB, 4 * MIB, 4 * MIB + 1), HD_UNIT_SPARSE);
  assert_int_not_equal(kind_of_written(8 * MIB, 4 * MIB + HD_UNIT_BYTES - 1, 4 * MIB + HD_UNIT_BYTES), HD_UNIT_SPARSE);
}

/* Of a run that was asked about, what lies behind its middle goes back, and the beginning stays; unless nothing may go back. */
static void test_ends_go_back(void **state) {
  for (int purge = 0; purge < 2; purge++) {
    begin(state);
    uint8_t *p = begun(8 * MIB);
    hdi_space_leave_huge(p, (size_t)unit_at(p)->run_units << HD_UNIT_SHIFT);
    memset(p + 5 * MIB, 1, MIB);
    hdi_options.purge = purge;
    hd_free(p);
    hdi_options.purge = 1;
    assert_int_equal(kind_at(p), HD_UNIT_SPARSE);
    assert_int_equal(hdi_os_resident_in(p + 4 * MIB, 4 * MIB), purge ? 0 : MIB);
    assert_in_range(hdi_os_resident_in(p, 4 * MIB), hdi_os.page_bytes, MIB);
    assert_int_equal(p[0], 0x5a);
  }
}

/* calloc has its own ways, and so has whoever lends memory to a heap, or counts it. */
static void test_not_of_these(void **state) {
  (void)state;
  uint8_t *p = begun(8 * MIB), *table = hd_calloc(1, 8 * MIB), *bounded = begun(8 * MIB);
  hd_heap *heap = hd_heap_create(NULL);
  uint8_t *own = hd_heap_malloc(heap, 8 * MIB);
  size_t before = looks;
  hd_free(table);
  hd_free(own);
  hdi_options.limit = INT64_MAX;
  hd_free(bounded);
  hdi_options.limit = 0;
  assert_int_equal(looks, before);
  assert_int_equal(sparse_units(), 0);
  hd_free(p);
  size_t units = sparse_units();
  assert_in_range(units, 1, SIZE_MAX);
  assert_ptr_not_equal(hd_calloc(1, 8 * MIB), p);
  assert_ptr_not_equal(hd_heap_malloc(heap, 8 * MIB), p);
  hdi_options.limit = INT64_MAX;
  assert_ptr_not_equal(begun(8 * MIB), p);
  hdi_options.limit = 0;
  assert_int_equal(sparse_units(), units);
  assert_ptr_equal(begun(8 * MIB), p);
  hd_heap_destroy(heap);
}

static uint8_t *begun_at(size_t alignment, size_t bytes) {
  uint8_t *p = hd_aligned_alloc(alignment, bytes);
  assert_non_null(p);
  assert_int_equal((uintptr_t)p % alignment, 0);
  assert_non_null(hd_malloc(HD_UNIT_BYTES));
  p[0] = 0x5a;
  return p;
}

/* Blocks that want an alignment take their like again, and others where those happen to lie well: long ones sparse runs, and short ones
 * what the heap keeps. */
static void test_aligned(void **state) {
  (void)state;
  const size_t bytes[] = {2 * MIB, MIB};
  for (int i = 0; i < 2; i++) {
    size_t alignment = 2 * MIB;
    uint8_t *p = begun_at(alignment, bytes[i]);
    hd_free(p);
    assert_ptr_equal(begun_at(alignment, bytes[i]), p);
    hd_free(p);
    while ((uintptr_t)p % alignment == 0) alignment *= 2;
    hd_free(begun_at(alignment, bytes[i])); /* elsewhere */
    hd_collect(0);
  }
}

/* Not the middle of one: it is taken whole. */
static void test_aligned_from_the_start(void **state) {
  (void)state;
  uint8_t *p = begun(6 * MIB);
  while ((uintptr_t)p % (4 * MIB) != 2 * MIB) p = begun(6 * MIB);
  hd_free(p);
  assert_null(hdi_space_take_sparse(&hdi_space, 2 * MIB >> HD_UNIT_SHIFT, 4 * MIB >> HD_UNIT_SHIFT));
  assert_ptr_equal(hdi_space_take_sparse(&hdi_space, 2 * MIB >> HD_UNIT_SHIFT, 2 * MIB >> HD_UNIT_SHIFT), unit_at(p));
}

/* No free run says what became of the last block there. */
static void forget(void) {
  for (size_t at = 0; at < hdi_space.top; at++) {
    hd_unit *unit = hdi_space.units + at;
    unsigned kind = hd_load_relaxed(&unit->kind);
    if (kind != HD_UNIT_CLEAN && kind != HD_UNIT_DIRTY) continue;
    for (size_t i = 0; i < unit->run_units; i++) unit[i].plain = 0;
    at += unit->run_units - 1;
  }
}

static void expect_plain(uint8_t *p) {
  size_t before = looks;
  assert_int_equal(unit_at(p)->plain, 1);
  hd_free(p);
  assert_int_equal(looks, before);
  assert_int_not_equal(kind_at(p), HD_UNIT_SPARSE);
}

/* A block that can't grow where it stands: another one lies right behind it. */
static uint8_t *enclosed(size_t bytes) {
  uint8_t *p = hd_malloc(bytes), *next = hd_malloc(bytes);
  for (; unit_at(next) != unit_at(p) + unit_at(p)->run_units; next = hd_malloc(bytes)) p = next;
  return p;
}

/* A block that has grown is filled, or will grow again where it lies: where it stands, and with all of its run, copied, or moved. */
static void test_blocks_that_grew(void **state) {
  (void)state;
  uint8_t *p = freed(begun(8 * MIB));
  size_t units = unit_at(p)->run_units;
  assert_ptr_equal(hd_malloc(3 * MIB), p);
  assert_ptr_equal(hd_realloc(p, 5 * MIB), p);
  assert_int_equal(unit_at(p)->run_units, units);
  uint8_t *old = filled(40 * MIB);
  hd_free(begun(100 * MIB));
  begin(state);
  uint8_t *stands = enclosed(2 * MIB), *moved = enclosed(2 * MIB);
  hd_free(old);
  forget();
  size_t moves = hd_load_relaxed(&hdi_counters.moved_bytes);
  uint8_t *copied = hd_realloc(stands, 20 * MIB);
  assert_ptr_not_equal(copied, stands);
  assert_int_equal(hd_load_relaxed(&hdi_counters.moved_bytes), moves);
  moved = hd_realloc(moved, 60 * MIB);
  assert_int_equal(hd_load_relaxed(&hdi_counters.moved_bytes) > moves, hdi_os.can_move);
  expect_plain(p);
  expect_plain(copied);
  expect_plain(moved);
  p = begun(8 * MIB);
  assert_ptr_equal(hd_realloc(p, 7 * MIB), p);
  assert_int_equal(unit_at(p)->plain, 0);
}

static void test_a_silent_system(void **state) {
  (void)state;
  system_is_silent = true;
  uint8_t *p = freed(begun(8 * MIB));
  system_is_silent = false;
  assert_int_not_equal(kind_at(p), HD_UNIT_SPARSE);
}

/* One in sixteen is asked about in the end, and every one as soon as they differ. */
static void test_looks_are_few(void **state) {
  (void)state;
  size_t before = looks;
  uint8_t *p = begun(2 * MIB);
  for (int i = 0; i < 1 + 3 + 7 + 15 * 16 + 5; i++) {
    hd_free(p);
    p = begun(2 * MIB);
  }
  assert_in_range(looks - before, 5 + 14, 5 + 16);
  begin(state);
  for (int i = 0; i < 4; i++) {
    p = i % 2 == 0 ? filled(2 * MIB) : begun(2 * MIB);
    before = looks;
    hd_free(p);
    hd_collect(0);
    assert_int_equal(looks, before + 1);
  }
}

/* Where huge pages were asked for it is always asked about; and if little of it is used, it has them no more. */
static void test_huge_pages(void **state) {
  (void)state;
  uint8_t *p = begun(16 * MIB), *q = filled(16 * MIB);
  if (!hdi_space_is_huge(p + 8 * MIB)) skip();
  for (int i = 0; i < PAUSES; i++) hd_free(begun(2 * MIB));
  size_t before = looks;
  assert_int_not_equal(kind_at(freed(q)), HD_UNIT_SPARSE);
  assert_int_equal(looks, before + 1);
  begin(state);
  assert_int_equal(kind_at(freed(p)), HD_UNIT_SPARSE);
  for (size_t at = 0; at < 16 * MIB; at += 2 * MIB) assert_false(hdi_space_is_huge(p + at));
}

/* They go back as dirty runs do, and when these have not sufficed. */
static void test_purged(void **state) {
  (void)state;
  uint8_t *p = freed(begun(8 * MIB));
  assert_int_equal(kind_at(p), HD_UNIT_SPARSE);
  assert_int_equal(hdi_space_purge(&hdi_space, hdi_space_tick() - 1000, SIZE_MAX), 0); /* not that young */
  assert_int_equal(kind_at(p), HD_UNIT_SPARSE);
  assert_in_range(hdi_space_purge(&hdi_space, hdi_space_tick(), 1), 1, SIZE_MAX);
  hd_collect(8 * MIB); /* as much may stay, and there is no other */
  assert_int_equal(sparse_units(), 0);
  assert_int_equal(hdi_os_resident_in(p, 8 * MIB), 0);
  p = freed(begun(8 * MIB));
  size_t units = sparse_units();
  hd_collect(8 * MIB);
  assert_int_equal(sparse_units(), units);
  hd_collect(4 * MIB);
  assert_int_equal(sparse_units(), 0);
}

/* A quarter of them counts as resident: so many are not given back when fresh memory is taken, and dirty ones would be. */
static void test_count_for_a_quarter(void **state) {
  enum { COUNT = 6 };
  (void)state;
  uint8_t *p[COUNT];
  for (int i = 0; i < COUNT; i++) p[i] = begun(8 * MIB);
  for (int i = 0; i < COUNT; i++) hd_free(p[i]);
  size_t units = sparse_units();
  assert_in_range(units, COUNT * 8 * MIB >> HD_UNIT_SHIFT, SIZE_MAX);
  begun(100 * MIB);
  assert_int_equal(sparse_units(), units);
}

/* While a fork is under way the run is listed with others. */
static void test_during_a_fork(void **state) {
  (void)state;
  uint8_t *p = begun(8 * MIB);
  size_t units = unit_at(p)->run_units;
  hdi_lock_fork_begin();
  hdi_lock_take(&hdi_space.lock);
  hd_free(p);
  hdi_lock_drop(&hdi_space.lock);
  hdi_lock_fork_end();
  assert_int_equal(sparse_units(), 0);
  assert_ptr_equal(hdi_space_take_dirty(&hdi_space, units), unit_at(p));
}

/* And none is taken meanwhile: the block lies elsewhere, and the run stays. */
static void test_not_taken_during_a_fork(void **state) {
  (void)state;
  uint8_t *p = freed(begun(8 * MIB));
  size_t units = sparse_units();
  hdi_lock_fork_begin();
  hdi_lock_take(&hdi_space.lock);
  hd_unit *run = hdi_space_take_sparse(&hdi_space, 8 * MIB >> HD_UNIT_SHIFT, 1);
  void *q = hd_malloc(8 * MIB);
  bool held = hdi_lock_is_mine(&hdi_space.lock);
  hdi_lock_drop(&hdi_space.lock);
  hdi_lock_fork_end();
  assert_true(held);
  assert_null(run);
  assert_non_null(q);
  assert_ptr_not_equal(q, p);
  assert_int_equal(sparse_units(), units);
  assert_int_equal(kind_at(p), HD_UNIT_SPARSE);
  assert_ptr_equal(hd_malloc(8 * MIB), p);
}

/* When a space is full they are one run again. */
static void test_nothing_else_is_left(void **state) {
  enum { UNITS = 40 };
  (void)state;
  static hd_space space;
  static hd_unit *bins[HD_BIN_COUNT];
  bool zeroed = true;
  uint8_t *memory = hd_aligned_alloc(HD_UNIT_BYTES, (UNITS + 2) * HD_UNIT_BYTES);
  assert_true(hdi_space_init_fixed(&space, memory, (UNITS + 2) * HD_UNIT_BYTES, 0));
  space.sparse.bin = bins;
  hd_unit *first = hdi_space_take(&space, UNITS / 2, 1, &zeroed), *second = hdi_space_take(&space, UNITS / 2, 1, &zeroed);
  assert_ptr_equal(first + UNITS / 2, second);
  hdi_space_give_sparse(&space, first);
  hdi_space_give_sparse(&space, second);
  assert_int_equal(hd_load_relaxed(&first->kind), HD_UNIT_SPARSE);
  assert_int_equal(hd_load_relaxed(&second->kind), HD_UNIT_SPARSE);
  assert_ptr_equal(hdi_space_take(&space, UNITS, 1, &zeroed), first);
  assert_false(zeroed);
  assert_int_equal(hd_load_relaxed(&space.sparse.units), 0);
  hd_free(memory);
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library */
  hdi_options.purge_delay = 3600000;
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_stays_whole, begin),
      cmocka_unit_test_setup(test_which_one, begin),
      cmocka_unit_test_setup(test_not_what_was_filled, begin),
      cmocka_unit_test_setup(test_its_middle_tells, begin),
      cmocka_unit_test(test_ends_go_back),
      cmocka_unit_test_setup(test_not_of_these, begin),
      cmocka_unit_test_setup(test_aligned, begin),
      cmocka_unit_test_setup(test_blocks_that_grew, begin),
      cmocka_unit_test_setup(test_a_silent_system, begin),
      cmocka_unit_test_setup(test_looks_are_few, begin),
      cmocka_unit_test_setup(test_huge_pages, begin),
      cmocka_unit_test_setup(test_purged, begin),
      cmocka_unit_test_setup(test_count_for_a_quarter, begin),
      cmocka_unit_test_setup(test_during_a_fork, begin),
      cmocka_unit_test_setup(test_not_taken_during_a_fork, begin),
      cmocka_unit_test_setup(test_nothing_else_is_left, begin),
      cmocka_unit_test_setup(test_aligned_from_the_start, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
