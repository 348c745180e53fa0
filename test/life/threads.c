/* Threads that end: frees in destructors, blocks that outlive their thread, ten thousand short lives, a thread that only frees.
 *
 *   threads [-n lives]
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "../support/sut.h"

#define MIB ((size_t)1 << 20)
#define KEYS 8
#define PER_THREAD 40

static const struct ts_sut *sut;
static unsigned lives = 10000;

/* The last owner of every block sees its content whole. */
static unsigned char *make(size_t bytes, int mark) {
  unsigned char *p = sut->malloc(bytes);
  assert_non_null(p);
  memset(p, mark, bytes);
  return p;
}

static void end(unsigned char *p, size_t bytes, int mark) {
  assert_true(p[0] == (unsigned char)mark && p[bytes - 1] == (unsigned char)mark);
  sut->free(p);
}

static void run(void *(*body)(void *), void *argument) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, body, argument), 0);
  pthread_join(thread, NULL);
}

/* ---- destructors ------------------------------------------------------------------------------------------------ */

static pthread_key_t keys[KEYS];
static atomic_int destroyed;

/* Frees what the thread stored, allocates anew, and in the first rounds stores a block again: glibc runs up to four rounds. */
static void destroy(void *value) {
  unsigned char *p = value;
  int round = p[1];
  sut->free(p);
  sut->free(sut->malloc(5000));
  atomic_fetch_add(&destroyed, 1);
  if (round >= 3) return;
  unsigned char *again = sut->malloc(64);
  again[0] = p == NULL;
  again[1] = (unsigned char)(round + 1);
  pthread_setspecific(keys[round % KEYS], again);
}

static void *with_keys(void *argument) {
  for (int k = 0; k < KEYS; k++) {
    unsigned char *p = sut->calloc(1, 100);
    pthread_setspecific(keys[k], p);
  }
  return argument;
}

/* The thread's first call of the allocator happens in a destructor. */
static void *with_late_first_call(void *argument) {
  static unsigned char outside[4];
  (void)outside;
  pthread_setspecific(keys[0], argument);
  return NULL;
}

static void test_key_destructors(void **state) {
  (void)state;
  for (int k = 0; k < KEYS; k++) assert_int_equal(pthread_key_create(&keys[k], destroy), 0);
  atomic_store(&destroyed, 0);
  for (int i = 0; i < 200; i++) run(with_keys, NULL);
  assert_true(atomic_load(&destroyed) >= 200 * KEYS);
  for (int i = 0; i < 50; i++) {
    unsigned char *p = sut->calloc(1, 16);
    run(with_late_first_call, p);
  }
  for (int k = 0; k < KEYS; k++) pthread_key_delete(keys[k]);
}

/* ---- blocks that outlive their thread --------------------------------------------------------------------------- */

static unsigned char *left[PER_THREAD];

static size_t size_of(int i) { return i % 10 == 9 ? 70000 + (size_t)i * 1000 : 16 + (size_t)i * i * 7; }

static void *leave(void *argument) {
  for (int i = 0; i < PER_THREAD; i++) left[i] = make(size_of(i), i + 1);
  return argument;
}

static void *take(void *argument) {
  for (int i = 0; i < PER_THREAD; i++) end(left[i], size_of(i), i + 1);
  return argument;
}

static void *grow(void *argument) {
  for (int i = 0; i < PER_THREAD; i++) {
    left[i] = sut->realloc(left[i], size_of(i) * 2);
    assert_non_null(left[i]);
    assert_true(left[i][0] == (unsigned char)(i + 1) && left[i][size_of(i) - 1] == (unsigned char)(i + 1));
  }
  return argument;
}

static void test_owner_is_dead(void **state) {
  (void)state;
  for (int round = 0; round < 300; round++) {
    run(leave, NULL);
    if (round % 3 == 1) run(grow, NULL);
    if (round % 2) run(take, NULL);
    else take(NULL);
  }
}

/* ---- churn ------------------------------------------------------------------------------------------------------ */

static void test_churn_is_flat(void **state) {
  (void)state;
  size_t early = 0;
  for (unsigned life = 0; life < lives; life++) {
    run(leave, NULL);
    take(NULL);
    if (life == lives / 10) early = ts_rss();
  }
  size_t late = ts_rss();
  ts_print(1, "churn: RSS %zu KiB after %u lives, %zu KiB after %u\n", early >> 10, lives / 10, late >> 10, lives);
  assert_true(late <= early + 4 * MIB);
}

/* ---- a thread that only frees ----------------------------------------------------------------------------------- */

#define RING 4096
static _Atomic(unsigned char *) ring[RING];
static const unsigned handed = 2000000;

static void *only_free(void *argument) {
  for (unsigned i = 0; i < handed; i++) {
    unsigned char *p;
    while ((p = atomic_exchange_explicit(&ring[i % RING], NULL, memory_order_acquire)) == NULL) sched_yield();
    assert_int_equal(p[0], (unsigned char)i);
    sut->free(p);
  }
  return argument;
}

static void test_thread_that_only_frees(void **state) {
  (void)state;
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, only_free, NULL), 0);
  size_t early = 0, late;
  for (unsigned i = 0; i < handed; i++) {
    unsigned char *p = sut->malloc(16 + i % 500);
    p[0] = (unsigned char)i;
    while (atomic_load_explicit(&ring[i % RING], memory_order_relaxed)) sched_yield();
    atomic_store_explicit(&ring[i % RING], p, memory_order_release);
    if (i == handed / 5) early = ts_rss();
  }
  late = ts_rss();
  pthread_join(thread, NULL);
  ts_print(1, "only frees: RSS %zu KiB after a fifth, %zu KiB at the end\n", early >> 10, late >> 10);
  assert_true(late <= early + 8 * MIB);
}

/* ---- many threads at once --------------------------------------------------------------------------------------- */

static pthread_barrier_t barrier;

static void *burst(void *argument) {
  unsigned char *p[PER_THREAD];
  pthread_barrier_wait(&barrier);
  for (int round = 0; round < 20; round++) {
    for (int i = 0; i < PER_THREAD; i++) p[i] = make(size_of(i), i + 1);
    for (int i = 0; i < PER_THREAD; i++) end(p[i], size_of(i), i + 1);
  }
  return argument;
}

static void test_64_threads_at_once(void **state) {
  (void)state;
  pthread_t thread[64];
  pthread_barrier_init(&barrier, NULL, 64);
  for (int t = 0; t < 64; t++) assert_int_equal(pthread_create(&thread[t], NULL, burst, NULL), 0);
  for (int t = 0; t < 64; t++) pthread_join(thread[t], NULL);
}

int main(int argc, char **argv) {
  lives = (unsigned)ts_option(argc, argv, "-n", lives);
  ts_expect_heddle();
  sut = ts_sut();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_key_destructors),        cmocka_unit_test(test_owner_is_dead),
      cmocka_unit_test(test_churn_is_flat),          cmocka_unit_test(test_thread_that_only_frees),
      cmocka_unit_test(test_64_threads_at_once),
  };
  return cmocka_run_group_tests_name("threads (" TS_FLAVOUR ")", tests, NULL, NULL);
}
