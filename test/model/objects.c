/* A pool and an arena between the blocks of the model test: what they hand out must not overlap any block. Only in the flavour that has
 * the functions linked in; in the other one they hand out nothing.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <stdlib.h>

#include "parts.h"

#ifdef TS_API
#include <heddle/arena.h>
#include <heddle/pool.h>

#define ITEM_BYTES 400
#define ITEM_MAX 600
#define ARENA_LIMIT_BYTES ((size_t)16 << 20)

struct objects {
  hd_pool *pool;
  hd_arena *arena;
};

static struct objects *objects(struct model *model) {
  static struct objects made;
  if (model->racing) return NULL;
  if (model->objects) return model->objects;
  hd_pool_config pool = {.struct_bytes = sizeof pool, .name = "model", .item_bytes = ITEM_BYTES, .maximum = ITEM_MAX, .kept = 50};
  hd_arena_config arena = {.struct_bytes = sizeof arena, .name = "model", .limit_bytes = ARENA_LIMIT_BYTES, .keep_bytes = 1};
  made = (struct objects){hd_pool_create(&pool), hd_arena_create(&arena)};
  if ((!made.pool || !made.arena) && !model->limited) model_fail(model, "null", "no pool or no arena, errno %d", errno);
  model->objects = &made;
  errno = ERRNO_MARK;
  return model->objects;
}

static void *out_of_memory(void) {
  errno = ENOMEM;
  return NULL;
}

void *model_pool_take(struct model *model, const struct op *op, size_t *bytes, bool *zeroed) {
  struct objects *here = objects(model);
  *bytes = ITEM_BYTES;
  *zeroed = op->key & 1;
  if (!here || !here->pool) return out_of_memory();
  return *zeroed ? hd_pool_take_zeroed(here->pool) : hd_pool_take(here->pool);
}

void model_pool_give(struct model *model, void *item) {
  errno = ERRNO_MARK;
  hd_pool_give(model->objects->pool, item);
  if (errno != ERRNO_MARK) model_fail(model, "errno", "hd_pool_give set errno to %d", errno);
}

void *model_arena_lay(struct model *model, const struct op *op, bool *zeroed) {
  struct objects *here = objects(model);
  size_t bytes = op->bytes ? op->bytes : 1;
  *zeroed = op->key & 1;
  if (!here || !here->arena) return out_of_memory();
  if (op->key & 2)
    return *zeroed ? hd_arena_zalloc_aligned_right(here->arena, op->alignment, bytes)
                   : hd_arena_alloc_aligned_right(here->arena, op->alignment, bytes);
  return *zeroed ? hd_arena_zalloc_aligned(here->arena, op->alignment, bytes) : hd_arena_alloc_aligned(here->arena, op->alignment, bytes);
}

void model_arena_reset(struct model *model, const struct op *op) {
  if (!model->objects || !model->objects->arena) return;
  model_drop_heap(model, OWNER_ARENA);
  hd_arena_reset(model->objects->arena);
  if (op->key & 1) hd_arena_trim(model->objects->arena, 0);
}

void model_objects_destroy(struct model *model) {
  if (!model->objects) return;
  size_t left = hd_pool_destroy(model->objects->pool);
  if (left) model_fail(model, "stats", "%zu items left in an emptied pool", left);
  hd_arena_destroy(model->objects->arena);
  model->objects = NULL;
}
#else
static void *out_of_memory(void) {
  errno = ENOMEM;
  return NULL;
}

void *model_pool_take(struct model *model, const struct op *op, size_t *bytes, bool *zeroed) {
  (void)model, (void)op, (void)bytes, (void)zeroed;
  return out_of_memory();
}

void *model_arena_lay(struct model *model, const struct op *op, bool *zeroed) {
  (void)model, (void)op, (void)zeroed;
  return out_of_memory();
}

void model_pool_give(struct model *model, void *item) { (void)model, (void)item; }
void model_arena_reset(struct model *model, const struct op *op) { (void)model, (void)op; }
void model_objects_destroy(struct model *model) { (void)model; }
#endif
