/* Pages: a run of units cut into equal blocks, with one byte of state for each block, and a word of bits for each group of 64.
 *
 * The byte map is the truth: HD_BLOCK_LIVE from the moment malloc hands the block out to the moment somebody frees it, in
 * whatever thread. The words say which blocks the owner may hand out: those that it freed, and those that a claim has put in (claim.h).
 * Everything else is a hint or a count. A page lives like this:
 *
 *   CURRENT   the class takes its blocks from here; held = blocks live or in a word, as far as the owner knows; credit only counts what
 *             was freed since the words were counted, and where it runs out the same few blocks come and go (decision 34)
 *   FULL      no (or too few) free blocks; credit = local frees until it is worth a look again, rest = blocks beyond. One of a small
 *             class is LOOSE at first: its heap, or another, takes it by its owner word (remote.h)
 *   PARTIAL   in the class's list, which ends with pages that have blocks never handed out; credit + rest = blocks live; at 0 the page
 *             is released
 *
 * so that one decrement in free() serves all three. In a heap that is larger than the caches it runs out sooner, for a look at the order in
 * which the program frees (decision 43). Remote frees write the byte only; their count reaches credit or held later (remote.c),
 * so neither says fewer than are live.
 * Blocks never handed out come last, so that untouched memory stays untouched while enough of the touched part is free (claim.h), and
 * while other pages of the class have some (decision 32).
 * Who may call: the owner inside its gate, or a collector that stopped it.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_PAGE_H
#define HD_CORE_PAGE_H

#include "core/heap.h"

/* Cut a run of units into blocks of a class for a heap. false: no memory for the byte map. */
bool hdi_page_init(hd_heap *heap, hd_unit *page, unsigned class_index, unsigned units, bool zeroed);

/* In the child of a fork: a thread that is not here may have been between the stores of a free, so that its block is no longer counted,
 * or may be handed out, and still LIVE by its byte. If nobody takes it, the byte is cleared with its page. */
extern HD_HIDDEN bool hdi_page_torn;

/* Undo it: every unit of the run is NONE again. All bytes must be free. The page's heap keeps the map for its next one if it may. */
void hdi_page_clear(hd_heap *heap, hd_unit *page);

/* Blocks in a page's words. */
uint32_t hdi_page_count_words(const hd_unit *page);

/* How they are counted: one word after the other, where the processor is known to have an instruction for it. To ask takes microseconds
 * in a virtual machine, so a heap of many pages does, once. */
enum { HD_COUNT_UNASKED, HD_COUNT_BY_PAIRS, HD_COUNT_SINGLY };
extern HD_HIDDEN uint8_t hdi_page_counting;
void hdi_page_ask_processor(void);

/* The same of a CURRENT page, noted. There are so many at most until others' frees are put in. */
static inline uint32_t hdi_page_recount(hd_unit *page) {
  uint32_t count = hdi_page_count_words(page);
  hd_store_owned(&page->credit, HD_CREDIT_CURRENT);
  page->counted = (uint16_t)count;
  return count;
}

static inline uint32_t hdi_page_words_most(const hd_unit *page) { return page->counted + (HD_CREDIT_CURRENT - page->credit); }

/* Blocks in use as far as the owner knows. */
static inline uint32_t hdi_page_used(const hd_unit *page) {
  return page->state == HD_PAGE_CURRENT ? page->held - hdi_page_count_words(page) : page->credit + page->rest;
}

/* Whether others have told of frees in a page, and the owner has not taken them in yet. */
static inline bool hdi_page_has_news(const hd_unit *page) { return hd_load_relaxed(&page->remote_count) != 0; }

/* The group behind the one that the class's slot stands for; the first one, if it stands for none. */
static inline uint32_t hdi_page_next_group(const hd_unit *page) { return (uint16_t)(page->group + 1); }

/* Free the block at an index of a page that the heap owns; true when the page's credit ran out. The bit of its group's word is set, the
 * credit goes down, and last its byte becomes free, so that a collector that finds all bytes free knows that all credits are counted, and
 * that no word will change any more (gate.h). */
#ifdef HD_FAST_ASM
FAST bool hdi_free_index(hd_unit *page, uint64_t *words, hd_block_state *map, uint64_t index) {
  uint64_t bit = 0; /* in the register of free's argument: those of the map and the heap must not move */
  __asm__("btsq %[index], %[bit]" : [bit] "+D"(bit) : [index] "r"(index) : "cc"); /* by the index's low bits */
  __asm__ volatile("orq %[bit], %[bits]" : [bits] "+m"(words[index >> 6]) : [bit] "r"(bit) : "cc");
  __asm__ goto("subl $1, %[credit]\n\tmovb %[dead], %[state]\n\tjz %l[event]" /* the store keeps the flags of the subtraction */
               :
               : [credit] "m"(page->credit), [state] "m"(*(uint8_t *)(map + index)), [dead] "i"(HD_BLOCK_FREE)
               : "cc", "memory"
               : event);
  return false;
event:
  return true;
}
#else
FAST bool hdi_free_index(hd_unit *page, uint64_t *words, hd_block_state *map, uint64_t index) {
  uint64_t *word = &words[index >> 6];
  uint32_t credit = page->credit - 1;
  hd_store_owned(word, *word | (uint64_t)1 << (index & 63));
  hd_store_owned(&page->credit, credit);
  hd_store_release(map + index, HD_BLOCK_FREE);
  return credit == 0;
}
#endif

/* The same by its byte. */
FAST bool hdi_free_local(hd_unit *page, hd_block_state *state) {
  return hdi_free_index(page, page->words, page->map, (uint64_t)(state - page->map));
}

/* Whether a page is of a small class of a thread's heap. */
static inline bool hdi_page_is_plain(hd_unit *page) { return (hd_load_relaxed(&page->owner) & HD_OWNER_BITS) == 0; }

/* Whether the owner of a page frees its blocks outside the gate: all but those that pass a magazine. */
static inline bool hdi_page_frees_freely(hd_unit *page) {
  return (hd_load_relaxed(&page->owner) & (HD_OWNER_MEDIUM | HD_OWNER_EXPLICIT)) != HD_OWNER_MEDIUM;
}

/* Live blocks by the byte map. */
uint32_t hdi_page_count_live(const hd_unit *page);

enum { HD_PAGE_BLOCKS_MAX = HD_UNIT_BYTES / 16 };

/* A picture of a page for somebody who has no hold on its heap. */
typedef struct hd_page_view {
  hd_heap *heap; /* explicit, or NULL */
  uint8_t *base;
  size_t bytes, block_bytes;
  uint32_t capacity, live;
} hd_page_view;

/* Any thread. states: where the byte map goes, HD_PAGE_BLOCKS_MAX of them; or NULL. false: there is no page any more, or a fork is
 * under way. */
bool hdi_page_look(hd_unit *page, hd_page_view *view, uint8_t *states);

/* Give back the system pages of a page in which no block is live and none is the slot's. claimed: the bits of its group that the
 * slot still has; the owner may take them meanwhile, but no others. Returns bytes. */
size_t hdi_page_purge_free(hd_unit *page, uint64_t claimed);

#endif
