/* The metadata store: memory for heaps and byte maps, apart from all blocks that programs can overflow.
 *
 * A bump pointer over a reserved range with unreachable neighbours, and a free list for each power of two from 64 bytes to
 * 16 KiB. Memory comes zeroed and must be given back zeroed: byte maps are all HD_BLOCK_FREE when their page is released.
 * Threads: any; one lock, never held with another one wanted.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_STORE_H
#define HD_CORE_STORE_H

#include "base/bits.h"
#include "core/lock.h"

enum { HD_STORE_SHIFT = 6, HD_STORE_MIN = 1 << HD_STORE_SHIFT, HD_STORE_MAX = 16 * 1024 };

/* Start with a range of the common space's choice (hdi_space_store_range), behind which so many bytes are the store's too, and may be
 * touched; or with one reserved here. false: no memory. */
bool hdi_store_init(void *range, size_t bytes, size_t first_bytes);

/* Zeroed memory of bytes (rounded up to a power of two), aligned to 64. NULL when the system refuses. */
void *hdi_store_take(size_t bytes);

/* What hdi_store_take(bytes) gives really. */
static inline size_t hdi_store_bytes(size_t bytes) { return bytes <= HD_STORE_MIN ? HD_STORE_MIN : (size_t)2 << hd_highest_bit(bytes - 1); }

/* Which power of two that is, counted from HD_STORE_MIN on; and back. */
static inline unsigned hdi_store_bin(size_t bytes) { return hd_highest_bit(hdi_store_bytes(bytes)) - HD_STORE_SHIFT; }
static inline size_t hdi_store_bin_bytes(unsigned bin) { return (size_t)HD_STORE_MIN << bin; }

/* Give back what hdi_store_take(bytes) gave; it must read as zero. */
void hdi_store_give(void *memory, size_t bytes);

/* Give the system pages back in which every item is free, if that is much. Bytes given back. */
size_t hdi_store_purge(void);

/* Bytes in use, and bytes committed. */
size_t hdi_store_used(void);

/* Keep everybody from taking and giving for a moment, so that what has not been given back by now stays what it is. false: a fork is
 * under way; or has begun meanwhile, and what was read may not be so. */
bool hdi_store_hold(void);
bool hdi_store_let_go(void);

/* Whether somebody keeps it so, and may be reading an item that the caller has just unmarked: then the item must go back to the store, for
 * which the caller will wait. If not, whoever comes later sees that it is unmarked. */
bool hdi_store_is_held(void);

void hdi_store_fork(hd_fork_step step);

#endif
