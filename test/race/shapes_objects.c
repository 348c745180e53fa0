/* Shapes with explicit heaps, arenas and pools. See race.h.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <sched.h>
#include <string.h>
#include <sys/mman.h>

#include "race.h"

enum { HEAPS = 4, LIVES = 40, BLOCKS = 120, STEPS = 1500, MEMORY = 4 << 20, ARENA_BYTES = 1 << 20, ARENAS = 6, ITEMS = 3000 };

/* ---- heaps --------------------------------------------------------------------------------------------------------- */

/* A block of a heap that its maker will destroy, for another thread to free. The parcel lies in the maker's stack. */
typedef struct parcel {
  race_block *block;
  atomic_bool freed;
} parcel;

static _Atomic(parcel *) offered[HEAPS];
static hd_heap *shared[HEAPS];

static race_block *make_in(hd_heap *heap, struct ts_rng *rng) {
  size_t bytes = race_length(rng);
  return race_fill(ts_below(rng, 4) == 0 ? hd_heap_zalloc(heap, bytes) : hd_heap_malloc(heap, bytes), ts_next(rng), bytes);
}

static void accept_parcel(uint64_t from) {
  parcel *got = atomic_exchange(&offered[from % HEAPS], NULL);
  if (got == NULL) return;
  race_drop(got->block);
  atomic_store(&got->freed, true);
}

/* True when the block is no longer the maker's. */
static bool offer(parcel *own, race_block *block, unsigned index) {
  parcel *nobody = NULL;
  if (!atomic_load(&own->freed)) return false;
  own->block = block;
  atomic_store(&own->freed, false);
  if (atomic_compare_exchange_strong(&offered[index % HEAPS], &nobody, own)) return true;
  atomic_store(&own->freed, true);
  return false;
}

static void wait_for(parcel *own, unsigned index) {
  parcel *expected = own;
  if (atomic_load(&own->freed)) return;
  if (atomic_compare_exchange_strong(&offered[index % HEAPS], &expected, NULL)) race_drop(own->block);
  else while (!atomic_load(&own->freed)) sched_yield();
}

/* A heap of this thread's own making: others free some of its blocks, then it is destroyed with what is left. The heap is used again by
 * whoever makes the next one, or by a thread that is born. */
static void live_in(race_thread *self, const hd_heap_config *config) {
  parcel own = {NULL, true};
  hd_heap *heap = hd_heap_create(config);
  TS_CHECK(heap != NULL, "a heap");
  for (unsigned i = 0; i < BLOCKS; i++) {
    race_block *block = make_in(heap, &self->rng);
    if (block != NULL && ts_below(&self->rng, 4) == 0) block = race_fill(hd_heap_realloc(heap, block, 500), i, 500);
    if (block != NULL && !offer(&own, block, self->index) && ts_below(&self->rng, 2) == 0) {
      race_check(block);
      hd_heap_free(heap, block);
    }
    accept_parcel(ts_next(&self->rng));
    if (i % 4 == 0) race_step(self);
  }
  wait_for(&own, self->index);
  if (ts_below(&self->rng, 4) == 0) hd_heap_reset(heap);
  hd_heap_destroy(heap);
}

static void use_shared(race_thread *self) {
  hd_heap *heap = shared[ts_below(&self->rng, HEAPS)];
  race_block *block = make_in(heap, &self->rng);
  TS_CHECK(block != NULL && hd_heap_of(block) == heap, "a block of its heap");
  race_drop(race_swap(ts_next(&self->rng), block));
}

static void make_and_destroy(race_thread *self) {
  hd_heap_config config = {.struct_bytes = sizeof config, .name = "race"};
  for (unsigned i = 0; i < LIVES * self->plan->scale / 4; i++) {
    live_in(self, ts_below(&self->rng, 2) == 0 ? NULL : &config);
    for (int k = 0; k < 50; k++) use_shared(self);
  }
}

void race_heaps(const race_plan *plan) {
  for (int i = 0; i < HEAPS; i++) shared[i] = hd_heap_create(NULL);
  race_run(plan, plan->threads, make_and_destroy);
  race_empty_slots();
  for (int i = 0; i < HEAPS; i++) hd_heap_destroy(shared[i]);
}

