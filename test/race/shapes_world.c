/* Shapes in which somebody looks at the whole heap, or collects it, or copies the process, while everybody goes on. See race.h.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "race.h"

enum { STEPS = 3000, COLLECTIONS = 250, LOOKS = 60, FORKS = 12, CHILD_STEPS = 200, HELD = 2000 };

static atomic_uint busy; /* threads that still allocate */

static void nap(void) { nanosleep(&(struct timespec){0, 200000}, NULL); }

/* ---- collectors ------------------------------------------------------------------------------------------------------ */

/* Fills pages and empties them again, so that there is always something to give back. */
static void tide(race_thread *self) {
  static __thread race_block *held[HELD];
  size_t high = 0;
  for (unsigned i = 0; i < STEPS * self->plan->scale; i++) {
    if (ts_below(&self->rng, 3) != 0 && high < HELD) held[high++] = race_make(&self->rng);
    else if (high > 0) race_drop(held[--high]);
    if (ts_below(&self->rng, 500) == 0) {
      while (high > 0) race_drop(race_swap(ts_next(&self->rng), held[--high]));
    }
    if (i % 4 == 0) race_step(self);
  }
  while (high > 0) race_drop(held[--high]);
}

static void tide_or_collect(race_thread *self) {
  if (self->index % 2 == 0) {
    tide(self);
    atomic_fetch_sub(&busy, 1);
    return;
  }
  for (unsigned i = 0; i < COLLECTIONS * self->plan->scale && atomic_load(&busy) > 0; i++) {
    hd_collect(ts_below(&self->rng, 2) == 0 ? 0 : 1 << 20);
    if (ts_below(&self->rng, 2) == 0) race_step(self); /* else a collector that has no heap, at first */
    nap();
  }
}

void race_collect(const race_plan *plan) {
  atomic_store(&busy, (plan->threads + 1) / 2);
  race_run(plan, plan->threads, tide_or_collect);
  race_empty_slots();
}

/* ---- lookers --------------------------------------------------------------------------------------------------------- */

static bool see(const hd_area *area, void *block, size_t block_bytes, void *user) {
  uint64_t *sum = user;
  if (block == NULL) {
    TS_CHECK(area->block_used <= area->block_capacity, "%zu of %zu blocks", area->block_used, area->block_capacity);
    *sum += area->bytes;
  } else {
    uintptr_t offset = (uintptr_t)block - (uintptr_t)area->address;
    TS_CHECK(offset < area->bytes && block_bytes == area->block_bytes, "a block at %zu of an area of %zu", (size_t)offset, area->bytes);
  }
  return true;
}

static void look(race_thread *self, unsigned round) {
  static const char *const delays[] = {"0", "100", "750"};
  hd_stats stats = {.struct_bytes = sizeof stats};
  char text[4096];
  uint64_t sum = 0;
  TS_CHECK(hd_stats_get(&stats), "statistics");
  TS_CHECK(stats.live <= stats.reserved, "%zu bytes live of %zu", stats.live, stats.reserved);
  hd_heap_walk(NULL, round % 2 == 0, see, &sum);
  if (round % 8 == 0) TS_CHECK(hd_stats_text(text, sizeof text) > 0 && hd_stats_json(text, sizeof text) > 0, "a text");
  TS_CHECK(hd_option_set("purge-delay", delays[round % 3]) == HD_OK, "the purge delay");
  TS_CHECK(hd_option_set("limit", round % 2 == 0 ? "64g" : "0") == HD_OK, "the limit");
  TS_CHECK(hd_option_set("purge", round % 4 == 0 ? "off" : "on") == HD_OK, "purging");
  TS_CHECK(hd_option_get("purge-delay", text, sizeof text) > 0, "an option");
  if (round % 4 == 0) race_step(self);
}

static void live_or_look(race_thread *self) {
  if (self->index % 4 == 1) {
    for (unsigned i = 0; i < LOOKS * self->plan->scale && atomic_load(&busy) > 0; i++) look(self, i);
    return;
  }
  hd_heap *heap = hd_heap_create(NULL);
  tide(self);
  TS_CHECK(hd_heap_malloc(heap, 100) != NULL, "a block");
  hd_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_heap_stats_get(heap, &stats) && stats.live_count == 1, "%zu blocks in the heap", stats.live_count);
  hd_heap_destroy(heap);
  hd_pool_config config = {.struct_bytes = sizeof config, .name = "looked at", .item_bytes = 64};
  hd_pool *pool = hd_pool_create(&config);
  for (int i = 0; i < 1000; i++) TS_CHECK(hd_pool_take(pool) != NULL, "an item");
  hd_pool_destroy(pool);
  atomic_fetch_sub(&busy, 1);
}

void race_look(const race_plan *plan) {
  unsigned lookers = (plan->threads + 2) / 4;
  atomic_store(&busy, plan->threads - lookers);
  race_run(plan, plan->threads, live_or_look);
  race_empty_slots();
  hd_option_set("limit", "0");
  hd_option_set("purge", "on");
}

/* ---- copies of the process ------------------------------------------------------------------------------------------- */

/* The child frees blocks of threads that it does not have, and allocates; no new threads, which the sanitizer does not allow. */
static void be_a_child(race_thread *self) {
  for (int i = 0; i < CHILD_STEPS; i++) race_step(self);
  race_empty_slots();
  hd_collect(0);
  _exit(0);
}

static void fork_or_allocate(race_thread *self) {
  if (self->index != 0) {
    while (atomic_load(&busy) > 0) race_step(self);
    return;
  }
  for (unsigned i = 0; i < FORKS * self->plan->scale; i++) {
    pid_t child = fork();
    TS_CHECK(child >= 0, "fork");
    if (child == 0) {
      alarm(30);
      be_a_child(self);
    }
    int status = 0;
    TS_CHECK(waitpid(child, &status, 0) == child && status == 0, "child %u ended with status %#x", i, (unsigned)status);
    for (int k = 0; k < 50; k++) race_step(self);
  }
  atomic_store(&busy, 0);
}

void race_forks(const race_plan *plan) {
  atomic_store(&busy, 1);
  race_run(plan, plan->threads, fork_or_allocate);
  race_empty_slots();
}
