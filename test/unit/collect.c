/* Collecting again and again: pages of which nothing was freed since cost nothing, and whatever was freed is found.
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
#include "core/counters.h"
#include "core/heap.h"
#include "heddle.h"
#include "os/os.h"
#include "pages.h"

enum { BYTES = 256, A_GROUP = 64, A_PAGE = HD_UNIT_BYTES / BYTES, PAGES = 6, COUNT = PAGES * A_PAGE };

static uint8_t *blocks[COUNT];

static bool system_refuses;

bool __real_hdi_os_purge(void *address, size_t bytes);
bool __wrap_hdi_os_purge(void *address, size_t bytes);
bool __wrap_hdi_os_purge(void *address, size_t bytes) { return !system_refuses && __real_hdi_os_purge(address, bytes); }

static bool barrier_fails;

bool __real_hdi_os_heavy_barrier(void);
bool __wrap_hdi_os_heavy_barrier(void);
bool __wrap_hdi_os_heavy_barrier(void) { return !barrier_fails && __real_hdi_os_heavy_barrier(); }

/* Bytes that a call gave back. */
static size_t collected(void) {
  size_t before = hd_load_relaxed(&hdi_counters.purged_bytes);
  bool any = hd_collect(0);
  size_t bytes = hd_load_relaxed(&hdi_counters.purged_bytes) - before;
  assert_int_equal(any, bytes > 0);
  return bytes;
}

/* Calls of the system for memory that one of them made. */
static size_t calls(void) {
  size_t before = hd_load_relaxed(&hdi_counters.os_calls);
  hd_collect(0);
  return hd_load_relaxed(&hdi_counters.os_calls) - before;
}

static size_t heads(void) {
  size_t count = 0;
  for (size_t at = 0; at < hd_load_relaxed(&hdi_space.top); at++) {
    hd_unit *unit = hdi_space.units + at;
    count += hd_load_relaxed(&unit->kind) == HD_UNIT_PAGE && unit->head == unit;
  }
  return count;
}

/* First of all: no page has been looked at. The collector lists 1,024 of them at a time, and the last five of these, whose blocks came back
 * just now, become free while it is at these. Two stay with the heap; three are joined with the long run behind them, into whose middle
 * it goes on. What lies behind that is found. */
static void test_behind_what_has_become_free(void **state) {
  (void)state;
  enum { LISTED = 1024, LAST = 5, LONG = 40 };
  static void *last[LAST + 1], *small[LISTED * HD_UNIT_BYTES / HD_SMALL_MAX];
  size_t count = 0;
  assert_int_equal(hd_option_set("purge", "off"), HD_OK); /* nobody else collects */
  while (heads() < LISTED - LAST) assert_non_null(small[count++] = hd_malloc(HD_SMALL_MAX));
  for (size_t i = 0; i < LAST; i++) assert_non_null(last[i] = hd_malloc(HD_MEDIUM_MAX - i * 4096));
  assert_int_equal(heads(), LISTED);
  uint8_t *run = hd_malloc(LONG * HD_UNIT_BYTES);
  assert_ptr_equal(run, (uint8_t *)last[LAST - 1] + hdi_space_find(last[LAST - 1])->run_units * (size_t)HD_UNIT_BYTES);
  memset(run, 1, LONG * HD_UNIT_BYTES);
  assert_non_null(last[LAST] = hd_malloc(HD_MEDIUM_MAX - LAST * 4096));
  hd_unit *page = hdi_space_find(last[LAST])->head;
  hd_free(run);
  for (size_t i = 0; i <= LAST; i++) hd_free(last[i]);
  assert_int_equal(page->kind, HD_UNIT_PAGE);
  collected();
  assert_int_not_equal(page->kind, HD_UNIT_PAGE);
  for (size_t i = 0; i < count; i++) hd_free(small[i]);
  assert_int_equal(hd_option_set("purge", "on"), HD_OK);
  collected();
}

static void take(size_t from, size_t to) {
  for (size_t i = from; i < to; i++) {
    assert_non_null(blocks[i] = hd_malloc(BYTES));
    memset(blocks[i], (int)i, BYTES);
  }
}

static void drop(size_t from, size_t to) {
  for (size_t i = from; i < to; i++) hd_free(blocks[i]);
}

