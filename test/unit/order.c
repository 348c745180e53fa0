/* The order in which a program frees (decision 43): in a heap that is larger than the caches each page is looked at now and then, to know
 * in which direction the program goes through it, and what it comes to soon is fetched. The credit that ends a page's life is dealt out
 * in pieces for that, and counts as before.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/alloc.h"
#include "core/gate.h"
#include "core/page.h"
#include "heddle.h"
#include "pages.h"

enum { SMALL = 32, ODD = 80, OTHER = 300, LONG = 400, FEW = 1000, LOOK_FREES = 64, MOST = HD_UNIT_BYTES / SMALL, NOTHING = 12345 };

static void *block[MOST];
static hd_unit *page; /* FULL; the class has another one, so that no block of this one is taken meanwhile */
static size_t capacity;

static hd_heap *mine(void) { return hdi_heap_self; }

/* All blocks of a page, in order, and one of the next page, which is kept until the end. far: the heap believes that it is larger than the
 * caches, until it has claimed a few times more. */
static void *fill(size_t bytes, bool far) {
  void *next = NULL;
  own_pages();
  hd_free(hd_malloc(bytes));
  hd_collect(0);
  capacity = HD_UNIT_BYTES / hdi_sizeclass_bytes(hdi_sizeclass_of(bytes));
  for (size_t i = 0; i <= capacity; i++) {
    mine()->far = far;
    void **at = i < capacity ? &block[i] : &next;
    assert_non_null(*at = hd_malloc(bytes));
  }
  mine()->far = far;
  page = hdi_space_find(block[0]);
  assert_int_equal(page->state, HD_PAGE_FULL);
  for (size_t i = 0; i < capacity; i++) assert_ptr_equal(block[i], page->base + i * page->block_bytes);
  return next;
}

static void drop(size_t i) {
  hd_free(block[i]);
  block[i] = NULL;
}

static void drop_all(void *next) {
  for (size_t i = 0; i < capacity; i++) {
    if (block[i] != NULL) drop(i);
  }
  hd_free(next);
  mine()->far = false;
  hd_collect(0);
}

static void expect_direction(size_t bytes, ptrdiff_t distance) {
  for (int down = 0; down < 2; down++) {
    void *next = fill(bytes, true);
    for (size_t i = 0; i < capacity - 1; i++) {
      drop(down ? capacity - 1 - i : i);
      assert_int_equal(page->fetch_at, down ? -distance : distance); /* from the first block on: there is nothing beside it */
    }
    drop_all(next);
  }
}

static void test_up_and_down(void **state) {
  (void)state;
  expect_direction(SMALL, 512);
  expect_direction(ODD, 512); /* whose last group is not whole */
  expect_direction(LONG, 4 * 416);
}

/* From the middle on it shows at the next look. */
static void test_from_the_middle(void **state) {
  (void)state;
  void *next = fill(SMALL, true);
  size_t middle = capacity / 2 + 5;
  drop(middle);
  assert_true(page->fetch_at == HD_FETCH_NOTHING);
  for (size_t i = 1; i <= LOOK_FREES; i++) drop(middle - i);
  assert_int_equal(page->fetch_at, -512);
  for (size_t i = 1; i <= LOOK_FREES; i++) drop(middle + i);
  assert_int_equal(page->fetch_at, 512);
  drop_all(next);
}

/* What is free lies in the next group of 64, or in the one before. */
static void test_across_groups(void **state) {
  (void)state;
  void *next = fill(SMALL, true);
  for (size_t i = 0; i < 16; i++) drop(64 * 5 + i);
  hdi_heap_look_ahead(page, 64 * 5 - 1);
  assert_int_equal(page->fetch_at, -512);
  for (size_t i = 0; i < 16; i++) drop(64 * 7 - 1 - i);
  hdi_heap_look_ahead(page, 64 * 7);
  assert_int_equal(page->fetch_at, 512);
  drop_all(next);
}

