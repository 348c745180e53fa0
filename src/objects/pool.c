/* Pools: the long ways behind the inline functions of heddle/pool.h, and what a pool consists of.
 *
 * Owns hd_pool and everything behind it. The claim is the one idea: when take finds nothing, all free items of one group of 64 are claimed
 * at once, the lowest group that has any, and take then only picks bits from a word. Gives go straight to the maps. Segments
 * (pool_segment.h) hold items and maps; a pool with a limit has one, a pool without starts with 16 MiB of addresses and doubles, so that
 * items never move.
 *
 * Invariants, outside calls: used = live bits; allocated = present bits = used + free; the claim's items are free and no other list's.
 * release_below is above 0 only while a give may have to give memory back.
 *
 * Threads: one, or any under the lock. Callbacks run without the lock, when everything is consistent.
 * SPDX-License-Identifier: MIT */
#include "heddle/pool.h"

#include <errno.h>

#include "core/check.h"
#include "core/lock.h"
#include "core/options.h"
#include "core/region.h"
#include "core/store.h"
#include "objects/pool_report.h"
#include "objects/pool_segment.h"
#include "os/os.h"

enum { SEGMENT_MAX = 48, FIRST_SEGMENT_BYTES = 16 << 20, FRUGAL_SEGMENT_BYTES = 1 << 20, MEMORIES = 2 };

typedef struct pool_body {
  hd_pool front;          /* what the program holds; of a shared pool all zero */
  hd_pool locked;         /* the working part of a shared pool */
  hd_pool *work;          /* front or locked */
  hd_lock lock;
  bool shared;
  bool blocked;           /* `minimum` keeps what `kept` would give back; until the next growth */
  unsigned walkers;       /* walks under way: segments stay */
  unsigned segment_count;
  hd_pool_segment *segments[SEGMENT_MAX];
  hd_pool_segment *claimed; /* where the claim is */
  size_t claim_group;
  size_t allocated, initial, minimum, maximum, step, extra, kept;
  uint64_t claimed_total, growth_count, release_count;
  hd_pool_shape shape;
  hd_pool_alarm alarm;
  char name[HD_OBJECT_NAME_BYTES];
} pool_body;

/* How a search for free items ended. */
typedef enum outcome { HAVE, GREW, FULL, NO_MEMORY } outcome;

static pool_body *body_of(const hd_pool *pool) { return (pool_body *)(uintptr_t)pool; }

static void enter(pool_body *body) {
  if (body->shared) hdi_lock_take(&body->lock);
}

static void leave(pool_body *body) {
  if (body->shared) hdi_lock_drop(&body->lock);
}

/* ---- limits and tuning ---------------------------------------------------------------------------------------------- */

static size_t limit_of(pool_body *body) {
  return body->maximum == SIZE_MAX ? SIZE_MAX : body->maximum + (hd_load_relaxed(&body->alarm.open) ? body->extra : 0);
}

static hd_pool_event event_of(pool_body *body) {
  bool open = hd_load_relaxed(&body->alarm.open);
  return (hd_pool_event){body->name, "items", body->work->used, body->allocated, limit_of(body), open ? 0 : body->extra};
}

/* Whether `kept` wants memory back, and there is some. */
static bool is_over_kept(const pool_body *body) {
  if (body->kept == 0 || body->blocked || body->allocated - body->work->used <= body->kept) return false;
  for (unsigned i = 0; i < body->segment_count; i++) {
    if (body->segments[i]->empty_count > 0) return true;
  }
  return false;
}

/* From how few live items on gives must look for spans to give back. Spans that are shorter than a group fall empty unnoticed by the
 * inline give: items of such pools settle every time. */
static void retune(pool_body *body) {
  size_t empty = 0, below = body->allocated - hd_min(body->kept, body->allocated);
  for (unsigned i = 0; i < body->segment_count; i++) empty += body->segments[i]->empty_count;
  if (body->kept == 0) below = 0;
  else if (body->shape.short_spans) below = SIZE_MAX;
  else if (empty == 0 || body->blocked) below = 0;
  body->work->release_below = below;
}

/* Let the inline give work on the longest segment. */
static void choose_front(pool_body *body) {
  hd_pool_segment *best = body->segments[0];
  for (unsigned i = 1; i < body->segment_count; i++) {
    if (body->segments[i]->bound >= best->bound) best = body->segments[i];
  }
  body->work->base = best->base;
  body->work->bound = best->bound;
  body->work->live = best->live;
  body->work->listed = best->listed;
}

