/* Threads at their edges: fork handlers that use a heap whose lock the fork holds; frees after the thread's own heap has gone; heaps that
 * are handed on.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/gate.h"
#include "core/heap.h"
#include "core/space_grow.h"
#include "core/thread.h"
#include "heddle.h"

static hd_heap *shared;
static int handled;

/* Registered before the library's own handlers, so it runs between those and the copy of the process. */
static void use_in_handler(void) {
  if (shared == NULL) return;
  void *p = hd_heap_malloc(shared, 100);
  if (p == NULL) abort();
  hd_free(p);
  handled++;
}

static void test_fork_handlers(void **state) {
  (void)state;
  shared = hd_heap_create(NULL);
  void *kept = hd_heap_malloc(shared, 10);
  for (int i = 0; i < 3; i++) {
    int status = 0;
    pid_t child = fork();
    if (child == 0) {
      alarm(10);
      hd_free(hd_heap_malloc(shared, 50000));
      hd_heap_destroy(shared);
      _exit(handled == i + 2 ? 0 : 1); /* before the copy, and after it in the child */
    }
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    assert_int_equal(handled, i + 1);
  }
  hd_free(kept);
  hd_heap_destroy(shared);
  shared = NULL;
}

/* While forks have the lock: a heap that is destroyed is the next one that is made, and a thread that is born gets a heap that waits. */
static atomic_bool stop;

static void *make_and_destroy(void *unused) {
  while (!atomic_load(&stop)) hd_heap_destroy(hd_heap_create(NULL));
  return unused;
}

static void *use_heap(void *unused) {
  hd_free(hd_malloc(100));
  return unused;
}

static void *bear_threads(void *unused) {
  pthread_t thread;
  while (!atomic_load(&stop)) {
    if (pthread_create(&thread, NULL, use_heap, NULL) == 0) pthread_join(thread, NULL);
  }
  return unused;
}

static size_t heaps_ever(void) {
  size_t count = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) count++;
  return count;
}

static void use_all(void) {
  pthread_t thread;
  hd_heap_destroy(hd_heap_create(NULL));
  if (pthread_create(&thread, NULL, use_heap, NULL) == 0) pthread_join(thread, NULL);
}

static void test_heaps_during_forks(void **state) {
  void *(*const work[])(void *) = {make_and_destroy, bear_threads};
  (void)state;
  for (int kind = 0; kind < 2; kind++) {
    pthread_t thread;
    atomic_store(&stop, false);
    assert_int_equal(pthread_create(&thread, NULL, work[kind], NULL), 0);
    for (int i = 0; i < 400; i++) {
      int status = 0;
      pid_t child = fork();
      if (child == 0) {
        alarm(10);
        use_all();
        _exit(heaps_ever() > 40);
      }
      assert_int_equal(waitpid(child, &status, 0), child);
      assert_int_equal(status, 0);
    }
    atomic_store(&stop, true);
    pthread_join(thread, NULL);
    assert_in_range(heaps_ever(), 1, 40);
  }
}

/* ---- between the library's own handler and the copy of the process ------------------------------------------------- */

static void (*during_fork)(void), (*early_in_child)(void);
static void run_during_fork(void) {
  if (during_fork != NULL) during_fork();
}

/* Before the library's own handler. */
static void run_early_in_child(void) {
  if (early_in_child != NULL) early_in_child();
}

static pid_t fork_with(void (*work)(void)) {
  during_fork = work;
  pid_t child = fork();
  during_fork = NULL;
  if (child == 0) alarm(10);
  return child;
}

static atomic_bool stands, may_end; /* a thread that the fork finds where it stands */

