/* Parcels: blocks of a medium class that other threads freed, on their way to their owner, many at a time.
 *
 * A page of a medium class has 64 blocks and fewer, so one or two frees are worth telling its owner; counted page by page (remote.h) they
 * cost more in telling than in freeing (decision 24). So who frees such a block of another heap
 *   P1  writes its byte: SENT, which nobody takes for free and nobody frees again; the block stays counted in its page's credit;
 *   P2  puts its address into the parcel that it fills for this owner, and pushes that to the owner's list of arrived ones when it is full.
 * The owner takes the list whole, gives the blocks to its magazines or pages as if it had freed them itself, and returns each parcel by
 * writing NULL to its `owner`. A heap has sixteen. Where none of them is back (an owner does not look), a free is counted as those of small
 * blocks are.
 *
 * Parcels lie in the heap of who fills them, and heaps are never unmapped. A page is not released under a block that is SENT, which counts.
 * Orders: what the freeing thread did to the block and P1 happen before the owner gives it away, by the push (release) and the exchange
 * (acquire); that the owner is through with a parcel before it is filled again, by the release of `owner` and the acquire in front of that.
 * Who may call: the filling heap's thread inside its gate, or a collector that has stopped it; and the same for the owner. Frees of
 * medium classes are inside the gate, so a collector may take parcels in for an owner that it has stopped by the gate alone.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_PARCEL_H
#define HD_CORE_PARCEL_H

#include "core/gate.h"

/* Free the block at p of a unit of another thread's heap, LIVE by its byte. false: not done, and nothing written. */
bool hdi_parcel_put(hd_heap *self, hd_unit *unit, void *p, hd_block_state *state);

/* Send what a heap is filling. */
void hdi_parcel_flush(hd_heap *self);

/* Take in what has arrived. */
void hdi_parcel_take_in(hd_heap *owner);
FAST void hdi_parcel_look(hd_heap *owner) {
  if (HD_UNLIKELY(hd_load_relaxed(&owner->arrived) != NULL)) hdi_parcel_take_in(owner);
}

/* Whether blocks of a heap, or of others in its parcels, are on their way. Any thread: the answer may be old at once. */
static inline bool hdi_parcel_has_any(hd_heap *heap) {
  return hd_load_relaxed(&heap->arrived) != NULL || hd_peek(&heap->parcels_open) != 0;
}

#endif
