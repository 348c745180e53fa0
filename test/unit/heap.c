/* The life of a page in a heap, seen from the public calls: CURRENT, FULL, PARTIAL, released; limits, reset, own memory.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/heap.h"
#include "core/page.h"
#include "core/remote.h"
#include "heddle.h"

#define BLOCK_BYTES 1024
#define MEDIUM_BYTES (HD_SMALL_MAX + 256) /* of the first medium class */
#define PER_PAGE (HD_UNIT_BYTES / BLOCK_BYTES)
#define CLASS hdi_sizeclass_of(BLOCK_BYTES)

static hd_heap *heap;

static size_t live_bytes(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  assert_true(hd_heap_stats_get(heap, &stats));
  return stats.live;
}

static void take_page(void *blocks[PER_PAGE]) {
  for (size_t i = 0; i < PER_PAGE; i++) {
    blocks[i] = hd_heap_malloc(heap, BLOCK_BYTES);
    assert_non_null(blocks[i]);
    assert_ptr_equal(hdi_space_find(blocks[i])->head, hdi_space_find(blocks[0])->head);
  }
}

static void free_blocks(void **blocks, size_t from, size_t to) {
  for (size_t i = from; i < to; i++) hd_free(blocks[i]);
}

static void test_life_of_a_page(void **state) {
  (void)state;
  void *first[PER_PAGE], *second[PER_PAGE];
  hd_class *class = &heap->class[CLASS];
  take_page(first);
  hd_unit *page = hdi_space_find(first[0]);
  assert_ptr_equal(class->page, page);
  assert_int_equal(page->state, HD_PAGE_CURRENT);
  assert_int_equal(class->page_count, 1);

  take_page(second);
  hd_unit *other = hdi_space_find(second[0]);
  assert_ptr_equal(class->page, other);
  assert_int_equal(page->state, HD_PAGE_FULL);
  assert_int_equal(hdi_page_used(page), PER_PAGE);
  assert_int_equal(class->page_count, 2);

  free_blocks(first, 0, PER_PAGE / 8 - 1); /* an eighth is worth a look, one block less is not */
  assert_int_equal(page->state, HD_PAGE_FULL);
  assert_null(class->first);
  free_blocks(first, PER_PAGE / 8 - 1, PER_PAGE / 8);
  assert_int_equal(page->state, HD_PAGE_PARTIAL);
  assert_ptr_equal(class->first, page);
  assert_null(page->next);
  assert_int_equal(hdi_page_used(page), PER_PAGE - PER_PAGE / 8);

  free_blocks(first, PER_PAGE / 8, PER_PAGE - 1);
  assert_int_equal(page->state, HD_PAGE_PARTIAL);
  assert_int_equal(heap->held_units, 2);
  free_blocks(first, PER_PAGE - 1, PER_PAGE);
  assert_int_not_equal(page->kind, HD_UNIT_PAGE); /* released with its last block */
  assert_int_equal(page->owner, 0);
  assert_null(class->first);
  assert_int_equal(class->page_count, 1);
  assert_int_equal(heap->held_units, 1);

  free_blocks(second, 0, PER_PAGE);
  assert_ptr_equal(class->page, other); /* the current page stays */
  assert_int_equal(other->state, HD_PAGE_CURRENT);
  assert_int_equal(hdi_page_count_live(other), 0);
  assert_int_equal(live_bytes(), 0);
}