static void note_touched(pool_body *body) {
  for (unsigned i = 0; i < body->segment_count; i++) hdi_pool_segment_touched(body->segments[i], &body->shape);
}

/* ---- claims and growth ---------------------------------------------------------------------------------------------- */

static hd_pool_claim claim_in(const pool_body *body, const hd_pool_segment *segment) {
  return segment == body->claimed ? (hd_pool_claim){body->claim_group, body->work->claim} : (hd_pool_claim){0, 0};
}

static void unclaim(pool_body *body) {
  hd_pool *work = body->work;
  uint64_t claim = work->claim;
  work->claim = 0;
  body->claimed_total -= hd_bit_count(claim);
  if (claim != 0) hdi_pool_segment_unclaim(body->claimed, &body->shape, body->claim_group, claim, work->claim_fresh);
  work->claim_live = NULL;
  body->claimed = NULL;
}

static void claim(pool_body *body, hd_pool_segment *segment, size_t group) {
  hd_pool *work = body->work;
  /* The group that was being taken from may have fallen empty unnoticed. */
  if (body->claimed != NULL && *work->claim_live == 0) hdi_pool_segment_survey_group(body->claimed, &body->shape, body->claim_group);
  work->claim = hdi_pool_segment_claim(segment, &body->shape, group, &work->claim_fresh);
  work->claim_base = segment->base + group * 64 * work->stride;
  work->claim_live = &segment->live[group];
  body->claimed_total += hd_bit_count(work->claim);
  body->claimed = segment;
  body->claim_group = group;
  retune(body); /* spans were empty and are no more */
}

/* How many items the next segment should have room for. */
static size_t wanted_items(const pool_body *body, size_t least) {
  size_t there = 0, stride = body->shape.stride;
  for (unsigned i = 0; i < body->segment_count; i++) there += body->segments[i]->bound;
  /* Addresses count against the option `limit`. */
  size_t first = (hd_load_owned(&hdi_options.limit) == 0 ? FIRST_SEGMENT_BYTES : FRUGAL_SEGMENT_BYTES) / stride;
  size_t wanted = hd_max(hd_max(first, there), body->initial);
  if (body->maximum != SIZE_MAX) wanted = body->maximum + body->extra - hd_min(there, body->maximum + body->extra);
  /* A wild limit must not take all addresses. */
  return hd_max(least, hd_min(wanted, MEMORIES * hdi_os.ram_bytes / stride));
}

/* Another segment, for room items if that is less than a step. */
static hd_pool_segment *add_segment(pool_body *body, size_t room) {
  size_t least = hd_min(body->step, room);
  if (body->segment_count == SEGMENT_MAX) return NULL;
  hd_pool_segment *segment = hdi_pool_segment_create(&body->shape, wanted_items(body, least), least);
  if (segment == NULL) return NULL;
  body->segments[body->segment_count++] = segment;
  choose_front(body);
  return segment;
}

/* Make up to count items present. returns how many. */
static size_t grow_by(pool_body *body, size_t count) {
  size_t got = 0;
  for (unsigned i = 0; got < count; i++) {
    hd_pool_segment *segment = i < body->segment_count ? body->segments[i] : NULL;
    if (segment == NULL && got > 0) break; /* less than a step will do */
    if (segment == NULL) segment = add_segment(body, count);
    if (segment == NULL) break;
    if (segment->present_count < segment->bound) got += hdi_pool_segment_grow(segment, &body->shape, count - got);
  }
  body->allocated += got;
  return got;
}

static outcome grow(pool_body *body) {
  size_t limit = limit_of(body);
  if (body->allocated >= limit) return FULL;
  if (grow_by(body, hd_min(body->step, limit - body->allocated)) == 0) return NO_MEMORY;
  body->growth_count++;
  body->blocked = false;
  note_touched(body);
  return GREW;
}

/* Fill the empty claim. */
static outcome refill(pool_body *body) {
  outcome result = HAVE;
  for (;; result = GREW) {
    for (unsigned i = 0; i < body->segment_count; i++) {
      size_t group;
      if (!hdi_pool_segment_ready(body->segments[i], &group)) continue;
      claim(body, body->segments[i], group);
      return result;
    }
    outcome grown = grow(body);
    if (grown != GREW) return grown;
  }
}

static void *take_claimed(hd_pool *work, bool zeroed) {
  bool fresh = (work->claim & (0 - work->claim) & work->claim_fresh) != 0;
  void *item = hd_pool_take_claimed(work);
  return zeroed && !fresh ? memset(item, 0, work->item_bytes) : item;
}

