/* See store.h.
 * SPDX-License-Identifier: MIT */
#include "core/store.h"

#include "os/os.h"

enum { BIN_COUNT = 9, FIRST_SHIFT = 6, COMMIT_STEP = 256 * 1024, HD_UNIT_ALIGN = 64 * 1024 };

typedef struct free_item {
  struct free_item *next;
} free_item;

static struct {
  hd_lock lock;
  uint8_t *top;        /* next unused byte */
  uint8_t *committed;  /* end of what may be touched */
  bool open;           /* the range is claimed piece by piece, not reserved */
  uint8_t *end;        /* of the range, an unreachable system page before it */
  free_item *bin[BIN_COUNT];
  atomic_size_t used;
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
  store.top = (uint8_t *)range + skip;
  store.committed = store.top;
  store.end = (uint8_t *)range + bytes - hdi_os.page_bytes;
  return true;
}

static unsigned bin_of(size_t bytes) { return bytes <= HD_STORE_MIN ? 0 : hd_highest_bit(bytes - 1) + 1 - FIRST_SHIFT; }

/* Fresh memory from the top. The caller holds the lock; the commit below is the one system call made under it, once in
 * thousands of calls. */
static void *take_fresh(size_t bytes) {
  uint8_t *start = (uint8_t *)hd_round_up((uintptr_t)store.top, hd_min(bytes, 4096));
  /* Not where the low 12 bits of the address are 0: a write to a block that starts like that would seem to touch the map that says
   * whether it is live, and processors wait for such writes. */
  if (bytes == HD_STORE_MIN && (uintptr_t)start % 4096 == 0) start += bytes;
  if (start + bytes > store.end) return NULL;
  while (start + bytes > store.committed) {
    size_t step = hd_min(COMMIT_STEP, (size_t)(store.end - store.committed));
    if (!(store.open ? hdi_os_claim(store.committed, step) : hdi_os_commit(store.committed, step))) return NULL;
    store.committed += step;
  }
  store.top = start + bytes;
  return start;
}

/* While a fork holds the lock: memory from a small reserve by a bump pointer alone. */
static void *take_during_fork(size_t rounded) {
  static _Alignas(4096) uint8_t reserve[512 * 1024];
  static atomic_size_t used;
  size_t align = hd_min(rounded, sizeof reserve / 128);
  size_t at = hd_round_up(hd_add(&used, rounded + align), align);
  if (at + rounded > sizeof reserve) return NULL;
  hd_add(&store.used, rounded);
  return reserve + at;
}

void *hdi_store_take(size_t bytes) {
  unsigned bin = bin_of(bytes);
  if (bin >= BIN_COUNT) return NULL;
  size_t rounded = (size_t)1 << (bin + FIRST_SHIFT);
  if (HD_UNLIKELY(!hdi_lock_take_unless_fork(&store.lock))) {
    void *spare = take_during_fork(rounded);
    if (spare != NULL) return spare;
    hdi_lock_take(&store.lock);
  }
  free_item *item = store.bin[bin];
  if (item != NULL) {
    store.bin[bin] = item->next;
    item->next = NULL;
  } else {
    item = take_fresh(rounded);
  }
  hdi_lock_drop(&store.lock);
  if (item != NULL) hd_add(&store.used, rounded);
  return item;
}

void hdi_store_give(void *memory, size_t bytes) {
  unsigned bin = bin_of(bytes);
  free_item *item = memory;
  if (HD_UNLIKELY(!hdi_lock_take_unless_fork(&store.lock))) return; /* lost: a few hundred bytes, once in a fork at most */
  item->next = store.bin[bin];
  store.bin[bin] = item;
  hdi_lock_drop(&store.lock);
  hd_sub(&store.used, (size_t)1 << (bin + FIRST_SHIFT));
}

size_t hdi_store_used(void) { return hd_load_relaxed(&store.used); }

void hdi_store_fork(hd_fork_step step) { hdi_lock_fork(&store.lock, step); }
