/* See pool_segment.h.
 * SPDX-License-Identifier: MIT */
#include "objects/pool_segment.h"

#include <string.h>

#include "core/check.h"
#include "core/region.h"
#include "os/os.h"

enum { HEAD_BYTES = 256, MAPS_PURGE_BYTES = 256 * 1024 };
_Static_assert(sizeof(hd_pool_segment) <= HEAD_BYTES, "the struct's place in front of the maps");

static size_t words_for(size_t bits) { return (bits + 63) >> 6; }

/* ---- spans ------------------------------------------------------------------------------------------------------- */

static size_t span_of(const hd_pool_shape *shape, size_t item) { return (item * shape->stride) >> shape->span_shift; }

/* The first item that starts in span or behind it. */
static size_t span_start(const hd_pool_segment *segment, const hd_pool_shape *shape, size_t span) {
  return hd_min(segment->bound, ((span << shape->span_shift) + shape->stride - 1) / shape->stride);
}

/* Those of a group's bits that lie in the same span as the lowest of them. */
static uint64_t same_span(const hd_pool_segment *segment, const hd_pool_shape *shape, size_t group, uint64_t bits, size_t *span) {
  *span = span_of(shape, group * 64 + hd_lowest_bit(bits));
  return bits & hd_low_mask((unsigned)hd_min(64, span_start(segment, shape, *span + 1) - group * 64));
}

static void mark_empty(hd_pool_segment *segment, size_t span) {
  uint64_t bit = (uint64_t)1 << (span & 63);
  if (segment->empty[span >> 6] & bit) return;
  segment->empty[span >> 6] |= bit;
  segment->empty_count++;
  segment->empty_hint = hd_max(segment->empty_hint, (span >> 6) + 1);
}

static void unmark_empty(hd_pool_segment *segment, size_t span) {
  uint64_t bit = (uint64_t)1 << (span & 63);
  if ((segment->empty[span >> 6] & bit) == 0) return;
  segment->empty[span >> 6] &= ~bit;
  segment->empty_count--;
}

/* The bits of group that stand for items [first, end). */
static uint64_t part_of(size_t group, size_t first, size_t end) {
  uint64_t mask = hd_low_mask((unsigned)hd_min(64, end - group * 64));
  return first > group * 64 ? mask & ~hd_low_mask((unsigned)(first - group * 64)) : mask;
}

static bool has_live(const hd_pool_segment *segment, const hd_pool_shape *shape, size_t span, hd_pool_claim claim) {
  size_t first = span_start(segment, shape, span), end = span_start(segment, shape, span + 1);
  for (size_t group = first >> 6; group * 64 < end; group++) {
    uint64_t taken = segment->live[group] | (group == claim.group ? claim.bits : 0);
    if (taken & part_of(group, first, end)) return true;
  }
  return false;
}

/* Mark those of the spans that a group's bits lie in that are empty. The bits stand for present items. */
static void look_at_spans(hd_pool_segment *segment, const hd_pool_shape *shape, size_t group, uint64_t bits, hd_pool_claim claim) {
  while (bits != 0) {
    size_t span;
    bits &= ~same_span(segment, shape, group, bits, &span);
    if (!has_live(segment, shape, span, claim)) mark_empty(segment, span);
  }
}

/* The highest empty span below limit. */
static bool highest_empty(hd_pool_segment *segment, size_t limit, size_t *span) {
  while (segment->empty_hint > 0 && segment->empty[segment->empty_hint - 1] == 0) segment->empty_hint--;
  for (size_t word = hd_min(segment->empty_hint, words_for(limit)); word > 0; word--) {
    uint64_t bits = segment->empty[word - 1];
    if (word * 64 > limit) bits &= hd_low_mask((unsigned)(limit - (word - 1) * 64));
    if (bits == 0) continue;
    *span = (word - 1) * 64 + hd_highest_bit(bits);
    return true;
  }
  return false;
}

/* ---- groups that have free items ---------------------------------------------------------------------------------- */

