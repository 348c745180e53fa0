/* Handlers of pthread_atfork, before and after the allocator's own, that do what real programs and libraries do in them: allocate a
 * lot, collect, make and destroy heaps, wait for a thread to end, fork. And forks in a signal handler, whose child goes on with
 * what was interrupted.
 *
 * Handlers that are registered before the allocator's run between its prepare handler and the copy of the process, and in the child
 * before it has cleaned up: a program that has the allocator linked in can do that, under preload only a library could.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../life/cases.h"
#include "../support/support.h"
#include "../support/sut.h"
#include "child.h"

enum { FORKS = 20 };

static void body(void *salt) {
  use_memory((unsigned)(uintptr_t)salt);
  use_memory_in_thread((unsigned)(uintptr_t)salt);
}

/* Registered before the allocator's own: the linker puts this in front of what a library has of the same priority. */
static struct {
  void (*prepare)(void), (*parent)(void), (*child)(void);
} first;

static void first_prepare(void) {
  if (first.prepare != NULL) first.prepare();
}

static void first_parent(void) {
  if (first.parent != NULL) first.parent();
}

static void first_child(void) {
  if (first.child != NULL) first.child();
}

static __attribute__((constructor(101))) void come_first(void) { pthread_atfork(first_prepare, first_parent, first_child); }

static void around(bool before, void (*prepare)(void), void (*parent)(void), void (*child)(void)) {
  use_memory(0);
  if (!before) {
    pthread_atfork(prepare, parent, child);
    return;
  }
  first.prepare = prepare;
  first.parent = parent;
  first.child = child;
}

static void fork_often(int busy) {
  busy_start(busy);
  for (uintptr_t n = 0; n < FORKS; n++) child_run(body, (void *)n);
  busy_stop();
}

/* ---- a lot of memory -------------------------------------------------------------------------------------------- */

enum { TINY = 600000 };
static void *tiny[TINY];

/* More than any reserve for the moment of the fork could hold: 600,000 blocks in some 300 pages. */
static void allocate_much(void) {
  for (int i = 0; i < TINY; i++) {
    tiny[i] = ts_sut()->malloc(24);
    TS_CHECK(tiny[i] != NULL, "malloc failed in a handler");
  }
  use_memory(7);
}

static void free_much(void) {
  for (int i = 0; i < TINY; i++) ts_sut()->free(tiny[i]);
  use_memory(8);
}

static void much(bool before) {
  around(before, allocate_much, free_much, free_much);
  busy_start(2);
  for (uintptr_t n = 0; n < 4; n++) child_run(body, (void *)n);
  busy_stop();
}

static void much_before(void) { much(true); }
static void much_behind(void) { much(false); }

/* ---- collections and heaps -------------------------------------------------------------------------------------- */

static void collect_and_heaps(void) {
  use_memory(9);
  if (ts_sut()->collect) ts_sut()->collect(0);
  if (!ts_sut()->heap_create) return;
  hd_heap *heap = ts_sut()->heap_create(NULL);
  TS_CHECK(heap != NULL, "no heap in a handler: %d", errno);
  for (size_t i = 0; i < 300; i++) TS_CHECK(ts_sut()->heap_malloc(heap, i * 91) != NULL, "no block in a handler: %d", errno);
  ts_sut()->heap_destroy(heap);
  hd_stats stats = {.struct_bytes = sizeof stats};
  ts_sut()->stats_get(&stats);
}

static void all_calls_before(void) {
  around(true, collect_and_heaps, collect_and_heaps, collect_and_heaps);
  fork_often(3);
}

static void all_calls_behind(void) {
  around(false, collect_and_heaps, collect_and_heaps, collect_and_heaps);
  fork_often(3);
}

/* An impossible request makes the allocator collect before it gives up. */
static void ask_too_much(void) {
  errno = 0;
  TS_CHECK(ts_sut()->malloc((size_t)1 << 46) == NULL && errno == ENOMEM, "64 TiB");
}

static void impossible_before(void) {
  around(true, ask_too_much, ask_too_much, ask_too_much);
  fork_often(3);
}

/* ---- fresh memory while a fork is under way ---------------------------------------------------------------------- */

static atomic_bool over;

static void take_time(void) { ts_sleep_ms(3); }

/* Nothing is ever freed, and everything is asked of the system: threads meet at the top of the common space. */
static void *grow(void *argument) {
  for (int i = 0; i < 600; i++) {
    char *p = ts_sut()->malloc((size_t)1 << 20);
    TS_CHECK(p != NULL, "no fresh memory while a fork is under way: %d", errno);
    p[0] = 1;
    if (i % 20 == 0) usleep(100);
  }
  atomic_store(&over, true);
  return argument;
}

