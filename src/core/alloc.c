/* Behind the fast paths: refills, large blocks, frees of other heaps' blocks, calloc and aligned requests.
 * See alloc.h.
 * SPDX-License-Identifier: MIT */
#include "core/alloc.h"

#include <errno.h>
#include <string.h>

#include "core/check.h"
#include "core/claim.h"
#include "core/clear.h"
#include "core/gate.h"
#include "core/hardened.h"
#include "core/inherit.h"
#include "core/large.h"
#include "core/options.h"
#include "core/page.h"
#include "core/parcel.h"
#include "core/purge.h"
#include "core/remote.h"
#include "core/report.h"
#include "core/thread.h"
#include "os/next.h"
#include "os/os.h"

enum {
  LOOK_FROM = 256 * 1024, /* from here on old memory is looked at before it is cleared */
  TOUCH_MAX = 1024 * 1024 /* fresh memory up to this is touched for calloc where there are threads */
};

/* ---- small and medium -------------------------------------------------------------------------------------------- */

/* Whether a block of a larger class will do. Not where the size was chosen for its alignment, and explicit heaps keep to their classes. */
enum fit { FIT_EXACT, FIT_ANY };

/* Take a block of a class; NULL without memory. *class_index: whose block it is. *zeroed: it reads as zero. The whole of it happens inside
 * the gate: a collector may take back what the slots and magazines of medium classes hold. */
static inline void *take_gated(hd_heap *heap, unsigned *class_index, enum fit fit, bool *zeroed) {
  unsigned from = *class_index;
  void *p = NULL;
  hdi_gate_enter(heap);
  if (HD_LIKELY(from > HD_SMALL_CLASSES)) {
    hdi_parcel_look(heap);
    hd_magazine *magazine = hdi_heap_magazine(heap, from);
    bool empty = hdi_slot_bits(&heap->class[from].slot) == 0 && magazine->top == magazine->first;
    if (HD_UNLIKELY(empty && (heap->class[from].spills & 1) != 0)) hdi_heap_deepen(heap, from);
    if (empty && fit == FIT_ANY) *class_index = from = hdi_heap_lender(heap, from);
    magazine = hdi_heap_magazine(heap, from);
    if (magazine->top != magazine->first) {
      p = hdi_heap_take_cached_block(magazine);
      *zeroed = false;
      hdi_gate_leave(heap);
      return p;
    }
  } else if (heap->class[from].page_count == 0) {
    *class_index = from = hdi_heap_host(heap, from);
  }
  uint64_t bits = hdi_claim(heap, from);
  if (HD_LIKELY(bits != 0)) {
    *zeroed = heap->class[from].zeroed;
    p = hdi_alloc_take(&heap->class[from].slot, bits);
  }
  hdi_gate_leave(heap);
  return p;
}

static SLOW void *take_after_collecting(hd_heap *heap, unsigned *class_index, enum fit fit, bool *zeroed) {
  hdi_purge_collect(0);
  hdi_inherit_end(heap);
  void *p = take_gated(heap, class_index, fit, zeroed);
  return p != NULL ? p : hdi_no_memory();
}

static inline void *take(hd_heap *heap, unsigned *class_index, enum fit fit, bool *zeroed) {
  void *p = take_gated(heap, class_index, fit, zeroed);
  return HD_LIKELY(p != NULL) ? p : take_after_collecting(heap, class_index, fit, zeroed);
}

hd_heap *hdi_alloc_first_heap(void) {
  if (hdi_hardened_is_on()) return NULL;
  hd_heap *heap = hdi_thread_heap();
  return hdi_hardened_is_on() ? NULL : heap;
}

/* malloc and calloc of a thread without a heap of the default mode. */
static SLOW void *alloc_elsewhere(size_t bytes, bool zero) {
  if (hdi_hardened_is_on()) return hdi_hardened_alloc(bytes, zero);
  if (!hdi_thread_is_passthrough()) return hdi_no_memory();
  return zero ? hdi_next_get()->calloc(1, bytes) : hdi_next_get()->malloc(bytes);
}

static SLOW void *alloc_first(size_t bytes) {
  if (HD_LIKELY(hdi_hardened_is_on())) return hdi_hardened_alloc(bytes, false);
  return hdi_alloc_first_heap() != NULL ? hdi_alloc(bytes) : alloc_elsewhere(bytes, false);
}

/* ---- large ------------------------------------------------------------------------------------------------------- */

static void *large_once(hd_heap *heap, size_t bytes, size_t alignment, bool zero, bool *zeroed) {
  if (hdi_heap_is_locked(heap)) return hdi_large_alloc(heap, bytes, alignment, zero, zeroed);
  hdi_gate_enter(heap);
  void *p = hdi_large_alloc(heap, bytes, alignment, zero, zeroed);
  hdi_gate_leave(heap);
  return p;
}

