/* See shelf.h.
 * SPDX-License-Identifier: MIT */
#include "core/shelf.h"

#include "core/store.h"

enum { KEEP_BYTES = 8 * 1024 }; /* of each size */

FAST hd_shelf_item *take_first(hd_shelf *shelf, unsigned bin) {
  hd_shelf_item *item = shelf->first[bin];
  hd_store_owned(&shelf->first[bin], item->next);
  *item = (hd_shelf_item){NULL, 0};
  return item;
}

void *hdi_shelf_take(hd_shelf *shelf, size_t bytes) {
  unsigned bin = hdi_store_bin(bytes);
  return bin < HD_SHELF_BINS && shelf->first[bin] != NULL ? take_first(shelf, bin) : hdi_store_take(bytes);
}

void hdi_shelf_give(hd_shelf *shelf, void *memory, size_t bytes, bool keep) {
  unsigned bin = hdi_store_bin(bytes);
  hd_shelf_item *first = bin < HD_SHELF_BINS ? shelf->first[bin] : NULL;
  size_t count = first == NULL ? 1 : first->count + 1;
  if (!keep || bin >= HD_SHELF_BINS || count * hdi_store_bin_bytes(bin) > KEEP_BYTES) {
    hdi_store_give(memory, bytes);
    return;
  }
  *(hd_shelf_item *)memory = (hd_shelf_item){first, count};
  hd_store_owned(&shelf->first[bin], (hd_shelf_item *)memory);
}

void hdi_shelf_clear(hd_shelf *shelf) {
  for (unsigned bin = 0; bin < HD_SHELF_BINS; bin++) {
    while (shelf->first[bin] != NULL) hdi_store_give(take_first(shelf, bin), hdi_store_bin_bytes(bin));
  }
}
