/* See store.h.
 * SPDX-License-Identifier: MIT */
#include "core/store.h"

#include <string.h>

#include "core/counters.h"
#include "os/os.h"

enum {
  BIN_COUNT = 9,
  FIRST_SHIFT = 6,
  COMMIT_STEP = 256 * 1024,
  HD_UNIT_ALIGN = 64 * 1024,
  RESERVE_BYTES = 512 * 1024,
  PAGE = 4096,               /* purging: of systems with such pages, the first 64 MiB, */
  PAGE_COUNT = 16384,
  PURGE_SHIFT = 10,          /* items of 1, 2 and 4 KiB: the byte maps of small blocks, */
  PURGE_FIRST_BIN = PURGE_SHIFT - FIRST_SHIFT,
  PURGE_LAST_BIN = PURGE_FIRST_BIN + 2,
  PURGE_MIN = 256 * 1024     /* when so much of them is free, and half as much more than after the last time */
};

typedef struct free_item {
  struct free_item *next;
} free_item;

static struct {
  hd_lock lock;
  uint8_t *first;      /* where it began */
  uint8_t *top;        /* next unused byte */
  uint8_t *committed;  /* end of what may be touched */
  bool open;           /* the range is claimed piece by piece, not reserved */
  uint8_t *end;        /* of the range, an unreachable system page before it */
  free_item *bin[BIN_COUNT];
  atomic_size_t used;
  size_t idle, idle_left;          /* bytes in the bins that are purged; the same after the last purge */
  size_t clean_count;              /* pages that were purged and not used since */
  uint64_t clean[PAGE_COUNT / 64];
  uint8_t free_kib[PAGE_COUNT];    /* hdi_store_purge's own: free items of a page, in KiB */
} store;

bool hdi_store_init(void *range, size_t bytes) {
  store.open = range != NULL;
  while (range == NULL && bytes >= 16 * HD_MIB) {
    range = hdi_os_reserve(bytes, HD_UNIT_ALIGN, false);
    if (range == NULL) bytes /= 2;
  }
  if (range == NULL) return false;
  /* An unreachable page on both sides, and a start that differs from run to run. */
  size_t skip = hdi_os.page_bytes * (1 + hdi_os_random() % 64);
  store.first = store.top = (uint8_t *)range + skip;
  store.committed = store.top;
  store.end = (uint8_t *)range + bytes - hdi_os.page_bytes;
  return true;
}

static unsigned bin_of(size_t bytes) { return bytes <= HD_STORE_MIN ? 0 : hd_highest_bit(bytes - 1) + 1 - FIRST_SHIFT; }

static hd_claim claim(uint8_t *start, size_t bytes) {
  if (store.open) return hdi_os_claim(start, bytes);
  return hdi_os_commit(start, bytes) ? HD_CLAIM_DONE : HD_CLAIM_REFUSED;
}

/* Fresh memory from the top. The caller holds the lock; the claim below is the one system call made under it, once in
 * thousands of calls. */
static void *take_fresh(size_t bytes) {
  for (;;) {
    uint8_t *start = (uint8_t *)hd_round_up((uintptr_t)store.top, hd_min(bytes, 4096));
    /* Not where the low 12 bits of the address are 0: a write to a block that starts like that would seem to touch the map that says
     * whether it is live, and processors wait for such writes. */
    if (bytes == HD_STORE_MIN && (uintptr_t)start % 4096 == 0) start += bytes;
    if (start + bytes > store.end) return NULL;
    if (start + bytes <= store.committed) {
      store.top = start + bytes;
      return start;
    }
    size_t step = hd_min(COMMIT_STEP, (size_t)(store.end - store.committed));
    hd_claim claimed = claim(store.committed, step);
    if (claimed == HD_CLAIM_REFUSED) return NULL;
    store.committed += step;
    if (claimed == HD_CLAIM_TAKEN) store.top = store.committed; /* somebody else's memory: go on behind it */
  }
}

/* While a fork holds the lock: memory from a reserve by a bump pointer alone. A reserve that is used up is followed by another, or
 * a program that forks for days would come to wait after all. */
typedef struct reserve {
  _Alignas(4096) atomic_size_t used;
  uint8_t items[RESERVE_BYTES - 4096];
} reserve;

static reserve *add_reserve(void) {
  reserve *more = hdi_os_reserve(sizeof *more, HD_UNIT_ALIGN, false);
  if (more == NULL || hdi_os_commit(more, sizeof *more)) return more;
  hdi_os_unreserve(more, sizeof *more);
  return NULL;
}

static void *take_during_fork(size_t rounded) {
  static reserve first;
  static _Atomic(reserve *) current = &first;
  size_t align = hd_min(rounded, 4096);
  for (;;) {
    reserve *now = hd_load_acquire(&current);
    size_t at = hd_round_up(hd_add(&now->used, rounded + align) + offsetof(reserve, items), align);
    if (at + rounded <= sizeof *now) {
      hd_add(&store.used, rounded);
      return (uint8_t *)now + at;
    }
    reserve *more = add_reserve();
    if (more == NULL) return NULL;
    if (!hd_swap_if(&current, &now, more)) hdi_os_unreserve(more, sizeof *more); /* somebody else was faster */
  }
}

static bool is_purged(unsigned bin) { return bin >= PURGE_FIRST_BIN && bin <= PURGE_LAST_BIN; }

static void push(unsigned bin, free_item *item) {
  item->next = store.bin[bin];
  store.bin[bin] = item;
  if (is_purged(bin)) store.idle += (size_t)1 << (bin + FIRST_SHIFT);
}