/* A table is looked at before it is written to. Then each of its pages would be faulted in twice, and the second time, when the page of
 * zeroes is exchanged, every processor that runs a thread of the process is stopped (decision 21). So there short ones are touched. */
static inline bool is_touched(size_t bytes) { return bytes <= TOUCH_MAX && hdi_thread_has_several(); }

/* Clear a block on old memory, whole pages. */
static inline void clear_old(const hd_heap *heap, uint8_t *p, size_t bytes) {
  bool looks = bytes >= LOOK_FROM && !heap->own_space && !is_touched(bytes);
  if (looks) hdi_clear_old(p, bytes);
  else memset(p, 0, bytes);
}

static void touch(uint8_t *p, size_t bytes) {
  for (size_t at = 0; at < bytes; at += hdi_os.page_bytes) *(volatile uint8_t *)(p + at) = 0;
}

static void *alloc_large(hd_heap *heap, size_t bytes, size_t alignment, bool zero) {
  bool zeroed = false;
  if (HD_UNLIKELY(bytes > PTRDIFF_MAX)) return hdi_no_memory();
  void *p = large_once(heap, bytes, alignment, zero, &zeroed);
  if (HD_UNLIKELY(p == NULL) && !heap->explicit_heap) {
    hdi_purge_collect(0);
    p = large_once(heap, bytes, alignment, zero, &zeroed);
  }
  if (p == NULL) return hdi_no_memory();
  if (zero && !zeroed) {
    clear_old(heap, p, hd_round_up(bytes, hdi_os.page_bytes));
  } else if (zero && is_touched(bytes)) {
    touch(p, bytes);
  }
  return p;
}

static __attribute__((noinline)) void *alloc_new_run(size_t bytes) {
  if (bytes > PTRDIFF_MAX) return hdi_no_memory();
  hd_heap *heap = hdi_alloc_own_heap();
  if (heap == NULL) return alloc_elsewhere(bytes, false);
  return alloc_large(heap, bytes, 1, false);
}

/* A heap's first two requests for whole system pages have runs of their own, though there are classes for them: most programs make one or
 * two, for their files, and need no more of the heap's second system page. NULL: none of them, or a limit counts the units. */
static __attribute__((noinline)) void *alloc_alone(hd_heap *heap, size_t bytes, bool zero) {
  const hd_class *class = &heap->class[hdi_sizeclass_of(bytes)];
  bool zeroed = false, whole = bytes != 0 && (bytes & (hdi_os.page_bytes - 1)) == 0;
  if (!whole || class->page_count > 0 || hd_load_owned(&hdi_options.limit) != 0) return NULL;
  void *p = large_once(heap, bytes, 1, zero, &zeroed);
  heap->lone += p != NULL;
  return p != NULL && zero && !zeroed ? memset(p, 0, bytes) : p;
}

void *hdi_alloc_slow(size_t bytes) {
  hd_heap *heap = hdi_heap_self;
  if (HD_UNLIKELY(hdi_heap_is_empty(heap))) return alloc_first(bytes);
  unsigned class_index = hdi_sizeclass_of(bytes);
  bool zeroed = false;
  void *alone = HD_UNLIKELY(heap->lone < HD_LONE_MOST) ? alloc_alone(heap, bytes, false) : NULL;
  return alone != NULL ? alone : take(heap, &class_index, FIT_ANY, &zeroed);
}

/* Every call from here to hdi_alloc_medium is the last thing done, so the ways through have no stack frame. */

/* Inside the gate, which they leave. Have the processor fetch the first lines of what is claimed beside p, unless they are at hand. */
static __attribute__((noinline)) void *fetch_claimed(void *p, hd_heap *heap, const hd_slot *slot, uint64_t bits) {
  for (; bits != 0; bits &= bits - 1) __builtin_prefetch(slot->blocks + hd_lowest_bit(bits) * slot->block_bytes, 1);
  hdi_gate_leave(heap);
  return p;
}

FAST void *leave_with_claimed(void *p, hd_heap *heap, const hd_class *class, uint64_t bits) {
  if (hdi_claim_is_far(heap, class)) return fetch_claimed(p, heap, &class->slot, bits & (bits - 1));
  hdi_gate_leave(heap);
  return p;
}

