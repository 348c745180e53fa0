/* Size classes: which block size serves a request.
 *
 * Classes 1..16 are the multiples of 16 up to 256 bytes, and from there on eight classes a doubling up to 56 KiB (waste at most 12.5 %):
 * the fewer classes, the less each of them keeps for itself (decision 26). Of the small ones, up to 2 KiB, malloc finds the slot in
 * a table (decision 35 has why not of fewer, or more); of the others, the medium ones, the class is arithmetic on the size. Larger requests
 * are large: whole units of 64 KiB. There is no class 0; a request of 0 bytes is one of 1.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_SIZECLASS_H
#define HD_CORE_SIZECLASS_H

#include "base/bits.h"

enum {
  HD_FINE_CLASSES = 16,              /* multiples of 16 */
  HD_SMALL_MAX = 2048,               /* largest size whose slot is looked up */
  HD_SMALL_CLASSES = HD_FINE_CLASSES + 3 * 8,
  HD_MEDIUM_MAX = 56 * 1024,         /* largest size that shares a page with others */
  HD_MEDIUM_CLASSES = 4 * 8 + 6,
  HD_CLASS_COUNT = HD_SMALL_CLASSES + 1 + HD_MEDIUM_CLASSES,
  HD_MEDIUM_ALIGN = 256,             /* what the sizes of all larger classes are multiples of */
  HD_ONE_UNIT_MAX = 8 * 1024,        /* largest block in a page of one unit, */
  HD_ONE_UNIT_CLASSES = HD_SMALL_CLASSES + 2 * 8, /* and the last class of them */
  HD_FOUR_UNIT_MAX = 32 * 1024       /* largest block in a page of four units; above: eight */
};

_Static_assert(HD_CLASS_COUNT == 79, "the last class must be 56 KiB");

/* Class of a size in 129..HD_MEDIUM_MAX. A whole word, so that what it is multiplied with and added to becomes part of an address. */
FAST size_t hdi_sizeclass_medium(size_t bytes) {
  size_t doubling = hd_highest_bit(bytes - 1) - 7;
  return 1 + doubling * 8 + ((bytes - 1) >> (doubling + 4));
}

/* Class of a size in 0..HD_MEDIUM_MAX. Up to 256 bytes all of them are of one doubling; no branch, which nobody could predict. */
FAST unsigned hdi_sizeclass_of(size_t bytes) {
  size_t last = bytes - (bytes != 0);
  size_t doubling = hd_highest_bit(last | 128) - 7;
  return (unsigned)(1 + doubling * 8 + (last >> (doubling + 4)));
}

/* Block size of a class in 1..HD_CLASS_COUNT-1. */
FAST uint32_t hdi_sizeclass_bytes(unsigned class_index) {
  if (class_index <= HD_FINE_CLASSES) return class_index * 16;
  unsigned step = class_index - HD_FINE_CLASSES - 1;
  return (uint32_t)(9 + step % 8) << (5 + step / 8);
}

/* The smallest class of at least bytes whose blocks all lie at multiples of the alignment, a power of two: pages start at multiples of
 * 64 KiB, so those are the classes whose size is one. That of the next multiple is: classes of a doubling are a step apart, and either
 * every multiple of the alignment is one of the step, or all classes are multiples of the alignment. 0: there is none. */
static inline unsigned hdi_sizeclass_aligned(size_t alignment, size_t bytes) {
  size_t rounded = hd_round_up(hd_max(bytes, 1), alignment);
  return rounded > HD_MEDIUM_MAX ? 0 : hdi_sizeclass_of(rounded); /* 0 also for every alignment above 32 KiB */
}

/* Units in a page of this block size; of old memory heap.c makes shorter ones. */
FAST unsigned hdi_sizeclass_units(uint32_t block_bytes) {
  if (block_bytes <= HD_ONE_UNIT_MAX) return 1;
  return block_bytes <= HD_FOUR_UNIT_MAX ? 4 : 8;
}

#endif
