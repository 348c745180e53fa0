/* Tables of handles: slots over a range of blocks (handle_range.h).
 *
 * Owns hd_handles. A slot is the only thing that knows where its block is, so that compaction moves a block by one copy and one store. Free
 * slots wait in a queue, so that a generation lasts as long as it can. Generations start at 1 and skip 0 when they wrap.
 *
 * Invariants: a slot's `self` is its live block's handle, 0 without one; the tag of a live block names its slot. Memory above
 * `allocated` is clean.
 * Threads: one at a time.
 * SPDX-License-Identifier: MIT */
#include "heddle/handle.h"

#include <errno.h>

#include "core/check.h"
#include "core/region.h"
#include "core/store.h"
#include "objects/handle_range.h"
#include "os/os.h"

#define DEFAULT_LIMIT (sizeof(size_t) == 8 ? HD_GIB : 64 * HD_MIB)
#define NO_SLOT UINT32_MAX
enum { LEAST_LIMIT = 1 << 20, SHORT_INDEX_BITS = 20, SHORT_GENERATION_BITS = 12, PASS_BYTES = 16 };

typedef struct table {
  hd_handles front;
  hd_handle_range range;
  size_t limit_bytes, extra_bytes, limit_count, extra_count, step, kept;
  size_t allocated;                   /* memory below may have been touched */
  size_t used, max, count, count_max, pinned_count;
  uint32_t free_first, free_last;     /* queue of free slots, through `pins`; NO_SLOT: empty */
  unsigned index_bits;
  uint32_t generation_mask;
  uint64_t moved_bytes, moved_count, growth_count;
  hd_pool_alarm alarm;
  char name[HD_OBJECT_NAME_BYTES];
} table;

static table *table_of(const hd_handles *handles) { return (table *)(uintptr_t)handles; }

static hd_handle_slot *slot_of(const hd_handles *handles, hd_handle handle) {
  return (hd_handle_slot *)(uintptr_t)hd_handles_slot(handles, handle);
}

static size_t place_of(const table *own, const hd_handle_slot *slot) {
  return (size_t)(slot->block - own->range.memory) - HD_HANDLE_TAG_BYTES;
}

static size_t limit_of(table *own) { return own->limit_bytes + (hd_load_relaxed(&own->alarm.open) ? own->extra_bytes : 0); }
static size_t count_limit_of(table *own) { return own->limit_count + (hd_load_relaxed(&own->alarm.open) ? own->extra_count : 0); }

static void note(table *own) {
  hdi_region_note(own->range.memory, own->allocated);
  hdi_region_note(own->front.slots, (size_t)own->front.slot_count * sizeof(hd_handle_slot));
}

static hd_pool_event event_of(table *own, const char *what) {
  bool bytes = what[0] == 'b', open = hd_load_relaxed(&own->alarm.open);
  hd_pool_event event = {.name = own->name, .what = what, .used = bytes ? own->used : own->count};
  event.allocated = bytes ? own->allocated : own->count;
  event.limit = bytes ? limit_of(own) : count_limit_of(own);
  event.slack = open ? 0 : (bytes ? own->extra_bytes : own->extra_count);
  return event;
}

/* ---- the range's memory --------------------------------------------------------------------------------------------- */

/* The top has moved: what lies below it must count as allocated. */
static void follow_top(table *own) {
  if (own->range.top <= own->allocated) return;
  own->allocated = hdi_pool_report_steps(own->range.top, own->step, limit_of(own));
  own->growth_count++;
  note(own);
  hd_pool_event event = event_of(own, "bytes");
  event.slack = 0;
  if (own->alarm.growth != NULL) own->alarm.growth(&event, own->alarm.user);
}

/* Give memory above the top back, but for the kept bytes. returns bytes. */
static size_t give_top_back(table *own) {
  size_t top = own->count == 0 ? 0 : own->range.top, start = 0;
  size_t keep = top + hd_min(own->kept, own->allocated - top), end = hdi_pool_report_steps(keep, own->step, own->allocated);
  if (end >= own->allocated) return 0;
  size_t purged = hdi_region_purge(own->range.memory, end, hd_round_up(own->allocated, hdi_os.page_bytes) - end, &start);
  if (purged == 0) return 0;
  own->allocated = end;
  note(own);
  return purged;
}