HD_EXPORT void *hd_pool_take_slow(hd_pool *pool, bool zeroed) {
  pool_body *body = body_of(pool);
  int error = errno;
  for (bool asked = false;; asked = true) {
    void *item = NULL;
    enter(body);
    outcome result = body->work->claim != 0 ? HAVE : refill(body);
    if (result <= GREW) item = take_claimed(body->work, zeroed);
    hd_pool_event event = event_of(body);
    leave(body);
    if (item != NULL) {
      errno = error;
      event.slack = 0;
      if (result == GREW && body->alarm.growth != NULL) body->alarm.growth(&event, body->alarm.user);
      return item;
    }
    if (result == NO_MEMORY || asked || !hdi_pool_report_overflow(&body->alarm, &event)) break;
  }
  errno = ENOMEM;
  return NULL;
}

/* ---- giving back ---------------------------------------------------------------------------------------------------- */

static void drop_empty_segments(pool_body *body) {
  for (unsigned i = body->segment_count; i > 0 && body->segment_count > 1 && body->walkers == 0; i--) {
    hd_pool_segment *segment = body->segments[i - 1];
    if (segment->present_count > 0) continue;
    body->segment_count--;
    for (unsigned at = i - 1; at < body->segment_count; at++) body->segments[at] = body->segments[at + 1];
    hdi_pool_segment_destroy(segment, &body->shape);
  }
  choose_front(body);
}

/* Give empty spans back while more than keep items are free and more than minimum allocated. returns bytes. */
static size_t release(pool_body *body, size_t keep, size_t minimum) {
  size_t used = body->work->used, free_items = body->allocated - used, purged = 0;
  for (unsigned i = body->segment_count; i > 0; i--) {
    hd_pool_segment *segment = body->segments[i - 1];
    purged += hdi_pool_segment_release(segment, &body->shape, claim_in(body, segment), keep, minimum - hd_min(minimum, used), &free_items,
                                       &body->release_count);
  }
  body->allocated = used + free_items;
  retune(body);
  return purged;
}

static void settle(pool_body *body, hd_pool_segment *segment, uint64_t index) {
  if (body->kept == 0) { /* a survey comes before anything goes back */
    hd_pool_claim claimed = claim_in(body, segment);
    hdi_pool_segment_list(segment, (size_t)index >> 6, claimed.group == index >> 6 ? claimed.bits : 0);
    return;
  }
  hdi_pool_segment_settle(segment, &body->shape, index, claim_in(body, segment));
  if (is_over_kept(body)) {
    release(body, body->kept, body->minimum);
    body->blocked = is_over_kept(body);
    note_touched(body);
  }
  retune(body);
}

HD_EXPORT void hd_pool_give_settle(hd_pool *pool, uint64_t index) {
  pool_body *body = body_of(pool);
  hd_pool_segment *segment = body->segments[0];
  for (unsigned i = 1; segment->live != pool->live; i++) segment = body->segments[i];
  settle(body, segment, index);
}

/* The segment that item is an item of, live or not; NULL: none. */
static hd_pool_segment *find(pool_body *body, const void *item, uint64_t *index) {
  for (unsigned i = body->segment_count; i > 0; i--) {
    *index = hdi_pool_segment_index(body->segments[i - 1], &body->shape, item);
    if (*index < body->segments[i - 1]->bound) return body->segments[i - 1];
  }
  return NULL;
}

static bool is_inside(pool_body *body, const void *item) {
  for (unsigned i = 0; i < body->segment_count; i++) {
    if ((uintptr_t)item - (uintptr_t)body->segments[i]->base < body->segments[i]->top * body->shape.stride) return true;
  }
  return false;
}

HD_EXPORT void hd_pool_give_slow(hd_pool *pool, void *item) {
  if (item == NULL) return;
  pool_body *body = body_of(pool);
  uint64_t index = 0;
  enter(body);
  hd_pool_segment *segment = find(body, item, &index);
  bool live = segment != NULL && hdi_pool_segment_is_live(segment, index);
  bool handed_out = segment != NULL && index < segment->top, inside = segment == NULL && is_inside(body, item);
  if (live) {
    segment->live[index >> 6] &= ~((uint64_t)1 << (index & 63));
    body->work->used--;
    settle(body, segment, index);
  }
  leave(body);
  if (live) return;
  if (handed_out) hdi_pool_report_misuse("double give of", (uintptr_t)item, " to the pool", body->name);
  else if (inside) hdi_pool_report_misuse("give of", (uintptr_t)item, ", an address inside an item, to the pool", body->name);
  else hdi_pool_report_misuse("give of", (uintptr_t)item, ", which is no item of the pool", body->name);
}

