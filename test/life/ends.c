/* The ends of threads: destructors of keys in several rounds and in every order against the allocator's own, first calls in a
 * destructor, no key left for the allocator, cancellation while allocating, the smallest stacks, more than a thousand threads.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/support.h"
#include "../support/sut.h"
#include "cases.h"

enum { KEYS = 12, ROUNDS = PTHREAD_DESTRUCTOR_ITERATIONS, MANY = 1100, LIVES = 3000 };

/* Blocks know their size and where they lie, so that whoever frees them sees whether they are whole. */
static void *make(size_t bytes) {
  size_t *p = ts_sut()->malloc(bytes + 2 * sizeof(size_t));
  TS_CHECK(p != NULL, "malloc(%zu) failed: %d", bytes, errno);
  p[0] = bytes;
  memcpy((char *)p + sizeof(size_t) + bytes, &p, sizeof p);
  return p;
}

static void end(void *block) {
  size_t bytes = *(size_t *)block;
  void *mark;
  memcpy(&mark, (char *)block + sizeof(size_t) + bytes, sizeof mark);
  TS_CHECK(mark == block, "the block at %p has changed", block);
  ts_sut()->free(block);
}

static void churn(unsigned salt) {
  void *held[20];
  for (unsigned i = 0; i < 20; i++) held[i] = make((salt * 977 + i * i * 53) % (i == 7 ? 200000 : 3000));
  for (unsigned i = 0; i < 20; i++) end(held[i * 7 % 20]);
}

static void run_on_stack(void *(*body)(void *), void *argument, size_t stack_bytes) {
  pthread_attr_t attributes;
  pthread_t thread;
  void *result = NULL;
  pthread_attr_init(&attributes);
  if (stack_bytes > 0) TS_CHECK(pthread_attr_setstacksize(&attributes, stack_bytes) == 0, "no stack of %zu", stack_bytes);
  TS_CHECK(pthread_create(&thread, &attributes, body, argument) == 0, "pthread_create");
  TS_CHECK(pthread_join(thread, &result) == 0, "pthread_join");
  pthread_attr_destroy(&attributes);
}

static void run(void *(*body)(void *), void *argument) { run_on_stack(body, argument, 0); }

/* Resident memory without what is free and would go back a moment later. */
static size_t settled_rss(void) {
  if (ts_sut()->collect) ts_sut()->collect(0);
  return ts_rss();
}

/* ---- destructors ------------------------------------------------------------------------------------------------ */

static pthread_key_t keys[KEYS];
static atomic_int rounds_seen, destroyed;
static __thread int round_of[KEYS];

/* Frees what is there, allocates, and puts a new block under the same key, in every round that the system grants. */
static void destroy(void *value) {
  unsigned key = (unsigned)*(size_t *)value % KEYS;
  end(value);
  churn(key);
  atomic_fetch_add(&destroyed, 1);
  int round = ++round_of[key];
  int seen = atomic_load(&rounds_seen);
  while (round > seen && !atomic_compare_exchange_weak(&rounds_seen, &seen, round)) {
  }
  if (round < ROUNDS) pthread_setspecific(keys[key], make(KEYS * (size_t)round + key));
}

static void *with_keys(void *argument) {
  for (size_t k = 0; k < KEYS; k++) pthread_setspecific(keys[k], make(KEYS * 40 + k));
  return argument;
}

static void make_keys(unsigned from, unsigned to) {
  for (unsigned k = from; k < to; k++) TS_CHECK(pthread_key_create(&keys[k], destroy) == 0, "pthread_key_create");
}

/* The allocator makes its key at the first call: half of ours come before it, half behind. */
static void keys_around(void) {
  make_keys(0, KEYS / 2);
  churn(1);
  make_keys(KEYS / 2, KEYS);
  for (int i = 0; i < 100; i++) run(with_keys, NULL);
  TS_CHECK(atomic_load(&rounds_seen) == ROUNDS, "%d rounds", atomic_load(&rounds_seen));
  TS_CHECK(atomic_load(&destroyed) == 100 * KEYS * ROUNDS, "%d destructors ran", atomic_load(&destroyed));
}

static void keys_before(void) {
  make_keys(0, KEYS);
  for (int i = 0; i < 100; i++) run(with_keys, NULL);
  TS_CHECK(atomic_load(&destroyed) == 100 * KEYS * ROUNDS, "%d destructors ran", atomic_load(&destroyed));
}

