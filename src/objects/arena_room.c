/* Memory under an arena's stacks: chunks, how much of them the fast paths may use, and what goes back to the system.
 *
 * A chunk of a growing arena goes back whole; the space under it keeps it resident for a while, so taking it again is cheap. A fixed
 * arena purges parts of its range, which costs system calls and page faults, so it learns: what was given back and then wanted again is
 * kept for as long as the last two periods needed it. A period takes PERIOD points and PERIOD_MS, and the clock is read at its end only.
 * An arena that has touched no more than it may keep is calm, and has none of this to do.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "core/check.h"
#include "core/region.h"
#include "core/store.h"
#include "objects/annotate.h"
#include "objects/arena.h"
#include "os/os.h"

enum {
  PERIOD = 1024,           /* points; a reset counts as RESET_POINTS */
  PERIOD_MS = 100,
  RESET_POINTS = 64,
  FIRST_STEP = 64 * 1024,  /* a claim goes so far beyond a block, or an eighth of what is used */
  PURGE_LEAST = 64 * 1024, /* less is not worth a system call */
  SMALL = 256 * 1024,      /* a fixed range up to this may be resident memory of earlier owners */
};

#define LONGEST_STEP (32 * HD_MIB) /* of the chunks of a growing arena, where no block needs more */
#define LOOK HD_MIB                /* a stack is dense when most of its last so many bytes have been touched */
#define LARGE_LEAST (4 * HD_MIB)   /* a block from here on is taken for dense unseen, as the heap does */
#define DENSE_LEAST (2 * HD_MIB)   /* a dense stack that comes so far goes on in huge pages, in steps that double, */
#define DENSE_STEP (8 * HD_MIB)    /* from half of that on in chunks of this length at least: the huge page on a border is in neither */

static bool is_fixed(const arena *a) { return a->chunk != NULL; }

/* ---- chunks -------------------------------------------------------------------------------------------------------------- */

static size_t guard_bytes(const arena *a) { return a->guard ? HD_ARENA_UNIT : 0; }

static bool set_guards(const hd_arena_chunk *chunk, size_t region_bytes) {
  size_t end = (size_t)(chunk->to - chunk->region);
  return hdi_region_guard(chunk->region, 0, HD_ARENA_UNIT, true) && hdi_region_guard(chunk->region, end, region_bytes - end, true);
}

static void give_region(const arena *a, uint8_t *region, size_t clean_from, size_t clean_to) {
  if (a->guard) hdi_region_give_guarded(region, clean_from, clean_to);
  else hdi_region_give(region, clean_from, clean_to);
}

/* The region for a chunk. A range that is longer than SMALL and stays mostly unused is better clean than resident. */
static uint8_t *take_region(arena *a, size_t bytes, bool clean, bool *zeroed) {
  const char *name = a->name[0] != 0 ? a->name : NULL;
  if (!clean || bytes <= SMALL) return hdi_region_take(HD_AREA_ARENA, name, bytes, zeroed);
  *zeroed = true;
  return hdi_region_reserve(HD_AREA_ARENA, name, bytes);
}

hd_arena_chunk *hdi_arena_room_open(arena *a, size_t bytes, bool clean) {
  size_t guards = 2 * guard_bytes(a);
  bool zeroed = false;
  if (bytes > PTRDIFF_MAX - guards - HD_ARENA_UNIT) return NULL;
  bytes = hd_round_up(bytes, hdi_os.page_bytes);
  uint8_t *region = take_region(a, bytes + guards, clean, &zeroed);
  if (region == NULL) return NULL;
  hd_arena_chunk *chunk = hdi_store_take(sizeof *chunk);
  size_t region_bytes = hdi_region_bytes(region);
  if (chunk != NULL) {
    chunk->region = region;
    chunk->from = region + guards / 2;
    chunk->to = clean ? chunk->from + bytes : region + region_bytes - guards / 2;
    if (!a->guard || set_guards(chunk, region_bytes)) {
      size_t room = (size_t)(chunk->to - chunk->from);
      chunk->fresh[0] = chunk->fresh[1] = zeroed ? 0 : room;
      if (a->annotated) hdi_annotate_hide(chunk->from, room);
      a->held_bytes += room;
      a->chunk_count++;
      return chunk;
    }
    memset(chunk, 0, sizeof *chunk);
    hdi_store_give(chunk, sizeof *chunk);
  }
  give_region(a, region, zeroed ? 0 : region_bytes, region_bytes);
  return NULL;
}

