/* Arenas: memory that is handed out by moving a pointer and taken back by moving it again.
 *
 *     | left blocks ->            free            <- right blocks |
 *
 * An arena has two stacks. Blocks of the left one are laid upwards, blocks of the right one downwards, and neither is ever freed by
 * itself: a memory point remembers how far a stack has come, and going back to it frees everything that came later. So there is one
 * end for what stays and one for what is soon gone.
 *
 *   fixed    (capacity_bytes > 0)  one range, reserved whole; memory is used only as far as blocks reach. The stacks grow towards each
 *                                  other and a block fits as long as there is room between them.
 *   growing  (capacity_bytes = 0)  each stack has a chain of chunks of its own; a block that does not fit into the last chunk starts a
 *                                  new one. Blocks never move, and the stacks never meet.
 *
 * A point lies in the stack itself (HD_ARENA_POINT_BYTES). There are two ways to use points, and they mix freely:
 *   nested    hd_arena_push, hd_arena_pop                        the arena remembers which point is the last
 *   by value  hd_arena_mark, hd_arena_release, hd_arena_rewind   the caller says which point; all later ones go with it
 * Either way the stack comes back to exactly where it was, whatever padding an alignment had cost.
 *
 * Alignments: 0 (any) or a power of two; anything else gives NULL (or false) with EINVAL. Functions without one align to 16. A block
 * takes its size rounded up to min(alignment, 16), so blocks of alignment 0 or 1 lie without gaps.
 *
 * Threads: an arena is used by one thread at a time, and takes no lock. A shared arena (config.shared) may be allocated from by any
 * number of threads at once, without locks. What gives memory back (pop, release, rewind, reset, trim, destroy), what takes points and
 * what resizes needs all its threads to stand still. hd_arena_thread() is an arena of the calling thread's own.
 *
 * Errors: every failure is NULL or false with ENOMEM (no room) or EINVAL (a bad argument) and changes nothing. Success keeps errno.
 *
 * Freeing an arena's memory by free() ends in a report (HD-E07). Under AddressSanitizer, and under valgrind where Heddle was built for
 * it, memory that is not part of a block is off limits, so a use after a reset is found.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_ARENA_H
#define HEDDLE_ARENA_H

#include "../heddle.h"

#ifdef __cplusplus
extern "C" {
#endif

/** An arena. Its fields are private; they stand here so that allocation compiles to a handful of instructions. */
typedef struct hd_arena hd_arena;

/** keep_bytes: never give memory back before the arena is destroyed. */
#define HD_ARENA_KEEP_ALL SIZE_MAX

/** What a memory point takes from its stack, besides padding to 16. */
#define HD_ARENA_POINT_BYTES 32

/** How an arena is made; zero-initialise, then set what matters. */
typedef struct hd_arena_config {
  size_t struct_bytes;    /* sizeof(hd_arena_config): the caller's version of this struct */
  const char *name;       /* shown in reports and walks, copied (31 bytes); NULL for none */
  size_t capacity_bytes;  /* room for both stacks together, rounded up to system pages; 0: growing */
  size_t limit_bytes;     /* growing: most bytes that all chunks may have together; 0: no limit */
  size_t chunk_bytes;     /* growing: length of the first chunk, rounded up to 64 KiB; later ones get longer. 0: 64 KiB */
  size_t keep_bytes;      /* unused memory that may stay with the arena; 0: 1 MiB; HD_ARENA_KEEP_ALL. See hd_arena_reset */
  bool guard;             /* an unreachable system page at both ends of each range */
  bool shared;            /* many threads may allocate at once; needs capacity_bytes, at most 64 GiB. Alignments count as 16 at least */
} hd_arena_config;

/** A memory point by value. Opaque; copy it as you like. */
typedef struct hd_mark {
  void *point;      /* NULL: there was no room for it */
  uint64_t serial;  /* which point, and of which side: never used twice in an arena */
} hd_mark;

/* ---- private: the layout that the fast paths below know ----------------------------------------------------------- */

