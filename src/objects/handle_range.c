/* See handle_range.h.
 * SPDX-License-Identifier: MIT */
#include "objects/handle_range.h"

#include "core/check.h"

enum { FIT_TRIES = 8 };

_Static_assert(sizeof(hd_handle_tag) == HD_HANDLE_TAG_BYTES, "a tag is 16 bytes");

static hd_handle_tag *tag_at(const hd_handle_range *range, size_t place) { return hdi_handle_range_tag(range, place); }
static size_t length_at(const hd_handle_range *range, size_t place) { return hdi_handle_range_length(range, place); }
static uint32_t link_to(size_t place) { return (uint32_t)(place / 16) + 1; }
static size_t linked(uint32_t link) { return ((size_t)link - 1) * 16; }

/* Four bins a doubling: all holes of a higher bin are longer than any of a lower one. */
static size_t bin_of(size_t length) {
  size_t high = hd_highest_bit(length);
  return (high - 4) * 4 + ((length >> (high - 2)) & 3);
}

static void lower_cursor(hd_handle_range *range, size_t place) { range->cursor = hd_min(range->cursor, place); }

/* Tell the block at place, if there is one, whether a hole lies in front of it. */
static void tell_next(hd_handle_range *range, size_t place, bool after_hole) {
  if (place >= range->top) return;
  uint64_t length = tag_at(range, place)->length & ~(uint64_t)HD_TAG_AFTER_HOLE;
  tag_at(range, place)->length = after_hole ? length | HD_TAG_AFTER_HOLE : length;
}

static void add_hole(hd_handle_range *range, size_t place, size_t length) {
  hd_handle_tag *tag = tag_at(range, place);
  size_t bin = bin_of(length);
  HD_ASSERT(place + length < range->top);
  tag->length = length | HD_TAG_FREE;
  tag->next = range->bin[bin];
  tag->previous = 0;
  if (tag->next != 0) tag_at(range, linked(tag->next))->previous = link_to(place);
  range->bin[bin] = link_to(place);
  range->filled[bin >> 6] |= (uint64_t)1 << (bin & 63);
  *(uint64_t *)(void *)(range->memory + place + length - 8) = length;
  range->holes += length;
  range->hole_count++;
  tell_next(range, place + length, true);
  lower_cursor(range, place);
}

static void remove_hole(hd_handle_range *range, size_t place) {
  hd_handle_tag *tag = tag_at(range, place);
  size_t length = length_at(range, place), bin = bin_of(length);
  if (tag->next != 0) tag_at(range, linked(tag->next))->previous = tag->previous;
  if (tag->previous != 0) tag_at(range, linked(tag->previous))->next = tag->next;
  else range->bin[bin] = tag->next;
  if (range->bin[bin] == 0) range->filled[bin >> 6] &= ~((uint64_t)1 << (bin & 63));
  range->holes -= length;
  range->hole_count--;
  tell_next(range, place + length, false);
}

/* [place, place + length) is free and in no bin: a hole, joined with its neighbours, or the end of the range. The block at place, if a hole
 * lies in front of it, still says so. */
static void make_free(hd_handle_range *range, size_t place, size_t length, bool after_hole) {
  if (after_hole) {
    size_t before = (size_t) * (uint64_t *)(void *)(range->memory + place - 8);
    place -= before;
    length += before;
    remove_hole(range, place);
  }
  size_t end = place + length;
  if (end < range->top && hdi_handle_range_is_hole(range, end)) {
    length += length_at(range, end);
    remove_hole(range, end);
  }
  if (place + length == range->top) {
    range->top = place;
    lower_cursor(range, place);
  } else {
    add_hole(range, place, length);
  }
}

size_t hdi_handle_range_round(const hd_handle_range *range, size_t bytes) {
  if (bytes > HD_HANDLE_RANGE_MOST) return 0;
  return hd_max(hd_round_up(bytes + HD_HANDLE_TAG_BYTES, range->alignment), HD_HANDLE_LEAST_BYTES);
}

/* A hole of at least length: a few tries among those of its class, else the first of a higher class; at last, when nothing else would
 * do, all of its class. */
