/* Magazines: what is freed last comes back first, up to a number of blocks; pages that run empty get theirs back.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/alloc.h"
#include "core/page.h"
#include "core/purge.h"
#include "core/store.h"
#include "heddle.h"
#include "pages.h"

enum { MIB = 1024 * 1024, BYTES = 8192, PER_PAGE = HD_UNIT_BYTES / BYTES, MANY = 256 };

static hd_magazine *magazine_of(size_t bytes) { return hdi_heap_magazine(hdi_heap_self, hdi_sizeclass_of(bytes)); }

static size_t standing(size_t bytes) { return (size_t)(magazine_of(bytes)->top - magazine_of(bytes)->first); }

static size_t room(size_t bytes) { return (size_t)(magazine_of(bytes)->end - magazine_of(bytes)->first); }

static unsigned state_of(void *p) {
  hd_unit *unit = hdi_space_find(p);
  return hd_load_relaxed(&unit->map[hdi_unit_block_index(unit, p)]);
}

static int begin(void **state) {
  (void)state;
  hd_thread_idle();
  return 0;
}

/* Of every medium class, at its least and its greatest size. */
static void test_last_comes_first(void **state) {
  (void)state;
  for (unsigned i = HD_SMALL_CLASSES + 1; i < HD_CLASS_COUNT; i++) {
    size_t bytes = hdi_sizeclass_bytes(i), least = hdi_sizeclass_bytes(i - 1) + 1;
    hd_free(hd_malloc(bytes)); /* the first page of the class opens the magazine */
    hd_thread_idle();
    size_t most = room(bytes);
    assert_true(most >= 1 && most <= HD_MAGAZINE_FIRST && (most == HD_MAGAZINE_FIRST || (most + 1) * bytes > HD_MAGAZINE_FIRST_BYTES));
    void *blocks[HD_MAGAZINE_FIRST];
    for (size_t k = 0; k < most; k++) blocks[k] = hd_malloc(k % 2 == 0 ? bytes : least);
    for (size_t k = 0; k < most; k++) hd_free(blocks[k]);
    assert_int_equal(standing(bytes), most);
    for (size_t k = most; k-- > 0;) {
      assert_int_equal(state_of(blocks[k]), HD_BLOCK_CACHED);
      assert_ptr_equal(hd_malloc(k % 2 == 0 ? least : bytes), blocks[k]);
      assert_int_equal(state_of(blocks[k]), HD_BLOCK_LIVE);
    }
    for (size_t k = 0; k < most; k++) hd_free(blocks[k]);
  }
}

/* A full magazine leaves a block to its page, and what leaves it is counted there again. */
static void test_no_more_than_fit(void **state) {
  (void)state;
  void *blocks[MANY];
  hd_collect(0);
  for (size_t i = 0; i < MANY; i++) blocks[i] = hd_malloc(BYTES);
  size_t most = room(BYTES);
  uint32_t pages = hdi_heap_self->class[hdi_sizeclass_of(BYTES)].page_count;
  assert_true(pages >= MANY / PER_PAGE);
  for (size_t i = 0; i < MANY; i++) hd_free(blocks[i]);
  assert_int_equal(standing(BYTES), most);
  assert_true(hdi_heap_self->class[hdi_sizeclass_of(BYTES)].page_count <= 2); /* what the magazine holds, and the current one */
  hd_thread_idle();
  assert_int_equal(standing(BYTES), 0);
  assert_true(hdi_heap_self->class[hdi_sizeclass_of(BYTES)].page_count <= 1);
}

static void take_and_free_many(size_t bytes) {
  void *blocks[MANY];
  for (size_t k = 0; k < MANY; k++) blocks[k] = hd_malloc(bytes);
  for (size_t k = 0; k < MANY; k++) assert_int_equal(state_of(blocks[k]), HD_BLOCK_LIVE);
  for (size_t k = 0; k < MANY; k++) hd_free(blocks[k]);
  assert_int_equal(standing(bytes), room(bytes));
}

/* A class that again and again frees more than fit, and then takes more than there were, gets room for twice as many, up to a number and
 * up to two megabytes, until it is given back. One that takes and frees single blocks does not. */
static void test_grows_where_needed(void **state) {
  (void)state;
  enum { FEW = 2 * BYTES, OTHER = 3 * BYTES / 2 };
  for (unsigned i = 0; i < 1000; i++) hd_free(hd_malloc(FEW));
  assert_int_equal(room(FEW), HD_MAGAZINE_FIRST_BYTES / FEW);
  size_t first = room(OTHER);
  for (unsigned i = 0; i < 4; i++) take_and_free_many(OTHER);
  assert_int_equal(room(OTHER), first); /* three times too small, as the fourth has found */
  take_and_free_many(OTHER);
  assert_int_equal(room(OTHER), 2 * first);
  for (unsigned i = HD_SMALL_CLASSES + 1; i < HD_CLASS_COUNT; i++) {
    size_t bytes = hdi_sizeclass_bytes(i), before = room(bytes);
    for (unsigned round = 0; round < 32; round++, before = room(bytes)) {
      take_and_free_many(bytes);
      assert_true(room(bytes) >= before && room(bytes) <= 2 * before);
    }
    assert_true(before <= HD_MAGAZINE_MOST && before * bytes <= HD_MAGAZINE_MOST_BYTES);
    assert_true(before == HD_MAGAZINE_MOST || (before + 1) * bytes > HD_MAGAZINE_MOST_BYTES);
    hd_thread_idle();
    assert_int_equal(standing(bytes), 0);
    assert_true(room(bytes) <= HD_MAGAZINE_FIRST && (room(bytes) == 1 || room(bytes) * bytes <= HD_MAGAZINE_FIRST_BYTES));
  }
}

