/* Index pools: making, taking, giving, growing. See index_pool.h.
 * SPDX-License-Identifier: MIT */
#include "objects/index_pool.h"

#include <errno.h>

#include "core/region.h"
#include "core/report.h"
#include "core/store.h"
#include "os/os.h"

enum { LEAST_STEP = 4096, SLOT_BYTES_MAX = 65536, NOTE_BYTES = 65536 };

_Static_assert(sizeof(hd_index_body) <= HD_STORE_MAX, "a pool's body lives in the metadata store");
_Static_assert(offsetof(hd_index_body, fast) == 0, "a pool is its body");

/* ---- memory ------------------------------------------------------------------------------------------------------ */

bool hdi_index_pool_reserve(hd_index_body *body, hd_index_memory *memory) {
  uint64_t slots = body->maximum + body->slack + 1;
  size_t bytes = 0;
  if (slots > SIZE_MAX / 2 || !hd_multiply((size_t)slots, body->fast.slot_bytes, &bytes) || bytes > PTRDIFF_MAX / 2) {
    errno = ENOMEM;
    return false;
  }
  memory->map_offset = hd_round_up(bytes, NOTE_BYTES); /* a multiple of any system page */
  memory->bytes = memory->map_offset + hd_round_up((size_t)slots, NOTE_BYTES);
  memory->region = hdi_region_reserve(HD_AREA_INDEX_POOL, body->name, memory->bytes);
  return memory->region != NULL;
}

/* Purged at once: a reserve is only made again from clean memory, so a dirty part would split the address space of the next. */
void hdi_index_pool_release(const hd_index_body *body, const hd_index_memory *memory, uint64_t touched) {
  size_t start = 0;
  size_t slots_bytes = hd_round_up((size_t)touched * body->fast.slot_bytes, hdi_os.page_bytes);
  size_t map_bytes = hd_round_up((size_t)touched, hdi_os.page_bytes);
  size_t clean_from = hdi_region_purge(memory->region, 0, slots_bytes, &start) == slots_bytes ? 0 : slots_bytes;
  bool clean_map = hdi_region_purge(memory->region, memory->map_offset, map_bytes, &start) == map_bytes;
  hdi_region_give(memory->region, clean_from, clean_map ? memory->bytes : memory->map_offset);
}

size_t hdi_index_pool_bytes(const hd_index_body *body, uint64_t touched) {
  return touched <= 1 ? 0 : (size_t)touched * (body->fast.slot_bytes + 1);
}

void hdi_index_pool_note(hd_index_body *body) {
  body->noted = body->touched + NOTE_BYTES / body->fast.slot_bytes;
  hdi_region_note(body->memory.region, hdi_index_pool_bytes(body, body->touched));
}

/* ---- making ------------------------------------------------------------------------------------------------------ */

static bool config_is_good(const hd_index_config *config) {
  if (config == NULL || config->struct_bytes != sizeof *config) return false;
  if (config->slot_bytes < 4 || config->slot_bytes > SLOT_BYTES_MAX || config->slot_bytes % 4 != 0) return false;
  if (config->maximum == 0 || config->maximum > UINT32_MAX || config->slack > UINT32_MAX - config->maximum) return false;
  return config->initial <= config->maximum && config->minimum <= config->maximum && config->object_slots <= config->maximum;
}

static void set_config(hd_index_body *body, const hd_index_config *config) {
  const char *name = config->name != NULL ? config->name : "unnamed";
  for (size_t i = 0; i + 1 < sizeof body->name && name[i] != 0; i++) body->name[i] = name[i];
  unsigned shift = (unsigned)hd_lowest_bit(config->slot_bytes);
  body->fast.slot_bytes = config->slot_bytes;
  body->fast.slot_shift = shift;
  body->fast.slot_inverse = hd_inverse(config->slot_bytes >> shift);
  body->fast.object_slots = config->object_slots;
  body->fast.give_slots = HD_INDEX_EXACT_SLOTS;
  body->fast.end = body->top = body->touched = 1;
  body->initial = config->initial > config->minimum ? config->initial : config->minimum;
  body->step = config->step;
  body->minimum = config->minimum;
  body->maximum = body->size = body->limit = config->maximum;
  body->slack = config->slack;
  body->allocated = body->initial;
  body->growth = config->growth;
  body->overflow = config->overflow;
  body->user = config->user;
}

static void give_body(hd_index_body *body) {
  memset(body, 0, sizeof *body);
  hdi_store_give(body, sizeof *body);
}

