/* Pools: items of one size, taken and given in a few instructions.
 *
 * A pool hands out items of equal size and takes them back. What it knows about them lies apart from them, in bit maps, so that a
 * stray write into a given item harms nobody, a double give is found at once, and no item is written but by the program. Items never
 * move. Memory comes in steps from Heddle's own regions and goes back in whole spans (64 KiB, or one item if that is larger) when
 * nothing in them is live any more. Low addresses are handed out first, so that the top empties.
 *
 *   hd_pool_config config = {.struct_bytes = sizeof config, .name = "nodes", .item_bytes = sizeof(node), .kept = 1000};
 *   hd_pool *pool = hd_pool_create(&config);
 *   node *n = hd_pool_take(pool);
 *   hd_pool_give(pool, n);
 *   size_t left = hd_pool_destroy(pool);
 *
 * Threads: one at a time, or with `shared` any number (each call then takes a lock: about 20 ns a pair instead of 3). The child of a
 * fork must not use a shared pool that another thread of the parent was busy with. Every success keeps errno.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_POOL_H
#define HEDDLE_POOL_H

#include <string.h>

#include "../heddle.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_pool hd_pool;

/* ---- events ----------------------------------------------------------------------------------------------------- */

/** What a growth or an overflow is told with. Counts are items for pools, bytes for string pools and tables of handles; what ran full
 *  there may also be the number of strings or handles, then `what` says so and the counts are of these. */
typedef struct hd_pool_event {
  const char *name;  /* of the object, "" for none */
  const char *what;  /* "items", "bytes", "strings" or "handles" */
  size_t used;       /* live now */
  size_t allocated;  /* live and ready to be taken, after the growth */
  size_t limit;      /* most that may be live; SIZE_MAX for no limit */
  size_t slack;      /* overflow: what may still be had beyond the limit if the callback says true; growth: 0 */
} hd_pool_event;

/** Called after every growth. It may use the object, but not destroy it. No lock is held. */
typedef void hd_pool_growth(const hd_pool_event *event, void *user);

/** Called when the limit is reached. true opens the slack (`extra`), so that the program can come to an orderly stop; false, or no
 *  slack left, makes the call that ran into the limit fail with ENOMEM, unless the callback itself made room by giving back. It may
 *  use the object, but not destroy it; an overflow inside the callback fails without calling it again. No lock is held. The slack
 *  closes again when the object is reset (hd_pool_reset), flushed to its start, or (pools) flushed with no more than the limit live. */
typedef bool hd_pool_overflow(const hd_pool_event *event, void *user);

/* ---- pools ------------------------------------------------------------------------------------------------------ */

/** A pool's form; zero-initialise, then set what matters. Only item_bytes must be set. */
typedef struct hd_pool_config {
  size_t struct_bytes;         /* sizeof(hd_pool_config): the caller's version of this struct */
  const char *name;            /* shown in walks, reports and events; copied (31 bytes); NULL for none */
  size_t item_bytes;           /* 1..2^40 */
  size_t alignment;            /* power of two up to 2^30; 0: what a C object of item_bytes can need, at most 16 */
  size_t initial;              /* items to make ready at once */
  size_t minimum;              /* kept and trim never go below so many items, live and free */
  size_t maximum;              /* most live items; 0: no limit */
  size_t limit_bytes;          /* the same in bytes of items; the smaller of the two counts; 0: no limit */
  size_t step;                 /* items to grow by; 0: as many as fit into 64 KiB, at least one */
  size_t extra;                /* slack: items beyond the limit, see hd_pool_overflow */
  size_t kept; /* free items beyond which empty spans, but for the one that is being taken from, go back at once; 0: all */
  bool shared; /* any thread at any time */
  hd_pool_growth *growth; /* may be NULL */
  hd_pool_overflow *overflow; /* may be NULL: no slack, plain ENOMEM */
  void *user; /* handed to both */
} hd_pool_config;

/** A pool's counters, exact after every call. Counts are items. Fields are only ever added at the end. */
typedef struct hd_pool_stats {
  size_t struct_bytes; /* set by the caller to sizeof(hd_pool_stats) before the call */
  size_t used; /* live items */
  size_t list; /* free items that can be taken without growth; used + list == allocated */
  size_t max; /* most items that were ever live at once */
  size_t size; /* most items that may be live now: maximum, and extra while the slack is open; SIZE_MAX: no limit */
  uint64_t count; /* items ever taken */
  size_t allocated; /* items that have memory, live and free */
  size_t bytes; /* allocated in bytes */
  size_t touched; /* bytes of memory that the pool has made resident: items and maps */
  size_t item_bytes; /* what was asked for */
  size_t stride; /* distance of two items: item_bytes rounded up to the alignment */
  size_t initial, minimum, maximum, step, extra, kept; /* as in force; maximum SIZE_MAX: no limit */
  uint64_t growth_count, release_count; /* steps taken, spans given back */
} hd_pool_stats;