/* A partly used page is used up before the heap asks for another one. */
static void test_partial_before_new(void **state) {
  (void)state;
  void *blocks[3][PER_PAGE];
  hd_class *class = &heap->class[CLASS];
  for (int i = 0; i < 3; i++) take_page(blocks[i]);
  free_blocks(blocks[0], 0, PER_PAGE / 4);
  free_blocks(blocks[1], 0, PER_PAGE / 2);
  hd_unit *zero = hdi_space_find(blocks[0][PER_PAGE - 1]), *one = hdi_space_find(blocks[1][PER_PAGE - 1]);
  assert_ptr_equal(class->first, one); /* freed last, hottest, first */
  assert_ptr_equal(one->next, zero);
  for (size_t i = 0; i < PER_PAGE / 2; i++) {
    blocks[1][i] = hd_heap_malloc(heap, BLOCK_BYTES);
    assert_ptr_equal(hdi_space_find(blocks[1][i]), one);
  }
  for (size_t i = 0; i < PER_PAGE / 4; i++) {
    blocks[0][i] = hd_heap_malloc(heap, BLOCK_BYTES);
    assert_ptr_equal(hdi_space_find(blocks[0][i]), zero);
  }
  assert_int_equal(class->page_count, 3);
  void *more = hd_heap_malloc(heap, BLOCK_BYTES);
  assert_int_equal(class->page_count, 4);
  hd_free(more);
  for (int i = 0; i < 3; i++) free_blocks(blocks[i], 0, PER_PAGE);
  assert_int_equal(class->page_count, 1);
  assert_int_equal(heap->held_units, 1);
}

/* Pages of several units, by blocks that begin in units other than the first. */
static void test_multi_unit_page(void **state) {
  (void)state;
  enum { BYTES = 40960, COUNT = 8 * HD_UNIT_BYTES / BYTES };
  void *blocks[2 * COUNT];
  hd_class *class = &heap->class[hdi_sizeclass_of(BYTES)];
  for (size_t i = 0; i < 2 * COUNT; i++) assert_non_null(blocks[i] = hd_heap_malloc(heap, BYTES));
  assert_int_equal(class->page_count, 2);
  assert_int_equal(heap->held_units, 16);
  free_blocks(blocks, 0, COUNT);
  assert_int_equal(class->page_count, 1);
  assert_int_equal(heap->held_units, 8);
  free_blocks(blocks, COUNT, 2 * COUNT);
}

static void test_reset(void **state) {
  (void)state;
  static const size_t sizes[] = {1, 100, 1000, 5000, 30000, 100000, 3000000};
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < 700; i++) {
      void *p = hd_heap_malloc(heap, sizes[i % 7]);
      assert_non_null(p);
      memset(p, 0x77, sizes[i % 7]);
    }
    assert_true(heap->held_units > 300 * 16);
    hd_heap_reset(heap);
    assert_int_equal(live_bytes(), 0);
    assert_int_equal(heap->held_units, 0);
    assert_int_equal(heap->runs, 0);
    for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
      assert_int_equal(heap->class[i].page_count, 0);
      assert_int_equal(hdi_slot_bits(&heap->class[i].slot), 0);
    }
  }
  uint8_t *p = hd_heap_zalloc(heap, 5000); /* from memory that has been full of marks */
  for (int i = 0; i < 5000; i++) assert_int_equal(p[i], 0);
}

static void *limited(size_t bytes) {
  errno = 0;
  void *p = hd_heap_malloc(heap, bytes);
  assert_int_equal(errno, p ? 0 : ENOMEM);
  return p;
}

static void test_limit(void **state) {
  (void)state;
  hd_heap *unlimited = heap;
  hd_heap_config config = {.struct_bytes = sizeof config, .limit_bytes = 4 * HD_UNIT_BYTES};
  heap = hd_heap_create(&config);
  assert_non_null(heap);
  for (int round = 0; round < 2; round++) {
    int count = 0;
    while (limited(BLOCK_BYTES)) count++;
    assert_int_equal(count, 4 * PER_PAGE);
    assert_null(limited(16));
    hd_heap_reset(heap);
  }
  assert_null(limited(4 * HD_UNIT_BYTES + 1));
  void *large = limited(3 * HD_UNIT_BYTES);
  assert_non_null(large);
  assert_null(hd_expand(large, 5 * HD_UNIT_BYTES));
  assert_null(limited(2 * HD_UNIT_BYTES));
  assert_ptr_equal(hd_expand(large, 2 * HD_UNIT_BYTES), large); /* gives one unit back to the heap's account */
  void *beside = limited(2 * HD_UNIT_BYTES);
  assert_non_null(beside);
  hd_free(beside);
  hd_free(large);
  void *second = limited(4 * HD_UNIT_BYTES);
  assert_non_null(second);
  assert_null(limited(16));
  hd_free(second);
  assert_non_null(limited(16));
  hd_heap_destroy(heap);
  heap = unlimited;
}