/* The store has no memory: what there is goes on working. */
static void test_no_memory_to_grow(void **state) {
  (void)state;
  enum { OTHER = 7 * 1024 };
  struct rlimit before, now;
  take_and_free_many(OTHER);
  size_t first = room(OTHER);
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  now = (struct rlimit){MIB, before.rlim_max}; /* nothing more at all */
  assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
  size_t taken = 0;
  while (taken < 64 * MIB && hdi_store_take(2 * first * sizeof(hd_cached)) != NULL) taken += 2 * first * sizeof(hd_cached);
  if (taken >= 64 * MIB) skip(); /* emulators do not hold to such a limit */
  for (unsigned i = 0; i < 16; i++) take_and_free_many(OTHER);
  assert_int_equal(room(OTHER), first);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  for (unsigned i = 0; i < 16; i++) take_and_free_many(OTHER);
  assert_true(room(OTHER) > first);
}

/* Given back, a block is free like any other, and the next claim finds it. */
static void test_given_back(void **state) {
  (void)state;
  void *stays = hd_malloc(BYTES), *goes = hd_malloc(BYTES);
  hd_unit *page = hdi_space_find(stays)->head;
  assert_ptr_equal(hdi_space_find(goes)->head, page);
  uint32_t live = hdi_page_count_live(page);
  hd_free(goes);
  hd_thread_idle();
  assert_int_equal(state_of(goes), HD_BLOCK_FREE);
  assert_int_equal(hdi_page_count_live(page), live - 1);
  hd_free(stays);
}

/* The blocks of a page in the list are not kept from it: it shall run empty, and be used for something else. */
static void test_partial_pages_drain(void **state) {
  (void)state;
  void *blocks[MANY];
  hd_collect(0);
  for (size_t i = 0; i < MANY; i++) blocks[i] = hd_malloc(BYTES);
  hd_unit *page = hdi_space_find(blocks[2 * PER_PAGE])->head; /* used up, and not the current one */
  assert_int_equal(page->state, HD_PAGE_FULL);
  size_t of_page = 0;
  for (size_t i = 0; i < MANY; i++) of_page += hdi_space_find(blocks[i])->head == page;
  assert_int_equal(of_page, PER_PAGE);
  hd_cached *end = magazine_of(BYTES)->end;
  magazine_of(BYTES)->end = magazine_of(BYTES)->top; /* no room: to its page, which has no free block yet */
  hd_free(blocks[2 * PER_PAGE]);
  magazine_of(BYTES)->end = end;
  assert_int_equal(page->state, HD_PAGE_PARTIAL);
  for (size_t i = 0; i < MANY; i++) {
    if (i == 2 * PER_PAGE || hdi_space_find(blocks[i])->head != page) continue;
    hd_free(blocks[i]);
    assert_int_equal(standing(BYTES), 0);
    blocks[i] = NULL;
  }
  assert_int_not_equal(page->state, HD_PAGE_PARTIAL); /* released */
  blocks[2 * PER_PAGE] = NULL;
  for (size_t i = 0; i < MANY; i++) hd_free(blocks[i]);
}

/* Whoever wants zeroes gets them from there too; realloc and sized frees know the blocks. */
static void test_whole_family(void **state) {
  (void)state;
  unsigned char *p = hd_malloc(BYTES);
  memset(p, 0xa5, BYTES);
  hd_free_sized(p, BYTES);
  unsigned char *q = hd_calloc(1, BYTES);
  assert_ptr_equal(q, p);
  for (size_t i = 0; i < BYTES; i++) assert_int_equal(q[i], 0);
  unsigned char *other = hd_realloc(q, 3 * BYTES);
  assert_int_equal(standing(BYTES), 1);
  assert_ptr_equal(hd_aligned_alloc(BYTES, BYTES), p);
  assert_int_equal((uintptr_t)p % BYTES, 0);
  hd_free(p);
  hd_free(other);
}

static void test_misuse_is_named(void **state) {
  (void)state;
  assert_int_equal(hd_option_set("onerror", "ignore"), HD_OK);
  hd_misuse_hook_set(ts_count_report);
  void *p = hd_malloc(BYTES);
  ts_reports.count = 0;
  hd_free(p);
  assert_int_equal(ts_reports.count, 0);
  hd_free(p);
  assert_int_equal(ts_reports.count, 1);
  assert_string_equal(ts_reports.code, "HD-E03");
  hd_free((char *)p + 16);
  assert_int_equal(ts_reports.count, 2);
  hd_misuse_hook_set(NULL);
  assert_int_equal(hd_option_set("onerror", "abort"), HD_OK);
  assert_int_equal(standing(BYTES), 1);
}

/* A heap of its own keeps none. */
static void test_heaps_keep_none(void **state) {
  (void)state;
  hd_heap *heap = hd_heap_create(NULL);
  void *p = hd_heap_malloc(heap, BYTES);
  hd_heap_free(heap, p);
  for (unsigned i = 0; i < HD_MEDIUM_CLASSES; i++) assert_ptr_equal(heap->magazine[i].end, NULL);
  hd_heap_destroy(heap);
}

int main(void) {
  only_pages();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_last_comes_first, begin),    cmocka_unit_test_setup(test_no_more_than_fit, begin),
      cmocka_unit_test_setup(test_partial_pages_drain, begin), cmocka_unit_test_setup(test_whole_family, begin),
      cmocka_unit_test_setup(test_misuse_is_named, begin),     cmocka_unit_test_setup(test_heaps_keep_none, begin),
      cmocka_unit_test_setup(test_given_back, begin),          cmocka_unit_test_setup(test_no_memory_to_grow, begin),
      cmocka_unit_test_setup(test_grows_where_needed, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
