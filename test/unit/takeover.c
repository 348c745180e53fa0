/* Pages of a few blocks change places with their class's used up page when a block of theirs comes back; frees by other threads, told
 * late, keep the counts right; and such a free writes the block's first word.
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

static void test_changes_places(void **state) {
  (void)state;
  fill();
  hd_free(block[0][3]);
  assert_int_equal(page[0]->state, HD_PAGE_FULL); /* one of sixteen is not worth it */
  hd_free(block[0][9]);
  assert_int_equal(page[0]->state, HD_PAGE_CURRENT);
  assert_ptr_equal(class_of_blocks()->page, page[0]);
  assert_int_equal(page[2]->state, HD_PAGE_FULL);
  assert_int_equal(hdi_page_used(page[2]), PER_PAGE);
  assert_null(class_of_blocks()->first); /* nothing went through the list */
  assert_ptr_equal(block[0][3] = hd_malloc(BYTES), (uint8_t *)page[0]->base + 3 * page[0]->block_bytes);
  assert_ptr_equal(block[0][9] = hd_malloc(BYTES), (uint8_t *)page[0]->base + 9 * page[0]->block_bytes);
  empty();
}

static void test_waits_while_there_are_blocks(void **state) {
  (void)state;
  fill();
  hd_free(block[2][1]); /* of the current page, which therefore is not used up */
  hd_free(block[0][3]);
  hd_free(block[0][9]);
  assert_ptr_equal(class_of_blocks()->page, page[2]);
  assert_int_equal(page[0]->state, HD_PAGE_PARTIAL);
  block[2][1] = hd_malloc(BYTES);
  block[0][3] = hd_malloc(BYTES);
  block[0][9] = hd_malloc(BYTES);
  assert_int_equal(class_of_blocks()->page_count, PAGES);
  empty();
}

static void *free_and_tell_late(void *unused) {
  (void)unused;
  void *own = hd_malloc(16); /* a heap to count in */
  hd_free(block[0][5]);
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&told);
  hd_free(own);
  return NULL;
}

/* The owner finds a block free that nobody has told it of: its count says one more in use than the page has. */
static void test_remote_free_not_told(void **state) {
  (void)state;
  pthread_t thread;
  fill();
  pthread_barrier_init(&freed, NULL, 2);
  pthread_barrier_init(&told, NULL, 2);
  assert_int_equal(pthread_create(&thread, NULL, free_and_tell_late, NULL), 0);
  pthread_barrier_wait(&freed);
  hd_free(block[0][3]);
  hd_free(block[0][9]);
  assert_ptr_equal(class_of_blocks()->page, page[0]);
  block[0][3] = hd_malloc(BYTES);
  block[0][5] = hd_malloc(BYTES);
  block[0][9] = hd_malloc(BYTES);
  assert_int_equal(hdi_page_used(page[0]), PER_PAGE + 1);
  hd_free(block[1][0]);
  hd_free(block[1][1]);
  assert_ptr_equal(class_of_blocks()->page, page[1]);
  assert_int_equal(page[0]->state, HD_PAGE_FULL);
  assert_int_equal(hdi_page_used(page[0]), PER_PAGE + 1);
  block[1][0] = hd_malloc(BYTES);
  block[1][1] = hd_malloc(BYTES);
  pthread_barrier_wait(&told);
  pthread_join(thread, NULL);
  hd_collect(0);
  assert_int_equal(hdi_page_used(page[0]), PER_PAGE);
  empty();
}

enum { FREERS = 11, OTHER_BYTES = 3000 /* 21 a page */ };

static void *free_one_and_tell_late(void *p) {
  void *own = hd_malloc(16);
  hd_free(p);
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&told);
  hd_free(own);
  return NULL;
}

/* Frees that nobody has told of make a page look full that still has blocks which were never handed out. When it comes back those must not
 * be taken for free ones: they would be handed out twice. */