HD_EXPORT bool hd_pool_owns(hd_pool *pool, const void *item) {
  pool_body *body = body_of(pool);
  uint64_t index = 0;
  enter(body);
  hd_pool_segment *segment = find(body, item, &index);
  bool live = segment != NULL && hdi_pool_segment_is_live(segment, index);
  leave(body);
  return live;
}

/* No slack any more; free items beyond the limit go. */
static void close_slack(pool_body *body) {
  if (!hd_load_relaxed(&body->alarm.open) || body->work->used > body->maximum) return;
  hd_store_relaxed(&body->alarm.open, false);
  for (unsigned i = body->segment_count; i > 0 && body->allocated > body->maximum; i--) {
    body->allocated -= hdi_pool_segment_retire(body->segments[i - 1], &body->shape, body->allocated - body->maximum);
  }
}

static size_t shrink(pool_body *body, size_t keep, size_t minimum, bool close) {
  enter(body);
  unclaim(body);
  if (close) close_slack(body);
  for (unsigned i = 0; i < body->segment_count; i++) hdi_pool_segment_survey(body->segments[i], &body->shape);
  size_t purged = release(body, keep, minimum);
  drop_empty_segments(body);
  note_touched(body);
  leave(body);
  return purged;
}

HD_EXPORT size_t hd_pool_flush(hd_pool *pool) { return shrink(body_of(pool), 0, 0, true); }
HD_EXPORT size_t hd_pool_trim(hd_pool *pool, size_t keep_items) { return shrink(body_of(pool), keep_items, body_of(pool)->minimum, false); }

HD_EXPORT void hd_pool_reset(hd_pool *pool) {
  pool_body *body = body_of(pool);
  enter(body);
  unclaim(body);
  for (unsigned i = 0; i < body->segment_count; i++) hdi_pool_segment_reset(body->segments[i], &body->shape);
  body->work->used = 0;
  close_slack(body);
  if (body->kept > 0) release(body, body->kept, body->minimum);
  drop_empty_segments(body);
  retune(body);
  note_touched(body);
  leave(body);
}

/* ---- looking -------------------------------------------------------------------------------------------------------- */

/* Live bits of a group; false when there is no such group. *more: there is such a segment. */
static bool look(pool_body *body, unsigned at, size_t group, uint64_t *live, uint8_t **first, bool *more) {
  enter(body);
  hd_pool_segment *segment = at < body->segment_count ? body->segments[at] : NULL;
  bool there = segment != NULL && group * 64 < segment->top;
  *more = segment != NULL;
  if (there) {
    *live = segment->live[group];
    *first = segment->base + group * 64 * body->shape.stride;
  }
  leave(body);
  return there;
}

static void count_walker(pool_body *body, int change) {
  enter(body);
  body->walkers += (unsigned)change;
  leave(body);
}

HD_EXPORT bool hd_pool_walk(hd_pool *pool, hd_pool_visitor *visitor, void *user) {
  pool_body *body = body_of(pool);
  uint64_t live = 0;
  uint8_t *first = NULL;
  bool on = true, more = true;
  count_walker(body, 1);
  for (unsigned at = 0; on && more; at++) {
    for (size_t group = 0; on && look(body, at, group, &live, &first, &more); group++) {
      while (on && live != 0) {
        unsigned bit = (unsigned)hd_lowest_bit(live);
        on = visitor(first + bit * body->shape.stride, body->work->item_bytes, user);
        look(body, at, group, &live, &first, &more); /* the visitor may have given others */
        live &= ~hd_low_mask(bit + 1);
      }
    }
  }
  count_walker(body, -1);
  return on;
}