void hdi_arena_room_close(arena *a, hd_arena_chunk *chunk) {
  size_t room = (size_t)(chunk->to - chunk->from);
  size_t start = (size_t)(chunk->from - chunk->region);
  if (a->annotated) hdi_annotate_show(chunk->from, room, false);
  give_region(a, chunk->region, start + chunk->fresh[0], start + room - chunk->fresh[1]);
  a->held_bytes -= room;
  a->chunk_count--;
  memset(chunk, 0, sizeof *chunk);
  hdi_store_give(chunk, sizeof *chunk);
}

static void drop(arena *a, hd_arena_chunk *chunk) {
  hdi_arena_room_close(a, chunk);
  a->purge_count++;
}

static void give_spare(arena *a, int right, size_t keep_bytes) {
  hd_arena_chunk **link = &a->more[right].spare;
  while (*link != NULL && (keep_bytes == 0 || a->spare_bytes > keep_bytes)) {
    hd_arena_chunk *chunk = *link;
    *link = chunk->prev;
    a->spare_bytes -= chunk->fresh[right];
    drop(a, chunk);
  }
}

/* The stack is empty: the chunk at its bottom goes too, if more of it has been touched than may be kept. */
static void give_bottom(arena *a, int right, size_t keep_bytes) {
  hd_arena_side *side = &a->face.side[right];
  hd_arena_chunk *chunk = side->chunk;
  if (chunk == NULL || hdi_arena_room_total(a, right) != 0) return;
  if (keep_bytes != 0 && chunk->fresh[right] <= keep_bytes) return;
  HD_ASSERT(chunk->prev == NULL);
  side->chunk = NULL;
  side->at = side->limit = side->high = NULL;
  drop(a, chunk);
}

static void give_unused(arena *a, size_t keep_bytes) {
  for (int right = 0; right < 2; right++) {
    give_spare(a, right, keep_bytes);
    give_bottom(a, right, keep_bytes);
  }
}

/* The stack's last chunk goes: away, or to the spare ones. */
static void leave_chunk(arena *a, int right, bool keep) {
  hd_arena_side *side = &a->face.side[right];
  hd_arena_chunk *chunk = side->chunk;
  size_t touched = chunk->fresh[right];
  side->chunk = chunk->prev;
  if (!keep || touched > a->keep_bytes || a->spare_bytes > a->keep_bytes - touched) {
    drop(a, chunk);
    return;
  }
  if (a->annotated) hdi_annotate_hide(chunk->from, (size_t)(chunk->to - chunk->from));
  chunk->prev = a->more[right].spare;
  a->more[right].spare = chunk;
  a->spare_bytes += touched;
}

/* The stack goes back to `chunk` (NULL: to nothing). The next round will need as much as this one did, in one chunk if it can be had. */
static void leave_chunks(arena *a, int right, const hd_arena_chunk *chunk) {
  hd_arena_side *side = &a->face.side[right];
  const hd_arena_chunk *last = side->chunk;
  if (last == chunk) return;
  bool several = last->prev != chunk;
  size_t stays = chunk == NULL ? 0 : chunk->before + chunk->used;
  a->more[right].wish = hd_min(hdi_arena_room_total(a, right) - stays, LONGEST_STEP);
  while (side->chunk != chunk) leave_chunk(a, right, !several);
  if (several) give_spare(a, right, 0);
}

static hd_arena_chunk *take_spare(arena *a, int right, size_t bytes) {
  for (hd_arena_chunk **link = &a->more[right].spare; *link != NULL; link = &(*link)->prev) {
    hd_arena_chunk *chunk = *link;
    size_t room = (size_t)(chunk->to - chunk->from);
    if (room < bytes) continue;
    *link = chunk->prev;
    a->spare_bytes -= chunk->fresh[right];
    return chunk;
  }
  return NULL;
}

