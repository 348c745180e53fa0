/* malloc and free: the fast paths, inlined into the shims of the override layer and of api.c.
 *
 * malloc: a table says for each size where in the heap the class's slot lies; the lowest bit of the slot's word is the
 * block. free: the middle bits of the address lead to the unit's entry; if this heap owns it and the address is the start of a live block,
 * the block's bit is set in the word of its group, the page's credit becomes one less, and the block's byte becomes free.
 * Everything else is in alloc.c.
 * The instruction counts are checked by the golden listings in test/golden/.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_ALLOC_H
#define HD_CORE_ALLOC_H

#include <errno.h>

#include "core/page.h"

/* What a call returns for which there is no memory. */
static inline void *hdi_no_memory(void) {
  errno = ENOMEM;
  return NULL;
}

/* The calling thread's heap, made if it has none yet; NULL: then the call is hardened mode's or the next allocator's, or fails. */
SLOW hd_heap *hdi_alloc_first_heap(void);
static inline hd_heap *hdi_alloc_own_heap(void) {
  hd_heap *heap = hdi_heap_self;
  return HD_LIKELY(!hdi_heap_is_empty(heap)) ? heap : hdi_alloc_first_heap();
}

/* Where a block's byte lies, for a page of blocks. */
typedef struct hd_place {
  uint64_t index;
  hd_block_state *map;
} hd_place;

void *hdi_alloc_slow(size_t bytes);
void *hdi_alloc_claim(size_t bytes, hd_slot *slot);
void *hdi_alloc_medium(size_t bytes);
SLOW void *hdi_alloc_zeroed_slow(size_t bytes);
void hdi_free_other(void *p, hd_place place, hd_unit *unit, hd_heap *heap);
void hdi_free_other_sized(void *p, hd_place place, hd_unit *unit, size_t bytes, size_t alignment);

/* Something is due for a page, or a look at it, after the free of the block at this place, of which the index alone matters. The arguments
 * lie where hdi_free_other has them too, so that free need not move them. */
void hdi_free_event(hd_heap *heap, hd_place place, hd_unit *page);
SLOW void hdi_free_misfit(void *p);
SLOW void hdi_free_dead(hd_unit *unit, uint64_t index);

/* Keeps the compiler from putting a value off, or from working it out in another way. */
#ifdef HD_FAST_ASM
enum { HD_PLACE_FIRST = 1 };
#define HD_NOW(value) __asm__("" : "+r"(value))
#else
enum { HD_PLACE_FIRST = 0 };
#define HD_NOW(value) ((void)(value))
#endif

/* The lowest block of a slot's word, whose bits are not 0. */
FAST void *hdi_alloc_take_at(hd_slot *slot, uint64_t word_at, uint64_t bits) {
  size_t index = hd_lowest_bit(bits);
  hd_store_relaxed(&slot->map[index], HD_BLOCK_LIVE);
  HD_NOW(word_at);
  hd_store_owned(hdi_slot_word_at(slot, word_at), bits & (bits - 1));
  return slot->blocks + index * slot->block_bytes;
}

FAST void *hdi_alloc_take(hd_slot *slot, uint64_t bits) { return hdi_alloc_take_at(slot, slot->word_at, bits); }

FAST hd_slot *hdi_alloc_small_slot(hd_heap *heap, size_t bytes) { return (hd_slot *)((uint8_t *)heap + hdi_heap_slot_at[bytes]); }

/* The hit path, with what to do for more than a small class's bytes and for a slot without blocks. A caller who must not return NULL passes
 * functions of its own, so that nothing is left to check here. */
FAST void *hdi_alloc_else(size_t bytes, void *(*medium)(size_t), void *(*claim)(size_t, hd_slot *)) {
  if (HD_UNLIKELY(bytes > HD_SMALL_MAX)) return medium(bytes);
  hd_slot *slot = hdi_alloc_small_slot(hdi_heap_self, bytes);
  uint64_t word_at = slot->word_at;
  uint64_t bits = *hdi_slot_word_at(slot, word_at);
  if (HD_UNLIKELY(bits == 0)) return claim(bytes, slot);
  return hdi_alloc_take_at(slot, word_at, bits);
}

FAST void *hdi_alloc(size_t bytes) { return hdi_alloc_else(bytes, hdi_alloc_medium, hdi_alloc_claim); }

/* free works a block's place out before it knows whose page it is: what comes after a store may have to wait until the processor knows
 * where it goes (decision 28). As long as a block is live its page's fields stay as they are, so whoever may free it may read them; of any
 * other pointer the place means nothing until it has been checked. The compiler is kept from putting that off, and from adding up the
 * place once for check and store, which takes a step more. Checkers of races must not see loads that nobody uses. */
FAST hd_place hdi_free_place(const hd_unit *unit, const void *p) {
  hd_place place = {hdi_unit_block_index(unit, p), hd_load_owned(&unit->map)};
  HD_NOW(place.index);
  return place;
}

/* Of a page whose blocks are freed as they lie the one that will be freed some time later is fetched: programs look into what they free,
 * and the loads that free needs for itself keep processors from seeing that order (decision 43). Of any other page its entry, which is at
 * hand: without a branch, for programs free blocks of both in turn (decision 44). */
