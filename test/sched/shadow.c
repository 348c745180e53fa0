/* See shadow.h.
 * SPDX-License-Identifier: MIT */
#include "shadow.h"

#include <string.h>

#include "core/page.h"
#include "core/purge.h"
#include "core/remote.h"
#include "core/thread.h"

enum { LIVE_MAX = 256 };

#define MARK 0x5afe0000b10cb10cu

static struct {
  uint8_t *p;
  size_t bytes;
} live[LIVE_MAX];
static unsigned live_count;
static bool loss_expected;
enum { VANISHED = 2 }; /* threads that are not in the child, at most */
static const hd_unit *rested; /* a page that audit_pages found outside a slot */

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static uint64_t read_word(const void *p) {
  uint64_t value = 0;
  memcpy(&value, p, sizeof value);
  return value;
}

static void write_marks(unsigned i, uint64_t mark) {
  memcpy(live[i].p, &mark, sizeof mark);
  memcpy(live[i].p + live[i].bytes - sizeof mark, &mark, sizeof mark);
}

static uint64_t mark_of(unsigned i) { return MARK ^ (uintptr_t)live[i].p; }

static void check_marks(unsigned i) {
  uint64_t mark = mark_of(i);
  if (read_word(live[i].p) != mark || read_word(live[i].p + live[i].bytes - sizeof mark) != mark) {
    sched_fail("live block %p lost its content", (void *)live[i].p);
  }
}

void shadow_live(void *p, size_t bytes) {
  if (p == NULL) sched_fail("out of memory");
  if (live_count == LIVE_MAX) sched_fail("the model has too many live blocks");
  for (unsigned i = 0; i < live_count; i++) {
    if ((uint8_t *)p < live[i].p + live[i].bytes && live[i].p < (uint8_t *)p + bytes) sched_fail("block %p handed out twice", p);
  }
  live[live_count].p = p;
  live[live_count].bytes = bytes;
  write_marks(live_count++, MARK ^ (uintptr_t)p);
}

static unsigned find(const void *p) {
  for (unsigned i = 0; i < live_count; i++) {
    if (live[i].p == p) return i;
  }
  sched_fail("the model frees %p, which is not live", p);
}

void shadow_dead(void *p) {
  unsigned i = find(p);
  check_marks(i);
  write_marks(i, 0);
  live[i] = live[--live_count];
}

void shadow_in_doubt(void *p) {
  unsigned i = find(p);
  live[i] = live[--live_count];
}

void shadow_begin(void) {
  for (unsigned i = 0; i < live_count; i++) write_marks(i, mark_of(i));
}

void shadow_expect_loss(void) { loss_expected = true; }

size_t shadow_live_count(void) { return live_count; }

/* ---- accounts ---------------------------------------------------------------------------------------------------- */

static hd_heap *owner_of(hd_unit *page) { return (hd_heap *)(atomic_load(&page->owner) & ~(uintptr_t)HD_OWNER_BITS); }

/* Counted in the tables of all heaps, and announced but not taken in. */
static uint32_t untold(hd_unit *page) {
  uint32_t count = atomic_load(&page->remote_count) & ~HD_REMOTE_QUEUED;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    for (unsigned i = 0; i < HD_REMOTE_TABLE; i++) {
      if (heap->remote[i].page == page) count += heap->remote[i].limit - heap->remote[i].left;
    }
  }
  return count;
}

static bool stands_in_list(const hd_class *class, const hd_unit *page) {
  unsigned found = 0, length = 0;
  for (const hd_unit *at = class->first; at != NULL; at = at->next) {
    found += at == page;
    if (++length > 1000) sched_fail("a list of pages goes round in circles");
  }
  return found == 1;
}