/* A chunk for `bytes`, longer if there is no reason against it. */
static hd_arena_chunk *new_chunk(arena *a, int right, size_t bytes) {
  size_t step = a->held_bytes < DENSE_LEAST / 2 ? a->held_bytes / 2 : hd_min(hd_max(a->held_bytes, DENSE_STEP), LONGEST_STEP);
  size_t wish = hd_max(hd_max(bytes, a->chunk_bytes), hd_max(a->more[right].wish, step));
  if (bytes > PTRDIFF_MAX - HD_ARENA_UNIT) return NULL;
  if (a->limit_bytes != 0) {
    if (bytes > a->limit_bytes - hd_min(a->held_bytes, a->limit_bytes)) give_unused(a, 0);
    size_t left = hd_round_down(a->limit_bytes - hd_min(a->held_bytes, a->limit_bytes), HD_ARENA_UNIT);
    if (bytes > left) return NULL;
    wish = hd_min(wish, left);
  }
  hd_arena_chunk *chunk = hdi_arena_room_open(a, hd_round_up(wish, HD_ARENA_UNIT), false);
  if (chunk != NULL) return chunk;
  give_unused(a, 0);
  return hdi_arena_room_open(a, hd_round_up(bytes, HD_ARENA_UNIT), false);
}

/* Room that a block needs in an empty chunk, which starts and ends at multiples of 64 KiB; 0 when there is no such number. */
static size_t room_needed(int right, size_t alignment, size_t bytes) {
  size_t extra = hd_max(alignment, 1) - 1;
  if (!right) extra = extra < HD_ARENA_UNIT ? 0 : alignment - HD_ARENA_UNIT;
  if (bytes > PTRDIFF_MAX || extra > PTRDIFF_MAX - bytes) return 0;
  return right && extra < HD_ARENA_UNIT ? hd_round_up(bytes, extra + 1) : bytes + extra;
}

/* The last point stays behind in its chunk, and the fast path must not take it for one of the chunk that comes. */
static void set_apart(hd_arena_point *point) {
  if (point->serial == 0) return;
  point->at = (uint8_t *)((point->serial & 1) != 0 ? point + 1 : point);
  point->slow_serial = point->serial;
  point->serial = 0;
}

/* The stack goes on to another chunk. */
static bool add_chunk(arena *a, int right, size_t alignment, size_t bytes) {
  hd_arena_side *side = &a->face.side[right];
  size_t needed = room_needed(right, alignment, bytes);
  hd_arena_chunk *chunk = needed == 0 ? NULL : take_spare(a, right, needed);
  if (chunk == NULL && needed != 0) chunk = new_chunk(a, right, needed);
  if (chunk == NULL) return false;
  give_bottom(a, right, 0); /* the block did not fit into it */
  hdi_arena_room_note(a);
  hd_arena_chunk *before = side->chunk;
  chunk->prev = before;
  chunk->before = hdi_arena_room_total(a, right);
  if (before != NULL) before->used = hdi_arena_room_used(a, right);
  set_apart(*hdi_arena_chain(a, right));
  side->chunk = chunk;
  side->at = side->limit = side->high = hdi_arena_address(chunk, right, 0);
  return true;
}

hd_arena_chunk *hdi_arena_room_find(const arena *a, int right, const uint8_t *p) {
  const hd_arena_chunk *last = hdi_arena_chunk(a, right);
  for (const hd_arena_chunk *chunk = last; chunk != NULL; chunk = chunk->prev) {
    size_t used = chunk != last ? chunk->used : a->shared ? hdi_arena_shared_used(a, right) : hdi_arena_room_used(a, right);
    uintptr_t low = (uintptr_t)(right ? chunk->to - used : chunk->from);
    if ((uintptr_t)p - low < used) return (hd_arena_chunk *)(uintptr_t)chunk;
  }
  return NULL;
}

/* ---- how far the stacks are ---------------------------------------------------------------------------------------------- */

size_t hdi_arena_room_used(const arena *a, int right) {
  return hdi_arena_distance(hdi_arena_chunk(a, right), right, a->face.side[right].at);
}