/* Several pages of which a few blocks stay, and the class claims from one of them. */
static void test_nothing_twice(void **state) {
  (void)state;
  take(0, COUNT);
  for (size_t i = 0; i < COUNT; i++)
    if (i % A_PAGE != 5) hd_free(blocks[i]);
  assert_true(collected() >= (PAGES - 1) * (HD_UNIT_BYTES - 2 * hdi_os.page_bytes) - A_GROUP * BYTES);
  assert_int_equal(collected(), 0);
  assert_int_equal(calls(), 0);
  hd_free(blocks[5]); /* one block: its page is found, and no other one */
  assert_in_range(calls(), 1, 3);
  assert_int_equal(calls(), 0);
  for (size_t i = 5 + A_PAGE; i < COUNT; i += A_PAGE) hd_free(blocks[i]);
  collected();
}

/* What the system keeps, it is asked for again. */
static void test_again_where_it_was_refused(void **state) {
  (void)state;
  take(0, COUNT);
  for (size_t i = 0; i < COUNT; i++)
    if (i % A_PAGE != 5) hd_free(blocks[i]);
  system_refuses = true;
  assert_int_equal(collected(), 0);
  system_refuses = false;
  assert_true(collected() >= (PAGES - 1) * (HD_UNIT_BYTES - 2 * hdi_os.page_bytes) - A_GROUP * BYTES);
  assert_int_equal(collected(), 0);
  for (size_t i = 5; i < COUNT; i += A_PAGE) hd_free(blocks[i]);
  collected();
}

static void *collect(void *any) {
  *(bool *)any = hd_collect(0);
  return hdi_heap_mine();
}

/* The same of a call by a thread without a heap. */
static size_t collected_elsewhere(void) {
  pthread_t thread;
  bool any = false;
  void *heap = NULL;
  size_t before = hd_load_relaxed(&hdi_counters.purged_bytes);
  assert_int_equal(pthread_create(&thread, NULL, collect, &any), 0);
  assert_int_equal(pthread_join(thread, &heap), 0);
  size_t bytes = hd_load_relaxed(&hdi_counters.purged_bytes) - before;
  assert_ptr_equal(heap, &hdi_heap_empty);
  assert_int_equal(any, bytes > 0);
  return bytes;
}

/* Nothing of a heap goes back that can't be stopped, and all of it as soon as it can. */
static void test_again_where_nobody_was_stopped(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  take(0, COUNT);
  for (size_t i = 0; i < COUNT; i++)
    if (i % A_PAGE != 5) hd_free(blocks[i]);
  hd_free(memset(hd_malloc(2 * HD_UNIT_BYTES), 1, 2 * HD_UNIT_BYTES));
  uint32_t kept = hdi_heap_self->cached_units;
  assert_true(kept >= 2);
  barrier_fails = true;
  assert_int_equal(collected_elsewhere(), 0);
  barrier_fails = false;
  assert_int_equal(hdi_heap_self->cached_units, kept);
  assert_true(collected_elsewhere() >= kept * HD_UNIT_BYTES + (PAGES - 1) * (HD_UNIT_BYTES - 2 * hdi_os.page_bytes) - A_GROUP * BYTES);
  assert_int_equal(hdi_heap_self->cached_units, 0);
  assert_int_equal(collected_elsewhere(), 0);
  for (size_t i = 5; i < COUNT; i += A_PAGE) hd_free(blocks[i]);
  collected();
}

/* The same blocks come and go between two calls, so that every count in their pages is as it was. */
static void check_as_before(size_t kept, size_t count) {
  take(0, kept);
  take(kept, kept + count);
  drop(kept, kept + count);
  size_t first = collected(), least = (count - A_GROUP) * BYTES - 2 * hdi_os.page_bytes; /* the slot has a group */
  assert_true(first >= least);
  for (int i = 0; i < 5; i++) {
    take(kept, kept + count);
    drop(kept, kept + count);
    assert_true(collected() >= least);
    assert_int_equal(collected(), 0);
  }
  drop(0, kept);
  collected();
}

static void test_as_before_in_the_current_page(void **state) {
  (void)state;
  check_as_before(8, A_PAGE - 16); /* of one page */
}

static void test_as_before_in_other_pages(void **state) {
  (void)state;
  check_as_before(3 * A_PAGE / 2, 3 * A_PAGE);
}

