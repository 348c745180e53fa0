/* Arenas inside: what the files arena*.c know of each other. The public face, with the fast paths, is include/heddle/arena.h.
 *
 * A stack is counted in bytes from its own end: `used` up to the last block, `claimed` up to the fast path's limit, `fresh` up to
 * where memory still reads as zero. So one piece of code serves both directions. Invariants, for each stack:
 *
 *   used <= claimed, and claimed is a multiple of 16 or equal to used
 *   fixed arena: claimed of both stacks together <= room
 *   memory beyond max(fresh, used) reads as zero (fixed: unless the other stack's bounds cover it)
 *   high <= what has been noted: whoever goes back from beyond it passes hdi_arena_room_note first
 *   a point with a serial lies in the same chunk as what was last before it, and without padding; every point that was the last one of
 *   its chunk when the stack went on to the next has none
 *
 * A left block that reaches the end of all room takes less than its size rounded up. From then on sizes do not tell which block is the
 * last one, so as long as such a block is there (cut != 0) none is resized in place, and the slow path sees the stack come back.
 *
 * A closed arena (annotated or shared) has claimed = used and an empty chain of points in its face, so that every fast path misses;
 * its chains hang in `chain`. A shared arena keeps both `used` in one word, and its face says nothing but between enter and leave.
 * Threads: as the public header says; only the word of a shared arena is touched by several at once.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OBJECTS_ARENA_H
#define HD_OBJECTS_ARENA_H

#include "base/atomic.h"
#include "base/bits.h"
#include "heddle/arena.h"

enum {
  HD_ARENA_UNIT = 64 * 1024, /* ranges are multiples of this, and start at one */
  HD_ARENA_NAME_BYTES = 32,
  HD_ARENA_SHARED_STEP = 16, /* what the word of a shared arena counts in */
};

/* A range of memory. A fixed arena has one for both stacks, a growing one a chain for each. */
typedef struct hd_arena_chunk {
  struct hd_arena_chunk *prev; /* the one before it on its stack, or the next spare one */
  uint8_t *region;             /* as core/region.h gave it, guards included */
  uint8_t *from, *to;          /* room for blocks; multiples of a system page */
  size_t fresh[2];             /* of each stack */
  size_t used;                 /* how far its stack had come when it went on to the next chunk */
  size_t before;               /* used bytes in the chunks before it */
  _Atomic size_t looked;       /* so far it has been decided whether huge pages are asked for, */
  atomic_bool huge;            /* and they have been, somewhere */
} hd_arena_chunk;

/* What only the slow paths need of a stack. */
typedef struct hd_arena_more {
  size_t peak;       /* most bytes used, all chunks */
  size_t now, last;  /* fixed: how far the stack came in this period, and in the one before it */
  size_t learnt;     /* memory that was wanted again after it had been given back; at most what the two periods needed */
  size_t hold;       /* what is not given back now */
  uint64_t since;    /* serial at the start of the period, */
  uint64_t since_ms; /* and its time */
  bool purged;       /* something has been given back */
  size_t wish;       /* growing: length of one chunk in place of the several that were used last */
  hd_arena_chunk *spare;
} hd_arena_more;

typedef struct arena {
  hd_arena face;
  hd_arena_point none;      /* ends the chains of points */
  hd_arena_point *chain[2]; /* of a closed arena */
  hd_arena_more more[2];
  hd_arena_chunk *chunk;    /* fixed: the only one */
  _Atomic uint64_t word;    /* shared: used bytes of the stacks in steps, left one in the low half */
  size_t room;              /* fixed: its length */
  size_t cut; /* fixed: how far the left stack came with its first block that was not rounded up, for lack of room; else 0 */
  size_t limit_bytes, chunk_bytes, keep_bytes;
  size_t held_bytes; /* growing: length of all chunks */
  size_t spare_bytes; /* and what of the spare ones has been touched */
  size_t chunk_count, purge_count;
  bool guard, shared, annotated;
  char name[HD_ARENA_NAME_BYTES];
} arena;

