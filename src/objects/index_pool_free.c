/* Index pools: free objects in lists and bins, and how these are made anew from the map. See index_pool.h.
 * SPDX-License-Identifier: MIT */
#include "objects/index_pool.h"

enum {
  FIRST_LARGE_LOG = 6,    /* 111 slots and more */
  FIT_TRIES = 32,         /* objects looked at in a bin */
  LISTS = HD_INDEX_EXACT_SLOTS + 1 + HD_INDEX_BINS
};

/* Eight bins for each doubling. */
unsigned hdi_index_pool_bin(uint32_t slots) {
  unsigned log = (unsigned)hd_highest_bit(slots);
  return (log - FIRST_LARGE_LOG) * 8 + (slots >> (log - 3) & 7u);
}

/* ---- marks and counts ---------------------------------------------------------------------------------------------- */

void hdi_index_pool_mark_free(hd_index_body *body, uint64_t at, uint32_t slots) {
  hdi_index_map_mark(body->fast.map, at, slots, HD_INDEX_FREE);
  if (slots <= HD_INDEX_EXACT_SLOTS) {
    body->fast.list[slots].count++;
    return;
  }
  body->large_count++;
  body->large_slots += slots;
}

static void uncount(hd_index_body *body, uint32_t slots) {
  if (slots <= HD_INDEX_EXACT_SLOTS) {
    body->fast.list[slots].count--;
    return;
  }
  body->large_count--;
  body->large_slots -= slots;
}

void hdi_index_pool_swallow(hd_index_body *body, uint64_t at) {
  uncount(body, hdi_index_map_slots(body->fast.map, at));
  hdi_index_map_clear(body->fast.map, at);
}

/* ---- linking ------------------------------------------------------------------------------------------------------- */

/* A number for each list and bin, and its head. */
static unsigned list_of(uint32_t slots) {
  return slots <= HD_INDEX_EXACT_SLOTS ? slots : HD_INDEX_EXACT_SLOTS + 1 + hdi_index_pool_bin(slots);
}

static uint32_t *head_of(hd_index_body *body, unsigned list) {
  return list <= HD_INDEX_EXACT_SLOTS ? &body->fast.list[list].head : &body->bin[list - HD_INDEX_EXACT_SLOTS - 1];
}

static void note_filled(hd_index_body *body, unsigned list) {
  if (list <= HD_INDEX_EXACT_SLOTS) return;
  unsigned bin = list - HD_INDEX_EXACT_SLOTS - 1;
  body->bin_filled[bin / 64] |= (uint64_t)1 << bin % 64;
}

void hdi_index_pool_put_free(hd_index_body *body, uint64_t at, uint32_t slots) {
  unsigned list = list_of(slots);
  uint32_t *head = head_of(body, list);
  hdi_index_pool_mark_free(body, at, slots);
  hdi_index_set_link(body, at, *head);
  *head = (uint32_t)at;
  note_filled(body, list);
}

/* ---- taking -------------------------------------------------------------------------------------------------------- */

/* Whether index may be the next of a list: nothing, or a free object of the list. */
static bool link_is_good(const hd_index_body *body, uint32_t index, unsigned list) {
  if (index == 0) return true;
  if (index >= body->fast.end || !hdi_index_map_is_free(body->fast.map, index) || body->fast.map[index] >= HD_INDEX_DIGIT) return false;
  return list_of(hdi_index_map_slots(body->fast.map, index)) == list;
}

/* Somebody wrote to the free object at index, over its link: the rest of its list hangs on it. All lists are made anew. */
static SLOW void mend(hd_index_body *body, uint32_t index) {
  hdi_index_pool_report(body, "write after give to", index, "");
  if (body->busy || body->compacting) {
    hdi_index_pool_forget_links(body); /* what hangs loose waits for the next merge */
    body->given_merged = UINT64_MAX;
    return;
  }
  hdi_index_pool_rebuild(body);
}

/* Make the free object at index, already unlinked, a live one of slots; what is left over stays free. */
static uint32_t cut(hd_index_body *body, uint32_t index, uint32_t slots) {
  uint32_t have = hdi_index_map_slots(body->fast.map, index);
  hdi_index_pool_swallow(body, index);
  hdi_index_map_mark(body->fast.map, index, slots, 0);
  if (have > slots) hdi_index_pool_put_free(body, (uint64_t)index + slots, have - slots);
  return index;
}

static uint32_t take_first(hd_index_body *body, unsigned list, uint32_t slots, bool *again) {
  uint32_t *head = head_of(body, list);
  uint32_t next = hdi_index_link(body, *head);
  if (HD_UNLIKELY(!link_is_good(body, next, list))) {
    mend(body, *head);
    *again = true;
    return 0;
  }
  uint32_t index = *head;
  *head = next;
  return cut(body, index, slots);
}