/** Create a pool.
 *  returns  the pool; NULL with EINVAL for a bad config (NULL, no item_bytes, bad alignment, minimum or initial above the limit),
 *           ENOMEM when there is no memory
 *  cost     reserves address space for the limit (16 MiB at first where there is none); memory costs only what is touched */
HEDDLE_API hd_pool *hd_pool_create(const hd_pool_config *config);

/** Give all memory back. Items must not be used any more. NULL is ignored.
 *  returns  how many items were still live */
HEDDLE_API size_t hd_pool_destroy(hd_pool *pool);

/** An item: aligned, content undefined.
 *  returns  NULL with ENOMEM when the limit is reached or there is no memory
 *  cost     about 16 instructions; once in up to 64 items a search through a few words, once in `step` items a growth */
static inline void *hd_pool_take(hd_pool *pool);

/** An item that reads as zero. Fresh memory is known to be zero and not touched. */
static inline void *hd_pool_take_zeroed(hd_pool *pool);

/** Give an item back. NULL is ignored.
 *  misuse   a free item, an address inside an item, an address of anything else: one line on stderr that names the pool
 *           (HD-E08), then as the option `onerror` says; the pool stays as it was
 *  cost     about 22 instructions, no loop; a system call where a span goes back because of `kept` */
static inline void hd_pool_give(hd_pool *pool, void *item);

/** Whether item is a live item of this pool. cost: as hd_pool_give. */
HEDDLE_API bool hd_pool_owns(hd_pool *pool, const void *item);

/** Give every span without live items back to the system, whatever minimum and kept say.
 *  returns  bytes given back */
HEDDLE_API size_t hd_pool_flush(hd_pool *pool);

/** Give empty spans back, the highest first, while more than keep_items items are free and more than minimum allocated.
 *  returns  bytes given back */
HEDDLE_API size_t hd_pool_trim(hd_pool *pool, size_t keep_items);

/** Free all items at once; the pool stays usable and keeps memory as `kept` says. cost: O(items allocated / 64). */
HEDDLE_API void hd_pool_reset(hd_pool *pool);

/** Called for each live item. Return false to stop. It may give the item it is called for, and use others. */
typedef bool hd_pool_visitor(void *item, size_t item_bytes, void *user);

/** Visit all live items, in order of address within a stretch of memory. Items taken or given meanwhile may be visited or not.
 *  returns  false when the visitor stopped it */
HEDDLE_API bool hd_pool_walk(hd_pool *pool, hd_pool_visitor *visitor, void *user);

/** Fill *stats, whose struct_bytes the caller has set; fields beyond the library's version stay untouched.
 *  returns  false when stats is NULL or struct_bytes is too small */
HEDDLE_API bool hd_pool_stats_get(hd_pool *pool, hd_pool_stats *stats);

/** The name it was created with, "" for none. */
HEDDLE_API const char *hd_pool_name(const hd_pool *pool);

/* ---- class pools ------------------------------------------------------------------------------------------------ */

/** One line of a table of kinds. */
typedef struct hd_pool_class {
  const char *name; /* copied (31 bytes) */
  size_t item_bytes; /* 0: no pool for this kind */
  size_t kept; /* as in hd_pool_config */
} hd_pool_class;

/** A pool for each kind of object, made from one table. The fields may be read; pools[kind] is NULL where item_bytes is 0. */
typedef struct hd_class_pools {
  size_t count;
  hd_pool **pools;
} hd_class_pools;

/** Create all pools of a table.
 *  common   what holds for all of them beside name, item_bytes and kept; NULL: nothing
 *  count    1..2000
 *  returns  NULL with EINVAL or ENOMEM; then no pool is left over */
HEDDLE_API hd_class_pools *hd_class_pools_create(const hd_pool_class *table, size_t count, const hd_pool_config *common);

/** Destroy all. returns how many items were still live. */
HEDDLE_API size_t hd_class_pools_destroy(hd_class_pools *pools);

/** hd_pool_flush of all. */
HEDDLE_API size_t hd_class_pools_flush(hd_class_pools *pools);

/** Sums over all kinds: used, list, max (sum of the maxima), count, allocated, bytes, touched, growth_count, release_count. The rest
 *  is 0. */
HEDDLE_API bool hd_class_pools_stats_get(hd_class_pools *pools, hd_pool_stats *stats);

/** Print a table, one line a kind and one of sums, into buffer, as snprintf does.
 *  returns  length of the full text */
