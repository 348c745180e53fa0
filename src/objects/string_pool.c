/* String pools: bytes behind each other, a table of their ends, and for interning a table of hashes.
 *
 * Owns hd_string_pool. Two reserved regions that never move: the text, and ends[] (ends[i] is where string i starts, ends[count] where the
 * next one will). The hash table is a third region, replaced by one of twice or half the length when it is three quarters full or seven
 * eighths empty: a slot holds 32 bits of hash above the string's number + 1, searched linearly, and removal closes the gap, so that no
 * marks of removed strings pile up.
 *
 * Invariants: used == ends[count] <= allocated; text above allocated, ends above ends_top and the table's free slots read as zero.
 * Threads: one at a time.
 * SPDX-License-Identifier: MIT */
#include "heddle/string_pool.h"

#include <errno.h>

#include "core/check.h"
#include "core/region.h"
#include "core/store.h"
#include "objects/pool_report.h"
#include "os/os.h"

#define DEFAULT_LIMIT (sizeof(size_t) == 8 ? HD_GIB : 64 * HD_MIB)
#define INTERN_MOST ((size_t)1 << 31)
enum { TABLE_LEAST = 8192, LEAST_LIMIT = 1 << 20 };

typedef struct strings {
  hd_string_pool front;
  uint8_t *text;
  size_t allocated, max, limit_bytes, extra_bytes, step, kept;
  size_t ends_top;        /* ends[0..ends_top] may have been touched */
  size_t limit_count, extra_count, count_max;
  uint64_t *table;        /* NULL: no interning */
  size_t slots;
  uint64_t seed, append_count, found_count, growth_count;
  hd_pool_alarm alarm;
  char name[HD_OBJECT_NAME_BYTES];
} strings;

static strings *strings_of(const hd_string_pool *pool) { return (strings *)(uintptr_t)pool; }

static size_t used_of(const strings *pool) { return pool->front.ends[pool->front.count]; }

static size_t with_slack(strings *pool, size_t limit, size_t extra) { return limit + (hd_load_relaxed(&pool->alarm.open) ? extra : 0); }

static void note(strings *pool) {
  hdi_region_note(pool->text, pool->allocated);
  hdi_region_note(pool->front.ends, (pool->ends_top + 1) * sizeof(size_t));
  if (pool->table != NULL) hdi_region_note(pool->table, pool->slots * sizeof(uint64_t));
}

/* ---- interning ------------------------------------------------------------------------------------------------------ */

static uint32_t hash(const strings *pool, const uint8_t *bytes, size_t length) {
  const uint64_t odd = 0x9e3779b97f4a7c15u; /* 2^64 over the golden ratio */
  uint64_t state = pool->seed ^ (length * odd);
  for (; length > 0;) {
    uint64_t word = 0;
    size_t part = hd_min(length, 8);
    memcpy(&word, bytes, part);
    state = (state ^ word) * odd;
    state ^= state >> 31;
    bytes += part;
    length -= part;
  }
  return (uint32_t)((state * odd) >> 32);
}

static size_t home(const strings *pool, uint32_t hashed) { return (size_t)(((uint64_t)hashed * pool->slots) >> 32); }
static size_t next_slot(const strings *pool, size_t slot) { return slot + 1 == pool->slots ? 0 : slot + 1; }

static uint64_t find(const strings *pool, const void *bytes, size_t length, uint32_t hashed) {
  for (size_t at = home(pool, hashed); pool->table[at] != 0; at = next_slot(pool, at)) {
    if (pool->table[at] >> 32 != hashed) continue;
    uint64_t index = (uint32_t)pool->table[at] - 1u;
    if (hd_string_pool_length(&pool->front, index) != length) continue;
    if (length == 0 || memcmp(hd_string_pool_text(&pool->front, index), bytes, length) == 0) return index;
  }
  return HD_STRING_NONE;
}

static void insert(strings *pool, uint64_t entry) {
  size_t at = home(pool, (uint32_t)(entry >> 32));
  while (pool->table[at] != 0) at = next_slot(pool, at);
  pool->table[at] = entry;
}