/* Every second one: nothing is fetched. */
static void test_no_order(void **state) {
  (void)state;
  void *next = fill(SMALL, true);
  page->fetch_at = NOTHING;
  for (size_t i = capacity / 2; i < capacity / 2 + 4 * LOOK_FREES; i += 2) drop(i);
  for (size_t i = capacity / 2 - 2; i > capacity / 4; i -= 2) drop(i);
  hdi_heap_look_ahead(page, capacity / 2);
  assert_true(page->fetch_at == HD_FETCH_NOTHING);
  drop_all(next);
}

/* A heap that the caches hold looks at nothing, and its pages' credit is whole. */
static void test_near(void **state) {
  (void)state;
  void *next = fill(SMALL, false);
  size_t eighth = capacity / 8;
  for (size_t i = 0; i < eighth; i++) drop(i);
  assert_int_equal(page->state, HD_PAGE_PARTIAL);
  assert_int_equal(page->credit, capacity - eighth);
  assert_int_equal(page->rest, 0);
  for (size_t i = eighth; i < capacity / 2; i++) drop(i);
  assert_true(page->fetch_at == HD_FETCH_NOTHING);
  drop_all(next);
}

/* Free by free: what the owner knows of, when the page changes its state, and that it goes back with its last block. */
static void test_accounts(void **state) {
  (void)state;
  void *next = fill(SMALL, true);
  uint32_t pages = mine()->class[page->class_index].page_count;
  for (size_t i = 0; i < capacity - 1; i++) {
    drop(i);
    assert_int_equal(hdi_page_used(page), capacity - 1 - i);
    assert_int_equal(page->state, i + 1 < capacity / 8 ? HD_PAGE_FULL : HD_PAGE_PARTIAL);
    if (i + 1 >= capacity / 8) assert_in_range(page->credit, 1, LOOK_FREES);
  }
  assert_int_equal(mine()->class[page->class_index].page_count, pages);
  drop(capacity - 1);
  assert_int_equal(mine()->class[page->class_index].page_count, pages - 1);
  assert_int_equal(page->state, HD_PAGE_NONE);
  drop_all(next);
}

/* What others have freed is counted across pieces. */
static void test_told(void **state) {
  (void)state;
  enum { TOLD = LOOK_FREES + LOOK_FREES / 2 };
  void *next = fill(SMALL, true);
  size_t used = capacity, at = 0;
  drop(at++); /* the owner has it back */
  used--;
  while (used > TOLD) {
    for (size_t i = 0; i < TOLD; i++, at++) {
      hd_store_release(&page->map[at], HD_BLOCK_FREE);
      block[at] = NULL;
    }
    hdi_gate_enter(mine());
    hdi_heap_credit_remote(mine(), page, TOLD);
    hdi_gate_leave(mine());
    used -= TOLD;
    assert_int_equal(hdi_page_used(page), used);
    assert_int_equal(page->state, capacity - used < capacity / 8 ? HD_PAGE_FULL : HD_PAGE_PARTIAL);
  }
  drop_all(next);
}

/* What free fetches: blocks that come soon, or nothing that is not at hand. */
static void test_fetched(void **state) {
  (void)state;
  void *next = fill(SMALL, true);
  assert_ptr_equal(hdi_free_fetched(page, block[0]), page);
  assert_ptr_equal(hdi_free_fetched(page, block[capacity - 1]), page);
  for (size_t i = 0; i < 2 * LOOK_FREES; i++) drop(i);
  assert_ptr_equal(hdi_free_fetched(page, block[200]), (uint8_t *)block[200] + 512);
  page->fetch_at = -512;
  assert_ptr_equal(hdi_free_fetched(page, block[200]), (uint8_t *)block[200] - 512);
  drop_all(next);
}

/* Whatever the unit was used for before. */
static void test_new_pages_have_none(void **state) {
  (void)state;
  bool zeroed = false;
  hdi_gate_enter(mine());
  hd_unit *run = hdi_heap_take_run(mine(), 1, 1, &zeroed);
  assert_non_null(run);
  run->fetch_at = NOTHING;
  assert_true(hdi_page_init(mine(), run, hdi_sizeclass_of(ODD), 1, zeroed));
  assert_true(run->fetch_at == HD_FETCH_NOTHING);
  hdi_page_clear(mine(), run);
  hdi_heap_give_run(mine(), run, 1, true);
  hdi_gate_leave(mine());
}