HD_EXPORT hd_index_pool *hd_index_pool_create(const hd_index_config *config) {
  if (!config_is_good(config)) {
    errno = EINVAL;
    return NULL;
  }
  hd_index_body *body = hdi_region_start() ? hdi_store_take(sizeof *body) : NULL;
  if (body == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  set_config(body, config);
  if (!hdi_index_pool_reserve(body, &body->memory)) {
    give_body(body);
    return NULL;
  }
  body->fast.slots = body->memory.region;
  body->fast.map = body->memory.region + body->memory.map_offset;
  return &body->fast;
}

HD_EXPORT void hd_index_pool_destroy(hd_index_pool *pool) {
  if (pool == NULL) return;
  hd_index_body *body = hdi_index_pool_body(pool);
  hdi_index_pool_release(body, &body->memory, body->touched);
  give_body(body);
}

void hdi_index_pool_rearm(hd_index_body *body) {
  if (body->fast.end - 1 > body->size) return;
  body->overflowed = false;
  body->extra = 0;
  body->limit = body->size;
  if (body->allocated > body->limit) body->allocated = body->limit;
}

HD_EXPORT void hd_index_pool_reset(hd_index_pool *pool) {
  hd_index_body *body = hdi_index_pool_body(pool);
  if (body->busy) return;
  memset(pool->map, 0, (size_t)pool->end);
  pool->end = 1;
  pool->given = pool->taken;
  pool->used = 0;
  hdi_index_pool_rebuild(body);
  hdi_index_pool_rearm(body);
}

HD_EXPORT bool hd_index_pool_limit(hd_index_pool *pool, uint64_t slots) {
  hd_index_body *body = hdi_index_pool_body(pool);
  if (body->busy || slots < body->minimum || slots < pool->end - 1 || slots > body->maximum) {
    errno = EINVAL;
    return false;
  }
  body->size = slots;
  hdi_index_pool_rearm(body);
  return true;
}

/* ---- reports ----------------------------------------------------------------------------------------------------- */

void hdi_index_pool_text(const hd_index_body *body, hd_text *text, char *buffer, size_t bytes) {
  hdi_text_start(text, buffer, bytes);
  hdi_text_put(text, "index pool '");
  hdi_text_put(text, body->name);
  hdi_text_put(text, "': ");
}

void hdi_index_pool_report(const hd_index_body *body, const char *what, uint32_t index, const char *more) {
  char first[128], line[256];
  hd_text text;
  hdi_index_pool_text(body, &text, first, sizeof first);
  hdi_text_start(&text, line, sizeof line);
  hdi_text_put(&text, "heddle: ");
  hdi_text_put(&text, first);
  hdi_text_put(&text, what);
  hdi_text_put(&text, " ");
  hdi_text_decimal(&text, index);
  hdi_text_put(&text, more);
  hdi_report_finish(&text, (const void *)(uintptr_t)index, "HD-E09");
}

static void put_slots(hd_text *text, const char *before, uint64_t slots, const char *after) {
  hdi_text_put(text, before);
  hdi_text_decimal(text, slots);
  hdi_text_put(text, slots == 1 ? " slot" : " slots");
  hdi_text_put(text, after);
}

/* No live object starts at index: say what lies there instead. */
static SLOW void report_give(const hd_index_body *body, uint32_t index) {
  const uint8_t *map = body->fast.map;
  char more[128];
  hd_text text;
  hdi_text_start(&text, more, sizeof more);
  if (index >= body->fast.end) {
    hdi_index_pool_report(body, "give of", index, ", an index that was never handed out");
    return;
  }
  if (map[index] > HD_INDEX_FREE && map[index] < HD_INDEX_DIGIT) {
    put_slots(&text, " (", hdi_index_map_slots(map, index), ")");
    hdi_index_pool_report(body, "double give of", index, more);
    return;
  }
  uint32_t start = index;
  while (start > 1 && (map[start] == 0 || map[start] >= HD_INDEX_DIGIT)) start--;
  if (map[start] == 0 || hdi_index_map_is_free(map, start)) {
    hdi_index_pool_report(body, "give of", index, ", in free memory");
    return;
  }
  put_slots(&text, ", inside the object of ", hdi_index_map_slots(map, start), " at ");
  hdi_text_decimal(&text, start);
  hdi_index_pool_report(body, "give of", index, more);
}

/* ---- giving ------------------------------------------------------------------------------------------------------ */

HD_EXPORT uint32_t hd_index_pool_large_slots(const hd_index_pool *pool, uint32_t index) { return hdi_index_map_slots(pool->map, index); }

HD_EXPORT void hd_index_pool_give_slow(hd_index_pool *pool, uint32_t index) {
  hd_index_body *body = hdi_index_pool_body(pool);
  if (index == HD_INDEX_NONE) return;
  uint32_t slots = hd_index_pool_slots(pool, index);
  if (HD_UNLIKELY(slots == 0)) {
    report_give(body, index);
    return;
  }
  pool->given++;
  pool->used -= slots;
  /* Behind the cursor a compaction will find it by its mark. */
  if (body->compacting && index >= body->cursor) hdi_index_pool_mark_free(body, index, slots);
  else hdi_index_pool_put_free(body, index, slots);
}

/* ---- growing ----------------------------------------------------------------------------------------------------- */

static uint64_t free_slots(const hd_index_body *body) { return body->fast.end - 1 - body->fast.used; }

/* *refused: the program has been asked and does not want to; it is not asked again for the same take. */
static bool grow(hd_index_body *body, uint32_t slots, bool *refused) {
  uint64_t old = body->allocated;
  uint64_t needed = body->fast.end - 1 + slots;
  uint64_t step = body->step != 0 ? body->step : old / 4 > LEAST_STEP ? old / 4 : LEAST_STEP;
  if (body->busy || *refused || needed > body->limit) return false;
  uint64_t wanted = old + step > needed ? old + step : needed;
  if (wanted > body->limit) wanted = body->limit;
  if (body->growth != NULL) {
    body->busy = true;
    *refused = !body->growth(&body->fast, old, wanted, body->user);
    body->busy = false;
    if (*refused) return false;
  }
  body->allocated = wanted;
  body->growth_count++;
  return true;
}

/* The limit is reached: tell once, and grant the slack. true when that may help. */
static bool overflow(hd_index_body *body) {
  char buffer[160];
  hd_text text;
  if (body->busy || body->overflowed) return false;
  body->overflowed = true;
  body->extra = body->slack;
  body->limit = body->size + body->slack;
  hdi_index_pool_text(body, &text, buffer, sizeof buffer);
  put_slots(&text, "overflow, the limit of ", body->size, " is reached");
  put_slots(&text, ", ", body->slack, " of slack granted");
  if (body->overflow != NULL) {
    body->busy = true;
    body->overflow(&body->fast, buffer, body->size, body->slack, body->user);
    body->busy = false;
  }
  return true;
}

/* ---- taking ------------------------------------------------------------------------------------------------------ */

/* Merging before growing pays when much is free, and must not be paid again before much has been given. */
static bool merging_pays(const hd_index_body *body) {
  uint64_t loose = body->fast.given - body->given_merged;
  return !body->busy && !body->compacting && body->fast.object_slots == 0 && free_slots(body) > body->allocated / 4 &&
         loose > body->allocated / 16;
}

static bool merging_may_help(const hd_index_body *body, uint32_t slots) {
  bool loose = body->fast.given != body->given_merged || body->compacting;
  return !body->busy && loose && free_slots(body) + (body->limit - (body->fast.end - 1)) >= slots;
}

static uint32_t take_fresh(hd_index_body *body, uint32_t slots) {
  uint64_t at = body->fast.end;
  if (slots > body->allocated - (at - 1)) return 0;
  body->fast.end = at + slots;
  hdi_index_map_mark(body->fast.map, at, slots, 0);
  if (body->fast.end > body->top) body->top = body->fast.end;
  if (body->fast.end > body->touched) body->touched = body->fast.end;
  if (body->touched > body->noted) hdi_index_pool_note(body);
  return (uint32_t)at;
}

static uint32_t find(hd_index_body *body, uint32_t slots) {
  for (bool thorough = false, refused = false;;) {
    /* Small sizes: their list, fresh slots, a piece of something larger. Large ones: what fits best, then fresh slots. */
    bool again = false;
    bool fresh_first = slots <= HD_INDEX_EXACT_SLOTS && body->fast.list[slots].head == 0;
    uint32_t index = fresh_first ? take_fresh(body, slots) : 0;
    if (index == 0) index = hdi_index_pool_take_free(body, slots, thorough, &again);
    if (index == 0 && !again && !fresh_first) index = take_fresh(body, slots);
    if (index != 0) return index;
    if (again) continue;
    if (merging_pays(body)) hdi_index_pool_rebuild(body);
    else if (grow(body, slots, &refused)) continue;
    else if (merging_may_help(body, slots)) hdi_index_pool_rebuild(body);
    else if (!thorough) thorough = true;
    else if (body->fast.end - 1 + slots <= body->limit || !overflow(body)) return 0;
  }
}

HD_EXPORT uint32_t hd_index_pool_take_slow(hd_index_pool *pool, uint32_t slots) {
  hd_index_body *body = hdi_index_pool_body(pool);
  if (slots == 0 || (pool->object_slots != 0 && slots != pool->object_slots)) {
    errno = EINVAL;
    return HD_INDEX_NONE;
  }
  uint32_t index = find(body, slots);
  if (index == 0) {
    errno = ENOMEM;
    return HD_INDEX_NONE;
  }
  pool->taken++;
  pool->used += slots;
  if (pool->used > pool->used_high) pool->used_high = pool->used;
  return index;
}