static inline bool hdi_arena_is_closed(const arena *a) { return a->shared || a->annotated; }

/* The chain of points of a stack. */
static inline hd_arena_point **hdi_arena_chain(arena *a, int right) {
  return hdi_arena_is_closed(a) ? &a->chain[right] : &a->face.side[right].point;
}

static inline hd_arena_chunk *hdi_arena_chunk(const arena *a, int right) { return a->face.side[right].chunk; }

/* An address as a distance from the stack's end of the chunk, and back. No chunk: 0 and NULL. */
static inline size_t hdi_arena_distance(const hd_arena_chunk *chunk, int right, const uint8_t *address) {
  if (chunk == NULL) return 0;
  return (size_t)(right ? chunk->to - address : address - chunk->from);
}

static inline uint8_t *hdi_arena_address(const hd_arena_chunk *chunk, int right, size_t distance) {
  if (chunk == NULL) return NULL;
  return right ? chunk->to - distance : chunk->from + distance;
}

/* ---- arena_room.c: memory under the stacks ------------------------------------------------------------------------------------- */

/* A chunk with at least `bytes` of room (clean: exactly, a range of which little is used at first). NULL: no memory; errno is anything. */
hd_arena_chunk *hdi_arena_room_open(arena *a, size_t bytes, bool clean);
void hdi_arena_room_close(arena *a, hd_arena_chunk *chunk);

/* Used bytes of the stack, in its last chunk and in all. */
size_t hdi_arena_room_used(const arena *a, int right);
size_t hdi_arena_room_total(const arena *a, int right);

/* Room for a block of bytes on the stack; NULL when there is none; errno is anything. */
uint8_t *hdi_arena_room_place(arena *a, int right, size_t alignment, size_t bytes);

/* Note how far both stacks have come. */
void hdi_arena_room_note(arena *a);

/* Go back on a stack to a place in one of its chunks. */
void hdi_arena_room_back(arena *a, int right, hd_arena_chunk *chunk, uint8_t *at);

/* Empty a stack. reset: the program said so, and no point did. */
void hdi_arena_room_empty(arena *a, int right, bool reset);

/* Empty it, if there is nothing to be noted and nothing to be given back. */
bool hdi_arena_room_empty_plain(arena *a, int right);

/* The stack has gone on from edge to used: ask for huge pages where it is large and has been dense. Any thread, in a shared arena. */
void hdi_arena_room_dense(hd_arena_chunk *chunk, int right, size_t edge, size_t used);

/* Give unused memory back, all but keep_bytes a stack. */
void hdi_arena_room_trim(arena *a, size_t keep_bytes);

/* Clear the part of a block that does not read as zero. */
void hdi_arena_room_clear(const arena *a, int right, uint8_t *p, size_t bytes);

/* Memory that has been used, for statistics. */
size_t hdi_arena_room_committed(const arena *a, const hd_arena_chunk *chunk, int right);

/* The chunk of a stack that holds an address in use, or NULL. */
hd_arena_chunk *hdi_arena_room_find(const arena *a, int right, const uint8_t *p);

/* ---- arena_shared.c: the word of a shared arena ----------------------------------------------------------------------------- */

uint8_t *hdi_arena_shared_place(arena *a, int right, size_t alignment, size_t bytes);
size_t hdi_arena_shared_used(const arena *a, int right);
size_t hdi_arena_shared_remaining(const arena *a);

/* A point on a shared arena, and back to it; both need its threads to stand still. */
hd_arena_point *hdi_arena_shared_mark(arena *a, int right);
bool hdi_arena_shared_release(arena *a, int right, hd_arena_point *point);

/* Between these two a shared arena is a closed one whose face is right. Nothing happens for other arenas. */
void hdi_arena_shared_enter(arena *a);
void hdi_arena_shared_leave(arena *a);

#endif
