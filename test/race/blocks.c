/* Blocks with content, and the slots through which they change hands. See race.h.
 * SPDX-License-Identifier: MIT */
#include "race.h"

enum { DENSE_WORDS = 32, SPARSE_STEP = 61 };

static _Atomic(race_block *) slots[RACE_SLOTS];

size_t race_length(struct ts_rng *rng) {
  uint64_t choice = ts_below(rng, 1000);
  if (choice < 900) return 16 + ts_below(rng, 500);
  if (choice < 980) return 16 + ts_below(rng, 8000);
  if (choice < 997) return 8000 + ts_below(rng, 50000);
  return 60000 + ts_below(rng, 900000);
}

/* Words that bear the pattern: all of the first, then some of the rest; and the last. */
static size_t next_word(size_t at, size_t count) {
  size_t next = at + (at < DENSE_WORDS ? 1 : SPARSE_STEP);
  return next < count || at + 1 >= count ? next : count - 1;
}

static uint64_t word_of(uint64_t tag, size_t at) { return tag ^ (uint64_t)at * 0x9e3779b97f4a7c15u; }

race_block *race_fill(void *p, uint64_t tag, size_t bytes) {
  if (p == NULL) return NULL;
  race_block *block = p;
  uint64_t *words = p;
  block->tag = tag;
  block->bytes = bytes;
  for (size_t at = 2; at < bytes / 8; at = next_word(at, bytes / 8)) words[at] = word_of(tag, at);
  return block;
}

race_block *race_make(struct ts_rng *rng) {
  size_t bytes = race_length(rng);
  uint64_t way = ts_below(rng, 16);
  void *p = NULL;
  if (way == 0) {
    p = hd_aligned_alloc((size_t)16 << ts_below(rng, 9), bytes);
  } else if (way < 3) {
    p = hd_calloc(1, bytes);
    const uint64_t *words = p;
    for (size_t at = 0; at < bytes / 8; at = next_word(at, bytes / 8)) TS_CHECK(words[at] == 0, "word %zu of %zu zeroed bytes", at, bytes);
  } else {
    p = hd_malloc(bytes);
  }
  TS_CHECK(p != NULL, "%zu bytes", bytes);
  return race_fill(p, ts_next(rng), bytes);
}

static void check_prefix(const race_block *block, uint64_t tag, size_t bytes, size_t kept) {
  const uint64_t *words = (const uint64_t *)(const void *)block;
  for (size_t at = 2; at < kept / 8; at = next_word(at, bytes / 8)) {
    TS_CHECK(words[at] == word_of(tag, at), "word %zu of %zu bytes at %p", at, bytes, (const void *)block);
  }
}

void race_check(const race_block *block) {
  TS_CHECK(hd_usable_size(block) >= block->bytes, "usable size of %zu bytes at %p", block->bytes, (const void *)block);
  check_prefix(block, block->tag, block->bytes, block->bytes);
}

void race_drop(race_block *block) {
  if (block == NULL) return;
  race_check(block);
  block->tag = ~block->tag; /* a stale reader would see it */
  hd_free(block);
}

race_block *race_resize(race_block *block, struct ts_rng *rng) {
  uint64_t tag = block->tag;
  size_t old = block->bytes;
  size_t bytes = race_length(rng);
  race_check(block);
  race_block *moved = hd_realloc(block, bytes);
  TS_CHECK(moved != NULL, "realloc to %zu bytes", bytes);
  TS_CHECK(moved->tag == tag && moved->bytes == old, "head of a block resized from %zu to %zu", old, bytes);
  check_prefix(moved, tag, old, old < bytes ? old : bytes);
  return race_fill(moved, tag + 1, bytes);
}

race_block *race_swap(uint64_t slot, race_block *block) {
  return atomic_exchange_explicit(&slots[slot % RACE_SLOTS], block, memory_order_acq_rel);
}

void race_empty_slots(void) {
  for (unsigned i = 0; i < RACE_SLOTS; i++) race_drop(race_swap(i, NULL));
}
