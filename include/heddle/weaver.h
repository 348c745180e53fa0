/* The five functions of the Weaver memory manager, on Heddle's arenas.
 *
 * Both published spellings: with an underscore in front, and without. An arena has a fixed size and two stacks (right false: left);
 * any thread may call anything on any arena at any time, except to destroy it under others. In a child of fork() an arena may be used
 * unless another thread was inside a call on it. New programs use arena.h, which is faster and says more; an arena made here is not one
 * of hd_arena's.
 *
 * What differs from the published code, each with a test: the whole size asked for is the program's; a point or a trash restores the
 * stack exactly; a block that fits exactly fits; sizes that wrap around are refused; an alignment must be 0 or a power of two; a size
 * that the system can't give is NULL. Failures set errno to ENOMEM or EINVAL.
 *
 * Under both spellings these are inline functions; link with Heddle.
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_WEAVER_H
#define HEDDLE_WEAVER_H

#include "../heddle.h"

#ifdef __cplusplus
extern "C" {
#endif

/** Create an arena of bytes bytes, rounded up to system pages; memory is used as blocks reach it. A memory point takes 32 bytes.
 *  bytes    0 counts as 1
 *  returns  NULL with ENOMEM */
HEDDLE_API void *hd_weaver_create(size_t bytes);

/** Destroy an arena. NULL is ignored (true).
 *  returns  true when it was empty; false when a block or a point was left. It is gone either way. */
HEDDLE_API bool hd_weaver_destroy(void *arena);

/** Lay a block.
 *  alignment  0 (any) or a power of two, else NULL with EINVAL
 *  right      0: left stack, else the right one
 *  bytes      0 counts as 1
 *  returns    NULL with ENOMEM when it does not fit
 *  cost       an uncontended lock of one atomic operation, and the allocation */
HEDDLE_API void *hd_weaver_alloc(void *arena, unsigned alignment, int right, size_t bytes);

/** Put a memory point on a stack.
 *  alignment  of the point: as for a block; a smaller one than 16 counts as 16
 *  returns    false with ENOMEM when there is no room, with EINVAL for a bad alignment */
HEDDLE_API bool hd_weaver_point(void *arena, unsigned alignment, int right);

/** Bring a stack back to its last point and take that point away; without a point, empty the stack. */
HEDDLE_API void hd_weaver_trash(void *arena, int right);

/** Room between the stacks, and the smallest it ever was. */
HEDDLE_API size_t hd_weaver_remaining(void *arena, size_t *least);

static inline void *_Wcreate_arena(size_t bytes) { return hd_weaver_create(bytes); }
static inline bool _Wdestroy_arena(void *arena) { return hd_weaver_destroy(arena); }
static inline void *_Walloc(void *arena, unsigned alignment, int right, size_t bytes) {
  return hd_weaver_alloc(arena, alignment, right, bytes);
}
static inline bool _Wmempoint(void *arena, unsigned alignment, int right) { return hd_weaver_point(arena, alignment, right); }
static inline void _Wtrash(void *arena, int right) { hd_weaver_trash(arena, right); }

static inline void *Wcreate_arena(size_t bytes) { return hd_weaver_create(bytes); }
static inline bool Wdestroy_arena(void *arena) { return hd_weaver_destroy(arena); }
static inline void *Walloc(void *arena, unsigned alignment, int right, size_t bytes) {
  return hd_weaver_alloc(arena, alignment, right, bytes);
}
static inline bool Wmempoint(void *arena, unsigned alignment, int right) { return hd_weaver_point(arena, alignment, right); }
static inline void Wtrash(void *arena, int right) { hd_weaver_trash(arena, right); }

#ifdef __cplusplus
}
#endif
#endif
