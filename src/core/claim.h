/* Claims: the free blocks of a group of 64 become the bits of a slot, and malloc takes them from there.
 *
 * What is claimed stays free in the byte map and counts as used in the page's credit. Blocks never handed out come last, so that
 * untouched memory stays untouched while an eighth or a sixteenth of the touched part is free (hdi_claim_pays); what other threads freed
 * and have not told yet included (decision 9). A busy class claims once in ten to twenty mallocs: what most claims come to stands in
 * malloc's slow way itself (decision 20), the rest is inlined into the refill. Decision 12 has which classes are busy, and why the others
 * get less.
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

/* The free blocks of a group, as bits, and how many they are. Bytes may change meanwhile by remote frees; each is read once, and acquired,
 * so that what the freeing thread did before is visible to whoever gets the block. */
#if defined(__SSE2__) && !defined(HD_SANITIZE_THREAD)
FAST uint64_t hdi_claim_free_blocks(const hd_block_state *map, uint32_t *count) {
  const __m128i *part = (const __m128i *)(const void *)map;
  const __m128i zero = _mm_setzero_si128();
  __m128i counts = zero;
  uint64_t bits = 0;
#pragma GCC unroll 4
  for (int i = 0; i < 4; i++) {
    __m128i is_free = _mm_cmpeq_epi8(_mm_load_si128(part + i), zero); /* -1 where it is */
    __asm__("" : "+x"(is_free)); /* not to be read again: bits and count are of one look */
    bits |= (uint64_t)(uint32_t)_mm_movemask_epi8(is_free) << (16 * i);
    counts = _mm_sub_epi8(counts, is_free);
  }
  counts = _mm_sad_epu8(counts, zero); /* the sums of either half */
  *count = (uint32_t)_mm_cvtsi128_si32(counts) + (uint32_t)_mm_extract_epi16(counts, 4);
  atomic_thread_fence(memory_order_acquire);
  return bits;
}
#else
FAST uint64_t hdi_claim_free_blocks(const hd_block_state *map, uint32_t *count) {
  uint64_t bits = 0;
  for (int i = 0; i < 64; i++) bits |= (uint64_t)(hd_load_acquire(&map[i]) == HD_BLOCK_FREE) << i;
  *count = hd_bit_count(bits);
  return bits;
}
#endif

/* Free blocks of a group that have been handed out before, and how many. Those that were not are all free. */
FAST uint64_t hdi_claim_touched(const hd_unit *page, uint32_t group, uint32_t *count) {
  uint64_t bits = hdi_claim_free_blocks(page->map + (size_t)group * 64, count);
  uint32_t touched = page->fresh - group * 64;
  if (touched >= 64) return bits;
  *count -= hd_min((uint32_t)page->capacity - group * 64, 64) - touched;
  return bits & hd_low_mask(touched);
}

/* Only busy classes are worth memory that makes claims fewer. Of the others there are many, and each would keep what it once touched. */
FAST void hdi_claim_count(hd_heap *heap, hd_class *class) {
  heap->claims++;
  if (++class->claims % BUSY_CLAIMS != 0) return;
  uint16_t now = (uint16_t)heap->claims;
  class->busy = (uint16_t)(now - class->since) <= BUSY_CLAIMS * BUSY_SHARE;
  class->since = now;
  heap->far = heap->page_units >= (heap->far ? NEAR_UNITS : FAR_UNITS);
}

/* Claim the group of a CURRENT page once more, if a quarter of what was handed out of it is free: the program works there, in memory
 * that is hot. Of a page of one group less is enough: it would pass through the list of PARTIAL pages instead, at three times the
 * cost. The slot stands for this group already. Returns its bits, 0 for none; the caller puts them into the slot. In heap.c. */
uint64_t hdi_claim_again(hd_unit *page, hd_class *class);

/* Let the slot of a page's class stand for a group of it, of which so many blocks are claimed. */
FAST void hdi_claim_group_of(hd_unit *page, hd_class *class, uint32_t group, uint32_t count) {
  hd_store_owned(&page->credit, page->credit + count);
  hd_store_owned(&page->group_at, group * 64);
  class->zeroed = false;
  class->slot.block_bytes = page->block_bytes;
  class->slot.blocks = page->base + (size_t)group * 64 * page->block_bytes;
  class->slot.map = page->map + (size_t)group * 64;
}

/* The same with these bits in it. */
FAST bool hdi_claim_bits(hd_unit *page, hd_class *class, uint32_t group, uint64_t bits, uint32_t count) {
  hdi_claim_group_of(page, class, group, count);
  hd_store_owned(&class->slot.bits, bits);
  return true;
}

/* Whether so many free blocks of the touched part are enough to go through it once more. */
FAST bool hdi_claim_pays(const hd_unit *page, const hd_class *class, int64_t unused) {
  bool few = page->capacity <= 64 || (class->page_count == 1 && !class->busy);
  return unused > 0 && unused * (few ? FEW_BLOCKS_SHARE : SHARE) >= page->fresh;
}

/* The next group of a CURRENT page, or the first one again, where other threads have told nothing: what most claims come to. Returns its
 * bits, 0 if none are free or there is more to see to; the caller puts them into the slot. */
FAST uint64_t hdi_claim_quick(hd_unit *page, hd_class *class) {
  uint32_t group = hdi_page_next_group(page);
  uint32_t count = 0;
  bool some = page->credit > 1 && page->credit <= page->capacity; /* neither all free nor all in use */
  if (!some || class->extend || hdi_page_has_news(page)) return 0;
  if (group * 64 >= page->fresh) {
    if (!hdi_claim_pays(page, class, (int64_t)page->fresh - (page->credit - 1))) return 0;
    group = 0;
  }
  uint64_t bits = hdi_claim_touched(page, group, &count);
  if (bits != 0) hdi_claim_group_of(page, class, group, count);
  return bits;
}