/* The best fitting object among the first `steps` of a bin, at least slots long. */
static uint32_t take_best(hd_index_body *body, unsigned bin, uint32_t slots, uint64_t steps, bool *again) {
  unsigned list = bin + HD_INDEX_EXACT_SLOTS + 1;
  uint32_t best = 0, before_best = 0, before = 0, best_slots = UINT32_MAX;
  for (uint32_t at = body->bin[bin]; at != 0 && steps > 0; steps--) {
    uint32_t have = hdi_index_map_slots(body->fast.map, at);
    uint32_t next = hdi_index_link(body, at);
    if (HD_UNLIKELY(!link_is_good(body, next, list))) {
      mend(body, at);
      *again = true;
      return 0;
    }
    if (have >= slots && (best == 0 || have < best_slots)) best = at, before_best = before, best_slots = have;
    if (best_slots == slots) break;
    before = at;
    at = next;
  }
  if (best == 0) return 0;
  uint32_t next = hdi_index_link(body, best);
  if (before_best == 0) body->bin[bin] = next;
  else hdi_index_set_link(body, before_best, next);
  if (body->bin[bin] == 0) body->bin_filled[bin / 64] &= ~((uint64_t)1 << bin % 64);
  return cut(body, best, slots);
}

static uint32_t take_large(hd_index_body *body, uint32_t slots, bool thorough, bool *again) {
  uint64_t steps = thorough ? body->large_count : FIT_TRIES; /* never for ever: an overwritten link may make a ring */
  unsigned first = slots <= HD_INDEX_EXACT_SLOTS ? 0 : hdi_index_pool_bin(slots);
  for (unsigned word = first / 64; word < sizeof body->bin_filled / sizeof body->bin_filled[0]; word++) {
    uint64_t filled = body->bin_filled[word];
    if (word == first / 64) filled &= ~hd_low_mask(first % 64);
    for (; filled != 0; filled &= filled - 1) {
      uint32_t index = take_best(body, word * 64 + (unsigned)hd_lowest_bit(filled), slots, steps, again);
      if (index != 0 || *again) return index;
    }
  }
  return 0;
}

uint32_t hdi_index_pool_take_free(hd_index_body *body, uint32_t slots, bool thorough, bool *again) {
  if (body->fast.object_slots != 0) {
    unsigned list = list_of(slots);
    if (list > HD_INDEX_EXACT_SLOTS) return take_large(body, slots, thorough, again);
    return body->fast.list[list].head != 0 ? take_first(body, list, slots, again) : 0;
  }
  for (uint32_t size = slots; size <= HD_INDEX_EXACT_SLOTS; size++) {
    if (body->fast.list[size].head != 0) return take_first(body, size, slots, again);
  }
  return take_large(body, slots, thorough, again);
}

/* ---- making anew --------------------------------------------------------------------------------------------------- */

void hdi_index_pool_forget_links(hd_index_body *body) {
  for (unsigned size = 0; size <= HD_INDEX_EXACT_SLOTS; size++) body->fast.list[size].head = 0;
  memset(body->bin, 0, sizeof body->bin);
  memset(body->bin_filled, 0, sizeof body->bin_filled);
}

void hdi_index_pool_forget_free(hd_index_body *body) {
  hdi_index_pool_forget_links(body);
  for (unsigned size = 0; size <= HD_INDEX_EXACT_SLOTS; size++) body->fast.list[size].count = 0;
  body->large_count = 0;
  body->large_slots = 0;
}

/* Put a free object at the end of its list, so that low indexes are used first. */
static void append(hd_index_body *body, uint32_t *tails, uint64_t at, uint32_t slots) {
  unsigned list = list_of(slots);
  hdi_index_pool_mark_free(body, at, slots);
  hdi_index_set_link(body, at, 0);
  if (tails[list] != 0) hdi_index_set_link(body, tails[list], (uint32_t)at);
  else *head_of(body, list) = (uint32_t)at;
  tails[list] = (uint32_t)at;
  note_filled(body, list);
}

/* A run of free objects begins at start. Returns where it ends. */
static uint64_t take_in_run(hd_index_body *body, uint32_t *tails, uint64_t start) {
  uint8_t *map = body->fast.map;
  uint64_t at = start;
  while (at < body->fast.end && hdi_index_map_is_free(map, at)) at += hdi_index_map_slots(map, at);
  HD_ASSERT(at <= body->fast.end);
  if (at >= body->fast.end) {
    memset(map + start, 0, (size_t)(body->fast.end - start));
    body->fast.end = start;
    return at;
  }
  for (uint64_t one = start; one < at;) {
    uint32_t slots = hdi_index_map_slots(map, one);
    hdi_index_map_clear(map, one);
    one += slots;
  }
  uint32_t piece = body->fast.object_slots != 0 ? body->fast.object_slots : (uint32_t)(at - start);
  for (uint64_t one = start; one < at; one += piece) append(body, tails, one, piece);
  return at;
}

void hdi_index_pool_rebuild(hd_index_body *body) {
  uint32_t tails[LISTS] = {0};
  HD_ASSERT(!body->busy);
  hdi_index_pool_forget_free(body);
  for (uint64_t at = 1; at < body->fast.end;) {
    if (hdi_index_map_is_free(body->fast.map, at)) at = take_in_run(body, tails, at);
    else at += hdi_index_map_slots(body->fast.map, at);
  }
  body->given_merged = body->fast.given;
  body->fast.give_slots = HD_INDEX_EXACT_SLOTS;
  body->compacting = false;
}
