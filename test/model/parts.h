/* What the files of the driver know of each other.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_MODEL_PARTS_H
#define TEST_MODEL_PARTS_H

#include "ops.h"

/* errno before each call; no call that succeeds may set this value. */
#define ERRNO_MARK 4242

/* ops.c */
bool model_strikes(struct model *model, enum canary canary);
void model_check_content(struct model *model, const struct block *block);
void model_free_slot(struct model *model, int slot, bool sized);
void model_drop_heap(struct model *model, int heap);

/* heaps.c */
void model_heap_create(struct model *model, const struct op *op);
void model_heap_clear(struct model *model, int index, bool destroy);

/* objects.c: an item of the pool, a block of the arena; NULL where they do not exist or are full. *zeroed: it must read as zero. */
void *model_pool_take(struct model *model, const struct op *op, size_t *bytes, bool *zeroed);
void model_pool_give(struct model *model, void *item);
void *model_arena_lay(struct model *model, const struct op *op, bool *zeroed);
void model_arena_reset(struct model *model, const struct op *op);
void model_objects_destroy(struct model *model);

/* misuse.c: a call that must lead to one report and to nothing else. */
void model_misuse(struct model *model, const struct op *op);

#endif
