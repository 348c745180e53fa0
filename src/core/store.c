/* See store.h.
 * SPDX-License-Identifier: MIT */
#include "core/store.h"

#include <string.h>

#include "core/counters.h"
#include "os/os.h"

enum {
  BIN_COUNT = 9,
  COMMIT_STEP = 256 * 1024,
  HD_UNIT_ALIGN = 64 * 1024,
  FIRST_RESERVE_BYTES = 64 * 1024, /* conservative garbage collectors read all data of libraries, each time */
  RESERVE_BYTES = 512 * 1024,
  ASIDE_COUNT = 32,          /* items of each size put aside for the time of a fork */
  PAGE = 4096,               /* purging: of systems with such pages, the first 64 MiB, */
  PAGE_COUNT = 16384,
  PURGE_SHIFT = 10,          /* items of 1, 2 and 4 KiB: the byte maps of small blocks, */
  PURGE_FIRST_BIN = PURGE_SHIFT - HD_STORE_SHIFT,
  PURGE_LAST_BIN = PURGE_FIRST_BIN + 2,
  PURGE_MIN = 256 * 1024     /* when so much of them is free, and half as much more than after the last time */
};

typedef struct free_item {
  struct free_item *next;
  size_t bin; /* of one that is deferred */
} free_item;

static struct {
  hd_lock lock;
  uint8_t *first;      /* where it began */
  uint8_t *top;        /* next unused byte */
  uint8_t *committed;  /* end of what may be touched */
  bool open;           /* the range is claimed piece by piece, not reserved */
  atomic_bool held;    /* somebody reads what it has given out */
  uint8_t *end;        /* of the range, an unreachable system page before it */
  uint8_t *seed, *seed_end; /* what is left of the bytes behind the range, which are used first and never purged */
  free_item *bin[BIN_COUNT];
  atomic_size_t used;
  size_t idle, idle_left;          /* bytes in the bins that are purged; the same after the last purge */
  size_t clean_count;              /* pages that were purged and not used since */
  _Atomic(free_item *) deferred;   /* given back while a fork held the lock */
  unsigned aside_count[BIN_COUNT]; /* put aside for those who will not get the lock: so many of each, */
  atomic_uint fork_need[BIN_COUNT]; /* of which so many were wanted during the last fork */
} store;

/* What small programs do not touch of it. */
static HD_LATER_DATA struct {
  _Atomic(free_item *) aside[BIN_COUNT][ASIDE_COUNT];
  uint64_t clean[PAGE_COUNT / 64]; /* pages that were purged and not used since */
  uint8_t free_kib[PAGE_COUNT];    /* hdi_store_purge's own: free items of a page, in KiB */
  uint8_t room[FIRST_RESERVE_BYTES + 4096]; /* the first reserve, somewhere in it */
} later;

