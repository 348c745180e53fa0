/* See region.h.
 * SPDX-License-Identifier: MIT */
#include "core/region.h"

#include <errno.h>

#include "core/check.h"
#include "core/counters.h"
#include "core/purge.h"
#include "core/space_huge.h"
#include "core/thread.h"
#include "os/os.h"

enum { PURGE_UNITS = 16, RESERVED_UNITS = 4096 };

static size_t units_for(size_t bytes) { return (hd_max(bytes, 1) + HD_UNIT_BYTES - 1) >> HD_UNIT_SHIFT; }

static hd_unit *unit_of(const void *region) {
  hd_unit *first = hdi_space_find(region);
  HD_ASSERT(first != NULL && first->base == region && hd_load_relaxed(&first->kind) == HD_UNIT_REGION);
  return first;
}

static void *make(hd_unit *first, hd_area_kind kind, const char *name) {
  if (first == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  hd_store_owned(&first->base, hdi_space_address(&hdi_space, first));
  hd_store_owned(&first->capacity, 0); /* no pointer into it is ever a block */
  hd_store_owned(&first->inverse, 1);
  hd_store_relaxed(&first->touched, (size_t)0);
  hd_store_owned(&first->head, first);
  hd_store_owned(&first->class_index, (uint8_t)kind);
  hd_store_owned(&first->name, name);
  hd_store_relaxed(&first->owner, (uintptr_t)0);
  hd_store_relaxed(&first->live, 1u);
  hd_store_release(&first->kind, HD_UNIT_REGION);
  return first->base;
}

bool hdi_region_start(void) { return hdi_thread_init_space(); }

void *hdi_region_take(hd_area_kind kind, const char *name, size_t bytes, bool *zeroed) {
  bool ready = hdi_region_start() && bytes <= PTRDIFF_MAX;
  return make(ready ? hdi_space_take(&hdi_space, units_for(bytes), 1, zeroed) : NULL, kind, name);
}

/* The used ends of short-lived regions stay dirty, and no clean run forms across them: a program that makes and destroys such objects
 * faster than the purger comes, or without one, would move on into new address range for ever. So now and then, before it does, the
 * dirty runs go back. */
static hd_unit *take_clean(size_t units) {
  static atomic_size_t reserved; /* since the last time */
  hd_unit *first = hdi_space_take_clean_again(&hdi_space, units);
  if (first == NULL && hd_load_relaxed(&reserved) >= RESERVED_UNITS && hd_load_relaxed(&hdi_space.dirty.units) > 0) {
    hd_store_relaxed(&reserved, (size_t)0);
    hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
    first = hdi_space_take_clean_again(&hdi_space, units);
  }
  if (first == NULL) first = hdi_space_take_clean(&hdi_space, units, 1);
  if (first != NULL) hd_add(&reserved, units);
  return first;
}

void *hdi_region_reserve(hd_area_kind kind, const char *name, size_t bytes) {
  bool ready = hdi_region_start() && bytes <= PTRDIFF_MAX;
  size_t units = units_for(bytes);
  return make(ready && hdi_space_allows(&hdi_space, units) ? take_clean(units) : NULL, kind, name);
}

size_t hdi_region_bytes(const void *region) { return (size_t)unit_of(region)->run_units << HD_UNIT_SHIFT; }

size_t hdi_region_purge(void *region, size_t offset, size_t bytes, size_t *start) {
  size_t from = hd_round_up(offset, hdi_os.page_bytes);
  size_t to = hd_round_down(offset + bytes, hdi_os.page_bytes);
  *start = from;
  if (from >= to) return 0;
  uint8_t *address = (uint8_t *)region + from;
  hdi_space_before_purge(address, to - from);
  hdi_counters_os_call(1);
  if (!hdi_os_purge(address, to - from)) return 0;
  hdi_counters_purged(to - from);
  return to - from;
}

/* Much of it goes back to the system at once: who takes clean ranges only, as large objects do, would find none of it, and a program that
 * makes and destroys them would grow until the purger comes. */
static void give_touched(hd_unit *first, size_t units) {
  size_t start = 0, bytes = units << HD_UNIT_SHIFT;
  bool purged = units >= PURGE_UNITS && hdi_region_purge(hdi_space_address(&hdi_space, first), 0, bytes, &start) == bytes;
  hdi_space_give(&hdi_space, first, units, !purged);
}

void hdi_region_give(void *region, size_t clean_from, size_t clean_to) {
  hd_unit *first = unit_of(region);
  size_t units = first->run_units;
  size_t from = hd_min((clean_from + HD_UNIT_BYTES - 1) >> HD_UNIT_SHIFT, units);
  size_t to = hd_min(clean_to >> HD_UNIT_SHIFT, units);
  hd_store_relaxed(&first->live, 0u);
  hd_store_release(&first->kind, HD_UNIT_NONE);
  if (from >= to) {
    from = units;
    to = units;
  }
  if (from > 0) give_touched(first, from);
  if (to > from) hdi_space_give(&hdi_space, first + from, to - from, false);
  if (units > to) give_touched(first + to, units - to);
  hdi_purge_note();
}

/* Regions whose guards the system did not open. */
static _Atomic(hd_unit *) shut;

static bool open_whole(const hd_unit *first) {
  hdi_counters_os_call(1);
  return hdi_os_commit(first->base, (size_t)first->run_units << HD_UNIT_SHIFT);
}

static void keep_shut(hd_unit *first) {
  hd_store_relaxed(&first->live, 0u);
  hdi_unit_push(&shut, first);
}

void hdi_region_give_guarded(void *region, size_t clean_from, size_t clean_to) {
  hd_unit *first = unit_of(region);
  if (open_whole(first)) hdi_region_give(region, clean_from, clean_to);
  else keep_shut(first);
}

void hdi_region_open_shut(void) {
  if (HD_LIKELY(hd_load_relaxed(&shut) == NULL)) return;
  hd_unit *first = hd_exchange(&shut, NULL);
  while (first != NULL) {
    hd_unit *next = first->next;
    hdi_region_give_guarded(first->base, 0, 0);
    first = next;
  }
}

bool hdi_region_guard(void *region, size_t offset, size_t bytes, bool on) {
  hdi_counters_os_call(1);
  return hdi_os_guard((uint8_t *)region + offset, bytes, on);
}

void hdi_region_want_huge(void *region, size_t offset, size_t bytes) {
  hd_unit *first = unit_of(region);
  size_t from = (offset + HD_UNIT_BYTES - 1) >> HD_UNIT_SHIFT;
  size_t to = (offset + bytes) >> HD_UNIT_SHIFT;
  if (to > from) hdi_space_want_huge(&hdi_space, first + from, to - from, HD_TOUCH_PERHAPS);
}

void hdi_region_note(void *region, size_t touched) { hd_store_relaxed(&unit_of(region)->touched, touched); }
