/* What must be true of the heap in every model, and the operations of the models' threads.
 *
 * Each live block carries a mark in its first and last bytes and stands in a list; a block that is handed out twice, overlaps, loses
 * its mark or is lost shows at once. When all threads rest, every page's account must be exact: blocks in use as the owner
 * knows them = live bytes of the map + blocks claimed by the slot + frees counted and not yet taken in.
 * The inline functions belong to the models, which are compiled with hooks; shadow.c is not, so that it adds no steps.
 * SPDX-License-Identifier: MIT */
#ifndef SCHED_SHADOW_H
#define SCHED_SHADOW_H

#include "core/alloc.h"
#include "core/heap.h"
#include "sched.h"

/* Block p was handed out; is given back. */
void shadow_live(void *p, size_t bytes);
void shadow_dead(void *p);
/* A block that is being freed while its thread vanishes may be either. */
void shadow_in_doubt(void *p);
size_t shadow_live_count(void);
/* After a fork: pages that a vanished thread was just making or releasing may stay as they were. */
void shadow_expect_loss(void);

/* All threads rest: every account, list and run is right. */
void shadow_audit(void);
/* Free all live blocks, tell all counts, take in all mail; then every page but the current ones must be gone. */
void shadow_finish(void);
/* After shadow_finish: every unit below the top is part of exactly one run. lost: units that may be missing. */
void shadow_check_space(size_t lost);

/* Start the library, and make the collector's tables, so that no run reserves memory. */
void shadow_start(void);

static inline void *take(size_t bytes) {
  void *p = hdi_alloc(bytes);
  shadow_live(p, bytes);
  return p;
}

static inline void give(void *p) {
  shadow_dead(p);
  hdi_free(p);
}

static inline void *take_from(hd_heap *heap, size_t bytes) {
  void *p = hdi_alloc_from(heap, bytes, false);
  shadow_live(p, bytes);
  return p;
}

#endif
