/* The metadata store: zeroed, aligned, reused by size, counted; and its second way while a fork holds its lock.
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
#include "core/store.h"
#include "core/unit.h"
#include "heddle.h"
#include "os/os.h"

#define ITEMS 3000

static size_t rounded(size_t bytes) {
  size_t size = HD_STORE_MIN;
  while (size < bytes) size *= 2;
  return size;
}

static void check_all(const uint8_t *memory, size_t bytes, int value) {
  for (size_t i = 0; i < bytes; i++) assert_int_equal(memory[i], value);
}

static void give_clean(void *memory, size_t bytes) {
  memset(memory, 0, rounded(bytes));
  hdi_store_give(memory, bytes);
}

static void test_zeroed_aligned_counted(void **state) {
  (void)state;
  for (size_t bytes = 1; bytes <= HD_STORE_MAX; bytes += bytes < 300 ? 1 : 61) {
    size_t before = hdi_store_used(), size = rounded(bytes);
    uint8_t *memory = hdi_store_take(bytes);
    assert_non_null(memory);
    assert_int_equal(hdi_store_used(), before + size);
    assert_int_equal((uintptr_t)memory % HD_STORE_MIN, 0);
    check_all(memory, size, 0);
    memset(memory, 0xa5, size);
    give_clean(memory, bytes);
    assert_int_equal(hdi_store_used(), before);
  }
}

/* Others see that it is held; whoever holds the store learns that a fork has begun: others give back without the lock from then on. */
static void test_hold_and_fork(void **state) {
  (void)state;
  assert_false(hdi_store_is_held());
  assert_true(hdi_store_hold());
  assert_true(hdi_store_is_held());
  assert_true(hdi_store_let_go());
  assert_false(hdi_store_is_held());
  assert_true(hdi_store_hold());
  hdi_lock_fork_begin();
  assert_false(hdi_store_let_go());
  hdi_lock_fork_end();
  assert_true(hdi_store_hold());
  assert_true(hdi_store_let_go());
}

/* Byte maps of a heap that has shrunk: their pages go back, read as zero when taken again, and neighbours in use keep their content. */
static void test_purge(void **state) {
  (void)state;
  enum { MAPS = 2000 };
  static uint8_t *maps[MAPS];
  static size_t sizes[MAPS];
  if (hdi_os.page_bytes != 4096) skip(); /* see below */
  struct ts_rng rng = {ts_seed()};
  for (int i = 0; i < MAPS; i++) {
    sizes[i] = (size_t)1024 << ts_below(&rng, 3);
    maps[i] = hdi_store_take(sizes[i]);
    assert_non_null(maps[i]);
    memset(maps[i], i % 255 + 1, sizes[i]);
  }
  size_t resident = ts_rss();
  for (int i = 0; i < MAPS; i++) {
    if (i % 50 != 0) give_clean(maps[i], sizes[i]);
  }
  size_t purged = hdi_store_purge();
  assert_true(purged > 2 * 1024 * 1024);
  assert_true(ts_rss() + purged / 2 < resident);
  assert_int_equal(hdi_store_purge(), 0); /* nothing new */
  void *small[500]; /* items of other sizes don't use up what was purged */
  for (int i = 0; i < 500; i++) assert_non_null(small[i] = hdi_store_take(i % 2 ? HD_STORE_MIN : HD_STORE_MAX / 2));
  for (int i = 0; i < 500; i++) give_clean(small[i], i % 2 ? HD_STORE_MIN : HD_STORE_MAX / 2);
  for (int i = 0; i < MAPS; i++) {
    if (i % 50 == 0) check_all(maps[i], sizes[i], i % 255 + 1);
    else maps[i] = hdi_store_take(sizes[i]);
    if (i % 50 != 0) check_all(maps[i], sizes[i], 0);
    memset(maps[i], i % 255 + 1, sizes[i]);
  }
  assert_int_equal(hdi_store_purge(), 0); /* less is idle than was left the last time */
  for (int i = 0; i < MAPS; i++) {
    check_all(maps[i], sizes[i], i % 255 + 1); /* no two share memory */
    give_clean(maps[i], sizes[i]);
  }
}

/* The books are kept for pages of 4 KiB. */
static void test_no_purge_of_other_pages(void **state) {
  (void)state;
  enum { MAPS = 600 };
  static uint8_t *maps[MAPS];
  size_t page = hdi_os.page_bytes;
  for (int i = 0; i < MAPS; i++) assert_non_null(maps[i] = hdi_store_take(4096));
  for (int i = 0; i < MAPS; i++) give_clean(maps[i], 4096);
  hdi_os.page_bytes = HD_UNIT_BYTES;
  assert_int_equal(hdi_store_purge(), 0);
  hdi_os.page_bytes = page;
  if (page == 4096) assert_true(hdi_store_purge() > 2 * 1024 * 1024); /* up to the very end of what was handed out */
}

static void test_reuse(void **state) {
  (void)state;
  void *first = hdi_store_take(100), *second = hdi_store_take(100);
  assert_ptr_not_equal(first, second);
  hdi_store_give(first, 100);
  void *larger = hdi_store_take(129), *smaller = hdi_store_take(64);
  assert_ptr_not_equal(larger, first);
  assert_ptr_not_equal(smaller, first);
  uint8_t *again = hdi_store_take(128); /* the same power of two */
  assert_ptr_equal(again, first);
  check_all(again, 128, 0); /* the free list's link is gone */
  hdi_store_give(again, 128);
  hdi_store_give(second, 100);
  hdi_store_give(larger, 129);
  hdi_store_give(smaller, 64);
}