/* A place for a block of length; asks for the slack where there is none. */
static size_t find_place(table *own, size_t length) {
  size_t place = length == 0 ? HD_HANDLE_NO_PLACE : hdi_handle_range_take(&own->range, length, limit_of(own));
  if (place == HD_HANDLE_NO_PLACE) {
    hd_pool_event event = event_of(own, "bytes");
    if (!hdi_pool_report_overflow(&own->alarm, &event) || length == 0) return HD_HANDLE_NO_PLACE;
    place = hdi_handle_range_take(&own->range, length, limit_of(own));
  }
  return place;
}

/* ---- slots ---------------------------------------------------------------------------------------------------------- */

static bool has_slot(table *own) {
  if (own->count < count_limit_of(own)) return true;
  hd_pool_event event = event_of(own, "handles");
  return hdi_pool_report_overflow(&own->alarm, &event) && own->count < count_limit_of(own);
}

static uint32_t take_slot(table *own) {
  uint32_t index = own->free_first;
  if (index == NO_SLOT) return (uint32_t)own->front.slot_count++;
  own->free_first = own->front.slots[index].pins;
  if (own->free_first == NO_SLOT) own->free_last = NO_SLOT;
  return index;
}

static void give_slot(table *own, uint32_t index) {
  hd_handle_slot *slot = &own->front.slots[index];
  slot->self = 0;
  slot->block = NULL;
  slot->bytes = 0;
  slot->pins = NO_SLOT;
  if (own->free_last == NO_SLOT) own->free_first = index;
  else own->front.slots[own->free_last].pins = index;
  own->free_last = index;
}

static void put_block(table *own, uint32_t index, size_t place) {
  hdi_handle_range_tag(&own->range, place)->slot = index;
  own->front.slots[index].block = own->range.memory + place + HD_HANDLE_TAG_BYTES;
}

static void count_bytes(table *own, hd_handle_slot *slot, size_t bytes) {
  own->used = own->used - slot->bytes + bytes;
  own->max = hd_max(own->max, own->used);
  slot->bytes = bytes;
}

HD_EXPORT hd_handle hd_handles_alloc(hd_handles *handles, size_t bytes) {
  table *own = table_of(handles);
  int error = errno;
  size_t place = has_slot(own) ? find_place(own, hdi_handle_range_round(&own->range, bytes)) : HD_HANDLE_NO_PLACE;
  if (place != HD_HANDLE_NO_PLACE && own->count >= count_limit_of(own)) { /* a callback has allocated */
    hdi_handle_range_give(&own->range, place);
    place = HD_HANDLE_NO_PLACE;
  }
  if (place == HD_HANDLE_NO_PLACE) {
    errno = ENOMEM;
    return 0;
  }
  uint32_t index = take_slot(own);
  hd_handle_slot *slot = &handles->slots[index];
  slot->generation = (slot->generation + 1) & own->generation_mask;
  if (slot->generation == 0) slot->generation = 1;
  slot->self = (hd_handle)slot->generation << own->index_bits | index;
  slot->pins = 0;
  hd_handle self = slot->self;
  put_block(own, index, place);
  count_bytes(own, slot, bytes);
  own->count++;
  own->count_max = hd_max(own->count_max, own->count);
  follow_top(own);
  errno = error;
  return self;
}

HD_EXPORT uint32_t hd_handles_alloc_32(hd_handles *handles, size_t bytes) {
  if (table_of(handles)->index_bits != SHORT_INDEX_BITS) {
    errno = EINVAL;
    return 0;
  }
  return (uint32_t)hd_handles_alloc(handles, bytes);
}

