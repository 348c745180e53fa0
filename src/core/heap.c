/* See heap.h: refilling slots and the life of pages.
 * SPDX-License-Identifier: MIT */
#include "core/heap.h"

#include "core/check.h"
#include "core/claim.h"
#include "core/page.h"
#include "core/remote.h"

hd_heap hdi_heap_empty;
__thread hd_heap *hdi_heap_self __attribute__((tls_model("initial-exec"))) = &hdi_heap_empty;
__thread hd_heap *hdi_heap_hidden __attribute__((tls_model("initial-exec"))) = &hdi_heap_empty;

void hdi_heap_init(hd_heap *heap, hd_space *space) {
  heap->space = space;
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    heap->class[i].step = (uint32_t)hd_max(1, hd_min(64, HD_STEP_BYTES / hdi_sizeclass_bytes(i)));
  }
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static hd_unit *run_at(const hd_heap *heap, uint32_t index) { return heap->space->units + index - 1; }

static void list_run(hd_heap *heap, hd_unit *first) {
  uint32_t index = (uint32_t)(first - heap->space->units) + 1;
  first->run_prev = 0;
  first->run_next = heap->runs;
  if (heap->runs != 0) run_at(heap, heap->runs)->run_prev = index;
  heap->runs = index;
}

static void unlist_run(hd_heap *heap, hd_unit *first) {
  if (first->run_next != 0) run_at(heap, first->run_next)->run_prev = first->run_prev;
  if (first->run_prev != 0) run_at(heap, first->run_prev)->run_next = first->run_next;
  else heap->runs = first->run_next;
}

static hd_unit *take_run(hd_heap *heap, size_t units, size_t align_units, bool *zeroed) {
  if (heap->limit_units != 0 && units > heap->limit_units - heap->held_units) return NULL;
  hd_unit *first = hdi_space_take(heap->space, units, align_units, zeroed);
  if (first == NULL) return NULL;
  if (heap->explicit_heap) {
    heap->held_units += units;
    list_run(heap, first);
  }
  return first;
}

hd_unit *hdi_heap_take_run(hd_heap *heap, size_t units, size_t align_units, bool *zeroed) {
  *zeroed = false;
  if (units <= HD_CACHE_RUN && heap->cached[units] != NULL && align_units == 1) return hdi_heap_take_cached(heap, units);
  if (heap->one_user) hdi_lock_take(&heap->lock);
  hd_unit *first = take_run(heap, units, align_units, zeroed);
  if (heap->one_user) hdi_lock_drop(&heap->lock);
  return first;
}

void hdi_heap_give_run(hd_heap *heap, hd_unit *first, size_t units, bool dirty) {
  if (heap->one_user) {
    hdi_lock_take(&heap->lock);
    heap->held_units -= units;
    unlist_run(heap, first);
    hdi_lock_drop(&heap->lock);
  } else if (heap->explicit_heap) {
    heap->held_units -= units;
    unlist_run(heap, first);
  } else if (dirty && units <= HD_CACHE_RUN && heap->cached_units + units <= HD_CACHE_UNITS) {
    first->next = heap->cached[units];
    hd_store_owned(&heap->cached[units], first);
    heap->cached_units += (uint32_t)units;
    return;
  }
  hdi_space_give(heap->space, first, units, dirty);
}

void hdi_heap_give_all(hd_heap *heap) {
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    hd_store_owned(&heap->slot[i].bits, 0);
    heap->class[i].page = heap->class[i].first = NULL;
    heap->class[i].page_count = 0;
  }
  hd_store_relaxed(&heap->inbox, NULL);
  while (heap->runs != 0) {
    hd_unit *first = run_at(heap, heap->runs);
    size_t units = first->run_units;
    if (hd_load_relaxed(&first->kind) == HD_UNIT_PAGE) {
      for (uint32_t i = 0; i < first->capacity; i++) hd_store_relaxed(&first->map[i], HD_BLOCK_FREE);
      hdi_page_clear(first);
    } else {
      hd_store_relaxed(&first->live, 0u);
      hd_store_relaxed(&first->owner, (uintptr_t)0);
      hd_store_relaxed(&first->kind, HD_UNIT_NONE);
    }
    hdi_heap_give_run(heap, first, units, true);
  }
}

/* ---- lists of partly used pages ---------------------------------------------------------------------------------- */

static void link_first(hd_class *class, hd_unit *page) {
  page->prev = NULL;
  page->next = class->first;
  if (page->next != NULL) page->next->prev = page;
  class->first = page;
}

static void unlink_page(hd_class *class, hd_unit *page) {
  if (page->next != NULL) page->next->prev = page->prev;
  if (page->prev != NULL) page->prev->next = page->next;
  else class->first = page->next;
}

/* ---- the life of a page ------------------------------------------------------------------------------------------ */

void hdi_heap_drop_cache(hd_heap *heap) {
  for (size_t units = 1; units <= HD_CACHE_RUN && heap->cached_units > 0; units++) {
    while (heap->cached[units] != NULL) hdi_space_give(heap->space, hdi_heap_take_cached(heap, units), units, true);
  }
}

void hdi_heap_release(hd_heap *heap, hd_unit *page) {
  size_t units = page->run_units;
  hdi_page_clear(page);
  heap->class[page->class_index].page_count--;
  hdi_heap_give_run(heap, page, units, true);
}

/* First in the list, whoever freed: pages near to full fill up again, and those that wait behind them run empty and go back. */
static void make_partial(hd_heap *heap, hd_unit *page) {
  hd_class *class = &heap->class[page->class_index];
  hd_store_owned(&page->credit, hdi_page_used(page));
  hd_store_owned(&page->state, HD_PAGE_PARTIAL);
  link_first(class, page);
}