/* All blocks of a page that were taken behind `kept`. Returns how many. */
static size_t drop_in(const hd_unit *page, size_t kept, size_t end) {
  size_t count = 0;
  for (size_t i = kept; i < end; i++) {
    if (blocks[i] == NULL || hdi_space_find(blocks[i]) != page) continue;
    hd_free(blocks[i]);
    blocks[i] = NULL;
    count++;
  }
  return count;
}

/* A page that waits in the list with 64 blocks in use is taken from until it is full, and waits with as many again. */
static void test_as_before_in_between_current(void **state) {
  (void)state;
  take(0, 3 * A_PAGE);
  hd_unit *page = hdi_space_find(blocks[A_PAGE]);
  size_t kept = A_PAGE;
  while (hdi_space_find(blocks[kept - 1]) == page) kept--; /* its first */
  kept += A_GROUP;
  size_t dropped = drop_in(page, kept, 3 * A_PAGE);
  assert_int_equal(page->state, HD_PAGE_PARTIAL);
  assert_true(dropped >= 2 * A_GROUP && collected() > 0);
  size_t least = ts_resident(page->base, HD_UNIT_BYTES);
  assert_in_range(least, A_GROUP * BYTES, 2 * A_GROUP * BYTES);
  uint32_t credit = page->credit;
  take(3 * A_PAGE, COUNT);
  assert_int_equal(page->state, HD_PAGE_FULL);
  assert_int_equal(drop_in(page, kept, COUNT), dropped);
  assert_true(page->state == HD_PAGE_PARTIAL && page->credit == credit);
  assert_int_equal(ts_resident(page->base, HD_UNIT_BYTES), HD_UNIT_BYTES);
  collected();
  assert_int_equal(ts_resident(page->base, HD_UNIT_BYTES), least);
  drop(0, COUNT);
  collected();
}

/* A full page counts its frees down from another number than one that waits in the list, and both come to the same here. */
static void test_counts_of_full_and_partial(void **state) {
  (void)state;
  take(0, 3 * A_PAGE);
  hd_unit *page = hdi_space_find(blocks[A_PAGE + 1]);
  assert_ptr_equal(hdi_space_find(blocks[2 * A_PAGE - 8]), page);
  assert_int_equal(page->state, HD_PAGE_FULL);
  collected();
  uint32_t credit = page->credit;
  size_t next = A_PAGE + 1;
  while (page->state == HD_PAGE_FULL || page->credit != credit) hd_free(blocks[next++]);
  assert_int_equal(page->state, HD_PAGE_PARTIAL);
  assert_true(next > A_PAGE + 32 && next <= 2 * A_PAGE);
  assert_true(collected() >= (next - A_PAGE - 1) * BYTES - 2 * hdi_os.page_bytes);
  drop(0, A_PAGE + 1);
  drop(next, 3 * A_PAGE);
  collected();
}

/* What lies behind large blocks is found, and a page that takes the place of one. */
static void test_behind_large_blocks(void **state) {
  (void)state;
  void *large[8];
  for (size_t i = 0; i < 8; i++) {
    assert_non_null(large[i] = hd_malloc((i + 1) * 3 * HD_UNIT_BYTES));
    take(i * A_PAGE / 2, (i + 1) * A_PAGE / 2);
  }
  collected();
  for (size_t i = 0; i < 8; i += 2) hd_free(large[i]);
  for (size_t i = 0; i < 4 * A_PAGE; i++)
    if (i % A_PAGE != 0) hd_free(blocks[i]);
  assert_true(collected() >= 3 * HD_UNIT_BYTES);
  assert_int_equal(collected(), 0);
  for (size_t i = 0; i < 4 * A_PAGE; i += A_PAGE) hd_free(blocks[i]);
  for (size_t i = 1; i < 8; i += 2) hd_free(large[i]);
  collected();
}

int main(void) {
  only_pages();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_behind_what_has_become_free),
      cmocka_unit_test(test_nothing_twice),
      cmocka_unit_test(test_again_where_it_was_refused),
      cmocka_unit_test(test_again_where_nobody_was_stopped),
      cmocka_unit_test(test_as_before_in_the_current_page),
      cmocka_unit_test(test_as_before_in_other_pages),
      cmocka_unit_test(test_as_before_in_between_current),
      cmocka_unit_test(test_counts_of_full_and_partial),
      cmocka_unit_test(test_behind_large_blocks),
  };
  return cmocka_run_group_tests_name("collect", tests, NULL, NULL);
}