size_t hdi_arena_room_total(const arena *a, int right) {
  const hd_arena_chunk *chunk = hdi_arena_chunk(a, right);
  if (a->shared) return hdi_arena_shared_used(a, right);
  return chunk == NULL ? 0 : chunk->before + hdi_arena_room_used(a, right);
}

static size_t claimed(const arena *a, int right) { return hdi_arena_distance(hdi_arena_chunk(a, right), right, a->face.side[right].limit); }

static void set_high(arena *a, int right, size_t bytes) {
  bool seen = claimed(a, right) % 16 != 0 || (!right && a->cut != 0);
  a->face.side[right].high = hdi_arena_address(hdi_arena_chunk(a, right), right, seen ? 0 : bytes);
}

/* A claim that is no multiple of 16 is one that ends with the last block. When that block goes it has to be made anew, so nothing may go
 * back past it unseen. */
static void set_claimed(arena *a, int right, size_t bytes) {
  a->face.side[right].limit = hdi_arena_address(hdi_arena_chunk(a, right), right, bytes);
  if (bytes % 16 != 0) set_high(a, right, 0);
}

/* Fixed: a stack may come back unseen from where it has been in this period. */
static void set_high_fixed(arena *a, int right) {
  size_t known = hd_min(a->more[right].now, a->chunk->fresh[right]);
  set_high(a, right, hd_max(known, hdi_arena_room_used(a, right)));
}

static size_t fresh_from(const arena *a, const hd_arena_chunk *chunk, int right) {
  bool last = chunk == hdi_arena_chunk(a, right);
  size_t used = !last ? chunk->used : a->shared ? hdi_arena_shared_used(a, right) : hdi_arena_room_used(a, right);
  return hd_max(chunk->fresh[right], used);
}

size_t hdi_arena_room_committed(const arena *a, const hd_arena_chunk *chunk, int right) {
  size_t room = (size_t)(chunk->to - chunk->from);
  return is_fixed(a) ? hd_min(room, fresh_from(a, chunk, 0) + fresh_from(a, chunk, 1)) : fresh_from(a, chunk, right);
}

/* Tell the region what of it may have been touched: all that is claimed. */
static void note_touched(arena *a, const hd_arena_chunk *chunk, int right) {
  size_t bytes = hd_max(chunk->fresh[right], claimed(a, right));
  if (is_fixed(a)) bytes += hd_max(chunk->fresh[!right], claimed(a, !right));
  hdi_region_note(chunk->region, hd_min(bytes, (size_t)(chunk->to - chunk->from)));
}

void hdi_arena_room_note(arena *a) {
  for (int side = 0; side < 2; side++) {
    hd_arena_chunk *chunk = hdi_arena_chunk(a, side);
    hd_arena_more *more = &a->more[side];
    if (chunk == NULL) continue;
    size_t used = hdi_arena_room_used(a, side);
    chunk->fresh[side] = hd_max(chunk->fresh[side], used);
    more->peak = hd_max(more->peak, chunk->before + used);
    more->now = hd_max(more->now, used);
    if (is_fixed(a)) set_high_fixed(a, side);
    else if (used > hdi_arena_distance(chunk, side, a->face.side[side].high)) set_high(a, side, used);
  }
  if (is_fixed(a)) a->face.least = hd_min(a->face.least, a->room - hdi_arena_room_used(a, 0) - hdi_arena_room_used(a, 1));
}

/* ---- laying blocks --------------------------------------------------------------------------------------------------------- */

/* Whether what lies below `edge` on a stack has been touched, most of it. In a chunk that has just begun the one before it tells. */
static bool is_dense(const hd_arena_chunk *chunk, int right, size_t edge) {
  if (edge < LOOK && chunk->prev != NULL) {
    chunk = chunk->prev;
    edge = chunk->used;
  }
  size_t bytes = hd_min(edge, LOOK);
  uintptr_t start = (uintptr_t)hdi_arena_address(chunk, right, edge) - (right ? 0 : bytes);
  uintptr_t end = hd_round_down(start + bytes, hdi_os.page_bytes);
  start = hd_round_up(start, hdi_os.page_bytes);
  return start < end && hdi_os_resident_in((void *)start, end - start) >= (end - start) - (end - start) / 4;
}