/* Have the processor fetch the first lines of what is claimed, where they are not at hand: free wrote nothing into these blocks, so in a
 * heap that is larger than the caches the program would wait for each of them (decision 29). Where they were never touched there is nothing
 * to fetch. */
FAST void hdi_claim_fetch(const hd_heap *heap, const hd_slot *slot) {
  if (HD_LIKELY(!heap->far)) return;
  uint8_t *blocks = slot->blocks;
  size_t block_bytes = slot->block_bytes;
  for (uint64_t bits = slot->bits; bits != 0; bits &= bits - 1) __builtin_prefetch(blocks + hd_lowest_bit(bits) * block_bytes, 1);
}

/* The first group in [from, to) with a free block that has been handed out before; its bits in *bits, and how many they are. In heap.c, in
 * one copy: it is long. */
uint32_t hdi_claim_group(const hd_unit *page, uint32_t from, uint32_t to, uint64_t *bits, uint32_t *count);

/* Claim that group from `from` on into the class's slot. false: there is none. */
static inline bool hdi_claim_from(hd_unit *page, hd_class *class, uint32_t from) {
  uint64_t bits = 0;
  uint32_t count = 0, groups = (page->fresh + 63) / 64;
  uint32_t group = hdi_claim_group(page, from, groups, &bits, &count);
  if (group == groups) return false;
  return hdi_claim_bits(page, class, group, bits, count);
}

/* Whether a page's blocks that were never handed out wait, because the class has a page without such blocks in its list, which ends with
 * those that have some (decision 32). Pages of few blocks run empty more often than they fill up, so theirs don't wait; nor do those of a
 * page that was just made. In heap.c. */
bool hdi_claim_waits(const hd_unit *page, const hd_class *class);

static inline bool hdi_claim_virgin(hd_unit *page, hd_class *class) {
  if (page->fresh == page->capacity) return false;
  uint32_t group = page->fresh / 64;
  uint32_t at = page->fresh % 64;
  /* Memory of earlier owners is resident, or part of it is: to walk through all of it is worth fewer claims where there are many. */
  uint32_t step = page->zeroed || !class->busy ? class->step : 64;
  uint32_t count = (uint32_t)hd_min(hd_min(step, 64 - at), page->capacity - page->fresh);
  hd_store_owned(&page->fresh, page->fresh + count);
  hdi_claim_bits(page, class, group, hd_low_mask(count) << at, count);
  class->zeroed = page->zeroed;
  return true;
}

/* Other threads free first and tell later, so more of the touched part may be free than the owner knows. Of a class for which they do,
 * count the bytes before memory is touched for it. A count that comes out too small is the last one until somebody tells again. */
static inline bool hdi_claim_untold(hd_unit *page, hd_class *class) {
  if (HD_LIKELY(!class->told)) return false;
  uint32_t groups = (page->fresh + 63) / 64, found = 0, more = 0;
  uint64_t bits = 0, others = 0;
  uint32_t first = hdi_claim_group(page, 0, groups, &bits, &found);
  int64_t unused = found;
  for (uint32_t group = first + 1; group < groups; group++) {
    group = hdi_claim_group(page, group, groups, &others, &more);
    unused += more;
  }
  class->told = hdi_claim_pays(page, class, unused);
  if (class->told) hdi_claim_bits(page, class, first, bits, found);
  return class->told;
}

/* Claim blocks of a CURRENT page into its class's slot. It takes class->step virgin blocks at most. false: nothing worth taking. */
static inline bool hdi_claim_next(hd_unit *page, hd_class *class) {
  bool all_used = page->credit > page->capacity; /* as far as the owner knows */
  if (all_used) return hdi_claim_untold(page, class);
  if (class->extend) {
    class->extend = false;
    if (hdi_claim_virgin(page, class)) return true;
  }
  if (page->credit == 1 && page->fresh > 0) hd_store_owned(&page->group_at, HD_NO_GROUP); /* all free: from the start again */
  if (hdi_claim_from(page, class, hdi_page_next_group(page))) return true;
  /* At the end of the touched part: once more from its start if enough of it is free, else on into virgin blocks. */
  bool again = hdi_claim_pays(page, class, (int64_t)page->fresh - hdi_page_used(page));
  if (again && hdi_claim_from(page, class, 0)) return true;
  return hdi_claim_untold(page, class) || (!hdi_claim_waits(page, class) && hdi_claim_virgin(page, class));
}

/* The bits of a class's slot, and if it has none, of its group claimed once more; 0: hdi_heap_refill has to go on. back: what the thread
 * freed of that group went back into the slot, so it can only hold what others freed; and the next group is looked at as well, which pages
 * of medium classes do not have. The caller puts the bits into the slot. */
FAST uint64_t hdi_claim_here(hd_heap *heap, hd_class *class, bool back) {
  uint64_t bits = class->slot.bits;
  if (bits != 0) return bits; /* of a small class a signal handler's */
  hdi_claim_count(heap, class);
  if (HD_UNLIKELY(class->page == NULL)) return 0;
  bits = back && !class->told ? 0 : hdi_claim_again(class->page, class);
  return bits == 0 && back ? hdi_claim_quick(class->page, class) : bits;
}

/* The bits of a class's slot, claimed if it has none. 0: no memory. */
FAST uint64_t hdi_claim(hd_heap *heap, unsigned class_index) {
  hd_class *class = &heap->class[class_index];
  uint64_t bits = hdi_claim_here(heap, class, false);
  if (HD_UNLIKELY(bits == 0) && hdi_heap_refill(heap, class_index)) bits = class->slot.bits;
  return bits;
}

#endif
