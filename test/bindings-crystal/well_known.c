/* libheddle-crystal against a simple oracle: each block's bytes are known, those that must read as zero do, whatever lay there before.
 *   usage: crystal_well_known [-n OPERATIONS] [-s SEED]
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "heddle_crystal.h"
#include "../support/support.h"

enum { SLOTS = 256 };

typedef struct block {
  unsigned char *at;
  size_t bytes;
  unsigned char fill; /* what all its bytes are */
} block;

static block blocks[SLOTS];
static struct ts_rng rng;

static void check_bytes(const unsigned char *at, size_t from, size_t to, unsigned char value, const char *what) {
  for (size_t i = from; i < to; i++) TS_CHECK(at[i] == value, "%s: byte %zu of %zu is %d instead of %d", what, i, to, at[i], value);
}

/* Mostly small, sometimes of a class of its own, sometimes large. */
static size_t random_size(void) {
  static const size_t bound[] = {64, 64, 1024, 1024, 8192, 70000, 400000};
  return 1 + ts_below(&rng, bound[ts_below(&rng, sizeof bound / sizeof bound[0])]);
}

static void put(block *b, unsigned char *at, size_t bytes) {
  TS_CHECK(at != NULL, "no memory for %zu bytes", bytes);
  TS_CHECK((uintptr_t)at % 16 == 0, "a block of %zu bytes at %p", bytes, (void *)at);
  TS_CHECK(hd_usable_size(at) >= bytes, "%zu usable bytes of %zu", hd_usable_size(at), bytes);
  b->at = at, b->bytes = bytes;
  b->fill = (unsigned char)(1 + ts_below(&rng, 255));
  memset(at, b->fill, bytes);
}

static void allocate(block *b) {
  size_t bytes = random_size();
  uint32_t narrow = (uint32_t)bytes;
  unsigned way = (unsigned)ts_below(&rng, 10);
  unsigned char *at = NULL;
  switch (way) {
    case 0: at = __crystal_calloc64(bytes); break;
    case 1: at = __crystal_calloc_atomic64(bytes); break;
    case 2: at = __crystal_calloc(narrow); break;
    case 3: at = __crystal_calloc_atomic(narrow); break;
    case 4: at = __crystal_malloc64(bytes); break;
    case 5: at = __crystal_malloc_atomic64(bytes); break;
    case 6: at = __crystal_malloc(narrow); break;
    case 7: at = __crystal_malloc_atomic(narrow); break;
    case 8: at = __crystal_malloc_uninitialized64(bytes); break;
    default: at = __crystal_malloc_uninitialized(narrow);
  }
  if (way < 4 && at != NULL) check_bytes(at, 0, bytes, 0, "calloc");
  put(b, at, bytes);
}

static void resize(block *b) {
  size_t bytes = random_size(), kept = bytes < b->bytes ? bytes : b->bytes;
  unsigned char *at = NULL;
  unsigned way = (unsigned)ts_below(&rng, 4);
  switch (way) {
    case 0: at = __crystal_realloc64(b->at, bytes); break;
    case 1: at = __crystal_realloc(b->at, (uint32_t)bytes); break;
    case 2: at = __crystal_recalloc64(b->at, b->bytes, bytes); break;
    default: at = __crystal_recalloc(b->at, (uint32_t)b->bytes, (uint32_t)bytes);
  }
  TS_CHECK(at != NULL, "no memory for %zu bytes", bytes);
  check_bytes(at, 0, kept, b->fill, "kept");
  if (way >= 2) check_bytes(at, kept, bytes, 0, "added");
  put(b, at, bytes);
}

static void run(uint64_t operations) {
  for (uint64_t i = 0; i < operations; i++) {
    block *b = &blocks[ts_below(&rng, SLOTS)];
    if (b->at == NULL) {
      allocate(b);
      continue;
    }
    check_bytes(b->at, 0, b->bytes, b->fill, "held");
    if (ts_below(&rng, 3) == 0) {
      resize(b);
    } else {
      hd_free(b->at);
      b->at = NULL;
    }
  }
}

static void check_failure(const char *what, void *p) {
  TS_CHECK(p == NULL, "%s gave %p", what, p);
  TS_CHECK(errno == ENOMEM, "%s: errno %d", what, errno);
  errno = 0;
}

/* Sizes that nobody has, and the edges. */
static void check_edges(void) {
  errno = 0;
  check_failure("malloc64", __crystal_malloc64(UINT64_MAX));
  check_failure("malloc_atomic64", __crystal_malloc_atomic64(UINT64_MAX / 2 + 1));
  check_failure("malloc_uninitialized64", __crystal_malloc_uninitialized64(UINT64_MAX));
  check_failure("calloc64", __crystal_calloc64(UINT64_MAX));
  check_failure("calloc_atomic64", __crystal_calloc_atomic64(UINT64_MAX - 4096));
  check_failure("recalloc64 of nothing", __crystal_recalloc64(NULL, 0, UINT64_MAX));

  unsigned char *p = __crystal_malloc64(100);
  memset(p, 7, 100);
  check_failure("realloc64", __crystal_realloc64(p, UINT64_MAX));
  check_failure("recalloc64", __crystal_recalloc64(p, 100, UINT64_MAX));
  check_bytes(p, 0, 100, 7, "after failures");
  TS_CHECK(__crystal_realloc64(p, 0) == NULL && errno == 0, "a size of 0 frees, and is no failure");

  p = __crystal_recalloc64(NULL, 12345, 5000);
  check_bytes(p, 0, 5000, 0, "recalloc64 of nothing");
  hd_free(p);
  void *a = __crystal_malloc64(0), *b = __crystal_calloc64(0);
  TS_CHECK(a != NULL && b != NULL && a != b, "%p and %p", a, b);
  hd_free(a);
  hd_free(b);
}

/* Fresh memory from the system is zero already, so a large cleared block takes none until it is used; a little may be old memory. */
static void check_untouched(void) {
  enum { BYTES = 128 * 1024 * 1024, OLD = 4096, TOUCHED_MAX = BYTES / 16 };
  unsigned char *p = __crystal_calloc64(BYTES);
  TS_CHECK(p != NULL && ts_resident(p, BYTES) < TOUCHED_MAX, "calloc64 touched %zu bytes", ts_resident(p, BYTES));
  hd_free(p);
  p = __crystal_calloc64(OLD);
  memset(p, 1, OLD);
  p = __crystal_recalloc64(p, OLD, BYTES);
  TS_CHECK(p != NULL && ts_resident(p, BYTES) < TOUCHED_MAX, "recalloc64 touched %zu bytes", ts_resident(p, BYTES));
  check_bytes(p, 0, OLD, 1, "kept");
  check_bytes(p + BYTES - OLD, 0, OLD, 0, "added");
  hd_free(p);
}

int main(int argc, char **argv) {
  uint64_t seed = ts_flag(argc, argv, "-s") ? ts_option(argc, argv, "-s", 0) : ts_seed();
  snprintf(ts_replay, sizeof ts_replay, "crystal_well_known -s %llu", (unsigned long long)seed);
  rng.state = seed;
  check_edges();
  run(ts_option(argc, argv, "-n", 20000));
  check_untouched();
  return 0;
}
