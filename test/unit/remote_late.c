/* Frees by other threads, told late: the counts stay right while a page looks fuller than it is; and such a free writes the block's first
 * word. The magazine has no room here, so that each block goes back to its page.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "core/heap.h"
#include "core/page.h"
#include "core/thread.h"
#include "heddle.h"
#include "pages.h"

enum { BYTES = 4000, PER_PAGE = 16, PAGES = 3 };

static void *block[PAGES][PER_PAGE];
static hd_unit *page[PAGES];
static pthread_barrier_t freed, told;

static hd_class *class_of_blocks(void) { return &hdi_thread_heap()->class[hdi_sizeclass_of(BYTES)]; }

static void fill(void) {
  for (size_t i = 0; i < PAGES; i++) {
    for (size_t k = 0; k < PER_PAGE; k++) assert_non_null(block[i][k] = hd_malloc(BYTES));
    page[i] = hdi_space_find(block[i][0]);
    for (size_t k = 0; k < PER_PAGE; k++) assert_ptr_equal(hdi_space_find(block[i][k]), page[i]);
  }
  hd_magazine *magazine = hdi_heap_magazine(hdi_thread_heap(), hdi_sizeclass_of(BYTES));
  magazine->end = magazine->top;
  assert_int_equal(page[0]->capacity, PER_PAGE);
  assert_ptr_equal(class_of_blocks()->page, page[PAGES - 1]);
}

static void empty(void) {
  for (size_t i = 0; i < PAGES; i++) {
    for (size_t k = 0; k < PER_PAGE; k++) hd_free(block[i][k]);
  }
  for (size_t i = 0; i < PAGES; i++) {
    if (page[i]->kind == HD_UNIT_PAGE) assert_int_equal(hdi_page_count_live(page[i]), 0);
  }
  assert_true(class_of_blocks()->page_count <= 1); /* the current one may stay */
}

static void *free_and_tell_late(void *unused) {
  (void)unused;
  void *own = hd_malloc(16); /* a heap to count in, which has no parcel at hand */
  for (size_t i = 0; i < HD_PARCELS; i++) hd_store_relaxed(&hdi_heap_self->parcel[i].owner, hdi_heap_self);
  hd_free(block[0][5]);
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&told);
  hd_free(own);
  return NULL;
}

/* The owner of a class whose blocks others free finds one free that nobody has told it of: its count says one more in use than the page
 * has. */
static void test_remote_free_not_told(void **state) {
  (void)state;
  pthread_t thread;
  fill();
  pthread_barrier_init(&freed, NULL, 2);
  pthread_barrier_init(&told, NULL, 2);
  assert_int_equal(pthread_create(&thread, NULL, free_and_tell_late, NULL), 0);
  pthread_barrier_wait(&freed);
  class_of_blocks()->shared = true; /* some told before */
  hd_free(block[0][3]);
  hd_free(block[0][9]);
  assert_int_equal(page[0]->state, HD_PAGE_PARTIAL);
  block[0][3] = hd_malloc(BYTES);
  assert_ptr_equal(class_of_blocks()->page, page[0]);
  block[0][5] = hd_malloc(BYTES);
  block[0][9] = hd_malloc(BYTES);
  assert_int_equal(hdi_page_used(page[0]), PER_PAGE + 1);
  hd_free(block[1][0]);
  hd_free(block[1][1]);
  block[1][0] = hd_malloc(BYTES);
  assert_ptr_equal(class_of_blocks()->page, page[1]);
  assert_int_equal(page[0]->state, HD_PAGE_FULL);
  assert_int_equal(hdi_page_used(page[0]), PER_PAGE + 1);
  block[1][1] = hd_malloc(BYTES);
  pthread_barrier_wait(&told);
  pthread_join(thread, NULL);
  hd_collect(0);
  assert_int_equal(hdi_page_used(page[0]), PER_PAGE);
  empty();
}

static void *free_small(void *p) {
  hd_free(p);
  return NULL;
}

static void test_remote_free_writes(void **state) {
  (void)state;
  static const size_t sizes[] = {16, 64, HD_SMALL_MAX, HD_SMALL_MAX + 1, 40000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    volatile uint64_t *p = hd_malloc(sizes[i]);
    pthread_t thread;
    p[0] = p[1] = 0x5555555555555555u;
    assert_int_equal(pthread_create(&thread, NULL, free_small, (void *)p), 0);
    pthread_join(thread, NULL);
    assert_int_equal(p[0] == 0, sizes[i] <= HD_SMALL_MAX); /* larger ones are left alone: their pages may be gone already */
    assert_true(p[1] == 0x5555555555555555u);
  }
}

int main(void) {
  only_pages();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_remote_free_not_told),
      cmocka_unit_test(test_remote_free_writes),
  };
  return cmocka_run_group_tests_name("remote_late", tests, NULL, NULL);
}
