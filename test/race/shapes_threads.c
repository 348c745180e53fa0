/* Shapes of threads alone: who allocates, who frees, who is born and who dies. See race.h.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <time.h>

#include "race.h"

enum { HELD = 64, LIFE_STEPS = 400, GENERATIONS = 8, BIRTHS = 150, PIPE_BLOCKS = 4000, RESIZES = 1200, CROWD_STEPS = 500 };
enum { ROUNDS = 12, SENT = 3072, SENT_BYTES = 1000, WAVES = 10, WAVE_BLOCKS = 1500, WAVE_BYTES = 6 << 20 };
enum { RETURNED = 4096, RETURNED_BYTES = 48 };

void race_step(race_thread *self) {
  race_block *got = race_swap(ts_next(&self->rng), ts_below(&self->rng, 4) == 0 ? NULL : race_make(&self->rng));
  if (got != NULL && ts_below(&self->rng, 8) == 0) got = race_swap(ts_next(&self->rng), race_resize(got, &self->rng));
  race_drop(got);
}

/* ---- frees in all directions, owners that die --------------------------------------------------------------------- */

static void live(race_thread *self) {
  race_block *held[HELD] = {NULL};
  for (int i = 0; i < LIFE_STEPS; i++) {
    race_block **own = &held[ts_below(&self->rng, HELD)];
    race_drop(*own);
    *own = race_make(&self->rng);
    race_step(self);
  }
  /* What is held goes partly back, partly to the others, who free it when this thread is gone. */
  for (int i = 0; i < HELD; i++) {
    if (i % 2 == 0) race_drop(held[i]);
    else race_drop(race_swap(ts_next(&self->rng), held[i]));
  }
}

static void live_and_die(race_thread *self) {
  for (unsigned i = 0; i < GENERATIONS * self->plan->scale; i++) race_run_one(self->plan, self->index, ts_next(&self->rng), live);
}

void race_crossfree(const race_plan *plan) {
  race_run(plan, plan->threads, live_and_die);
  race_empty_slots();
}

/* ---- thousands of short lives --------------------------------------------------------------------------------------- */

/* Its heap is adopted by the next thread at once, while others still free its blocks. */
static void short_life(race_thread *self) {
  unsigned blocks = (unsigned)ts_below(&self->rng, 24);
  for (unsigned i = 0; i < blocks; i++) race_drop(race_swap(ts_next(&self->rng), race_make(&self->rng)));
  if (ts_below(&self->rng, 4) == 0) hd_thread_idle();
}

static void bear(race_thread *self) {
  for (unsigned i = 0; i < BIRTHS * self->plan->scale; i++) {
    race_run_one(self->plan, self->index, ts_next(&self->rng), short_life);
    for (int k = 0; k < 8; k++) race_drop(race_swap(ts_next(&self->rng), NULL));
  }
}

void race_birth(const race_plan *plan) {
  race_run(plan, plan->threads, bear);
  race_empty_slots();
}

/* ---- producers and consumers ---------------------------------------------------------------------------------------- */

/* Odd threads only free, and have no heap until they have freed for a while. */
static void produce_or_consume(race_thread *self) {
  for (unsigned i = 0; i < PIPE_BLOCKS * self->plan->scale; i++) {
    if (self->index % 2 == 0) race_drop(race_swap(i, race_make(&self->rng)));
    else race_drop(race_swap(i, NULL));
  }
}

void race_pipeline(const race_plan *plan) {
  race_run(plan, plan->threads, produce_or_consume);
  race_empty_slots();
}

/* ---- blocks that come back in silence ---------------------------------------------------------------------------------- */

static _Atomic(race_block *) lent[RETURNED];
static _Atomic unsigned lent_rounds, returned_rounds;

static void wait_for(_Atomic unsigned *counter, unsigned value, memory_order order) {
  while (atomic_load_explicit(counter, order) < value) sched_yield();
}

/* Thread 0 makes blocks, thread 1 frees seven of eight and says so in a way that orders nothing: that thread 0 may write what it gets next
 * is for the library alone to order. The eighth stays to the end, so that no page becomes free as a whole and changes hands otherwise. */
static void lend_or_return(race_thread *self) {
  for (unsigned round = 1; round <= ROUNDS * self->plan->scale && self->index < 2; round++) {
    if (self->index == 0) {
      for (unsigned i = 0; i < RETURNED; i++) {
        if (i % 8 == 0 && round > 1) continue;
        race_block *block = race_fill(hd_malloc(RETURNED_BYTES), ts_next(&self->rng), RETURNED_BYTES);
        atomic_store_explicit(&lent[i], block, memory_order_relaxed);
      }
      atomic_store_explicit(&lent_rounds, round, memory_order_release);
      wait_for(&returned_rounds, round, memory_order_relaxed);
    } else {
      wait_for(&lent_rounds, round, memory_order_acquire);
      for (unsigned i = 0; i < RETURNED; i++) {
        if (i % 8 != 0) race_drop(atomic_load_explicit(&lent[i], memory_order_relaxed));
      }
      atomic_store_explicit(&returned_rounds, round, memory_order_relaxed);
    }
  }
}