bool hdi_pool_segment_ready(const hd_pool_segment *segment, size_t *group) {
  size_t at = 0;
  for (unsigned level = segment->level_count; level > 0; level--) {
    uint64_t word = segment->ready[level - 1][at];
    if (word == 0) return false;
    at = at * 64 + hd_lowest_bit(word);
  }
  *group = at;
  return true;
}

void hdi_pool_segment_list(hd_pool_segment *segment, size_t group, uint64_t claimed) {
  bool ready = (segment->present[group] & ~segment->live[group] & ~claimed) != 0;
  segment->listed[group] = ready;
  for (unsigned level = 0; level < segment->level_count; level++) {
    uint64_t *word = &segment->ready[level][group >> 6], bit = (uint64_t)1 << (group & 63), old = *word;
    *word = ready ? old | bit : old & ~bit;
    if (ready ? old != 0 : *word != 0) return;
    group >>= 6;
  }
}

/* ---- claims ------------------------------------------------------------------------------------------------------- */

uint64_t hdi_pool_segment_claim(hd_pool_segment *segment, const hd_pool_shape *shape, size_t group, uint64_t *fresh) {
  uint64_t claim = segment->present[group] & ~segment->live[group];
  HD_ASSERT(claim != 0);
  *fresh = claim & ~segment->dirty[group];
  segment->dirty[group] |= claim;
  for (uint64_t rest = claim; rest != 0;) {
    size_t span;
    uint64_t bits = same_span(segment, shape, group, rest, &span);
    unmark_empty(segment, span);
    rest &= ~bits;
  }
  hdi_pool_segment_list(segment, group, claim);
  return claim;
}

void hdi_pool_segment_unclaim(hd_pool_segment *segment, const hd_pool_shape *shape, size_t group, uint64_t claim, uint64_t fresh) {
  segment->dirty[group] &= ~(claim & fresh);
  hdi_pool_segment_list(segment, group, 0);
  look_at_spans(segment, shape, group, claim, (hd_pool_claim){0, 0});
}

void hdi_pool_segment_settle(hd_pool_segment *segment, const hd_pool_shape *shape, uint64_t index, hd_pool_claim claim) {
  size_t group = (size_t)index >> 6;
  hdi_pool_segment_list(segment, group, group == claim.group ? claim.bits : 0);
  if (segment->live[group] == 0) look_at_spans(segment, shape, group, segment->present[group], claim);
  else if (shape->short_spans) look_at_spans(segment, shape, group, (uint64_t)1 << (index & 63), claim);
}

void hdi_pool_segment_survey_group(hd_pool_segment *segment, const hd_pool_shape *shape, size_t group) {
  look_at_spans(segment, shape, group, segment->present[group], (hd_pool_claim){0, 0});
}

void hdi_pool_segment_survey(hd_pool_segment *segment, const hd_pool_shape *shape) {
  for (size_t group = 0; group < words_for(segment->top); group++) {
    uint64_t free_bits = segment->present[group] & ~segment->live[group];
    if (free_bits != 0) look_at_spans(segment, shape, group, free_bits, (hd_pool_claim){0, 0});
  }
}

/* ---- growing and shrinking ---------------------------------------------------------------------------------------- */

size_t hdi_pool_segment_grow(hd_pool_segment *segment, const hd_pool_shape *shape, size_t count) {
  size_t got = 0, group = segment->group_hint;
  for (; got < count && group < words_for(segment->bound); group++) {
    size_t room = segment->bound - group * 64;
    uint64_t absent = ~segment->present[group] & hd_low_mask((unsigned)hd_min(64, room));
    uint64_t added = 0;
    for (; absent != 0 && got < count; got++) {
      added |= absent & -absent;
      absent &= absent - 1;
    }
    if (added == 0) continue;
    segment->present[group] |= added;
    segment->top = hd_max(segment->top, group * 64 + hd_highest_bit(added) + 1);
    hdi_pool_segment_list(segment, group, 0);
    look_at_spans(segment, shape, group, added, (hd_pool_claim){0, 0});
    if (absent != 0) break;
  }
  segment->group_hint = group;
  segment->present_count += got;
  return got;
}