HD_EXPORT void hd_handles_free(hd_handles *handles, hd_handle handle) {
  if (handle == 0) return;
  table *own = table_of(handles);
  hd_handle_slot *slot = slot_of(handles, handle);
  if (slot == NULL) {
    uint64_t index = handle & handles->index_mask;
    bool stale = index < handles->slot_count && handle >> own->index_bits != 0 && handle >> own->index_bits <= own->generation_mask;
    hdi_pool_report_misuse("free of handle", handle, stale ? ", whose block is free already, to the table" : ", which is none of the table",
                           own->name);
    return;
  }
  if (slot->pins > 0) own->pinned_count--;
  hdi_handle_range_give(&own->range, place_of(own, slot));
  count_bytes(own, slot, 0);
  own->count--;
  give_slot(own, (uint32_t)(handle & handles->index_mask));
}

HD_EXPORT bool hd_handles_resize(hd_handles *handles, hd_handle handle, size_t bytes) {
  table *own = table_of(handles);
  hd_handle_slot *slot = slot_of(handles, handle);
  int error = errno;
  if (slot == NULL) {
    errno = EINVAL;
    return false;
  }
  size_t place = place_of(own, slot), length = hdi_handle_range_round(&own->range, bytes);
  if (length == 0 || !hdi_handle_range_resize(&own->range, place, length, limit_of(own))) {
    if (slot->pins > 0) {
      errno = EBUSY;
      return false;
    }
    size_t target = find_place(own, length);
    /* A callback may have freed this very block. */
    if (target != HD_HANDLE_NO_PLACE && slot->self != handle) hdi_handle_range_give(&own->range, target);
    if (target == HD_HANDLE_NO_PLACE || slot->self != handle) {
      errno = target == HD_HANDLE_NO_PLACE ? ENOMEM : EINVAL;
      return false;
    }
    memcpy(own->range.memory + target + HD_HANDLE_TAG_BYTES, slot->block, hd_min(slot->bytes, bytes));
    hdi_handle_range_give(&own->range, place_of(own, slot));
    put_block(own, (uint32_t)(handle & handles->index_mask), target);
  }
  count_bytes(own, slot, bytes);
  follow_top(own);
  errno = error;
  return true;
}

/* ---- pins ----------------------------------------------------------------------------------------------------------- */

HD_EXPORT void *hd_handles_pin(hd_handles *handles, hd_handle handle) {
  hd_handle_slot *slot = slot_of(handles, handle);
  if (slot == NULL || slot->pins == UINT32_MAX) {
    errno = slot == NULL ? EINVAL : EAGAIN;
    return NULL;
  }
  if (slot->pins++ == 0) table_of(handles)->pinned_count++;
  return slot->block;
}

HD_EXPORT bool hd_handles_unpin(hd_handles *handles, hd_handle handle) {
  table *own = table_of(handles);
  hd_handle_slot *slot = slot_of(handles, handle);
  if (slot == NULL || slot->pins == 0) {
    errno = EINVAL;
    return false;
  }
  if (--slot->pins > 0) return true;
  own->pinned_count--;
  /* Compaction may have passed the hole in front of it. */
  size_t place = place_of(own, slot);
  if (hdi_handle_range_tag(&own->range, place)->length & HD_TAG_AFTER_HOLE) {
    place -= (size_t) * (uint64_t *)(void *)(own->range.memory + place - 8);
    own->range.cursor = hd_min(own->range.cursor, place);
  }
  return true;
}

/* ---- compaction ----------------------------------------------------------------------------------------------------- */

HD_EXPORT hd_compaction hd_handles_compact(hd_handles *handles, size_t max_bytes_moved) {
  table *own = table_of(handles);
  hd_handle_range *range = &own->range;
  hd_compaction step = {0, 0, 0, false};
  int error = errno;
  size_t at = range->cursor, passed = 0;
  while (at < range->top) {
    size_t spent = step.moved_bytes + passed;
    bool hole = hdi_handle_range_is_hole(range, at);
    size_t next = at + hdi_handle_range_length(range, at);
    hd_handle_slot *slot = hole ? &handles->slots[hdi_handle_range_tag(range, next)->slot] : NULL;
    if (slot == NULL || slot->pins > 0) { /* a block that stays, or a hole below one */
      if (spent > 0 && spent >= max_bytes_moved) break;
      passed += PASS_BYTES;
      at = next;
      continue;
    }
    size_t length = hdi_handle_range_length(range, next);
    if (step.moved_count > 0 && (spent >= max_bytes_moved || length > max_bytes_moved - spent)) break;
    slot->block -= next - at;
    at = hdi_handle_range_slide(range, at);
    step.moved_bytes += length;
    step.moved_count++;
  }
  range->cursor = at;
  step.done = at >= range->top;
  own->moved_bytes += step.moved_bytes;
  own->moved_count += step.moved_count;
  step.released_bytes = give_top_back(own);
  errno = error;
  return step;
}