static void test_own_memory(void **state) {
  (void)state;
  enum { BYTES = 2 << 20 };
  uint8_t *memory = malloc(BYTES);
  hd_heap *common = heap;
  hd_heap_config config = {.struct_bytes = sizeof config, .memory = memory, .memory_bytes = BYTES};
  heap = hd_heap_create(&config);
  assert_non_null(heap);
  size_t count = 0;
  for (uint8_t *p; (p = limited(BLOCK_BYTES)) != NULL; count++) {
    assert_true(p >= memory && p + BLOCK_BYTES <= memory + BYTES);
    assert_ptr_equal(hd_heap_of(p), heap);
    memset(p, 0x33, BLOCK_BYTES);
  }
  assert_true(count * BLOCK_BYTES >= BYTES / 2);
  assert_int_equal(live_bytes(), count * BLOCK_BYTES);
  hd_heap_destroy(heap);
  assert_false(hd_owns(memory + BYTES / 2));
  for (int i = 0; i < 200; i++) { /* more than there can be at a time */
    heap = hd_heap_create(&config);
    assert_non_null(heap);
    hd_heap_destroy(heap);
  }
  heap = common;
  free(memory);
}

static void *free_page(void *blocks) {
  free_blocks(blocks, 0, PER_PAGE);
  return NULL;
}

static void *free_ten(void *blocks) {
  free_blocks(blocks, 0, 10);
  return NULL;
}

static void by_another_thread(void *(*work)(void *), void **blocks) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, work, blocks), 0);
  pthread_join(thread, NULL);
}

/* From the first count that arrives, at a claim or by mail, it is known that others free a class's blocks. */
static void test_told_of_remote_frees(void **state) {
  (void)state;
  enum { BYTES = BLOCK_BYTES / 2, COUNT = 2 * PER_PAGE };
  hd_heap *common = heap;
  hd_heap_config config = {.struct_bytes = sizeof config, .one_user = true};
  void *blocks[COUNT];
  heap = hd_heap_create(&config);
  hd_class *class = &heap->class[hdi_sizeclass_of(BYTES)];
  for (int i = 0; i < COUNT; i++) blocks[i] = hd_heap_malloc(heap, BYTES);
  hd_unit *page = hdi_space_find(blocks[0]);
  by_another_thread(free_ten, blocks);
  assert_false(hdi_remote_has_mail(heap) || class->told);
  for (int i = 20; i < 26; i++) hd_store_release(&page->map[i], HD_BLOCK_FREE); /* as one that has not told yet */
  assert_ptr_equal(hd_heap_malloc(heap, BYTES), blocks[0]);                     /* 10 of 128 would be too few */
  assert_true(class->told);
  class->told = false;
  by_another_thread(free_ten, blocks + 30);
  by_another_thread(free_ten, blocks + 40);
  assert_true(hdi_remote_has_mail(heap));
  hdi_remote_drain(heap);
  assert_true(class->told);
  hd_heap_destroy(heap);
  heap = common;
}

