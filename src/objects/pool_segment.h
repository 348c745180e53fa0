/* Segments: the contiguous stretches of memory that a pool's items lie in, and the maps that know about them.
 *
 * A segment is one region: items first, then this struct and its maps. The region is clean and zero means "nothing here", so a segment
 * of any length costs only what its items in use cost. An item is
 *   absent    no memory is counted for it, never handed out: present 0
 *   free      present 1, live 0; in the claim (pool.c), or its group's ready bit is set
 *   live      present 1, live 1
 * dirty 0 says that a free item reads as zero; of claimed and live items it is 1.
 *
 * A span is the stretch in which memory goes back: a power of two, 64 KiB or more, not less than an item; an item belongs to the span
 * that it starts in. A span with an empty bit has present items and no live or claimed one; others may be as empty, until a survey.
 *
 * Threads: under the pool's lock where it has one. Who writes: pool_segment.c, but for live bits, which the inline functions of
 * heddle/pool.h change. Above: pool.c. Below: core/region.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OBJECTS_POOL_SEGMENT_H
#define HD_OBJECTS_POOL_SEGMENT_H

#include "base/bits.h"

enum { HD_POOL_LEVELS = 7 }; /* 64^7 groups are more than there are addresses */

/* What all segments of a pool have in common. */
typedef struct hd_pool_shape {
  const char *name;
  size_t stride, alignment;
  uint64_t inverse;       /* of the odd part of stride */
  uint8_t shift;          /* log2 of the even part */
  uint8_t span_shift;
  bool short_spans;       /* a group may be longer than a span: give does not see all of those that fall empty */
} hd_pool_shape;

typedef struct hd_pool_segment {
  uint8_t *region, *base;
  size_t maps_offset;     /* of this struct in the region */
  size_t bound;           /* items there is room for */
  size_t top;             /* items from here on have never been present */
  size_t present_count;
  size_t group_hint;      /* no item of the groups below is absent */
  size_t empty_count;     /* empty bits set */
  size_t empty_hint;      /* words of empty bits from here on are 0 */
  unsigned level_count;
  uint64_t *live, *present, *dirty;
  uint64_t *ready[HD_POOL_LEVELS]; /* a bit a group; then a bit for each word that is not 0 */
  uint8_t *listed;        /* a byte a group, as the lowest level of ready */
  uint64_t *empty;
} hd_pool_segment;

/* A segment with room for `items`; for fewer, but at least `least`, where addresses are short. NULL without errno. */
hd_pool_segment *hdi_pool_segment_create(const hd_pool_shape *shape, size_t items, size_t least);
void hdi_pool_segment_destroy(hd_pool_segment *segment, const hd_pool_shape *shape);

/* The item's index, or a number >= bound for addresses that are no item's. */
FAST uint64_t hdi_pool_segment_index(const hd_pool_segment *segment, const hd_pool_shape *shape, const void *item) {
  return hd_rotate_right((uint64_t)((uintptr_t)item - (uintptr_t)segment->base) * shape->inverse, shape->shift);
}

FAST bool hdi_pool_segment_is_live(const hd_pool_segment *segment, uint64_t index) {
  return (segment->live[index >> 6] >> (index & 63) & 1) != 0;
}

/* What is claimed in a segment: bits of one group, 0 for nothing. */
typedef struct hd_pool_claim {
  size_t group;
  uint64_t bits;
} hd_pool_claim;

/* A group with free items that are not claimed. false: there is none. */
bool hdi_pool_segment_ready(const hd_pool_segment *segment, size_t *group);

/* Say whether the group has such items, claimed being its claimed bits. */
void hdi_pool_segment_list(hd_pool_segment *segment, size_t group, uint64_t claimed);

/* Take all free items of a ready group into a claim; *fresh: those that read as zero. */
uint64_t hdi_pool_segment_claim(hd_pool_segment *segment, const hd_pool_shape *shape, size_t group, uint64_t *fresh);

/* Put back what is left of a claim. */
void hdi_pool_segment_unclaim(hd_pool_segment *segment, const hd_pool_shape *shape, size_t group, uint64_t claim, uint64_t fresh);

/* A live item has become free, its bit is down already: list its group, and find out whether its span is empty. */
void hdi_pool_segment_settle(hd_pool_segment *segment, const hd_pool_shape *shape, uint64_t index, hd_pool_claim claim);

/* Find out which spans of a group are empty, or which of all. Nothing is claimed. */
void hdi_pool_segment_survey_group(hd_pool_segment *segment, const hd_pool_shape *shape, size_t group);
void hdi_pool_segment_survey(hd_pool_segment *segment, const hd_pool_shape *shape);

/* Make up to count absent items present, the lowest first. returns how many. */
size_t hdi_pool_segment_grow(hd_pool_segment *segment, const hd_pool_shape *shape, size_t count);

/* Make up to count free items absent, the highest first; their memory stays. Nothing is claimed. returns how many. */
size_t hdi_pool_segment_retire(hd_pool_segment *segment, const hd_pool_shape *shape, size_t count);

/* Give empty spans back, the highest first, while more than keep items are free in the pool and at least floor stay so.
 * *free_items goes down by the items that become absent, *spans up by the spans. returns bytes given back to the system. */
size_t hdi_pool_segment_release(hd_pool_segment *segment, const hd_pool_shape *shape, hd_pool_claim claim, size_t keep, size_t floor,
                                size_t *free_items, uint64_t *spans);

/* Free all items. Nothing is claimed. */
void hdi_pool_segment_reset(hd_pool_segment *segment, const hd_pool_shape *shape);

/* Bytes that may be resident; noted for statistics. */
size_t hdi_pool_segment_touched(hd_pool_segment *segment, const hd_pool_shape *shape);

#endif
