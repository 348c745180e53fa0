/* Index pools: objects of a variable number of slots, addressed by a 32-bit index, in one region of memory.
 *
 * What typesetters, compilers and graph programs keep as "nodes" and "tokens": small objects that point to each other by index.
 * The address space of the maximum is reserved when the pool is made, memory is spent as it is used: growing never copies and
 * never moves an object. An index stays the same when the whole pool is saved to a file and loaded again.
 *
 * Indexes go from 1 to maximum + slack; 0 is no object, and slot 0 of the memory belongs to nobody. Each size up to
 * HD_INDEX_EXACT_SLOTS has a free list of its own; larger sizes and splits come from bins. A byte for each slot, apart from the
 * objects, tells what starts there, so a double give, a give of an inner slot and a give of an index that was never handed out
 * are found at once, and each ends in one line on stderr (see the option `onerror`):
 *
 *     heddle: index pool 'nodes': double give of 1234 (3 slots) [HD-E09]
 *
 * Tokens are the case of one size: set object_slots to 1.
 *
 * Threads: a pool belongs to one thread at a time; different pools are independent. Nothing here is async-signal-safe.
 * Every success keeps errno.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_INDEX_POOL_H
#define HEDDLE_INDEX_POOL_H

#include <string.h>

#include "../heddle.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Sizes with an exact free list, in slots. Larger objects are possible and cost some more. */
#define HD_INDEX_EXACT_SLOTS 110

/** The index of no object. */
#define HD_INDEX_NONE 0u

/** A pool. The fields below serve the inline functions and belong to them alone. */
typedef struct hd_index_pool hd_index_pool;

/* ---- making ----------------------------------------------------------------------------------------------------- */

/** The pool is about to grow from old_slots to new_slots. Return false to refuse: the take that needs it then fails with ENOMEM.
 *  It may read the pool, take and give, but a take that needs to grow further fails. */
typedef bool hd_index_growth(hd_index_pool *pool, uint64_t old_slots, uint64_t new_slots, void *user);

/** The pool has reached its limit. text names the pool and the limit and is valid during the call; slack_slots are granted from
 *  now on, once, so that the program can stop in an orderly way. Called once for an overflow; shrink, compact, reset, limit and
 *  load arm it again when they bring the pool back below its limit. */
typedef void hd_index_overflow(hd_index_pool *pool, const char *text, uint64_t limit_slots, uint64_t slack_slots, void *user);

/** Zero-initialise, then set what matters; maximum and slot_bytes must be set. Counts are in slots. */
typedef struct hd_index_config {
  size_t struct_bytes;         /* sizeof(hd_index_config): the caller's version of this struct */
  const char *name;            /* shown in reports, statistics and files, copied (31 bytes); NULL: "unnamed" */
  uint32_t slot_bytes;         /* size of a slot, a multiple of 4 from 4 to 65536; objects are aligned to its lowest set bit */
  uint32_t object_slots;       /* 0: objects of any size; else the one size of all objects (tokens: 1) */
  uint64_t initial;            /* slots available at the start; 0: minimum */
  uint64_t step;               /* least growth; 0: a quarter of what there is, at least 4096 */
  uint64_t minimum;            /* shrink leaves at least so many */
  uint64_t maximum;            /* the limit, 1..2^32-1; costs address space only */
  uint64_t slack;              /* granted beyond the limit at an overflow; maximum + slack <= 2^32-1 */
  hd_index_growth *growth;     /* called before every growth; may be NULL */
  hd_index_overflow *overflow; /* called at an overflow; NULL: takes just fail with ENOMEM once the slack is used up */
  void *user;                  /* handed to both */
} hd_index_config;

/** Create a pool.
 *  returns  the pool; NULL with EINVAL for a bad config, ENOMEM where the address space is not to be had
 *  cost     O(1), two system calls at most */
HEDDLE_API hd_index_pool *hd_index_pool_create(const hd_index_config *config);

/** Destroy the pool and all objects in it. NULL is ignored. */
HEDDLE_API void hd_index_pool_destroy(hd_index_pool *pool);

/** Forget all objects; the memory stays (see hd_index_pool_shrink). cost: O(slots handed out) bytes cleared. */
HEDDLE_API void hd_index_pool_reset(hd_index_pool *pool);

/** Set the limit in force, between max(minimum, highest slot handed out) and maximum.
 *  returns  false with EINVAL when it lies outside */
HEDDLE_API bool hd_index_pool_limit(hd_index_pool *pool, uint64_t slots);

/* ---- what the inline functions know; internal ------------------------------------------------------------------- */

