/* Statistics and walking: pictures of the heap, taken from the unit tables and byte maps while everybody goes on.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/text.h"
#include "core/counters.h"
#include "core/hardened.h"
#include "core/page.h"
#include "core/store.h"
#include "core/thread.h"
#include "heddle.h"
#include "os/os.h"

typedef struct hd_walk {
  hd_heap *heap;       /* only this heap's areas; NULL: all */
  bool blocks;
  hd_visitor *visitor;
  void *user;
} hd_walk;

static bool show(const hd_walk *walk, const hd_area *area) { return walk->visitor(area, NULL, 0, walk->user); }

static bool visit_region(const hd_walk *walk, hd_unit *unit) {
  if (walk->heap != NULL) return true;
  hd_area area = {
      .address = hd_peek(&unit->base),
      .bytes = (size_t)hd_peek(&unit->run_units) << HD_UNIT_SHIFT,
      .block_bytes = hd_load_relaxed(&unit->touched),
      .kind = (hd_area_kind)hd_peek(&unit->class_index),
      .name = hd_peek(&unit->name),
  };
  return show(walk, &area);
}

static bool visit_large(const hd_walk *walk, hd_unit *unit) {
  hd_heap *heap = hdi_heap_explicit_owner(unit);
  if (walk->heap != NULL && heap != walk->heap) return true;
  hd_area area = {
      .heap = heap,
      .address = hd_peek(&unit->base),
      .bytes = (size_t)hd_peek(&unit->run_units) << HD_UNIT_SHIFT,
      .block_bytes = hd_peek(&unit->block_bytes),
      .block_capacity = 1,
      .block_used = 1,
      .kind = HD_AREA_LARGE,
  };
  if (!show(walk, &area)) return false;
  return !walk->blocks || walk->visitor(&area, (void *)(uintptr_t)area.address, area.block_bytes, walk->user);
}

static bool visit_page(const hd_walk *walk, hd_unit *unit) {
  uint8_t states[HD_PAGE_BLOCKS_MAX];
  hd_page_view view;
  if (!hdi_page_look(unit, &view, walk->blocks ? states : NULL)) return true;
  if (walk->heap != NULL && view.heap != walk->heap) return true;
  hd_area area = {
      .heap = view.heap,
      .address = view.base,
      .bytes = view.bytes,
      .block_bytes = view.block_bytes,
      .block_capacity = view.capacity,
      .block_used = view.live,
      .kind = HD_AREA_PAGE,
  };
  if (!show(walk, &area)) return false;
  for (uint32_t i = 0; walk->blocks && i < view.capacity; i++) {
    if (states[i] != HD_BLOCK_LIVE) continue;
    uint8_t *block = view.base + i * view.block_bytes;
    size_t bytes = hdi_unit_is_hardened(unit) ? hdi_hardened_asked(block, unit) : view.block_bytes;
    if (!walk->visitor(&area, block, bytes, walk->user)) return false;
  }
  return true;
}

/* One unit that starts a page, a live large block or a region; areas of other heaps are passed over. */
static bool visit_unit(const hd_walk *walk, hd_unit *unit, unsigned kind) {
  if (kind == HD_UNIT_PAGE) return visit_page(walk, unit);
  return kind == HD_UNIT_LARGE ? visit_large(walk, unit) : visit_region(walk, unit);
}

/* Through free runs unit by unit: their ends look alike, so whoever comes upon the last unit of one that was put together just now, and
 * takes it for the first, would step over what lies behind. */
static bool walk_space(const hd_walk *walk, hd_space *space) {
  size_t top = hd_load_acquire(&space->top);
  for (size_t at = 0; at < top;) {
    hd_unit *unit = space->units + at;
    unsigned kind = hd_load_acquire(&unit->kind);
    bool run = kind == HD_UNIT_LARGE || kind == HD_UNIT_REGION;
    bool head = (kind == HD_UNIT_PAGE && hd_peek(&unit->head) == unit) || (run && hd_load_relaxed(&unit->live) == 1);
    if (head && !visit_unit(walk, unit, kind)) return false;
    at += head ? hd_max(hd_peek(&unit->run_units), 1) : 1;
  }
  return true;
}

/* The space of a heap in memory of the caller's, who takes that memory away after hd_heap_destroy: which needs this lock. */
static bool walk_own_space(const hd_walk *walk, hd_heap *heap) {
  hdi_lock_take(&heap->lock);
  bool there = heap->own_space && hd_load_acquire(&heap->life) == HD_HEAP_USED;
  bool on = !there || walk_space(walk, heap->space);
  hdi_lock_drop(&heap->lock);
  return on;
}

static bool walk_all(const hd_walk *walk) {
  if (walk->heap != NULL) return walk_space(walk, walk->heap->space);
  if (!walk_space(walk, &hdi_space)) return false;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (hd_peek(&heap->own_space) && !walk_own_space(walk, heap)) return false;
  }
  return true;
}

HD_EXPORT bool hd_heap_walk(hd_heap *heap, bool blocks, hd_visitor *visitor, void *user) {
  hd_walk walk = {heap, blocks, visitor, user};
  return visitor != NULL && walk_all(&walk);
}

static bool add_area(const hd_area *area, void *block, size_t block_bytes, void *user) {
  hd_stats *stats = user;
  if (block != NULL) { /* hardened mode alone: its blocks differ in what may be used of them */
    stats->live -= area->block_bytes - block_bytes;
    return true;
  }
  if (area->kind > HD_AREA_LARGE) {
    stats->objects += area->block_bytes;
    stats->object_count++;
    return true;
  }
  size_t live = area->block_used * area->block_bytes;
  stats->live += live;
  stats->live_count += area->block_used;
  if (area->kind == HD_AREA_LARGE) stats->large += live;
  else stats->page_count++;
  stats->free_in_pages += area->bytes - live;
  return true;
}