/* Items [first, end) become absent; all that are present are free. returns how many were. */
static size_t make_absent(hd_pool_segment *segment, size_t first, size_t end, hd_pool_claim claim) {
  size_t count = 0;
  for (size_t group = first >> 6; group * 64 < end; group++) {
    uint64_t mask = part_of(group, first, end);
    HD_ASSERT((segment->live[group] & mask) == 0);
    count += hd_bit_count(segment->present[group] & mask);
    segment->present[group] &= ~mask;
    hdi_pool_segment_list(segment, group, claim.group == group ? claim.bits : 0);
  }
  segment->present_count -= count;
  segment->group_hint = hd_min(segment->group_hint, first >> 6);
  return count;
}

static size_t present_in(const hd_pool_segment *segment, size_t first, size_t end) {
  size_t count = 0;
  for (size_t group = first >> 6; group * 64 < end; group++) {
    uint64_t mask = part_of(group, first, end);
    count += hd_bit_count(segment->present[group] & mask);
  }
  return count;
}

/* Give the memory of absent items [first, end) back, with the system pages they share with absent neighbours. */
static size_t purge_items(hd_pool_segment *segment, const hd_pool_shape *shape, size_t first, size_t end) {
  size_t page = hdi_os.page_bytes, stride = shape->stride;
  size_t base = (size_t)(segment->base - segment->region);
  size_t from = first * stride, to = end * stride, start = 0;
  size_t low = hd_round_down(from, page) / stride; /* the first item that reaches into from's page; base is a multiple of pages */
  if (low < first && present_in(segment, low, first) == 0) from = hd_round_down(from, page);
  size_t high = hd_min(segment->bound, (hd_round_up(to, page) + stride - 1) / stride);
  if (high > end && present_in(segment, end, high) == 0) to = hd_min(hd_round_up(to, page), segment->bound * stride);
  size_t purged = hdi_region_purge(segment->region, base + from, to - from, &start);
  if (purged == 0) return 0;
  size_t clean = hd_max(first, (start - base + stride - 1) / stride), clean_end = hd_min(end, (start - base + purged) / stride);
  for (; clean < clean_end; clean++) {
    if ((clean & 63) == 0 && clean + 64 <= clean_end) {
      segment->dirty[clean >> 6] = 0;
      clean += 63;
    } else {
      segment->dirty[clean >> 6] &= ~((uint64_t)1 << (clean & 63));
    }
  }
  return purged;
}

size_t hdi_pool_segment_release(hd_pool_segment *segment, const hd_pool_shape *shape, hd_pool_claim claim, size_t keep, size_t floor,
                                size_t *free_items, uint64_t *spans) {
  size_t purged = 0, first = 0, end = 0; /* [first, end): a run of items that have become absent and are still resident */
  size_t span = segment->empty_hint * 64;
  while (*free_items > keep && highest_empty(segment, span, &span)) {
    size_t from = span_start(segment, shape, span), to = span_start(segment, shape, span + 1);
    size_t count = present_in(segment, from, to);
    if (count > *free_items - hd_min(*free_items, floor)) break;
    if (to != first) {
      if (end > first) purged += purge_items(segment, shape, first, end);
      end = to;
    }
    first = from;
    make_absent(segment, from, to, claim);
    unmark_empty(segment, span);
    *free_items -= count;
    ++*spans;
  }
  if (end > first) purged += purge_items(segment, shape, first, end);
  return purged;
}

size_t hdi_pool_segment_retire(hd_pool_segment *segment, const hd_pool_shape *shape, size_t count) {
  size_t got = 0;
  for (size_t group = words_for(segment->top); group > 0 && got < count; group--) {
    uint64_t free_bits = segment->present[group - 1] & ~segment->live[group - 1];
    for (; free_bits != 0 && got < count; got++) {
      size_t item = (group - 1) * 64 + hd_highest_bit(free_bits), span = span_of(shape, item);
      free_bits &= ~((uint64_t)1 << (item & 63));
      make_absent(segment, item, item + 1, (hd_pool_claim){0, 0});
      if (present_in(segment, span_start(segment, shape, span), span_start(segment, shape, span + 1)) == 0) unmark_empty(segment, span);
    }
  }
  return got;
}

