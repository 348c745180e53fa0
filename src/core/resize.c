/* Looking at and resizing blocks: usable sizes, realloc and expand. See alloc.h.
 * SPDX-License-Identifier: MIT */
#include "core/alloc.h"

#include <errno.h>
#include <string.h>

#include "core/hardened.h"
#include "core/large.h"
#include "core/report.h"
#include "os/next.h"

/* The unit of a live block that starts at p; NULL, after a report, for anything else in Heddle's memory. */
static hd_unit *live_block(const char *verb, const void *p, hd_unit *unit) {
  unsigned kind = hd_load_acquire(&unit->kind);
  if (HD_LIKELY(kind == HD_UNIT_PAGE)) {
    uint64_t index = hdi_unit_block_index(unit, p);
    if (HD_LIKELY(index < unit->capacity && hd_load_relaxed(&unit->map[index]) == HD_BLOCK_LIVE)) return unit;
  } else if (kind == HD_UNIT_LARGE && unit->base == p && hd_load_relaxed(&unit->live) == 1) {
    return unit;
  }
  hdi_report_misuse(verb, p, unit);
  return NULL;
}

/* The unit of a live block of a thread's page, by free()'s way; NULL for all others, which may well be blocks. */
FAST hd_unit *quick_block(const void *p) {
  hd_unit *unit = hdi_space_entry(p);
  uintptr_t owner = hd_load_acquire(&unit->owner);
  uint64_t index = hdi_unit_block_index(unit, p);
  bool known = owner != 0 && (owner & HD_OWNER_EXPLICIT) == 0 && index < hd_load_owned(&unit->capacity);
  return known && hd_load_relaxed(&unit->map[index]) == HD_BLOCK_LIVE ? unit : NULL;
}

size_t hdi_usable(const void *p) {
  hd_unit *quick = quick_block(p);
  if (HD_LIKELY(quick != NULL)) return quick->block_bytes;
  if (p == NULL) return 0;
  hd_unit *unit = hdi_space_find(p);
  if (HD_UNLIKELY(unit == NULL)) {
    const hd_next *next = hdi_next_get();
    if (hdi_space_covers(p)) {
      hdi_report_misuse("usable_size", p, NULL);
      return 0;
    }
    return next->usable != NULL ? next->usable((void *)(uintptr_t)p) : 0;
  }
  unit = live_block("usable_size", p, unit);
  if (unit != NULL && hdi_unit_is_hardened(unit)) return hdi_hardened_check("usable_size", p, unit);
  return unit == NULL ? 0 : unit->block_bytes;
}

/* Whether a block of old bytes should stay where it is for a request of bytes that fits it. */
static bool stays(size_t old, size_t bytes) { return bytes <= old && (bytes >= old / 2 || old <= 64); }

enum { ROOM_FROM = 1024 }; /* bytes of a block from which on its growth leaves room: smaller ones are many and cheap to copy */

/* What to ask for when a block of old bytes is to hold bytes. One that outgrows its page's block by less than a quarter will do so again:
 * it gets a quarter, so that text which grows by lines is copied a third as often (decision 5). Where a block may be hardened it has
 * what was asked for, to the byte. */
static size_t with_room(size_t old, size_t bytes) {
  size_t roomy = old + old / 4;
  if (HD_LIKELY(old < ROOM_FROM)) return bytes; /* first of all: how much more is wanted nobody can foretell */
  bool has = bytes > old && bytes < roomy && roomy <= HD_MEDIUM_MAX;
  return has && !hdi_hardened_is_on() ? roomy : bytes;
}

static bool resize_large(hd_unit *unit, size_t bytes) {
  hd_heap *heap = hdi_heap_explicit_owner(unit);
  if (heap != NULL) hdi_lock_take(&heap->lock);
  bool done = hdi_large_resize(unit, bytes);
  if (heap != NULL) hdi_lock_drop(&heap->lock);
  return done;
}

/* user: the heap with one user for whom it happens, or NULL. Anybody else must not take memory from such a heap. */
static __attribute__((noinline)) void *realloc_by_copy(hd_heap *user, hd_unit *unit, void *p, size_t bytes) {
  hd_heap *heap = user != NULL ? user : hdi_heap_explicit_owner(unit);
  size_t old = unit->block_bytes;
  if (heap != user && heap->one_user) heap = NULL;
  size_t wanted = with_room(old, bytes);
  int kept = wanted == bytes && bytes > old ? 0 : errno;
  void *target;
  for (;; wanted = bytes) { /* the second time without the room */
    target = heap != NULL ? hdi_alloc_from(heap, wanted, false) : hdi_alloc(wanted);
    if (HD_LIKELY(target != NULL) || wanted == bytes) break;
    errno = kept;
  }
  if (HD_UNLIKELY(target == NULL)) {
    if (bytes > old) return NULL;
    errno = kept; /* to shrink needs no memory */
    return p;
  }
  memcpy(target, p, hd_min(old, bytes));
  if (user != NULL) hdi_free_of_user(user, p);
  else hdi_free(p);
  return target;
}