static void be_the_one_user(race_thread *self) {
  hd_heap_config config = {.struct_bytes = sizeof config, .one_user = true};
  for (unsigned i = 0; i < LIVES * self->plan->scale / 2; i++) {
    live_in(self, &config);
    if (i % 4 == 0) hd_collect(0);
  }
}

void race_one_user(const race_plan *plan) {
  race_run(plan, plan->threads, be_the_one_user);
  race_empty_slots();
}

/* The memory is gone as soon as the heap is: nobody may still look there. */
static void bring_memory(race_thread *self) {
  for (unsigned i = 0; i < LIVES * self->plan->scale / 2; i++) {
    void *memory = mmap(NULL, MEMORY, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    TS_CHECK(memory != MAP_FAILED, "memory for a heap");
    hd_heap_config config = {.struct_bytes = sizeof config, .memory = memory, .memory_bytes = MEMORY, .one_user = i % 2 == 0};
    live_in(self, &config);
    munmap(memory, MEMORY);
    hd_stats stats = {.struct_bytes = sizeof stats};
    if (i % 4 == 0) hd_stats_get(&stats);
  }
}

void race_own_memory(const race_plan *plan) {
  race_run(plan, plan->threads, bring_memory);
  race_empty_slots();
}

/* ---- arenas ---------------------------------------------------------------------------------------------------------- */

static hd_arena *arena;

static void fill_arena(race_thread *self) {
  for (unsigned i = 0; i < STEPS; i++) {
    size_t bytes = 16 + ts_below(&self->rng, 300);
    bool right = ts_below(&self->rng, 2) == 0;
    race_block *block = race_fill(right ? hd_arena_alloc_right(arena, bytes) : hd_arena_alloc(arena, bytes), i, bytes);
    hd_arena *own = hd_arena_thread();
    TS_CHECK(own != NULL && hd_arena_alloc(own, 100) != NULL, "the thread's own arena");
    if (block != NULL) TS_CHECK(block->tag == i && block->bytes == bytes, "an arena's block");
    if (i % 8 == 0) race_step(self);
  }
}

void race_arenas(const race_plan *plan) {
  hd_arena_config config = {.struct_bytes = sizeof config, .name = "race", .capacity_bytes = ARENA_BYTES, .shared = true};
  for (unsigned i = 0; i < ARENAS * plan->scale; i++) {
    if (i % 2 == 0) arena = hd_arena_create(&config);
    race_run(plan, plan->threads, fill_arena);
    hd_arena_reset(arena);
    if (i % 2 == 1 || i + 1 == ARENAS * plan->scale) TS_CHECK(hd_arena_destroy(arena), "an empty arena");
  }
  race_empty_slots();
}

/* ---- pools ----------------------------------------------------------------------------------------------------------- */

enum { ITEM_BYTES = 48 };

static hd_pool *pool;

/* Items go through the slots of blocks, so that another thread gives them back. */
static void use_pools(race_thread *self) {
  hd_pool_config config = {.struct_bytes = sizeof config, .item_bytes = ITEM_BYTES};
  hd_pool *own = hd_pool_create(&config);
  for (unsigned i = 0; i < ITEMS; i++) {
    race_block *item = race_fill(hd_pool_take(pool), i, ITEM_BYTES);
    item = race_swap(ts_next(&self->rng) % 64, item);
    if (item != NULL) {
      TS_CHECK(item->bytes == ITEM_BYTES, "an item's content");
      hd_pool_give(pool, item);
    }
    TS_CHECK(race_fill(hd_pool_take(own), i, ITEM_BYTES) != NULL, "an item of the thread's own pool");
    if (i % 512 == 0) hd_pool_trim(pool, 0);
  }
  hd_pool_destroy(own);
}

void race_pools(const race_plan *plan) {
  hd_pool_config config = {.struct_bytes = sizeof config, .item_bytes = ITEM_BYTES, .shared = true};
  pool = hd_pool_create(&config);
  for (unsigned i = 0; i < plan->scale; i++) race_run(plan, plan->threads, use_pools);
  for (unsigned i = 0; i < RACE_SLOTS; i++) {
    race_block *item = race_swap(i, NULL);
    if (item != NULL) hd_pool_give(pool, item);
  }
  TS_CHECK(hd_pool_destroy(pool) == 0, "an empty pool");
}