/* Its owner's, or that of one who will pass it on. */
static bool stands_in_inbox(const hd_unit *page) {
  unsigned found = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    unsigned length = 0;
    for (hd_unit *at = atomic_load(&heap->inbox); at != NULL; at = at->remote_next) {
      found += at == page;
      if (++length > 1000) sched_fail("an inbox goes round in circles");
    }
  }
  if (found > 1) sched_fail("a page stands twice in an inbox");
  return found == 1;
}

/* A block that a word or the slot offers is free by its byte, and was handed out before; and no two of them offer it. */
static void audit_words(const hd_unit *page) {
  bool current = page->state == HD_PAGE_CURRENT;
  for (uint32_t i = 0; i < page->capacity; i++) {
    bool in_word = (page->words[i / 64] >> i % 64 & 1) != 0;
    bool apart = current && page->group == i / 64 && (page->apart >> i % 64 & 1) != 0;
    SCHED_CHECK(!(in_word && apart));
    if (in_word || apart) SCHED_CHECK(atomic_load(&page->map[i]) == HD_BLOCK_FREE && i < page->fresh);
  }
}

static void audit_page(hd_unit *page) {
  hd_heap *heap = owner_of(page);
  if (heap == NULL && loss_expected) return;
  if (heap == NULL) sched_fail("a page without an owner");
  if (atomic_load(&heap->life) == HD_HEAP_DEAD) return;
  const hd_class *class = &heap->class[page->class_index];
  uint32_t used = hdi_page_used(page);
  uint32_t known = 0;
  for (uint32_t i = 0; i < page->capacity; i++) {
    unsigned state = atomic_load(&page->map[i]);
    known += state == HD_BLOCK_LIVE || state == HD_BLOCK_CACHED || state == HD_BLOCK_SENT;
  }
  audit_words(page);
  uint32_t counted = untold(page);
  /* In the child of a fork each vanished thread may have had one block in its hands, and one page. */
  uint32_t off = loss_expected ? VANISHED : 0;
  if (used > known + counted + off || used + off < known + counted) {
    sched_fail("page %zu, state %u: in use %u, but %u live, cached or sent + %u counted", (size_t)(page - hdi_space.units), page->state,
               used, known, counted);
  }
  SCHED_CHECK((class->page == page) == (page->state == HD_PAGE_CURRENT));
  SCHED_CHECK(stands_in_list(class, page) == (page->state == HD_PAGE_PARTIAL));
  if (loss_expected) return;
  bool queued = (atomic_load(&page->remote_count) & HD_REMOTE_QUEUED) != 0;
  uintptr_t word = atomic_load(&page->owner);
  SCHED_CHECK(stands_in_inbox(page) == queued);
  SCHED_CHECK((word & HD_OWNER_LOOSE) == 0 || page->state == HD_PAGE_FULL);
  SCHED_CHECK((word & HD_OWNER_SWEPT) == 0);
  SCHED_CHECK(page->state != HD_PAGE_FULL || page->credit != 0 || queued);
  SCHED_CHECK(page->state != HD_PAGE_PARTIAL || page->credit != 0 || queued);
}

static bool is_deferred(const hd_unit *unit) {
  for (hd_unit *at = atomic_load(&hdi_space.deferred); at != NULL; at = at->next) {
    if (at == unit) return true;
  }
  return false;
}

void shadow_check_space(size_t lost) {
  size_t top = atomic_load(&hdi_space.top);
  size_t free_units = 0, missing = 0;
  unsigned before = HD_UNIT_NONE;
  for (size_t at = 0; at < top;) {
    hd_unit *unit = hdi_space.units + at;
    unsigned kind = atomic_load(&unit->kind);
    bool is_run = kind != HD_UNIT_NONE || is_deferred(unit);
    size_t units = is_run ? unit->run_units : 1;
    if (units == 0 || units > top - at) sched_fail("unit %zu: a run of %zu units", at, units);
    if (kind == HD_UNIT_CLEAN || kind == HD_UNIT_DIRTY || kind == HD_UNIT_SPARSE) {
      SCHED_CHECK(unit[units - 1].run_units == units && atomic_load(&unit[units - 1].kind) == kind);
      SCHED_CHECK(kind != before || kind == HD_UNIT_SPARSE);
      free_units += units;
    }
    if (!is_run) missing++;
    before = kind;
    at += units;
  }
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (heap->ahead.units > missing) sched_fail("a heap has %u units ahead, and %zu are taken", heap->ahead.units, missing);
    missing -= heap->ahead.units;
    if (heap->row_units > missing) sched_fail("a heap has %u units in rows, and %zu are taken", heap->row_units, missing);
    missing -= heap->row_units;
  }
  if (missing > lost) sched_fail("%zu units belong to nobody", missing);
  SCHED_CHECK(free_units == atomic_load(&hdi_space.free_units));
}