/* Inside the gate, which it leaves: where the class's page has nothing to claim at once, or it has none. */
static __attribute__((noinline)) void *alloc_refilled(hd_heap *heap, hd_class *class, size_t bytes) {
  bool hosted = class->page_count == 0; /* perhaps: the slow way asks for its host */
  uint64_t bits = !hosted && hdi_heap_refill(heap, class) ? hdi_slot_bits(&class->slot) : 0;
  if (HD_LIKELY(bits != 0)) return leave_with_claimed(hdi_alloc_take(&class->slot, bits), heap, class, bits);
  hdi_gate_leave(heap);
  return hdi_alloc_slow(bytes);
}

/* The same where malloc and free take turns at the class. */
static __attribute__((noinline)) void *alloc_in_turn(hd_heap *heap, hd_class *class, size_t bytes) {
  uint64_t bits = hdi_claim_turn(heap, class);
  if (HD_UNLIKELY(bits == 0)) return alloc_refilled(heap, class, bytes);
  void *p = hdi_alloc_take(&class->slot, bits);
  hdi_gate_leave(heap);
  return p;
}

/* A small class's slot is empty. What most claims come to is all here (decision 20). */
HOT void *hdi_alloc_claim(size_t bytes, hd_slot *slot) {
  hd_heap *heap = hdi_heap_self;
  hd_class *class = (hd_class *)slot; /* which begins with it */
  if (HD_UNLIKELY(hdi_heap_is_empty(heap) || !hdi_gate_try(heap))) return hdi_alloc_slow(bytes);
  if (HD_UNLIKELY(class->turn != 0)) return alloc_in_turn(heap, class, bytes);
  uint64_t bits = hdi_claim_here(heap, class);
  if (HD_UNLIKELY(bits == 0)) return alloc_refilled(heap, class, bytes);
  return leave_with_claimed(hdi_alloc_take(slot, bits), heap, class, bits);
}

/* A run that this thread freed a moment ago is a block again. */
static __attribute__((noinline)) void *alloc_beyond_medium(size_t bytes, hd_heap *heap) {
  size_t units = (bytes + HD_UNIT_BYTES - 1) >> HD_UNIT_SHIFT;
  if (HD_UNLIKELY(bytes > (size_t)HD_CACHE_RUN << HD_UNIT_SHIFT || !hdi_gate_try(heap))) return alloc_new_run(bytes);
  if (HD_UNLIKELY(heap->cached[units] == NULL)) {
    hdi_gate_leave(heap);
    return alloc_new_run(bytes);
  }
  hd_unit *first = hdi_heap_take_cached(heap, units);
  if (HD_LIKELY(hd_load_relaxed(&first->kind) == HD_UNIT_LARGE)) hdi_large_make_again(first, bytes);
  else hdi_large_make_at(hdi_space_address(&hdi_space, first), first, bytes, (uintptr_t)0);
  void *p = hd_load_owned(&first->base);
  hdi_gate_leave(heap);
  return p;
}

/* Inside the gate, which it leaves, as no earlier look at the word would do: a collector may put another one in its place, and give the old
 * one back. */
static __attribute__((noinline)) void *alloc_from_slot(size_t bytes, hd_heap *heap) {
  hd_slot *slot = &heap->class[hdi_sizeclass_medium(bytes)].slot;
  uint64_t bits = hdi_slot_bits(slot);
  if (HD_UNLIKELY(bits == 0)) {
    hdi_gate_leave(heap);
    return hdi_alloc_slow(bytes);
  }
  void *p = hdi_alloc_take(slot, bits);
  hdi_gate_leave(heap);
  return p;
}

/* The block of its class that the thread freed last, else one of the class's slot. */
HOT void *hdi_alloc_medium(size_t bytes) {
  hd_heap *heap = hdi_heap_self;
  if (HD_UNLIKELY(bytes > HD_MEDIUM_MAX)) return alloc_beyond_medium(bytes, heap);
  hd_magazine *magazine = hdi_heap_magazine(heap, hdi_sizeclass_medium(bytes));
  if (HD_UNLIKELY(!hdi_gate_try(heap))) return hdi_alloc_slow(bytes);
  if (HD_UNLIKELY(magazine->top == magazine->first)) return alloc_from_slot(bytes, heap);
  void *p = hdi_heap_take_cached_block(magazine);
  hdi_gate_leave(heap);
  return p;
}

/* ---- zeroed ------------------------------------------------------------------------------------------------------ */

typedef uint64_t hd_pair __attribute__((vector_size(16), may_alias));

/* Clear a block's usable size, a multiple of 16: all of it, because hd_recalloc counts on the part behind the request too. Short ones
 * inline: a call would cost more than the stores. And without a branch, which nobody can predict where sizes change: 16, 32, 48 or 64 bytes
 * take the same four stores, which meet or overlap. */
