/* The helper and the collector: the helper goes on while the program changes its mind about purging, and ends at once where it has rights
 * that the program has given up; frees that others counted and did not tell come in; heaps that are held under their lock are passed over.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/heap.h"
#include "core/page.h"
#include "core/purge.h"
#include "core/thread.h"
#include "heddle.h"
#include "os/os.h"

enum { COUNT = 4000, BYTES = 5000 };
static void *blocks[COUNT];

static void fill(void) {
  for (int i = 0; i < COUNT; i++) {
    assert_non_null(blocks[i] = hd_malloc(BYTES));
    memset(blocks[i], 1, BYTES);
  }
}

static size_t cached(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  assert_true(hd_stats_get(&stats));
  return stats.cached;
}

/* Whether the free runs go down to so much within ten seconds. */
static bool goes_back(size_t bytes) {
  for (int i = 0; i < 200 && cached() > bytes; i++) ts_sleep_ms(50);
  return cached() <= bytes;
}

static void test_option_while_running(void **state) {
  (void)state;
  assert_int_equal(hd_option_set("purge-delay", "0"), HD_OK);
  fill();
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  assert_int_equal(hdi_purge_running, 1);
  assert_true(goes_back(1 << 20));
  hd_option_set("purge", "off");
  fill();
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  ts_sleep_ms(700); /* the helper is still there, and leaves it alone */
  assert_true(cached() > 8 << 20);
  assert_true(hd_collect(0)); /* who asks is obeyed */
  assert_true(cached() < 1 << 20);
  fill();
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  hd_option_set("purge", "on");
  assert_true(goes_back(1 << 20));
}

static atomic_bool outranks;

bool __wrap_hdi_os_helper_outranks(void);
bool __wrap_hdi_os_helper_outranks(void) { return atomic_load(&outranks); }

/* All that is free goes back with it, early or not: also pages that have just become empty, and what stands in magazines. */
static void test_rights_given_up(void **state) {
  (void)state;
  assert_int_equal(hd_option_set("purge-delay", "60000"), HD_OK);
  for (int round = 0; round < 2; round++) {
    fill();
    for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
    assert_int_equal(hdi_purge_running, 1);
    assert_true(cached() > 8 << 20);
    atomic_store(&outranks, true);
    for (int i = 0; i < 100 && hdi_purge_running != 0; i++) ts_sleep_ms(20);
    atomic_store(&outranks, false);
    assert_int_equal(hdi_purge_running, 0);
    assert_true(cached() < 1 << 20);
    ts_sleep_ms(50); /* its thread ends */
  }
  assert_int_equal(hd_option_set("purge-delay", "0"), HD_OK);
}

/* What stands in a magazine changes no page, and goes back all the same while the helper is there. */
static void test_magazines_rest(void **state) {
  (void)state;
  fill();
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  assert_int_equal(hdi_purge_running, 1);
  assert_true(goes_back(1 << 20));
  hd_magazine *magazine = hdi_heap_magazine(hdi_heap_self, hdi_sizeclass_of(BYTES));
  void *p = hd_malloc(BYTES);
  ts_sleep_ms(600); /* the last change that a page shows */
  hd_free(p);
  for (int i = 0; i < 100 && hd_peek(&magazine->top) != magazine->first; i++) ts_sleep_ms(50);
  assert_ptr_equal(hd_peek(&magazine->top), magazine->first);
}

/* The system page inside a block. */
static uint8_t *inside(void *block) { return (uint8_t *)hd_round_up((uintptr_t)block, ts_os_page()); }
static bool is_resident(void *block) { return ts_resident(inside(block), ts_os_page()) != 0; }

/* One that is free in its page, for the helper alone to find, and has a system page of its own. */
static void *free_inside(void **of, int count, size_t bytes) {
  for (int i = 0; i < count; i += 2) {
    hd_unit *page = hdi_space_find(of[i])->head;
    uint64_t index = hdi_unit_block_index(page, of[i]);
    bool whole = inside(of[i]) + ts_os_page() <= (uint8_t *)of[i] + bytes;
    if (whole && page->state != HD_PAGE_CURRENT && page->map[index] == HD_BLOCK_FREE) return of[i];
  }
  return NULL;
}

/* Every second block is freed, of those that the thread's heap has in pages of one unit, which rest for sixteen rounds, and of others in
 * pages that rest for two. heap: whose the others are; NULL: the thread's. */
