/* The gate of a heap: keeps its owner and a collector apart at no cost for the owner.
 *
 * The owner enters with a plain store and a plain load (no atomic read-modify-write, no fence). The collector, which comes
 * rarely, sets `stopped`, makes every running thread pass a full barrier, and then sees either `busy` set (and lets go
 * again) or knows that the owner will see `stopped` and wait. Where the system has no such barrier there is no collecting of
 * other threads' heaps, only of free runs.
 *
 * What the gate does not cover: taking a block from the word that the slot of a small class stands for, and a free of the owner's own
 * block, which may set a bit in that word: of a thread's heap, of a small class only; of a heap with one user, of any. A collector may
 * therefore do with a page only what is right whatever of these happens meanwhile: never touch blocks of the group that the slot stands
 * for, and count on a byte that is free only because the owner writes it after everything else.
 *
 * Everything here is part of the cross-thread protocol and runs under the schedule explorer.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_GATE_H
#define HD_CORE_GATE_H

#include "core/heap.h"

SLOW void hdi_gate_wait(hd_heap *heap);

/* Enter unless a collector has stopped the heap. */
FAST bool hdi_gate_try(hd_heap *heap) {
  hd_store_relaxed(&heap->busy, 1u);
  hd_compiler_fence();
  if (HD_LIKELY(hd_load_acquire(&heap->stopped) == 0)) return true;
  hd_store_release(&heap->busy, 0u);
  return false;
}

FAST void hdi_gate_enter(hd_heap *heap) {
  while (HD_UNLIKELY(!hdi_gate_try(heap))) hdi_gate_wait(heap);
}

FAST void hdi_gate_leave(hd_heap *heap) { hd_store_release(&heap->busy, 0u); }

/* Whether this thread is inside its heap's gate already: a signal handler came in between. */
static inline bool hdi_gate_is_inside(const hd_heap *heap) { return hd_load_relaxed(&heap->busy) != 0; }

enum { HD_GATE_TRIES = 64 };

/* Collector: stop one heap, or raise the flags of many and then settle them one by one after a single barrier. tries: looks at
 * whether the owner is inside; between them it is given time to leave. */
void hdi_gate_raise(hd_heap *heap);
bool hdi_gate_barrier(void);
bool hdi_gate_settle(hd_heap *heap, int tries);
void hdi_gate_open(hd_heap *heap);

#endif