static bool is_used(const hd_heap *heap) { return heap != NULL && atomic_load(&heap->life) != HD_HEAP_DEAD; }

static unsigned audit_pages(void) {
  unsigned resting = 0;
  for (size_t at = 0; at < atomic_load(&hdi_space.top); at++) {
    hd_unit *unit = hdi_space.units + at;
    if (atomic_load(&unit->kind) != HD_UNIT_PAGE || unit->head != unit) continue;
    audit_page(unit);
    if (unit->state == HD_PAGE_CURRENT || !is_used(owner_of(unit))) continue;
    if (resting++ == 0) rested = unit;
  }
  return resting;
}

/* What stands in the heap's magazines is marked so, and nothing else in its pages is. */
static void audit_magazines(hd_heap *heap) {
  unsigned standing = 0, marked = 0;
  for (unsigned i = HD_SMALL_CLASSES + 1; i < HD_CLASS_COUNT; i++) {
    hd_magazine *magazine = hdi_heap_magazine(heap, i);
    SCHED_CHECK(magazine->first <= magazine->top && magazine->top <= magazine->end);
    for (const hd_cached *at = magazine->first; at < magazine->top; at++, standing++) {
      hd_unit *unit = hdi_space_find(at->block);
      SCHED_CHECK(unit != NULL && unit->class_index == i && owner_of(unit->head) == heap);
      SCHED_CHECK(at->state == unit->map + hdi_unit_block_index(unit, at->block));
      SCHED_CHECK(atomic_load(at->state) == HD_BLOCK_CACHED);
    }
  }
  for (size_t at = 0; at < atomic_load(&hdi_space.top); at++) {
    hd_unit *unit = hdi_space.units + at;
    if (atomic_load(&unit->kind) != HD_UNIT_PAGE || unit->head != unit || owner_of(unit) != heap) continue;
    for (uint32_t i = 0; i < unit->capacity; i++) marked += atomic_load(&unit->map[i]) == HD_BLOCK_CACHED;
  }
  if (standing != marked) sched_fail("%u blocks are marked as cached, %u stand in magazines", marked, standing);
}

/* The blocks of a parcel; owner: the heap in whose list it stands, NULL while it is being filled. */
static unsigned audit_parcel(hd_parcel *parcel, hd_heap *owner) {
  hd_heap *to = atomic_load(&parcel->owner);
  SCHED_CHECK(to != NULL && (owner == NULL || owner == to) && (parcel->room > 0) == (owner == NULL));
  SCHED_CHECK(parcel->count > 0 && parcel->count <= HD_PARCEL_BLOCKS);
  for (uint32_t i = 0; i < parcel->count; i++) {
    hd_unit *unit = hdi_space_find(parcel->block[i]);
    SCHED_CHECK(unit != NULL && owner_of(unit->head) == to);
    SCHED_CHECK(atomic_load(&unit->map[hdi_unit_block_index(unit, parcel->block[i])]) == HD_BLOCK_SENT);
  }
  return parcel->count;
}