bool hdi_store_init(void *range, size_t bytes, size_t first_bytes) {
  store.open = range != NULL;
  store.seed = store.seed_end = NULL;
  if (first_bytes != 0) {
    store.seed = (uint8_t *)range + bytes + HD_STORE_MIN; /* see take_fresh */
    store.seed_end = (uint8_t *)range + bytes + first_bytes;
  }
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

static hd_claim claim(uint8_t *start, size_t bytes) {
  if (store.open) return hdi_os_claim(start, bytes);
  return hdi_os_commit(start, bytes) ? HD_CLAIM_DONE : HD_CLAIM_REFUSED;
}

static bool is_purged(unsigned bin) { return bin >= PURGE_FIRST_BIN && bin <= PURGE_LAST_BIN; }

static void push(unsigned bin, free_item *item) {
  item->next = store.bin[bin];
  store.bin[bin] = item;
  if (is_purged(bin)) store.idle += hdi_store_bin_bytes(bin);
}

static free_item *pop(unsigned bin) {
  free_item *item = store.bin[bin];
  if (item == NULL) return NULL;
  store.bin[bin] = item->next;
  item->next = NULL;
  if (is_purged(bin)) store.idle -= hdi_store_bin_bytes(bin);
  return item;
}

/* What lies between the top and an item that starts at a multiple of its size is items of its own. */
static void fill_up(const uint8_t *start) {
  while (store.top < start) {
    size_t bytes = (size_t)1 << hd_lowest_bit((uintptr_t)store.top);
    push(hdi_store_bin(bytes), (free_item *)(void *)store.top);
    store.top += bytes;
  }
}

/* Fresh memory from the top. The caller holds the lock; the claim below is the one system call made under it, once in
 * thousands of calls. */
static void *take_fresh(size_t bytes) {
  if (bytes <= (size_t)(store.seed_end - store.seed)) {
    store.seed += bytes;
    return store.seed - bytes;
  }
  for (;;) {
    uint8_t *aligned = (uint8_t *)hd_round_up((uintptr_t)store.top, hd_min(bytes, 4096)), *start = aligned;
    /* Not where the low 12 bits of the address are 0: a write to a block that starts like that would seem to touch the map that says
     * whether it is live, and processors wait for such writes. */
    if (bytes == HD_STORE_MIN && (uintptr_t)start % 4096 == 0) start += bytes;
    if (start + bytes > store.end) return NULL;
    if (start + bytes <= store.committed) {
      fill_up(aligned);
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

/* An item from a page that was purged; the rest of the page goes to the item's bin. */
static __attribute__((noinline)) void *take_clean(unsigned bin) {
  size_t bytes = hdi_store_bin_bytes(bin);
  size_t word = 0;
  while (later.clean[word] == 0) word++;
  uint8_t *page = store.first + (word * 64 + hd_lowest_bit(later.clean[word])) * PAGE;
  later.clean[word] &= later.clean[word] - 1;
  store.clean_count--;
  for (size_t at = PAGE - bytes; at > 0; at -= bytes) push(bin, (free_item *)(void *)(page + at));
  return page;
}

/* ---- while a fork holds the lock ---------------------------------------------------------------------------------------- */

static void defer(free_item *item, unsigned bin) {
  item->bin = bin;
  item->next = hd_load_relaxed(&store.deferred);
  while (!hd_swap_if(&store.deferred, &item->next, item)) {
  }
}

static void take_in_deferred(void) {
  if (HD_LIKELY(hd_load_relaxed(&store.deferred) == NULL)) return;
  free_item *item = hd_exchange(&store.deferred, NULL);
  while (item != NULL) {
    free_item *next = item->next;
    unsigned bin = (unsigned)item->bin;
    item->bin = 0;
    push(bin, item);
    item = next;
  }
}

/* By the thread that forks, with the lock: what is free is put aside, or a program that goes on while it forks would take new memory at
 * every fork. What is changed here is copied for the child, so it is no more than others will want. */
static void put_aside(void) {
  take_in_deferred();
  for (unsigned bin = 0; bin < BIN_COUNT; bin++) {
    unsigned need = hd_exchange(&store.fork_need[bin], 0), count = store.aside_count[bin];
    if (count > 0) count -= (count + 31) / 32;
    count = hd_min(hd_max(4 * need, count), ASIDE_COUNT);
    store.aside_count[bin] = count;
    for (unsigned i = 0; i < count && store.bin[bin] != NULL; i++) {
      hd_store_release(&later.aside[bin][i], pop(bin));
    }
  }
}

static free_item *take_aside(unsigned bin) {
  free_item *item = NULL;
  for (unsigned i = 0; i < ASIDE_COUNT && item == NULL; i++) {
    if (hd_load_relaxed(&later.aside[bin][i]) != NULL) item = hd_exchange(&later.aside[bin][i], NULL);
  }
  return item;
}

/* By the same thread, once it is over. */
static void put_back(void) {
  for (unsigned bin = 0; bin < BIN_COUNT; bin++) {
    for (free_item *item = take_aside(bin); item != NULL; item = take_aside(bin)) push(bin, item);
  }
}

/* Then memory from a reserve by a bump pointer alone. A reserve that is used up is followed by another, or a program that forks for days
 * would come to wait after all. */
typedef struct reserve {
  _Alignas(4096) atomic_size_t used;
  _Alignas(4096) uint8_t items[];
} reserve;

static reserve *add_reserve(void) {
  reserve *added = hdi_os_reserve(RESERVE_BYTES, HD_UNIT_ALIGN, false);
  if (added == NULL || hdi_os_commit(added, RESERVE_BYTES)) return added;
  hdi_os_unreserve(added, RESERVE_BYTES);
  return NULL;
}

static void *take_reserved(size_t rounded) {
  static _Atomic(reserve *) current;
  size_t align = hd_min(rounded, 4096);
  for (;;) {
    reserve *now = hd_load_acquire(&current), *was = now;
    if (now == NULL) now = (reserve *)hd_round_up((uintptr_t)later.room, 4096);
    size_t at = hd_round_up(hd_add(&now->used, rounded + align) + offsetof(reserve, items), align);
    if (at + rounded <= (was == NULL ? FIRST_RESERVE_BYTES : RESERVE_BYTES)) return (uint8_t *)now + at;
    reserve *next = add_reserve();
    if (next == NULL) return NULL;
    if (!hd_swap_if(&current, &was, next)) hdi_os_unreserve(next, RESERVE_BYTES); /* somebody else was faster */
  }
}

/* ---- taking and giving -------------------------------------------------------------------------------------------------- */

static void *take_locked(unsigned bin) {
  take_in_deferred();
  void *item = pop(bin);
  if (item == NULL && store.clean_count != 0 && is_purged(bin)) item = take_clean(bin);
  return item != NULL ? item : take_fresh(hdi_store_bin_bytes(bin));
}

static SLOW void *take_during_fork(unsigned bin) {
  hd_add(&store.fork_need[bin], 1u);
  void *item = take_aside(bin);
  return item != NULL ? item : take_reserved(hdi_store_bin_bytes(bin));
}

void *hdi_store_take(size_t bytes) {
  unsigned bin = hdi_store_bin(bytes);
  void *item = NULL;
  if (bin >= BIN_COUNT) return NULL;
  if (HD_LIKELY(hdi_lock_take_unless_fork(&store.lock))) {
    item = take_locked(bin);
    hdi_lock_drop(&store.lock);
  } else {
    item = take_during_fork(bin);
  }
  if (item != NULL) hd_add(&store.used, hdi_store_bin_bytes(bin));
  return item;
}

void hdi_store_give(void *memory, size_t bytes) {
  unsigned bin = hdi_store_bin(bytes);
  if (HD_LIKELY(hdi_lock_take_unless_fork(&store.lock))) {
    push(bin, memory);
    hdi_lock_drop(&store.lock);
  } else {
    defer(memory, bin);
  }
  hd_sub(&store.used, hdi_store_bin_bytes(bin));
}

/* ---- purging ----------------------------------------------------------------------------------------------------------- */

static size_t page_of(const void *item) { return (size_t)((const uint8_t *)item - store.first) / PAGE; }

/* Whether every item of this item's page is free. Items never cross a page: they are aligned to their size. */
static bool is_whole(const void *item) { return page_of(item) < PAGE_COUNT && later.free_kib[page_of(item)] == PAGE >> PURGE_SHIFT; }

static void count_items(unsigned bin) {
  for (free_item *item = store.bin[bin]; item != NULL; item = item->next) {
    if (page_of(item) < PAGE_COUNT) later.free_kib[page_of(item)] += (uint8_t)(1u << (bin - PURGE_FIRST_BIN));
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
      later.clean[page / 64] |= (uint64_t)1 << page % 64;
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
  memset(later.free_kib, 0, count);
  for (unsigned bin = PURGE_FIRST_BIN; bin <= PURGE_LAST_BIN; bin++) count_items(bin);
  for (unsigned bin = PURGE_FIRST_BIN; bin <= PURGE_LAST_BIN; bin++) drop_whole(bin);
  for (size_t page = 0; page < count; page++) {
    size_t end = page;
    while (end < count && later.free_kib[end] == PAGE >> PURGE_SHIFT) end++;
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

bool hdi_store_hold(void) {
  if (!hdi_lock_take_unless_fork(&store.lock)) return false;
  hd_store_relaxed(&store.held, true);
  atomic_thread_fence(memory_order_seq_cst); /* pairs with hdi_store_is_held */
  return true;
}

/* While a fork waits for the lock others give their memory back without it. */
bool hdi_store_let_go(void) {
  atomic_thread_fence(memory_order_acquire); /* what was read before was read before this look */
  bool held = !hdi_lock_is_forking();
  hd_store_release(&store.held, false);
  hdi_lock_drop(&store.lock);
  return held;
}

bool hdi_store_is_held(void) {
  atomic_thread_fence(memory_order_seq_cst); /* what is unmarked before the look, or the look sees who holds the store */
  return hd_load_acquire(&store.held);
}

size_t hdi_store_used(void) { return hd_load_relaxed(&store.used); }

SLOW void hdi_store_fork(hd_fork_step step) { hdi_lock_fork_open(&store.lock, step, put_aside, put_back); }