HEDDLE_API size_t hd_class_pools_text(hd_class_pools *pools, char *buffer, size_t bytes);

/** hd_pool_take and hd_pool_give by kind; kind < count is the caller's duty, as with any array. */
static inline void *hd_class_pools_take(hd_class_pools *pools, size_t kind) { return hd_pool_take(pools->pools[kind]); }
static inline void hd_class_pools_give(hd_class_pools *pools, size_t kind, void *item) { hd_pool_give(pools->pools[kind], item); }

/* ---- behind the inline functions: nothing for programs ---------------------------------------------------------- */

/** The part of a pool that the inline functions work on. Items are numbered within a segment, a contiguous range; 64 of them are a group,
 *  a word of each map. In a shared pool claim and bound are always 0, so that every call takes the long way. */
struct hd_pool {
  uint64_t claim; /* free items of the claimed group that take hands out next */
  uint64_t claim_fresh; /* those of the group that read as zero */
  unsigned char *claim_base; /* the group's first item */
  uint64_t *claim_live; /* the group's word of live bits */
  size_t stride;
  size_t used;
  size_t max;
  size_t item_bytes;
  unsigned char *base; /* of the segment that give serves inline */
  uint64_t inverse; /* of the odd part of stride, modulo 2^64 */
  uint64_t bound; /* items of the segment */
  uint64_t *live; /* a bit an item */
  uint8_t *listed; /* a byte a group: it has free items that are not claimed */
  size_t release_below; /* so few live items may leave more than kept free */
  uint8_t shift; /* log2 of the even part of stride */
};

/** Take where nothing is claimed, or the pool is shared. */
HEDDLE_API void *hd_pool_take_slow(hd_pool *pool, bool zeroed);

/** Give of what the inline function knows nothing about: of a shared pool, another segment, or misuse. */
HEDDLE_API void hd_pool_give_slow(hd_pool *pool, void *item);

/** Item index of the inline segment has become free, and the maps that say where free items are must follow. */
HEDDLE_API void hd_pool_give_settle(hd_pool *pool, uint64_t index);

#define HEDDLE_POOL_RARE(condition) __builtin_expect(!!(condition), 0)

/* The lowest claimed item leaves the claim. The claim is not empty. */
static inline void *hd_pool_take_claimed(hd_pool *pool) {
  uint64_t claim = pool->claim, rest = claim & (claim - 1);
  pool->claim = rest;
  *pool->claim_live |= claim ^ rest;
  size_t used = pool->used + 1;
  pool->used = used;
  if (HEDDLE_POOL_RARE(used > pool->max)) pool->max = used;
  return pool->claim_base + (size_t)__builtin_ctzll(claim) * pool->stride;
}

static inline void *hd_pool_take(hd_pool *pool) {
  return HEDDLE_POOL_RARE(pool->claim == 0) ? hd_pool_take_slow(pool, false) : hd_pool_take_claimed(pool);
}

static inline void *hd_pool_take_zeroed(hd_pool *pool) {
  if (HEDDLE_POOL_RARE(pool->claim == 0)) return hd_pool_take_slow(pool, true);
  bool fresh = (pool->claim & (0 - pool->claim) & pool->claim_fresh) != 0;
  void *item = hd_pool_take_claimed(pool);
  return fresh ? item : memset(item, 0, pool->item_bytes);
}

/* The product with the inverse divides exactly where that is possible and is enormous elsewhere: one comparison finds foreign and
 * interior addresses. A live bit that is not set finds all the rest. */
static inline void hd_pool_give(hd_pool *pool, void *item) {
  uint64_t offset = (uint64_t)((uintptr_t)item - (uintptr_t)pool->base);
  uint64_t index = offset * pool->inverse;
  index = index >> pool->shift | index << (-pool->shift & 63);
  if (HEDDLE_POOL_RARE(index >= pool->bound)) {
    hd_pool_give_slow(pool, item);
    return;
  }
  uint64_t group = index >> 6, *live = &pool->live[group], word = *live;
  uint64_t rest = word ^ (uint64_t)1 << (index & 63); /* more than word if the bit was not set */
  if (HEDDLE_POOL_RARE(rest > word)) {
    hd_pool_give_slow(pool, item);
    return;
  }
  *live = rest;
  size_t used = pool->used - 1;
  pool->used = used;
  if (HEDDLE_POOL_RARE(rest == 0 && live != pool->claim_live) || HEDDLE_POOL_RARE(pool->listed[group] == 0) ||
      HEDDLE_POOL_RARE(used < pool->release_below)) {
    hd_pool_give_settle(pool, index);
  }
}

#ifdef __cplusplus
}
#endif
#endif
