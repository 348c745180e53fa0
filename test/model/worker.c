/* The worker of the model test: runs operations on several threads.
 *
 * In the serial mode the threads take turns of BURST operations, handed on by semaphores: blocks are allocated, resized and freed
 * by different threads in every combination, threads end and are born again between turns, and still each run can be repeated
 * exactly. In the race mode the threads run at once, each on slots of its own, and swap blocks through a mailbox.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../support/support.h"
#include "run.h"

#define BURST 64
#define QUIET_EVERY 65536
#define REBIRTH_ONE_IN 256
#define THREAD_MAX 64

static struct record *verdict;
static pthread_mutex_t verdict_lock = PTHREAD_MUTEX_INITIALIZER;

_Noreturn void model_fail(struct model *model, const char *kind, const char *format, ...) {
  va_list list;
  pthread_mutex_lock(&verdict_lock); /* never released: the first mismatch counts */
  va_start(list, format);
  vsnprintf(verdict->message, sizeof verdict->message, format, list);
  va_end(list);
  snprintf(verdict->kind, sizeof verdict->kind, "%s", kind);
  verdict->index = model->index;
  _exit(3);
}

/* ---- serial mode ------------------------------------------------------------------------------------------------ */

struct actor {
  pthread_t thread;
  sem_t go, done;
  struct model *model;
  const struct record *record;
  uint64_t from, to; /* positions of its turn */
  bool alive, last;
};

static uint64_t index_at(const struct record *record, uint64_t position) {
  return record->listed ? record->list[position] : position;
}

static void take_turn(const struct actor *actor) {
  for (uint64_t at = actor->from; at < actor->to; at++) {
    uint64_t index = index_at(actor->record, at);
    verdict->index = index;
    struct op op = model_op(actor->model, index);
    model_run_op(actor->model, index, &op);
  }
}

static void *act(void *argument) {
  struct actor *actor = argument;
  for (;;) {
    while (sem_wait(&actor->go) != 0) {
    }
    if (actor->last) return NULL;
    take_turn(actor);
    sem_post(&actor->done);
  }
}

static void hand_over(struct actor *actor, const struct plan *plan, uint64_t turn) {
  bool rebirth = ts_hash(plan->seed ^ 0xb1b7, turn) % REBIRTH_ONE_IN == 0;
  if (actor->alive && rebirth) {
    actor->last = true;
    sem_post(&actor->go);
    pthread_join(actor->thread, NULL);
    actor->alive = false;
  }
  if (!actor->alive) {
    actor->last = false;
    if (pthread_create(&actor->thread, NULL, act, actor) != 0) model_fail(actor->model, "driver", "pthread_create failed");
    actor->alive = true;
#ifndef TS_API
    model_rebase(actor->model); /* the thread's own descriptor came from the same malloc */
#endif
  }
  sem_post(&actor->go);
  while (sem_wait(&actor->done) != 0) {
  }
}

static void run_serial(const struct plan *plan, const struct record *record, struct model *model) {
  static struct actor actors[THREAD_MAX];
  uint64_t total = record->listed ? record->list_count : plan->op_count, next_quiet = QUIET_EVERY;
  for (int t = 0; t < plan->thread_count; t++) {
    actors[t].model = model;
    actors[t].record = record;
    sem_init(&actors[t].go, 0, 0);
    sem_init(&actors[t].done, 0, 0);
  }
  for (uint64_t at = 0; at < total;) {
    uint64_t turn = index_at(record, at) / BURST, end = at;
    while (end < total && index_at(record, end) / BURST == turn) end++;
    struct actor *actor = &actors[ts_hash(plan->seed, turn) % (uint64_t)plan->thread_count];
    actor->from = at;
    actor->to = end;
    if (actor == &actors[0]) take_turn(actor);
    else hand_over(actor, plan, turn);
    at = end;
    if (turn * BURST >= next_quiet) {
      model_quiet_check(model);
      next_quiet += QUIET_EVERY;
    }
  }
  model_quiet_check(model);
  model_empty(model, true);
  model_quiet_check(model);
  for (int t = 1; t < plan->thread_count; t++) {
    if (!actors[t].alive) continue;
    actors[t].last = true;
    sem_post(&actors[t].go);
    pthread_join(actors[t].thread, NULL);
  }
}

/* ---- race mode -------------------------------------------------------------------------------------------------- */

static const struct plan *race_plan;

static void *race(void *argument) {
  struct model *model = argument;
  uint64_t count = race_plan->op_count / (uint64_t)race_plan->thread_count;
  for (uint64_t i = 0; i < count; i++) {
    struct op op = model_op(model, i);
    model_run_op(model, i, &op);
  }
  model->index = count;
  return NULL;
}

static void create_heaps(struct model *model) {
  if (!model->sut->heap_create) return;
  for (int h = 0; h < HEAP_COUNT; h++) model->heap[h].handle = model->sut->heap_create(NULL);
}

static void run_race(const struct plan *plan, struct model *first) {
  static pthread_t threads[THREAD_MAX];
  size_t bytes = sizeof(struct model) * (size_t)plan->thread_count;
  struct model *models = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TS_CHECK(models != MAP_FAILED, "mmap of the shadows: %d", errno);
  race_plan = plan;
  create_heaps(first);
  for (int t = 0; t < plan->thread_count; t++) {
    models[t] = (struct model){.sut = first->sut, .seed = ts_hash(plan->seed, (uint64_t)t), .racing = true, .heap = first->heap};
    model_read_options(&models[t]);
    TS_CHECK(pthread_create(&threads[t], NULL, race, &models[t]) == 0, "pthread_create: %d", errno);
  }
  for (int t = 0; t < plan->thread_count; t++) pthread_join(threads[t], NULL);
  for (int t = 0; t < plan->thread_count; t++) model_empty(&models[t], t == plan->thread_count - 1);
#ifdef TS_API
  model_quiet_check(first); /* nothing may be left: the linked heap is the driver's alone */
#endif
  munmap(models, bytes);
}

void run_worker(const struct plan *plan, struct record *record) {
  static struct model model;
  static struct explicit_heap heaps[HEAP_COUNT];
  verdict = record;
  model.sut = ts_sut();
  model.seed = plan->seed;
  model.canary = plan->canary;
  model.canary_at = plan->op_count / 2;
  model.shadow.tracked = !plan->racing;
  model.heap = heaps;
  model.list = plan->list;
  model_read_options(&model);
  model_rebase(&model);
  if (plan->racing) run_race(plan, &model);
  else run_serial(plan, record, &model);
}
