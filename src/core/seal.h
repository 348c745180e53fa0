/* Seals: what hardened mode writes behind the bytes that a program asked for, to see later whether anything was written there.
 *
 *     | asked bytes | pattern | guard word |        a block of a page; the word is its last 8 bytes
 *     | asked bytes | pattern |                     a block on a run of its own, whose entry knows the size
 *
 * Both are made of the block's address and a secret of the process. The word holds the slack, that is all that is not asked bytes, three
 * times: any change of up to 7 of its bytes is found for certain, and one of all 8 but once in 2^48. Its first byte and those of
 * the pattern are never 0, so that a string's end written one too far is never lost. Of a long pattern the first 64 bytes count.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_SEAL_H
#define HD_CORE_SEAL_H

#include <string.h>

#include "base/bits.h"

enum { HD_SEAL_BYTES = 8, HD_SEAL_PATTERN_MAX = 64, HD_SEAL_NEAR = 24 /* slack that the branchless forms know */ };

#define HD_SEAL_BROKEN SIZE_MAX
#define HD_SEAL_LANES 0x0001000100010000u
#define HD_SEAL_NOT_ZERO 0x0101010101010101u

typedef struct hd_seal_secret {
  uint64_t mask, factor;
} hd_seal_secret;

/* Random, the factor odd; written once at start. */
extern HD_HIDDEN hd_seal_secret hdi_seal_secret;

FAST uint64_t hdi_seal_word(const void *p) {
  uint64_t word = ((uintptr_t)p ^ hdi_seal_secret.mask) * hdi_seal_secret.factor;
  return (word ^ word >> 32) | 1;
}

/* Words in memory have their low byte first on every machine, because what counts of a word is told by shifts. */
FAST uint64_t hdi_seal_order(uint64_t word) { return __BYTE_ORDER__ == __ORDER_BIG_ENDIAN__ ? __builtin_bswap64(word) : word; }

FAST uint64_t hdi_seal_load(const uint8_t *at) {
  uint64_t word;
  __builtin_memcpy(&word, at, sizeof word);
  return hdi_seal_order(word);
}

FAST void hdi_seal_store(uint8_t *at, uint64_t word) {
  word = hdi_seal_order(word);
  __builtin_memcpy(at, &word, sizeof word);
}

/* The upper bytes of a word of pattern: what stands there may differ below them. */
FAST uint64_t hdi_seal_part(size_t bytes) { return UINT64_MAX << (64 - 8 * bytes); }

/* Up to 64 bytes of pattern that end at `end`. Behind the start of a block there are at least 8 bytes in front of them to read. */
FAST void hdi_seal_fill_to(uint8_t *end, size_t bytes, uint64_t pattern) {
  for (; bytes >= 8; bytes -= 8) hdi_seal_store(end -= 8, pattern);
  if (bytes == 0) return;
  uint64_t part = hdi_seal_part(bytes);
  hdi_seal_store(end - 8, (hdi_seal_load(end - 8) & ~part) | (pattern & part));
}

FAST bool hdi_seal_holds_to(const uint8_t *end, size_t bytes, uint64_t pattern) {
  uint64_t wrong = 0;
  for (; bytes >= 8; bytes -= 8) wrong |= hdi_seal_load(end -= 8) ^ pattern;
  if (bytes != 0) wrong |= (hdi_seal_load(end - 8) ^ pattern) & hdi_seal_part(bytes);
  return wrong == 0;
}

/* Where the pattern that counts ends, for asked bytes followed by room bytes. */
FAST size_t hdi_seal_span(size_t room) { return room < HD_SEAL_PATTERN_MAX ? room : HD_SEAL_PATTERN_MAX; }

/* For slack of at most HD_SEAL_NEAR bytes, which is that of nearly all blocks and differs from one to the next, the same without a branch
 * that a processor would have to guess: two words of pattern, the first of which begins behind the asked bytes and the second is the last
 * whole one in front of the guard word, or the first once more. A word of pattern that starts at any address is the pattern rotated. */
typedef struct hd_seal_near {
  size_t first, second;         /* where the words start, from the block */
  uint64_t in_first, in_second;
} hd_seal_near;

FAST hd_seal_near hdi_seal_find_near(size_t block_bytes, size_t asked, uint64_t pattern) {
  uint64_t turned = hd_rotate_right(pattern, (unsigned)asked * 8);
  size_t last = block_bytes - HD_SEAL_BYTES - 8;
  return (hd_seal_near){asked, hd_max(asked, last), turned, asked > last ? turned : pattern};
}