#if defined(__GNUC__) || defined(__clang__)
#define HEDDLE_ARENA_LIKELY(x) __builtin_expect(!!(x), 1)
#define HEDDLE_ARENA_POINT __attribute__((may_alias, aligned(16)))
#else
#define HEDDLE_ARENA_LIKELY(x) (x)
#define HEDDLE_ARENA_POINT
#endif

/* A memory point as it lies in its stack. Most are plain: the stack goes back to where the point itself lies. */
typedef struct hd_arena_point {
  uint64_t serial;              /* bit 0: the side; 0: it is not plain, and only slow paths take it away */
  struct hd_arena_point *prev;  /* the point before it */
  unsigned char *at;            /* not plain: where the stack was before the point, NULL when it was empty */
  uint64_t slow_serial;         /* not plain: the serial */
} HEDDLE_ARENA_POINT hd_arena_point;

/* One stack. Blocks may be laid up to `limit` without asking; limit is a multiple of 16 or equal to at. */
typedef struct hd_arena_side {
  unsigned char *at;      /* end of the last block */
  unsigned char *limit;   /* as far as the fast path may go */
  unsigned char *high;    /* going back from beyond it passes through the slow path, which notes how far the stack had come */
  hd_arena_point *point;  /* the last point; never NULL: an empty chain ends in a point that is none */
  void *chunk;            /* what `at` belongs to */
  uint64_t serial;        /* of the last point */
} hd_arena_side;

struct hd_arena {
  hd_arena_side side[2];  /* left, right */
  size_t least;           /* smallest room between the stacks so far; 0 in growing arenas */
};

/* Every 64th point passes through the slow path when it goes, which looks after memory that is no longer used. */
#define HD_ARENA_UPKEEP_MASK ((uint64_t)0x7e)

/** Where the inlined functions go on when they can't; not for programs. As hd_arena_alloc_aligned, with the side. */
HEDDLE_API void *hd_arena_alloc_slow(hd_arena *arena, int right, size_t alignment, size_t bytes);
/** As hd_arena_mark, with the side and an alignment for the point (errno EINVAL for a bad one). */
HEDDLE_API hd_mark hd_arena_mark_slow(hd_arena *arena, int right, size_t alignment);
/** As hd_arena_pop, with the side. */
HEDDLE_API bool hd_arena_pop_slow(hd_arena *arena, int right);
/** As hd_arena_release, or (keep) as hd_arena_rewind. */
HEDDLE_API bool hd_arena_release_slow(hd_arena *arena, hd_mark mark, bool keep);

/* ---- making ------------------------------------------------------------------------------------------------------- */

/** Create an arena.
 *  config   NULL: growing, unnamed, no limit
 *  returns  the arena; NULL with ENOMEM, or with EINVAL for a bad config
 *  threads  any
 *  cost     one range of 64 KiB units; a fixed arena's memory is used only as blocks reach it */
HEDDLE_API hd_arena *hd_arena_create(const hd_arena_config *config);

/** Give back the arena with all that lies in it. NULL is ignored (true).
 *  returns  true when the arena was empty, false when a block or a point was left in it; it is gone either way
 *  cost     O(chunks) */
HEDDLE_API bool hd_arena_destroy(hd_arena *arena);

/** The calling thread's own arena: growing, unnamed, made at the first call and destroyed when the thread ends, after the destructors of
 *  its C++ thread_local objects. In a child of fork() it goes on as it is.
 *  returns  NULL with ENOMEM when it can't be made
 *  cost     a thread-local load */
HEDDLE_API hd_arena *hd_arena_thread(void);

/* ---- blocks ------------------------------------------------------------------------------------------------------- */

/** Lay a block of bytes on the left stack (or, the _right form, on the right one), aligned to 16.
 *  bytes    any; 0 counts as 1
 *  returns  the block, content undefined; NULL with ENOMEM when there is no room
 *  cost     about 9 instructions, inlined; O(1) beyond, apart from the system's cost of memory never used before */
