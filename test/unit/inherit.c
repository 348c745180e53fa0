/* What a child of a fork does with the free blocks that it has from its parent: they stay where they are, until it has enough memory of its
 * own. The child here is this process, told that it is one.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "core/gate.h"
#include "core/inherit.h"
#include "core/sizeclass.h"
#include "core/store.h"
#include "heddle.h"
#include "pages.h"

enum { BLOCK_BYTES = 64, PER_PAGE = HD_UNIT_BYTES / BLOCK_BYTES, EIGHTH = PER_PAGE / 8, PAGES = 5 };

enum { LEAST_UNITS = 64, OTHER_BYTES = 1792 };

static hd_heap *heap;
static hd_class *class;
static void *old[PAGES * PER_PAGE]; /* of whole pages, and the last of those is CURRENT */
static hd_unit *page[PAGES];

static void *take(void) {
  void *p = hd_malloc(BLOCK_BYTES);
  assert_non_null(p);
  return p;
}

static hd_unit *page_of(const void *p) { return hdi_space_find(p)->head; }

static bool is_old(const void *p) {
  for (size_t i = 0; i < PAGES; i++) {
    if (page_of(p) == page[i]) return true;
  }
  return false;
}

/* Blocks that the child takes: how many of them lie in its parent's pages. They are lost. */
static size_t take_old(size_t count) {
  size_t seen = 0;
  for (size_t i = 0; i < count; i++) seen += is_old(take());
  return seen;
}

static void free_every(size_t step, size_t at, size_t of_page) {
  for (size_t i = of_page * PER_PAGE + at; i < (of_page + 1) * PER_PAGE; i += step) {
    hd_free(old[i]);
    old[i] = NULL;
  }
}

/* A parent of 4 MiB, whose pages have a fourth of their blocks free; the first one is full. */
static int fork_once(void **state) {
  (void)state;
  own_pages(); /* starts the library */
  heap = hdi_heap_mine();
  class = &heap->class[hdi_sizeclass_of(BLOCK_BYTES)];
  while (class->page == NULL || class->page->fresh != class->page->capacity || class->first != NULL) take();
  while (hdi_slot_bits(&class->slot) != 0) take();
  while (hdi_heap_page_units(heap) < LEAST_UNITS) assert_non_null(hd_malloc(2 * OTHER_BYTES));
  for (size_t i = 0; i < PAGES * PER_PAGE; i++) old[i] = take();
  for (size_t i = 0; i < PAGES; i++) {
    page[i] = page_of(old[i * PER_PAGE]);
    assert_ptr_equal(page_of(old[(i + 1) * PER_PAGE - 1]), page[i]);
  }
  for (size_t i = 1; i < PAGES; i++) free_every(4, 0, i);
  assert_ptr_equal(class->page, page[PAGES - 1]);
  assert_int_equal(page[1]->state, HD_PAGE_PARTIAL);
  hdi_inherit_begin(heap);
  return 0;
}

/* So that the next test finds nothing of this one. */
static int end_it(void **state) {
  (void)state;
  hdi_inherit_end(heap);
  for (size_t i = 0; i < PAGES * PER_PAGE; i++) hd_free(old[i]);
  return 0;
}

static void test_old_blocks_stay(void **state) {
  (void)state;
  assert_int_equal(hdi_slot_bits(&class->slot), 0);
  assert_int_equal(take_old(3 * (size_t)PER_PAGE), 0);
  assert_int_equal(page[1]->state, HD_PAGE_PARTIAL);
  assert_int_equal(page[PAGES - 1]->state, HD_PAGE_PARTIAL);
}

static void test_own_blocks_come_again(void **state) {
  (void)state;
  void *own[PER_PAGE];
  for (size_t i = 0; i < PER_PAGE; i++) own[i] = take();
  uint32_t pages = class->page_count;
  for (size_t i = 0; i < PER_PAGE; i++) hd_free(own[i]);
  assert_int_equal(take_old(PER_PAGE), 0);
  assert_int_equal(class->page_count, pages);
}

/* A page of which the child frees an eighth is as good as its own. */
static void test_what_it_frees_itself_comes_again(void **state) {
  (void)state;
  take();
  free_every(8, 0, 0);
  assert_int_equal(take_old(2 * (size_t)PER_PAGE), EIGHTH);
}

/* One that runs empty while it is left goes back like any other, the first in the ring, the last, and one between. */
static void test_empty_ones_go(void **state) {
  (void)state;
  take();
  size_t order[] = {2, 4, 1, 3};
  for (size_t i = 0; i < 4; i++) {
    uint32_t units = hdi_heap_page_units(heap);
    free_every(1, 0, order[i]);
    assert_int_not_equal(page[order[i]]->state, HD_PAGE_PARTIAL);
    assert_int_equal(hdi_heap_page_units(heap), units - 1);
  }
  assert_ptr_equal(heap->inherited->next, heap->inherited);
  assert_ptr_equal(heap->inherited->prev, heap->inherited);
}

