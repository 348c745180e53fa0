/* See hardened.h: blocks of pages, and the quarantine.
 * SPDX-License-Identifier: MIT */
#include "core/hardened.h"

#include <errno.h>

#include "core/alloc.h"
#include "core/check.h"
#include "core/claim.h"
#include "core/gate.h"
#include "core/options.h"
#include "core/purge.h"
#include "core/remote.h"
#include "core/report.h"
#include "core/store.h"
#include "core/thread.h"
#include "os/os.h"

enum {
  QUARANTINE_BYTES = 256 * 1024,
  CHECK_WHOLE = 1024, /* of larger blocks, so many bytes are looked at in three places */
  CLEAR_INLINE = 256,
  STEP = 64,          /* virgin blocks to claim at a time, so that there is a choice: so many, */
  STEP_MIN = 8,       /* or fewer large ones, each of which is a page that */
  STEP_BYTES = 16384  /* the program might never have touched */
};

typedef uint64_t hd_pair __attribute__((vector_size(16), may_alias));

atomic_bool hdi_hardened_on;
hd_seal_secret hdi_seal_secret;

/* ---- start ------------------------------------------------------------------------------------------------------- */

void hdi_hardened_start(void) {
  hdi_seal_secret.mask = hdi_os_random();
  hdi_seal_secret.factor = hdi_os_random() | 1;
  hd_store_release(&hdi_hardened_on, true);
}

static void plan_sample(hd_hardened *own) {
  uint64_t every = (uint64_t)hdi_options.hardened_sample;
  own->sample_left = every == 0 ? UINT64_MAX : 1 + hdi_hardened_random(own) % (2 * every - 1);
}

static uint8_t virgin_step(size_t block_bytes) { return (uint8_t)hd_max(STEP_MIN, hd_min(STEP, STEP_BYTES / block_bytes)); }

bool hdi_hardened_attach(hd_heap *heap) {
  hd_hardened *own = hdi_store_take(sizeof *own);
  if (own == NULL) return false;
  own->random = hdi_os_random();
  plan_sample(own);
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) heap->class[i].step = virgin_step(hdi_sizeclass_bytes(i));
  heap->hardened = own;
  return true;
}

/* ---- malloc ------------------------------------------------------------------------------------------------------ */

/* A random one of a slot's blocks; bits is not 0. */
static inline uint8_t *pick(hd_hardened *own, hd_slot *slot, uint64_t bits) {
  unsigned turn = (unsigned)hdi_hardened_random(own) & 63;
  size_t at = (hd_lowest_bit(hd_rotate_right(bits, turn)) + turn) & 63;
  *hdi_slot_word(slot) = bits & ~((uint64_t)1 << at);
  hd_store_relaxed(&slot->map[at], HD_BLOCK_LIVE);
  return slot->blocks + at * slot->block_bytes;
}

static uint8_t *take_gated(hd_heap *heap, unsigned class_index, bool *zeroed) {
  uint8_t *p = NULL;
  hdi_gate_enter(heap);
  uint64_t bits = hdi_claim(heap, class_index);
  if (bits != 0) {
    *zeroed = heap->class[class_index].zeroed;
    p = pick(heap->hardened, &heap->class[class_index].slot, bits);
  }
  hdi_gate_leave(heap);
  return p;
}

static SLOW void make_room(void) {
  hdi_hardened_run_yield();
  hdi_purge_collect(0); /* begins with what is in quarantine */
}

static SLOW uint8_t *take_after_collecting(hd_heap *heap, unsigned class_index, bool *zeroed) {
  make_room();
  return take_gated(heap, class_index, zeroed);
}

static void clear(uint8_t *p, size_t bytes) {
  if (bytes > CLEAR_INLINE) {
    memset(p, 0, bytes);
    return;
  }
  const hd_pair zero = {0, 0};
  uint8_t *last = p + bytes - 16;
  for (; p < last; p += 32) {
    *(hd_pair *)(void *)p = zero;
    *(hd_pair *)(void *)(p + 16) = zero;
  }
  *(hd_pair *)(void *)last = zero;
}