/* What stands in parcels is marked so, and nothing else is. */
static void audit_parcels(void) {
  unsigned standing = 0, marked = 0, open = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    for (unsigned i = 0; i < HD_PARCELS; i++) {
      if (heap->parcel[i].room <= 0) continue;
      standing += audit_parcel(&heap->parcel[i], NULL);
      open++;
    }
    if (open != heap->parcels_open) sched_fail("%u parcels are being filled, %u are counted", open, heap->parcels_open);
    open = 0;
    for (hd_parcel *parcel = atomic_load(&heap->arrived); parcel != NULL; parcel = parcel->next) standing += audit_parcel(parcel, heap);
  }
  for (size_t at = 0; at < atomic_load(&hdi_space.top); at++) {
    hd_unit *unit = hdi_space.units + at;
    if (atomic_load(&unit->kind) != HD_UNIT_PAGE || unit->head != unit) continue;
    for (uint32_t i = 0; i < unit->capacity; i++) marked += atomic_load(&unit->map[i]) == HD_BLOCK_SENT;
  }
  if (standing != marked) sched_fail("%u blocks are marked as sent, %u stand in parcels", marked, standing);
}

static bool has_counts(const hd_heap *heap) {
  if (heap->parcels_open != 0) return true;
  for (unsigned i = 0; i < HD_REMOTE_TABLE; i++) {
    if (heap->remote[i].page != NULL) return true;
  }
  return false;
}

void shadow_audit(void) {
  for (unsigned i = 0; i < live_count; i++) {
    check_marks(i);
    hd_unit *unit = hdi_space_find(live[i].p);
    SCHED_CHECK(unit != NULL);
    if (atomic_load(&unit->kind) == HD_UNIT_LARGE) continue;
    if (atomic_load(&unit->kind) != HD_UNIT_PAGE) sched_fail("the page of live block %p was released", (void *)live[i].p);
    uint64_t index = hdi_unit_block_index(unit, live[i].p);
    if (index >= unit->capacity || atomic_load(&unit->map[index]) != HD_BLOCK_LIVE) {
      sched_fail("live block %p is free by its map", (void *)live[i].p);
    }
  }
  audit_pages();
  if (!loss_expected) audit_parcels();
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (atomic_load(&heap->stopped) != 0 || heap->held) sched_fail("a heap stays stopped");
    if (atomic_load(&heap->busy) != 0 && atomic_load(&heap->life) != HD_HEAP_DEAD) sched_fail("a heap's gate stays entered");
    if (atomic_load(&heap->lock.word) != 0) sched_fail("a heap stays locked");
    if (atomic_load(&heap->life) != HD_HEAP_DEAD && !loss_expected) audit_magazines(heap);
    if (atomic_load(&heap->life) == HD_HEAP_ORPHAN && has_counts(heap)) sched_fail("a thread took untold counts with it");
  }
}

static void take_in_all(void) {
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (!is_used(heap) || heap->explicit_heap) continue;
    hdi_remote_drain(heap);
    hdi_heap_drop_cache(heap);
  }
}

void shadow_finish(void) {
  shadow_audit();
  while (live_count > 0) {
    void *p = live[live_count - 1].p;
    shadow_dead(p);
    hdi_free(p);
  }
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (atomic_load(&heap->life) != HD_HEAP_DEAD) hdi_remote_flush(heap);
  }
  take_in_all();
  unsigned lost = loss_expected ? VANISHED : 0;
  if (audit_pages() <= lost) return;
  hdi_purge_collect(0); /* counts too small to tell an owner about are the collector's business */
  take_in_all();
  if (audit_pages() <= lost) return;
  sched_fail("page %zu with no live block is not released: state %u, credit %u, rest %u, counted %u", (size_t)(rested - hdi_space.units),
             rested->state, rested->credit, rested->state != HD_PAGE_CURRENT ? rested->rest : 0, atomic_load(&rested->remote_count));
}

void shadow_start(void) {
  hdi_thread_init();
  hdi_purge_collect(0);
  if (hdi_space.units == NULL) sched_fail("the library did not start");
}