FAST void clear_tiny(uint8_t *p, size_t bytes) {
  const hd_pair zero = {0, 0};
  *(hd_pair *)p = zero;
  *(hd_pair *)(p + bytes - 16) = zero;
  *(hd_pair *)(p + ((bytes - 16) & 16)) = zero; /* of 64 the second quarter, */
  *(hd_pair *)(p + (bytes / 2 & 48)) = zero; /* of 64 the third, of 48 the middle */
}

/* Returns p, so that memset is the last thing done. */
static inline void *clear(uint8_t *p, size_t bytes) {
  const hd_pair zero = {0, 0};
  if (bytes > 128) return memset(p, 0, bytes);
  if (bytes <= 64) {
    clear_tiny(p, bytes);
    return p;
  }
  HD_UNROLL_4
  for (size_t at = 0; at < 64; at += 16) {
    *(hd_pair *)(p + at) = zero;
    *(hd_pair *)(p + bytes - 64 + at) = zero;
  }
  return p;
}

void *hdi_alloc_zeroed(size_t count, size_t bytes) {
  size_t total = 0;
  if (HD_UNLIKELY(!hd_multiply(count, bytes, &total))) return hdi_no_memory();
  if (HD_UNLIKELY(total > HD_SMALL_MAX)) return hdi_alloc_zeroed_slow(total);
  hd_heap *heap = hdi_heap_self;
  hd_slot *slot = hdi_alloc_small_slot(heap, total); /* its class begins with it */
  uint64_t bits = hdi_slot_bits(slot);
  if (HD_UNLIKELY(bits == 0)) return hdi_alloc_zeroed_slow(total);
  void *p = hdi_alloc_take(slot, bits);
  total = slot->block_bytes;
  if (total <= 64) { /* less work than to find out whether there is any */
    clear_tiny(p, total);
    return p;
  }
  return ((hd_class *)slot)->zeroed ? p : clear(p, total);
}

static __attribute__((noinline)) void *claim_class(hd_heap *heap, unsigned class_index, enum fit fit, bool zero) {
  bool zeroed = false;
  void *p = take(heap, &class_index, fit, &zeroed);
  return p != NULL && zero && !zeroed ? clear(p, hdi_sizeclass_bytes(class_index)) : p;
}

/* The block of a medium class that the thread freed last. false: there is none, or a collector is at it. A thread without a heap goes
 * through the empty one's gate, where nobody else looks, and finds nothing. */
static inline bool take_cached(hd_heap *heap, size_t class_index, void **p) {
  hd_magazine *magazine = hdi_heap_magazine(heap, class_index);
  if (HD_UNLIKELY(!hdi_gate_try(heap))) return false;
  if (HD_UNLIKELY(magazine->top == magazine->first)) {
    hdi_gate_leave(heap);
    return false;
  }
  *p = hdi_heap_take_cached_block(magazine);
  hdi_gate_leave(heap);
  return true;
}

static inline void *alloc_class(hd_heap *heap, unsigned class_index, enum fit fit, bool zero) {
  void *p = NULL;
  if (class_index <= HD_SMALL_CLASSES || !take_cached(heap, class_index, &p)) return claim_class(heap, class_index, fit, zero);
  return zero ? memset(p, 0, hdi_sizeclass_bytes(class_index)) : p;
}

void *hdi_alloc_zeroed_slow(size_t bytes) {
  if (bytes > PTRDIFF_MAX) return hdi_no_memory();
  hd_heap *heap = hdi_alloc_own_heap();
  if (HD_UNLIKELY(heap == NULL)) return alloc_elsewhere(bytes, true);
  if (bytes > HD_MEDIUM_MAX) return alloc_large(heap, bytes, 1, true);
  void *alone = HD_UNLIKELY(heap->lone < HD_LONE_MOST) ? alloc_alone(heap, bytes, true) : NULL;
  if (alone != NULL) return alone;
  unsigned class_index = hdi_sizeclass_of(bytes);
  heap->class[class_index].zeroes = true;
  return alloc_class(heap, class_index, FIT_ANY, true);
}

/* ---- aligned ----------------------------------------------------------------------------------------------------- */

static void *aligned_in(hd_heap *heap, size_t alignment, size_t bytes, bool zero) {
  unsigned class_index = hdi_sizeclass_aligned(alignment, bytes);
  if (class_index != 0) return alloc_class(heap, class_index, FIT_EXACT, zero);
  return alloc_large(heap, hd_max(bytes, 1), alignment, zero);
}

static bool bad_alignment(size_t alignment) {
  if (hd_is_power_of_2(alignment) && alignment <= hdi_align_max) return false;
  errno = EINVAL;
  return true;
}

/* Whether whatever block malloc gives for a multiple of the alignment lies as it should. */
static inline bool fits_by_size(size_t alignment, size_t rounded) { return rounded <= HD_SMALL_MAX || alignment <= HD_MEDIUM_ALIGN; }

