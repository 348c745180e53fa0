/* Shapes of several threads, and of several processes: threads that come and go, one that only frees, a pipeline, a server that forks.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "soak.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

/* ---- threads ----------------------------------------------------------------------------------------------------- */

enum { ALIVE = 6 };
static struct soak_table parts[ALIVE];

static void prepare_threads(void) {
  for (unsigned i = 0; i < ALIVE; i++) soak_table_prepare(&parts[i], soak_bytes / ALIVE / 64);
}

/* The blocks of a part outlive the thread that made them, and are freed by the one after it. */
static void *one_life(void *number) {
  struct soak_lane *lane = soak_lane((unsigned)(uintptr_t)number);
  struct soak_table *part = &parts[(uintptr_t)number];
  if (part->count == 0) soak_table_fill(lane, part, soak_bytes / ALIVE, 16, 4 * KIB);
  soak_table_churn(lane, part, 1 + ts_below(&lane->rng, part->count / 8), 16, 4 * KIB);
  return NULL;
}

static void run_threads(void) {
  unsigned long ids[ALIVE];
  for (uintptr_t i = 0; i < ALIVE; i++) soak_start(one_life, (void *)i, &ids[i]);
  while (soak_running()) {
    for (uintptr_t i = 0; i < ALIVE; i++) {
      soak_join(ids[i]);
      soak_start(one_life, (void *)i, &ids[i]);
    }
    soak_cycle();
  }
  for (unsigned i = 0; i < ALIVE; i++) soak_join(ids[i]);
}

/* ---- queues between two threads ---------------------------------------------------------------------------------- */

enum { QUEUE_ROOM = 4096 };
struct queue {
  _Alignas(64) _Atomic size_t head; /* the reader's */
  _Alignas(64) _Atomic size_t tail; /* the writer's */
  struct soak_block blocks[QUEUE_ROOM];
};
static struct queue *queues;

/* Nobody is to spin: the runner needs a core as well. */
static void rest(void) { usleep(100); }

/* False when the run is over. */
static bool push(struct queue *queue, struct soak_block block) {
  size_t tail = atomic_load_explicit(&queue->tail, memory_order_relaxed);
  while (tail - atomic_load_explicit(&queue->head, memory_order_acquire) == QUEUE_ROOM) { /* pairs with pop */
    if (!soak_running()) return false;
    rest();
  }
  queue->blocks[tail % QUEUE_ROOM] = block;
  atomic_store_explicit(&queue->tail, tail + 1, memory_order_release); /* pairs with pop */
  return true;
}

static bool pop(struct queue *queue, struct soak_block *block) {
  size_t head = atomic_load_explicit(&queue->head, memory_order_relaxed);
  if (atomic_load_explicit(&queue->tail, memory_order_acquire) == head) return false; /* pairs with push */
  *block = queue->blocks[head % QUEUE_ROOM];
  atomic_store_explicit(&queue->head, head + 1, memory_order_release); /* pairs with push */
  return true;
}

/* Put it in a random slot; what was there is freed. */
static void hold(struct soak_lane *lane, struct soak_table *table, struct soak_block block) {
  struct soak_block *slot = &table->slots[ts_below(&lane->rng, table->count)];
  soak_drop(lane, slot);
  *slot = block;
}

/* ---- freer ------------------------------------------------------------------------------------------------------- */

enum { MAKERS = 2, MAKER_LOW = 32, MAKER_HIGH = 4096, MEAN_BYTES = 900 };
static struct soak_table window;

static void prepare_freer(void) {
  queues = soak_map(MAKERS * sizeof *queues);
  soak_table_prepare(&window, soak_bytes / MEAN_BYTES);
  window.count = window.room;
}

static void *make_for_ever(void *number) {
  struct soak_lane *lane = soak_lane(1 + (unsigned)(uintptr_t)number);
  struct soak_block block;
  do soak_make(lane, &block, soak_size(lane, MAKER_LOW, MAKER_HIGH));
  while (push(&queues[(uintptr_t)number], block));
  soak_drop(lane, &block);
  return NULL;
}

static void run_freer(void) {
  struct soak_lane *lane = soak_lane(0);
  unsigned long ids[MAKERS];
  for (uintptr_t i = 0; i < MAKERS; i++) soak_start(make_for_ever, (void *)i, &ids[i]);
  for (size_t freed = 0; soak_running();) {
    size_t before = freed;
    struct soak_block block;
    for (unsigned i = 0; i < MAKERS; i++)
      for (unsigned batch = 0; batch < 64 && pop(&queues[i], &block); batch++, freed++) hold(lane, &window, block);
    if (freed == before) rest();
    if (freed / 65536 != before / 65536) soak_cycle();
  }
  for (unsigned i = 0; i < MAKERS; i++) soak_join(ids[i]);
}