static void assert_child_is_well(pid_t child) {
  int status = 0;
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

/* More than one heap comes while the lock is held, and all of them can be had again, at once and afterwards. */
enum { ROUND = 5 };

static void make_and_destroy_all(void) {
  hd_heap *heaps[ROUND];
  for (int i = 0; i < ROUND; i++) {
    if ((heaps[i] = hd_heap_create(NULL)) == NULL) abort();
  }
  for (int i = 0; i < ROUND; i++) hd_heap_destroy(heaps[i]);
}

static void make_and_destroy_twice(void) {
  make_and_destroy_all();
  make_and_destroy_all();
}

static void test_many_heaps_in_one_fork(void **state) {
  (void)state;
  make_and_destroy_all();
  size_t before = heaps_ever();
  for (int i = 0; i < 3; i++) {
    pid_t child = fork_with(make_and_destroy_twice);
    make_and_destroy_all();
    if (child == 0) _exit(heaps_ever() != before);
    assert_child_is_well(child);
    assert_int_equal(heaps_ever(), before);
  }
}

/* A thread was growing the space, and is not in the child: a handler there, earlier than the library's own, has it grow all the same. */
static void *hold_growth(void *unused) {
  hdi_lock_take(&hdi_space.growth);
  atomic_store(&stands, true);
  while (!atomic_load(&may_end)) usleep(1000);
  hdi_lock_drop(&hdi_space.growth);
  return unused;
}

static void grow_in_child(void) {
  alarm(10);
  size_t have = hd_load_acquire(&hdi_space.committed);
  if (hdi_space_grow(&hdi_space, have + 1) != HD_CLAIM_DONE || hd_load_acquire(&hdi_space.committed) == have) abort();
}

static void test_growth_in_a_new_child(void **state) {
  (void)state;
  pthread_t thread;
  atomic_store(&stands, false);
  atomic_store(&may_end, false);
  assert_int_equal(pthread_create(&thread, NULL, hold_growth, NULL), 0);
  while (!atomic_load(&stands)) usleep(1000);
  early_in_child = grow_in_child;
  pid_t child = fork_with(NULL);
  early_in_child = NULL;
  if (child == 0) {
    grow_in_child();
    use_all();
    _exit(0);
  }
  atomic_store(&may_end, true);
  pthread_join(thread, NULL);
  assert_child_is_well(child);
}

/* A thread was about to adopt a heap, which is off the list and not marked yet, and a collector had stopped it. In the child neither of
 * them will go on: the heap is on the list once more, and nobody has to wait for it. */
static hd_heap *halfway, *mine;

static void *stand_still(void *unused) {
  hd_free(hd_malloc(100));
  halfway = hdi_heap_mine();
  atomic_store(&stands, true);
  while (!atomic_load(&may_end)) usleep(1000);
  return unused;
}

static void leave_halfway(void) {
  hd_store_relaxed(&halfway->life, (uint32_t)HD_HEAP_ORPHAN);
  hdi_gate_raise(halfway);
}

static size_t orphans(void) {
  size_t count = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) count += heap->life == HD_HEAP_ORPHAN;
  return count;
}

/* Each thread lives on while the next one is born. */
static void *adopt_rest(void *heaps) {
  pthread_t thread;
  hd_free(hd_malloc(UINT16_MAX * 2)); /* through the gate */
  if (hdi_heap_mine() == mine) _exit(4); /* a heap of two threads */
  if (orphans() > 0 && heaps_ever() == *(size_t *)heaps && pthread_create(&thread, NULL, adopt_rest, heaps) == 0) {
    pthread_join(thread, NULL);
  } else if (orphans() == 0) {
    _exit(heaps_ever() != *(size_t *)heaps || hd_load_relaxed(&halfway->life) != HD_HEAP_USED);
  }
  return NULL;
}

static void half_adopted_at_fork(void (*before_fork)(void), void (*in_child_first)(void)) {
  pthread_t thread;
  size_t heaps = 0;
  use_all();
  hd_free(hd_malloc(1));
  mine = hdi_heap_mine();
  atomic_store(&stands, false);
  atomic_store(&may_end, false);
  assert_int_equal(pthread_create(&thread, NULL, stand_still, NULL), 0);
  while (!atomic_load(&stands)) usleep(1000);
  before_fork();
  heaps = heaps_ever();
  early_in_child = in_child_first;
  pid_t child = fork_with(leave_halfway);
  early_in_child = NULL;
  if (child == 0) {
    if (hd_load_relaxed(&halfway->stopped) != 0) _exit(2);
    pthread_create(&thread, NULL, adopt_rest, &heaps);
    pthread_join(thread, NULL);
    _exit(3); /* not all of them could be had */
  }
  hdi_gate_open(halfway);
  hd_store_relaxed(&halfway->life, (uint32_t)HD_HEAP_USED);
  atomic_store(&may_end, true);
  pthread_join(thread, NULL);
  assert_child_is_well(child);
}

static void test_half_adopted_at_fork(void **state) {
  (void)state;
  half_adopted_at_fork(use_all, NULL);
}

/* Two heaps are on the list then, and another library's handler has a thread that takes one of them and leaves it, before ours looks. */
static void *use_heap_beside_another(void *unused) {
  hd_free(hd_malloc(100));
  use_all();
  return unused;
}

static void leave_two(void) {
  pthread_t thread;
  size_t before = orphans();
  if (pthread_create(&thread, NULL, use_heap_beside_another, NULL) == 0) pthread_join(thread, NULL);
  assert_in_range(orphans(), 2, before + 2);
}