/* What another thread frees arrives by mail, and an empty page goes. */
static void test_remote_frees_release(void **state) {
  (void)state;
  hd_heap *common = heap;
  hd_heap_config config = {.struct_bytes = sizeof config, .one_user = true};
  void *first[PER_PAGE], *second[PER_PAGE];
  heap = hd_heap_create(&config);
  take_page(first);
  take_page(second);
  assert_int_equal(hdi_space_find(first[0])->state, HD_PAGE_FULL);
  by_another_thread(free_page, first);
  assert_int_equal(heap->class[CLASS].page_count, 2);
  hdi_remote_drain(heap);
  assert_int_equal(heap->class[CLASS].page_count, 1);
  assert_int_equal(heap->held_units, 1);
  assert_int_equal(live_bytes(), PER_PAGE * BLOCK_BYTES);
  take_page(first);
  by_another_thread(free_page, second);
  assert_true(hdi_remote_has_mail(heap));
  hd_heap_reset(heap); /* with all pages goes the mail about them */
  assert_false(hdi_remote_has_mail(heap));
  hd_heap_destroy(heap);
  heap = common;
}

/* A page whose blocks are claimed, and all free: without its claim it is empty. */
static void test_unclaim_empties(void **state) {
  (void)state;
  void *one = hd_heap_malloc(heap, MEDIUM_BYTES), *two = hd_heap_malloc(heap, MEDIUM_BYTES), *three = hd_heap_malloc(heap, MEDIUM_BYTES);
  hd_unit *page = hdi_space_find(one);
  unsigned class_index = page->class_index;
  hd_free(one);
  assert_int_not_equal(hdi_slot_bits(&heap->class[class_index].slot), 0);
  if (page->apart == 0) { /* as in fresh memory */
    hdi_slot_set(&heap->class[class_index].slot, &page->apart);
    page->apart = page->words[0];
    page->words[0] = 0;
  }
  assert_true(hdi_heap_unclaim_medium(heap, page));
  assert_int_equal(page->state, HD_PAGE_PARTIAL);
  assert_int_equal(hdi_page_used(page), 2);
  assert_int_equal(hdi_page_count_words(page), page->fresh - 2);
  assert_int_equal(hdi_slot_bits(&heap->class[class_index].slot), 0);
  hd_free(two);
  hd_free(three);
  assert_int_equal(heap->held_units, 0);
  one = hd_heap_malloc(heap, 64);
  assert_false(hdi_heap_unclaim_medium(heap, hdi_space_find(one))); /* a small class: its slot is used outside the gate */
  hd_free(one);
}

/* Of a page of a medium class that another page of it stands in front of, nothing is claimed. */
static void test_unclaim_wants_the_current_page(void **state) {
  (void)state;
  enum { PAGE_BLOCKS = HD_UNIT_BYTES / MEDIUM_BYTES };
  void *blocks[2 * PAGE_BLOCKS];
  for (int i = 0; i < 2 * PAGE_BLOCKS; i++) assert_non_null(blocks[i] = hd_heap_malloc(heap, MEDIUM_BYTES));
  hd_unit *full = hdi_space_find(blocks[0]);
  uint32_t credit = full->credit;
  assert_int_equal(full->state, HD_PAGE_FULL);
  assert_false(hdi_heap_unclaim_medium(heap, full));
  assert_int_equal(full->credit, credit);
  free_blocks(blocks, 0, 2 * PAGE_BLOCKS);
}

/* The child of a fork may have pages whose blocks are all counted as free, though some have LIVE bytes for ever. */
static void test_torn_pages(void **state) {
  (void)state;
  void *first[PER_PAGE], *second[PER_PAGE];
  hd_class *class = &heap->class[CLASS];
  take_page(first);
  hd_unit *page = hdi_space_find(first[0]);
  page->held = 0; /* nothing is in use, and nothing to be had */
  take_page(second);
  assert_int_equal(page->state, HD_PAGE_FULL);
  assert_int_equal(hdi_page_used(page), 0);
  hdi_heap_settle(heap, page); /* what the last free leads to */
  assert_int_not_equal(hd_load_relaxed(&page->kind), HD_UNIT_PAGE);
  assert_int_equal(class->page_count, 1);
  free_blocks(second, 0, PER_PAGE);
}

static void settle_nonsense(void *page) {
  ((hd_unit *)page)->state = HD_PAGE_NONE;
  ((hd_unit *)page)->credit = 0;
  hdi_heap_settle(heap, page);
}

