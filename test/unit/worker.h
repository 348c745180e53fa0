/* For tests in which other threads do something at a moment that the test chooses.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_UNIT_WORKER_H
#define TEST_UNIT_WORKER_H

#include <pthread.h>

#include "core/thread.h"

/* A thread with a heap that rests until it is told what to do. A test whose threads own more has it as the first member of a struct. */
typedef struct worker {
  pthread_t thread;
  pthread_barrier_t turn;
  void (*task)(struct worker *worker); /* NULL: end */
  hd_heap *heap;
} worker;

static void *worker_run(void *argument) {
  worker *self = argument;
  for (;;) {
    pthread_barrier_wait(&self->turn);
    if (self->task == NULL) return NULL;
    self->task(self);
    pthread_barrier_wait(&self->turn);
  }
}

/* Returns when that is done. */
static void worker_do(worker *worker, void (*task)(struct worker *)) {
  worker->task = task;
  pthread_barrier_wait(&worker->turn);
  if (task != NULL) pthread_barrier_wait(&worker->turn);
}

static void worker_take_heap(worker *self) { self->heap = hdi_thread_heap(); }

static int worker_start(worker *worker) {
  pthread_barrier_init(&worker->turn, NULL, 2);
  if (pthread_create(&worker->thread, NULL, worker_run, worker) != 0) return -1;
  worker_do(worker, worker_take_heap);
  return worker->heap != NULL ? 0 : -1;
}

static inline void worker_end(worker *worker) {
  worker_do(worker, NULL);
  pthread_join(worker->thread, NULL);
  pthread_barrier_destroy(&worker->turn);
  worker->heap = NULL;
}

#endif