HD_EXPORT bool hd_pool_stats_get(hd_pool *pool, hd_pool_stats *stats) {
  if (stats == NULL || stats->struct_bytes < sizeof *stats) return false;
  pool_body *body = body_of(pool);
  enter(body);
  const hd_pool *work = body->work;
  stats->used = work->used;
  stats->list = body->allocated - work->used;
  stats->max = work->max;
  stats->size = limit_of(body);
  stats->count = body->claimed_total - hd_bit_count(work->claim);
  stats->allocated = body->allocated;
  stats->bytes = body->allocated * body->shape.stride;
  stats->touched = sizeof *body;
  for (unsigned i = 0; i < body->segment_count; i++) stats->touched += hdi_pool_segment_touched(body->segments[i], &body->shape);
  stats->item_bytes = work->item_bytes;
  stats->stride = body->shape.stride;
  stats->initial = body->initial;
  stats->minimum = body->minimum;
  stats->maximum = body->maximum;
  stats->step = body->step;
  stats->extra = body->extra;
  stats->kept = body->kept;
  stats->growth_count = body->growth_count;
  stats->release_count = body->release_count;
  leave(body);
  return true;
}

HD_EXPORT const char *hd_pool_name(const hd_pool *pool) { return body_of(pool)->name; }

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static bool shape_of(const hd_pool_config *config, hd_pool_shape *shape) {
  const size_t most_item = (size_t)1 << (sizeof(size_t) == 8 ? 40 : 28), most_alignment = (size_t)1 << 30;
  size_t alignment = config->alignment;
  if (config->item_bytes == 0 || config->item_bytes > most_item) return false;
  if (alignment == 0) alignment = hd_min(config->item_bytes & (0 - config->item_bytes), 16);
  if (!hd_is_power_of_2(alignment) || alignment > most_alignment) return false;
  shape->alignment = alignment;
  shape->stride = hd_round_up(config->item_bytes, alignment);
  shape->shift = (uint8_t)hd_lowest_bit(shape->stride);
  shape->inverse = hd_inverse(shape->stride >> shape->shift);
  shape->span_shift = 16;
  while ((size_t)1 << shape->span_shift < shape->stride) shape->span_shift++;
  shape->short_spans = shape->stride > (size_t)1 << (shape->span_shift - 6);
  return true;
}

static bool set_limits(pool_body *body, const hd_pool_config *config) {
  size_t stride = body->shape.stride;
  body->maximum = config->maximum == 0 ? SIZE_MAX : config->maximum;
  if (config->limit_bytes > 0) body->maximum = hd_min(body->maximum, config->limit_bytes / stride);
  body->extra = body->maximum == SIZE_MAX ? 0 : config->extra;
  body->minimum = config->minimum;
  body->initial = hd_max(config->initial, config->minimum);
  body->step = config->step == 0 ? hd_max(1, 64 * HD_KIB / stride) : config->step;
  body->kept = config->kept;
  return body->maximum > 0 && body->initial <= body->maximum && body->extra <= SIZE_MAX - 1 - hd_min(body->maximum, SIZE_MAX - 1);
}

static bool is_valid(const hd_pool_config *config, hd_pool_shape *shape, pool_body *trial) {
  if (config == NULL || config->struct_bytes < sizeof *config || !shape_of(config, shape)) return false;
  trial->shape = *shape;
  return set_limits(trial, config);
}

static void discard(pool_body *body) {
  for (unsigned i = 0; i < body->segment_count; i++) hdi_pool_segment_destroy(body->segments[i], &body->shape);
  memset(body, 0, sizeof *body);
  hdi_store_give(body, sizeof *body);
}

HD_EXPORT hd_pool *hd_pool_create(const hd_pool_config *config) {
  pool_body trial = {.shared = false};
  hd_pool_shape shape = {.stride = 0};
  int error = errno;
  if (!is_valid(config, &shape, &trial)) {
    errno = EINVAL;
    return NULL;
  }
  pool_body *body = hdi_region_start() ? hdi_store_take(sizeof *body) : NULL;
  if (body == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  *body = trial;
  hdi_pool_report_name(body->name, config->name);
  body->shape.name = body->name;
  body->shared = config->shared;
  body->alarm.growth = config->growth;
  body->alarm.overflow = config->overflow;
  body->alarm.user = config->user;
  body->work = config->shared ? &body->locked : &body->front;
  body->work->stride = shape.stride;
  body->work->item_bytes = config->item_bytes;
  body->work->inverse = shape.inverse;
  body->work->shift = shape.shift;
  if (add_segment(body, hd_max(body->initial, 1)) == NULL || grow_by(body, body->initial) < body->initial) {
    discard(body);
    errno = ENOMEM;
    return NULL;
  }
  retune(body);
  note_touched(body);
  errno = error;
  return &body->front;
}

HD_EXPORT size_t hd_pool_destroy(hd_pool *pool) {
  if (pool == NULL) return 0;
  size_t left = body_of(pool)->work->used;
  discard(body_of(pool));
  return left;
}