static void credit_too_many(void *page) { hdi_heap_credit_remote(heap, page, hdi_page_used(page) + 1); }

/* Data of ours that is broken ends the process, in a release build too. */
static void test_broken_pages(void **state) {
  (void)state;
  struct ts_outcome outcome;
  hd_unit *page = hdi_space_find(hd_heap_malloc(heap, BLOCK_BYTES));
  ts_fork_run(settle_nonsense, page, 20, &outcome);
  assert_true(ts_signalled(&outcome, SIGABRT));
  assert_non_null(strstr(outcome.error, "a page in no state"));
  ts_fork_run(credit_too_many, page, 20, &outcome);
  assert_true(ts_signalled(&outcome, SIGABRT));
  assert_non_null(strstr(outcome.error, "more blocks freed than were live"));
}

/* Memory of the caller's is never exchanged for fresh memory: it is cleared where it stands. */
static void test_zeroes_in_own_memory(void **state) {
  (void)state;
  enum { BYTES = 24 << 20, BLOCK = 9 << 20 };
  uint8_t *memory = malloc(BYTES);
  hd_heap_config config = {.struct_bytes = sizeof config, .memory = memory, .memory_bytes = BYTES};
  hd_heap *own = hd_heap_create(&config);
  assert_non_null(own);
  for (int i = 0; i < 3; i++) {
    uint8_t *p = hd_heap_zalloc(own, BLOCK);
    assert_non_null(p);
    assert_true(p[0] == 0 && memcmp(p, p + 1, BLOCK - 1) == 0);
    memset(p, 0x5a, BLOCK);
    hd_free(p);
  }
  hd_heap_destroy(own);
  free(memory);
}

/* Where no other page can be had, the slot does not stand for one that was left. */
static void test_left_for_nothing(void **state) {
  (void)state;
  hd_heap_config config = {.struct_bytes = sizeof config, .limit_bytes = HD_UNIT_BYTES};
  hd_heap *small = hd_heap_create(&config);
  assert_non_null(small);
  void *blocks[PER_PAGE];
  for (size_t i = 0; i < PER_PAGE; i++) assert_non_null(blocks[i] = hd_heap_malloc(small, BLOCK_BYTES));
  assert_null(hd_heap_malloc(small, BLOCK_BYTES));
  hd_unit *page = hdi_space_find(blocks[0]);
  assert_int_equal(page->state, HD_PAGE_FULL);
  hd_free(blocks[PER_PAGE - 1]);
  assert_int_equal(hdi_slot_bits(&small->class[CLASS].slot), 0);
  hd_free(blocks[0]);
  hd_heap_destroy(small);
}

/* The table that malloc looks small sizes up in says what the formula says. */
static void test_table_of_slots(void **state) {
  (void)state;
  for (size_t bytes = 0; bytes <= HD_SMALL_MAX; bytes++) {
    assert_int_equal(hdi_heap_slot_at[bytes], offsetof(hd_heap, class) + hdi_sizeclass_of(bytes) * sizeof(hd_class));
  }
}

static int new_heap(void **state) {
  (void)state;
  return (heap = hd_heap_create(NULL)) != NULL ? 0 : -1;
}

static int end_heap(void **state) {
  (void)state;
  hd_heap_destroy(heap);
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_life_of_a_page, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_partial_before_new, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_multi_unit_page, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_reset, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_limit, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_own_memory, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_told_of_remote_frees, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_remote_frees_release, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_unclaim_empties, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_unclaim_wants_the_current_page, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_torn_pages, new_heap, end_heap),
      cmocka_unit_test_setup_teardown(test_broken_pages, new_heap, end_heap),
      cmocka_unit_test(test_zeroes_in_own_memory),
      cmocka_unit_test(test_left_for_nothing),
      cmocka_unit_test(test_table_of_slots),
  };
  return cmocka_run_group_tests_name("heap", tests, NULL, NULL);
}
