/* See shelf.h.
 * SPDX-License-Identifier: MIT */
#include "core/shelf.h"

#include "core/store.h"

enum { KEEP_BYTES = 8 * 1024 }; /* of each size */

static hd_shelf_item *take_first(hd_shelf *shelf, unsigned bin) {
  hd_shelf_item *item = shelf->first[bin];
  shelf->first[bin] = item->next;
  *item = (hd_shelf_item){NULL, 0};
  return item;
}

void *hdi_shelf_take(hd_shelf *shelf, size_t bytes) {
  unsigned bin = hdi_store_bin(bytes);
  return bin < HD_SHELF_BINS && shelf->first[bin] != NULL ? take_first(shelf, bin) : NULL;
}

bool hdi_shelf_keep(hd_shelf *shelf, void *memory, size_t bytes) {
  unsigned bin = hdi_store_bin(bytes);
  if (bin >= HD_SHELF_BINS) return false;
  hd_shelf_item *item = memory, *first = shelf->first[bin];
  size_t count = first == NULL ? 1 : first->count + 1;
  if (count * hdi_store_bytes(bytes) > KEEP_BYTES) return false;
  *item = (hd_shelf_item){first, count};
  shelf->first[bin] = item;
  return true;
}

void hdi_shelf_clear(hd_shelf *shelf) {
  for (unsigned bin = 0; bin < HD_SHELF_BINS; bin++) {
    while (shelf->first[bin] != NULL) hdi_store_give(take_first(shelf, bin), (size_t)HD_STORE_MIN << bin);
  }
}
