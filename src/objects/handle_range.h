/* The range of memory behind a table of handles: blocks and holes next to each other, under boundary tags.
 *
 * A block is a tag of 16 bytes and what it holds; blocks begin where the payload behind the tag is aligned, and their lengths are multiples
 * of the alignment, at least 32 bytes. A hole is a free block: its tag links it into the bin of its class, and its last 8 bytes repeat its
 * length. No two holes are neighbours, and none is at the top. All places are offsets from the range's start.
 * Threads: one at a time. Above: handle.c, handle_compact.c. Below: core/region.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OBJECTS_HANDLE_RANGE_H
#define HD_OBJECTS_HANDLE_RANGE_H

#include "base/bits.h"
#include "heddle/handle.h"
#include "objects/pool_report.h"

enum { HD_HANDLE_BINS = 160, HD_HANDLE_TAG_BYTES = 16, HD_HANDLE_LEAST_BYTES = 32 };
/* Links are 32 bits of 16 bytes. */
#define HD_HANDLE_RANGE_MOST ((size_t)1 << (sizeof(size_t) == 8 ? 36 : 30))
#define HD_HANDLE_NO_PLACE SIZE_MAX

enum { HD_TAG_FREE = 1, HD_TAG_AFTER_HOLE = 2 };

typedef struct hd_handle_tag {
  uint64_t length;         /* of the whole block, with HD_TAG_* in its low bits */
  union {
    uint32_t slot;         /* live: whose block it is */
    uint32_t next;         /* hole: next of its bin, in 16 bytes + 1; 0: none */
  };
  uint32_t previous;       /* hole: the same backwards */
} hd_handle_tag;

typedef struct hd_handle_range {
  uint8_t *memory;         /* the region */
  size_t alignment, first; /* first: where the first block begins, so that its payload is aligned */
  size_t top;              /* end of the last block; first when there is none */
  size_t cursor;           /* a block's place or top: below it compaction has nothing to do */
  size_t holes, hole_count;
  uint64_t filled[(HD_HANDLE_BINS + 63) / 64];
  uint32_t bin[HD_HANDLE_BINS]; /* places in 16 bytes + 1 */
} hd_handle_range;

static inline hd_handle_tag *hdi_handle_range_tag(const hd_handle_range *range, size_t place) {
  return (hd_handle_tag *)(void *)(range->memory + place);
}
static inline size_t hdi_handle_range_length(const hd_handle_range *range, size_t place) {
  return (size_t)(hdi_handle_range_tag(range, place)->length & ~(uint64_t)(HD_TAG_FREE | HD_TAG_AFTER_HOLE));
}
static inline bool hdi_handle_range_is_hole(const hd_handle_range *range, size_t place) {
  return (hdi_handle_range_tag(range, place)->length & HD_TAG_FREE) != 0;
}

/* Length of a block for bytes; 0 when that is more than any range has. */
size_t hdi_handle_range_round(const hd_handle_range *range, size_t bytes);

/* A place for a block of length: a hole, else the top if it stays within limit. HD_HANDLE_NO_PLACE when there is none. The tag's length is
 * set, the slot is the caller's to set. */
size_t hdi_handle_range_take(hd_handle_range *range, size_t length, size_t limit);

/* The block becomes a hole, or lowers the top. */
void hdi_handle_range_give(hd_handle_range *range, size_t place);

/* Make a live block length long where it stands. false: there is no room behind it. */
bool hdi_handle_range_resize(hd_handle_range *range, size_t place, size_t length, size_t limit);

/* Exchange the hole with the live block behind it. returns the end of the block, which is now where the hole was. */
size_t hdi_handle_range_slide(hd_handle_range *range, size_t hole);

/* Forget all blocks. */
void hdi_handle_range_reset(hd_handle_range *range);

size_t hdi_handle_range_largest_hole(const hd_handle_range *range);

#endif