typedef struct hd_index_list {
  uint32_t head;   /* first free object of the size, 0 if none; the next one's index stands in its first four bytes */
  uint32_t count;  /* free objects of the size */
} hd_index_list;

struct hd_index_pool {
  unsigned char *slots;  /* address of slot 0 */
  unsigned char *map;    /* what starts at each slot */
  uint64_t end;          /* slots from here on were never handed out */
  /* In this order so that no two that change together are neighbours, which some compilers would join into slow vectors. */
  uint64_t taken;         /* objects ever taken */
  uint64_t used_high;     /* the most slots there ever were in live objects */
  uint64_t given;         /* objects ever given back */
  uint64_t slot_inverse;  /* inverse of slot_bytes' odd part, for an exact division */
  uint64_t used;          /* slots in live objects */
  uint32_t slot_bytes;
  uint32_t slot_shift;    /* log2 of slot_bytes' even part */
  uint32_t give_slots;    /* sizes that give may link by itself: 0 while a compaction is under way */
  uint32_t object_slots;
  hd_index_list list[HD_INDEX_EXACT_SLOTS + 1];
};

/* Values of a map byte: 0 nothing starts here; 1..110 a live object of so many slots; 111 a larger one, its length in the next
 * eight bytes as HD_INDEX_DIGIT + 4 bits each, lowest first; all of these + HD_INDEX_FREE: the same, free. */
#define HD_INDEX_LARGE 0x6fu
#define HD_INDEX_FREE 0x80u
#define HD_INDEX_DIGIT 0xf0u

/** What the inline functions leave to the library: a take that finds nothing in the list of its size, a give that is not of a small
 *  live object, the length of a large one. */
HEDDLE_API uint32_t hd_index_pool_take_slow(hd_index_pool *pool, uint32_t slots);
/** See hd_index_pool_take_slow. */
HEDDLE_API void hd_index_pool_give_slow(hd_index_pool *pool, uint32_t index);
/** See hd_index_pool_take_slow. */
HEDDLE_API uint32_t hd_index_pool_large_slots(const hd_index_pool *pool, uint32_t index);

/* ---- objects ---------------------------------------------------------------------------------------------------- */

/** Address of the object (or of any slot) with this index. It stays valid until the object is given or moved by compact, or the
 *  pool is loaded, reset or destroyed. index 1..maximum + slack; not checked. */
static inline void *hd_index_pool_at(const hd_index_pool *pool, uint32_t index) { return pool->slots + (size_t)index * pool->slot_bytes; }

/** Index of the slot that starts at p; 0 when p is not the start of a slot that was handed out in this pool. */
static inline uint32_t hd_index_pool_index(const hd_index_pool *pool, const void *p) {
  uint64_t index = (uint64_t)((uintptr_t)p - (uintptr_t)pool->slots) * pool->slot_inverse;
  if (pool->slot_shift != 0) index = (index >> pool->slot_shift) | (index << (64 - pool->slot_shift));
  return index < pool->end ? (uint32_t)index : HD_INDEX_NONE;
}

/** Slots of the live object that starts at index; 0 when none does: freed, inside an object, never handed out. For any index. */
static inline uint32_t hd_index_pool_slots(const hd_index_pool *pool, uint32_t index) {
  unsigned state = index < pool->end ? pool->map[index] : 0;
  if (state < HD_INDEX_LARGE) return state;
  return state == HD_INDEX_LARGE ? hd_index_pool_large_slots(pool, index) : 0;
}

/** Take an object of so many slots; its content is undefined.
 *  slots    1 or more; in a pool of one size exactly object_slots
 *  returns  its index; 0 with ENOMEM when the limit and the slack are used up or growth was refused, with EINVAL for a bad size
 *  cost     a few ns from the free list of the size; else O(1) amortised. At the limit a take that finds no free object of its
 *           size or larger merges free neighbours first, O(slots) */
static inline uint32_t hd_index_pool_take(hd_index_pool *pool, uint32_t slots) {
  if (slots <= HD_INDEX_EXACT_SLOTS) {
    hd_index_list *list = &pool->list[slots];
    uint32_t index = list->head;
    if (index != 0) {
      uint32_t next;
      memcpy(&next, pool->slots + (size_t)index * pool->slot_bytes, sizeof next);
      /* A link that somebody has written over is found before it is followed. */
      if (next == 0 || (next < pool->end && pool->map[next] == (slots | HD_INDEX_FREE))) {
        list->head = next;
        list->count--;
        pool->map[index] = (unsigned char)slots;
        pool->taken++;
        pool->used += slots;
        if (pool->used > pool->used_high) pool->used_high = pool->used;
        return index;
      }
    }
  }
  return hd_index_pool_take_slow(pool, slots);
}

