/* The lock: it excludes, it wakes, it nests for a fork, and nobody waits for a forking thread.
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
#include "core/lock.h"
#include "heddle.h"
#include "os/os.h"

#define ROUNDS 100000
#define THREADS 3

static hd_lock lock;
static size_t counter; /* guarded by lock */
static atomic_int waiting, got, gave_up;

static void *increment(void *argument) {
  (void)argument;
  for (int i = 0; i < ROUNDS; i++) {
    if (i % 2) hdi_lock_take(&lock);
    else if (!hdi_lock_take_unless_fork(&lock)) abort(); /* no fork is under way */
    counter++;
    hdi_lock_drop(&lock);
  }
  return NULL;
}

static void *take_and_drop(void *argument) {
  (void)argument;
  atomic_fetch_add(&waiting, 1);
  hdi_lock_take(&lock);
  if (hdi_lock_is_mine(&lock)) atomic_fetch_add(&got, 1); /* also after a wait: a fork by this thread must know it */
  hdi_lock_drop(&lock);
  return NULL;
}

static void *take_unless_fork(void *argument) {
  (void)argument;
  atomic_fetch_add(&waiting, 1);
  if (!hdi_lock_take_unless_fork(&lock)) {
    atomic_fetch_add(&gave_up, 1);
    return NULL;
  }
  atomic_fetch_add(&got, 1);
  hdi_lock_drop(&lock);
  return NULL;
}

static void *try_it(void *argument) {
  bool *taken = argument;
  *taken = hdi_lock_try(&lock);
  if (*taken) hdi_lock_drop(&lock);
  return NULL;
}

static pthread_t start(void *(*run)(void *), void *argument) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, argument), 0);
  return thread;
}

static bool free_for_others(void) {
  bool taken = false;
  pthread_join(start(try_it, &taken), NULL);
  return taken;
}

static int reset(void **state) {
  (void)state;
  hdi_lock_reset(&lock);
  counter = 0;
  atomic_store(&waiting, 0);
  atomic_store(&got, 0);
  atomic_store(&gave_up, 0);
  return 0;
}

static void test_exclusion(void **state) {
  (void)state;
  pthread_t one = start(increment, NULL), two = start(increment, NULL);
  pthread_join(one, NULL);
  pthread_join(two, NULL);
  assert_int_equal(counter, 2 * ROUNDS);
  assert_int_equal(atomic_load(&lock.word), 0);
}

static void test_try(void **state) {
  (void)state;
  assert_true(hdi_lock_try(&lock));
  assert_false(hdi_lock_try(&lock));
  assert_false(free_for_others());
  hdi_lock_drop(&lock);
  assert_true(free_for_others());
}

static void test_all_sleepers_wake(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  hdi_lock_take(&lock);
  for (int i = 0; i < THREADS; i++) threads[i] = start(take_and_drop, NULL);
  while (atomic_load(&waiting) < THREADS) ts_sleep_ms(1);
  ts_sleep_ms(30); /* long enough to have gone to sleep */
  assert_int_equal(atomic_load(&got), 0);
  hdi_lock_drop(&lock);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  assert_int_equal(atomic_load(&got), THREADS);
  assert_true(free_for_others());
}

/* A signal handler that forks while its thread has the lock: the lock stays taken until that thread drops it. */
static void test_fork_nests(void **state) {
  (void)state;
  hdi_lock_take(&lock);
  hdi_lock_fork(&lock, HD_FORK_PREPARE);
  hdi_lock_fork(&lock, HD_FORK_PREPARE);
  hdi_lock_fork(&lock, HD_FORK_PARENT);
  hdi_lock_fork(&lock, HD_FORK_PARENT);
  assert_false(free_for_others());
  hdi_lock_drop(&lock);
  assert_true(free_for_others());
}

static void test_fork_takes_and_drops(void **state) {
  (void)state;
  hdi_lock_fork(&lock, HD_FORK_PREPARE);
  assert_false(free_for_others());
  hdi_lock_fork(&lock, HD_FORK_PARENT);
  assert_true(free_for_others());
  hdi_lock_take(&lock);
  hdi_lock_fork(&lock, HD_FORK_PREPARE);
  hdi_lock_fork(&lock, HD_FORK_CHILD); /* whoever had it is gone */
  assert_true(free_for_others());
}

static void test_gives_up_during_fork(void **state) {
  (void)state;
  hdi_lock_fork_begin();
  hdi_lock_fork(&lock, HD_FORK_PREPARE);
  pthread_join(start(take_unless_fork, NULL), NULL);
  assert_int_equal(atomic_load(&gave_up), 1);
  hdi_lock_fork(&lock, HD_FORK_PARENT);
  assert_true(hdi_lock_take_unless_fork(&lock)); /* free: taken even now */
  hdi_lock_drop(&lock);
  hdi_lock_fork_end();
}

