/* The shadow heap: what the driver knows about every live block, and the content it wrote there.
 *
 * Blocks sit in a fixed array of slots. A treap over the slots, ordered by address, finds any block that overlaps a range in
 * O(log n). A shadow is either tracked (one thread at a time; overlap is looked up) or untracked (race mode: several threads,
 * each with its own slots; overlap shows as a damaged pattern).
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_SHADOW_H
#define TEST_SHADOW_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifndef SLOT_COUNT
#define SLOT_COUNT 4096
#endif

/* Who has a block, where it is no explicit heap: the threads' heaps; the driver's pool; its arena. */
enum { OWNER_THREAD = -1, OWNER_POOL = -2, OWNER_ARENA = -3 };

struct block {
  unsigned char *at; /* NULL: the slot is empty */
  size_t bytes;      /* what was asked for */
  size_t usable;
  size_t alignment;  /* what the allocation promised, at least 16 */
  bool aligned;      /* came from an aligned allocation: free_aligned_sized is the sized free */
  int heap;          /* index of the explicit heap, or OWNER_... */
  uint64_t key;      /* names the pattern that fills it */
  uint32_t left, right, priority; /* treap over slot + 1 */
};

struct shadow {
  struct block slot[SLOT_COUNT];
  uint32_t root;
  bool tracked;
  size_t live_count, live_usable; /* of heaps' blocks */
};

/** Slot of a live block that overlaps [at, at + bytes), or -1; always -1 in an untracked shadow. */
int shadow_overlap(struct shadow *shadow, const unsigned char *at, size_t bytes);
/** Enter the block that slot now describes; it overlaps no other. */
void shadow_insert(struct shadow *shadow, int slot);
/** Forget the block of slot and empty it. */
void shadow_remove(struct shadow *shadow, int slot);
/** Slot of the block that starts at address, or -1. */
int shadow_find(const struct shadow *shadow, const void *address);

/** Fill a block with its pattern: all of it when it is small, its ends and a sample of words when it is large. */
void pattern_write(const struct block *block);
/** Offset of the first byte below limit that differs from the pattern of block, or SIZE_MAX. */
size_t pattern_check(const struct block *block, const unsigned char *at, size_t limit);
/** Offset of the first non-zero byte in [from, to) of at (large ranges: of a sample), or SIZE_MAX. */
size_t zero_check(const unsigned char *at, size_t from, size_t to);

#endif