/** Take an object that reads as zero. */
static inline uint32_t hd_index_pool_take_zeroed(hd_index_pool *pool, uint32_t slots) {
  uint32_t index = hd_index_pool_take(pool, slots);
  if (index != 0) memset(pool->slots + (size_t)index * pool->slot_bytes, 0, (size_t)slots * pool->slot_bytes);
  return index;
}

/** Give an object back. 0 is ignored. Keeps errno.
 *  misuse   what is no start of a live object is reported and, where `onerror` lets the program go on, ignored
 *  cost     a few ns up to HD_INDEX_EXACT_SLOTS slots */
static inline void hd_index_pool_give(hd_index_pool *pool, uint32_t index) {
  unsigned slots = index < pool->end ? pool->map[index] : 0;
  if (slots - 1u < pool->give_slots) {
    hd_index_list *list = &pool->list[slots];
    uint32_t next = list->head;
    memcpy(pool->slots + (size_t)index * pool->slot_bytes, &next, sizeof next);
    list->head = index;
    list->count++;
    pool->map[index] = (unsigned char)(slots | HD_INDEX_FREE);
    pool->given++;
    pool->used -= slots;
    return;
  }
  hd_index_pool_give_slow(pool, index);
}

/* ---- walking ---------------------------------------------------------------------------------------------------- */

/** The first live object after index; index 0 begins. 0 at the end. cost O(slots passed) */
HEDDLE_API uint32_t hd_index_pool_next(const hd_index_pool *pool, uint32_t index);

/** Called for each live object in order of index. It may give the object it is shown. Return false to stop. */
typedef bool hd_index_visitor(hd_index_pool *pool, uint32_t index, uint32_t slots, void *user);

/** Visit all live objects. returns false when the visitor stopped it */
HEDDLE_API bool hd_index_pool_walk(hd_index_pool *pool, hd_index_visitor *visitor, void *user);

/* ---- counters --------------------------------------------------------------------------------------------------- */

/** State of a pool, exact at any time. Counts are in slots unless they say otherwise. Fields are only ever added at the end. */
typedef struct hd_index_stats {
  size_t struct_bytes;      /* set by the caller to sizeof(hd_index_stats) before the call */
  const char *name;         /* valid as long as the pool */
  uint64_t ptr;             /* index of the next slot that was never handed out */
  uint64_t top;             /* highest ptr there ever was */
  uint64_t size;            /* limit in force, slack that was granted included */
  uint64_t allocated;       /* grown to so many */
  uint64_t step, minimum, maximum, initial; /* as configured; initial at least minimum */
  uint64_t slack;           /* as configured */
  uint64_t extra;           /* slack granted so far: 0 or slack */
  uint64_t item_bytes;      /* slot_bytes */
  uint64_t object_slots;    /* the one size, or 0 */
  uint64_t used;            /* in live objects */
  uint64_t used_high;       /* the most there ever were */
  uint64_t free;            /* in free objects: used + free == ptr - 1 */
  uint64_t used_count;      /* live objects */
  uint64_t free_count;      /* free objects of any size */
  uint64_t large_free;      /* the part of free in objects above HD_INDEX_EXACT_SLOTS */
  uint64_t taken_total;     /* objects ever taken */
  uint64_t given_total;     /* objects ever given back */
  uint64_t growth_count;    /* how often it grew */
  uint64_t bytes;           /* memory touched for slots and map, before holes that shrink gave back */
  uint64_t reserved_bytes;  /* address space */
} hd_index_stats;

/** Fill *stats, whose struct_bytes the caller has set.
 *  returns  false when struct_bytes is too small
 *  cost     O(HD_INDEX_EXACT_SLOTS) */
HEDDLE_API bool hd_index_pool_stats_get(const hd_index_pool *pool, hd_index_stats *stats);

/** Free objects of exactly so many slots, 1..HD_INDEX_EXACT_SLOTS; 0 for any other size. */
HEDDLE_API uint64_t hd_index_pool_free_count(const hd_index_pool *pool, uint32_t slots);

/** Check the whole pool: map, lists and counters agree. returns NULL, or a sentence that says what does not. cost O(slots) */
HEDDLE_API const char *hd_index_pool_check(const hd_index_pool *pool);

/* ---- giving memory back ----------------------------------------------------------------------------------------- */

/** Merge free neighbours (not in pools of one size), put the free lists in order of index, and take free slots at the end back
 *  into what was never handed out. Ends a compaction that is under way. cost O(slots) */
HEDDLE_API void hd_index_pool_merge(hd_index_pool *pool);