void *hdi_alloc_aligned_slow(size_t alignment, size_t bytes, bool zero) {
  if (HD_UNLIKELY(bad_alignment(alignment))) return NULL;
  if (HD_UNLIKELY(bytes > PTRDIFF_MAX)) return hdi_no_memory();
  size_t rounded = alignment <= 16 ? bytes : hd_round_up(hd_max(bytes, 1), alignment);
  bool plain = alignment <= 16 || (bytes <= HD_MEDIUM_MAX && !hdi_heap_is_empty(hdi_heap_self) && fits_by_size(alignment, rounded));
  if (plain && zero) return hdi_alloc_zeroed(1, rounded);
  if (plain) return rounded > HD_SMALL_MAX ? hdi_alloc_medium(rounded) : hdi_alloc_slow(rounded);
  hd_heap *heap = hdi_alloc_own_heap();
  if (HD_LIKELY(heap != NULL)) return aligned_in(heap, alignment, bytes, zero);
  if (hdi_hardened_is_on()) return hdi_hardened_alloc_aligned(alignment, bytes, zero);
  if (!hdi_thread_is_passthrough()) return hdi_no_memory();
  void *p = hdi_next_get()->memalign(alignment, bytes);
  if (p != NULL && zero) memset(p, 0, bytes);
  return p;
}

/* Of 0 bytes, and of so many that their sum with the alignment is too large for its type, the multiple is 0. */
HOT void *hdi_alloc_aligned(size_t alignment, size_t bytes) {
  size_t last = alignment - 1, rounded = (bytes + last) & ~last;
  if (HD_UNLIKELY((alignment & last) != 0 || rounded - 1 >= HD_SMALL_MAX)) return hdi_alloc_aligned_slow(alignment, bytes, false);
  hd_heap *heap = hdi_heap_self;
  hd_slot *slot = hdi_alloc_small_slot(heap, rounded);
  uint64_t word_at = slot->word_at;
  uint64_t bits = *hdi_slot_word_at(slot, word_at);
  if (HD_LIKELY(bits != 0)) return hdi_alloc_take_at(slot, word_at, bits);
  return hdi_heap_is_empty(heap) ? hdi_alloc_aligned_slow(alignment, bytes, false) : hdi_alloc_claim(rounded, slot);
}

/* ---- free -------------------------------------------------------------------------------------------------------- */

/* Inside the gate, which it leaves. */
static __attribute__((noinline)) void free_to_page(hd_unit *page, hd_block_state *state, hd_heap *heap) {
  if (page->state != HD_PAGE_PARTIAL) heap->class[page->class_index].spills |= 1;
  bool event = hdi_free_local(page, state);
  if (event) hdi_heap_settle(heap, page);
  hdi_gate_leave(heap);
  if (event) hdi_purge_note();
}

void hdi_free_event(hd_heap *heap, hd_place place, hd_unit *page) {
  hdi_gate_enter(heap);
  /* Between the last free and this a collector may have released the page, or a signal handler have filled it and let it loose. */
  if (hdi_remote_settle(page) == heap) {
    if (page->state == HD_PAGE_CURRENT) hdi_claim_take_turns(heap, page);
    else if (hdi_heap_minds_order(heap, page)) hdi_heap_look_ahead(page, place.index);
    hdi_heap_settle(heap, page);
  }
  hdi_gate_leave(heap);
  hdi_purge_note();
}

static SLOW void free_foreign(void *p) {
  if (hdi_space_covers(p)) {
    hdi_report_misuse("free", p, NULL);
    return;
  }
  const hd_next *next = hdi_next_get();
  if (next->free != NULL) next->free(p);
  else hdi_report_foreign("free", p);
}

static SLOW void misuse(void *p) {
  hd_unit *unit = hdi_space_find(p);
  if (unit != NULL) hdi_report_misuse("free", p, unit);
}

void hdi_free_dead(hd_unit *unit, uint64_t index) { misuse(unit->base + index * unit->block_bytes); }

/* The thread has no heap to count in. One that frees and frees without ever allocating (a consumer) gets one after all. This and
 * free_by_slow_count are not SLOW, since small programs come to the jump to them. */
static __attribute__((noinline)) void count_without_heap(hd_unit *page) {
  hdi_thread_homeless_free();
  hdi_remote_count_slow(hdi_heap_mine(), page);
}

