/* Handles: blocks that may be moved, reached through a handle that stays.
 *
 * A table of handles owns a range of memory. Its blocks are of any size; freed ones leave holes, which later blocks fill, and which
 * compaction closes by sliding blocks down, a bounded number of bytes a call. A handle names its block for life: it carries the slot's
 * generation, so that a handle of a freed block is told from that of the slot's next block. An address got from a handle holds until the
 * next call of hd_handles_compact, hd_handles_resize of that block, or its free; pinned blocks are never moved.
 *
 *   hd_handles_config config = {.struct_bytes = sizeof config, .name = "meshes"};
 *   hd_handles *meshes = hd_handles_create(&config);
 *   hd_handle rock = hd_handles_alloc(meshes, 4000);
 *   mesh *m = hd_handles_get(meshes, rock);
 *   hd_handles_compact(meshes, 64 * 1024);     // once a frame
 *   m = hd_handles_get(meshes, rock);          // may have moved
 *
 * Threads: one at a time. Every success keeps errno.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_HANDLE_H
#define HEDDLE_HANDLE_H

#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_handles hd_handles;

/** Names a block. 0 is never a handle. Tables with handle_bits 32 make handles below 2^32, which may be stored in 32 bits. */
typedef uint64_t hd_handle;

/** The form of a table of handles; zero-initialise, then set what matters. */
typedef struct hd_handles_config {
  size_t struct_bytes;         /* sizeof(hd_handles_config): the caller's version of this struct */
  const char *name;            /* shown in walks, reports and events; copied (31 bytes); NULL for none */
  size_t limit_bytes;          /* range for blocks and their headers of 16 bytes; 0: 1 GiB, or less where addresses are short */
  size_t limit_count;          /* most blocks; 0: one for each 64 bytes of the limit, as far as handles have bits */
  size_t step_bytes;           /* the used range grows, and a growth is told, in steps of this; 0: 64 KiB */
  size_t extra_bytes;          /* slack: bytes beyond limit_bytes, see hd_pool_overflow */
  size_t extra_count;          /* slack: blocks beyond limit_count */
  size_t kept_bytes;           /* memory above the last block that is left resident; 0: none */
  size_t alignment;            /* of all blocks: power of two, 16..64 KiB; 0: 16 */
  unsigned handle_bits;        /* 64 (or 0): 2^32 slots and generations; 32: 2^20 slots and 2^12 generations */
  hd_pool_growth *growth;      /* may be NULL */
  hd_pool_overflow *overflow;  /* may be NULL: no slack, plain ENOMEM. event->what: "bytes" or "handles" */
  void *user;                  /* handed to both */
} hd_handles_config;

/** Counters, exact after every call; bytes unless the name says count. Fields are only ever added at the end. */
typedef struct hd_handles_stats {
  size_t struct_bytes;     /* set by the caller to sizeof(hd_handles_stats) before the call */
  size_t used;             /* asked for by live blocks */
  size_t max;              /* most that was ever used at once */
  size_t count;            /* live blocks */
  size_t count_max;        /* most live blocks at once */
  size_t pinned_count;     /* blocks with a pin on them */
  size_t top;              /* the range from the start to the end of the last block */
  size_t holes;            /* free bytes below top */
  size_t hole_count;       /* runs that they are in */
  size_t largest_hole;     /* the longest of them. cost: O(hole_count) */
  size_t overhead;         /* headers and rounding of live blocks: used + overhead + holes == top */
  unsigned fragmentation;  /* 1000 x holes / top */
  size_t allocated;        /* top rounded up to steps, or what kept_bytes left */
  size_t limit;            /* most that top may be now */
  size_t count_limit;      /* most blocks now */
  size_t step, extra, kept, alignment; /* as in force */
  uint64_t moved_bytes;    /* by compaction, since the start */
  uint64_t moved_count;    /* blocks moved by it */
  uint64_t growth_count;   /* steps taken */
  size_t touched;          /* bytes of memory that the table has made resident */
} hd_handles_stats;

/** What a step of compaction did. */
typedef struct hd_compaction {
  size_t moved_bytes;     /* copied, headers included */
  size_t moved_count;     /* blocks moved */
  size_t released_bytes;  /* given back to the system */
  bool done;              /* nothing is left that could be moved: the holes that remain lie below pinned blocks */
} hd_compaction;

/** Create a table.
 *  returns  the table; NULL with EINVAL for a bad config, ENOMEM when there is no memory
 *  cost     address space for the limits; memory costs only what is touched */
HEDDLE_API hd_handles *hd_handles_create(const hd_handles_config *config);

/** Give everything back. NULL is ignored. returns how many blocks were still live. */
HEDDLE_API size_t hd_handles_destroy(hd_handles *handles);

