/* The race driver: shapes of many threads on one allocator, for ThreadSanitizer and for plain runs. See race.c.
 * SPDX-License-Identifier: MIT */
#ifndef RACE_RACE_H
#define RACE_RACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../support/support.h"
#include "heddle.h"
#include "heddle/arena.h"
#include "heddle/pool.h"

enum { RACE_THREADS_MAX = 64, RACE_SLOTS = 256 };

/* One run of one shape. */
typedef struct race_plan {
  uint64_t seed;
  unsigned threads;  /* threads at once, at least 2 */
  unsigned scale;    /* 1: the short form, about a second */
} race_plan;

/* What each thread of a shape gets. */
typedef struct race_thread {
  const race_plan *plan;
  unsigned index;
  struct ts_rng rng;
} race_thread;

typedef void race_body(race_thread *self);

/* ---- threads (race.c) -------------------------------------------------------------------------------------------- */

/* Run body in so many threads that all start at once, and wait for them. */
void race_run(const race_plan *plan, unsigned threads, race_body *body);

/* Start and wait for a single thread. */
void race_run_one(const race_plan *plan, unsigned index, uint64_t salt, race_body *body);

/* ---- blocks with content (blocks.c) ------------------------------------------------------------------------------ */

/* Each block names its length and bears a pattern of its own, so that whoever gets it can check it. Lengths are at least 16. */
typedef struct race_block {
  uint64_t tag;
  size_t bytes;
} race_block;

/* A length: mostly small, now and then medium, rarely large. */
size_t race_length(struct ts_rng *rng);

/* Make the fresh memory at p a block; NULL stays NULL. */
race_block *race_fill(void *p, uint64_t tag, size_t bytes);
race_block *race_make(struct ts_rng *rng);
void race_check(const race_block *block);

/* Check and free; NULL is nothing. */
void race_drop(race_block *block);

/* Resize to a new length, checking that content came along. */
race_block *race_resize(race_block *block, struct ts_rng *rng);

/* Blocks on their way between threads: put one (or NULL) into a slot and get what stood there. */
race_block *race_swap(uint64_t slot, race_block *block);
void race_empty_slots(void);

/* ---- shapes ------------------------------------------------------------------------------------------------------ */

typedef void race_shape(const race_plan *plan);
race_shape race_crossfree, race_birth, race_pipeline, race_returns, race_mail, race_resizing, race_crowd, race_waves; /* shapes_threads.c */
race_shape race_heaps, race_one_user, race_own_memory, race_arenas, race_pools;        /* shapes_objects.c */
race_shape race_collect, race_look, race_forks;                                        /* shapes_world.c */
race_shape race_canary;                                                                /* race.c */

/* One step of a thread that allocates, frees, resizes and swaps blocks with the others. */
void race_step(race_thread *self);

/* ---- delays (delay.c) -------------------------------------------------------------------------------------------- */

/* What seeds the delays of threads that start from now on. Only in builds with HD_DELAY anything is delayed. */
void race_delay_seed(uint64_t seed);

#endif
