/* The shadow heap. See shadow.h.
 *
 * SPDX-License-Identifier: MIT */
#include "shadow.h"

#include <string.h>

#include "../support/support.h"

/* Blocks up to this many bytes are filled and checked whole. */
#define WHOLE_BYTES 4096
/* Length of the ends, and number of single words between them, in larger blocks. */
#define END_BYTES 256
#define SAMPLE_COUNT 14

/* ---- treap ------------------------------------------------------------------------------------------------------ */

static struct block *node(struct shadow *shadow, uint32_t index) { return &shadow->slot[index - 1]; }

/* Blocks of no usable byte still have an address of their own. */
static uintptr_t end_of(const unsigned char *at, size_t bytes) { return (uintptr_t)at + (bytes ? bytes : 1); }

/* Nodes below address to *low, the others to *high. */
static void split(struct shadow *shadow, uint32_t tree, uintptr_t address, uint32_t *low, uint32_t *high) {
  if (tree == 0) {
    *low = *high = 0;
    return;
  }
  struct block *top = node(shadow, tree);
  if ((uintptr_t)top->at < address) {
    split(shadow, top->right, address, &top->right, high);
    *low = tree;
  } else {
    split(shadow, top->left, address, low, &top->left);
    *high = tree;
  }
}

static uint32_t merge(struct shadow *shadow, uint32_t low, uint32_t high) {
  if (low == 0 || high == 0) return low + high;
  struct block *a = node(shadow, low), *b = node(shadow, high);
  if (a->priority > b->priority) {
    a->right = merge(shadow, a->right, high);
    return low;
  }
  b->left = merge(shadow, low, b->left);
  return high;
}

/* The last block that starts below the end of a range is the only one that can reach into it. */
int shadow_overlap(struct shadow *shadow, const unsigned char *at, size_t bytes) {
  uint32_t tree = shadow->root, best = 0;
  uintptr_t end = end_of(at, bytes);
  while (tree) {
    struct block *here = node(shadow, tree);
    if ((uintptr_t)here->at < end) best = tree, tree = here->right;
    else tree = here->left;
  }
  if (!best || end_of(node(shadow, best)->at, node(shadow, best)->usable) <= (uintptr_t)at) return -1;
  return (int)best - 1;
}

/* What lies in an object is its own matter; the statistics of blocks do not have it. */
static void count(struct shadow *shadow, const struct block *block, size_t by) {
  if (block->heap < OWNER_THREAD) return;
  shadow->live_count += by;
  shadow->live_usable += by * block->usable;
}

void shadow_insert(struct shadow *shadow, int slot) {
  struct block *block = &shadow->slot[slot];
  count(shadow, block, 1);
  if (!shadow->tracked) return;
  uint32_t low, high;
  block->left = block->right = 0;
  block->priority = (uint32_t)ts_hash((uintptr_t)block->at, 7);
  split(shadow, shadow->root, (uintptr_t)block->at, &low, &high);
  shadow->root = merge(shadow, merge(shadow, low, (uint32_t)slot + 1), high);
}

void shadow_remove(struct shadow *shadow, int slot) {
  struct block *block = &shadow->slot[slot];
  count(shadow, block, (size_t)0 - 1);
  if (shadow->tracked) {
    uint32_t low, middle, high;
    split(shadow, shadow->root, (uintptr_t)block->at, &low, &middle);
    split(shadow, middle, (uintptr_t)block->at + 1, &middle, &high);
    shadow->root = merge(shadow, low, high);
  }
  block->at = NULL;
}

int shadow_find(const struct shadow *shadow, const void *address) {
  uint32_t at = shadow->root;
  while (at) {
    const struct block *here = &shadow->slot[at - 1];
    if ((const void *)here->at == address) return (int)at - 1;
    at = (uintptr_t)here->at < (uintptr_t)address ? here->right : here->left;
  }
  return -1;
}

/* ---- content ---------------------------------------------------------------------------------------------------- */

static uint64_t word_of(const struct block *block, size_t offset) { return block->key + offset * 0x9e3779b97f4a7c15u; }

/* A move of one word: by the builtin, since the tests are compiled without. */
static void write_range(const struct block *block, size_t from, size_t to) {
  size_t o = from;
  for (; o + 8 <= to; o += 8) {
    uint64_t word = word_of(block, o);
    __builtin_memcpy(block->at + o, &word, 8);
  }
  uint64_t word = word_of(block, o);
  if (o < to) memcpy(block->at + o, &word, to - o);
}

static size_t check_range(const struct block *block, const unsigned char *at, size_t from, size_t to) {
  size_t o = from;
  for (; o + 8 <= to; o += 8) {
    uint64_t word;
    __builtin_memcpy(&word, at + o, 8);
    if (word != word_of(block, o)) return o;
  }
  uint64_t word = word_of(block, o);
  return o < to && memcmp(at + o, &word, to - o) != 0 ? o : SIZE_MAX;
}

/* Offset of sample i of a large block, a multiple of 8 between its ends. */
static size_t sample_at(size_t bytes, size_t i) {
  size_t step = (bytes - 2 * END_BYTES) / SAMPLE_COUNT;
  return (END_BYTES + step * i + step / 2) & ~(size_t)7;
}

static size_t tail_at(size_t bytes) { return (bytes - END_BYTES) & ~(size_t)7; }

void pattern_write(const struct block *block) {
  if (block->bytes <= WHOLE_BYTES) {
    write_range(block, 0, block->bytes);
    return;
  }
  write_range(block, 0, END_BYTES);
  for (size_t i = 0; i < SAMPLE_COUNT; i++) write_range(block, sample_at(block->bytes, i), sample_at(block->bytes, i) + 8);
  write_range(block, tail_at(block->bytes), block->bytes);
}

size_t pattern_check(const struct block *block, const unsigned char *at, size_t limit) {
  size_t bytes = block->bytes, bad;
  if (bytes <= WHOLE_BYTES) return check_range(block, at, 0, bytes < limit ? bytes : limit);
  bad = check_range(block, at, 0, END_BYTES < limit ? END_BYTES : limit);
  for (size_t i = 0; i < SAMPLE_COUNT && bad == SIZE_MAX; i++) {
    size_t o = sample_at(bytes, i);
    if (o + 8 <= limit) bad = check_range(block, at, o, o + 8);
  }
  if (bad == SIZE_MAX && tail_at(bytes) < limit) bad = check_range(block, at, tail_at(bytes), bytes < limit ? bytes : limit);
  return bad;
}

static size_t scan_zero(const unsigned char *at, size_t from, size_t to) {
  for (; from < to && ((uintptr_t)(at + from) & 7); from++)
    if (at[from]) return from;
  for (; from + 8 <= to; from += 8) {
    uint64_t word;
    __builtin_memcpy(&word, at + from, 8);
    if (word) return from;
  }
  for (; from < to; from++)
    if (at[from]) return from;
  return SIZE_MAX;
}

size_t zero_check(const unsigned char *at, size_t from, size_t to) {
  if (to <= from) return SIZE_MAX;
  if (to - from <= 16 * WHOLE_BYTES) return scan_zero(at, from, to);
  size_t bad = scan_zero(at, from, from + WHOLE_BYTES);
  size_t step = (to - from) / 64;
  for (size_t i = 1; i < 63 && bad == SIZE_MAX; i++) bad = scan_zero(at, from + i * step, from + i * step + 64);
  return bad != SIZE_MAX ? bad : scan_zero(at, to - WHOLE_BYTES, to);
}
