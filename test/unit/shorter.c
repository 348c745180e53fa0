/* Pages of several units where the old memory that there is lies in shorter runs: such a run is a shorter page, if little of it would be
 * left over, and memory that nobody had is not touched.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/gate.h"
#include "core/page.h"
#include "heddle.h"
#include "pages.h"

enum {
  WIDE = 20 * 1024,   /* a page of four units, or three blocks in one */
  WIDEST = 52 * 1024, /* eight units, or one block in one */
  HALF = 40 * 1024    /* eight units; of one, more than a third would be left over */
};

static size_t top(void) { return hd_load_relaxed(&hdi_space.top); }

/* Nothing old is left; then a dirty run of so many units between others, which the heap keeps or the space has. No class is busy. */
static void lay(size_t units, bool kept) {
  bool zeroed = false;
  hd_heap *heap = hdi_heap_self;
  hd_collect(0);
  hdi_gate_enter(heap);
  hdi_heap_drop_runs(heap);
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    heap->class[i].busy = false;
    heap->class[i].claims = 0;
  }
  hd_unit *run = NULL;
  while (hdi_space_has_dirty(&hdi_space, 1)) assert_non_null(hdi_space_take_dirty(&hdi_space, 1));
  assert_non_null(hdi_space_take_clean(&hdi_space, 1, 1));
  assert_non_null(run = hdi_space_take(&hdi_space, units, 1, &zeroed));
  assert_non_null(hdi_space_take_clean(&hdi_space, 1, 1));
  memset(hdi_space_address(&hdi_space, run), 0xff, units << HD_UNIT_SHIFT);
  if (kept) hdi_heap_keep_run(heap, run, units);
  else hdi_space_give(&hdi_space, run, units, true);
  hdi_gate_leave(heap);
}

static hd_unit *page_of(const void *p) {
  assert_non_null(p);
  return hdi_space_find(p)->head;
}

static void expect_units(size_t bytes, size_t units, bool old) {
  size_t before = top();
  void *p = hd_malloc(bytes);
  hd_unit *page = page_of(p);
  assert_int_equal(page->run_units, units);
  assert_int_equal(page->capacity, (units << HD_UNIT_SHIFT) / page->block_bytes);
  assert_int_equal(page->zeroed, !old);
  if (old) assert_int_equal(top(), before);
  hd_free(p);
}

/* The class has a page, all of whose blocks are in use. */
static size_t fill_page(void *held[], size_t bytes) {
  hd_class *class = &hdi_heap_self->class[hdi_sizeclass_of(bytes)];
  size_t count = 0;
  hd_collect(0);
  assert_int_equal(class->page_count, 0);
  do assert_non_null(held[count++] = hd_malloc(bytes));
  while (count < page_of(held[0])->capacity);
  assert_int_equal(class->page_count, 1);
  return count;
}

static void free_page(void *held[], size_t count) {
  for (size_t i = 0; i < count; i++) hd_free(held[i]);
}

/* As little as will do: three blocks of 20 KiB, one of 52, but two units for 40. */
static void test_first_pages_take_little(void **state) {
  (void)state;
  for (size_t units = 1; units < 10; units++) {
    lay(units, false);
    expect_units(WIDE, 1, true);
    lay(units, false);
    expect_units(WIDEST, 1, true);
    if (units < 2) continue;
    lay(units, false);
    expect_units(HALF, 2, true);
  }
  for (size_t units = 1; units <= 4; units++) { /* kept runs are used as a whole */
    lay(units, true);
    expect_units(WIDE, units, true);
  }
  lay(9, false);
  hdi_heap_self->class[hdi_sizeclass_of(WIDE)].busy = true;
  expect_units(WIDE, 4, true);
}

static void test_a_shorter_run_is_a_shorter_page(void **state) {
  (void)state;
  void *wide[16], *widest[16];
  size_t wide_count = fill_page(wide, WIDE), widest_count = fill_page(widest, WIDEST);
  for (int kept = 0; kept < 2; kept++) {
    for (size_t units = 1; units <= 4; units++) {
      lay(units, kept);
      expect_units(WIDE, units, true);
    }
    for (size_t units = 1; units <= 8; units++) {
      lay(units, kept);
      expect_units(WIDEST, units, true);
    }
  }
  lay(9, false);
  expect_units(WIDE, 4, true);
  lay(9, false);
  expect_units(WIDEST, 8, true);
  free_page(wide, wide_count);
  free_page(widest, widest_count);
}

/* 24 KiB of 64 are too much to leave over, 8 KiB of 128 are not. */
static void test_little_is_left_over(void **state) {
  (void)state;
  lay(1, false);
  expect_units(HALF, 8, false);
  lay(2, false);
  expect_units(HALF, 2, true);
}

static void test_one_unit_is_never_less(void **state) {
  (void)state;
  lay(1, false);
  expect_units(5000, 1, true);
}

/* Of one block: it is handed out, comes back, and the class goes on in another page. */
static void test_a_page_of_one_block(void **state) {
  (void)state;
  lay(1, false);
  uint8_t *p = hd_malloc(WIDEST), *other = hd_malloc(WIDEST);
  assert_int_equal(page_of(p)->capacity, 1);
  assert_int_equal(page_of(other)->run_units, 8);
  memset(p, 1, WIDEST);
  memset(other, 2, WIDEST);
  for (size_t at = 0; at < WIDEST; at++) assert_true(p[at] == 1 && other[at] == 2);
  assert_int_equal(hd_usable_size(p), WIDEST);
  hd_unit *page = page_of(p);
  hd_free(p);
  hd_collect(0);
  assert_int_not_equal(hd_load_relaxed(&page->kind), HD_UNIT_PAGE);
  p = hd_calloc(1, WIDEST);
  for (size_t at = 0; at < WIDEST; at++) assert_int_equal(p[at], 0);
  hd_free(p);
  hd_free(other);
}

/* Heaps of one's own count and list whole pages, as ever. */
static void test_explicit_heaps_take_whole_pages(void **state) {
  (void)state;
  lay(2, false);
  hd_heap *heap = hd_heap_create(NULL);
  assert_int_equal(page_of(hd_heap_malloc(heap, WIDE))->run_units, 4);
  hd_heap_destroy(heap);
}

int main(void) {
  only_pages();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_pages_take_little), cmocka_unit_test(test_a_shorter_run_is_a_shorter_page),
      cmocka_unit_test(test_little_is_left_over),     cmocka_unit_test(test_one_unit_is_never_less),
      cmocka_unit_test(test_a_page_of_one_block),     cmocka_unit_test(test_explicit_heaps_take_whole_pages),
  };
  return cmocka_run_group_tests_name("shorter", tests, NULL, NULL);
}