/* A block of a heap, by its one user. */
static void *realloc_of_user(hd_heap *heap, hd_unit *unit, void *p, size_t bytes) {
  unit = live_block("realloc", p, unit);
  if (HD_UNLIKELY(unit == NULL || bytes > PTRDIFF_MAX)) return hdi_no_memory();
  bool page = hd_load_relaxed(&unit->kind) == HD_UNIT_PAGE;
  if (page && stays(unit->block_bytes, bytes)) return p;
  if (!page && bytes > HD_MEDIUM_MAX && resize_large(unit, bytes)) return p;
  return realloc_by_copy(heap, unit, p, bytes);
}

static SLOW void *realloc_foreign(void *p, size_t bytes) {
  if (hdi_space_covers(p)) {
    hdi_report_misuse("realloc", p, NULL);
    return hdi_no_memory();
  }
  const hd_next *next = hdi_next_get();
  if (next->realloc != NULL) return next->realloc(p, bytes);
  hdi_report_foreign("realloc", p);
  return hdi_no_memory();
}

static void *move_large(hd_unit *unit, size_t bytes) {
  hd_heap *heap = bytes > HD_MEDIUM_MAX ? hdi_alloc_own_heap() : NULL;
  return heap == NULL ? NULL : hdi_large_move(heap, unit, bytes);
}

/* What free()'s way does not lead to: large blocks, blocks of other heaps, and mistakes. */
static __attribute__((noinline)) void *realloc_any(void *p, size_t bytes) {
  hd_unit *unit = hdi_space_find(p);
  if (HD_UNLIKELY(unit == NULL)) return realloc_foreign(p, bytes);
  if (HD_UNLIKELY(bytes == 0)) {
    hdi_free(p);
    return NULL;
  }
  if (HD_UNLIKELY(bytes > PTRDIFF_MAX)) return hdi_no_memory();
  unit = live_block("realloc", p, unit);
  if (HD_UNLIKELY(unit == NULL)) return hdi_no_memory();
  if (hdi_unit_is_hardened(unit)) return hdi_hardened_realloc(p, unit, bytes);
  if (hd_load_relaxed(&unit->kind) == HD_UNIT_PAGE) {
    return stays(unit->block_bytes, bytes) ? p : realloc_by_copy(NULL, unit, p, bytes);
  }
  bool one_unit = unit->run_units == 1 && bytes >= unit->block_bytes / 2;
  void *moved = hdi_large_leaves(unit, bytes) ? move_large(unit, bytes) : NULL;
  if (moved != NULL) return moved;
  if ((bytes > HD_MEDIUM_MAX || one_unit) && resize_large(unit, bytes)) return p;
  if (bytes > unit->block_bytes) moved = move_large(unit, bytes);
  return moved != NULL ? moved : realloc_by_copy(NULL, unit, p, bytes);
}

/* Strings and arrays grow by a few bytes at a time, most of them within their block: no more than looking is done for that, and every call
 * is the last thing done. */
void *hdi_realloc(void *p, size_t bytes) {
  hd_unit *quick = quick_block(p);
  if (HD_UNLIKELY(quick == NULL || bytes - 1 >= PTRDIFF_MAX)) return p == NULL ? hdi_alloc(bytes) : realloc_any(p, bytes);
  if (HD_LIKELY(stays(quick->block_bytes, bytes))) return p;
  return realloc_by_copy(NULL, quick, p, bytes);
}

void *hdi_expand(void *p, size_t bytes) {
  hd_unit *unit = p == NULL || bytes > PTRDIFF_MAX ? NULL : hdi_space_find(p);
  if (unit != NULL) unit = live_block("expand", p, unit);
  if (unit == NULL) return NULL;
  if (hdi_unit_is_hardened(unit)) return hdi_hardened_expand(p, unit, bytes) ? p : NULL;
  if (hd_load_relaxed(&unit->kind) == HD_UNIT_PAGE) return bytes <= unit->block_bytes ? p : NULL;
  return resize_large(unit, hd_max(bytes, 1)) ? p : NULL;
}

void *hdi_realloc_from(hd_heap *heap, void *p, size_t bytes) {
  if (p == NULL) return hdi_alloc_from(heap, bytes, false);
  hd_unit *unit = hdi_space_find(p);
  if (unit == NULL || hdi_heap_explicit_owner(unit) != heap) {
    hdi_report_other_heap("realloc", p);
    return hdi_no_memory();
  }
  if (!heap->one_user) return hdi_realloc(p, bytes);
  if (bytes != 0) return realloc_of_user(heap, unit, p, bytes);
  hdi_free_of_user(heap, p);
  return NULL;
}