static void grow_in_child(void *argument) {
  (void)argument;
  for (int i = 0; i < 100; i++) TS_CHECK(ts_sut()->malloc((size_t)1 << 20) != NULL, "no fresh memory in the child: %d", errno);
}

static void grow_before(void) {
  pthread_t thread[6];
  around(true, take_time, NULL, NULL);
  for (int t = 0; t < 6; t++) TS_CHECK(pthread_create(&thread[t], NULL, grow, NULL) == 0, "pthread_create");
  while (!atomic_load(&over)) child_run(grow_in_child, NULL);
  for (int t = 0; t < 6; t++) pthread_join(thread[t], NULL);
}

/* ---- a library that stops its worker around a fork -------------------------------------------------------------- */

static pthread_t worker;
static atomic_bool worker_stops, worker_has_memory;

static void *worker_main(void *argument) {
  unsigned salt = 0;
  while (!atomic_load(&worker_stops)) use_memory(++salt);
  return argument;
}

static void worker_starts(void) {
  atomic_store(&worker_stops, false);
  TS_CHECK(pthread_create(&worker, NULL, worker_main, NULL) == 0, "pthread_create");
}

static void worker_ends(void) {
  atomic_store(&worker_stops, true);
  pthread_join(worker, NULL);
}

static void join_worker(bool before) {
  around(before, worker_ends, worker_starts, worker_starts);
  worker_starts();
  fork_often(2);
  worker_ends();
}

static void join_worker_before(void) { join_worker(true); }
static void join_worker_behind(void) { join_worker(false); }

/* ---- a library that starts a thread in the child ---------------------------------------------------------------- */

enum { CROWD = 4, OF_A_SIZE = 32 };

/* Two threads that had one heap would soon have one block. */
static void *share_nothing(void *argument) {
  uintptr_t *held[OF_A_SIZE];
  for (uintptr_t round = (uintptr_t)argument << 32; !atomic_load(&worker_stops); round++) {
    for (uintptr_t i = 0; i < OF_A_SIZE; i++) {
      held[i] = ts_sut()->malloc(64);
      TS_CHECK(held[i] != NULL, "no block in the child: %d", errno);
      *held[i] = round + i;
    }
    for (uintptr_t i = 0; i < OF_A_SIZE; i++) {
      TS_CHECK(*held[i] == round + i, "another thread has the same block");
      ts_sut()->free(held[i]);
    }
    atomic_store(&worker_has_memory, true);
  }
  return argument;
}

static void worker_works(void) {
  atomic_store(&worker_stops, false);
  atomic_store(&worker_has_memory, false);
  TS_CHECK(pthread_create(&worker, NULL, share_nothing, NULL) == 0, "pthread_create");
  while (!atomic_load(&worker_has_memory)) usleep(100);
}

/* More others than there are heaps of threads that are not here: none of them may get the worker's. */
static void crowd_works(int ms) {
  pthread_t others[CROWD];
  for (uintptr_t i = 0; i < CROWD; i++) TS_CHECK(pthread_create(&others[i], NULL, share_nothing, (void *)(i + 1)) == 0, "pthread_create");
  ts_sleep_ms(ms);
  atomic_store(&worker_stops, true);
  for (int i = 0; i < CROWD; i++) pthread_join(others[i], NULL);
}

static void crowd(void *argument) {
  (void)argument;
  crowd_works(100);
  pthread_join(worker, NULL);
}

static void thread_in_child(void) {
  around(true, NULL, NULL, worker_works);
  busy_start(CROWD - 1);
  for (int n = 0; n < 8; n++) child_run(crowd, NULL);
  busy_stop();
}

/* One that ends there leaves its heap for the list that ours mends; in the parent others leave theirs there, and take them, meanwhile. */
static void worker_comes_and_goes(void) {
  worker_works();
  worker_ends();
  atomic_store(&worker_stops, false);
}

static void short_crowd(void *salt) {
  crowd_works(10);
  use_memory((unsigned)(uintptr_t)salt);
}

static void *threads_come_and_go(void *salt) {
  for (unsigned round = 0; !atomic_load(&over); round++) use_memory_in_thread((unsigned)(uintptr_t)salt + round);
  return NULL;
}

static void thread_ends_in_child(void) {
  pthread_t thread[CROWD];
  around(true, take_time, NULL, worker_comes_and_goes);
  for (uintptr_t t = 0; t < CROWD; t++) TS_CHECK(pthread_create(&thread[t], NULL, threads_come_and_go, (void *)t) == 0, "pthread_create");
  for (uintptr_t n = 0; n < FORKS; n++) child_run(short_crowd, (void *)n);
  atomic_store(&over, true);
  for (int t = 0; t < CROWD; t++) pthread_join(thread[t], NULL);
}

