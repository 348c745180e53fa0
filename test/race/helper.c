/* The library's helper as a thread of the C library's, in place of src/os/linux_helper.c: tools, and delays with thread-local storage,
 * have to know every thread.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>

#include "os/os.h"

static struct {
  void (*run)(void);
  atomic_uint *alive;
} helper;

static void *run_helper(void *unused) {
  (void)unused;
  helper.run();
  atomic_store_explicit(helper.alive, 0, memory_order_release);
  return NULL;
}

bool hdi_os_helper_start(void (*run)(void), void *stack, size_t stack_bytes, atomic_uint *alive) {
  pthread_t thread;
  sigset_t all, kept;
  (void)stack, (void)stack_bytes;
  helper.run = run;
  helper.alive = alive;
  atomic_store_explicit(alive, 1, memory_order_relaxed);
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &kept);
  bool started = pthread_create(&thread, NULL, run_helper, NULL) == 0;
  pthread_sigmask(SIG_SETMASK, &kept, NULL);
  if (started) pthread_detach(thread);
  else atomic_store_explicit(alive, 0, memory_order_relaxed);
  return started;
}

bool hdi_os_helper_outranks(void) { return false; }
