/* Hardened mode (option `hardened`): finds what the default mode can't, and takes predictability away, at a price in time and memory.
 *
 * The fast paths don't know of it. A thread's heap is hidden from them (hdi_heap_mine), so every malloc finds an empty slot and every
 * free a page of somebody else's, and both end up here.
 *   malloc   takes a random one of the claimed blocks, and seals what lies behind the asked bytes (seal.h);
 *   free     wins the block by its byte, LIVE -> QUARANTINED, checks the seal, clears the block and puts it into the quarantine of the
 *            freeing thread's heap; what leaves that, first in first out, must still be clear, and only then is the block free;
 *   large    blocks, and a sample of small ones, lie on runs of their own between pages that can't be touched, their ends against the
 *            rear one; while such a block is in quarantine all of it can't be touched.
 *
 * A quarantine belongs to the heap's thread and is used outside the gate: to collectors its blocks are in use. Pages of hardened
 * heaps, and runs, have HD_OWNER_HARDENED in their owner word. Explicit heaps stay as they are.
 * Threads: any. Above: alloc.c, api.c, thread.c. Below: heap.h, space.h, seal.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_HARDENED_H
#define HD_CORE_HARDENED_H

#include "core/heap.h"
#include "core/seal.h"

enum {
  HD_HARDENED_MAX = HD_MEDIUM_MAX - HD_SEAL_BYTES, /* largest size that shares a page with others */
  HD_QUARANTINE_BLOCKS = 256,
  HD_QUARANTINE_RUNS = 32,
  HD_QUARANTINE_SPARES = 8
};

typedef struct hd_hardened {
  uint64_t random;
  uint64_t sample_left; /* small blocks until the next is guarded */
  uint32_t first, count; /* of block[], a ring */
  size_t bytes;
  uint32_t run_first, run_count; /* of run[], a ring */
  size_t run_units;
  size_t kept_units; /* of runs in the ring or among the spares that have memory */
  uint32_t spare_count;
  hd_unit *spare[HD_QUARANTINE_SPARES]; /* runs that left the quarantine, still guarded all over */
  hd_unit *run[HD_QUARANTINE_RUNS];
  uint8_t *block[HD_QUARANTINE_BLOCKS];
} hd_hardened;

extern HD_HIDDEN atomic_bool hdi_hardened_on;
static inline bool hdi_hardened_is_on(void) { return hd_load_relaxed(&hdi_hardened_on); }

/* Turn it on; once, before there are heaps. */
void hdi_hardened_start(void);

/* Make a thread's new heap a hardened one. false: no memory. */
bool hdi_hardened_attach(hd_heap *heap);

/* A random number of the heap's. */
FAST uint64_t hdi_hardened_random(hd_hardened *own) {
  own->random = own->random * 0x5851f42d4c957f2du + 0x14057b7ef767814fu;
  return own->random >> 33;
}

/* malloc, calloc and aligned requests, of no more than PTRDIFF_MAX bytes, alignment a power of two. NULL with ENOMEM. */
void *hdi_hardened_alloc(size_t bytes, bool zero);
void *hdi_hardened_alloc_aligned(size_t alignment, size_t bytes, bool zero);

/* Free block number index of a hardened page. */
void hdi_hardened_free(hd_unit *unit, uint64_t index);

/* For live blocks of hardened memory, which unit says: the bytes asked for, after a check that ends in a report under this verb; the same
 * without check; a new size; a new size where it stands, or false. */
size_t hdi_hardened_check(const char *verb, const void *p, hd_unit *unit);
size_t hdi_hardened_asked(const void *p, const hd_unit *unit);
void *hdi_hardened_realloc(void *p, hd_unit *unit, size_t bytes);
bool hdi_hardened_expand(void *p, hd_unit *unit, size_t bytes);

/* Whether a sized free says the truth of its block; a report if not. alignment: 1 if none was said. What is no live block of hardened
 * memory is left to free(). */
bool hdi_hardened_size_is(const void *p, size_t bytes, size_t alignment);

/* Check and free all that is in a heap's quarantine. The caller is its thread, outside the gate. */
void hdi_hardened_flush_own(hd_heap *heap);

/* The same for any heap; in the default mode none of hardened mode's code is run, so that it need not come into memory. */
static inline void hdi_hardened_flush(hd_heap *heap) {
  if (heap->hardened != NULL) hdi_hardened_flush_own(heap);
}

/* In a child of a fork, for the heap of a thread that is not there: it may have been at its quarantine, whose blocks are lost. */
void hdi_hardened_forget(hd_heap *heap);

/* ---- hardened_run.c: blocks on runs of their own ------------------------------------------------------------------ */

/* Why a block gets a run. A sample is a small block, of which few have one; one that grows gets address space behind it. */
typedef enum hd_run_reason { HD_RUN_LARGE, HD_RUN_SAMPLE, HD_RUN_GROWS } hd_run_reason;

/* heap: the calling thread's. NULL: there is no memory, errno untouched. */
void *hdi_hardened_run_alloc(hd_heap *heap, size_t alignment, size_t bytes, bool zero, hd_run_reason reason);
void hdi_hardened_run_free(void *p, hd_unit *first);
bool hdi_hardened_run_is_whole(const hd_unit *first);
bool hdi_hardened_run_resize(hd_unit *first, size_t bytes);

/* Move a live block's pages to a run with address space behind it; the old one goes to rest. NULL: not possible, nothing has changed. */
void *hdi_hardened_run_move(hd_heap *heap, hd_unit *old, size_t bytes);
void hdi_hardened_run_flush(hd_heap *heap);

/* Give back the runs that the system did not open before; the collector calls this. */
void hdi_hardened_run_retry(void);

/* Address space is short: give up what is kept for later runs. */
void hdi_hardened_run_yield(void);

#endif