static void test_half_adopted_among_others(void **state) {
  (void)state;
  half_adopted_at_fork(leave_two, use_all);
}

/* ---- threads at their end -------------------------------------------------------------------------------------------- */

enum { COUNT = 300 };
static void *blocks[COUNT];
static pthread_key_t late_key;

/* Runs after the library's own destructor, whose key is older. */
static void free_late(void *unused) {
  (void)unused;
  if (!hdi_heap_is_empty(hdi_heap_self)) abort();
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  if (!hdi_heap_is_empty(hdi_heap_self)) abort(); /* frees alone make no heap that nobody would hand on */
}

static void *end_with_frees(void *unused) {
  hd_free(hd_malloc(10));
  pthread_setspecific(late_key, &late_key);
  return unused;
}

static size_t live_count(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  assert_true(hd_stats_get(&stats));
  return stats.live_count;
}

static void test_late_frees(void **state) {
  (void)state;
  pthread_t thread;
  size_t before = live_count();
  assert_int_equal(pthread_key_create(&late_key, free_late), 0);
  for (int i = 0; i < COUNT; i++) assert_non_null(blocks[i] = hd_malloc((size_t)i * 10));
  assert_int_equal(pthread_create(&thread, NULL, end_with_frees, NULL), 0);
  pthread_join(thread, NULL);
  assert_int_equal(live_count(), before);
}

/* A consumer that never allocates gets a heap to count in after all. */
static void *consume(void *has_heap) {
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  *(bool *)has_heap = !hdi_heap_is_empty(hdi_heap_self);
  return NULL;
}

static void test_consumer(void **state) {
  (void)state;
  pthread_t thread;
  bool has_heap = false;
  for (int i = 0; i < COUNT; i++) assert_non_null(blocks[i] = hd_malloc(64));
  assert_int_equal(pthread_create(&thread, NULL, consume, &has_heap), 0);
  pthread_join(thread, NULL);
  assert_true(has_heap);
}

static void *own_heap(void *out) {
  hd_free(hd_malloc(10));
  *(hd_heap **)out = hdi_thread_heap();
  return NULL;
}

static void test_adoption(void **state) {
  (void)state;
  hd_heap *first = NULL, *second = NULL;
  pthread_t thread;
  pthread_create(&thread, NULL, own_heap, &first);
  pthread_join(thread, NULL);
  assert_int_equal(first->life, HD_HEAP_ORPHAN);
  pthread_create(&thread, NULL, own_heap, &second);
  pthread_join(thread, NULL);
  assert_ptr_equal(first, second);
}

/* While a fork has the list no heap goes to rest: whoever asks hears that one may be waiting, as often as he asks. */
static bool may_wait[2];

static void ask_for_rest(void) {
  for (int i = 0; i < 2; i++) may_wait[i] = hdi_thread_rest_orphans(true);
}

static void test_no_rest_during_a_fork(void **state) {
  (void)state;
  pthread_t thread;
  hd_heap *heap = NULL;
  assert_int_equal(pthread_create(&thread, NULL, own_heap, &heap), 0);
  pthread_join(thread, NULL);
  assert_int_equal(heap->life, HD_HEAP_ORPHAN);
  assert_int_not_equal(heap->rested, HD_AT_REST);
  pid_t child = fork_with(ask_for_rest);
  uint8_t rested = heap->rested;
  hd_collect(0);
  if (child == 0) _exit(rested == HD_AT_REST || heap->rested != HD_AT_REST);
  assert_child_is_well(child);
  assert_true(may_wait[0] && may_wait[1]);
  assert_int_not_equal(rested, HD_AT_REST);
  assert_int_equal(heap->rested, HD_AT_REST);
}

/* The linker puts it before the library's own of this priority. */
static __attribute__((constructor(101))) void come_first(void) {
  pthread_atfork(use_in_handler, NULL, use_in_handler);
  pthread_atfork(run_during_fork, NULL, run_early_in_child);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fork_handlers),
      cmocka_unit_test(test_heaps_during_forks),
      cmocka_unit_test(test_many_heaps_in_one_fork),
      cmocka_unit_test(test_half_adopted_at_fork),
      cmocka_unit_test(test_half_adopted_among_others),
      cmocka_unit_test(test_growth_in_a_new_child),
      cmocka_unit_test(test_late_frees),
      cmocka_unit_test(test_consumer),
      cmocka_unit_test(test_adoption),
      cmocka_unit_test(test_no_rest_during_a_fork),
  };
  return cmocka_run_group_tests_name("thread_edges", tests, NULL, NULL);
}