static void count_heaps(hd_stats *stats) {
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    unsigned life = hd_load_relaxed(&heap->life);
    stats->heap_count += life == HD_HEAP_USED;
    stats->orphan_count += life == HD_HEAP_ORPHAN;
  }
}

/* Bytes of table entries that are in use. */
static size_t table_bytes(void) { return hd_load_relaxed(&hdi_space.top) * sizeof(hd_unit); }

static bool fill(hd_heap *heap, hd_stats *stats) {
  hd_stats found;
  if (stats == NULL || stats->struct_bytes < offsetof(hd_stats, live_count)) return false;
  hdi_thread_init();
  memset(&found, 0, sizeof found);
  found.version = HD_STATS_VERSION;
  found.struct_bytes = stats->struct_bytes;
  hd_heap_walk(heap, hdi_hardened_is_on(), add_area, &found);
  if (heap == NULL) {
    size_t passed = hd_load_relaxed(&hdi_space.passed_units);
    size_t top = hd_load_relaxed(&hdi_space.top) - passed;
    size_t committed = hd_load_relaxed(&hdi_space.committed) - passed;
    found.cached = hdi_space_to_purge(&hdi_space) << HD_UNIT_SHIFT;
    found.metadata = hdi_store_used() + table_bytes();
    found.mapped = top << HD_UNIT_SHIFT;
    found.reserved = (hdi_space.open ? committed : hdi_space.unit_count) << HD_UNIT_SHIFT;
    found.purged_total = hd_load_relaxed(&hdi_counters.purged_bytes);
    found.os_call_count = hd_load_relaxed(&hdi_counters.os_calls);
    found.moved_total = hd_load_relaxed(&hdi_counters.moved_bytes);
    found.resident = hdi_os_resident_bytes();
    count_heaps(&found);
  }
  memcpy(stats, &found, hd_min(stats->struct_bytes, sizeof found));
  return true;
}

HD_EXPORT bool hd_stats_get(hd_stats *stats) { return fill(NULL, stats); }

HD_EXPORT bool hd_heap_stats_get(hd_heap *heap, hd_stats *stats) { return heap != NULL && fill(heap, stats); }

/* ---- printing ---------------------------------------------------------------------------------------------------- */

/* Without pointers: see options.c. */
typedef struct hd_field {
  char name[16], text[42];
  uint8_t offset;
  bool bytes;
} hd_field;

#define FIELD(name, is_bytes, text) {#name, text, offsetof(hd_stats, name), is_bytes}

static const hd_field fields[] = {
    FIELD(live, true, "in blocks that the program holds"),
    FIELD(live_count, false, "blocks that the program holds"),
    FIELD(large, true, "of these, in large blocks"),
    FIELD(objects, true, "in arenas, pools and handles"),
    FIELD(object_count, false, "regions of arenas, pools and handles"),
    FIELD(free_in_pages, true, "free blocks and ends in pages"),
    FIELD(cached, true, "free runs, still resident"),
    FIELD(metadata, true, "tables, heaps and maps"),
    FIELD(mapped, true, "address range in use"),
    FIELD(reserved, true, "address range reserved"),
    FIELD(purged_total, true, "given back to the system so far"),
    FIELD(moved_total, true, "moved by page tables instead of copies"),
    FIELD(page_count, false, "pages"),
    FIELD(heap_count, false, "heaps"),
    FIELD(orphan_count, false, "heaps of ended threads"),
    FIELD(os_call_count, false, "system calls on mappings"),
    FIELD(resident, true, "resident set of the process"),
};

static hd_stats current(void) {
  hd_stats stats;
  memset(&stats, 0, sizeof stats);
  stats.struct_bytes = sizeof stats;
  fill(NULL, &stats);
  return stats;
}

static size_t value_of(const hd_stats *stats, const hd_field *field) {
  size_t value = 0;
  memcpy(&value, (const char *)stats + field->offset, sizeof value);
  return value;
}

HD_EXPORT size_t hd_stats_text(char *buffer, size_t bytes) {
  hd_text text;
  hd_stats stats = current();
  hdi_text_start(&text, buffer, bytes);
  hdi_text_put(&text, "heddle ");
  hdi_text_put(&text, hd_version_text());
  hdi_text_put(&text, hdi_thread_is_passthrough() ? ": passthrough\n" : "\n");
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    char number[32];
    hd_text part;
    hdi_text_start(&part, number, sizeof number);
    if (fields[i].bytes) hdi_text_bytes(&part, value_of(&stats, &fields[i]));
    else hdi_text_decimal(&part, value_of(&stats, &fields[i]));
    hdi_text_put(&text, "  ");
    hdi_text_pad(&text, number, -12);
    hdi_text_put(&text, "  ");
    hdi_text_put(&text, fields[i].text);
    hdi_text_put(&text, "\n");
  }
  return text.wanted;
}

HD_EXPORT size_t hd_stats_json(char *buffer, size_t bytes) {
  hd_text text;
  hd_stats stats = current();
  hdi_text_start(&text, buffer, bytes);
  hdi_text_put(&text, "{\"heddle\": \"");
  hdi_text_put(&text, hd_version_text());
  hdi_text_put(&text, "\", \"version\": ");
  hdi_text_decimal(&text, HD_STATS_VERSION);
  for (size_t i = 0; i < sizeof fields / sizeof fields[0]; i++) {
    hdi_text_put(&text, ", \"");
    hdi_text_put(&text, fields[i].name);
    hdi_text_put(&text, "\": ");
    hdi_text_decimal(&text, value_of(&stats, &fields[i]));
  }
  hdi_text_put(&text, "}\n");
  return text.wanted;
}