/* Take the entry of string index out, and move what stands behind it up, as long as that lies no further from home. */
static void remove_entry(strings *pool, uint64_t index) {
  uint32_t hashed = hash(pool, (const uint8_t *)hd_string_pool_text(&pool->front, index), hd_string_pool_length(&pool->front, index));
  uint64_t entry = (uint64_t)hashed << 32 | (index + 1);
  size_t gap = home(pool, hashed);
  for (; pool->table[gap] != entry; gap = next_slot(pool, gap)) HD_ASSERT(pool->table[gap] != 0);
  for (size_t at = next_slot(pool, gap); pool->table[at] != 0; at = next_slot(pool, at)) {
    size_t wanted = home(pool, (uint32_t)(pool->table[at] >> 32));
    bool stays = gap < at ? gap < wanted && wanted <= at : gap < wanted || wanted <= at;
    if (stays) continue;
    pool->table[gap] = pool->table[at];
    gap = at;
  }
  pool->table[gap] = 0;
}

/* Put the table's entries into one of another length. false: no memory, and all is as before. */
static bool rebuild(strings *pool, size_t slots) {
  size_t bytes = 0;
  if (!hd_multiply(slots, sizeof(uint64_t), &bytes)) return false;
  uint64_t *old = pool->table;
  uint64_t *table = hdi_region_reserve(HD_AREA_STRING_POOL, pool->name[0] == 0 ? NULL : pool->name, bytes);
  if (table == NULL) return false;
  size_t old_slots = pool->slots;
  pool->table = table;
  pool->slots = slots;
  for (size_t at = 0; old != NULL && at < old_slots; at++) {
    if (old[at] != 0) insert(pool, old[at]);
  }
  if (old != NULL) hdi_region_give(old, old_slots * sizeof(uint64_t), hdi_region_bytes(old));
  return true;
}

/* ---- append --------------------------------------------------------------------------------------------------------- */

/* What stands in the way of a string of length: "bytes", "strings", or nothing (NULL). */
static const char *obstacle(strings *pool, size_t length) {
  if (pool->front.count >= with_slack(pool, pool->limit_count, pool->extra_count)) return "strings";
  if (length >= with_slack(pool, pool->limit_bytes, pool->extra_bytes) - used_of(pool)) return "bytes";
  return NULL;
}

static hd_pool_event event_of(strings *pool, const char *what) {
  bool open = hd_load_relaxed(&pool->alarm.open);
  bool bytes = what[0] == 'b';
  hd_pool_event event = {.name = pool->name, .what = what, .used = bytes ? used_of(pool) : (size_t)pool->front.count};
  event.allocated = bytes ? pool->allocated : (size_t)pool->front.count;
  event.limit = bytes ? with_slack(pool, pool->limit_bytes, pool->extra_bytes) : with_slack(pool, pool->limit_count, pool->extra_count);
  event.slack = open ? 0 : (bytes ? pool->extra_bytes : pool->extra_count);
  return event;
}

static bool make_room(strings *pool, size_t length) {
  const char *what = obstacle(pool, length);
  if (what != NULL) {
    hd_pool_event event = event_of(pool, what);
    if (!hdi_pool_report_overflow(&pool->alarm, &event) || obstacle(pool, length) != NULL) return false;
  }
  return pool->table == NULL || (pool->front.count + 1) * 4 <= pool->slots * 3 || rebuild(pool, pool->slots * 2);
}

/* There is room. returns whether the pool grew. */
static bool store(strings *pool, const void *bytes, size_t length) {
  size_t used = used_of(pool), end = used + length + 1;
  if (length > 0) memmove(pool->text + used, bytes, length);
  pool->text[end - 1] = 0;
  pool->front.ends[++pool->front.count] = end;
  pool->ends_top = hd_max(pool->ends_top, pool->front.count);
  pool->count_max = hd_max(pool->count_max, pool->front.count);
  pool->max = hd_max(pool->max, end);
  if (end <= pool->allocated) return false;
  pool->allocated = hdi_pool_report_steps(end, pool->step, with_slack(pool, pool->limit_bytes, pool->extra_bytes));
  pool->growth_count++;
  note(pool);
  return true;
}

static uint64_t append(strings *pool, const void *bytes, size_t length, uint64_t most) {
  int error = errno;
  uint32_t hashed = 0;
  if (bytes == NULL && length > 0) {
    errno = EINVAL;
    return HD_STRING_NONE;
  }
  uint64_t before, index;
  if (pool->table != NULL) hashed = hash(pool, bytes, length);
  do { /* again when a callback has appended: the string may be there now */
    before = pool->front.count;
    uint64_t found = pool->table == NULL ? HD_STRING_NONE : find(pool, bytes, length, hashed);
    if (found != HD_STRING_NONE) {
      pool->found_count++;
      pool->append_count++;
      return found;
    }
    if (!make_room(pool, length)) {
      errno = ENOMEM;
      return HD_STRING_NONE;
    }
    index = pool->front.count;
  } while (index != before);
  if (index > most) {
    errno = EOVERFLOW;
    return HD_STRING_NONE;
  }
  bool grew = store(pool, bytes, length);
  if (pool->table != NULL) insert(pool, (uint64_t)hashed << 32 | (index + 1));
  pool->append_count++;
  errno = error;
  hd_pool_event event = event_of(pool, "bytes");
  event.slack = 0;
  if (grew && pool->alarm.growth != NULL) pool->alarm.growth(&event, pool->alarm.user);
  return index;
}