FAST const void *hdi_free_fetched(const hd_unit *page, const void *p) {
  intptr_t at = (intptr_t)((uintptr_t)p + (uintptr_t)page->fetch_at);
  bool nothing = sizeof(void *) < 8 ? page->fetch_at == HD_FETCH_NOTHING : at < 0;
  return nothing ? (const void *)page : (const void *)at;
}

/* A block of a small class that the thread's heap owns, or misuse. The heap is asked for anew where it is needed: to keep it would take a
 * register that those need who come here with others' blocks. */
FAST void hdi_free_own(void *p, hd_place place, hd_unit *unit) {
  uint64_t *words = hd_load_owned(&unit->words);
  HD_NOW(words);
  if (HD_UNLIKELY(place.index >= hd_load_owned(&unit->capacity))) {
    hdi_free_misfit(p);
    return;
  }
  if (HD_UNLIKELY(hd_load_stable(uint8_t, &place.map[place.index]) != HD_BLOCK_LIVE)) {
    hdi_free_dead(unit, place.index);
    return;
  }
  HD_NOW(place.index);
  __builtin_prefetch(hdi_free_fetched(unit, p));
  if (HD_UNLIKELY(hdi_free_index(unit, words, place.map, place.index))) hdi_free_event(hdi_heap_self, place, unit);
}

FAST void hdi_free(void *p) {
  hd_unit *unit = hdi_space_entry(p);
  hd_place place = {0, NULL};
  if (HD_PLACE_FIRST) place = hdi_free_place(unit, p);
  hd_heap *heap = hdi_heap_self;
  if (HD_UNLIKELY(hd_load_stable(uintptr_t, &unit->owner) != (uintptr_t)heap)) {
    hdi_free_other(p, place, unit, heap);
    return;
  }
  if (!HD_PLACE_FIRST) place = hdi_free_place(unit, p);
  hdi_free_own(p, place, unit);
}

/* The same for a caller who says what was asked for. Only hardened mode compares, so the size matters on the slow way alone. */
FAST void hdi_free_sized(void *p, size_t bytes, size_t alignment) {
  hd_unit *unit = hdi_space_entry(p);
  hd_place place = {0, NULL};
  if (HD_PLACE_FIRST) place = hdi_free_place(unit, p);
  hd_heap *heap = hdi_heap_self;
  if (HD_UNLIKELY(hd_load_stable(uintptr_t, &unit->owner) != (uintptr_t)heap)) {
    hdi_free_other_sized(p, place, unit, bytes, alignment);
    return;
  }
  HD_NOW(p); /* not a copy of it, which would take another register */
  if (!HD_PLACE_FIRST) place = hdi_free_place(unit, p);
  hdi_free_own(p, place, unit);
}

/* ---- heaps with one user, by their user --------------------------------------------------------------------------- */

void *hdi_alloc_user_slow(hd_heap *heap, size_t bytes, bool zero);
void hdi_free_user_other(hd_heap *heap, void *p, hd_unit *unit);

FAST void *hdi_alloc_of_user(hd_heap *heap, size_t bytes) {
  if (HD_UNLIKELY(bytes > HD_SMALL_MAX)) return hdi_alloc_user_slow(heap, bytes, false);
  hd_slot *slot = hdi_alloc_small_slot(heap, bytes);
  uint64_t bits = hdi_slot_bits(slot);
  if (HD_UNLIKELY(bits == 0)) return hdi_alloc_user_slow(heap, bytes, false);
  return hdi_alloc_take(slot, bits);
}

FAST void hdi_free_of_user(hd_heap *heap, void *p) {
  hd_unit *unit = hdi_space_entry(p);
  uint64_t index = 0;
  bool mine = hd_load_stable(uintptr_t, &unit->owner) == ((uintptr_t)heap | HD_OWNER_EXPLICIT);
  if (HD_LIKELY(mine)) index = hdi_unit_block_index(unit, p);
  if (HD_UNLIKELY(!mine || index >= unit->capacity || hd_load_stable(uint8_t, &unit->map[index]) != HD_BLOCK_LIVE)) {
    hdi_free_user_other(heap, p, unit);
    return;
  }
  if (HD_UNLIKELY(hdi_free_local(unit, unit->map + index))) hdi_free_event(heap, (hd_place){index, unit->map}, unit);
}

/* Largest alignment that is served. */
static const size_t hdi_align_max = (size_t)1 << (sizeof(size_t) > 4 ? 40 : 28);

/* ---- the whole family, for the shims ----------------------------------------------------------------------------- */

void *hdi_alloc_zeroed(size_t count, size_t bytes);
void *hdi_alloc_aligned(size_t alignment, size_t bytes);
SLOW void *hdi_alloc_aligned_slow(size_t alignment, size_t bytes, bool zero); /* also what hdi_alloc_aligned may do at once */
void *hdi_realloc(void *p, size_t bytes);
void *hdi_expand(void *p, size_t bytes);
size_t hdi_usable(const void *p);

/* The same from an explicit heap. */
void *hdi_alloc_from(hd_heap *heap, size_t bytes, bool zero);
void *hdi_alloc_aligned_from(hd_heap *heap, size_t alignment, size_t bytes, bool zero);
void *hdi_realloc_from(hd_heap *heap, void *p, size_t bytes);

#endif
