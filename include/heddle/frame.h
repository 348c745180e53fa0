/* Frames: arenas for memory that lives for one round of a loop, or for two.
 *
 *   single   hd_frame_begin frees everything of the round before
 *   doubled  hd_frame_begin frees what was laid two rounds ago, so that a round can still read what the one before it made
 *
 * Nothing is freed by itself. A loop whose rounds need about the same memory makes no system calls after its first rounds.
 * Threads: one at a time.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_FRAME_H
#define HEDDLE_FRAME_H

#include "arena.h"

#ifdef __cplusplus
extern "C" {
#endif

/** How frames are made; zero-initialise, then set what matters. */
typedef struct hd_frame_config {
  size_t struct_bytes;    /* sizeof(hd_frame_config): the caller's version of this struct */
  const char *name;       /* shown in reports and walks, copied (31 bytes); NULL for none */
  size_t capacity_bytes;  /* room for one round, as in hd_arena_config; 0: growing */
  size_t limit_bytes;     /* growing: most bytes that a round's chunks may have; 0: no limit */
  size_t keep_bytes;      /* as in hd_arena_config, for each arena */
  bool doubled;           /* memory stays valid for two rounds */
  bool guard;             /* an unreachable system page at both ends of each range */
} hd_frame_config;

/** The arena or arenas of a loop. Only `arena` may be read. */
typedef struct hd_frame {
  hd_arena *arena;  /* of this round, for everything that arena.h offers */
} hd_frame;

/** Create frames; the first round has begun.
 *  config   NULL: single, growing, unnamed
 *  returns  NULL with ENOMEM, or with EINVAL for a bad config */
HEDDLE_API hd_frame *hd_frame_create(const hd_frame_config *config);

/** Give everything back. NULL is ignored. */
HEDDLE_API void hd_frame_destroy(hd_frame *frame);

/** Begin the next round: forget all blocks of the last round (doubled: of the round before the last).
 *  returns  the arena of the new round, the same as frame->arena
 *  cost     O(1), or O(chunks) in growing arenas; system calls only while the need changes, see hd_arena_reset */
HEDDLE_API hd_arena *hd_frame_begin(hd_frame *frame);

/** Lay a block that is valid in this round (doubled: and in the next one). As hd_arena_alloc, as hd_arena_alloc_aligned. */
static inline void *hd_frame_alloc(hd_frame *frame, size_t bytes) { return hd_arena_alloc(frame->arena, bytes); }
static inline void *hd_frame_alloc_aligned(hd_frame *frame, size_t alignment, size_t bytes) {
  return hd_arena_alloc_aligned(frame->arena, alignment, bytes);
}

/** Rounds begun so far, the one that hd_frame_create began included. */
HEDDLE_API uint64_t hd_frame_count(const hd_frame *frame);

/** The most bytes that one round ever needed. */
HEDDLE_API size_t hd_frame_peak(const hd_frame *frame);

#ifdef __cplusplus
}
#endif
#endif
