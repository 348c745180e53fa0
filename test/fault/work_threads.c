/* The workloads of threads and of forks: births, deaths, blocks that outlive their thread and are freed elsewhere, heaps that are adopted,
 * the purge helper; and children that go on while their system refuses. See work.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle.h>

#include "core/hardened.h"
#include "os/os_fault.h"
#include "work.h"

enum { THREADS = 3, EACH = 150, GENERATIONS = 2, FORKS = 2, CYCLE = 48 };

struct share {
  pthread_t thread;
  struct block blocks[EACH];
  struct share *left; /* whose blocks this thread frees: every second one */
  pthread_barrier_t *all_made;
  uint64_t seed;
};

static size_t size_of(struct ts_rng *rng) {
  if (ts_below(rng, 40) == 0) return ts_below(rng, 3 << 20);
  return ts_below(rng, 10) == 0 ? ts_below(rng, 50000) : ts_below(rng, 1500);
}

static void make(struct block *blocks, uint64_t seed) {
  struct ts_rng rng = {seed};
  for (size_t i = 0; i < EACH; i++) {
    blocks[i] = (struct block){NULL, size_of(&rng), 0};
    if (TRY_POINTER(blocks[i].p, hd_malloc(blocks[i].bytes))) block_fill(blocks + i, seed + i);
  }
}

static void drop(struct block *blocks, size_t from, size_t step) {
  for (size_t i = from; i < EACH; i += step) {
    if (blocks[i].p == NULL) continue;
    block_check(blocks + i);
    hd_free(blocks[i].p);
    blocks[i].p = NULL;
  }
}

/* ---- threads --------------------------------------------------------------------------------------------------------------- */

static void *live(void *argument) {
  struct share *own = argument;
  make(own->blocks, own->seed);
  pthread_barrier_wait(own->all_made);
  drop(own->left->blocks, 0, 2);
  struct block extra = {NULL, 30000, 0};
  if (TRY_POINTER(extra.p, hd_zalloc(extra.bytes))) {
    block_check_zero(extra.p, extra.bytes);
    hd_free(extra.p);
  }
  return NULL;
}

static void start(struct share *shares, pthread_barrier_t *barrier, uint64_t seed) {
  TS_CHECK(pthread_barrier_init(barrier, NULL, THREADS) == 0, "barrier");
  for (size_t i = 0; i < THREADS; i++) {
    shares[i].seed = seed + i;
    shares[i].all_made = barrier;
    shares[i].left = shares + (i + 1) % THREADS;
    TS_CHECK(pthread_create(&shares[i].thread, NULL, live, shares + i) == 0, "a thread");
  }
}

static void finish(struct share *shares, pthread_barrier_t *barrier) {
  for (size_t i = 0; i < THREADS; i++) TS_CHECK(pthread_join(shares[i].thread, NULL) == 0, "join");
  pthread_barrier_destroy(barrier);
}

/* A thread that rests keeps nothing of a medium class: another one's collecting empties its magazine and its page. It can do so only with
 * the system's barrier. */
enum { RESTS_ON = 55000 };

static void *rest(void *both) {
  struct block block = {NULL, RESTS_ON, 0};
  if (TRY_POINTER(block.p, hd_malloc(block.bytes))) hd_free(block.p);
  pthread_barrier_wait(both);
  pthread_barrier_wait(both);
  return NULL;
}

static bool count_pages(const hd_area *area, void *block, size_t bytes, void *count) {
  (void)block, (void)bytes;
  *(size_t *)count += area->kind == HD_AREA_PAGE && area->block_bytes >= RESTS_ON;
  return true;
}

static size_t pages_rested_on(void) {
  size_t count = 0;
  hd_heap_walk(NULL, false, count_pages, &count);
  return count;
}

static void collect_from_resting_thread(void) {
  pthread_barrier_t both;
  pthread_t thread;
  if (hdi_hardened_is_on()) return; /* its quarantine keeps the block */
  TS_CHECK(pthread_barrier_init(&both, NULL, 2) == 0, "barrier");
  TS_CHECK(pthread_create(&thread, NULL, rest, &both) == 0, "a thread");
  pthread_barrier_wait(&both);
  size_t before = pages_rested_on();
  hd_collect(0);
  size_t after = pages_rested_on();
  pthread_barrier_wait(&both);
  TS_CHECK(pthread_join(thread, NULL) == 0, "join");
  pthread_barrier_destroy(&both);
  if (!work_all_granted) return;
  TS_CHECK(before >= 1, "%zu pages of its class", before);
  TS_CHECK(after == 0, "%zu of %zu pages of a thread that rests are left", after, before);
}