/* A block of another thread's page of a small class. */
FAST void free_by_count(void *p, hd_unit *unit, hd_place place, hd_heap *self) {
  hd_block_state *state = place.map + place.index;
  if (HD_UNLIKELY(hd_load_relaxed(state) != HD_BLOCK_LIVE)) {
    hdi_free_dead(unit, place.index);
    return;
  }
  hd_unit *head = unit->head;
  /* The cache line has been read here, so two processors share it, and its next owner's first store would wait until this one has
   * given its copy up. A line that was written moves over in one go. */
  *(volatile uintptr_t *)p = 0;
  hd_store_release(state, HD_BLOCK_FREE); /* R1: pairs with the fence of a claim */
  if (HD_UNLIKELY(hdi_heap_is_empty(self))) count_without_heap(head);
  else hdi_remote_count(self, head);
}

/* A larger one without a parcel: the thread has no heap, or those that it has are on their way. */
static __attribute__((noinline)) void free_by_slow_count(hd_block_state *state, hd_unit *head, hd_heap *self) {
  hd_store_release(state, HD_BLOCK_FREE); /* R1 */
  if (hdi_heap_is_empty(self)) count_without_heap(head);
  else hdi_remote_count_slow(self, head);
}

/* A block of another thread's page of a medium class. */
static __attribute__((noinline)) void free_by_parcel(void *p, hd_unit *unit, hd_place place, hd_heap *self) {
  hd_block_state *state = place.map + place.index;
  if (HD_UNLIKELY(hd_load_relaxed(state) != HD_BLOCK_LIVE)) hdi_free_dead(unit, place.index);
  else if (hdi_heap_is_empty(self) || !hdi_parcel_put(self, unit, p, state)) free_by_slow_count(state, unit->head, self);
}

/* A block of a page that the thread's heap has filled, and let loose. */
static __attribute__((noinline)) void free_loose(hd_unit *unit, hd_place place, hd_heap *self) {
  hd_block_state *state = place.map + place.index;
  if (HD_UNLIKELY(hd_load_relaxed(state) != HD_BLOCK_LIVE)) hdi_free_dead(unit, place.index);
  else if (HD_UNLIKELY(!hdi_remote_take_back(self, unit))) free_by_slow_count(state, unit, self);
  else if (hdi_free_local(unit, state) || hdi_heap_minds_order(self, unit)) hdi_free_event(self, place, unit);
}

/* A block of a page that is not, or not only, this thread's, as its place says. owner: the unit's word. */
FAST void free_remote(void *p, hd_unit *unit, hd_place place, hd_heap *self, uintptr_t owner) {
  if ((owner & HD_OWNER_MEDIUM) != 0) free_by_parcel(p, unit, place, self);
  else if (owner == (uintptr_t)self + HD_OWNER_LOOSE) free_loose(unit, place, self);
  else free_by_count(p, unit, place, self);
}

/* A block of a heap with one user, freed by anybody. It is announced at once, so that no table counts frees of a heap that may be
 * destroyed. */
static void free_remote_at_once(hd_unit *unit, uint64_t index) {
  hd_block_state *state = unit->map + index;
  if (hd_load_relaxed(state) != HD_BLOCK_LIVE) {
    hdi_free_dead(unit, index);
    return;
  }
  hd_unit *head = unit->head;
  hd_store_release(state, HD_BLOCK_FREE); /* R1 */
  hdi_remote_count_slow(&hdi_heap_empty, head);
}

static SLOW void free_explicit(hd_unit *unit, uint64_t index, hd_heap *owner) {
  hd_block_state *state = unit->map + index;
  if (owner->one_user) {
    free_remote_at_once(unit, index);
    return;
  }
  hdi_lock_take(&owner->lock);
  bool live = hd_load_relaxed(state) == HD_BLOCK_LIVE;
  if (live && hdi_free_local(unit->head, state)) hdi_heap_settle(owner, unit->head);
  hdi_lock_drop(&owner->lock);
  if (!live) hdi_free_dead(unit, index);
}

static void free_in_page(void *p, hd_unit *unit, hd_heap *self) {
  uintptr_t owner = hd_load_acquire(&unit->owner);
  hd_place place = hdi_free_place(unit, p);
  if (HD_UNLIKELY(place.index >= unit->capacity || owner == 0)) misuse(p);
  else if (owner & HD_OWNER_HARDENED) hdi_hardened_free(unit, place.index);
  else if (owner & HD_OWNER_EXPLICIT) free_explicit(unit, place.index, hdi_heap_owner(unit));
  else free_remote(p, unit, place, self, owner);
}