static void test_too_large(void **state) {
  (void)state;
  size_t before = hdi_store_used();
  assert_null(hdi_store_take(HD_STORE_MAX + 1));
  assert_null(hdi_store_take(SIZE_MAX / 2));
  assert_int_equal(hdi_store_used(), before);
}

/* Many at once, in random order: none overlaps another, and each comes zeroed though its memory was full of marks. */
static void test_no_overlap(void **state) {
  (void)state;
  static struct {
    uint8_t *memory;
    size_t bytes;
  } items[ITEMS];
  struct ts_rng rng = {ts_seed()};
  size_t before = hdi_store_used();
  for (size_t step = 0; step < 10 * ITEMS; step++) {
    size_t i = ts_below(&rng, ITEMS);
    if (items[i].memory) {
      check_all(items[i].memory, rounded(items[i].bytes), (int)(1 + i % 255));
      give_clean(items[i].memory, items[i].bytes);
      items[i].memory = NULL;
      continue;
    }
    items[i].bytes = 1 + ts_below(&rng, (size_t)64 << ts_below(&rng, 6));
    items[i].memory = hdi_store_take(items[i].bytes);
    assert_non_null(items[i].memory);
    check_all(items[i].memory, rounded(items[i].bytes), 0);
    memset(items[i].memory, (int)(1 + i % 255), rounded(items[i].bytes));
  }
  for (size_t i = 0; i < ITEMS; i++)
    if (items[i].memory) give_clean(items[i].memory, items[i].bytes);
  assert_int_equal(hdi_store_used(), before);
}

static void *take_one(void *argument) {
  (void)argument;
  if (hdi_store_purge() != 0) return NULL;
  hdi_store_give(hdi_store_take(300), 300); /* and nobody waits */
  return hdi_store_take(1000);
}

/* What another thread does while this one forks. */
static void *in_fork(void *(*work)(void *), hd_fork_step side) {
  pthread_t thread;
  void *result = NULL;
  hdi_lock_fork_begin();
  hdi_store_fork(HD_FORK_PREPARE);
  hdi_store_fork(HD_FORK_PREPARE); /* in a signal handler: nothing is moved */
  hdi_store_fork(HD_FORK_PARENT);
  bool started = pthread_create(&thread, NULL, work, NULL) == 0;
  if (started) pthread_join(thread, &result);
  hdi_store_fork(side);
  hdi_lock_fork_end();
  assert_true(started);
  return result;
}

/* The forking thread holds the lock and waits for the other one: had that to wait for the lock, this would never end. */
static void test_nobody_waits_for_a_fork(void **state) {
  (void)state;
  void *memory = in_fork(take_one, HD_FORK_PARENT);
  assert_non_null(memory);
  check_all(memory, 1024, 0);
  void *ordinary = hdi_store_take(1000);
  assert_non_null(ordinary);
  assert_ptr_not_equal(ordinary, memory);
  hdi_store_give(ordinary, 1000);
}

/* A program that goes on while it forks lives on what it has given back, also what it gave back during a fork. */
enum { TAKEN = 12, ROUNDS = 100, BYTES = 9000, KNOWN_MAX = 4 * TAKEN };
static void *taken[TAKEN], *given[TAKEN];

static void *take_and_give(void *argument) {
  (void)argument;
  for (int i = 0; i < TAKEN; i++) taken[i] = hdi_store_take(BYTES);
  for (int i = 0; i < TAKEN; i++)
    if (given[i] != NULL) hdi_store_give(given[i], BYTES);
  return NULL;
}

static void test_no_new_memory_at_forks(void **state) {
  void *known[KNOWN_MAX];
  int known_count = 0;
  (void)state;
  memset(given, 0, sizeof given);
  size_t before = hdi_store_used();
  for (int round = 0; round < ROUNDS; round++) {
    in_fork(take_and_give, round % 2 == 0 ? HD_FORK_PARENT : HD_FORK_CHILD);
    for (int i = 0; i < TAKEN; i++) {
      int at = 0;
      assert_non_null(taken[i]);
      check_all(taken[i], 16384, 0);
      while (at < known_count && known[at] != taken[i]) at++;
      if (at == known_count) assert_in_range(known_count, 0, KNOWN_MAX - 1);
      if (at == known_count) known[known_count++] = taken[i];
      given[i] = taken[i];
    }
    assert_int_equal(hdi_store_used(), before + TAKEN * 16384);
  }
  for (int i = 0; i < TAKEN; i++) hdi_store_give(given[i], BYTES);
  assert_int_equal(hdi_store_used(), before);
}

static int set_up(void **state) {
  (void)state;
  hd_free(hd_malloc(1)); /* starts the library */
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_zeroed_aligned_counted),
      cmocka_unit_test(test_no_purge_of_other_pages),
      cmocka_unit_test(test_hold_and_fork), cmocka_unit_test(test_purge), cmocka_unit_test(test_reuse),
      cmocka_unit_test(test_too_large),
      cmocka_unit_test(test_no_overlap),
      cmocka_unit_test(test_nobody_waits_for_a_fork),
      cmocka_unit_test(test_no_new_memory_at_forks),
  };
  return cmocka_run_group_tests_name("store", tests, set_up, NULL);
}
