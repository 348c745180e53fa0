/* What stays of heaps whose threads have ended, or wait: nothing but what is in use.
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
#include "heddle.h"
#include "pages.h"
#include "worker.h"

#define MIB ((size_t)1 << 20)
enum { THREADS = 12, SIZES = 40, KEPT_BYTES = 700 };

static pthread_barrier_t all;
static uint8_t *kept[THREADS];

/* Pages of heaps in a state of life without a block in use, and with. */
static size_t pages(unsigned life, bool in_use) {
  size_t count = 0;
  for (size_t at = 0; at < hd_load_relaxed(&hdi_space.top); at++) {
    hd_unit *unit = hdi_space.units + at;
    if (hd_load_relaxed(&unit->kind) != HD_UNIT_PAGE || unit->head != unit) continue;
    hd_heap *heap = hdi_heap_owner(unit);
    if (heap != hdi_heap_self && hd_load_relaxed(&heap->life) == life) count += (hdi_page_count_live(unit) > 0) == in_use;
  }
  return count;
}

/* Blocks of each small class, all freed: nothing that starts the helper by itself. */
static void use_sizes(void) {
  void *p[2 * SIZES];
  only_pages();
  for (size_t i = 0; i < 2 * SIZES; i++) assert_non_null(p[i] = hd_malloc(16 + i / 2 * 50));
  for (size_t i = 0; i < 2 * SIZES; i++) hd_free(p[i]);
}

static void *live(void *place) {
  uint8_t **block = place;
  use_sizes();
  assert_non_null(*block = hd_malloc(KEPT_BYTES));
  memset(*block, 0x5a, KEPT_BYTES);
  pthread_barrier_wait(&all);
  return NULL;
}

/* So many that lived at the same time. */
static void let_threads_end(void) {
  pthread_t thread[THREADS];
  assert_int_equal(pthread_barrier_init(&all, NULL, THREADS), 0);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&thread[i], NULL, live, &kept[i]), 0);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_join(thread[i], NULL), 0);
  pthread_barrier_destroy(&all);
  assert_true(pages(HD_HEAP_ORPHAN, false) >= THREADS * SIZES / 2);
}

static void check_kept(void) {
  assert_int_equal(pages(HD_HEAP_ORPHAN, true), THREADS);
  for (int i = 0; i < THREADS; i++) {
    for (size_t at = 0; at < KEPT_BYTES; at++) assert_int_equal(kept[i][at], 0x5a);
    hd_free(kept[i]);
  }
}

/* Twice: heaps that were at rest are adopted, used, and left again. */
static void test_on_demand(void **state) {
  (void)state;
  for (int time = 0; time < 2; time++) {
    let_threads_end();
    hd_collect(0);
    assert_int_equal(pages(HD_HEAP_ORPHAN, false), 0);
    check_kept();
  }
}

/* First of all. Not while the next thread may come: it finds the heap as it was left. */
static void test_by_the_helper(void **state) {
  (void)state;
  void *large = hd_malloc(32 * MIB); /* smaller heaps are left alone */
  assert_int_equal(hd_load_relaxed(&hdi_purge_running), 0);
  let_threads_end();
  assert_int_equal(hd_load_relaxed(&hdi_purge_running), 1);
  ts_sleep_ms(300);
  assert_true(pages(HD_HEAP_ORPHAN, false) > 0);
  for (int tries = 0; tries < 200 && pages(HD_HEAP_ORPHAN, false) > 0; tries++) ts_sleep_ms(50);
  assert_int_equal(pages(HD_HEAP_ORPHAN, false), 0);
  check_kept();
  hd_free(large);
}

static void work_and_wait(worker *self) {
  (void)self;
  use_sizes();
  kept[0] = hd_malloc(KEPT_BYTES);
  hd_thread_idle();
}

static void work_again(worker *self) {
  (void)self;
  use_sizes();
  hd_free(kept[0]);
}

static void test_of_a_thread_that_says_it_waits(void **state) {
  (void)state;
  static worker other;
  assert_int_equal(worker_start(&other), 0);
  worker_do(&other, work_and_wait);
  assert_int_equal(pages(HD_HEAP_USED, false), 0);
  assert_int_equal(pages(HD_HEAP_USED, true), 1);
  worker_do(&other, work_again);
  worker_end(&other);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_by_the_helper),
      cmocka_unit_test(test_on_demand),
      cmocka_unit_test(test_of_a_thread_that_says_it_waits),
  };
  return cmocka_run_group_tests_name("orphans", tests, NULL, NULL);
}