/* A page without enough free blocks leaves the slot. It comes back when an eighth of it is free. */
static void make_full(hd_unit *page) {
  uint32_t used = hdi_page_used(page);
  uint32_t unused = used < page->capacity ? (uint32_t)page->capacity - used : 0;
  uint32_t eighth = (uint32_t)page->capacity / 8;
  uint32_t credit = eighth > unused + 1 ? eighth - unused : 1;
  if (credit > used) credit = used;
  hd_store_owned(&page->state, HD_PAGE_FULL);
  hd_store_owned(&page->credit, credit);
  page->rest = used - credit;
}

static void make_current(hd_class *class, hd_unit *page) {
  hd_store_owned(&page->credit, hdi_page_used(page) + 1);
  hd_store_owned(&page->state, HD_PAGE_CURRENT);
  page->group = UINT32_MAX; /* the first claim looks from the start */
  class->page = page;
}

void hdi_heap_settle(hd_heap *heap, hd_unit *page) {
  hd_class *class = &heap->class[page->class_index];
  if (page->credit != 0) return;
  HD_ASSERT(page->state != HD_PAGE_CURRENT);
  switch (page->state) {
    case HD_PAGE_FULL:
      make_partial(heap, page);
      if (page->credit == 0) hdi_heap_settle(heap, page);
      break;
    case HD_PAGE_PARTIAL:
      if (hdi_remote_is_queued(page)) break; /* the drain comes back to it */
      unlink_page(class, page);
      hdi_heap_release(heap, page);
      break;
    default:
      HD_UNREACHABLE("a page in no state");
  }
}

bool hdi_heap_take_over(hd_heap *heap, hd_unit *page) {
  hd_class *class = &heap->class[page->class_index];
  hd_slot *slot = &heap->slot[page->class_index];
  hd_unit *used_up = class->page;
  if (page->state != HD_PAGE_FULL || page->capacity > 64 || slot->bits != 0) return false;
  if (used_up == NULL || used_up->credit <= used_up->capacity) return false;
  uint32_t used = used_up->credit - 1; /* more than there are blocks while remote frees are not counted */
  uint32_t eighth = (uint32_t)used_up->capacity / 8;
  hd_store_owned(&used_up->state, HD_PAGE_FULL);
  hd_store_owned(&used_up->credit, eighth + (eighth == 0));
  used_up->rest = used - used_up->credit;
  uint64_t bits = hdi_claim_free_in(page);
  hd_store_owned(&page->state, HD_PAGE_CURRENT);
  hd_store_owned(&page->credit, page->rest + 1 + hdi_claim_count(bits));
  class->page = page;
  hdi_claim_point(page, slot, class, 0, bits);
  return true;
}

bool hdi_heap_unclaim(hd_heap *heap, hd_unit *page) {
  hd_class *class = &heap->class[page->class_index];
  hd_slot *slot = &heap->slot[page->class_index];
  if (page->class_index <= HD_SMALL_CLASSES || class->page != page) return false;
  hd_store_owned(&page->credit, page->credit - hd_bit_count(slot->bits));
  hd_store_owned(&slot->bits, 0);
  class->page = NULL;
  make_partial(heap, page);
  hdi_heap_settle(heap, page);
  return true;
}

void hdi_heap_credit_remote(hd_heap *heap, hd_unit *page, uint32_t count) {
  uint32_t used = hdi_page_used(page);
  if (HD_UNLIKELY(count > used)) HD_UNREACHABLE("more blocks freed than were live: concurrent double frees");
  if (page->state == HD_PAGE_FULL && count >= page->credit) {
    make_partial(heap, page);
    hd_store_owned(&page->credit, used - count);
  } else {
    hd_store_owned(&page->credit, page->credit - count);
  }
  hdi_heap_settle(heap, page);
}

static bool claim(hd_heap *heap, unsigned class_index) {
  hd_class *class = &heap->class[class_index];
  hd_unit *page = class->page;
  hd_store_owned(&page->credit, page->credit - hdi_remote_take(page));
  uint32_t fresh = page->fresh;
  if (!hdi_claim_next(page, &heap->slot[class_index], class)) return false;
  if (page->fresh != fresh && class->step < 64 && class->step * page->block_bytes < HD_STEP_BYTES_MAX) class->step *= 2;
  return true;
}

static hd_unit *new_page(hd_heap *heap, unsigned class_index) {
  unsigned units = hdi_sizeclass_units(hdi_sizeclass_bytes(class_index));
  bool zeroed = false;
  hd_unit *page = hdi_heap_take_run(heap, units, 1, &zeroed);
  if (page == NULL) return NULL;
  if (!hdi_page_init(heap, page, class_index, units, zeroed)) {
    hdi_heap_give_run(heap, page, units, !zeroed);
    return NULL;
  }
  heap->class[class_index].page_count++;
  return page;
}

bool hdi_heap_refill(hd_heap *heap, unsigned class_index) {
  hd_class *class = &heap->class[class_index];
  if (class->page != NULL) {
    if (HD_LIKELY(claim(heap, class_index))) return true;
    make_full(class->page);
    class->page = NULL;
  }
  hdi_remote_drain(heap);
  while (class->first != NULL) {
    hd_unit *page = class->first;
    unlink_page(class, page);
    make_current(class, page);
    if (claim(heap, class_index)) return true;
    make_full(page);
    class->page = NULL;
  }
  hd_unit *page = new_page(heap, class_index);
  if (page == NULL) return false;
  make_current(class, page);
  return claim(heap, class_index);
}
