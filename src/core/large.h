/* Large blocks: one block, one run of units.
 *
 * The block starts at the run's start. What lies behind the requested size, up to the run's end, is slack that realloc grows
 * into. The first unit's `live` word decides who frees the block, so that a second free is always seen.
 * Threads: any; an explicit heap's blocks under that heap's lock.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_LARGE_H
#define HD_CORE_LARGE_H

#include "core/heap.h"
#include "os/os.h"

/* A block of bytes (above HD_MEDIUM_MAX, or with an alignment above what pages give). *zeroed: it reads as zero; what wants that is
 * not filled with recycled pages. */
void *hdi_large_alloc(hd_heap *heap, size_t bytes, size_t alignment, bool wants_zero, bool *zeroed);

static inline size_t hdi_large_usable(size_t bytes) { return hd_round_up(bytes, hdi_os.page_bytes); }

/* Make a run that starts at p a block of bytes. owner: as the unit says it, 0 for a thread's block. */
static inline void hdi_large_make_at(uint8_t *p, hd_unit *first, size_t bytes, uintptr_t owner) {
  hd_store_owned(&first->base, p);
  hd_store_owned(&first->inverse, 1);
  hd_store_owned(&first->capacity, 1);
  hd_store_owned(&first->block_bytes, hdi_large_usable(bytes));
  hd_store_owned(&first->head, first);
  hd_store_owned(&first->class_index, 0);
  hd_store_relaxed(&first->owner, owner);
  hd_store_relaxed(&first->live, 1u);
  hd_store_release(&first->kind, HD_UNIT_LARGE);
}

/* The run of a thread's block that has been freed, and stayed in its heap's cache, is one of bytes again: it says all but this. */
static inline void hdi_large_make_again(hd_unit *first, size_t bytes) {
  hd_store_owned(&first->block_bytes, hdi_large_usable(bytes));
  hd_store_relaxed(&first->live, 1u);
}

/* Make a run the heap's block of bytes. */
static inline void *hdi_large_make(hd_heap *heap, hd_unit *first, size_t bytes) {
  uint8_t *p = hdi_space_address(heap->space, first);
  uintptr_t owner = heap->explicit_heap ? (uintptr_t)heap | HD_OWNER_EXPLICIT | HD_OWNER_LARGE : (uintptr_t)0;
  hdi_large_make_at(p, first, bytes, owner);
  return p;
}

/* Free the block whose first unit this is. The caller has won `live`. heap: whose cache may keep the run (the caller is its owner,
 * inside the gate), or the explicit heap of the block, locked; NULL: nobody's. */
void hdi_large_free(hd_heap *heap, hd_unit *first);

/* Make the block's usable size at least bytes where it stands, giving units back when it shrinks. */
bool hdi_large_resize(hd_unit *first, size_t bytes);

enum {
  HD_LEAVE_MIN_UNITS = 32,    /* a run of 2 MiB and more is left whole by a block that shrinks to */
  HD_LEAVE_MAX = 1024 * 1024, /* so much and less */
};

/* A block of which little is kept leaves its run: cut in pieces that would be of use for nothing as long. */
static inline bool hdi_large_leaves(const hd_unit *first, size_t bytes) {
  return first->run_units >= HD_LEAVE_MIN_UNITS && bytes <= first->block_bytes / 2 && bytes <= HD_LEAVE_MAX;
}

/* Another run for a thread's block: to grow, one that has room for more, its pages moved there or copied; for one that leaves its run, old
 * memory. NULL: not possible, and the block is unchanged. */
void *hdi_large_move(hd_heap *heap, hd_unit *first, size_t bytes);

#endif
