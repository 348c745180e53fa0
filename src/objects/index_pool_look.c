/* Index pools: walking, counters and the check of everything. See index_pool.h.
 * SPDX-License-Identifier: MIT */
#include "objects/index_pool.h"

/* ---- walking ------------------------------------------------------------------------------------------------------- */

HD_EXPORT uint32_t hd_index_pool_next(const hd_index_pool *pool, uint32_t index) {
  const uint8_t *map = pool->map;
  uint64_t at = (uint64_t)index + 1;
  bool starts = index != 0 && index < pool->end && map[index] != 0 && map[index] < HD_INDEX_DIGIT;
  if (starts) at = (uint64_t)index + hdi_index_map_slots(map, index);
  while (at < pool->end && (map[at] == 0 || map[at] >= HD_INDEX_FREE)) {
    bool known = map[at] > HD_INDEX_FREE && map[at] < HD_INDEX_DIGIT;
    at += known ? hdi_index_map_slots(map, at) : 1;
  }
  return at < pool->end ? (uint32_t)at : HD_INDEX_NONE;
}

HD_EXPORT bool hd_index_pool_walk(hd_index_pool *pool, hd_index_visitor *visitor, void *user) {
  for (uint32_t index = hd_index_pool_next(pool, 0); index != 0; index = hd_index_pool_next(pool, index)) {
    if (!visitor(pool, index, hd_index_pool_slots(pool, index), user)) return false;
  }
  return true;
}

/* ---- counters ------------------------------------------------------------------------------------------------------ */

HD_EXPORT bool hd_index_pool_stats_get(const hd_index_pool *pool, hd_index_stats *stats) {
  const hd_index_body *body = hdi_index_pool_body(pool);
  if (stats == NULL || stats->struct_bytes < sizeof *stats) return false;
  uint64_t free_count = body->large_count;
  for (unsigned size = 1; size <= HD_INDEX_EXACT_SLOTS; size++) free_count += pool->list[size].count;
  *stats = (hd_index_stats){
      .struct_bytes = stats->struct_bytes,
      .name = body->name,
      .ptr = pool->end,
      .top = body->top,
      .size = body->limit,
      .allocated = body->allocated,
      .step = body->step,
      .minimum = body->minimum,
      .maximum = body->maximum,
      .initial = body->initial,
      .slack = body->slack,
      .extra = body->extra,
      .item_bytes = pool->slot_bytes,
      .object_slots = pool->object_slots,
      .used = pool->used,
      .used_high = pool->used_high,
      .free = pool->end - 1 - pool->used,
      .used_count = pool->taken - pool->given,
      .free_count = free_count,
      .large_free = body->large_slots,
      .taken_total = pool->taken,
      .given_total = pool->given,
      .growth_count = body->growth_count,
      .bytes = hdi_index_pool_bytes(body, body->touched),
      .reserved_bytes = body->memory.bytes,
  };
  return true;
}

HD_EXPORT uint64_t hd_index_pool_free_count(const hd_index_pool *pool, uint32_t slots) {
  return slots <= HD_INDEX_EXACT_SLOTS ? pool->list[slots].count : 0;
}

/* ---- the check ----------------------------------------------------------------------------------------------------- */

typedef struct census {
  uint64_t used, used_count, large_count, large_slots;
  uint64_t free[HD_INDEX_EXACT_SLOTS + 1];
} census;

static void count(const hd_index_pool *pool, uint64_t at, uint32_t slots, census *found) {
  if (!hdi_index_map_is_free(pool->map, at)) {
    found->used += slots;
    found->used_count++;
  } else if (slots <= HD_INDEX_EXACT_SLOTS) {
    found->free[slots]++;
  } else {
    found->large_count++;
    found->large_slots += slots;
  }
}

