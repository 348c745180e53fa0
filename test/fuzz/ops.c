/* Fuzz target: the model driver's operations, and their results against its shadow heap. FUZZ_THREADS: four threads take turns, as the
 * operations say. FUZZ_CANARY: realloc loses a byte now and then, which must be found.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "../model/ops.h"
#include "fuzz.h"

enum { OPS_MAX = 400, HELPER_COUNT = 3 };

static struct model model;
static struct explicit_heap heaps[HEAP_COUNT];

_Noreturn void model_fail(struct model *failed, const char *kind, const char *format, ...) {
  va_list list;
  va_start(list, format);
  fprintf(stderr, "FAIL %s at operation %llu: ", kind, (unsigned long long)failed->index);
  vfprintf(stderr, format, list);
  fputc('\n', stderr);
  va_end(list);
  abort();
}

/* ---- helper threads --------------------------------------------------------------------------------------------- */

static struct helper {
  sem_t go, done;
  const struct op *op;
  pthread_t thread;
} helpers[HELPER_COUNT];

static void *help(void *argument) {
  struct helper *self = argument;
  for (;;) {
    while (sem_wait(&self->go) != 0) {
    }
    if (self->op == NULL) return NULL;
    model_run_op(&model, model.index, self->op);
    sem_post(&self->done);
  }
}

static void hand_over(struct helper *helper, const struct op *op) {
  helper->op = op;
  sem_post(&helper->go);
  while (op != NULL && sem_wait(&helper->done) != 0) {
  }
}

static void run_op(uint64_t index, const struct op *op) {
  unsigned who = 0;
#ifdef FUZZ_THREADS
  who = (unsigned)(op->key >> 4) % (HELPER_COUNT + 1);
#endif
  model.index = index;
  if (who == 0) model_run_op(&model, index, op);
  else hand_over(&helpers[who - 1], op);
}

static void start_helpers(void) {
  for (int i = 0; i < HELPER_COUNT; i++) {
    sem_init(&helpers[i].go, 0, 0);
    sem_init(&helpers[i].done, 0, 0);
    FZ_CHECK(pthread_create(&helpers[i].thread, NULL, help, &helpers[i]) == 0, "no thread");
  }
}

/* One input in eight ends the threads, so that heaps are orphaned and adopted. */
static void end_helpers(void) {
  for (int i = 0; i < HELPER_COUNT; i++) {
    hand_over(&helpers[i], NULL);
    pthread_join(helpers[i].thread, NULL);
  }
  start_helpers();
}

/* ---- the target ------------------------------------------------------------------------------------------------- */

#ifdef FUZZ_CANARY
static void *losing_realloc(void *p, size_t bytes) {
  unsigned char *block = hd_realloc(p, bytes);
  if (p != NULL && block != NULL && bytes >= 1000 && bytes < 3000) block[0] ^= 1;
  return block;
}
#endif

static void start(void) {
  static struct ts_sut sut;
  sut = *ts_sut();
#ifdef FUZZ_CANARY
  sut.realloc = losing_realloc;
#endif
  model.sut = &sut;
  model.heap = heaps;
  model.shadow.tracked = true;
  model_read_options(&model);
#ifdef FUZZ_THREADS
  start_helpers();
#endif
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  if (model.sut == NULL) start();
  model_rebase(&model);
  struct op op;
  uint64_t index = 0;
  for (size_t at = 0, used; index < OPS_MAX && (used = op_read_bytes(data + at, bytes - at, &op)) > 0; at += used) run_op(index++, &op);
  model_quiet_check(&model);
  model_empty(&model, true);
  if (helpers[0].thread != 0 && index % 8 == 7) end_helpers();
  return 0;
}
