/* Threads at their edges: fork handlers that use a heap whose lock the fork holds; frees after the thread's own heap has gone; heaps that
 * are handed on.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/heap.h"
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

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fork_handlers),
      cmocka_unit_test(test_late_frees),
      cmocka_unit_test(test_consumer),
      cmocka_unit_test(test_adoption),
  };
  pthread_atfork(use_in_handler, NULL, use_in_handler);
  return cmocka_run_group_tests_name("thread_edges", tests, NULL, NULL);
}
