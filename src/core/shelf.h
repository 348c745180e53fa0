/* Shelves: maps and words of pages that a heap has given up, for its next ones.
 *
 * A thread that takes many blocks and drops them all makes and clears pages all the time, and would have the store's lock for two items of
 * each; so would the next thread. A shelf has a list for each size, up to 8 KiB of them. What lies there reads as zero but for its link,
 * and counts as used.
 * Who may call: the heap's owner inside its gate, or whoever holds the heap. Above: page.c, heap.c. Below: store.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_SHELF_H
#define HD_CORE_SHELF_H

#include <stdbool.h>
#include <stddef.h>

#include "base/atomic.h"

enum { HD_SHELF_BINS = 6 }; /* the store's sizes up to 2 KiB */

typedef struct hd_shelf_item {
  struct hd_shelf_item *next;
  size_t count; /* items from this one on */
} hd_shelf_item;

typedef struct hd_shelf {
  hd_shelf_item *first[HD_SHELF_BINS];
} hd_shelf;

/* As hdi_store_take, but from the shelf if it has one. */
void *hdi_shelf_take(hd_shelf *shelf, size_t bytes);

/* As hdi_store_give, but to the shelf if it has room and may keep it. */
void hdi_shelf_give(hd_shelf *shelf, void *memory, size_t bytes, bool keep);

/* Give all of it back to the store. */
void hdi_shelf_clear(hd_shelf *shelf);

/* Whether anything lies there. Any thread: the answer may be old at once. */
static inline bool hdi_shelf_has_any(hd_shelf *shelf) {
  bool any = false;
  for (unsigned bin = 0; bin < HD_SHELF_BINS; bin++) any |= hd_peek(&shelf->first[bin]) != NULL;
  return any;
}

#endif