HD_EXPORT uint64_t hd_string_pool_append(hd_string_pool *pool, const void *bytes, size_t length) {
  return append(strings_of(pool), bytes, length, HD_STRING_NONE - 1);
}

HD_EXPORT uint32_t hd_string_pool_append_32(hd_string_pool *pool, const void *bytes, size_t length) {
  uint64_t index = append(strings_of(pool), bytes, length, HD_STRING_NONE_32 - 1);
  return index == HD_STRING_NONE ? HD_STRING_NONE_32 : (uint32_t)index;
}

HD_EXPORT const char *hd_string_pool_append_text(hd_string_pool *pool, const void *bytes, size_t length) {
  uint64_t index = append(strings_of(pool), bytes, length, HD_STRING_NONE - 1);
  return index == HD_STRING_NONE ? NULL : hd_string_pool_text(pool, index);
}

/* ---- find, flush ---------------------------------------------------------------------------------------------------- */

HD_EXPORT uint64_t hd_string_pool_find(hd_string_pool *pool, const void *bytes, size_t length) {
  strings *own = strings_of(pool);
  if (own->table == NULL || (bytes == NULL && length > 0)) {
    errno = EINVAL;
    return HD_STRING_NONE;
  }
  return find(own, bytes, length, hash(own, bytes, length));
}

HD_EXPORT uint64_t hd_string_pool_index(const hd_string_pool *pool, const char *text) {
  size_t offset = (size_t)((uintptr_t)text - (uintptr_t)pool->text);
  uint64_t low = 0, high = pool->count;
  while (low < high) {
    uint64_t middle = low + (high - low) / 2;
    if (pool->ends[middle] < offset) low = middle + 1;
    else high = middle;
  }
  return low < pool->count && pool->ends[low] == offset ? low : HD_STRING_NONE;
}

/* Memory above the last string goes back, but for the kept bytes. */
static void give_back(strings *pool) {
  size_t used = used_of(pool), start = 0;
  size_t keep = used + hd_min(pool->kept, pool->allocated - used), end = hdi_pool_report_steps(keep, pool->step, pool->allocated);
  size_t touched = hd_round_up(pool->allocated, hdi_os.page_bytes);
  if (end < pool->allocated && hdi_region_purge(pool->text, end, touched - end, &start) > 0) pool->allocated = end;
  size_t ends = (pool->front.count + 1) * sizeof(size_t), ends_end = (pool->ends_top + 1) * sizeof(size_t);
  if (ends_end - ends < 64 * HD_KIB) return;
  if (hdi_region_purge(pool->front.ends, ends, hd_round_up(ends_end, hdi_os.page_bytes) - ends, &start) > 0) {
    pool->ends_top = hd_max(pool->front.count, start / sizeof(size_t) - 1);
  }
}

HD_EXPORT bool hd_string_pool_flush(hd_string_pool *pool, uint64_t mark) {
  strings *own = strings_of(pool);
  int error = errno;
  if (mark > pool->count) {
    errno = EINVAL;
    return false;
  }
  if (own->table != NULL) {
    for (uint64_t index = pool->count; index > mark; index--) remove_entry(own, index - 1);
    size_t slots = own->slots;
    while (slots > TABLE_LEAST && mark < slots / 8) slots /= 2;
    pool->count = mark;
    if (slots < own->slots) rebuild(own, slots); /* no memory: the longer one stays */
  }
  pool->count = mark;
  if (mark == 0) hd_store_relaxed(&own->alarm.open, false);
  give_back(own);
  note(own);
  errno = error;
  return true;
}

/* ---- life ----------------------------------------------------------------------------------------------------------- */