static inline void *alloc_class(hd_heap *heap, unsigned class_index, size_t bytes, bool zero) {
  hd_slot *slot = &heap->class[class_index].slot;
  uint64_t bits = hdi_slot_bits(slot);
  bool zeroed = false;
  uint8_t *p = NULL;
  if (HD_LIKELY(class_index <= HD_SMALL_CLASSES && bits != 0)) {
    zeroed = heap->class[class_index].zeroed;
    p = pick(heap->hardened, slot, bits);
  } else {
    p = take_gated(heap, class_index, &zeroed);
    if (HD_UNLIKELY(p == NULL)) p = take_after_collecting(heap, class_index, &zeroed);
    if (HD_UNLIKELY(p == NULL)) return hdi_no_memory();
  }
  if (zero && !zeroed) clear(p, slot->block_bytes);
  hdi_seal_set(p, slot->block_bytes, bytes);
  return p;
}

static SLOW void *alloc_sample(hd_heap *heap, size_t bytes, bool zero) {
  plan_sample(heap->hardened);
  return hdi_hardened_run_alloc(heap, 16, bytes, zero, HD_RUN_SAMPLE);
}

static SLOW void *alloc_run(hd_heap *heap, size_t alignment, size_t bytes, bool zero, hd_run_reason reason) {
  void *p = hdi_hardened_run_alloc(heap, alignment, bytes, zero, reason);
  if (p != NULL) return p;
  make_room();
  p = hdi_hardened_run_alloc(heap, alignment, bytes, zero, HD_RUN_LARGE);
  return p != NULL ? p : hdi_no_memory();
}

static inline hd_heap *my_heap(void) {
  hd_heap *heap = hdi_heap_hidden;
  return HD_LIKELY(!hdi_heap_is_empty(heap)) ? heap : hdi_thread_heap();
}

void *hdi_hardened_alloc(size_t bytes, bool zero) {
  hd_heap *heap = my_heap();
  if (HD_UNLIKELY(heap == NULL)) return hdi_no_memory();
  if (HD_UNLIKELY(bytes > HD_HARDENED_MAX)) return alloc_run(heap, 16, bytes, zero, HD_RUN_LARGE);
  if (HD_UNLIKELY(--heap->hardened->sample_left == 0)) {
    void *p = alloc_sample(heap, bytes, zero);
    if (p != NULL) return p;
  }
  return alloc_class(heap, hdi_sizeclass_of(bytes + HD_SEAL_BYTES), bytes, zero);
}

void *hdi_hardened_alloc_aligned(size_t alignment, size_t bytes, bool zero) {
  hd_heap *heap = my_heap();
  if (HD_UNLIKELY(heap == NULL)) return hdi_no_memory();
  unsigned class_index = bytes > HD_HARDENED_MAX ? 0 : hdi_sizeclass_aligned(alignment, bytes + HD_SEAL_BYTES);
  return class_index != 0 ? alloc_class(heap, class_index, bytes, zero) : alloc_run(heap, alignment, bytes, zero, HD_RUN_LARGE);
}

/* ---- quarantine -------------------------------------------------------------------------------------------------- */

static inline bool is_clear(const uint8_t *p, size_t bytes) {
  const uint8_t *last = p + bytes - 16;
  hd_pair sum = *(const hd_pair *)(const void *)last;
  for (; p < last; p += 32) sum |= *(const hd_pair *)(const void *)p | *(const hd_pair *)(const void *)(p + 16);
  return (sum[0] | sum[1]) == 0;
}

