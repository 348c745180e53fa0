/* Pages: a run of units cut into equal blocks, with one byte of state for each block.
 *
 * The byte map is the truth: HD_BLOCK_LIVE from the moment malloc hands the block out to the moment somebody frees it, in
 * whatever thread. Everything else is a hint or a count. A page lives like this:
 *
 *   CURRENT   the class takes its blocks from here; credit = 1 + blocks claimed or live, as far as the owner knows: frees of
 *             its blocks never bring it to 0
 *   FULL      no (or too few) free blocks; credit = local frees until it is worth a look again, rest = blocks beyond
 *   PARTIAL   in the class's list, which ends with pages that have blocks never handed out; credit = blocks live; at 0 the page is
 *             released
 *
 * so that one decrement in free() serves all three; what goes back into the slot stays claimed, and needs none. Remote frees write the
 * byte only; their count reaches credit later (remote.c), so credit never says fewer than are live.
 * A claim turns a group of 64 bytes into a word of bits. Blocks never handed out come last, so that untouched memory stays
 * untouched while enough of the touched part is free (claim.h), and while other pages of the class have some (decision 32).
 * Who may call: the owner inside its gate, or a collector that stopped it.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_PAGE_H
#define HD_CORE_PAGE_H

#include "core/heap.h"

/* Cut a run of units into blocks of a class for a heap. false: no memory for the byte map. */
bool hdi_page_init(hd_heap *heap, hd_unit *page, unsigned class_index, unsigned units, bool zeroed);

/* In the child of a fork: a thread that is not here may have been between the two stores of a free, so that its block is no longer counted
 * and still LIVE by its byte. Nobody will ever free it; the byte is cleared with its page. */
extern HD_HIDDEN bool hdi_page_torn;

/* Undo it: every unit of the run is NONE again. All bytes must be free. */
void hdi_page_clear(hd_unit *page);

/* Blocks in use as far as the owner knows. */
static inline uint32_t hdi_page_used(const hd_unit *page) {
  if (page->state == HD_PAGE_FULL) return page->credit + page->rest;
  return page->state == HD_PAGE_CURRENT ? page->credit - 1 : page->credit;
}

/* Whether others have told of frees in a page, and the owner has not taken them in yet. */
static inline bool hdi_page_has_news(const hd_unit *page) { return hd_load_relaxed(&page->remote_count) != 0; }

/* The group behind the one that the class's slot stands for; the first one, if it stands for none. */
static inline uint32_t hdi_page_next_group(const hd_unit *page) { return (uint32_t)((page->group_at + 64) / 64); }

/* Free a block of a page that the heap owns; true when the page's credit ran out. The credit goes down before the byte
 * becomes free, so that a collector that finds all bytes free knows that all credits are counted (gate.h). */
#ifdef HD_FAST_ASM
FAST bool hdi_free_local(hd_unit *page, hd_block_state *state) {
  bool event;
  __asm__("subl $1, %[credit]\n\tmovb %[dead], %[state]" /* the store keeps the flags of the subtraction */
          : [credit] "+m"(page->credit), [state] "=m"(*(uint8_t *)state), "=@ccz"(event)
          : [dead] "i"(HD_BLOCK_FREE));
  return event;
}
#else
FAST bool hdi_free_local(hd_unit *page, hd_block_state *state) {
  uint32_t credit = page->credit - 1;
  hd_store_owned(&page->credit, credit);
  hd_store_release(state, HD_BLOCK_FREE);
  return credit == 0;
}
#endif

/* Whether what the owner frees in the group that the slot stands for goes back into the slot (hdi_free_own): in small classes of threads'
 * heaps. */
static inline bool hdi_page_puts_back(hd_unit *page) { return (hd_load_relaxed(&page->owner) & HD_OWNER_BITS) == 0; }

/* Put such a block back: its byte, then its bit. It stays counted as claimed. In two instructions, so that a signal handler in between may
 * take and free. */
#ifdef HD_FAST_ASM
FAST void hdi_free_back(hd_slot *slot, hd_block_state *state, uint32_t at) {
  __asm__("movb %[dead], %[state]\n\torq %[bit], %[bits]"
          : [state] "=m"(*(uint8_t *)state), [bits] "+m"(slot->bits)
          : [dead] "i"(HD_BLOCK_FREE), [bit] "r"((uint64_t)1 << at)
          : "cc");
}
#else
FAST void hdi_free_back(hd_slot *slot, hd_block_state *state, uint32_t at) {
  hd_store_release(state, HD_BLOCK_FREE);
  hd_store_owned(&slot->bits, slot->bits | (uint64_t)1 << at);
}
#endif

/* Live blocks by the byte map. */
uint32_t hdi_page_count_live(const hd_unit *page);

enum { HD_PAGE_BLOCKS_MAX = HD_UNIT_BYTES / 16 };

/* A picture of a page for somebody who has no hold on its heap. */
typedef struct hd_page_view {
  hd_heap *heap;      /* explicit, or NULL */
  uint8_t *base;
  size_t bytes, block_bytes;
  uint32_t capacity, live;
} hd_page_view;

/* Any thread. states: where the byte map goes, HD_PAGE_BLOCKS_MAX of them; or NULL. false: there is no page any more, or a fork is
 * under way. */
bool hdi_page_look(hd_unit *page, hd_page_view *view, uint8_t *states);

/* Give back the system pages of a page in which no block is live and none is claimed. claimed: the bits of its group that the
 * slot still holds; the owner may take them meanwhile, but no others. Returns bytes. */
size_t hdi_page_purge_free(hd_unit *page, uint64_t claimed);

#endif