HD_EXPORT bool hd_string_pool_stats_get(const hd_string_pool *pool, hd_string_pool_stats *stats) {
  strings *own = strings_of(pool);
  if (stats == NULL || stats->struct_bytes < sizeof *stats) return false;
  stats->used = used_of(own);
  stats->max = own->max;
  stats->allocated = own->allocated;
  stats->limit = with_slack(own, own->limit_bytes, own->extra_bytes);
  stats->count = (size_t)pool->count;
  stats->count_max = own->count_max;
  stats->count_limit = with_slack(own, own->limit_count, own->extra_count);
  stats->step = own->step;
  stats->extra = own->extra_bytes;
  stats->kept = own->kept;
  stats->append_count = own->append_count;
  stats->found_count = own->found_count;
  stats->growth_count = own->growth_count;
  stats->table_slots = own->slots;
  stats->touched = sizeof *own + own->allocated + (own->ends_top + 1) * sizeof(size_t) + own->slots * sizeof(uint64_t);
  return true;
}

/* The regions for the limits; limits that the program left open shrink until there are addresses for them. */
static bool reserve(strings *pool, bool open_limit, bool open_count, bool intern) {
  const char *name = pool->name[0] == 0 ? NULL : pool->name;
  for (;; pool->limit_bytes /= 2) {
    if (open_count) pool->limit_count = hd_max(pool->limit_bytes / 8, 16);
    if (intern) pool->limit_count = hd_min(pool->limit_count, INTERN_MOST - pool->extra_count);
    size_t bytes = pool->limit_bytes + pool->extra_bytes, numbers = 0;
    if (bytes >= pool->limit_bytes && hd_multiply(pool->limit_count + pool->extra_count + 1, sizeof(size_t), &numbers)) {
      pool->text = hdi_region_reserve(HD_AREA_STRING_POOL, name, bytes);
      pool->front.ends = pool->text == NULL ? NULL : hdi_region_reserve(HD_AREA_STRING_POOL, name, numbers);
      if (pool->front.ends != NULL) break;
      if (pool->text != NULL) hdi_region_give(pool->text, 0, hdi_region_bytes(pool->text));
      pool->text = NULL;
    }
    if (!open_limit || pool->limit_bytes <= LEAST_LIMIT) return false;
  }
  pool->front.text = (const char *)pool->text;
  return !intern || rebuild(pool, TABLE_LEAST);
}

static void discard(strings *pool) {
  if (pool->text != NULL) {
    hdi_region_give(pool->text, pool->allocated, hdi_region_bytes(pool->text));
    hdi_region_give(pool->front.ends, (pool->ends_top + 1) * sizeof(size_t), hdi_region_bytes(pool->front.ends));
  }
  if (pool->table != NULL) hdi_region_give(pool->table, pool->slots * sizeof(uint64_t), hdi_region_bytes(pool->table));
  memset(pool, 0, sizeof *pool);
  hdi_store_give(pool, sizeof *pool);
}

static bool is_valid(const hd_string_pool_config *config) {
  if (config == NULL || config->struct_bytes < sizeof *config) return false;
  if (config->limit_count > SIZE_MAX / 2 || config->extra_count > SIZE_MAX / 2) return false;
  if (config->limit_bytes > PTRDIFF_MAX || config->extra_bytes > PTRDIFF_MAX) return false;
  return !config->intern || (config->extra_count < INTERN_MOST && config->limit_count <= INTERN_MOST - config->extra_count);
}

HD_EXPORT hd_string_pool *hd_string_pool_create(const hd_string_pool_config *config) {
  int error = errno;
  if (!is_valid(config)) {
    errno = EINVAL;
    return NULL;
  }
  strings *pool = hdi_region_start() ? hdi_store_take(sizeof *pool) : NULL;
  if (pool != NULL) {
    hdi_pool_report_name(pool->name, config->name);
    pool->limit_bytes = config->limit_bytes == 0 ? DEFAULT_LIMIT : config->limit_bytes;
    pool->extra_bytes = config->extra_bytes;
    pool->limit_count = config->limit_count;
    pool->extra_count = config->extra_count;
    pool->step = config->step_bytes == 0 ? 64 * HD_KIB : config->step_bytes;
    pool->kept = config->kept_bytes;
    pool->seed = hdi_os_random();
    pool->alarm.growth = config->growth;
    pool->alarm.overflow = config->overflow;
    pool->alarm.user = config->user;
    if (reserve(pool, config->limit_bytes == 0, config->limit_count == 0, config->intern)) {
      note(pool);
      errno = error;
      return &pool->front;
    }
    discard(pool);
  }
  errno = ENOMEM;
  return NULL;
}

HD_EXPORT size_t hd_string_pool_destroy(hd_string_pool *pool) {
  if (pool == NULL) return 0;
  size_t left = (size_t)pool->count;
  discard(strings_of(pool));
  return left;
}