/* Past the cache: the run goes to the space, or belongs to an explicit heap. The caller has won `live`. */
static __attribute__((noinline)) void free_run(hd_unit *unit, hd_heap *self) {
  hd_heap *heap = hdi_heap_owner(unit);
  if (HD_UNLIKELY(heap != NULL && heap->one_user)) {
    hdi_large_free(heap, unit); /* takes the lock by itself */
  } else if (HD_UNLIKELY(heap != NULL)) {
    hdi_lock_take(&heap->lock);
    hdi_large_free(heap, unit);
    hdi_lock_drop(&heap->lock);
  } else if (HD_UNLIKELY(hdi_heap_is_empty(self))) {
    hdi_large_free(NULL, unit);
  } else {
    hdi_gate_enter(self);
    hdi_large_free(self, unit);
    hdi_gate_leave(self);
  }
  hdi_purge_note();
}

/* The block that starts at p, of a thread or of an explicit heap. */
static inline void free_large(void *p, hd_unit *unit, uintptr_t owner, hd_heap *self) {
  if (HD_UNLIKELY(hd_load_relaxed(&unit->live) != 1)) {
    misuse(p);
    return;
  }
  hd_store_relaxed(&unit->live, 0u);
  size_t units = unit->run_units;
  bool keep = owner == 0 && hdi_heap_has_room(self, units);
  if (HD_UNLIKELY(!keep || !hdi_gate_try(self))) {
    free_run(unit, self);
    return;
  }
  hdi_heap_keep_run(self, unit, units);
  hdi_gate_leave(self);
  hdi_purge_note(); /* of many threads, what they keep is much */
}

/* Any pointer, found by the exact way; but for blocks of hardened pages, which the window's entry finds as surely. */
static void free_any(void *p, hd_heap *self) {
  if (p == NULL) return;
  hd_unit *entry = hdi_space_entry(p);
  uint64_t index = hdi_unit_block_index(entry, p);
  if (hdi_unit_is_hardened(entry) && index < entry->capacity && hd_load_relaxed(&entry->kind) == HD_UNIT_PAGE) {
    hdi_hardened_free(entry, index);
    return;
  }
  hd_unit *unit = hdi_space_find(p);
  if (unit == NULL) {
    free_foreign(p);
    return;
  }
  switch (hd_load_acquire(&unit->kind)) {
    case HD_UNIT_PAGE:
      free_in_page(p, unit, self);
      break;
    case HD_UNIT_LARGE:
      if (hdi_unit_is_hardened(unit)) hdi_hardened_run_free(p, unit);
      else if (unit->base != p) misuse(p);
      else free_large(p, unit, hd_load_relaxed(&unit->owner), self);
      break;
    default:
      misuse(p);
  }
}

/* The entry may be an accident: a pointer from outside the common space leads to any entry at all. */
void hdi_free_misfit(void *p) { free_any(p, hdi_heap_self); }

/* The entry is the right one if the index says so, whose ever the page is: see hdi_unit_block_index. */
static __attribute__((noinline)) void free_of_others(void *p, hd_place place, hd_unit *unit, hd_heap *heap) {
  uintptr_t owner = hd_load_acquire(&unit->owner);
  if (HD_LIKELY(owner != 0 && (owner & HD_OWNER_EXPLICIT) == 0)) {
    if (!HD_PLACE_FIRST) place = hdi_free_place(unit, p);
    if (HD_LIKELY(place.index < hd_load_owned(&unit->capacity))) {
      free_remote(p, unit, place, heap, owner);
      return;
    }
  }
  /* A large block: an address that only leads to some other one's entry is not where that block starts. */
  if (owner == 0 && hd_load_acquire(&unit->kind) == HD_UNIT_LARGE && hd_load_owned(&unit->base) == p) free_large(p, unit, 0, heap);
  else free_any(p, heap);
}

/* A collector has stopped the heap. */
static SLOW void free_later(void *p, hd_heap *heap) {
  hdi_gate_wait(heap);
  hdi_free(p);
}

/* A block of a page of a medium class. All inside the gate, since a collector may empty magazines. */
FAST void free_medium(void *p, hd_unit *unit, hd_heap *heap, hd_block_state *state) {
  if (HD_UNLIKELY(!hdi_gate_try(heap))) {
    free_later(p, heap);
    return;
  }
  if (HD_UNLIKELY(!hdi_heap_keep_block(heap, unit, p, state))) {
    free_to_page(unit->head, state, heap);
    return;
  }
  hdi_gate_leave(heap);
}

/* Every call here is the last thing done, so the way through has no stack frame. */
HOT void hdi_free_other(void *p, hd_place place, hd_unit *unit, hd_heap *heap) {
  if (HD_LIKELY(hd_load_stable(uintptr_t, &unit->owner) == (uintptr_t)heap + HD_OWNER_MEDIUM)) {
    if (!HD_PLACE_FIRST) place = hdi_free_place(unit, p);
    hd_block_state *state = place.map + place.index;
    if (HD_LIKELY(place.index < hd_load_owned(&unit->capacity) && hd_load_stable(uint8_t, state) == HD_BLOCK_LIVE)) {
      free_medium(p, unit, heap, state);
      return;
    }
  }
  free_of_others(p, place, unit, heap);
}

