/* See space_fixed.h.
 * SPDX-License-Identifier: MIT */
#include "core/space_fixed.h"

#include <string.h>

#include "core/check.h"

enum { FIXED_MAX = 64 };

/* Where a fixed space lies. Whoever looks for a pointer reads nothing in the space itself, whose memory its owner may take away at
 * that very moment; and no half of one place with half of the next: a version that is odd, or another one afterwards, says that the
 * place was being changed, and then none of its pointers can be in the looker's hands. */
typedef struct place {
  _Atomic uint32_t version;
  _Atomic(hd_space *) space;  /* NULL: nothing lies here */
  _Atomic(uint8_t *) base;
  _Atomic(hd_unit *) units;
  _Atomic size_t count;
} place;

/* Fixed spaces that are alive, without a lock: a heap may be made while a fork is under way. */
static HD_LATER_DATA struct {
  place place[FIXED_MAX];
  _Atomic size_t count; /* places ever used */
} fixed;

bool hdi_space_init_fixed(hd_space *space, void *memory, size_t bytes, size_t header_bytes) {
  hd_unit **bins = (hd_unit **)hd_round_up((uintptr_t)memory + header_bytes, 64);
  uint8_t *table = (uint8_t *)(bins + 2 * HD_BIN_COUNT);
  uint8_t *end = (uint8_t *)memory + bytes;
  size_t count = (size_t)(end - table) >> HD_UNIT_SHIFT;
  uint8_t *base = NULL;
  for (;; count--) {
    if (count == 0 || table > end) return false;
    base = (uint8_t *)hd_round_up((uintptr_t)(table + count * sizeof(hd_unit)), HD_UNIT_BYTES);
    if (base + (count << HD_UNIT_SHIFT) <= end) break;
  }
  memset(space, 0, sizeof *space);
  memset((void *)bins, 0, 2 * HD_BIN_COUNT * sizeof *bins);
  memset(table, 0, count * sizeof(hd_unit));
  space->clean.bin = bins;
  space->dirty.bin = bins + HD_BIN_COUNT;
  space->base = base;
  space->units = (hd_unit *)table;
  space->unit_count = count;
  space->fixed = true;
  space->committed = count;
  return true;
}

/* Whether a place is still what it was when its version was read. */
static bool is_same(const place *here, uint32_t version) {
  atomic_thread_fence(memory_order_acquire); /* pairs with the one in set_place */
  return version % 2 == 0 && hd_load_relaxed(&here->version) == version;
}

/* Whoever calls has made the version odd. NULL: nothing lies here any more. */
static void set_place(place *here, hd_space *space) {
  atomic_thread_fence(memory_order_release);
  hd_store_relaxed(&here->space, space);
  hd_store_relaxed(&here->base, space == NULL ? NULL : space->base);
  hd_store_relaxed(&here->units, space == NULL ? NULL : space->units);
  hd_store_relaxed(&here->count, space == NULL ? 0 : space->unit_count);
  hd_store_release(&here->version, hd_load_relaxed(&here->version) + 1);
}

hd_unit *hdi_space_fixed_find(const void *p) {
  hd_unit *unit = NULL;
  size_t count = hd_load_acquire(&fixed.count);
  for (size_t i = 0; i < count && unit == NULL; i++) {
    const place *here = &fixed.place[i];
    uint32_t version = hd_load_acquire(&here->version);
    size_t at = ((uintptr_t)p - (uintptr_t)hd_load_relaxed(&here->base)) >> HD_UNIT_SHIFT;
    if (at < hd_load_relaxed(&here->count)) unit = hd_load_relaxed(&here->units) + at;
    if (unit != NULL && !is_same(here, version)) unit = NULL;
  }
  return unit;
}

hd_space *hdi_space_fixed_of(const hd_unit *unit) {
  size_t count = hd_load_acquire(&fixed.count);
  for (size_t i = 0; i < count; i++) {
    const place *here = &fixed.place[i];
    uint32_t version = hd_load_acquire(&here->version);
    hd_space *space = hd_load_relaxed(&here->space);
    uintptr_t offset = (uintptr_t)unit - (uintptr_t)hd_load_relaxed(&here->units);
    if (offset < hd_load_relaxed(&here->count) * sizeof *unit && is_same(here, version)) return space;
  }
  return NULL;
}

/* Without a lock: a heap may be made while a fork is under way. */
bool hdi_space_publish(hd_space *space) {
  for (size_t i = 0; i < FIXED_MAX; i++) {
    place *here = &fixed.place[i];
    uint32_t version = hd_load_acquire(&here->version);
    if (version % 2 != 0 || hd_load_relaxed(&here->space) != NULL) continue;
    if (!hd_swap_if(&here->version, &version, version + 1)) continue; /* somebody else is at this place */
    set_place(here, space);
    size_t count = hd_load_relaxed(&fixed.count);
    while (count <= i && !hd_swap_if(&fixed.count, &count, i + 1)) {
    }
    return true;
  }
  return false;
}

void hdi_space_retract(hd_space *space) {
  for (size_t i = 0; i < FIXED_MAX; i++) {
    place *here = &fixed.place[i];
    if (hd_load_relaxed(&here->space) != space) continue;
    hd_store_relaxed(&here->version, hd_load_relaxed(&here->version) + 1); /* the place is this space's: nobody else changes it */
    set_place(here, NULL);
  }
}
