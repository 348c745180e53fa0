/* Claims: a class's slot comes to stand for another group of 64 blocks, and malloc takes from the group's word.
 *
 * The words have what the owner freed (decision 33); what others freed only the bytes have, and it is put into the words of classes where
 * that happens. Blocks never handed out come last, so that untouched memory stays untouched while an eighth or a sixteenth of the touched
 * part is free (hdi_claim_pays); what other threads freed and have not told yet included (decision 9). A busy class claims once in ten to
 * twenty mallocs: what most claims come to stands in malloc's slow way itself (decision 20), the rest is inlined into the refill. Decision
 * 12 has which classes are busy, and why the others get less.
 * Who may call: the owner inside its gate, for a CURRENT page.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_CLAIM_H
#define HD_CORE_CLAIM_H

#include "core/check.h"
#include "core/page.h"

enum {
  HD_STEP_BYTES = 4096,      /* virgin blocks claimed at a time: at first about one system page of them, */
  HD_STEP_BYTES_MAX = 16384, /* later, when the class proves busy, up to this */
  BUSY_SHARE = 8,            /* a class is busy from an eighth of its heap's claims on */
  BUSY_CLAIMS = 16,          /* it is found out every so many of its claims */
  FEW_BLOCKS_SHARE = 16,     /* a sixteenth of a page's blocks is worth a claim where it is one group, or all that a rare class has; */
  SHARE = 8,                 /* of others an eighth */
  FAR_UNITS = 32,            /* a heap with 2 MiB in pages is not in the second cache as a whole, */
  NEAR_UNITS = 8             /* until it has less than 512 KiB: in between come those that empty and fill their pages by turns */
};

#if defined(__SSE2__) && !defined(HD_SANITIZE_THREAD)
#include <emmintrin.h>
#endif

/* The free blocks of a group, as bits. Bytes may change meanwhile by remote frees; each is read once, and acquired, so that what the
 * freeing thread did before is visible to whoever gets the block. */
#if defined(__SSE2__) && !defined(HD_SANITIZE_THREAD)
FAST uint64_t hdi_claim_free_blocks(const hd_block_state *map) {
  const __m128i *part = (const __m128i *)(const void *)map;
  const __m128i zero = _mm_setzero_si128();
  uint64_t bits = 0;
  HD_UNROLL_4
  for (int i = 0; i < 4; i++) {
    __m128i is_free = _mm_cmpeq_epi8(_mm_load_si128(part + i), zero);
    bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(is_free) << (16 * i);
  }
  atomic_thread_fence(memory_order_acquire);
  return bits;
}
#else
FAST uint64_t hdi_claim_free_blocks(const hd_block_state *map) {
  uint64_t bits = 0;
  for (int i = 0; i < 64; i++) bits |= (uint64_t)(hd_load_acquire(&map[i]) == HD_BLOCK_FREE) << i;
  return bits;
}
#endif

/* Free blocks of a group that have been handed out before, by their bytes. Those that were not are all free. */
FAST uint64_t hdi_claim_touched(const hd_unit *page, uint32_t group) {
  uint64_t bits = hdi_claim_free_blocks(page->map + (size_t)group * 64);
  uint32_t touched = page->fresh - group * 64;
  return touched >= 64 ? bits : bits & hd_low_mask(touched);
}

/* The bits of a group's word. Of a class whose blocks others free, first put those in that only the bytes know of: they count as used
 * until somebody tells. The slot is empty. */
FAST uint64_t hdi_claim_look(hd_unit *page, const hd_class *class, uint32_t group) {
  uint64_t *word = &page->words[group];
  uint64_t bits = *word;
  if (HD_LIKELY(!class->shared)) return bits;
  uint64_t more = hdi_claim_touched(page, group) & ~bits;
  if (more == 0) return bits;
  uint32_t count = hd_bit_count(more);
  hd_store_owned(&page->held, page->held + count);
  page->counted = (uint16_t)(page->counted + count);
  hd_store_owned(word, bits | more);
  return bits | more;
}