/* Whoever sleeps already when the fork begins gives up too. */
static void test_sleeper_gives_up(void **state) {
  (void)state;
  hdi_lock_take(&lock);
  pthread_t thread = start(take_unless_fork, NULL);
  while (atomic_load(&waiting) < 1) ts_sleep_ms(1);
  ts_sleep_ms(30);
  assert_int_equal(atomic_load(&gave_up), 0); /* without a fork it waits */
  hdi_lock_fork_begin();
  pthread_join(thread, NULL);
  hdi_lock_fork_end();
  assert_int_equal(atomic_load(&gave_up), 1);
  assert_int_equal(atomic_load(&got), 0);
  hdi_lock_drop(&lock);
  assert_true(free_for_others());
}

static void test_waits_without_fork(void **state) {
  (void)state;
  hdi_lock_fork_begin();
  hdi_lock_fork_begin();
  hdi_lock_fork_child(); /* the child forgets the forks of its parent */
  hdi_lock_take(&lock);
  pthread_t thread = start(take_unless_fork, NULL);
  while (atomic_load(&waiting) < 1) ts_sleep_ms(1);
  ts_sleep_ms(30);
  hdi_lock_drop(&lock);
  pthread_join(thread, NULL);
  assert_int_equal(atomic_load(&gave_up), 0);
  assert_int_equal(atomic_load(&got), 1);
}

/* Where there is one processor nobody spins: who has the lock can't drop it meanwhile. */
static void test_one_processor(void **state) {
  (void)state;
  unsigned count = hdi_os.cpu_count;
  hdi_os.cpu_count = 1;
  hdi_lock_take(&lock);
  pthread_t thread = start(take_and_drop, NULL);
  while (atomic_load(&waiting) < 1) ts_sleep_ms(1);
  ts_sleep_ms(30);
  hdi_lock_drop(&lock);
  pthread_join(thread, NULL);
  hdi_os.cpu_count = count;
  assert_int_equal(atomic_load(&got), 1);
}

static hd_lock helper_lock;
static bool mine_in_helper;

static void *as_helper(void *unused) {
  (void)unused;
  hdi_lock_take(&helper_lock);
  mine_in_helper = hdi_lock_is_mine(&helper_lock);
  return NULL;
}

/* The purge helper shows its starter's thread pointer, and is known by its stack all the same. */
static void test_helper_is_somebody_else(void **state) {
  (void)state;
  static _Alignas(4096) uint8_t stack[4 * HD_LOCK_HELPER_STACK]; /* the least that systems take; a thread begins at its end */
  uintptr_t kept = hd_load_relaxed(&hdi_lock_helper_stack);
  pthread_attr_t attributes;
  pthread_t thread;
  hd_store_relaxed(&hdi_lock_helper_stack, (uintptr_t)stack + 3 * HD_LOCK_HELPER_STACK);
  pthread_attr_init(&attributes);
  assert_int_equal(pthread_attr_setstack(&attributes, stack, sizeof stack), 0);
  assert_int_equal(pthread_create(&thread, &attributes, as_helper, NULL), 0);
  pthread_join(thread, NULL);
  assert_true(mine_in_helper);
  assert_int_equal(atomic_load(&helper_lock.word), HD_LOCK_HELPER);
  assert_false(hdi_lock_is_mine(&helper_lock));
  assert_false(hdi_lock_try(&helper_lock));
  hdi_lock_drop(&helper_lock);
  hdi_lock_take(&helper_lock);
  assert_true(hdi_lock_is_mine(&helper_lock));
  hdi_lock_drop(&helper_lock);
  hd_store_relaxed(&hdi_lock_helper_stack, kept);
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library: the lock asks for the number of processors */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_helper_is_somebody_else),
      cmocka_unit_test_setup(test_exclusion, reset),
      cmocka_unit_test_setup(test_try, reset),
      cmocka_unit_test_setup(test_all_sleepers_wake, reset),
      cmocka_unit_test_setup(test_fork_nests, reset),
      cmocka_unit_test_setup(test_fork_takes_and_drops, reset),
      cmocka_unit_test_setup(test_gives_up_during_fork, reset),
      cmocka_unit_test_setup(test_sleeper_gives_up, reset),
      cmocka_unit_test_setup(test_waits_without_fork, reset),
      cmocka_unit_test_setup(test_one_processor, reset),
  };
  return cmocka_run_group_tests_name("lock", tests, NULL, NULL);
}
