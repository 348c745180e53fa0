/* See parcel.h.
 * SPDX-License-Identifier: MIT */
#include "core/parcel.h"

#include "core/check.h"
#include "core/page.h"
#include "core/purge.h"

enum { PARCEL_BYTES = 64 * 1024 }; /* of blocks; then it is sent */

_Static_assert(HD_PARCEL_BLOCKS *(HD_SMALL_MAX + HD_SMALL_MAX / 8) >= PARCEL_BYTES, "no more than it has places for, of the smallest");

/* Where a heap remembers the parcel that it fills for this owner, or for another one. */
static size_t slot_of(const hd_heap *owner) {
  uintptr_t at = (uintptr_t)owner / (16 * 1024); /* as far as two heaps are apart at least */
  return (at ^ (at / HD_PARCEL_SLOTS)) % HD_PARCEL_SLOTS;
}

static void send(hd_heap *self, hd_parcel *parcel) {
  hd_heap *owner = hd_load_relaxed(&parcel->owner);
  parcel->room = 0;
  hd_store_owned(&self->parcels_open, self->parcels_open - 1);
  hd_parcel *first = hd_load_relaxed(&owner->arrived);
  do {
    parcel->next = first;
  } while (!hd_swap_if(&owner->arrived, &first, parcel)); /* release: pairs with hdi_parcel_take_in */
  hdi_purge_note();
}

/* In the child of a fork its owner may have vanished while it looked, and will not send it back. */
static bool is_back(hd_parcel *parcel) {
  hd_heap *owner = hd_load_acquire(&parcel->owner); /* pairs with hdi_parcel_take_in */
  return owner == NULL || (HD_UNLIKELY(hdi_page_torn) && parcel->room <= 0 && hd_load_relaxed(&owner->life) == HD_HEAP_DEAD);
}

static hd_parcel *find_back(hd_heap *self) {
  for (size_t i = 0; i < HD_PARCELS; i++) {
    if (is_back(&self->parcel[i])) return &self->parcel[i];
  }
  return NULL;
}

/* The parcel to fill for an owner, which is not the one that its slot has, or not any more. NULL: there is none. */
static hd_parcel *begin(hd_heap *self, hd_heap *owner, size_t slot) {
  hd_parcel *parcel = &self->parcel[self->parcel_of[slot]];
  if (parcel->room > 0 && slot_of(hd_load_relaxed(&parcel->owner)) == slot) send(self, parcel); /* another owner's of this slot */
  parcel = find_back(self);
  if (parcel == NULL) return NULL;
  self->parcel_of[slot] = (uint8_t)(parcel - self->parcel);
  parcel->count = 0;
  parcel->room = PARCEL_BYTES;
  hd_store_relaxed(&parcel->owner, owner);
  hd_store_owned(&self->parcels_open, self->parcels_open + 1);
  return parcel;
}

bool hdi_parcel_put(hd_heap *self, hd_unit *unit, void *p, hd_block_state *state) {
  if (HD_UNLIKELY(hdi_gate_is_inside(self) || !hdi_gate_try(self))) return false;
  hd_heap *owner = hdi_heap_owner(unit);
  size_t slot = slot_of(owner);
  hd_parcel *parcel = &self->parcel[self->parcel_of[slot]];
  if (HD_UNLIKELY(parcel->room <= 0 || hd_load_relaxed(&parcel->owner) != owner)) parcel = begin(self, owner, slot);
  if (HD_LIKELY(parcel != NULL)) {
    hd_store_relaxed(state, HD_BLOCK_SENT);
    parcel->block[parcel->count++] = p;
    parcel->room -= (int32_t)unit->block_bytes;
    if (parcel->room <= 0) send(self, parcel);
  }
  hdi_gate_leave(self);
  return parcel != NULL;
}

void hdi_parcel_flush(hd_heap *self) {
  for (size_t i = 0; i < HD_PARCELS && self->parcels_open > 0; i++) {
    if (self->parcel[i].room > 0) send(self, &self->parcel[i]);
  }
}

/* To its class's magazine, or to its page. */
static void take_in_block(hd_heap *owner, uint8_t *p) {
  hd_unit *unit = hdi_space_entry(p);
  hd_block_state *state = unit->map + hdi_unit_block_index(unit, p);
  if (HD_UNLIKELY(hd_load_relaxed(state) != HD_BLOCK_SENT)) HD_UNREACHABLE("a block sent twice: concurrent double frees");
  if (hdi_heap_keep_block(owner, unit, p, state)) return;
  if (hdi_free_local(unit->head, state)) hdi_heap_settle(owner, unit->head);
}

void hdi_parcel_take_in(hd_heap *owner) {
  hd_parcel *parcel = hd_exchange(&owner->arrived, NULL); /* acquire: pairs with send */
  while (parcel != NULL) {
    hd_parcel *next = parcel->next;
    for (uint32_t i = 0; i < parcel->count; i++) take_in_block(owner, parcel->block[i]);
    hd_store_release(&parcel->owner, NULL);
    parcel = next;
  }
}
