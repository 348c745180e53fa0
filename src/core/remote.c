/* See remote.h.
 * SPDX-License-Identifier: MIT */
#include "core/remote.h"

#include "core/check.h"
#include "core/parcel.h"
#include "core/purge.h"

enum {
  ENTRY_BYTES = 16 * 1024, /* most memory that an unannounced entry may stand for */
  FEW_BLOCKS = 64,         /* an eighth of so few blocks is told too often, */
  FEWEST_BLOCKS = 16       /* and a quarter of so few is too much memory */
};

/* Counted frees at which the owner is told: an eighth of the page, as for local frees, or a quarter. */
static uint32_t threshold(uint64_t capacity) {
  bool few = capacity <= FEW_BLOCKS && capacity > FEWEST_BLOCKS;
  return (uint32_t)hd_max(1, capacity / (few ? 4 : 8));
}

uint16_t hdi_remote_limit(uint32_t capacity, uint32_t block_bytes) {
  return (uint16_t)hd_min(threshold(capacity), (ENTRY_BYTES + block_bytes - 1) / block_bytes);
}

atomic_bool hdi_remote_much;

/* FULL pages are counted, which may become free as a whole. Somebody may be taking the inbox in meanwhile, so the count is a hint. */
static void push(hd_heap *owner, hd_unit *page) {
  uint32_t full = hd_peek(&page->state) == HD_PAGE_FULL;
  uint32_t mail = 0;
  hd_unit *head = hd_load_relaxed(&owner->inbox);
  do {
    page->remote_next = head;
    mail = full + (head == NULL ? 0 : hd_peek(&head->mail));
    hd_store_owned(&page->mail, mail);
  } while (!hd_swap_if(&owner->inbox, &head, page)); /* release: pairs with hdi_remote_drain and pop */
  if (HD_UNLIKELY(mail >= HD_MUCH_MAIL) && !hd_load_relaxed(&hdi_remote_much)) hd_store_relaxed(&hdi_remote_much, true);
}

/* ---- pages that change owners ------------------------------------------------------------------------------------- */

hd_heap *hdi_remote_settle_loose(hd_unit *page) {
  uintptr_t word = hd_load_acquire(&page->owner);
  while ((word & HD_OWNER_LOOSE) != 0 && !hd_swap_if(&page->owner, &word, (uintptr_t)hdi_heap_of_word(word))) {
  }
  return hdi_heap_of_word(word);
}

bool hdi_remote_sweep_begin(const hd_heap *heap, hd_unit *page) {
  uintptr_t word = (uintptr_t)heap | HD_OWNER_LOOSE;
  return hd_swap_if(&page->owner, &word, word | HD_OWNER_SWEPT);
}

/* Whoever passed the page on has settled it meanwhile. */
void hdi_remote_sweep_end(const hd_heap *heap, hd_unit *page) {
  uintptr_t word = (uintptr_t)heap | HD_OWNER_LOOSE | HD_OWNER_SWEPT;
  hd_swap_if(&page->owner, &word, (uintptr_t)heap | HD_OWNER_LOOSE);
}

/* Whether a heap takes blocks of a class, and will have to look for a page soon. */
static bool is_short_of_pages(const hd_class *class) { return class->page != NULL && (class->first == NULL || class->first->next == NULL); }

/* So many more frees of a LOOSE page are enough to be told. If its owner has much to read already, and self has use for the page, it is
 * self's from now on. self: a heap that is inside its gate, or NULL; word: what the page's owner word was a moment ago. */
static SLOW bool take_over(hd_heap *self, hd_unit *page, uint32_t count, uintptr_t word) {
  hd_heap *home = hdi_heap_of_word(word);
  if (self == NULL || self == home || (word & HD_OWNER_SWEPT) != 0 || !hdi_remote_has_much(home)) return false;
  if (!is_short_of_pages(&self->class[page->class_index]) || !hd_swap_if(&page->owner, &word, (uintptr_t)self)) return false;
  hd_add(&home->lost_units, page->run_units);
  self->page_units += page->run_units;
  self->class[page->class_index].page_count++;
  hdi_heap_credit_remote(self, page, count + hdi_remote_take(page));
  return true;
}

/* ---- counts ------------------------------------------------------------------------------------------------------- */

/* self: the heap of the thread that frees, inside its gate, which may take the page; or NULL. */
static void announce(hd_heap *self, hd_unit *page, uint32_t count) {
  uint32_t enough = threshold(page->capacity);
  uint32_t old = hd_load_relaxed(&page->remote_count);
  uint32_t sum = 0;
  uintptr_t word = 0;
  bool queue = false;
  do {
    word = hd_load_acquire(&page->owner); /* before the count is in: afterwards the page may already belong to somebody else */
    sum = old + count;
    queue = (old & HD_REMOTE_QUEUED) == 0 && sum >= enough;
    if (queue && (word & HD_OWNER_LOOSE) != 0 && take_over(self, page, count, word)) return;
    if (queue) sum |= HD_REMOTE_QUEUED;
  } while (!hd_swap_if(&page->remote_count, &old, sum));
  if (queue) push(hdi_heap_of_word(word), page);
  hdi_purge_note();
}