static void see_rest_sooner(hd_heap *heap, void **others, int count, size_t bytes) {
  for (int i = 0; i < COUNT; i += 2) hd_free(blocks[i]);
  for (int i = 0; i < count; i += 2) heap != NULL ? hd_heap_free(heap, others[i]) : hd_free(others[i]);
  void *block = free_inside(blocks, COUNT, BYTES), *other = free_inside(others, count, bytes);
  assert_true(block != NULL && other != NULL && is_resident(block));
  for (int i = 0; i < 200 && is_resident(other); i++) ts_sleep_ms(50);
  assert_false(is_resident(other));
  ts_sleep_ms(750); /* the helper goes from page to page: of two that are due at a time one may go a quarter of a second later */
  assert_true(is_resident(block));
  for (int i = 0; i < 200 && is_resident(block); i++) ts_sleep_ms(50);
  assert_false(is_resident(block));
  for (int i = 1; i < COUNT; i += 2) hd_free(blocks[i]);
  for (int i = 1; i < count; i += 2) hd_free(others[i]);
}

static void test_long_pages_rest_sooner(void **state) {
  (void)state;
  enum { LONG_COUNT = COUNT / 4, LONG_BYTES = 4 * BYTES };
  static void *longs[LONG_COUNT];
  fill();
  for (int i = 0; i < LONG_COUNT; i++) {
    assert_non_null(longs[i] = hd_malloc(LONG_BYTES));
    memset(longs[i], 1, LONG_BYTES);
  }
  see_rest_sooner(NULL, longs, LONG_COUNT, LONG_BYTES);
}

static void test_pages_of_explicit_heaps_rest_sooner(void **state) {
  (void)state;
  static void *theirs[COUNT];
  const hd_heap_config config = {.one_user = true}; /* or its blocks' frees would be counted as others', and not rest at all */
  hd_heap *heap = hd_heap_create(&config);
  fill();
  for (int i = 0; i < COUNT; i++) {
    assert_non_null(theirs[i] = hd_heap_malloc(heap, BYTES));
    memset(theirs[i], 1, BYTES);
  }
  see_rest_sooner(heap, theirs, COUNT, BYTES);
  hd_heap_destroy(heap);
}

static pthread_barrier_t counted, told;

static void *free_some(void *unused) {
  hd_free(hd_malloc(10));
  hd_free(blocks[0]);
  pthread_barrier_wait(&counted);
  pthread_barrier_wait(&told);
  return unused;
}

static void test_counts_of_others(void **state) {
  (void)state;
  pthread_t thread;
  fill();
  hd_unit *page = hdi_space_find(blocks[0]);
  uint32_t used = hdi_page_used(page);
  pthread_barrier_init(&counted, NULL, 2);
  pthread_barrier_init(&told, NULL, 2);
  pthread_create(&thread, NULL, free_some, NULL);
  pthread_barrier_wait(&counted);
  assert_int_equal(hdi_page_used(page), used);
  hd_collect(0);
  assert_int_equal(hdi_page_used(page), used - 1);
  pthread_barrier_wait(&told);
  pthread_join(thread, NULL);
  for (int i = 1; i < COUNT; i++) hd_free(blocks[i]);
}

/* A heap that is in use under its lock; one that is not is collected as well. */
static void test_locked_heaps(void **state) {
  (void)state;
  hd_collect(0);
  hd_heap *heap = hd_heap_create(NULL);
  void *kept[256];
  for (int i = 0; i < 256; i++) memset(kept[i] = hd_heap_malloc(heap, 4096), 1, 4096);
  for (int i = 0; i < 256; i++) {
    if (i % 16 != 0) hd_free(kept[i]);
  }
  hd_stats before = {.struct_bytes = sizeof before}, held = before, after = before;
  hdi_lock_take(&heap->lock);
  hd_stats_get(&before);
  hd_collect(0);
  hd_stats_get(&held);
  hdi_lock_drop(&heap->lock);
  hd_collect(0);
  hd_stats_get(&after);
  assert_true(held.purged_total - before.purged_total < 100 * 4096); /* others may give something back meanwhile */
  assert_true(after.purged_total - held.purged_total >= 200 * 4096);
  hd_heap_destroy(heap);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_option_while_running),
      cmocka_unit_test(test_rights_given_up),
      cmocka_unit_test(test_magazines_rest),
      cmocka_unit_test(test_long_pages_rest_sooner),
      cmocka_unit_test(test_pages_of_explicit_heaps_rest_sooner),
      cmocka_unit_test(test_counts_of_others),
      cmocka_unit_test(test_locked_heaps),
  };
  return cmocka_run_group_tests_name("purge_helper", tests, NULL, NULL);
}