void hdi_arena_room_dense(hd_arena_chunk *chunk, int right, size_t edge, size_t used) {
  size_t room = (size_t)(chunk->to - chunk->from);
  size_t bytes = hd_min(used + used / 8, room); /* as far as a claim goes */
  size_t total = chunk->before + bytes;
  if (total <= DENSE_LEAST || bytes <= hd_load_relaxed(&chunk->looked)) return;
  size_t whole = (size_t)2 << hd_highest_bit(total - 1);
  size_t to = hd_min(whole - chunk->before, room);
  size_t from = chunk->fresh[right];
  hd_store_relaxed(&chunk->looked, to);
  if (from >= to || (used - edge < LARGE_LEAST && !is_dense(chunk, right, edge))) return;
  hd_store_relaxed(&chunk->huge, true);
  hdi_region_want_huge(chunk->region, (size_t)(chunk->from - chunk->region) + (right ? room - to : from), to - from);
}

/* Let the fast path of a stack go on. Near the end of a fixed range the stacks share what is left between them. */
static void claim(arena *a, int right) {
  hd_arena_chunk *chunk = hdi_arena_chunk(a, right);
  size_t used = hdi_arena_room_used(a, right);
  size_t want = used;
  size_t edge = hd_min(claimed(a, right), used);
  if (!hdi_arena_is_closed(a)) {
    size_t room = (size_t)(chunk->to - chunk->from);
    size_t others = is_fixed(a) ? claimed(a, !right) : 0;
    want = hd_round_down(hd_min(hd_max(used + hd_max(FIRST_STEP, used / 8), chunk->fresh[right]), room), 16);
    if (want > room - others) want = hd_round_down(room - others, 16);
    if (want <= used && is_fixed(a)) {
      size_t others_used = hdi_arena_room_used(a, !right);
      want = hd_max(used, hd_round_down(used + (room - others_used - used) / 2, 16));
      if (others > room - want) set_claimed(a, !right, hd_max(others_used, hd_round_down(room - want, 16)));
    }
    want = hd_max(want, used);
  }
  set_claimed(a, right, want);
  if (a->shared) return;
  if (!a->annotated) hdi_arena_room_dense(chunk, right, edge, used);
  note_touched(a, chunk, right);
}

/* In the stack's last chunk. */
static uint8_t *place_here(arena *a, int right, size_t alignment, size_t bytes) {
  hd_arena_side *side = &a->face.side[right];
  const hd_arena_chunk *chunk = side->chunk;
  if (chunk == NULL) return NULL;
  size_t mask = hd_max(alignment, 1) - 1;
  size_t used = hdi_arena_room_used(a, right);
  size_t room = (size_t)(chunk->to - chunk->from) - used - (is_fixed(a) ? hdi_arena_room_used(a, !right) : 0);
  if (bytes > room) return NULL;
  size_t padding = (right ? (uintptr_t)side->at - bytes : 0 - (uintptr_t)side->at) & mask;
  if (padding > room - bytes) return NULL;
  /* A block that fits is laid, even where its rounded size would not fit. */
  size_t rounded = right ? bytes : hd_round_up(bytes, (mask & 15) + 1);
  size_t whole = hd_min(rounded, room - padding);
  size_t next = used + padding + whole;
  if (whole < rounded && a->cut == 0) a->cut = next;
  side->at = hdi_arena_address(chunk, right, next);
  if (next > claimed(a, right) || claimed(a, right) % 16 != 0 || hdi_arena_is_closed(a)) claim(a, right);
  return right ? side->at : side->at - whole;
}

uint8_t *hdi_arena_room_place(arena *a, int right, size_t alignment, size_t bytes) {
  uint8_t *p = place_here(a, right, alignment, bytes);
  if (p != NULL || is_fixed(a) || !add_chunk(a, right, alignment, bytes)) return p;
  return place_here(a, right, alignment, bytes);
}