/* The beginning, the middle and the end of a larger one. */
static inline bool looks_clear(const uint8_t *p, size_t bytes) {
  if (HD_LIKELY(bytes <= CHECK_WHOLE)) return is_clear(p, bytes);
  size_t part = hd_round_down(CHECK_WHOLE / 3, 16);
  size_t middle = hd_round_down(bytes / 2, 16);
  return is_clear(p, part) && is_clear(p + middle, part) && is_clear(p + bytes - part, part);
}

static SLOW void report_written(uint8_t *p, const hd_unit *unit) {
  size_t at = 0;
  while (at < unit->block_bytes && p[at] == 0) at++;
  hdi_report_written(p, unit, at);
}

static SLOW void release_without_heap(hd_unit *unit, hd_block_state *state) {
  hd_unit *head = unit->head;
  hd_store_release(state, HD_BLOCK_FREE); /* R1: pairs with the fence of a claim */
  hdi_thread_homeless_free();
  hdi_remote_count_slow(hdi_heap_mine(), head);
}

/* The last step of a free: from here on anybody may have the block. */
static void release(hd_heap *heap, uint8_t *p, hd_unit *unit) {
  if (HD_UNLIKELY(!looks_clear(p, unit->block_bytes))) report_written(p, unit);
  hd_place place = hdi_free_place(unit, p);
  hd_block_state *state = place.map + place.index;
  hd_unit *head = unit->head;
  if (HD_LIKELY(hdi_heap_owner(unit) == heap)) {
    if (HD_UNLIKELY(hdi_free_local(head, state))) hdi_free_event(heap, place, head);
    return;
  }
  hd_store_release(state, HD_BLOCK_FREE); /* R1: pairs with the fence of a claim */
  hdi_remote_count(heap, head);
}

static inline void release_oldest(hd_heap *heap, hd_hardened *own) {
  uint8_t *p = own->block[own->first];
  hd_unit *unit = hdi_space_entry(p);
  own->first = (own->first + 1) % HD_QUARANTINE_BLOCKS;
  own->count--;
  own->bytes -= unit->block_bytes;
  release(heap, p, unit);
}

static inline void quarantine(hd_heap *heap, uint8_t *p, size_t bytes) {
  hd_hardened *own = heap->hardened;
  while (own->count == HD_QUARANTINE_BLOCKS || (own->bytes + bytes > QUARANTINE_BYTES && own->count > 0)) release_oldest(heap, own);
  own->block[(own->first + own->count) % HD_QUARANTINE_BLOCKS] = p;
  own->count++;
  own->bytes += bytes;
}

void hdi_hardened_flush_own(hd_heap *heap) {
  hd_hardened *own = heap->hardened;
  while (own->count > 0) release_oldest(heap, own);
  hdi_hardened_run_flush(heap);
}

void hdi_hardened_forget(hd_heap *heap) {
  hd_hardened *own = heap->hardened;
  if (own == NULL) return;
  own->first = own->count = own->run_first = own->run_count = own->spare_count = 0;
  own->bytes = own->run_units = own->kept_units = 0;
}

/* ---- free -------------------------------------------------------------------------------------------------------- */

static SLOW size_t report_overflow(const char *verb, const void *p, const hd_unit *unit) {
  size_t asked = hdi_seal_guess(p, unit->block_bytes);
  hdi_report_overflow(verb, p, unit, asked);
  return asked != HD_SEAL_BROKEN ? asked : unit->block_bytes - HD_SEAL_BYTES;
}

void hdi_hardened_free(hd_unit *unit, uint64_t index) {
  hd_block_state *state = unit->map + index;
  if (HD_UNLIKELY(!hd_swap_byte_if(state, HD_BLOCK_LIVE, HD_BLOCK_QUARANTINED))) {
    hdi_free_dead(unit, index);
    return;
  }
  size_t bytes = unit->block_bytes;
  uint8_t *p = unit->base + index * bytes;
  if (HD_UNLIKELY(hdi_seal_asked(p, bytes) == HD_SEAL_BROKEN)) report_overflow("free", p, unit);
  clear(p, bytes);
  hd_heap *heap = hdi_heap_hidden;
  if (HD_LIKELY(!hdi_heap_is_empty(heap))) quarantine(heap, p, bytes);
  else release_without_heap(unit, state);
}