HD_EXPORT size_t hd_handles_trim(hd_handles *handles) {
  table *own = table_of(handles);
  hd_handle_range *range = &own->range;
  int error = errno;
  size_t purged = 0, start = 0;
  for (size_t bin = 0; bin < HD_HANDLE_BINS; bin++) {
    for (uint32_t link = range->bin[bin]; link != 0;) {
      size_t place = ((size_t)link - 1) * 16;
      size_t inner = hdi_handle_range_length(range, place) - HD_HANDLE_TAG_BYTES - sizeof(uint64_t);
      purged += hdi_region_purge(range->memory, place + HD_HANDLE_TAG_BYTES, inner, &start);
      link = hdi_handle_range_tag(range, place)->next;
    }
  }
  purged += give_top_back(own);
  errno = error;
  return purged;
}

HD_EXPORT void hd_handles_reset(hd_handles *handles) {
  table *own = table_of(handles);
  int error = errno;
  for (uint32_t index = 0; index < handles->slot_count; index++) {
    if (handles->slots[index].self != 0) give_slot(own, index);
  }
  own->used = own->count = own->pinned_count = 0;
  hdi_handle_range_reset(&own->range);
  hd_store_relaxed(&own->alarm.open, false);
  give_top_back(own);
  errno = error;
}

/* ---- looking -------------------------------------------------------------------------------------------------------- */

HD_EXPORT bool hd_handles_walk(hd_handles *handles, hd_handles_visitor *visitor, void *user) {
  const hd_handle_range *range = &table_of(handles)->range;
  for (size_t at = range->first; at < range->top; at += hdi_handle_range_length(range, at)) {
    if (hdi_handle_range_is_hole(range, at)) continue;
    const hd_handle_slot *slot = &handles->slots[hdi_handle_range_tag(range, at)->slot];
    if (!visitor(slot->self, slot->block, slot->bytes, user)) return false;
  }
  return true;
}