void hdi_arena_room_clear(const arena *a, int right, uint8_t *p, size_t bytes) {
  const hd_arena_chunk *chunk = hdi_arena_chunk(a, right);
  uint8_t *end = p + bytes;
  uint8_t *from = hdi_arena_address(chunk, 0, is_fixed(a) || !right ? chunk->fresh[0] : 0);
  uint8_t *to = hdi_arena_address(chunk, 1, is_fixed(a) || right ? chunk->fresh[1] : 0);
  if (from >= to || end <= from || p >= to) {
    memset(p, 0, bytes); /* no part of it lies in [from, to), which reads as zero */
    return;
  }
  if (p < from) memset(p, 0, (size_t)(from - p));
  if (to < end) memset(to, 0, (size_t)(end - to));
}

/* ---- going back ------------------------------------------------------------------------------------------------------------ */

/* Purge [from, to) of a fixed range, distances from the left. What reads as zero then lies between the stacks' bounds again: a bound
 * that reaches into or beyond the hole is drawn back to its edge. */
static void purge(arena *a, size_t from, size_t to) {
  hd_arena_chunk *chunk = a->chunk;
  size_t skipped = (size_t)(chunk->from - chunk->region);
  size_t start = 0;
  if (to <= from || to - from < PURGE_LEAST) return;
  size_t bytes = hdi_region_purge(chunk->region, skipped + from, to - from, &start);
  if (bytes == 0) return;
  start -= skipped;
  size_t end = start + bytes;
  size_t left = chunk->fresh[0];
  size_t right = a->room - chunk->fresh[1];
  if (left > start || right < start) chunk->fresh[0] = start;
  if (left > end || right < end) chunk->fresh[1] = a->room - end;
  for (int side = 0; side < 2; side++) a->more[side].purged |= (side ? right < end : left > start);
  a->purge_count++;
}

/* A distance from the left, moved to a border of pages, or of huge pages. */
static size_t up(const arena *a, size_t distance, size_t step) {
  return hd_round_up((uintptr_t)a->chunk->from + distance, step) - (uintptr_t)a->chunk->from;
}

static size_t down(const arena *a, size_t distance, size_t step) {
  size_t start = (uintptr_t)a->chunk->from % step;
  return distance + start < step ? 0 : hd_round_down(distance + start, step) - start;
}

/* Give back what lies beyond keep[] and has been used, of both stacks: in whole steps, which keeps huge pages whole. */
static void purge_beyond(arena *a, const size_t keep[2], size_t step) {
  const hd_arena_chunk *chunk = a->chunk;
  if (keep[0] >= a->room || keep[1] >= a->room - keep[0]) return;
  size_t start = up(a, keep[0], step);
  size_t end = keep[1] == 0 ? a->room : down(a, a->room - keep[1], step);
  size_t left = chunk->fresh[0];
  size_t right = a->room - hd_min(chunk->fresh[1], a->room);
  if (left >= right) {
    purge(a, start, end);
    return;
  }
  purge(a, start, hd_min(up(a, left, step), end));
  purge(a, hd_max(down(a, right, step), start), end);
}

/* What goes by itself goes in huge pages where the arena has such. */
static size_t purge_step(const arena *a) {
  return hd_load_relaxed(&a->chunk->huge) ? hd_max(hdi_os.huge_bytes, hdi_os.page_bytes) : hdi_os.page_bytes;
}

static void trim_fixed(arena *a, size_t keep_bytes, size_t step) {
  size_t keep[2];
  for (int side = 0; side < 2; side++) keep[side] = hd_max(hd_max(keep_bytes, a->more[side].hold), hdi_arena_room_used(a, side));
  purge_beyond(a, keep, step);
  for (int side = 0; side < 2; side++) {
    size_t most = hd_round_up(hd_max(hdi_arena_room_used(a, side), hd_max(a->chunk->fresh[side], FIRST_STEP)), 16);
    if (claimed(a, side) > most) set_claimed(a, side, most);
    set_high_fixed(a, side);
  }
  note_touched(a, a->chunk, 0);
}

/* A stack of a fixed arena had come as far as `had`: learn what it needs. */
static void learn(arena *a, int right, size_t had, bool reset) {
  hd_arena_side *side = &a->face.side[right];
  hd_arena_more *more = &a->more[right];
  if (reset) side->serial += 2 * RESET_POINTS;
  if (more->purged) more->learnt = hd_max(more->learnt, had);
  if (side->serial - more->since >= 2 * PERIOD) {
    uint64_t now_ms = hdi_os_now_ms();
    if (now_ms - more->since_ms >= PERIOD_MS) {
      more->since = side->serial;
      more->since_ms = now_ms;
      more->last = more->now;
      more->now = hdi_arena_room_used(a, right);
      more->learnt = hd_min(more->learnt, hd_max(more->last, more->now));
    }
  }
  more->hold = reset ? more->learnt : hd_max(more->learnt, hd_max(more->last, more->now));
}