/* Writes up to 8 bytes too much, where the guard word will stand. */
FAST void hdi_seal_fill_near(uint8_t *p, size_t block_bytes, size_t asked, uint64_t pattern) {
  hd_seal_near near = hdi_seal_find_near(block_bytes, asked, pattern);
  hdi_seal_store(p + near.first, near.in_first);
  hdi_seal_store(p + near.second, near.in_second);
}

FAST bool hdi_seal_holds_near(const uint8_t *p, size_t block_bytes, size_t asked, uint64_t pattern) {
  hd_seal_near near = hdi_seal_find_near(block_bytes, asked, pattern);
  uint64_t wrong = (hdi_seal_load(p + near.first) ^ near.in_first) | (hdi_seal_load(p + near.second) ^ near.in_second);
  unsigned half = 32 - 4 * (unsigned)hd_min(block_bytes - HD_SEAL_BYTES - asked, 8); /* half the bits that are not pattern */
  return wrong << half << half == 0;
}

/* Seal a page's block of block_bytes, a multiple of 16, for asked <= block_bytes - HD_SEAL_BYTES. Keeps the asked bytes. */
FAST void hdi_seal_set(uint8_t *p, size_t block_bytes, size_t asked) {
  uint64_t word = hdi_seal_word(p);
  size_t slack = block_bytes - asked;
  if (HD_LIKELY(slack <= HD_SEAL_NEAR)) {
    hdi_seal_fill_near(p, block_bytes, asked, word | HD_SEAL_NOT_ZERO);
  } else {
    size_t span = hdi_seal_span(slack - HD_SEAL_BYTES);
    hdi_seal_fill_to(p + asked + span, span, word | HD_SEAL_NOT_ZERO);
  }
  hdi_seal_store(p + block_bytes - HD_SEAL_BYTES, word ^ slack * HD_SEAL_LANES);
}

/* The bytes that were asked for, or HD_SEAL_BROKEN. */
FAST size_t hdi_seal_asked(const uint8_t *p, size_t block_bytes) {
  uint64_t word = hdi_seal_word(p);
  uint64_t found = hdi_seal_load(p + block_bytes - HD_SEAL_BYTES) ^ word;
  size_t slack = (size_t)(found >> 48);
  if (HD_UNLIKELY(found != slack * HD_SEAL_LANES || slack - HD_SEAL_BYTES > block_bytes - HD_SEAL_BYTES)) return HD_SEAL_BROKEN;
  size_t asked = block_bytes - slack;
  bool holds;
  if (HD_LIKELY(slack <= HD_SEAL_NEAR)) {
    holds = hdi_seal_holds_near(p, block_bytes, asked, word | HD_SEAL_NOT_ZERO);
  } else {
    size_t span = hdi_seal_span(slack - HD_SEAL_BYTES);
    holds = hdi_seal_holds_to(p + asked + span, span, word | HD_SEAL_NOT_ZERO);
  }
  return HD_LIKELY(holds) ? asked : HD_SEAL_BROKEN;
}

/* The same of a broken seal, as far as what is left of the word tells. */
static inline size_t hdi_seal_guess(const uint8_t *p, size_t block_bytes) {
  uint64_t found = hdi_seal_load(p + block_bytes - HD_SEAL_BYTES) ^ hdi_seal_word(p);
  size_t slack = (size_t)(found >> 48);
  bool likely = slack == (found >> 32 & 0xffff) && slack - HD_SEAL_BYTES <= block_bytes - HD_SEAL_BYTES;
  return likely ? block_bytes - slack : HD_SEAL_BROKEN;
}

/* The pattern alone, for a block on a run of its own that has room bytes behind the asked ones. */
static inline void hdi_seal_set_behind(uint8_t *p, size_t asked, size_t room) {
  size_t span = hdi_seal_span(room);
  uint8_t byte = (uint8_t)(hdi_seal_word(p) | HD_SEAL_NOT_ZERO);
  memset(p + asked, byte, span);
}

static inline bool hdi_seal_holds_behind(const uint8_t *p, size_t asked, size_t room) {
  size_t span = hdi_seal_span(room);
  uint8_t byte = (uint8_t)(hdi_seal_word(p) | HD_SEAL_NOT_ZERO);
  unsigned wrong = 0;
  for (size_t i = 0; i < span; i++) wrong |= (unsigned)(p[asked + i] ^ byte);
  return wrong == 0;
}

#endif