/* Only busy classes are worth memory that makes claims fewer. Of the others there are many, and each would keep what it once touched. */
FAST void hdi_claim_count(hd_heap *heap, hd_class *class) {
  heap->claims++;
  if (++class->claims % BUSY_CLAIMS != 0) return;
  uint16_t now = (uint16_t)heap->claims;
  class->busy = (uint16_t)(now - class->since) <= BUSY_CLAIMS * BUSY_SHARE;
  class->since = now;
  heap->far = hdi_heap_page_units(heap) >= (heap->far ? NEAR_UNITS : FAR_UNITS);
}

/* Look at the group of a CURRENT page once more for what others freed, if a quarter of what was handed out of it is free: the program works
 * there, in memory that is hot. Of a page of one group less is enough: it would pass through the list of PARTIAL pages instead, at three
 * times the cost. The slot stands for this group already. Returns its bits, 0 for none or too few. In heap.c. */
uint64_t hdi_claim_again(hd_unit *page, hd_class *class);

/* A page that is in no list becomes CURRENT, and its slot stands for none of its groups yet: the first claim looks from the start. */
static inline void hdi_claim_begin(hd_unit *page, hd_class *class) {
  uint32_t used = page->credit + page->rest;
  hd_store_owned(&page->state, HD_PAGE_CURRENT);
  hd_store_owned(&page->apart, 0);
  page->group = HD_NO_GROUP;
  hd_store_owned(&page->held, used + hdi_page_recount(page));
  class->slot.block_bytes = page->block_bytes;
  class->page = page;
}

/* Let the slot of a page's class stand for a group of it, by one of the page's words. */
FAST void hdi_claim_group_by(hd_unit *page, hd_class *class, uint32_t group, const uint64_t *word) {
  page->group = (uint16_t)group;
  hd_store_owned(&page->swept, false);
  class->zeroed = false;
  class->slot.blocks = page->base + (size_t)group * 64 * page->block_bytes;
  class->slot.map = page->map + (size_t)group * 64;
  hdi_slot_set(&class->slot, word);
}

FAST void hdi_claim_group_of(hd_unit *page, hd_class *class, uint32_t group) {
  hdi_claim_group_by(page, class, group, &page->words[group]);
}

/* Whether so many free blocks of the touched part are enough to go through it once more. */
FAST bool hdi_claim_pays(const hd_unit *page, const hd_class *class, int64_t unused) {
  bool few = page->capacity <= 64 || (class->page_count == 1 && !class->busy);
  return unused > 0 && unused * (few ? FEW_BLOCKS_SHARE : SHARE) >= page->fresh;
}

/* The same for those that the owner knows of in a CURRENT page. Where too few were freed since the words were counted, they are not counted
 * again; else *count says how many there are in them. */
static inline bool hdi_claim_again_pays(hd_unit *page, const hd_class *class, uint32_t *count) {
  int64_t told = (int64_t)page->fresh - page->held; /* of which no word says where they are; below 0: there are blocks that count twice */
  if (!hdi_claim_pays(page, class, hdi_page_words_most(page) + told)) return false;
  *count = hdi_page_recount(page);
  return hdi_claim_pays(page, class, *count + told);
}

/* Let the class's slot stand for the first group from `from` on with a free block that has been handed out before. look: at its bytes as
 * well, where others free. Returns its bits, 0 if there is none. */
FAST uint64_t hdi_claim_find(hd_unit *page, hd_class *class, uint32_t from, bool look) {
  for (uint32_t group = from; group * 64 < page->fresh; group++) {
    uint64_t bits = look ? hdi_claim_look(page, class, group) : page->words[group];
    if (HD_UNLIKELY(bits == 0)) continue;
    hdi_claim_group_of(page, class, group);
    return bits;
  }
  return 0;
}

/* The same with a look at the bytes. In heap.c. */
bool hdi_claim_from(hd_unit *page, hd_class *class, uint32_t from);

/* The next group of a CURRENT page that has a bit in its word: what most claims come to. Returns its bits, 0 if there is none, or if others
 * free blocks of the class. */
FAST uint64_t hdi_claim_forward(hd_unit *page, hd_class *class) {
  return HD_UNLIKELY(class->shared) ? 0 : hdi_claim_find(page, class, hdi_page_next_group(page), false);
}

/* malloc and free take turns at a group: what malloc may take lies apart, and what is freed goes into the group's word, from which the next
 * turn is put apart when this one is used up. So malloc need not wait for free to know which bit it sets (decision 34). It begins where the
 * credit of a page that is CURRENT ran out twice, and no other class's did, unless others free blocks of the class. In heap.c. */