/* Such a thread waits for an explicit heap, which the fork still has, and gets it. */
static hd_heap *shared_heap;

static void *use_shared(void *argument) {
  TS_CHECK(ts_sut()->heap_malloc(shared_heap, 64) != NULL, "no block of the shared heap: %d", errno);
  return argument;
}

static void sharer_starts(void) {
  TS_CHECK(pthread_create(&worker, NULL, use_shared, NULL) == 0, "pthread_create");
  ts_sleep_ms(20); /* it has come to the lock, and sleeps */
}

static void join_sharer(void *argument) {
  (void)argument;
  pthread_join(worker, NULL);
}

static void heap_in_child(void) {
  if (!ts_sut()->heap_create) return;
  shared_heap = ts_sut()->heap_create(NULL);
  TS_CHECK(shared_heap != NULL, "no heap: %d", errno);
  around(true, NULL, NULL, sharer_starts);
  for (int n = 0; n < 3; n++) child_run(join_sharer, NULL);
}

/* ---- a fork in a handler ---------------------------------------------------------------------------------------- */

static int nesting;

static void fork_again(void) {
  if (nesting > 0) return;
  nesting++;
  child_run(body, (void *)(uintptr_t)5);
  nesting--;
}

static void fork_in_prepare_before(void) {
  around(true, fork_again, NULL, NULL);
  fork_often(2);
}

static void fork_in_all_behind(void) {
  around(false, fork_again, fork_again, fork_again);
  fork_often(2);
}

/* ---- signals ---------------------------------------------------------------------------------------------------- */

static volatile sig_atomic_t forks_left = 150, is_child;
static pid_t pids[150];

static void on_alarm(int number) {
  (void)number;
  int kept = errno;
  if (forks_left <= 0 || is_child) return;
  pid_t pid = fork();
  if (pid == 0) {
    is_child = 1;
    child_limit();
    return;
  }
  if (pid > 0) pids[--forks_left] = pid;
  errno = kept;
}

/* The child returns from the handler into the allocator's code that the signal interrupted, and goes on there. */
static void fork_in_signal(void) {
  use_memory(0);
  busy_start(2);
  struct sigaction action = {.sa_handler = on_alarm, .sa_flags = SA_RESTART};
  struct itimerval timer = {{0, 700}, {0, 700}}, none = {{0, 0}, {0, 0}};
  sigaction(SIGVTALRM, &action, NULL);
  setitimer(ITIMER_VIRTUAL, &timer, NULL);
  for (unsigned salt = 0; forks_left > 0 && !is_child; salt++) use_memory(salt);
  if (is_child) {
    for (unsigned salt = 0; salt < 20; salt++) use_memory(salt);
    use_memory_in_thread(3);
    _exit(0);
  }
  setitimer(ITIMER_VIRTUAL, &none, NULL);
  busy_stop();
  for (int i = 0; i < 150; i++) child_await(pids[i]);
}

static const struct test_case all[] = {
    {.name = "allocate-much-before-ours", .run = much_before, .limit_s = 15},
    {.name = "allocate-much-behind-ours", .run = much_behind, .limit_s = 15},
    {.name = "every-call-before-ours", .run = all_calls_before, .limit_s = 15},
    {.name = "every-call-behind-ours", .run = all_calls_behind, .limit_s = 15},
    {.name = "impossible-before-ours", .run = impossible_before, .limit_s = 15},
    {.name = "grow-before-ours", .run = grow_before, .limit_s = 15},
    {.name = "join-a-thread-before-ours", .run = join_worker_before, .limit_s = 15},
    {.name = "join-a-thread-behind-ours", .run = join_worker_behind, .limit_s = 15},
    {.name = "thread-in-child-before-ours", .run = thread_in_child, .limit_s = 15},
    {.name = "thread-ends-in-child-before-ours", .run = thread_ends_in_child, .limit_s = 15},
    {.name = "heap-in-child-before-ours", .run = heap_in_child, .limit_s = 15},
    {.name = "fork-in-prepare-before-ours", .run = fork_in_prepare_before, .limit_s = 15},
    {.name = "fork-in-all-behind-ours", .run = fork_in_all_behind, .limit_s = 15},
    {.name = "fork-in-signal-handler", .run = fork_in_signal, .limit_s = 15},
};

int main(int argc, char **argv) {
  if (argc == 1) ts_expect_heddle();
  return cases_main(argc, argv, "fork handlers (" TS_FLAVOUR ")", all, sizeof all / sizeof *all);
}