static bool is_calm(const arena *a) { return hd_max(a->chunk->fresh[0], a->chunk->fresh[1]) <= a->keep_bytes; }

/* In the stack's last chunk, which held `had` bytes. */
static void back_here(arena *a, int right, uint8_t *at, size_t had) {
  hd_arena_side *side = &a->face.side[right];
  side->at = at;
  size_t used = hdi_arena_room_used(a, right);
  if (a->annotated) hdi_annotate_hide(right ? hdi_arena_address(side->chunk, right, had) : at, had - used);
  if (hdi_arena_is_closed(a) || claimed(a, right) % 16 != 0 || claimed(a, right) < used) claim(a, right);
}

static void back_fixed(arena *a, int right, uint8_t *at, bool reset) {
  size_t had = hdi_arena_room_used(a, right);
  back_here(a, right, at, had);
  if (!right && hdi_arena_room_used(a, 0) < a->cut) a->cut = 0;
  if (is_calm(a)) {
    set_high_fixed(a, right);
  } else {
    learn(a, right, had, reset);
    trim_fixed(a, a->keep_bytes, purge_step(a));
  }
}

static void back_growing(arena *a, int right, hd_arena_chunk *chunk, uint8_t *at) {
  hd_arena_side *side = &a->face.side[right];
  if (side->chunk == chunk) {
    back_here(a, right, at, hdi_arena_room_used(a, right));
    return;
  }
  leave_chunks(a, right, chunk);
  side->at = side->limit = side->high = at;
  if (chunk == NULL) return;
  back_here(a, right, at, chunk->used);
  if (!hdi_arena_is_closed(a)) claim(a, right);
  set_high(a, right, chunk->used);
}

void hdi_arena_room_back(arena *a, int right, hd_arena_chunk *chunk, uint8_t *at) {
  if (chunk == NULL || (chunk->prev == NULL && hdi_arena_distance(chunk, right, at) == 0)) {
    hdi_arena_room_empty(a, right, false);
    return;
  }
  hdi_arena_room_note(a);
  if (is_fixed(a)) back_fixed(a, right, at, false);
  else back_growing(a, right, chunk, at);
}

void hdi_arena_room_empty(arena *a, int right, bool reset) {
  hd_arena_chunk *chunk = hdi_arena_chunk(a, right);
  hdi_arena_room_note(a);
  if (is_fixed(a)) {
    back_fixed(a, right, hdi_arena_address(chunk, right, 0), reset);
  } else if (chunk != NULL) {
    chunk = chunk->prev == NULL ? chunk : NULL;
    back_growing(a, right, chunk, hdi_arena_address(chunk, right, 0));
    give_bottom(a, right, a->keep_bytes);
  }
}

bool hdi_arena_room_empty_plain(arena *a, int right) {
  hd_arena_side *side = &a->face.side[right];
  const hd_arena_chunk *chunk = side->chunk;
  if (chunk == NULL) return true;
  bool low = right ? side->at >= side->high : side->at <= side->high;
  if (!low || (uintptr_t)a->face.side[1].at - (uintptr_t)a->face.side[0].at < a->face.least || chunk->prev != NULL ||
      chunk->fresh[right] > a->keep_bytes || hdi_arena_is_closed(a))
    return false;
  side->at = right ? chunk->to : chunk->from;
  side->point = &a->none;
  return true;
}

void hdi_arena_room_trim(arena *a, size_t keep_bytes) {
  if (!is_fixed(a)) {
    give_unused(a, keep_bytes);
    return;
  }
  hdi_arena_room_note(a);
  for (int side = 0; side < 2; side++) a->more[side].learnt = a->more[side].hold = 0;
  trim_fixed(a, keep_bytes, hdi_os.page_bytes);
}