void race_returns(const race_plan *plan) {
  atomic_store(&lent_rounds, 0);
  atomic_store(&returned_rounds, 0);
  race_run(plan, plan->threads, lend_or_return);
  for (unsigned i = 0; i < RETURNED; i += 8) race_drop(lent[i]);
}

/* ---- bursts that others free while their maker does something else ----------------------------------------------------- */

static race_block *sent[2][SENT];
static pthread_barrier_t next_round;

/* One thread makes three megabytes, the others free what the last one made: pages that are free as a whole lie in its inbox, and the maker,
 * who needs new ones, takes them out of there. */
static void send_in_turn(race_thread *self) {
  unsigned threads = self->plan->threads;
  for (unsigned round = 0; round < ROUNDS * self->plan->scale; round++) {
    race_block **now = sent[round % 2], **last = sent[(round + 1) % 2];
    unsigned place = (self->index + threads - round % threads) % threads;
    pthread_barrier_wait(&next_round);
    for (unsigned i = 0; i < SENT && place == 0; i++) now[i] = race_fill(hd_malloc(SENT_BYTES), ts_next(&self->rng), SENT_BYTES);
    for (unsigned i = place - 1; i < SENT && place > 0; i += threads - 1) {
      race_drop(last[i]);
      last[i] = NULL;
      if (i % 64 == 0) race_step(self);
    }
  }
}

void race_mail(const race_plan *plan) {
  pthread_barrier_init(&next_round, NULL, plan->threads);
  race_run(plan, plan->threads, send_in_turn);
  pthread_barrier_destroy(&next_round);
  for (unsigned i = 0; i < 2 * SENT; i++) {
    race_drop(sent[i / SENT][i % SENT]);
    sent[i / SENT][i % SENT] = NULL;
  }
  race_empty_slots();
}

/* ---- blocks resized by whoever gets them ----------------------------------------------------------------------------- */

static void resize_others(race_thread *self) {
  for (unsigned i = 0; i < RESIZES * self->plan->scale; i++) {
    race_block *block = race_swap(ts_next(&self->rng) % 32, NULL);
    block = block == NULL ? race_make(&self->rng) : race_resize(block, &self->rng);
    race_drop(race_swap(ts_next(&self->rng) % 32, block));
  }
}

void race_resizing(const race_plan *plan) {
  race_run(plan, plan->threads, resize_others);
  race_empty_slots();
}

/* ---- many more threads than cores -------------------------------------------------------------------------------------- */

static void be_one_of_many(race_thread *self) {
  for (unsigned i = 0; i < CROWD_STEPS * self->plan->scale; i++) {
    race_step(self);
    if (ts_below(&self->rng, 128) == 0) nanosleep(&(struct timespec){0, 50000}, NULL);
    if (ts_below(&self->rng, 512) == 0) hd_thread_idle();
    if (ts_below(&self->rng, 512) == 0) hd_collect(0);
  }
}

void race_crowd(const race_plan *plan) {
  unsigned threads = plan->threads * 6;
  race_run(plan, threads < RACE_THREADS_MAX ? threads : RACE_THREADS_MAX, be_one_of_many);
  race_empty_slots();
}

/* ---- waves ---------------------------------------------------------------------------------------------------------- */

/* More than a heap keeps, all made and then all dropped, of another size each time: runs go to the space and come back several at a time
 * while others give theirs, and what rests in caches is given up before memory grows. One block of each wave is for the others. */
static void make_and_drop(race_thread *self) {
  static const size_t sizes[] = {4000, 90000, 300, 15000, 200000};
  race_block *made[WAVE_BLOCKS];
  for (unsigned wave = 0; wave < WAVES * self->plan->scale; wave++) {
    size_t bytes = sizes[(wave + self->index) % 5], count = WAVE_BYTES / bytes < WAVE_BLOCKS ? WAVE_BYTES / bytes : WAVE_BLOCKS;
    for (size_t i = 0; i < count; i++) made[i] = race_fill(hd_malloc(bytes), ts_next(&self->rng), bytes);
    made[0] = race_swap(ts_next(&self->rng), made[0]);
    for (size_t i = 0; i < count; i++) race_drop(made[wave % 2 == 0 ? i : count - 1 - i]);
  }
}

void race_waves(const race_plan *plan) {
  race_run(plan, plan->threads, make_and_drop);
  race_empty_slots();
}