static inline void *hd_arena_alloc(hd_arena *arena, size_t bytes) {
  hd_arena_side *side = &arena->side[0];
  unsigned char *p = side->at;
  if (HEDDLE_ARENA_LIKELY(bytes - 1 < (size_t)(side->limit - p) && ((uintptr_t)p & 15) == 0)) {
    side->at = p + ((bytes + 15) & ~(size_t)15);
    return p;
  }
  return hd_arena_alloc_slow(arena, 0, 16, bytes);
}

static inline void *hd_arena_alloc_right(hd_arena *arena, size_t bytes) {
  hd_arena_side *side = &arena->side[1];
  unsigned char *end = side->at;
  if (HEDDLE_ARENA_LIKELY(bytes - 1 < (size_t)(end - side->limit) && ((uintptr_t)end & 15) == 0)) {
    end -= (bytes + 15) & ~(size_t)15;
    side->at = end;
    return end;
  }
  return hd_arena_alloc_slow(arena, 1, 16, bytes);
}

/** The same with an alignment: 0 (any) or a power of two.
 *  errno    EINVAL for any other alignment, ENOMEM
 *  cost     about 6 instructions more; fewer when the alignment is a constant */
static inline void *hd_arena_alloc_aligned(hd_arena *arena, size_t alignment, size_t bytes) {
  hd_arena_side *side = &arena->side[0];
  size_t mask = alignment - (alignment != 0);
  size_t room = (size_t)(side->limit - side->at);
  size_t padding = (0 - (uintptr_t)side->at) & mask;
  if (HEDDLE_ARENA_LIKELY((alignment & mask) == 0 && bytes - 1 < room && padding <= room - bytes)) {
    unsigned char *p = side->at + padding;
    side->at = p + ((bytes + (mask & 15)) & ~(mask & 15));
    return p;
  }
  return hd_arena_alloc_slow(arena, 0, alignment, bytes);
}

static inline void *hd_arena_alloc_aligned_right(hd_arena *arena, size_t alignment, size_t bytes) {
  hd_arena_side *side = &arena->side[1];
  size_t mask = alignment - (alignment != 0);
  size_t room = (size_t)(side->at - side->limit);
  size_t padding = ((uintptr_t)side->at - bytes) & mask;
  if (HEDDLE_ARENA_LIKELY((alignment & mask) == 0 && bytes - 1 < room && padding <= room - bytes)) {
    side->at -= bytes + padding;
    return side->at;
  }
  return hd_arena_alloc_slow(arena, 1, alignment, bytes);
}

/** The same, reading as zero. Memory that has not been used since it came from the system is not cleared again.
 *  cost     a call, and O(bytes) where the memory has been used before */
HEDDLE_API HEDDLE_SIZE(2) void *hd_arena_zalloc(hd_arena *arena, size_t bytes);
HEDDLE_API HEDDLE_SIZE(2) void *hd_arena_zalloc_right(hd_arena *arena, size_t bytes);
HEDDLE_API HEDDLE_SIZE(3) void *hd_arena_zalloc_aligned(hd_arena *arena, size_t alignment, size_t bytes);
HEDDLE_API HEDDLE_SIZE(3) void *hd_arena_zalloc_aligned_right(hd_arena *arena, size_t alignment, size_t bytes);

/** Resize a block of the left stack (right: _right), keeping the first min(old_bytes, bytes) bytes and, in the aligned forms, the
 *  alignment it was laid with.
 *  p          the block, or NULL: lay a new one
 *  old_bytes  the size it was asked for; arenas do not remember it
 *  bytes      new size; 0 counts as 1
 *  returns    the block; NULL with ENOMEM, and p stays as it is
 *  cost       the last block of the left stack is resized where it lies, in O(1); the last one of the right stack changes its start, so
 *             its content moves; a smaller size never moves any other block, and a larger one copies it and leaves the old one behind.
 *             A block before a memory point is not the last; nor is any left one while there is one that reached the very end of a fixed
 *             arena's room and found its size rounded up too much. In shared arenas every growth copies. */