/* A page that is taken up again has all that is in use, and no direction once it is full. */
static void test_taken_again(void **state) {
  (void)state;
  void *next = fill(LONG, true);
  for (size_t i = 0; i < capacity / 4; i++) drop(i);
  assert_true(page->state == HD_PAGE_PARTIAL && page->rest > 0);
  for (size_t i = 0; i < MOST && page->state != HD_PAGE_CURRENT; i++) {
    assert_non_null(block[capacity + i] = hd_malloc(LONG));
    mine()->far = true;
  }
  assert_int_equal(page->state, HD_PAGE_CURRENT);
  assert_int_equal(hdi_page_used(page), hdi_page_count_live(page));
  size_t at = capacity;
  while (at < MOST && block[at] != NULL) at++;
  page->fetch_at = NOTHING;
  for (; at < MOST && page->state == HD_PAGE_CURRENT; at++) assert_non_null(block[at] = hd_malloc(LONG));
  assert_int_equal(page->state, HD_PAGE_FULL);
  assert_true(page->fetch_at == HD_FETCH_NOTHING);
  for (size_t i = capacity; i < MOST && block[i] != NULL; i++) drop(i);
  drop_all(next);
}

/* A collector has released the page meanwhile, and it serves another class, which has fewer blocks. */
static void test_another_page_by_now(void **state) {
  (void)state;
  void *next = fill(OTHER, true);
  drop(3);
  page->fetch_at = NOTHING;
  hdi_free_event(mine(), (hd_place){capacity, page->map}, page);
  assert_int_equal(page->fetch_at, NOTHING);
  hdi_free_event(mine(), (hd_place){capacity - 1, page->map}, page);
  assert_int_not_equal(page->fetch_at, NOTHING);
  drop_all(next);
}

/* Pages of few blocks are as in small heaps. */
static void test_few_blocks(void **state) {
  (void)state;
  void *next = fill(FEW, true);
  assert_in_range(capacity, 32, HD_ORDER_BLOCKS - 1);
  for (size_t i = 0; i < capacity / 2; i++) {
    drop(i);
    assert_true(page->fetch_at == HD_FETCH_NOTHING);
  }
  assert_int_equal(page->credit, capacity - capacity / 2);
  drop_all(next);
}

/* Explicit heaps' pages have a list of runs there. */
static void test_explicit_heaps_do_without(void **state) {
  (void)state;
  hd_heap *heap = hd_heap_create(NULL);
  assert_non_null(heap);
  heap->far = true;
  size_t count = 3 * HD_UNIT_BYTES / SMALL;
  void **all = calloc(count, sizeof *all);
  assert_non_null(all);
  for (size_t i = 0; i < count; i++) assert_non_null(all[i] = hd_heap_malloc(heap, SMALL));
  hd_unit *first = hdi_space_find(all[0]);
  uint32_t run_next = first->run_next, run_prev = first->run_prev;
  heap->far = true;
  for (size_t i = 0; i < MOST / 2; i++) hd_free(all[i]);
  assert_true(first->run_next == run_next && first->run_prev == run_prev);
  assert_int_equal(first->rest, 0);
  free(all);
  hd_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_up_and_down),
      cmocka_unit_test(test_from_the_middle),
      cmocka_unit_test(test_across_groups),
      cmocka_unit_test(test_no_order),
      cmocka_unit_test(test_near),
      cmocka_unit_test(test_accounts),
      cmocka_unit_test(test_told),
      cmocka_unit_test(test_fetched),
      cmocka_unit_test(test_new_pages_have_none),
      cmocka_unit_test(test_taken_again),
      cmocka_unit_test(test_another_page_by_now),
      cmocka_unit_test(test_few_blocks),
      cmocka_unit_test(test_explicit_heaps_do_without),
  };
  return cmocka_run_group_tests_name("order", tests, NULL, NULL);
}