static void *only_a_value(void *block) {
  pthread_setspecific(keys[0], block);
  return NULL;
}

/* The thread's first call of the allocator is a free, then a malloc, in a destructor. */
static void first_call_in_destructor(void) {
  make_keys(0, KEYS);
  for (size_t i = 0; i < 200; i++) run(only_a_value, make(KEYS * (i % 300)));
  TS_CHECK(atomic_load(&destroyed) == 200 * ROUNDS, "%d destructors ran", atomic_load(&destroyed));
}

/* ---- no key ----------------------------------------------------------------------------------------------------- */

static void use_up_keys(void) {
  pthread_key_t key;
  int made = 0;
  while (pthread_key_create(&key, NULL) == 0) made++;
  TS_CHECK(made > 100, "only %d keys", made);
}

static void *live(void *argument) {
  void *kept = make(100 + (size_t)argument % 1000);
  churn((unsigned)(size_t)argument);
  return kept;
}

/* Lives of which each leaves nothing: their heaps must be used again. */
static void churn_lives(void) {
  size_t early = 0;
  for (size_t life = 0; life < LIVES; life++) {
    pthread_t thread;
    void *kept;
    TS_CHECK(pthread_create(&thread, NULL, live, (void *)life) == 0, "pthread_create");
    pthread_join(thread, &kept);
    end(kept);
    if (life == LIVES / 10) early = settled_rss();
  }
  size_t late = settled_rss();
  TS_CHECK(late < early + ((size_t)4 << 20), "RSS %zu KiB after %d lives, %zu KiB after %d", early >> 10, LIVES / 10, late >> 10, LIVES);
}

static void no_key_left(void) {
  use_up_keys();
  churn_lives();
}

/* All keys of the first block, which needs no memory, are gone: pthread_setspecific itself has to allocate. */
static void key_in_second_block(void) {
  pthread_key_t key;
  for (int i = 0; i < 40; i++) TS_CHECK(pthread_key_create(&key, NULL) == 0, "pthread_key_create");
  churn_lives();
}

/* ---- cancellation ----------------------------------------------------------------------------------------------- */

static atomic_uint_fast64_t turns;

static void free_held(void *held) {
  for (int i = 0; i < 50; i++)
    if (((void **)held)[i]) end(((void **)held)[i]);
}

/* Deferred: the thread ends at a cancellation point between its calls, and none of the allocator's calls is one. */
static void *work_until_cancelled(void *argument) {
  void *held[50] = {0};
  pthread_cleanup_push(free_held, held);
  for (unsigned salt = (unsigned)(size_t)argument;; salt++) {
    void **at = &held[salt % 50];
    if (*at) end(*at);
    *at = NULL;
    *at = make(salt % 10 == 3 ? 100000 : salt % 2000);
    atomic_fetch_add(&turns, 1);
    if (salt % 16 == 0) pthread_testcancel();
  }
  pthread_cleanup_pop(1);
  return NULL;
}

static void cancel_deferred(void) {
  for (size_t round = 0; round < 60; round++) {
    pthread_t thread[3];
    void *result;
    for (size_t t = 0; t < 3; t++) TS_CHECK(pthread_create(&thread[t], NULL, work_until_cancelled, (void *)(round * 31 + t)) == 0, "-");
    uint_fast64_t before = atomic_load(&turns);
    while (atomic_load(&turns) < before + round % 50) sched_yield();
    for (int t = 0; t < 3; t++) pthread_cancel(thread[t]);
    for (int t = 0; t < 3; t++) TS_CHECK(pthread_join(thread[t], &result) == 0 && result == PTHREAD_CANCELED, "join");
    churn((unsigned)round);
  }
}

/* Cancelled before it calls the allocator for the first time, with the request pending: no call may act on it. */
static void *pending_then_work(void *argument) {
  pthread_setcancelstate(PTHREAD_CANCEL_DISABLE, NULL);
  pthread_cancel(pthread_self());
  pthread_setcancelstate(PTHREAD_CANCEL_ENABLE, NULL);
  churn(3);
  ts_sut()->free(ts_sut()->calloc(100, 1000));
  atomic_fetch_add(&turns, 1);
  pthread_testcancel();
  return argument;
}