HEDDLE_API HEDDLE_SIZE(4) void *hd_arena_realloc(hd_arena *arena, void *p, size_t old_bytes, size_t bytes);
HEDDLE_API HEDDLE_SIZE(4) void *hd_arena_realloc_right(hd_arena *arena, void *p, size_t old_bytes, size_t bytes);
HEDDLE_API HEDDLE_SIZE(5) void *hd_arena_realloc_aligned(hd_arena *arena, size_t alignment, void *p, size_t old_bytes, size_t bytes);
HEDDLE_API HEDDLE_SIZE(5) void *hd_arena_realloc_aligned_right(hd_arena *arena, size_t alignment, void *p, size_t old_bytes, size_t bytes);

/* ---- memory points ------------------------------------------------------------------------------------------------ */

/* Both ways: a point on the stack `right`, and back to the last one or to a named one. */
static inline hd_mark hd_arena_mark_on(hd_arena *arena, int right) {
  hd_arena_side *side = &arena->side[right];
  unsigned char *at = side->at;
  size_t room = right ? (size_t)(at - side->limit) : (size_t)(side->limit - at);
  if (HEDDLE_ARENA_LIKELY(room >= sizeof(hd_arena_point) && ((uintptr_t)at & 15) == 0)) {
    hd_arena_point *point = (hd_arena_point *)(void *)(right ? at - sizeof(hd_arena_point) : at);
    hd_mark mark = {point, side->serial + 2};
    point->prev = side->point;
    point->serial = mark.serial;
    side->serial = mark.serial;
    side->point = point;
    side->at = right ? (unsigned char *)point : at + sizeof(hd_arena_point);
    return mark;
  }
  return hd_arena_mark_slow(arena, right, 16);
}

/* Whether the last point of its stack can go without a note of anything. */
static inline bool hd_arena_is_plain(const hd_arena *arena, int right, uint64_t serial) {
  const hd_arena_side *side = &arena->side[right];
  bool low = right ? side->at >= side->high : side->at <= side->high;
  bool roomy = (size_t)((uintptr_t)arena->side[1].at - (uintptr_t)arena->side[0].at) >= arena->least;
  return low && roomy && (serial & HD_ARENA_UPKEEP_MASK) != 0;
}

static inline void hd_arena_leave_point(hd_arena_side *side, int right, hd_arena_point *point) {
  side->at = (unsigned char *)(right ? point + 1 : point);
  side->point = point->prev;
}

static inline bool hd_arena_pop_on(hd_arena *arena, int right) {
  hd_arena_side *side = &arena->side[right];
  hd_arena_point *point = side->point;
  if (!HEDDLE_ARENA_LIKELY(hd_arena_is_plain(arena, right, point->serial))) return hd_arena_pop_slow(arena, right);
  hd_arena_leave_point(side, right, point);
  return true;
}

static inline bool hd_arena_release_on(hd_arena *arena, int right, hd_mark mark) {
  hd_arena_side *side = &arena->side[right];
  hd_arena_point *point = side->point;
  if (!HEDDLE_ARENA_LIKELY(point->serial == mark.serial && hd_arena_is_plain(arena, right, mark.serial))) {
    return hd_arena_release_slow(arena, mark, false);
  }
  hd_arena_leave_point(side, right, point);
  return true;
}

/** Put a memory point on the left (right) stack.
 *  returns  false with ENOMEM when there is no room for it
 *  cost     about 16 instructions, inlined; a few ns in a shared arena, a call */
static inline bool hd_arena_push(hd_arena *arena) { return hd_arena_mark_on(arena, 0).point != NULL; }
static inline bool hd_arena_push_right(hd_arena *arena) { return hd_arena_mark_on(arena, 1).point != NULL; }

/** Take the last point away, and everything that was laid after it: the stack is where it was before the point. Without a point the
 *  stack is emptied.
 *  returns  whether there was a point
 *  cost     about 10 instructions, inlined; more where memory goes back to the system, see hd_arena_reset */
static inline bool hd_arena_pop(hd_arena *arena) { return hd_arena_pop_on(arena, 0); }
static inline bool hd_arena_pop_right(hd_arena *arena) { return hd_arena_pop_on(arena, 1); }

/** Put a memory point on the left (right) stack and name it.
 *  returns  the point; its field `point` is NULL, with ENOMEM, when there is no room for it
 *  cost     as hd_arena_push */