void hdi_claim_take_turns(hd_heap *heap, hd_unit *page);

/* The same as hdi_claim_here while they take turns. Where one is over and less than half of it has come back, the program keeps what it
 * takes, and what was freed last is taken first again; so it is where another class has become as busy. In heap.c. */
uint64_t hdi_claim_turn(hd_heap *heap, hd_class *class);

/* Whether what is claimed may not be at hand: free wrote nothing into these blocks, so in a heap that is larger than the caches the program
 * would wait for each of them (decision 29). Not of a class with one page: a heap with many of these works in much less than it has in
 * pages (decision 46). Of blocks that were never touched there is nothing to fetch. */
FAST bool hdi_claim_is_far(const hd_heap *heap, const hd_class *class) {
  return HD_UNLIKELY(heap->far) && class->page_count > 1 && !class->zeroed;
}

/* Let so many blocks that were never handed out be taken by this word, or as many as the page and the group that they begin in have.
 * Returns how many. */
FAST uint32_t hdi_claim_open(hd_unit *page, uint32_t most, uint64_t *word) {
  uint32_t at = page->fresh % 64;
  uint32_t count = (uint32_t)hd_min(hd_min(most, 64 - at), page->capacity - page->fresh);
  uint64_t bits = hd_low_mask(count) << at;
  hd_store_owned(&page->fresh, page->fresh + count);
  hd_store_owned(&page->held, page->held + count);
  hd_store_owned(word, *word | bits);
  return count;
}

/* The same for a class's slot, as many as it takes at a time, of a page that has some. false: they wait. In heap.c. */
bool hdi_claim_step(hd_unit *page, hd_class *class);

static inline bool hdi_claim_virgin(hd_unit *page, hd_class *class) { return page->fresh != page->capacity && hdi_claim_step(page, class); }

/* Other threads free first and tell later, so more of the touched part may be free than the owner knows. Of a class for which they do,
 * look at all bytes before memory is touched for it. A count that comes out too small is the last one until somebody tells again. */
static inline bool hdi_claim_untold(hd_unit *page, hd_class *class) {
  if (HD_LIKELY(!class->told)) return false;
  uint32_t groups = (page->fresh + 63) / 64;
  for (uint32_t group = 0; group < groups; group++) hdi_claim_look(page, class, group);
  class->told = hdi_claim_pays(page, class, hdi_page_recount(page));
  return class->told && hdi_claim_from(page, class, 0);
}

/* Let a class's slot stand for free blocks of its CURRENT page. It takes class->step virgin blocks at most. false: nothing worth taking. */
static inline bool hdi_claim_next(hd_unit *page, hd_class *class) {
  if (hdi_claim_from(page, class, hdi_page_next_group(page))) return true;
  /* At the end of the touched part: once more from its start if enough of it is free, else on into virgin blocks. */
  uint32_t count = 0;
  if (hdi_claim_again_pays(page, class, &count) && hdi_claim_from(page, class, 0)) return true;
  return hdi_claim_untold(page, class) || hdi_claim_virgin(page, class);
}

/* The bits of a class's slot, and if it has none, of another group of its page; 0: hdi_heap_refill has to go on. Not while malloc and free
 * take turns. */
FAST uint64_t hdi_claim_here(hd_heap *heap, hd_class *class) {
  uint64_t bits = hdi_slot_bits(&class->slot);
  if (bits != 0) return bits; /* of a small class a signal handler's */
  hdi_claim_count(heap, class);
  if (HD_UNLIKELY(class->page == NULL)) return 0;
  return hdi_claim_forward(class->page, class);
}

/* The bits of a class's slot, claimed if it has none. 0: no memory. */
FAST uint64_t hdi_claim(hd_heap *heap, unsigned class_index) {
  hd_class *class = &heap->class[class_index];
  uint64_t bits = HD_LIKELY(class->turn == 0) ? hdi_claim_here(heap, class) : hdi_claim_turn(heap, class);
  if (HD_UNLIKELY(bits == 0) && hdi_heap_refill(heap, class)) bits = hdi_slot_bits(&class->slot);
  return bits;
}

#endif