/* The second half of each thread's blocks is freed when it is gone, and its heap has perhaps a new owner. */
void work_threads(uint64_t seed) {
  static struct share old[THREADS], young[THREADS];
  pthread_barrier_t barrier;
  for (unsigned generation = 0; generation < GENERATIONS; generation++) {
    start(old, &barrier, seed + generation);
    finish(old, &barrier);
    start(young, &barrier, seed - generation);
    for (size_t i = 0; i < THREADS; i++) drop(old[i].blocks, 1, 2);
    hd_collect(0);
    finish(young, &barrier);
    for (size_t i = 0; i < THREADS; i++) drop(young[i].blocks, 1, 2);
  }
  collect_from_resting_thread();
  hd_collect(0);
}

/* ---- fork ------------------------------------------------------------------------------------------------------------------ */

static atomic_bool over;
static pthread_barrier_t begun;

/* Goes through the same sizes again and again, and through all of them at least: how many there were by the end would differ with the
 * machine's load, and with it the pages that classes keep, which then grow from round to round. */
static void *busy(void *argument) {
  struct ts_rng rng = {0};
  hd_free(hd_malloc(1));
  pthread_barrier_wait(&begun);
  for (size_t i = 0; i < CYCLE || !over; i++) {
    if (i % CYCLE == 0) rng = (struct ts_rng){*(uint64_t *)argument};
    struct block block = {NULL, size_of(&rng), 0};
    usleep(200); /* or the threads that fork get nothing of the machine */
    if (!TRY_POINTER(block.p, hd_malloc(block.bytes))) continue;
    block_fill(&block, 1);
    block_check(&block);
    hd_free(block.p);
  }
  return NULL;
}

/* All that was inherited is right and can be freed; with the faults as they are, and without them. */
static _Noreturn void child(struct block *inherited, uint64_t seed) {
  struct block own[EACH];
  alarm(20);
  make(own, seed);
  drop(inherited, 0, 2);
  drop(own, 0, 1);
  hdi_fault_clear();
  drop(inherited, 1, 2);
  work_refused = false;
  make(own, seed);
  TS_CHECK(!work_refused, "refused in the child of a fork, by nobody");
  drop(own, 0, 1);
  hd_collect(0);
  pid_t grandchild = fork();
  if (grandchild == 0) {
    make(own, seed);
    drop(own, 0, 1);
    _exit(work_refused);
  }
  int status = 1;
  TS_CHECK(waitpid(grandchild, &status, 0) == grandchild && status == 0, "the grandchild: %d", status);
  _exit(0);
}

void work_fork(uint64_t seed) {
  static struct block blocks[EACH];
  pthread_t threads[2];
  uint64_t seeds[2] = {seed + 100, seed + 101};
  over = false;
  make(blocks, seed);
  TS_CHECK(pthread_barrier_init(&begun, NULL, 3) == 0, "barrier");
  for (size_t i = 0; i < 2; i++) TS_CHECK(pthread_create(threads + i, NULL, busy, seeds + i) == 0, "a thread");
  pthread_barrier_wait(&begun);
  for (unsigned i = 0; i < FORKS; i++) {
    pid_t pid = fork();
    TS_CHECK(pid >= 0, "fork: %d", errno);
    if (pid == 0) child(blocks, seed + i);
    struct block more = {NULL, 200000, 0};
    if (TRY_POINTER(more.p, hd_zalloc(more.bytes))) block_check_zero(more.p, more.bytes);
    hd_free(more.p);
    int status = 1;
    TS_CHECK(waitpid(pid, &status, 0) == pid && status == 0, "child %u ends with %d", i, status);
  }
  over = true;
  for (size_t i = 0; i < 2; i++) TS_CHECK(pthread_join(threads[i], NULL) == 0, "join");
  pthread_barrier_destroy(&begun);
  drop(blocks, 0, 1);
}
