/* Explicit heaps, walks and statistics in the model test.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <sys/mman.h>

#include "parts.h"

#define HEAP_MEMORY_BYTES ((size_t)4 << 20)
#define HEAP_LIMIT_BYTES ((size_t)8 << 20)

/* ---- heaps ------------------------------------------------------------------------------------------------------ */

void model_heap_create(struct model *model, const struct op *op) {
  struct explicit_heap *heap = &model->heap[op->heap];
  if (!model->sut->heap_create || heap->handle) return;
  hd_heap_config config = {.struct_bytes = sizeof config, .name = "model"};
  heap->memory = NULL;
  heap->limit_bytes = 0;
  unsigned kind = (unsigned)(op->key % 5);
  config.one_user = kind >= 3;
  if (kind == 1) heap->limit_bytes = config.limit_bytes = HEAP_LIMIT_BYTES;
  if (kind == 2 || kind == 4) {
    heap->memory_bytes = config.memory_bytes = HEAP_MEMORY_BYTES;
    heap->memory = mmap(NULL, HEAP_MEMORY_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (heap->memory == MAP_FAILED) model_fail(model, "driver", "mmap failed");
    config.memory = heap->memory;
  }
  errno = ERRNO_MARK;
  heap->handle = model->sut->heap_create(kind == 0 ? NULL : &config);
  if (!heap->handle && model->limited && errno == ENOMEM) {
    if (heap->memory) munmap(heap->memory, HEAP_MEMORY_BYTES);
    return;
  }
  if (!heap->handle) model_fail(model, "null", "hd_heap_create returned NULL, errno %d", errno);
  if (errno != ERRNO_MARK) model_fail(model, "errno", "hd_heap_create set errno to %d", errno);
}

void model_heap_clear(struct model *model, int index, bool destroy) {
  struct explicit_heap *heap = &model->heap[index];
  if (!heap->handle) return;
  model_drop_heap(model, index);
  if (!destroy) {
    model->sut->heap_reset(heap->handle);
    return;
  }
  model->sut->heap_destroy(heap->handle);
  heap->handle = NULL;
  if (heap->memory) munmap(heap->memory, heap->memory_bytes);
}

/* ---- statistics ------------------------------------------------------------------------------------------------- */

struct walk {
  struct model *model;
  hd_heap *heap;
  size_t known, unknown, used;
};

static bool visit(const hd_area *area, void *block, size_t block_bytes, void *user) {
  struct walk *walk = user;
  if (walk->heap && area->heap != walk->heap) model_fail(walk->model, "walk", "the walk of a heap shows an area of another");
  if (!block && area->kind > HD_AREA_LARGE) return true; /* an object's region */
  if (!block) {
    walk->used += area->block_used;
    return true;
  }
  int slot = shadow_find(&walk->model->shadow, block);
  if (slot < 0) {
    walk->unknown++;
    return true;
  }
  walk->known++;
  size_t usable = walk->model->shadow.slot[slot].usable;
  if (block_bytes != usable) model_fail(walk->model, "walk", "the walk shows %p with %zu bytes, usable %zu", block, block_bytes, usable);
  return true;
}

static void check_walk(struct model *model, hd_heap *heap, size_t expected, size_t foreign) {
  struct walk walk = {.model = model, .heap = heap};
  if (!model->sut->heap_walk(heap, true, visit, &walk)) model_fail(model, "walk", "the walk stopped early");
  if (walk.known != expected || walk.unknown != foreign)
    model_fail(model, "walk", "the walk shows %zu of %zu blocks and %zu unknown ones (expected %zu)", walk.known, expected,
               walk.unknown, foreign);
  if (walk.used != expected + foreign) model_fail(model, "walk", "areas count %zu live blocks, walked %zu", walk.used, expected + foreign);
}

static void read_stats(struct model *model, hd_heap *heap, hd_stats *stats) {
  *stats = (hd_stats){.struct_bytes = sizeof *stats};
  bool done = heap ? model->sut->heap_stats_get(heap, stats) : model->sut->stats_get(stats);
  if (!done) model_fail(model, "stats", "hd_stats_get failed");
  if (model_strikes(model, CANARY_STATS)) stats->live_count++;
}

void model_rebase(struct model *model) {
  if (!model->sut->stats_get) return;
  hd_stats stats;
  read_stats(model, NULL, &stats);
  model->base_count = stats.live_count - model->shadow.live_count;
  model->base_live = stats.live - model->shadow.live_usable;
}

static void check_heap(struct model *model, int index) {
  struct explicit_heap *heap = &model->heap[index];
  if (!heap->handle) return;
  size_t count = 0, usable = 0;
  for (int s = 0; s < SLOT_COUNT; s++) {
    const struct block *block = &model->shadow.slot[s];
    if (block->at && block->heap == index) count++, usable += block->usable;
  }
  if (heap->limit_bytes && usable > heap->limit_bytes)
    model_fail(model, "heap", "a heap of %zu bytes holds %zu", heap->limit_bytes, usable);
  hd_stats stats;
  read_stats(model, heap->handle, &stats);
  if (stats.live_count != count || stats.live != usable)
    model_fail(model, "stats", "heap: %zu blocks, %zu bytes; the shadow has %zu, %zu", stats.live_count, stats.live, count, usable);
  check_walk(model, heap->handle, count, 0);
}

void model_quiet_check(struct model *model) {
  if (!model->sut->stats_get) return;
  hd_stats stats;
  read_stats(model, NULL, &stats);
  for (int h = 0; model->shadow.tracked && h < HEAP_COUNT; h++) check_heap(model, h);
  if (model->passed_through) return; /* the next allocator's blocks are not in the figures */
  size_t count = stats.live_count - model->base_count, live = stats.live - model->base_live;
  if (count != model->shadow.live_count || live != model->shadow.live_usable)
    model_fail(model, "stats", "statistics: %zu blocks, %zu bytes; the shadow has %zu, %zu", count, live, model->shadow.live_count,
               model->shadow.live_usable);
  if (model->shadow.tracked) check_walk(model, NULL, model->shadow.live_count, model->base_count);
}