/** hd_index_pool_merge, then give memory back to the system: behind the last object (but not below minimum), and system pages
 *  inside large free objects.
 *  returns  bytes given back */
HEDDLE_API size_t hd_index_pool_shrink(hd_index_pool *pool);

/** An object has moved: mend what refers to it. It may use hd_index_pool_at on any object and give objects; takes that need to
 *  grow fail. */
typedef void hd_index_moved(hd_index_pool *pool, uint32_t from, uint32_t to, uint32_t slots, void *user);

/** Move live objects down over the gaps, in order, for at most budget slots looked at (0: all; an object is never split, so one
 *  object more may be moved). Between steps the pool may be used as always. Objects that stay put are not told.
 *  returns  true when the pass has reached the end and the gaps are gone; call shrink to give the memory back
 *  cost     O(budget + size of one object); the copies are memmoves */
HEDDLE_API bool hd_index_pool_compact(hd_index_pool *pool, uint64_t budget, hd_index_moved *moved, void *user);

/* ---- saving and loading ----------------------------------------------------------------------------------------- */

/** What came of saving or loading. */
typedef enum hd_index_status {
  HD_INDEX_OK = 0,         /* done */
  HD_INDEX_INVALID = 1,    /* a bad argument, or called from a callback of the pool */
  HD_INDEX_IO = 2,         /* the system refused to open, read, write or rename: errno tells */
  HD_INDEX_FOREIGN = 3,    /* not a file of an index pool */
  HD_INDEX_VERSION = 4,    /* of a version that this library does not read */
  HD_INDEX_ENDIAN = 5,     /* written on a machine of the other byte order */
  HD_INDEX_MISMATCH = 6,   /* slot size or object size differ from the pool's */
  HD_INDEX_TRUNCATED = 7,  /* it ends too early */
  HD_INDEX_DAMAGED = 8,    /* a checksum is wrong, or the content contradicts itself, or the file is too long */
  HD_INDEX_TOO_LARGE = 9,  /* more slots than the pool's limit */
  HD_INDEX_NOMEM = 10      /* no memory to load into */
} hd_index_status;

/** The sentence that belongs to the last save or load of the pool that failed, with its name and the path; "" if none did. Valid
 *  until the next one. */
HEDDLE_API const char *hd_index_pool_error(const hd_index_pool *pool);

/** How to save; NULL or zeroes: as it is. */
typedef struct hd_index_save {
  size_t struct_bytes;      /* sizeof(hd_index_save) */
  bool compact;             /* hd_index_pool_compact the pool wholly before it is written */
  hd_index_moved *moved;    /* told about every object that compact moves; required with compact */
  void *user;               /* handed to it */
} hd_index_save;

/** Save the pool to a file, which is the old one or the whole new one at any moment: it is written beside the path, synced and
 *  renamed. What exists and is not a regular file (a device, a pipe) is written to directly. Objects are written as they lie, so
 *  they should refer to each other by index.
 *  errno    set with HD_INDEX_IO
 *  cost     one pass over the slots handed out */
HEDDLE_API hd_index_status hd_index_pool_save(hd_index_pool *pool, const char *path, const hd_index_save *how);

/** Load a saved pool in place of all objects of this one, whose slot size and object size must be the same; limits, steps and
 *  callbacks stay this pool's. On failure nothing in the pool changes. Pointers into the pool are invalid after a success; the
 *  growth callback is not called. taken_total and given_total go on counting from the loaded objects.
 *  cost     one read into place and one pass to check it */
HEDDLE_API hd_index_status hd_index_pool_load(hd_index_pool *pool, const char *path);

/** The same with an open file descriptor, from and to where it stands; nothing is synced or renamed, nothing read behind the end. */
HEDDLE_API hd_index_status hd_index_pool_save_fd(hd_index_pool *pool, int fd, const hd_index_save *how);
HEDDLE_API hd_index_status hd_index_pool_load_fd(hd_index_pool *pool, int fd);

/** Write or read bytes. false: refused (errno tells). A reader sets *done to what it got, less than bytes only at the end. */
typedef bool hd_index_writer(void *user, const void *data, size_t bytes);
typedef bool hd_index_reader(void *user, void *data, size_t bytes, size_t *done);

/** The same through functions of the caller's. */
HEDDLE_API hd_index_status hd_index_pool_save_to(hd_index_pool *pool, hd_index_writer *writer, void *user, const hd_index_save *how);
HEDDLE_API hd_index_status hd_index_pool_load_from(hd_index_pool *pool, hd_index_reader *reader, void *user);

#ifdef __cplusplus
}
#endif
#endif
