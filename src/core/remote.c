/* See remote.h.
 * SPDX-License-Identifier: MIT */
#include "core/remote.h"

#include "core/check.h"
#include "core/parcel.h"
#include "core/purge.h"

enum {
  ENTRY_BYTES = 16 * 1024, /* most memory that an unannounced entry may stand for */
  FEW_BLOCKS = 64,         /* an eighth of so few blocks is told too often, */
  FEWEST_BLOCKS = 16,      /* and a quarter of so few is too much memory */
  MUCH_MAIL = 16           /* pages that wait for their owner and are worth looking at by somebody else */
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
  if (HD_UNLIKELY(mail >= MUCH_MAIL) && !hd_load_relaxed(&hdi_remote_much)) hd_store_relaxed(&hdi_remote_much, true);
}

bool hdi_remote_has_much(hd_heap *owner) {
  hd_unit *head = hd_load_acquire(&owner->inbox);
  return head != NULL && hd_peek(&head->mail) >= MUCH_MAIL;
}

static void announce(hd_unit *page, uint32_t count) {
  /* Read before the count is in: afterwards the page may already belong to somebody else. */
  hd_heap *owner = hdi_heap_owner(page);
  uint32_t enough = threshold(page->capacity);
  uint32_t old = hd_load_relaxed(&page->remote_count);
  uint32_t sum = 0;
  bool queue = false;
  do {
    sum = old + count;
    queue = (old & HD_REMOTE_QUEUED) == 0 && sum >= enough;
    if (queue) sum |= HD_REMOTE_QUEUED;
  } while (!hd_swap_if(&page->remote_count, &old, sum));
  if (queue) push(owner, page);
  hdi_purge_note();
}

void hdi_remote_count_slow(hd_heap *self, hd_unit *page) {
  if (hdi_heap_is_empty(self) || hdi_gate_is_inside(self)) {
    announce(page, 1);
    return;
  }
  hdi_gate_enter(self);
  hd_remote_entry *entry = hdi_remote_entry(self, page);
  if (entry->page != page) {
    if (entry->page != NULL) announce(entry->page, entry->limit - entry->left);
    entry->page = page;
    entry->left = entry->limit = page->remote_limit;
  }
  if (--entry->left == 0) {
    entry->page = NULL;
    announce(page, entry->limit);
  }
  hdi_gate_leave(self);
}

void hdi_remote_flush(hd_heap *self) {
  hdi_parcel_flush(self);
  for (unsigned i = 0; i < HD_REMOTE_TABLE; i++) {
    hd_remote_entry *entry = &self->remote[i];
    hd_unit *page = entry->page;
    if (page == NULL) continue;
    entry->page = NULL;
    announce(page, entry->limit - entry->left);
  }
}

void hdi_remote_drain(hd_heap *owner) {
  hdi_parcel_look(owner);
  if (!hdi_remote_has_mail(owner)) return;
  hd_unit *page = hd_exchange(&owner->inbox, NULL);
  while (page != NULL) {
    hd_unit *next = page->remote_next; /* the link is free for others once QUEUED is cleared */
    uint32_t count = hd_exchange(&page->remote_count, 0u) & ~HD_REMOTE_QUEUED;
    hdi_heap_credit_remote(owner, page, count);
    page = next;
  }
}

uint32_t hdi_remote_take(hd_unit *page) {
  if (HD_LIKELY((hd_load_relaxed(&page->remote_count) & ~HD_REMOTE_QUEUED) == 0)) return 0;
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
    if (hdi_remote_is_idle(owner, page)) {
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
    push(owner, page); /* still QUEUED */
  }
  return count;
}
