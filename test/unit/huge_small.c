/* In a small process a huge page that stays half empty may be most of its memory: which ones a long run gets there, and when it stops being
 * small. No huge page is touched here to see what it costs: they would all be resident.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "core/options.h"
#include "core/space.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"
#include "huge_pages.h"

enum { MIB = 1024 * 1024, HUGE_BYTES = 2 * MIB, GROWN_BYTES = 32 * MIB };

/* Of a huge page's first system page; at how much is resident, from the first unit on, and anywhere. */
static size_t touches, looks, all_looks;
static uint8_t *touched;

uint64_t __wrap_hdi_os_touch(void *address, size_t bytes);
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes) {
  (void)bytes;
  touches++;
  touched = address;
  return 0;
}

size_t __real_hdi_os_resident_in(const void *address, size_t bytes);
size_t __wrap_hdi_os_resident_in(const void *address, size_t bytes);
size_t __wrap_hdi_os_resident_in(const void *address, size_t bytes) {
  looks += address == hdi_space.base;
  all_looks++;
  return __real_hdi_os_resident_in(address, bytes);
}

static uint8_t *take(size_t bytes) {
  uint8_t *p = hd_malloc(bytes);
  assert_non_null(p);
  if (may_be_huge()) assert_int_equal((uintptr_t)p % HUGE_BYTES, 0);
  return p;
}

static void expect(const uint8_t *p, size_t bytes, bool head, bool tail) {
  assert_int_equal(hdi_space_is_huge(p), head && may_be_huge());
  assert_int_equal(hdi_space_is_huge(p + HUGE_BYTES), may_be_huge());
  assert_int_equal(hdi_space_is_huge(p + bytes - 1), tail && may_be_huge());
}

static void take_and_expect(size_t bytes, bool head, bool tail) { expect(take(bytes), bytes, head, tail); }

/* Perhaps only the run's beginning is ever touched; and if that is not asked for, nothing else is touched to see what it costs. */
static void test_beginning(void **state) {
  (void)state;
  take_and_expect(6 * MIB, false, true);
  take_and_expect(24 * MIB, false, true);
  take_and_expect(GROWN_BYTES - HD_UNIT_BYTES, false, true);
  assert_int_equal(touches, 0);
  uint8_t *p = take(GROWN_BYTES);
  expect(p, GROWN_BYTES, true, true); /* where it is a sixteenth of the run */
  assert_int_equal(touches, may_be_huge());
  if (may_be_huge()) assert_ptr_equal(touched, p);
}

static void test_end(void **state) {
  (void)state;
  take_and_expect(6 * MIB + 23 * HD_UNIT_BYTES, false, false);
  take_and_expect(6 * MIB + 24 * HD_UNIT_BYTES, false, true);
}

/* A table that is touched here and there has no more than it touches. */
static void test_tables(void **state) {
  (void)state;
  for (int larger = 0; larger < 2; larger++) {
    uint8_t *p = hd_calloc(20 * MIB + (size_t)larger * HD_UNIT_BYTES, 1);
    assert_non_null(p);
    assert_int_equal(hdi_space_is_huge(p + 10 * MIB), larger && may_be_huge());
  }
}

/* A block that was filled will be as it grows. */
static void test_growth(void **state) {
  (void)state;
  for (int filled = 0; filled < 2; filled++) {
    uint8_t *p = take(5 * MIB);
    if (filled) memset(p, 1, 5 * MIB);
    assert_ptr_equal(hd_realloc(p, 9 * MIB), p);
    expect(p, 9 * MIB, false, filled);
    assert_int_equal(madvise(p, 9 * MIB, MADV_DONTNEED), 0);
  }
}

/* The last quarter of a block, but for its last unit: of that less may be used. */
static void fill_end(uint8_t *p, size_t bytes) { memset(p + bytes - bytes / 4 - HD_UNIT_BYTES, 1, bytes / 4); }

/* So is one that comes after a block that was filled up to its end. Blocks of malloc and tables of calloc tell of their own kind alone. */
static void test_after_filled(void **state) {
  (void)state;
  const size_t bytes = 6 * MIB + 8 * HD_UNIT_BYTES;
  uint8_t *p = take(bytes), *table = hd_calloc(bytes, 1);
  assert_non_null(table);
  fill_end(p, bytes - hdi_os.page_bytes); /* nearly */
  fill_end(table, bytes);
  take_and_expect(bytes, false, false);
  p = take(bytes);
  expect(p, bytes, false, false);
  fill_end(p, bytes);
  take_and_expect(bytes, true, true); /* which tells nothing itself */
  take_and_expect(bytes, true, true);
  assert_int_equal(madvise(p, bytes, MADV_DONTNEED) | madvise(table, bytes, MADV_DONTNEED), 0);
  take_and_expect(bytes, false, false);
}