/** A block of bytes 0..PTRDIFF_MAX, content undefined. Never moves another block.
 *  returns  its handle; 0 with ENOMEM (a limit, no hole that is large enough, no memory)
 *  cost     O(1): a hole of a fitting class, or the end of the range */
HEDDLE_API hd_handle hd_handles_alloc(hd_handles *handles, size_t bytes);

/** The same where handle_bits is 32; else 0 with EINVAL. */
HEDDLE_API uint32_t hd_handles_alloc_32(hd_handles *handles, size_t bytes);

/** The block's address for now; NULL when handle names no live block of this table (0, stale, foreign). cost: 6 instructions or so. */
static inline void *hd_handles_get(const hd_handles *handles, hd_handle handle);

/** Bytes asked for; 0 when handle names no live block. */
static inline size_t hd_handles_bytes(const hd_handles *handles, hd_handle handle);

/** Address of a block that must not move until the matching hd_handles_unpin; pins count, up to 2^32 - 1.
 *  returns  NULL with EINVAL when handle names no live block, with EAGAIN when it has all the pins it can */
HEDDLE_API void *hd_handles_pin(hd_handles *handles, hd_handle handle);

/** Take a pin away. false with EINVAL when handle names no live block, or has no pin. */
HEDDLE_API bool hd_handles_unpin(hd_handles *handles, hd_handle handle);

/** Resize a block, keeping the first min(old, new) bytes and the handle.
 *  returns  false with EINVAL (no live block), EBUSY (pinned, and it can't stay where it is) or ENOMEM; then nothing changes
 *  cost     O(1) in place, else it copies */
HEDDLE_API bool hd_handles_resize(hd_handles *handles, hd_handle handle, size_t bytes);

/** Free a block, pins or not. 0 is ignored.
 *  misuse   a handle of a freed block or of nothing: one line on stderr that names the table (HD-E08), then as the option `onerror` says */
HEDDLE_API void hd_handles_free(hd_handles *handles, hd_handle handle);

/** Slide blocks down into the holes below them, at most max_bytes_moved bytes; a first block that is longer is moved all the same, so
 *  that every call gets on. Blocks passed over count as 16 bytes each. Memory above the last block then goes back, but for kept_bytes.
 *  cost     O(max_bytes_moved) */
HEDDLE_API hd_compaction hd_handles_compact(hd_handles *handles, size_t max_bytes_moved);

/** Give back the whole system pages that lie in holes and above the last block. Moves nothing.
 *  returns  bytes given back
 *  cost     O(hole_count) and a system call for each hole with a page in it */
HEDDLE_API size_t hd_handles_trim(hd_handles *handles);

/** Free all blocks at once, give the memory back but for kept_bytes, close the slack. All handles are stale afterwards.
 *  cost     O(slots ever used) */
HEDDLE_API void hd_handles_reset(hd_handles *handles);

/** Called for each live block. Return false to stop. It must not allocate, resize, compact or free. */
typedef bool hd_handles_visitor(hd_handle handle, void *block, size_t bytes, void *user);

/** Visit all live blocks in order of address. returns false when the visitor stopped it. */
HEDDLE_API bool hd_handles_walk(hd_handles *handles, hd_handles_visitor *visitor, void *user);

/** Fill *stats, whose struct_bytes the caller has set. returns false when stats is NULL or struct_bytes is too small. */
HEDDLE_API bool hd_handles_stats_get(const hd_handles *handles, hd_handles_stats *stats);

/* ---- behind the inline functions: nothing for programs ---------------------------------------------------------- */

typedef struct hd_handle_slot {
  hd_handle self;   /* the live block's handle; of a free slot 0 */
  unsigned char *block;
  size_t bytes;
  uint32_t generation; /* of the slot's present or last block */
  uint32_t pins;       /* of a free slot: the next free one */
} hd_handle_slot;

struct hd_handles {
  hd_handle_slot *slots;
  uint64_t slot_count;  /* slots ever used */
  uint64_t index_mask;  /* the bits of a handle that are its slot */
};

static inline const hd_handle_slot *hd_handles_slot(const hd_handles *handles, hd_handle handle) {
  uint64_t index = handle & handles->index_mask;
  if (HEDDLE_POOL_RARE(index >= handles->slot_count)) return NULL;
  const hd_handle_slot *slot = &handles->slots[index];
  return HEDDLE_POOL_RARE(slot->self != handle) || HEDDLE_POOL_RARE(handle == 0) ? NULL : slot;
}

static inline void *hd_handles_get(const hd_handles *handles, hd_handle handle) {
  const hd_handle_slot *slot = hd_handles_slot(handles, handle);
  return slot == NULL ? NULL : slot->block;
}

static inline size_t hd_handles_bytes(const hd_handles *handles, hd_handle handle) {
  const hd_handle_slot *slot = hd_handles_slot(handles, handle);
  return slot == NULL ? 0 : slot->bytes;
}

#ifdef __cplusplus
}
#endif
#endif