void hdi_remote_count_slow(hd_heap *self, hd_unit *page) {
  if (hdi_heap_is_empty(self) || hdi_gate_is_inside(self)) {
    announce(NULL, page, 1);
    return;
  }
  hdi_gate_enter(self);
  hd_remote_entry *entry = hdi_remote_entry(self, page);
  if (entry->page != page) {
    if (entry->page != NULL) announce(self, entry->page, entry->limit - entry->left);
    hd_store_owned(&entry->page, page);
    entry->left = entry->limit = page->remote_limit;
  }
  if (--entry->left == 0) {
    hd_store_owned(&entry->page, NULL);
    announce(self, page, entry->limit);
  }
  hdi_gate_leave(self);
}

bool hdi_remote_holds_counts(hd_heap *heap) {
  if (hd_peek(&heap->parcels_open) != 0) return true;
  for (unsigned i = 0; i < HD_REMOTE_TABLE; i++) {
    if (hd_peek(&heap->remote[i].page) != NULL) return true;
  }
  return false;
}

void hdi_remote_flush(hd_heap *self) {
  hdi_parcel_flush(self);
  for (unsigned i = 0; i < HD_REMOTE_TABLE; i++) {
    hd_remote_entry *entry = &self->remote[i];
    hd_unit *page = entry->page;
    if (page == NULL) continue;
    hd_store_owned(&entry->page, NULL);
    announce(NULL, page, entry->limit - entry->left);
  }
}

void hdi_remote_drain(hd_heap *owner) {
  hdi_parcel_look(owner);
  if (!hdi_remote_has_mail(owner)) return;
  hd_unit *page = hd_exchange(&owner->inbox, NULL);
  while (page != NULL) {
    hd_unit *next = page->remote_next; /* the link is free for others once QUEUED is cleared */
    hd_heap *now = hdi_remote_settle(page);
    if (HD_LIKELY(now == owner)) hdi_heap_credit_remote(owner, page, hd_exchange(&page->remote_count, 0u) & ~HD_REMOTE_QUEUED);
    else push(now, page); /* passed on, still QUEUED */
    page = next;
  }
}

uint32_t hdi_remote_take(hd_unit *page) {
  if (HD_LIKELY(hdi_remote_counted(page) == 0)) return 0;
  HD_POINT();
  return atomic_fetch_and_explicit(&page->remote_count, HD_REMOTE_QUEUED, memory_order_acq_rel) & ~HD_REMOTE_QUEUED;
}

/* What the owner frees or takes later without the gate changes neither what the page holds nor its credit, which is what the collector is
 * about to write. Of a page from which the owner can take at once nothing is to be had. */
bool hdi_remote_is_idle(hd_heap *owner, hd_unit *page) {
  bool taken_freely = page->class_index <= HD_SMALL_CLASSES && page->state == HD_PAGE_CURRENT;
  if (taken_freely && __atomic_load_n(hdi_slot_word(&owner->class[page->class_index].slot), __ATOMIC_ACQUIRE) != 0) return false;
  for (uint32_t i = 0; i < page->capacity; i++) {
    if (hd_load_acquire(&page->map[i]) != HD_BLOCK_FREE) return false; /* pairs with the owner's last store in free() */
  }
  return true;
}

/* Others only push meanwhile: the page on top may change, but no page comes back under a newer one. */
static hd_unit *pop(hd_heap *owner) {
  hd_unit *page = hd_load_acquire(&owner->inbox);
  while (page != NULL && !hd_swap_if(&owner->inbox, &page, page->remote_next)) {
  }
  return page;
}

size_t hdi_remote_drain_idle(hd_heap *owner, size_t most, size_t *looks) {
  size_t count = 0;
  hd_unit *page = NULL, *busy = NULL;
  for (; count < most && *looks > 0 && (page = pop(owner)) != NULL; --*looks) {
    if (hdi_heap_owner(page) == owner && hdi_remote_is_idle(owner, page) && hdi_remote_settle(page) == owner) {
      hdi_heap_credit_remote(owner, page, hd_exchange(&page->remote_count, 0u) & ~HD_REMOTE_QUEUED);
      count++;
    } else {
      page->remote_next = busy;
      busy = page;
    }
  }
  while (busy != NULL) {
    page = busy;
    busy = busy->remote_next;
    push(hdi_heap_owner(page), page); /* passed on, if it is another's by now; still QUEUED */
  }
  return count;
}
