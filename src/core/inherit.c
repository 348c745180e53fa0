/* See inherit.h.
 * SPDX-License-Identifier: MIT */
#include "core/inherit.h"

#include <string.h>

#include "core/check.h"
#include "core/gate.h"
#include "core/page.h"
#include "core/store.h"

enum {
  LEAST_UNITS = 64, /* 4 MiB; a smaller heap has a page or two of each class, and new ones would be touched in their place */
  NEW_SHARE = 4     /* a quarter */
};

/* Units in pages from which on the heap takes its parent's once more. */
FAST uint32_t most_units(const hd_heap *heap) { return hdi_heap_page_units(heap) + hdi_heap_page_units(heap) / NEW_SHARE; }

SLOW void hdi_inherit_begin(hd_heap *heap) {
  if (heap->hardened != NULL || hdi_gate_is_inside(heap)) return; /* a fork in a signal handler */
  if (hdi_heap_page_units(heap) < LEAST_UNITS) return;
  hdi_gate_enter(heap);
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    hd_class *class = &heap->class[i];
    if (class->page == NULL) continue;
    hd_store_owned(&class->slot.word_at, 0);
    class->turn = HD_TURN_INHERITED;
  }
  if (heap->inherited != NULL) heap->inherited->run_units = most_units(heap);
  hdi_gate_leave(heap);
}

/* A ring, so that a page can leave it without knowing where it begins: what heads it is no page. */
static hd_unit *ring_of(hd_heap *heap) {
  if (heap->inherited != NULL) return heap->inherited;
  hd_unit *ring = hdi_store_take(sizeof(hd_unit));
  if (ring == NULL) return NULL;
  ring->next = ring->prev = ring;
  ring->run_units = most_units(heap);
  heap->inherited = ring;
  return ring;
}

SLOW uint64_t hdi_inherit_leave(hd_heap *heap, hd_class *class) {
  class->turn = 0;
  hd_unit *ring = ring_of(heap);
  if (ring == NULL) return 0;
  HD_ASSERT(class->page != NULL); /* whoever takes it away ends the turn */
  hdi_heap_unclaim(heap, class->page);
  hd_unit *first = class->first;
  if (first == NULL) return 0;
  hd_unit *last = first->prev;
  class->first = NULL;
  first->prev = ring->prev;
  ring->prev->next = first;
  last->next = ring;
  ring->prev = last;
  return 0;
}

static void rejoin(hd_heap *heap, hd_unit *ring) {
  heap->inherited = NULL;
  for (hd_unit *page = ring->next, *next; page != ring; page = next) {
    next = page->next;
    hdi_heap_make_partial(heap, page, hdi_page_used(page));
  }
  memset((void *)ring, 0, sizeof(hd_unit));
  hdi_store_give(ring, sizeof(hd_unit));
}

SLOW void hdi_inherit_check(hd_heap *heap) {
  if (hdi_heap_page_units(heap) >= heap->inherited->run_units) rejoin(heap, heap->inherited);
}

SLOW void hdi_inherit_end(hd_heap *heap) {
  hdi_gate_enter(heap);
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    if (heap->class[i].turn == HD_TURN_INHERITED) heap->class[i].turn = 0;
  }
  if (heap->inherited != NULL) rejoin(heap, heap->inherited);
  hdi_gate_leave(heap);
}
