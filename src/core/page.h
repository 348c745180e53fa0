/* Pages: a run of units cut into equal blocks, with one byte of state for each block.
 *
 * The byte map is the truth: HD_BLOCK_LIVE from the moment malloc hands the block out to the moment somebody frees it, in
 * whatever thread. Everything else is a hint or a count. A page lives like this:
 *
 *   CURRENT   the class takes its blocks from here; credit = 1 + blocks claimed or live, as far as the owner knows: frees of
 *             its blocks never bring it to 0
 *   FULL      no (or too few) free blocks; credit = local frees until it is worth a look again, rest = blocks beyond
 *   PARTIAL   in the class's list; credit = blocks live; at 0 the page is released
 *
 * so that one decrement in free() serves all three. Remote frees write the byte only; their count reaches credit later
 * (remote.c), so credit never says fewer than are live.
 * A claim turns a group of 64 bytes into a word of bits. Blocks never handed out come last, so that untouched memory stays
 * untouched while an eighth of the touched part is free.
 * Who may call: the owner inside its gate, or a collector that stopped it.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_PAGE_H
#define HD_CORE_PAGE_H

#include "core/heap.h"

enum {
  HD_STEP_BYTES = 4096,      /* virgin blocks claimed at a time: at first about one system page of them, */
  HD_STEP_BYTES_MAX = 16384  /* later, when the class proves busy, up to this */
};

#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
#include <emmintrin.h>
#endif

/* Cut a run of units into blocks of a class for a heap. false: no memory for the byte map. */
bool hdi_page_init(hd_heap *heap, hd_unit *page, unsigned class_index, unsigned units, bool zeroed);

/* Undo it: every unit of the run is NONE again. All bytes must be free. */
void hdi_page_clear(hd_unit *page);

/* The free blocks of a group, as bits. Bytes may change meanwhile by remote frees; each is read once, and acquired, so that what the
 * freeing thread did before is visible to whoever gets the block. */
#if defined(__SSE2__) && !defined(__SANITIZE_THREAD__)
FAST uint64_t hdi_page_free_blocks(const hd_block_state *map) {
  const __m128i *part = (const __m128i *)(const void *)map;
  const __m128i zero = _mm_setzero_si128();
  uint64_t bits = 0;
  for (int i = 0; i < 4; i++) {
    uint64_t found = (uint32_t)_mm_movemask_epi8(_mm_cmpeq_epi8(_mm_load_si128(part + i), zero));
    bits |= found << (16 * i);
  }
  atomic_thread_fence(memory_order_acquire);
  return bits;
}
#else
FAST uint64_t hdi_page_free_blocks(const hd_block_state *map) {
  uint64_t bits = 0;
  for (int i = 0; i < 64; i++) bits |= (uint64_t)(hd_load_acquire(&map[i]) == HD_BLOCK_FREE) << i;
  return bits;
}
#endif

/* A class that keeps coming back for a handful of blocks gets more of them: up to 16 or 16 KiB, and four in any case. */
FAST bool hdi_page_wants_more(hd_unit *page, hd_class *class) {
  if (HD_LIKELY(page->fresh >= 16)) return false;
  if (page->fresh >= 4 && page->fresh * page->block_bytes >= HD_STEP_BYTES_MAX) return false;
  if (++class->short_claims % 8 != 0) return false;
  class->extend = true;
  return true;
}

/* Claim the group of a CURRENT page once more, if a quarter of what was handed out of it is free: the program works there, in memory
 * that is hot. The slot stands for this group already. Returns its bits, 0 for none; the caller puts them into the slot. */
FAST uint64_t hdi_page_claim_again(hd_unit *page, hd_class *class) {
  uint32_t at = page->group * 64;
  if (HD_UNLIKELY(page->fresh <= at)) return 0;
  if (HD_UNLIKELY(hdi_page_wants_more(page, class))) return 0;
  uint64_t bits = hdi_page_free_blocks(page->map + at);
  uint32_t touched = page->fresh - at;
  uint32_t count = 64;
  if (touched < 64) bits &= ~(UINT64_MAX << touched);
  else touched = 64;
  if (bits != UINT64_MAX) {
    count = hd_bit_count(bits);
    if (count * 4 < touched) return 0;
  }
  page->credit += count;
  class->zeroed = false;
  return bits;
}

/* Claim blocks of a CURRENT page into its class's slot. It takes class->step virgin blocks at most. false: nothing worth taking. */
bool hdi_page_claim(hd_unit *page, hd_slot *slot, hd_class *class);

/* Blocks in use as far as the owner knows. */
static inline uint32_t hdi_page_used(const hd_unit *page) {
  if (page->state == HD_PAGE_FULL) return page->credit + page->rest;
  return page->state == HD_PAGE_CURRENT ? page->credit - 1 : page->credit;
}

/* Live blocks by the byte map. */
uint32_t hdi_page_count_live(const hd_unit *page);

/* Give back the system pages of a page in which no block is live and none is claimed. claimed: the bits of its group that the
 * slot still holds; the owner may take them meanwhile, but no others. Returns bytes. */
size_t hdi_page_purge_free(hd_unit *page, uint64_t claimed);

#endif
