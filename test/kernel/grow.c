/* Blocks of 64 KiB to 12 MiB that are taken, grown, cut and freed at random. Of some the program has locked pages, keeps them out of dumps,
 * or wants no huge pages for them: what moves pages, asks for huge ones, and takes memory back. Every block knows what is in it. -o 1: as
 * on a system that knows only the move that unmaps the source.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/filter.h"
#include "../support/support.h"
#include "../support/sut.h"

enum { BLOCKS = 24, STEPS = 600, FORK_EACH = 150, LEAST_SHIFT = 16, KEEPING_MOVE = 7 /* of mremap: MAYMOVE, FIXED, DONTUNMAP */ };

struct block {
  uint64_t *p;
  size_t words;
  uint64_t seed;
};

static struct block blocks[BLOCKS];
static struct ts_rng rng;
static size_t page;

static size_t some_words(void) {
  size_t bytes = (size_t)1 << (LEAST_SHIFT + ts_below(&rng, 8));
  return (bytes + ts_below(&rng, bytes / 2)) / sizeof(uint64_t);
}

/* A word on each page, and the last one. */
static void fill(struct block *block) {
  for (size_t i = 0; i < block->words; i += 512) block->p[i] = block->seed + i;
  block->p[block->words - 1] = ~block->seed;
}

static void check(const struct block *block, size_t words) {
  for (size_t i = 0; i + 1 < words; i += 512) TS_CHECK(block->p[i] == block->seed + i, "word %zu of %zu", i, block->words);
}

static void check_all(void) {
  for (int i = 0; i < BLOCKS; i++) {
    check(&blocks[i], blocks[i].words);
    if (blocks[i].p != NULL) TS_CHECK(blocks[i].p[blocks[i].words - 1] == ~blocks[i].seed, "the last word of %zu", blocks[i].words);
  }
}

static void take(struct block *block) {
  block->words = some_words();
  block->seed = ts_next(&rng);
  bool zeroed = ts_below(&rng, 3) == 0;
  block->p = zeroed ? calloc(block->words, sizeof(uint64_t)) : malloc(block->words * sizeof(uint64_t));
  TS_CHECK(block->p != NULL, "%zu words", block->words);
  for (size_t i = 0; zeroed && i < block->words; i += 64) TS_CHECK(block->p[i] == 0, "word %zu of %zu is not zero", i, block->words);
  fill(block);
}

/* The system keeps this part apart from the rest. */
static void cut(const struct block *block) {
  uintptr_t start = ((uintptr_t)block->p + page - 1) / page * page;
  size_t pages = block->words * sizeof(uint64_t) / page - 1, at = ts_below(&rng, pages), count = 1 + ts_below(&rng, pages - at);
  void *part = (void *)(start + at * page);
  switch (ts_below(&rng, 3)) {
    case 0:
      (void)mlock(part, (count < 16 ? count : 16) * page); /* no more than everybody may */
      break;
    case 1:
      (void)madvise(part, count * page, MADV_DONTDUMP);
      break;
    default:
      (void)madvise(part, count * page, MADV_NOHUGEPAGE);
      break;
  }
}

static void resize(struct block *block) {
  size_t words = some_words(), kept = words < block->words ? words : block->words;
  block->p = realloc(block->p, words * sizeof(uint64_t));
  TS_CHECK(block->p != NULL, "%zu words", words);
  block->words = words;
  check(block, kept);
  fill(block);
}

static void step(struct block *block) {
  unsigned what = (unsigned)ts_below(&rng, 4);
  if (block->p == NULL) {
    take(block);
  } else if (what == 0) {
    free(block->p);
    *block = (struct block){NULL, 0, 0};
  } else if (what == 1) {
    cut(block);
  } else {
    resize(block);
  }
}

static void in_child(void) {
  pid_t pid = fork();
  TS_CHECK(pid >= 0, "fork");
  if (pid == 0) {
    check_all();
    for (int i = 0; i < BLOCKS; i++) step(&blocks[i]);
    check_all();
    _exit(0);
  }
  int status = 1;
  TS_CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child's status is %x", (unsigned)status);
}

int main(int argc, char **argv) {
  ts_expect_heddle();
  rng.state = ts_option(argc, argv, "-s", 0);
  if (rng.state == 0) rng.state = ts_seed();
  page = ts_os_page();
  if (ts_option(argc, argv, "-o", 0) != 0) TS_CHECK(ts_filter_value(SYS_mremap, 3, KEEPING_MOVE), "no filters of system calls");
  for (int i = 0; i < STEPS; i++) {
    step(&blocks[ts_below(&rng, BLOCKS)]);
    if (i % FORK_EACH == FORK_EACH - 1) in_child();
  }
  check_all();
  for (int i = 0; i < BLOCKS; i++) free(blocks[i].p);
  ts_print(1, "ok\n");
  return 0;
}