static void cancel_pending(void) {
  for (int i = 0; i < 100; i++) run(pending_then_work, NULL);
  TS_CHECK(atomic_load(&turns) == 100, "an allocation was a cancellation point: %d of 100 came through", (int)atomic_load(&turns));
}

/* Asynchronous cancellation is allowed only where no function is called: here while the thread computes between two allocations. */
static void *compute(void *argument) {
  void *kept = make(500);
  pthread_cleanup_push(end, kept);
  pthread_setcanceltype(PTHREAD_CANCEL_ASYNCHRONOUS, NULL);
  atomic_fetch_add(&turns, 1);
  for (volatile unsigned i = 0;; i++) {
  }
  pthread_cleanup_pop(1);
  return argument;
}

static void cancel_asynchronous(void) {
  make_keys(0, KEYS);
  for (int i = 0; i < 200; i++) {
    pthread_t thread;
    uint_fast64_t before = atomic_load(&turns);
    TS_CHECK(pthread_create(&thread, NULL, compute, NULL) == 0, "pthread_create");
    while (atomic_load(&turns) == before) sched_yield();
    pthread_cancel(thread);
    pthread_join(thread, NULL);
    churn((unsigned)i);
  }
}

/* ---- stacks, numbers -------------------------------------------------------------------------------------------- */

/* Deep in a slow path as well: the first call, a large block, a collection. */
static void *all_paths(void *argument) {
  churn(5);
  ts_sut()->free(ts_sut()->malloc((size_t)30 << 20));
  void *p = ts_sut()->aligned_alloc(4096, 10000);
  ts_sut()->free(ts_sut()->realloc(p, (size_t)3 << 20));
  if (ts_sut()->collect) ts_sut()->collect(0);
  return argument;
}

static void smallest_stack(void) {
  for (int i = 0; i < 50; i++) run_on_stack(all_paths, NULL, (size_t)PTHREAD_STACK_MIN);
}

static atomic_int present;
static atomic_bool leave;

static void *stay(void *argument) {
  void *kept = make(500);
  churn(3);
  atomic_fetch_add(&present, 1);
  while (!atomic_load(&leave)) ts_sleep_ms(5);
  end(kept);
  return argument;
}

/* How many threads the system allowed, of those wanted; all were alive at once. */
static int wave(int wanted) {
  static pthread_t thread[MANY];
  pthread_attr_t attributes;
  pthread_attr_init(&attributes);
  pthread_attr_setstacksize(&attributes, 64 * 1024);
  int made = 0;
  atomic_store(&present, 0);
  atomic_store(&leave, false);
  while (made < wanted && pthread_create(&thread[made], &attributes, stay, NULL) == 0) made++;
  while (atomic_load(&present) < made) ts_sleep_ms(1);
  churn(1);
  atomic_store(&leave, true);
  for (int i = 0; i < made; i++) pthread_join(thread[i], NULL);
  return made;
}

static void many_alive(void) {
  if (wave(MANY) < 1000) cases_skip("the system allows fewer than 1,000 threads");
  size_t once = settled_rss();
  for (int i = 0; i < 2; i++) wave(MANY);
  size_t late = settled_rss();
  TS_CHECK(late < once + ((size_t)16 << 20), "RSS grew from %zu to %zu KiB with more waves of threads", once >> 10, late >> 10);
}

static const struct test_case all[] = {
    {.name = "keys-around", .run = keys_around},
    {.name = "keys-before", .run = keys_before},
    {.name = "first-call-in-destructor", .run = first_call_in_destructor},
    {.name = "no-key-left", .run = no_key_left, .limit_s = 30},
    {.name = "key-in-second-block", .run = key_in_second_block, .limit_s = 30},
    {.name = "cancel-deferred", .run = cancel_deferred, .limit_s = 30},
    {.name = "cancel-pending", .run = cancel_pending},
    {.name = "cancel-asynchronous", .run = cancel_asynchronous, .limit_s = 30},
    {.name = "smallest-stack", .run = smallest_stack},
    {.name = "many-alive", .run = many_alive, .limit_s = 60},
};

int main(int argc, char **argv) {
  if (argc == 1) ts_expect_heddle();
  return cases_main(argc, argv, "ends (" TS_FLAVOUR ")", all, sizeof all / sizeof *all);
}