static size_t find_hole(const hd_handle_range *range, size_t length, unsigned tries) {
  size_t bin = bin_of(length);
  for (uint32_t link = range->bin[bin]; link != 0 && tries > 0; link = tag_at(range, linked(link))->next, tries--) {
    if (length_at(range, linked(link)) >= length) return linked(link);
  }
  for (size_t at = bin + 1; at < HD_HANDLE_BINS; at = (at | 63) + 1) {
    uint64_t bits = range->filled[at >> 6] & ~hd_low_mask((unsigned)(at & 63));
    if (bits != 0) return linked(range->bin[(at & ~(size_t)63) + hd_lowest_bit(bits)]);
  }
  return HD_HANDLE_NO_PLACE;
}

/* The block at place, length long with more behind it that belongs to it: cut off what makes a block. */
static void cut(hd_handle_range *range, size_t place, size_t length, size_t whole) {
  hd_handle_tag *tag = tag_at(range, place);
  size_t rest = whole - length;
  if (rest < hd_max(HD_HANDLE_LEAST_BYTES, range->alignment)) length = whole;
  tag->length = length | (tag->length & HD_TAG_AFTER_HOLE);
  if (length < whole) make_free(range, place + length, rest, false);
}

size_t hdi_handle_range_take(hd_handle_range *range, size_t length, size_t limit) {
  size_t place = range->hole_count == 0 ? HD_HANDLE_NO_PLACE : find_hole(range, length, FIT_TRIES);
  bool fits = range->top <= limit && length <= limit - range->top;
  if (place == HD_HANDLE_NO_PLACE && !fits && range->hole_count > 0) place = find_hole(range, length, UINT_MAX);
  if (place != HD_HANDLE_NO_PLACE) {
    size_t whole = length_at(range, place);
    remove_hole(range, place);
    tag_at(range, place)->length = whole; /* no hole lies in front of a hole */
    cut(range, place, length, whole);
    return place;
  }
  if (!fits) return HD_HANDLE_NO_PLACE;
  place = range->top;
  range->top += length;
  if (range->cursor == place) range->cursor = range->top; /* nothing to do below means nothing to do with this one either */
  tag_at(range, place)->length = length;
  return place;
}

void hdi_handle_range_give(hd_handle_range *range, size_t place) {
  make_free(range, place, length_at(range, place), (tag_at(range, place)->length & HD_TAG_AFTER_HOLE) != 0);
}

bool hdi_handle_range_resize(hd_handle_range *range, size_t place, size_t length, size_t limit) {
  size_t whole = length_at(range, place), end = place + whole;
  if (length > whole && end == range->top) {
    if (place > limit || length > limit - place) return false;
    tag_at(range, place)->length += length - whole;
    if (range->cursor == end) range->cursor = place + length;
    range->top = place + length;
    return true;
  }
  if (length > whole) {
    if (!hdi_handle_range_is_hole(range, end) || whole + length_at(range, end) < length) return false;
    whole += length_at(range, end);
    remove_hole(range, end);
  }
  lower_cursor(range, place);
  cut(range, place, length, whole);
  return true;
}

size_t hdi_handle_range_slide(hd_handle_range *range, size_t hole) {
  size_t gap = length_at(range, hole), block = hole + gap;
  remove_hole(range, hole);
  size_t length = length_at(range, block);
  memmove(range->memory + hole, range->memory + block, length);
  make_free(range, hole + length, gap, false);
  return hole + length;
}

void hdi_handle_range_reset(hd_handle_range *range) {
  range->top = range->first;
  range->cursor = range->first;
  range->holes = 0;
  range->hole_count = 0;
  for (size_t i = 0; i < sizeof range->filled / sizeof range->filled[0]; i++) range->filled[i] = 0;
  for (size_t i = 0; i < HD_HANDLE_BINS; i++) range->bin[i] = 0;
}

size_t hdi_handle_range_largest_hole(const hd_handle_range *range) {
  size_t largest = 0;
  for (size_t bin = HD_HANDLE_BINS; bin > 0; bin--) {
    for (uint32_t link = range->bin[bin - 1]; link != 0; link = tag_at(range, linked(link))->next) {
      largest = hd_max(largest, length_at(range, linked(link)));
    }
    if (largest > 0) break;
  }
  return largest;
}
