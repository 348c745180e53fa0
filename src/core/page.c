/* See page.h.
 * SPDX-License-Identifier: MIT */
#include "core/page.h"

#include <string.h>

#include "core/check.h"
#include "core/counters.h"
#include "core/remote.h"
#include "core/space_huge.h"
#include "core/store.h"
#include "os/os.h"

static size_t map_bytes(const hd_unit *page) { return hd_round_up(page->capacity, 64); }

/* Line 0 but for the owner and the kind, which make it valid. Stale and foreign pointers may lead others here at any time. */
static void set_line(hd_unit *unit, const hd_unit *made) {
  hd_store_owned(&unit->base, made->base);
  hd_store_owned(&unit->inverse, made->inverse);
  hd_store_owned(&unit->map, made->map);
  hd_store_owned(&unit->capacity, made->capacity);
  hd_store_owned(&unit->block_bytes, made->block_bytes);
  hd_store_owned(&unit->head, made->head);
  hd_store_owned(&unit->class_index, made->class_index);
  hd_store_owned(&unit->state, HD_PAGE_NONE);
  hd_store_owned(&unit->shift, made->shift);
  hd_store_owned(&unit->remote_limit, made->remote_limit);
  hd_store_owned(&unit->in_heap, made->in_heap);
  hd_store_relaxed(&unit->live, 0u);
}

bool hdi_page_init(hd_heap *heap, hd_unit *page, unsigned class_index, unsigned units, bool zeroed) {
  uint32_t block_bytes = hdi_sizeclass_bytes(class_index);
  unsigned shift = (unsigned)hd_lowest_bit(block_bytes);
  uint32_t capacity = (uint32_t)(((size_t)units << HD_UNIT_SHIFT) / block_bytes);
  bool medium = units > 1 || (class_index > HD_SMALL_CLASSES && !heap->explicit_heap);
  uintptr_t owner = (uintptr_t)heap | (medium ? HD_OWNER_MEDIUM : 0) | (heap->explicit_heap ? HD_OWNER_EXPLICIT : 0);
  if (heap->hardened != NULL) owner |= HD_OWNER_EXPLICIT | HD_OWNER_HARDENED;
  hd_block_state *map = hdi_store_take(hd_round_up(capacity, 64));
  if (map == NULL) return false;
  memset((void *)(map + capacity), HD_BLOCK_NONE, hd_round_up(capacity, 64) - capacity);
  hd_unit made = {
      .base = hdi_space_address(heap->space, page),
      .inverse = hd_inverse(block_bytes >> shift),
      .map = map,
      .capacity = capacity,
      .block_bytes = block_bytes,
      .head = page,
      .class_index = (uint8_t)class_index,
      .shift = (uint8_t)shift,
      .remote_limit = hdi_remote_limit(capacity, block_bytes),
      .in_heap = (uint16_t)(class_index <= HD_SMALL_CLASSES ? offsetof(hd_heap, class[class_index]) : hdi_heap_magazine_at(class_index)),
  };
  for (unsigned i = 0; i < units; i++) {
    hd_unit *unit = page + i;
    set_line(unit, &made);
    hd_store_relaxed(&unit->owner, owner);
    hd_store_release(&unit->kind, HD_UNIT_PAGE); /* pairs with hdi_page_look */
  }
  page->zeroed = zeroed;
  hd_store_owned(&page->credit, 0);
  page->rest = 0; /* group_at: when it becomes CURRENT, which it does at once */
  hd_store_owned(&page->fresh, 0);
  hd_store_relaxed(&page->remote_count, 0u);
  return true;
}

bool hdi_page_torn;

void hdi_page_clear(hd_unit *page) {
  for (uint32_t i = 0; i < page->run_units; i++) {
    hd_store_relaxed(&page[i].owner, (uintptr_t)0);
    hd_store_relaxed(&page[i].kind, HD_UNIT_NONE);
  }
  size_t from = hdi_page_torn ? 0 : page->capacity;
  memset((void *)(page->map + from), HD_BLOCK_FREE, map_bytes(page) - from);
  hdi_store_give((void *)page->map, map_bytes(page));
  hd_store_owned(&page->state, HD_PAGE_NONE);
}

uint32_t hdi_page_count_live(const hd_unit *page) {
  uint32_t live = 0;
  for (uint32_t i = 0; i < page->capacity; i++) live += hd_load_relaxed(&page->map[i]) == HD_BLOCK_LIVE;
  return live;
}

/* While the store is held a page that is still one stays so: hdi_page_clear gives its map back after it has unmarked the units. */
bool hdi_page_look(hd_unit *page, hd_page_view *view, uint8_t *states) {
  if (!hdi_store_hold()) return false;
  bool there = hd_load_acquire(&page->kind) == HD_UNIT_PAGE && page->head == page; /* pairs with hdi_page_init */
  if (there) {
    *view = (hd_page_view){
        .heap = hdi_heap_explicit_owner(page),
        .base = page->base,
        .bytes = (size_t)hd_peek(&page->run_units) << HD_UNIT_SHIFT,
        .block_bytes = page->block_bytes,
        .capacity = (uint32_t)page->capacity,
        .live = hdi_page_count_live(page),
    };
    for (uint32_t i = 0; states != NULL && i < view->capacity; i++) states[i] = hd_load_relaxed(&page->map[i]);
  }
  return hdi_store_let_go() && there;
}

static bool is_idle(const hd_unit *page, size_t index, uint64_t claimed) {
  if (hd_load_relaxed(&page->map[index]) != HD_BLOCK_FREE) return false;
  return (uint32_t)index - page->group_at >= 64 || (claimed >> index % 64 & 1) == 0;
}

/* Whether blocks [from, to) are all free and not claimed. */
static bool all_idle(const hd_unit *page, size_t from, size_t to, uint64_t claimed) {
  for (size_t i = from; i < to; i++) {
    if (!is_idle(page, i, claimed)) return false;
  }
  return true;
}

static bool purge_range(const hd_unit *page, size_t from, size_t to) {
  hdi_counters_os_call(1);
  hdi_space_before_purge(page->base + from, to - from);
  if (!hdi_os_purge(page->base + from, to - from)) return false;
  hdi_counters_purged(to - from);
  return true;
}

size_t hdi_page_purge_free(hd_unit *page, uint64_t claimed) {
  size_t step = hdi_os.page_bytes;
  size_t bytes = (size_t)page->run_units << HD_UNIT_SHIFT; /* what was never handed out may lie in a huge page that is resident */
  size_t purged = 0;
  size_t start = SIZE_MAX; /* of the idle stretch that is open */
  for (size_t at = 0; at < bytes + step; at += step) {
    size_t first = at / page->block_bytes;
    size_t last = hd_min((at + step - 1) / page->block_bytes + 1, page->capacity);
    bool idle = at < bytes && all_idle(page, first, last, claimed);
    if (idle && start == SIZE_MAX) start = at;
    if (idle || start == SIZE_MAX) continue;
    if (purge_range(page, start, at)) purged += at - start;
    start = SIZE_MAX;
  }
  return purged;
}