static void test_after_filled_table(void **state) {
  (void)state;
  uint8_t *p = take(6 * MIB + 8 * HD_UNIT_BYTES), *table = hd_calloc(8 * MIB, 1);
  assert_non_null(table);
  fill_end(p, 6 * MIB + 8 * HD_UNIT_BYTES);
  assert_false(hdi_space_is_huge(table + 4 * MIB));
  table = hd_calloc(8 * MIB, 1);
  assert_false(hdi_space_is_huge(table + 4 * MIB));
  fill_end(table, 8 * MIB);
  size_t before = touches;
  for (int i = 0; i < 6; i++) expect(hd_calloc(8 * MIB, 1), 8 * MIB, true, true);
  assert_int_equal(touches, before); /* it may be left untouched in spite of that */
  assert_int_equal(madvise(p, 6 * MIB, MADV_DONTNEED) | madvise(table, 8 * MIB, MADV_DONTNEED), 0);
}

/* What is not there is looked for again after a while, for memory may have been filled since. */
static void test_pauses(void **state) {
  (void)state;
  for (int i = 0; i <= 2 * GROWN_PAUSES; i++) assert_false(hdi_space_huge_is_little());
  size_t before = looks;
  for (int i = 0; i < 10 * (GROWN_PAUSES + 1); i++) assert_false(hdi_space_huge_is_little());
  assert_int_equal(looks - before, 10);
  before = looks;
  for (int i = 0; i <= GROWN_PAUSES; i++) assert_non_null(hd_calloc(2 * MIB, 1));
  assert_int_equal(looks, before); /* shorter runs ask for none */
  for (int i = 0; i <= GROWN_PAUSES; i++) {
    hd_free(take(GROWN_BYTES));
    hd_collect(0); /* the next one is as fresh */
  }
  assert_int_equal(looks, before); /* for longer ones it does not matter */
}

/* Nobody looks where no run is asked for, whatever comes out. */
static void take_and_grow(hd_heap *heap) {
  size_t before = all_looks;
  for (int i = 0; i <= GROWN_PAUSES; i++) {
    uint8_t *p = hd_heap_malloc(heap, 5 * MIB);
    assert_ptr_equal(hd_heap_realloc(heap, p, 9 * MIB), p);
    uint8_t *table = hd_heap_calloc(heap, 5, MIB);
    assert_non_null(table);
    assert_false(hdi_space_is_huge(p + HUGE_BYTES) || hdi_space_is_huge(table + HUGE_BYTES));
    hd_free(table);
    hd_free(p);
    hd_collect(0);
  }
  assert_int_equal(all_looks, before);
}

static void test_never(void **state) {
  (void)state;
  int64_t thp = hdi_options.thp;
  hdi_options.thp = HD_THP_NEVER;
  hd_heap *heap = hd_heap_create(NULL);
  take_and_grow(heap);
  hdi_options.thp = thp;
  hd_heap_destroy(heap);
}

static void test_memory_of_its_own(void **state) {
  (void)state;
  enum { ROOM = 64 * MIB };
  void *memory = mmap(NULL, ROOM, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  assert_true(memory != MAP_FAILED);
  hd_heap *heap = hd_heap_create(&(hd_heap_config){.struct_bytes = sizeof(hd_heap_config), .memory = memory, .memory_bytes = ROOM});
  assert_non_null(heap);
  take_and_grow(heap);
  hd_heap_destroy(heap);
  munmap(memory, ROOM);
}

static void test_grown(void **state) {
  (void)state;
  uint8_t *p = take(GROWN_BYTES);
  assert_true(fill_until_grown(p, GROWN_BYTES));
  size_t before = looks;
  take_and_expect(6 * MIB + 4 * HD_UNIT_BYTES, true, true);
  assert_int_equal(hdi_space_is_huge(hd_calloc(6 * MIB, 1)), may_be_huge());
  hd_free(p);
  hd_collect(0);
  assert_true(hdi_space_huge_is_little()); /* it may well fill as much again */
  assert_int_equal(looks, before);
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_beginning),
      cmocka_unit_test(test_end),
      cmocka_unit_test(test_tables),
      cmocka_unit_test(test_growth),
      cmocka_unit_test(test_after_filled),
      cmocka_unit_test(test_after_filled_table),
      cmocka_unit_test(test_pauses),
      cmocka_unit_test(test_never),
      cmocka_unit_test(test_memory_of_its_own),
      cmocka_unit_test(test_grown),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