static free_item *pop(unsigned bin) {
  free_item *item = store.bin[bin];
  if (item == NULL) return NULL;
  store.bin[bin] = item->next;
  item->next = NULL;
  if (is_purged(bin)) store.idle -= (size_t)1 << (bin + FIRST_SHIFT);
  return item;
}

/* An item from a page that was purged; the rest of the page goes to the item's bin. */
static void *take_clean(unsigned bin) {
  size_t bytes = (size_t)1 << (bin + FIRST_SHIFT);
  if (store.clean_count == 0 || !is_purged(bin)) return NULL;
  size_t word = 0;
  while (store.clean[word] == 0) word++;
  uint8_t *page = store.first + (word * 64 + hd_lowest_bit(store.clean[word])) * PAGE;
  store.clean[word] &= store.clean[word] - 1;
  store.clean_count--;
  for (size_t at = PAGE - bytes; at > 0; at -= bytes) push(bin, (free_item *)(void *)(page + at));
  return page;
}

void *hdi_store_take(size_t bytes) {
  unsigned bin = bin_of(bytes);
  if (bin >= BIN_COUNT) return NULL;
  size_t rounded = (size_t)1 << (bin + FIRST_SHIFT);
  if (HD_UNLIKELY(!hdi_lock_take_unless_fork(&store.lock))) return take_during_fork(rounded);
  free_item *item = pop(bin);
  if (item == NULL) item = take_clean(bin);
  if (item == NULL) item = take_fresh(rounded);
  hdi_lock_drop(&store.lock);
  if (item != NULL) hd_add(&store.used, rounded);
  return item;
}

void hdi_store_give(void *memory, size_t bytes) {
  unsigned bin = bin_of(bytes);
  if (HD_UNLIKELY(!hdi_lock_take_unless_fork(&store.lock))) return; /* lost: a few hundred bytes, once in a fork at most */
  push(bin, memory);
  hdi_lock_drop(&store.lock);
  hd_sub(&store.used, (size_t)1 << (bin + FIRST_SHIFT));
}

/* ---- purging ----------------------------------------------------------------------------------------------------------- */

static size_t page_of(const void *item) { return (size_t)((const uint8_t *)item - store.first) / PAGE; }

/* Whether every item of this item's page is free. Items never cross a page: they are aligned to their size. */
static bool is_whole(const void *item) { return page_of(item) < PAGE_COUNT && store.free_kib[page_of(item)] == PAGE >> PURGE_SHIFT; }

static void count_items(unsigned bin) {
  for (free_item *item = store.bin[bin]; item != NULL; item = item->next) {
    if (page_of(item) < PAGE_COUNT) store.free_kib[page_of(item)] += (uint8_t)(1u << (bin - PURGE_FIRST_BIN));
  }
}

static void drop_whole(unsigned bin) {
  free_item **link = &store.bin[bin];
  while (*link != NULL) {
    free_item *item = *link;
    if (is_whole(item)) *link = item->next;
    else link = &item->next;
  }
}

/* Pages [from, to), out of the bins. They read as zero but for the links of their items. */
static size_t purge_run(size_t from, size_t to) {
  uint8_t *start = store.first + from * PAGE;
  size_t bytes = (to - from) * PAGE;
  hdi_counters_os_call(1);
  bool purged = hdi_os_purge(start, bytes);
  store.idle -= bytes;
  for (size_t page = from; page < to; page++) {
    if (purged) {
      store.clean[page / 64] |= (uint64_t)1 << page % 64;
      store.clean_count++;
      continue;
    }
    for (size_t at = 0; at < PAGE; at += 1 << PURGE_SHIFT) ((free_item *)(void *)(store.first + page * PAGE + at))->next = NULL;
    push(PURGE_LAST_BIN, (free_item *)(void *)(store.first + page * PAGE));
  }
  if (!purged) return 0;
  hdi_counters_purged(bytes);
  return bytes;
}

static size_t purge_pages(void) {
  size_t purged = 0;
  size_t count = hd_min(((size_t)(store.top - store.first) + PAGE - 1) / PAGE, PAGE_COUNT);
  memset(store.free_kib, 0, count);
  for (unsigned bin = PURGE_FIRST_BIN; bin <= PURGE_LAST_BIN; bin++) count_items(bin);
  for (unsigned bin = PURGE_FIRST_BIN; bin <= PURGE_LAST_BIN; bin++) drop_whole(bin);
  for (size_t page = 0; page < count; page++) {
    size_t end = page;
    while (end < count && store.free_kib[end] == PAGE >> PURGE_SHIFT) end++;
    if (end == page) continue;
    purged += purge_run(page, end);
    page = end;
  }
  return purged;
}

size_t hdi_store_purge(void) {
  size_t purged = 0;
  if (hdi_os.page_bytes != PAGE || store.first == NULL || !hdi_lock_take_unless_fork(&store.lock)) return 0;
  if (store.idle_left > store.idle) store.idle_left = store.idle;
  if (store.idle >= PURGE_MIN && store.idle - store.idle_left >= PURGE_MIN / 2) {
    purged = purge_pages();
    store.idle_left = store.idle;
  }
  hdi_lock_drop(&store.lock);
  return purged;
}

bool hdi_store_hold(void) { return hdi_lock_take_unless_fork(&store.lock); }

void hdi_store_let_go(void) { hdi_lock_drop(&store.lock); }

size_t hdi_store_used(void) { return hd_load_relaxed(&store.used); }

void hdi_store_fork(hd_fork_step step) { hdi_lock_fork(&store.lock, step); }
