/* What the shapes of the soak test share: blocks that are counted and stamped, the clock, and the page of figures that the runner reads.
 *
 * A shape is a way in which programs use memory. It says how it gets ready (tables only: whatever is resident then is not the heap's)
 * and how it runs until soak_running() says no. The bytes it asked for and has not given back are counted on a page of memory that the
 * runner maps as well, one lane a thread, so that nothing is printed and nobody waits while it runs.
 *
 * SPDX-License-Identifier: MIT */
#ifndef SOAK_H
#define SOAK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../support/support.h"
#include "../support/sut.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define SOAK_SETTLE_MS 2500 /* what an allocator has to give memory back; the runner's constant has the same value */

enum { SOAK_LANES = 16, SOAK_STATUS_BYTES = 4096 };

/* The layout is run's as well (soak_watch.py). */
struct soak_figures {
  _Atomic int64_t live;
  _Atomic uint64_t calls;
  char apart[48];
};

struct soak_status {
  _Atomic uint64_t state; /* 0 getting ready, 1 running, 2 ending; the runner may write the 2 */
  uint64_t base_bytes;    /* resident before the first block */
  _Atomic uint64_t cycles;
  _Atomic uint64_t steady; /* how often the shape began or ceased to be: odd while it is */
  char apart[32];
  struct soak_figures lanes[SOAK_LANES];
};

/* One thread's part: its random numbers and its counters. */
struct soak_lane {
  struct ts_rng rng;
  struct soak_figures *figures;
  uint64_t releases;
};

struct soak_block {
  unsigned char *p;
  size_t bytes;
};

struct soak_shape {
  const char *name, *what;
  void (*prepare)(void);
  void (*run)(void);
};

extern const struct soak_shape soak_churn_shapes[], soak_thread_shapes[], soak_data_shapes[], soak_object_shapes[];

extern size_t soak_bytes; /* about how much a shape keeps live */

/* ---- blocks ---- */

/* A block of bytes >= 16, every system page of it touched, its last byte stamped. Its first 15 bytes are the caller's. */
void *soak_take(struct soak_lane *lane, size_t bytes);
/* Checks the stamp. */
void soak_give(struct soak_lane *lane, void *p, size_t bytes);
void *soak_resize(struct soak_lane *lane, void *p, size_t old_bytes, size_t bytes);
void soak_check(const void *p, size_t bytes);
/* For memory that is not a block: touch and stamp it, count it, or forget about it. */
void soak_stamp(void *p, size_t bytes);
void soak_count(struct soak_lane *lane, int64_t bytes, uint64_t calls);

void soak_make(struct soak_lane *lane, struct soak_block *block, size_t bytes);
void soak_drop(struct soak_lane *lane, struct soak_block *block);

/* ---- tables ---- */

/* Resident memory that is not the heap's; for prepare(). */
void *soak_map(size_t bytes);

/* Blocks in slots, as many as hold about the wanted bytes. */
struct soak_table {
  struct soak_block *slots;
  size_t count, room;
};

void soak_table_prepare(struct soak_table *table, size_t room);
/* Add blocks of low..high until they hold bytes together. */
void soak_table_fill(struct soak_lane *lane, struct soak_table *table, size_t bytes, size_t low, size_t high);
void soak_table_replace(struct soak_lane *lane, struct soak_table *table, size_t at, size_t low, size_t high);
/* Replace `times` slots chosen at random. */
void soak_table_churn(struct soak_lane *lane, struct soak_table *table, size_t times, size_t low, size_t high);
void soak_table_empty(struct soak_lane *lane, struct soak_table *table);

/* ---- the run ---- */

struct soak_lane *soak_lane(unsigned number);
/* low..high, each doubling as likely as the other. */
size_t soak_size(struct soak_lane *lane, size_t low, size_t high);
bool soak_running(void);
/* A round of the shape has ended: rounds are alike, so that what grows from one to the next is growth. */
void soak_cycle(void);
/* Whether the shape stays as it is. The bound on resident memory holds SOAK_SETTLE_MS after it began to. */
void soak_steady(bool steady);
void soak_pause(unsigned ms);
/* In a forked child: its blocks are not the parent's. */
void soak_forked(void);
void soak_start(void *(*body)(void *), void *argument, unsigned long *thread);
void soak_join(unsigned long thread);

#endif