/* ---- pipeline ---------------------------------------------------------------------------------------------------- */

/* Reader, worker, writer: the worker frees what the reader made and makes what the writer frees, each in sizes of its own. */
static struct soak_table backlog;

static void prepare_pipeline(void) {
  queues = soak_map(2 * sizeof *queues);
  soak_table_prepare(&backlog, soak_bytes / 4 / 6000);
  soak_table_prepare(&window, soak_bytes * 3 / 4 / 500);
  backlog.count = backlog.room;
  window.count = window.room;
}

static void *read_for_ever(void *unused) {
  (void)unused;
  struct soak_lane *lane = soak_lane(1);
  struct soak_block block;
  do soak_make(lane, &block, soak_size(lane, 512, 32 * KIB));
  while (push(&queues[0], block));
  soak_drop(lane, &block);
  return NULL;
}

static void *work_for_ever(void *unused) {
  (void)unused;
  struct soak_lane *lane = soak_lane(2);
  struct soak_block in, out = {NULL, 0};
  bool going = true;
  while (going && soak_running()) {
    if (!pop(&queues[0], &in)) {
      rest();
      continue;
    }
    hold(lane, &backlog, in);
    for (unsigned i = 0; i < 3 && going; i++) {
      soak_make(lane, &out, soak_size(lane, 16, 2 * KIB));
      going = push(&queues[1], out);
    }
  }
  if (!going) soak_drop(lane, &out);
  return NULL;
}

static void run_pipeline(void) {
  struct soak_lane *lane = soak_lane(0);
  unsigned long ids[2];
  soak_start(read_for_ever, NULL, &ids[0]);
  soak_start(work_for_ever, NULL, &ids[1]);
  for (size_t written = 0; soak_running();) {
    struct soak_block block;
    if (!pop(&queues[1], &block)) {
      rest();
      continue;
    }
    hold(lane, &window, block);
    if (++written % 65536 == 0) soak_cycle();
  }
  soak_join(ids[0]);
  soak_join(ids[1]);
}

/* ---- forks ------------------------------------------------------------------------------------------------------- */

static struct soak_table served[2];

static void prepare_forks(void) {
  for (unsigned i = 0; i < 2; i++) soak_table_prepare(&served[i], soak_bytes / 2 / 128);
}

static void *serve_for_ever(void *unused) {
  (void)unused;
  struct soak_lane *lane = soak_lane(1);
  soak_table_fill(lane, &served[1], soak_bytes / 2, 16, 4 * KIB);
  while (soak_running()) {
    soak_table_churn(lane, &served[1], served[1].count / 64, 16, 4 * KIB);
    soak_pause(5);
  }
  return NULL;
}

/* Checks what it inherited, replaces some of it, and leaves. */
static void live_as_child(struct soak_lane *lane) {
  soak_forked();
  for (size_t i = 0; i < served[0].count; i += 16) soak_check(served[0].slots[i].p, served[0].slots[i].bytes);
  soak_table_churn(lane, &served[0], served[0].count / 64, 16, 16 * KIB);
  _exit(0);
}

static void run_forks(void) {
  struct soak_lane *lane = soak_lane(0);
  unsigned long other;
  soak_table_fill(lane, &served[0], soak_bytes / 2, 16, 4 * KIB);
  soak_start(serve_for_ever, NULL, &other);
  for (unsigned children = 1; soak_running(); children++) {
    int status;
    pid_t child = fork();
    TS_CHECK(child >= 0, "fork: %d", errno);
    if (child == 0) live_as_child(lane);
    soak_table_churn(lane, &served[0], served[0].count / 64, 16, 4 * KIB);
    TS_CHECK(waitpid(child, &status, 0) == child, "waitpid: %d", errno);
    TS_CHECK(status == 0, "child number %u ended with wait status %#x", children, (unsigned)status);
    if (children % 8 == 0) soak_cycle();
  }
  soak_join(other);
}

const struct soak_shape soak_thread_shapes[] = {
    {"threads", "threads come and go; their blocks are freed by the next ones", prepare_threads, run_threads},
    {"freer", "two threads that only make, one that only frees", prepare_freer, run_freer},
    {"pipeline", "reader, worker, writer: each frees what another made", prepare_pipeline, run_pipeline},
    {"forks", "a threaded server that forks while it works", prepare_forks, run_forks},
    {0}};