static inline hd_mark hd_arena_mark(hd_arena *arena) { return hd_arena_mark_on(arena, 0); }
static inline hd_mark hd_arena_mark_right(hd_arena *arena) { return hd_arena_mark_on(arena, 1); }

/** Take a point away, of either stack, and everything that was laid after it, points too.
 *  returns  false with EINVAL when the arena has no such point: already gone, of another arena, or never made. Nothing changes then.
 *  cost     as hd_arena_pop for the last point; O(points above it) for an earlier one */
static inline bool hd_arena_release(hd_arena *arena, hd_mark mark) {
  return (mark.serial & 1) == 0 ? hd_arena_release_on(arena, 0, mark) : hd_arena_release_on(arena, 1, mark);
}

/** Go back to just after a point: as hd_arena_release, but the point stays, for the next round of a loop. */
static inline bool hd_arena_rewind(hd_arena *arena, hd_mark mark) { return hd_arena_release_slow(arena, mark, true); }

/** Take everything away that lies on one stack, or on both, points too.
 *
 *  What of the memory beyond keep_bytes goes back, and when:
 *  - Fixed, after a reset: all at once, whole system pages (whole huge pages of an arena that has become so large that it uses them).
 *    What is wanted again after that is learnt and kept.
 *  - Fixed, after points: what has not been wanted for two periods. A period is 1,024 points (a reset counts as 64), and a tenth of a
 *    second at least. What has been learnt is forgotten in the same way.
 *  - Growing: whole chunks, into the free memory of the heap. The chunk at the bottom of a stack stays. A stack that has gone through
 *    several chunks takes a single one of that length the next time.
 *  So a loop that does the same each time makes no system calls after its second round. An arena that nobody uses gives nothing back:
 *  see hd_arena_trim.
 *  cost     O(1), about 20 instructions while no memory goes back; O(chunks) in growing arenas */
HEDDLE_API void hd_arena_reset_left(hd_arena *arena);
HEDDLE_API void hd_arena_reset_right(hd_arena *arena);
HEDDLE_API void hd_arena_reset(hd_arena *arena);

/** Give unused memory back now, all but keep_bytes of it. */
HEDDLE_API void hd_arena_trim(hd_arena *arena, size_t keep_bytes);

/* ---- looking ------------------------------------------------------------------------------------------------------ */

/** The state of an arena, in bytes. Fields are only ever added at the end. */
typedef struct hd_arena_stats {
  size_t struct_bytes;   /* set by the caller to sizeof(hd_arena_stats) before the call */
  size_t capacity;       /* fixed: the whole room; growing: all chunks together */
  size_t used_left;      /* blocks, points and padding on the left stack */
  size_t used_right;     /* and on the right one */
  size_t remaining;      /* fixed: room between the stacks; growing: what may still be asked of the system within limit_bytes */
  size_t least;          /* fixed: the smallest `remaining` there ever was; growing: 0 */
  size_t peak_left;      /* the most that used_left ever was */
  size_t peak_right;     /* the most that used_right ever was */
  size_t peak;           /* the most that both were together; in a growing arena peak_left + peak_right */
  size_t committed;      /* memory that has been used and not given back */
  size_t chunk_count;    /* ranges of memory it has, kept ones included */
  size_t purge_count;    /* how often memory was given back to the system */
} hd_arena_stats;

/** Fill *stats, whose struct_bytes the caller has set; fields beyond the library's version stay untouched. All figures are exact at any
 *  time (of a shared arena: as long as no other thread allocates).
 *  returns  false with EINVAL when stats is NULL or struct_bytes is too small
 *  cost     O(chunks) */
HEDDLE_API bool hd_arena_stats_get(const hd_arena *arena, hd_arena_stats *stats);

/** Room between the stacks of a fixed arena; in a growing one what limit_bytes still allows. cost O(1) */
HEDDLE_API size_t hd_arena_remaining(const hd_arena *arena);

/** Whether p lies in a block, a point or padding of the arena. cost O(chunks) */
HEDDLE_API bool hd_arena_owns(const hd_arena *arena, const void *p);

#ifdef __cplusplus
}
#endif
#endif