static const char *check_counts(const hd_index_body *body, const census *found) {
  const hd_index_pool *pool = &body->fast;
  if (found->used != pool->used || found->used_count != pool->taken - pool->given) return "the counts of live objects are wrong";
  if (found->large_count != body->large_count || found->large_slots != body->large_slots) return "the count of large free objects is wrong";
  for (unsigned size = 1; size <= HD_INDEX_EXACT_SLOTS; size++) {
    if (found->free[size] != pool->list[size].count) return "the count of a free list is wrong";
  }
  if (pool->used_high < pool->used || body->top < pool->end || body->touched < pool->end) return "a high-water mark is too low";
  if (body->allocated > body->limit || pool->end - 1 > body->allocated) return "more is handed out than allowed";
  return NULL;
}

/* Length of a list whose objects are all free and of sizes from least to most; UINT64_MAX when one is not. */
static uint64_t list_length(const hd_index_pool *pool, uint32_t at, uint32_t least, uint32_t most, uint64_t bound) {
  uint64_t length = 0;
  for (; at != 0; at = hdi_index_link(hdi_index_pool_body(pool), at)) {
    if (length++ >= bound || at >= pool->end || !hdi_index_map_is_free(pool->map, at) || pool->map[at] >= HD_INDEX_DIGIT) return UINT64_MAX;
    uint32_t slots = hdi_index_map_slots(pool->map, at);
    if (slots < least || slots > most) return UINT64_MAX;
  }
  return length;
}

static const char *check_lists(const hd_index_body *body) {
  const hd_index_pool *pool = &body->fast;
  for (unsigned size = 1; size <= HD_INDEX_EXACT_SLOTS; size++) {
    uint64_t length = list_length(pool, pool->list[size].head, size, size, pool->list[size].count);
    if (length == UINT64_MAX || (!body->compacting && length != pool->list[size].count)) return "a free list is broken";
  }
  uint64_t linked = 0;
  for (unsigned bin = 0; bin < HD_INDEX_BINS; bin++) {
    uint64_t length = list_length(pool, body->bin[bin], HD_INDEX_EXACT_SLOTS + 1, UINT32_MAX, body->large_count);
    bool filled = (body->bin_filled[bin / 64] >> bin % 64 & 1) != 0;
    if (length == UINT64_MAX || filled != (body->bin[bin] != 0)) return "a bin of large free objects is broken";
    linked += length;
  }
  return linked == body->large_count || body->compacting ? NULL : "a large free object is in no bin";
}

uint32_t hdi_index_map_checked(const uint8_t *map, uint64_t at, uint64_t end) {
  unsigned state = map[at] & ~HD_INDEX_FREE & 0xffu;
  uint64_t inside = at + 1;
  if (state == 0 || state > HD_INDEX_LARGE || map[at] >= HD_INDEX_DIGIT) return 0;
  if (state == HD_INDEX_LARGE) {
    if (end - at <= HD_INDEX_DIGITS) return 0;
    for (; inside <= at + HD_INDEX_DIGITS; inside++) {
      if (map[inside] < HD_INDEX_DIGIT) return 0;
    }
  }
  uint32_t slots = hdi_index_map_slots(map, at);
  if (slots > end - at || (state == HD_INDEX_LARGE && slots <= HD_INDEX_EXACT_SLOTS)) return 0;
  unsigned any = 0;
  for (; inside < at + slots; inside++) any |= map[inside];
  return any == 0 ? slots : 0;
}

HD_EXPORT const char *hd_index_pool_check(const hd_index_pool *pool) {
  const hd_index_body *body = hdi_index_pool_body(pool);
  census found;
  memset(&found, 0, sizeof found);
  for (uint64_t at = 1; at < pool->end;) {
    uint32_t slots = hdi_index_map_checked(pool->map, at, pool->end);
    if (slots == 0) return "the map of slots is broken";
    count(pool, at, slots, &found);
    at += slots;
  }
  for (uint64_t at = pool->end; at < body->touched; at++) {
    if (pool->map[at] != 0) return "the map of slots is not clear behind the end";
  }
  const char *wrong = check_counts(body, &found);
  return wrong != NULL ? wrong : check_lists(body);
}