/* ---- looking at and resizing blocks ------------------------------------------------------------------------------ */

static bool is_page(const hd_unit *unit) { return hd_load_relaxed(&((hd_unit *)(uintptr_t)unit)->kind) == HD_UNIT_PAGE; }

size_t hdi_hardened_asked(const void *p, const hd_unit *unit) {
  if (!is_page(unit)) return unit->block_bytes;
  size_t asked = hdi_seal_asked(p, unit->block_bytes);
  return asked != HD_SEAL_BROKEN ? asked : unit->block_bytes - HD_SEAL_BYTES;
}

size_t hdi_hardened_check(const char *verb, const void *p, hd_unit *unit) {
  if (is_page(unit)) {
    size_t asked = hdi_seal_asked(p, unit->block_bytes);
    return HD_LIKELY(asked != HD_SEAL_BROKEN) ? asked : report_overflow(verb, p, unit);
  }
  if (!hdi_hardened_run_is_whole(unit)) hdi_report_overflow(verb, p, unit, HD_SEAL_BROKEN);
  return unit->block_bytes;
}

static bool resize_here(void *p, hd_unit *unit, size_t bytes) {
  if (!is_page(unit)) return hdi_hardened_run_resize(unit, bytes);
  if (bytes > unit->block_bytes - HD_SEAL_BYTES) return false;
  hdi_seal_set(p, unit->block_bytes, bytes);
  return true;
}

bool hdi_hardened_expand(void *p, hd_unit *unit, size_t bytes) {
  hdi_hardened_check("expand", p, unit);
  return resize_here(p, unit, bytes);
}

void *hdi_hardened_realloc(void *p, hd_unit *unit, size_t bytes) {
  int errno_before = errno;
  size_t old = hdi_hardened_check("realloc", p, unit);
  bool run = !is_page(unit);
  bool stays = run ? bytes >= old / 2 : bytes + HD_SEAL_BYTES >= unit->block_bytes / 2 || unit->block_bytes <= 64;
  if (stays && resize_here(p, unit, bytes)) return p;
  hd_heap *heap = my_heap();
  bool grows = run && bytes > old && bytes > HD_HARDENED_MAX && heap != NULL;
  void *moved = grows ? hdi_hardened_run_move(heap, unit, bytes) : NULL;
  if (moved != NULL) return moved;
  void *target = grows ? alloc_run(heap, 16, bytes, false, HD_RUN_GROWS) : hdi_hardened_alloc(bytes, false);
  if (target == NULL) {
    if (!resize_here(p, unit, bytes)) return NULL;
    errno = errno_before; /* a block that shrinks can do so where it stands */
    return p;
  }
  memcpy(target, p, hd_min(old, bytes));
  hdi_free(p);
  return target;
}

bool hdi_hardened_size_is(const void *p, size_t bytes, size_t alignment) {
  hd_unit *unit = p == NULL ? NULL : hdi_space_find(p);
  if (unit == NULL || !hdi_unit_is_hardened(unit)) return true;
  if (is_page(unit)) {
    uint64_t index = hdi_unit_block_index(unit, p);
    if (index >= unit->capacity || hd_load_relaxed(&unit->map[index]) != HD_BLOCK_LIVE) return true;
    if (hdi_seal_asked(p, unit->block_bytes) == HD_SEAL_BROKEN) return true;
  } else if (unit->base != p || hd_load_relaxed(&unit->live) != 1) {
    return true;
  }
  size_t asked = hdi_hardened_asked(p, unit);
  bool right = asked == bytes;
  if (right && ((uintptr_t)p & (alignment - 1)) == 0) return true;
  hdi_report_size(p, unit, right ? "alignment" : "size", right ? alignment : bytes, asked);
  return false;
}