static SLOW void free_hardened_sized(void *p, size_t bytes, size_t alignment) {
  if (hdi_hardened_size_is(p, bytes, alignment)) hdi_free(p);
}

/* Only hardened mode compares what a sized free says. */
void hdi_free_other_sized(void *p, hd_place place, hd_unit *unit, size_t bytes, size_t alignment) {
  if (HD_UNLIKELY(hdi_unit_is_hardened(unit))) free_hardened_sized(p, bytes, alignment);
  else hdi_free_other(p, place, unit, hdi_heap_self);
}

void hdi_free_user_other(hd_heap *heap, void *p, hd_unit *unit) {
  if (hd_load_acquire(&unit->owner) == ((uintptr_t)heap | HD_OWNER_EXPLICIT | HD_OWNER_MEDIUM)) {
    uint64_t index = hdi_unit_block_index(unit, p);
    if (HD_LIKELY(index < unit->capacity && hd_load_relaxed(&unit->map[index]) == HD_BLOCK_LIVE)) {
      if (HD_UNLIKELY(hdi_free_local(unit->head, unit->map + index))) hdi_free_event(heap, (hd_place){index, unit->map}, unit->head);
      return;
    }
  }
  unit = p == NULL ? NULL : hdi_space_find(p);
  if (unit == NULL || hdi_heap_owner(unit) != heap || hd_load_relaxed(&unit->kind) != HD_UNIT_PAGE) {
    hdi_free(p);
    return;
  }
  /* A heap in memory of its own, whose units the window's table does not have; or misuse. */
  uint64_t index = hdi_unit_block_index(unit, p);
  if (index >= unit->capacity) misuse(p);
  else if (hd_load_relaxed(&unit->map[index]) != HD_BLOCK_LIVE) hdi_free_dead(unit, index);
  else if (hdi_free_local(unit->head, unit->map + index)) hdi_free_event(heap, (hd_place){index, unit->map}, unit->head);
}

/* ---- explicit heaps ---------------------------------------------------------------------------------------------- */

/* With the heap's lock held. */
static void *alloc_locked(hd_heap *heap, size_t bytes, bool zero) {
  if (bytes > HD_MEDIUM_MAX) return alloc_large(heap, bytes, 1, zero);
  unsigned class_index = hdi_sizeclass_of(bytes);
  uint64_t bits = hdi_claim(heap, class_index);
  if (bits == 0) return hdi_no_memory();
  bool zeroed = heap->class[class_index].zeroed;
  void *p = hdi_alloc_take(&heap->class[class_index].slot, bits);
  if (zero && !zeroed) clear(p, hdi_sizeclass_bytes(class_index));
  return p;
}

void *hdi_alloc_user_slow(hd_heap *heap, size_t bytes, bool zero) {
  if (bytes > HD_MEDIUM_MAX) return alloc_large(heap, bytes, 1, zero);
  unsigned class_index = hdi_sizeclass_of(bytes);
  bool zeroed = false;
  void *p = take_gated(heap, &class_index, FIT_EXACT, &zeroed);
  if (p == NULL) return hdi_no_memory();
  if (zero && !zeroed) clear(p, hdi_sizeclass_bytes(class_index));
  return p;
}

void *hdi_alloc_from(hd_heap *heap, size_t bytes, bool zero) {
  if (heap->one_user) return zero ? hdi_alloc_user_slow(heap, bytes, true) : hdi_alloc_of_user(heap, bytes);
  hdi_lock_take(&heap->lock);
  void *p = alloc_locked(heap, bytes, zero);
  hdi_lock_drop(&heap->lock);
  return p;
}

void *hdi_alloc_aligned_from(hd_heap *heap, size_t alignment, size_t bytes, bool zero) {
  if (bad_alignment(alignment)) return NULL;
  if (bytes > PTRDIFF_MAX) return hdi_no_memory();
  unsigned class_index = hdi_sizeclass_aligned(alignment, bytes);
  if (heap->one_user) {
    if (class_index == 0) return alloc_large(heap, hd_max(bytes, 1), alignment, zero);
    return hdi_alloc_user_slow(heap, hdi_sizeclass_bytes(class_index), zero);
  }
  hdi_lock_take(&heap->lock);
  void *p = NULL;
  if (class_index == 0) p = alloc_large(heap, hd_max(bytes, 1), alignment, zero);
  else p = alloc_locked(heap, hdi_sizeclass_bytes(class_index), zero);
  hdi_lock_drop(&heap->lock);
  return p;
}