static void test_full_with_virgin_blocks(void **state) {
  (void)state;
  pthread_t thread[FREERS];
  void *first[64], *later[64];
  size_t count = 0, more = 0;
  hd_class *class = &hdi_thread_heap()->class[hdi_sizeclass_of(OTHER_BYTES)];
  do assert_non_null(first[count++] = hd_malloc(OTHER_BYTES));
  while (class->page->fresh < 8);
  hd_unit *whole = class->page;
  while (count < whole->fresh) assert_non_null(first[count++] = hd_malloc(OTHER_BYTES));
  assert_true(whole->fresh + 4 <= whole->capacity);
  pthread_barrier_init(&freed, NULL, FREERS + 1);
  pthread_barrier_init(&told, NULL, FREERS + 1);
  for (size_t i = 0; i < FREERS; i++) assert_int_equal(pthread_create(&thread[i], NULL, free_one_and_tell_late, first[i]), 0);
  pthread_barrier_wait(&freed);
  for (size_t i = 0; i < FREERS; i++) assert_ptr_equal(hdi_space_find(first[i] = hd_malloc(OTHER_BYTES)), whole);
  assert_true(whole->fresh < whole->capacity);
  while (class->page == whole) assert_non_null(later[more++] = hd_malloc(OTHER_BYTES)); /* it looks full */
  assert_int_equal(whole->state, HD_PAGE_FULL);
  uint32_t fresh = whole->fresh;
  assert_true(fresh < whole->capacity);
  hd_slot *slot = &hdi_thread_heap()->slot[hdi_sizeclass_of(OTHER_BYTES)];
  while (slot->bits != 0 || hdi_page_used(class->page) < class->page->capacity) assert_non_null(later[more++] = hd_malloc(OTHER_BYTES));
  for (size_t i = 0; i < count && whole->state == HD_PAGE_FULL; i++) {
    hd_free(first[i]);
    first[i] = NULL;
  }
  assert_ptr_equal(class->page, whole);
  assert_int_equal(slot->bits >> fresh, 0);
  pthread_barrier_wait(&told);
  for (size_t i = 0; i < FREERS; i++) pthread_join(thread[i], NULL);
  for (size_t i = 0; i < count; i++) hd_free(first[i]);
  for (size_t i = 0; i < more; i++) hd_free(later[i]);
}

/* A page of several units: what comes back while it is the current one is what the next call gets, and nobody takes it for fresh memory. */
static void test_back_into_the_slot(void **state) {
  (void)state;
  enum { LARGE = 12000 };
  uint8_t *first = hd_malloc(LARGE), *second = hd_malloc(LARGE);
  hd_unit *head = hdi_space_find(first)->head;
  uint32_t used = hdi_page_used(head);
  hd_slot *slot = &hdi_thread_heap()->slot[head->class_index];
  uint64_t bits = slot->bits;
  assert_true(head->run_units > 1);
  memset(first, 0xa5, LARGE);
  hd_free(first);
  assert_int_equal(hdi_page_used(head), used); /* claimed */
  assert_int_equal(hd_bit_count(slot->bits), hd_bit_count(bits) + 1);
  uint8_t *again = hd_calloc(1, LARGE);
  assert_ptr_equal(again, first);
  for (size_t i = 0; i < LARGE; i++) assert_int_equal(again[i], 0);
  hd_free(second);
  hd_free(again);
  assert_int_equal(hdi_page_count_live(head), 0);
}

static void *free_small(void *p) {
  hd_free(p);
  return NULL;
}

static void test_remote_free_writes(void **state) {
  (void)state;
  static const size_t sizes[] = {16, 64, 1024, 1025, 40000};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    volatile uint64_t *p = hd_malloc(sizes[i]);
    pthread_t thread;
    p[0] = p[1] = 0x5555555555555555u;
    assert_int_equal(pthread_create(&thread, NULL, free_small, (void *)p), 0);
    pthread_join(thread, NULL);
    assert_int_equal(p[0] == 0, sizes[i] <= 1024); /* larger ones are left alone: their pages may be gone already */
    assert_true(p[1] == 0x5555555555555555u);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_full_with_virgin_blocks), /* first: only fresh memory is handed out step by step */
      cmocka_unit_test(test_changes_places),
      cmocka_unit_test(test_waits_while_there_are_blocks),
      cmocka_unit_test(test_remote_free_not_told),
      cmocka_unit_test(test_back_into_the_slot),
      cmocka_unit_test(test_remote_free_writes),
  };
  return cmocka_run_group_tests_name("takeover", tests, NULL, NULL);
}
