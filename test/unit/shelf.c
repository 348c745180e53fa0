/* Shelves: what they keep of the store's items, and up to what; and that a heap's pages get their maps and words there.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/heap.h"
#include "core/page.h"
#include "core/shelf.h"
#include "core/space.h"
#include "core/store.h"
#include "core/thread.h"
#include "heddle.h"

enum { KEPT = 8 * 1024, LONGEST = 2048, BLOCKS = 64, BYTES = 1024 };

static hd_shelf shelf;

static void check_zero(const uint8_t *memory, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) assert_int_equal(memory[i], 0);
}

static bool has(size_t bytes) { return shelf.first[hdi_store_bin(bytes)] != NULL; }

/* Whether it has been kept: then it counts as used. */
static bool is_kept(void *item, size_t bytes) {
  size_t used = hdi_store_used();
  hdi_shelf_give(&shelf, item, bytes, true);
  return hdi_store_used() == used;
}

/* 8 KiB of each size, the last one first; what comes out reads as zero; what is asked for decides by its size, rounded up. */
static void test_keeps(void **state) {
  (void)state;
  for (size_t bytes = HD_STORE_MIN; bytes <= LONGEST; bytes *= 2) {
    void *item[KEPT / HD_STORE_MIN + 1];
    size_t most = KEPT / bytes, used = hdi_store_used();
    for (size_t i = 0; i <= most; i++) item[i] = hdi_shelf_take(&shelf, bytes); /* the store's: it has none */
    assert_int_equal(hdi_store_used(), used + (most + 1) * bytes);
    for (size_t i = 0; i < most; i++) assert_true(is_kept(item[i], bytes - 1));
    assert_false(is_kept(item[most], bytes));
    assert_int_equal(hdi_store_used(), used + most * bytes);
    for (size_t i = most; i-- > 0;) {
      assert_ptr_equal(hdi_shelf_take(&shelf, bytes), item[i]);
      check_zero(item[i], bytes);
    }
    assert_false(has(bytes));
    for (size_t i = 0; i < most; i++) assert_true(is_kept(item[i], bytes));
  }
}

static void test_clear(void **state) {
  (void)state;
  size_t used = hdi_store_used(), all = 0;
  for (size_t bytes = HD_STORE_MIN; bytes <= LONGEST; bytes *= 2) all += KEPT;
  hdi_shelf_clear(&shelf);
  assert_int_equal(hdi_store_used(), used - all);
  for (size_t bytes = HD_STORE_MIN; bytes <= LONGEST; bytes *= 2) {
    assert_false(has(bytes));
    uint8_t *again = hdi_store_take(bytes);
    check_zero(again, bytes);
    hdi_store_give(again, bytes);
  }
}

/* Nor what others may be reading. */
static void test_long_items_are_left(void **state) {
  (void)state;
  size_t used = hdi_store_used();
  void *item = hdi_shelf_take(&shelf, LONGEST + 1);
  assert_false(is_kept(item, LONGEST + 1));
  hdi_shelf_give(&shelf, hdi_shelf_take(&shelf, LONGEST), LONGEST, false);
  assert_int_equal(hdi_store_used(), used);
  assert_false(has(LONGEST));
}

static void *block[BLOCKS + 4];

/* One page, full, and the beginning of another. */
static hd_unit *full_page(size_t bytes, unsigned count) {
  for (unsigned i = 0; i < count; i++) assert_non_null(block[i] = hd_malloc(bytes));
  return hdi_space_find(block[0])->head;
}

static void drop(unsigned count) {
  for (unsigned i = 0; i < count; i++) hd_free(block[i]);
}

/* A page's map and words are the next one's, also of another class; and go back with the heap's runs. */
static void test_next_page_has_them(void **state) {
  (void)state;
  hd_heap *heap = hdi_thread_heap();
  hdi_heap_drop_cache(heap);
  size_t used = hdi_store_used();
  hd_unit *page = full_page(BYTES, BLOCKS + 4);
  hd_block_state *map = page->map;
  uint64_t *words = page->words;
  size_t with = hdi_store_used();
  drop(BLOCKS);
  assert_int_not_equal(hd_load_relaxed(&page->kind), HD_UNIT_PAGE);
  assert_int_equal(hdi_store_used(), with);
  for (unsigned i = 0; i < 4; i++) hd_free(block[BLOCKS + i]);
  page = full_page(2 * BYTES, BLOCKS / 2);
  assert_true((page->map == map && page->words == words) || ((void *)page->map == words && (void *)page->words == map));
  assert_int_equal(hdi_store_used(), with);
  drop(BLOCKS / 2);
  full_page(BYTES, BLOCKS + 4);
  drop(BLOCKS);
  with = hdi_store_used();
  hdi_heap_drop_runs(heap);
  assert_in_range(hdi_store_used(), used, with - HD_STORE_MIN);
  for (unsigned i = 0; i < HD_SHELF_BINS; i++) assert_null(heap->shelf.first[i]);
}

static void test_explicit_heaps_keep_nothing(void **state) {
  (void)state;
  hd_heap *heap = hd_heap_create(NULL);
  for (unsigned i = 0; i < BLOCKS + 4; i++) block[i] = hd_heap_malloc(heap, BYTES);
  for (unsigned i = 0; i < BLOCKS; i++) hd_free(block[i]);
  for (unsigned i = 0; i < HD_SHELF_BINS; i++) assert_null(heap->shelf.first[i]);
  hd_heap_destroy(heap);
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_keeps),
      cmocka_unit_test(test_clear),
      cmocka_unit_test(test_long_items_are_left),
      cmocka_unit_test(test_next_page_has_them),
      cmocka_unit_test(test_explicit_heaps_keep_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