HD_EXPORT bool hd_handles_stats_get(const hd_handles *handles, hd_handles_stats *stats) {
  table *own = table_of(handles);
  if (stats == NULL || stats->struct_bytes < sizeof *stats) return false;
  stats->used = own->used;
  stats->max = own->max;
  stats->count = own->count;
  stats->count_max = own->count_max;
  stats->pinned_count = own->pinned_count;
  stats->top = own->count == 0 ? 0 : own->range.top;
  stats->holes = own->range.holes;
  stats->hole_count = own->range.hole_count;
  stats->largest_hole = hdi_handle_range_largest_hole(&own->range);
  stats->overhead = stats->top - stats->used - stats->holes;
  stats->fragmentation = stats->top == 0 ? 0 : (unsigned)((uint64_t)stats->holes * 1000 / stats->top);
  stats->allocated = own->allocated;
  stats->limit = limit_of(own);
  stats->count_limit = count_limit_of(own);
  stats->step = own->step;
  stats->extra = own->extra_bytes;
  stats->kept = own->kept;
  stats->alignment = own->range.alignment;
  stats->moved_bytes = own->moved_bytes;
  stats->moved_count = own->moved_count;
  stats->growth_count = own->growth_count;
  stats->touched = sizeof *own + own->allocated + (size_t)handles->slot_count * sizeof(hd_handle_slot);
  return true;
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

static size_t slots_most(bool is_short) { return is_short ? (size_t)1 << SHORT_INDEX_BITS : (size_t)UINT32_MAX - 1; }

static bool is_valid(const hd_handles_config *config) {
  if (config == NULL || config->struct_bytes < sizeof *config) return false;
  if (config->handle_bits != 0 && config->handle_bits != 32 && config->handle_bits != 64) return false;
  if (config->limit_bytes > HD_HANDLE_RANGE_MOST || config->extra_bytes > HD_HANDLE_RANGE_MOST - config->limit_bytes) return false;
  size_t most = slots_most(config->handle_bits == 32);
  if (config->extra_count >= most || config->limit_count > most - config->extra_count) return false;
  size_t alignment = config->alignment;
  return alignment == 0 || (hd_is_power_of_2(alignment) && alignment >= 16 && alignment <= 64 * HD_KIB);
}

/* The regions for the limits; limits that the program left open shrink until there are addresses for them. */
static bool reserve(table *own, bool open_limit, bool open_count) {
  const char *name = own->name[0] == 0 ? NULL : own->name;
  size_t most = slots_most(own->index_bits == SHORT_INDEX_BITS) - own->extra_count;
  for (;; own->limit_bytes /= 2) {
    if (open_count) own->limit_count = hd_min(hd_max(own->limit_bytes / 64, 16), most);
    size_t bytes = 0;
    if (!hd_multiply(own->limit_count + own->extra_count, sizeof(hd_handle_slot), &bytes)) return false;
    own->range.memory = hdi_region_reserve(HD_AREA_HANDLES, name, own->limit_bytes + own->extra_bytes);
    own->front.slots = own->range.memory == NULL ? NULL : hdi_region_reserve(HD_AREA_HANDLES, name, bytes);
    if (own->front.slots != NULL) return true;
    if (own->range.memory != NULL) hdi_region_give(own->range.memory, 0, hdi_region_bytes(own->range.memory));
    own->range.memory = NULL;
    if (!open_limit || own->limit_bytes <= LEAST_LIMIT) return false;
  }
}

static void discard(table *own) {
  if (own->range.memory != NULL) {
    hdi_region_give(own->range.memory, own->allocated, hdi_region_bytes(own->range.memory));
    hdi_region_give(own->front.slots, (size_t)own->front.slot_count * sizeof(hd_handle_slot), hdi_region_bytes(own->front.slots));
  }
  memset(own, 0, sizeof *own);
  hdi_store_give(own, sizeof *own);
}

static void set_up(table *own, const hd_handles_config *config) {
  hdi_pool_report_name(own->name, config->name);
  own->limit_bytes = config->limit_bytes == 0 ? hd_min(DEFAULT_LIMIT, HD_HANDLE_RANGE_MOST - config->extra_bytes) : config->limit_bytes;
  own->extra_bytes = config->extra_bytes;
  own->limit_count = config->limit_count;
  own->extra_count = config->extra_count;
  own->step = config->step_bytes == 0 ? 64 * HD_KIB : config->step_bytes;
  own->kept = config->kept_bytes;
  own->index_bits = config->handle_bits == 32 ? SHORT_INDEX_BITS : 32;
  own->generation_mask = config->handle_bits == 32 ? (1u << SHORT_GENERATION_BITS) - 1 : UINT32_MAX;
  own->front.index_mask = ((uint64_t)1 << own->index_bits) - 1;
  own->free_first = NO_SLOT;
  own->free_last = NO_SLOT;
  own->range.alignment = hd_max(config->alignment, 16);
  own->range.first = own->range.alignment - HD_HANDLE_TAG_BYTES;
  own->alarm.growth = config->growth;
  own->alarm.overflow = config->overflow;
  own->alarm.user = config->user;
  hdi_handle_range_reset(&own->range);
}

HD_EXPORT hd_handles *hd_handles_create(const hd_handles_config *config) {
  int error = errno;
  if (!is_valid(config)) {
    errno = EINVAL;
    return NULL;
  }
  table *own = hdi_region_start() ? hdi_store_take(sizeof *own) : NULL;
  if (own != NULL) {
    set_up(own, config);
    if (reserve(own, config->limit_bytes == 0, config->limit_count == 0)) {
      note(own);
      errno = error;
      return &own->front;
    }
    discard(own);
  }
  errno = ENOMEM;
  return NULL;
}

HD_EXPORT size_t hd_handles_destroy(hd_handles *handles) {
  if (handles == NULL) return 0;
  size_t left = table_of(handles)->count;
  discard(table_of(handles));
  return left;
}
