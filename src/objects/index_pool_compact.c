/* Index pools: merging, moving objects down, giving memory back. See index_pool.h.
 *
 * A compaction goes through the pool with two indexes. What lies below `dest` stands where it stays; [dest, cursor) is one gap; from
 * the cursor on nothing has been looked at. Free lists hold only what has been given below dest since it began, so that takes and
 * gives go on between the steps without any free object having to leave the middle of a list.
 * SPDX-License-Identifier: MIT */
#include "core/region.h"
#include "objects/index_pool.h"
#include "os/os.h"

enum { HOLE_PAGES = 16 };

HD_EXPORT void hd_index_pool_merge(hd_index_pool *pool) {
  hd_index_body *body = hdi_index_pool_body(pool);
  if (body->busy) return;
  hdi_index_pool_rebuild(body);
  hdi_index_pool_rearm(body);
}

/* ---- compaction ---------------------------------------------------------------------------------------------------- */

static void begin(hd_index_body *body) {
  hdi_index_pool_forget_links(body);
  body->fast.give_slots = 0;
  body->cursor = body->dest = 1;
  body->compacting = true;
}

static void finish(hd_index_body *body) {
  body->fast.end = body->dest;
  body->fast.give_slots = HD_INDEX_EXACT_SLOTS;
  body->compacting = false;
  if (body->given_merged == UINT64_MAX) hdi_index_pool_rebuild(body); /* a list was found broken on the way */
  hdi_index_pool_rearm(body);
}

/* Move the live object at the cursor down to dest. Both have passed it when the program is told. */
static void move_down(hd_index_body *body, uint32_t slots, hd_index_moved *moved, void *user) {
  hd_index_pool *pool = &body->fast;
  uint64_t from = body->cursor, to = body->dest;
  body->cursor += slots;
  body->dest += slots;
  if (from == to) return;
  hdi_index_map_clear(pool->map, from);
  hdi_index_map_mark(pool->map, to, slots, 0);
  memmove(pool->slots + to * pool->slot_bytes, pool->slots + from * pool->slot_bytes, (size_t)slots * pool->slot_bytes);
  body->busy = true;
  moved(pool, (uint32_t)from, (uint32_t)to, slots, user);
  body->busy = false;
}

static void step(hd_index_body *body, uint64_t budget, hd_index_moved *moved, void *user) {
  if (body->cursor > body->dest) hdi_index_pool_swallow(body, body->dest);
  while (body->cursor < body->fast.end && budget > 0) {
    uint32_t slots = hdi_index_map_slots(body->fast.map, body->cursor);
    budget -= slots < budget ? slots : budget;
    if (hdi_index_map_is_free(body->fast.map, body->cursor)) {
      hdi_index_pool_swallow(body, body->cursor);
      body->cursor += slots;
    } else {
      move_down(body, slots, moved, user);
    }
  }
  uint64_t gap = body->cursor - body->dest;
  if (body->cursor >= body->fast.end) finish(body);
  else if (gap > 0) hdi_index_pool_mark_free(body, body->dest, (uint32_t)gap);
}

HD_EXPORT bool hd_index_pool_compact(hd_index_pool *pool, uint64_t budget, hd_index_moved *moved, void *user) {
  hd_index_body *body = hdi_index_pool_body(pool);
  if (body->busy || moved == NULL) return false;
  if (!body->compacting) begin(body);
  step(body, budget != 0 ? budget : UINT64_MAX, moved, user);
  return !body->compacting;
}

/* ---- giving memory back -------------------------------------------------------------------------------------------- */

/* Purge [from, to) of the region, to rounded up to a system page: what follows is untouched. *refused: the system would not. */
static size_t purge_to(hd_index_body *body, size_t from, size_t to, bool *refused) {
  size_t start = 0;
  size_t page = hdi_os.page_bytes;
  to = hd_round_up(to, page);
  if (to <= hd_round_up(from, page)) return 0;
  size_t purged = hdi_region_purge(body->memory.region, from, to - from, &start);
  if (purged == 0) *refused = true;
  return purged;
}

static size_t give_back_tail(hd_index_body *body) {
  uint64_t keep = body->fast.end - 1 > body->minimum ? body->fast.end - 1 : body->minimum;
  bool refused = false;
  if (keep < body->allocated) body->allocated = keep;
  uint64_t from = body->allocated + 1;
  if (from >= body->touched) return 0;
  size_t bytes = purge_to(body, (size_t)from * body->fast.slot_bytes, (size_t)body->touched * body->fast.slot_bytes, &refused);
  size_t map = body->memory.map_offset;
  bytes += purge_to(body, map + (size_t)from, map + (size_t)body->touched, &refused);
  if (!refused) body->touched = from;
  hdi_index_pool_note(body);
  return bytes;
}

/* Whole system pages inside large free objects, behind their links, and inside their part of the map, which is all 0 there. */
static size_t give_back_holes(hd_index_body *body) {
  void *region = body->memory.region;
  size_t slot_bytes = body->fast.slot_bytes, least = HOLE_PAGES * hdi_os.page_bytes, bytes = 0, start = 0;
  for (unsigned bin = 0; bin < HD_INDEX_BINS; bin++) {
    for (uint32_t at = body->bin[bin]; at != 0; at = hdi_index_link(body, at)) {
      size_t slots = hdi_index_map_slots(body->fast.map, at);
      size_t from = at * slot_bytes + sizeof(uint32_t), marks = body->memory.map_offset + at + 1 + HD_INDEX_DIGITS;
      if (slots * slot_bytes < least) continue;
      bytes += hdi_region_purge(region, from, slots * slot_bytes - sizeof(uint32_t), &start);
      if (slots > least) bytes += hdi_region_purge(region, marks, slots - 1 - HD_INDEX_DIGITS, &start);
    }
  }
  return bytes;
}

HD_EXPORT size_t hd_index_pool_shrink(hd_index_pool *pool) {
  hd_index_body *body = hdi_index_pool_body(pool);
  if (body->busy) return 0;
  hdi_index_pool_rebuild(body);
  hdi_index_pool_rearm(body);
  return give_back_tail(body) + give_back_holes(body);
}