/* It grows until it has a quarter more than its parent. */
static void test_enough_is_enough(void **state) {
  (void)state;
  uint32_t most = hdi_heap_page_units(heap) + hdi_heap_page_units(heap) / 4;
  while (hdi_heap_page_units(heap) < most) assert_false(is_old(take()));
  assert_non_null(heap->inherited);
  assert_int_equal(take_old(PER_PAGE * (size_t)PAGES), (PAGES - 1) * PER_PAGE / 4);
  assert_null(heap->inherited);
}

/* Nor where nothing new is to be had. Then those of classes that it has not used yet stay no longer either. */
static void test_no_memory_for_new_ones(void **state) {
  (void)state;
  take();
  hd_class *other = &heap->class[hdi_sizeclass_of(2 * BLOCK_BYTES)];
  void *p = hd_malloc(2 * BLOCK_BYTES);
  hdi_inherit_begin(heap);
  assert_int_equal(other->turn, HD_TURN_INHERITED);
  hdi_inherit_end(heap);
  assert_int_equal(other->turn, 0);
  assert_null(heap->inherited);
  assert_int_equal(take_old(PER_PAGE * (size_t)PAGES), (PAGES - 1) * PER_PAGE / 4);
  hd_free(p);
}

/* A page with nothing in use is nobody's: it goes back at once. */
static void test_nothing_to_leave(void **state) {
  (void)state;
  void *p = hd_malloc(OTHER_BYTES);
  hd_unit *before = page_of(p);
  hd_free(p);
  hdi_inherit_begin(heap);
  p = hd_malloc(OTHER_BYTES);
  assert_non_null(p);
  assert_true(page_of(p) == before || before->state == HD_PAGE_NONE);
  assert_ptr_equal(heap->inherited->next, heap->inherited);
  hd_free(p);
}

/* A child of a child leaves what that one took as well. */
static void test_child_of_a_child(void **state) {
  (void)state;
  void *own = take();
  heap->inherited->run_units = 0;
  hdi_inherit_begin(heap);
  assert_int_equal(heap->inherited->run_units, hdi_heap_page_units(heap) * 5 / 4);
  size_t in_own = 0;
  for (size_t i = 0; i < PER_PAGE; i++) {
    void *p = take();
    assert_false(is_old(p));
    in_own += page_of(p) == page_of(own);
  }
  assert_int_equal(in_own, 0);
  assert_int_equal(page_of(own)->state, HD_PAGE_PARTIAL);
}

/* Each class has a page or two, and a new one in its place would be no less. */
static void test_not_in_a_small_heap(void **state) {
  (void)state;
  hdi_inherit_end(heap);
  uint32_t units = heap->page_units;
  heap->page_units = LEAST_UNITS - 1;
  hdi_inherit_begin(heap);
  assert_int_equal(class->turn, 0);
  heap->page_units = LEAST_UNITS;
  hdi_inherit_begin(heap);
  assert_int_equal(class->turn, HD_TURN_INHERITED);
  heap->page_units = units;
}

/* A fork in a signal handler, which came while the heap was at work; or of a heap in hardened mode, whose blocks are drawn by lot. */
static void test_not_while_it_is_at_work(void **state) {
  (void)state;
  hdi_inherit_end(heap);
  hdi_gate_enter(heap);
  hdi_inherit_begin(heap);
  assert_int_equal(class->turn, 0);
  hdi_gate_leave(heap);
  heap->hardened = (struct hd_hardened *)(void *)heap;
  hdi_inherit_begin(heap);
  heap->hardened = NULL;
  assert_int_equal(class->turn, 0);
}

/* Without memory for the list all stays as it was. */
static void test_no_memory_for_the_list(void **state) {
  (void)state;
  struct rlimit before, now;
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  now = (struct rlimit){1, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
  size_t taken = 0;
  while (taken < (size_t)64 << 20 && hdi_store_take(sizeof(hd_unit)) != NULL) taken += sizeof(hd_unit);
  void *p = hd_malloc(BLOCK_BYTES);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  if (taken >= (size_t)64 << 20) skip(); /* emulators do not hold to such a limit */
  assert_non_null(p);
  assert_true(is_old(p));
  assert_null(heap->inherited);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_old_blocks_stay, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_own_blocks_come_again, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_what_it_frees_itself_comes_again, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_empty_ones_go, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_no_memory_for_new_ones, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_child_of_a_child, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_nothing_to_leave, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_not_in_a_small_heap, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_not_while_it_is_at_work, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_enough_is_enough, fork_once, end_it),
      cmocka_unit_test_setup_teardown(test_no_memory_for_the_list, fork_once, end_it), /* nothing is left behind it */
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