void hdi_pool_segment_reset(hd_pool_segment *segment, const hd_pool_shape *shape) {
  for (size_t group = 0; group < words_for(segment->top); group++) segment->live[group] = 0;
  for (size_t group = 0; group < words_for(segment->top); group++) hdi_pool_segment_list(segment, group, 0);
  hdi_pool_segment_survey(segment, shape);
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

static size_t maps_bytes(const hd_pool_shape *shape, size_t items) {
  size_t groups = words_for(items), spans = span_of(shape, items) + 1;
  size_t bytes = HEAD_BYTES + 3 * groups * 8 + hd_round_up(groups, 8) + words_for(spans) * 8;
  for (size_t words = words_for(groups);; words = words_for(words)) {
    bytes += words * 8;
    if (words <= 1) return bytes;
  }
}

static void *carve(uint8_t **at, size_t bytes) {
  void *map = *at;
  *at += hd_round_up(bytes, 8);
  return map;
}

static void lay_out(hd_pool_segment *segment, const hd_pool_shape *shape) {
  uint8_t *at = (uint8_t *)segment + HEAD_BYTES;
  size_t groups = words_for(segment->bound), spans = span_of(shape, segment->bound) + 1;
  segment->live = carve(&at, groups * 8);
  segment->present = carve(&at, groups * 8);
  segment->dirty = carve(&at, groups * 8);
  segment->listed = carve(&at, groups);
  segment->empty = carve(&at, words_for(spans) * 8);
  for (size_t words = words_for(groups);; words = words_for(words)) {
    segment->ready[segment->level_count++] = carve(&at, words * 8);
    if (words <= 1) break;
  }
  HD_ASSERT(at == (uint8_t *)segment + maps_bytes(shape, segment->bound));
}

/* Bytes of a region for so many items; 0 when that is more than there can be. *maps: offset of the maps. */
static size_t region_bytes(const hd_pool_shape *shape, size_t items, size_t *maps) {
  size_t bytes = 0;
  if (!hd_multiply(items, shape->stride, &bytes) || bytes > PTRDIFF_MAX / 4) return 0;
  if (shape->alignment > 64 * HD_KIB) bytes += shape->alignment;
  *maps = hd_round_up(bytes, hdi_os.page_bytes);
  return *maps + maps_bytes(shape, items);
}

hd_pool_segment *hdi_pool_segment_create(const hd_pool_shape *shape, size_t items, size_t least) {
  size_t maps = 0;
  uint8_t *region = NULL;
  for (;; items = hd_max(items / 2, least)) {
    size_t bytes = region_bytes(shape, items, &maps);
    region = bytes == 0 ? NULL : hdi_region_reserve(HD_AREA_POOL, shape->name[0] == 0 ? NULL : shape->name, bytes);
    if (region != NULL) break;
    if (items <= least) return NULL;
  }
  hd_pool_segment *segment = (hd_pool_segment *)(void *)(region + maps);
  segment->region = region;
  segment->base = (uint8_t *)hd_round_up((uintptr_t)region, hd_max(shape->alignment, 1));
  segment->maps_offset = maps;
  segment->bound = items;
  lay_out(segment, shape);
  return segment;
}

void hdi_pool_segment_destroy(hd_pool_segment *segment, const hd_pool_shape *shape) {
  uint8_t *region = segment->region;
  size_t bytes = hdi_region_bytes(region), maps = segment->maps_offset, start = 0;
  size_t touched = (size_t)(segment->base - region) + segment->top * shape->stride;
  /* The tail of the items is clean; long maps, touched here and there, are made so. */
  bool cleared = bytes - maps > MAPS_PURGE_BYTES && hdi_region_purge(region, maps, bytes - maps, &start) == bytes - maps;
  hdi_region_give(region, touched, cleared ? bytes : maps);
}

size_t hdi_pool_segment_touched(hd_pool_segment *segment, const hd_pool_shape *shape) {
  size_t touched = segment->present_count * shape->stride + maps_bytes(shape, segment->top);
  hdi_region_note(segment->region, touched);
  return touched;
}
