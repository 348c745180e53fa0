/* Frees from other threads: of small classes, and of others where no parcel is at hand (parcel.h). The two are all of the heap's
 * cross-thread protocol, and run under the schedule explorer.
 *
 * A thread that frees a block of another heap's page so
 *   R1  writes the block's byte (release), after which the owner may hand the block out again whenever it next looks;
 *   R2  counts the free in a small table of its own, by page.
 * When an entry is worth it (or at the thread's end, or when a collector comes by) the count is added to the page's
 * remote_count with one compare-and-swap; whoever thereby brings it to the threshold sets QUEUED and pushes the page to the
 * owner's inbox. The owner takes the inbox whole, exchanges each count for 0 and lowers the page's credit. Pages of owners who do not
 * look are fetched by whoever would touch new memory otherwise (decision 18).
 *
 * Why a page is never released too early: credit falls only by counted frees, so credit and rest 0 mean that no table holds a count
 * for the page; and as long as QUEUED is set somebody may still push it, so it is released only after QUEUED was cleared.
 * The owner lowers credit without atomics and outside its gate, so nobody else may write it while a block of the page is live:
 * a collector takes in counts for idle pages only, and pages change owners only while they are LOOSE, so that nobody is about to free a
 * block of one in that way.
 * A freeing thread touches the page only before its own count is in, or while QUEUED is its own.
 * Orders: the byte's release pairs with the acquire fence of a claim (page.c); the count's acq_rel exchange pairs with the
 * compare-and-swap; push (release) pairs with the inbox exchange (acquire), and with the load by
 * which a collector, who has stopped the owner, takes pages out one by one.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_REMOTE_H
#define HD_CORE_REMOTE_H

#include "core/gate.h"

/* Frees of a page's blocks that one other heap counts before it tells the owner. */
uint16_t hdi_remote_limit(uint32_t capacity, uint32_t block_bytes);

/* The entry of a heap's table that counts for page, or for another page at the moment. */
FAST hd_remote_entry *hdi_remote_entry(hd_heap *self, const hd_unit *page) {
  uintptr_t at = (uintptr_t)page >> HD_UNIT_ENTRY_SHIFT;
  return &self->remote[(at ^ (at >> 7)) % HD_REMOTE_TABLE];
}

/* R2, for a block of page whose byte has been written. self: the freeing thread's heap; the slow form takes the empty heap as well. */
SLOW void hdi_remote_count_slow(hd_heap *self, hd_unit *page);
FAST void hdi_remote_count(hd_heap *self, hd_unit *page) {
  if (HD_LIKELY(!hdi_gate_is_inside(self) && hdi_gate_try(self))) {
    hd_remote_entry *entry = hdi_remote_entry(self, page);
    bool counted = entry->page == page && entry->left > 1;
    if (HD_LIKELY(counted)) entry->left--;
    hdi_gate_leave(self);
    if (HD_LIKELY(counted)) return;
  }
  hdi_remote_count_slow(self, page);
}

/* Pages that change owners. A heap's thread that only waits looks into no inbox, and what others free of its blocks would lie there until
 * nothing in a page is in use. So a page of a small class that its heap has filled is LOOSE: no free() is a simple one then, not even of
 * that heap's thread, and whoever exchanges the owner word has the page, with its credit, its words, and what others have counted. The
 * heap itself does so when its thread frees a block there. Another does when it is about to tell that enough of the page is free, while
 * the owner does not read its mail, if it takes blocks of that class itself (decision 39).
 * Who reads the owner to push a page may be late: a heap that finds a page of another's in its inbox passes it on. */

/* By the owner, for a page that is FULL. */
static inline void hdi_remote_let_loose(hd_unit *page) {
  hd_store_release(&page->owner, hd_load_relaxed(&page->owner) | HD_OWNER_LOOSE); /* pairs with who takes it */
}

/* A page that self has let loose is its own again. false: no longer, or a collector is at it. Outside the gate, as a free is: a collector
 * that has stopped self wins the exchange, or finds one more page that may change by what self frees. */
static inline bool hdi_remote_take_back(hd_heap *self, hd_unit *page) {
  uintptr_t word = (uintptr_t)self | HD_OWNER_LOOSE;
  return hd_swap_if(&page->owner, &word, (uintptr_t)self);
}

/* For a collector: keep everybody from taking a heap's LOOSE page over, or let them again. false: it is not, or no longer, such a page. */
bool hdi_remote_sweep_begin(const hd_heap *heap, hd_unit *page);
void hdi_remote_sweep_end(const hd_heap *heap, hd_unit *page);

/* Whether a page is a heap's, and nobody else can take it over. */
static inline bool hdi_remote_is_settled(const hd_heap *heap, hd_unit *page) {
  return (hd_load_acquire(&page->owner) & ~(uintptr_t)(HD_OWNER_BITS ^ HD_OWNER_LOOSE)) == (uintptr_t)heap;
}

/* The owner of a page, whose own it is again if it was LOOSE: nobody else takes it any more. */
SLOW hd_heap *hdi_remote_settle_loose(hd_unit *page);
static inline hd_heap *hdi_remote_settle(hd_unit *page) {
  uintptr_t word = hd_load_acquire(&page->owner);
  if ((word & HD_OWNER_LOOSE) != 0) return hdi_remote_settle_loose(page);
  return hdi_heap_of_word(word);
}

/* Announce all counts of a heap's table, and send its parcels. The caller is its owner inside the gate, or has stopped it. */
void hdi_remote_flush(hd_heap *self);

/* Whether there may be any. Any thread: the answer may be old at once. */
bool hdi_remote_holds_counts(hd_heap *heap);

/* Take in the pages of the inbox, and the parcels that have arrived. The caller is the owner inside the gate, or has the heap's lock. */
void hdi_remote_drain(hd_heap *owner);

/* For a collector that has stopped the owner: take in only the pages that are idle, and leave the others in the inbox. most: pages taken in
 * before it ends; looks: pages that it may still look at, counted down. Returns the pages taken in. */
size_t hdi_remote_drain_idle(hd_heap *owner, size_t most, size_t *looks);

/* Some inbox may hold a megabyte of pages that nobody uses any more, while its owner does something else; and whether this one may. */
extern HD_HIDDEN atomic_bool hdi_remote_much;
enum { HD_MUCH_MAIL = 16 }; /* pages that wait for their owner and are worth looking at by somebody else */
static inline bool hdi_remote_has_much(hd_heap *owner) {
  hd_unit *head = hd_load_acquire(&owner->inbox);
  return head != NULL && hd_peek(&head->mail) >= HD_MUCH_MAIL;
}

/* Whether nobody but the collector can change a page of a stopped heap: no block is live, so the owner has counted all its frees
 * and has none to do; and its slot holds none that could become live without the gate. */
bool hdi_remote_is_idle(hd_heap *owner, hd_unit *page);

/* Frees of a page that its owner has been told of, and has not taken in. */
static inline uint32_t hdi_remote_counted(hd_unit *page) { return hd_load_relaxed(&page->remote_count) & ~HD_REMOTE_QUEUED; }

/* Take in what is counted for one page, leaving QUEUED as it is. */
uint32_t hdi_remote_take(hd_unit *page);

/* Whether somebody may still push this page. */
static inline bool hdi_remote_is_queued(hd_unit *page) { return (hd_load_acquire(&page->remote_count) & HD_REMOTE_QUEUED) != 0; }

/* Whether anything waits in the inbox. */
static inline bool hdi_remote_has_mail(hd_heap *owner) { return hd_load_relaxed(&owner->inbox) != NULL; }

#endif
