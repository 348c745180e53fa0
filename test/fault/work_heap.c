/* The heap's workload: every size and entry point of the malloc family, explicit heaps of each kind, limits; and one that looks at the
 * heap from all sides meanwhile. See work.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>

#include <heddle.h>

#include "work.h"

enum { BLOCKS = 60, STEPS = 200, MIB = 1 << 20 };

/* ---- the malloc family --------------------------------------------------------------------------------------------------- */

static size_t some_size(struct ts_rng *rng) {
  switch (ts_below(rng, 16)) {
    case 0:
      return ts_below(rng, 8 * MIB);
    case 1:
    case 2:
      return ts_below(rng, 2 * MIB);
    case 3:
    case 4:
      return 56 * 1024 + ts_below(rng, 200 * 1024);
    case 5:
    case 6:
    case 7:
      return 1024 + ts_below(rng, 55 * 1024);
    default:
      return ts_below(rng, 1100);
  }
}

/* A new block in an empty place; some of them zeroed, some aligned. */
static void make(struct block *block, struct ts_rng *rng) {
  size_t bytes = some_size(rng), alignment = (size_t)16 << ts_below(rng, 14);
  block->bytes = bytes;
  switch (ts_below(rng, 6)) {
    case 0:
      if (TRY_POINTER(block->p, hd_calloc(1, bytes))) block_check_zero(block->p, bytes);
      break;
    case 1:
      if (!TRY_POINTER(block->p, hd_aligned_alloc(alignment, bytes))) break;
      TS_CHECK((uintptr_t)block->p % alignment == 0, "alignment %zu", alignment);
      break;
    case 2:
      if (TRY_POINTER(block->p, hd_aligned_zalloc(alignment, bytes))) block_check_zero(block->p, bytes);
      break;
    default:
      TRY_POINTER(block->p, hd_malloc(bytes));
  }
  if (block->p == NULL) return;
  TS_CHECK(hd_usable_size(block->p) >= bytes, "%zu usable of %zu", hd_usable_size(block->p), bytes);
  block_fill(block, ts_next(rng));
}

/* Refused, the block is what it was; granted, it holds what both lengths have. Shrinking is never refused. */
static void resize(struct block *block, struct ts_rng *rng) {
  size_t bytes = some_size(rng) + 1;
  uint8_t *p = NULL;
  block_check(block);
  bool granted = TRY_POINTER(p, hd_realloc(block->p, bytes));
  TS_CHECK(granted || bytes > block->bytes, "%zu bytes can't shrink to %zu", block->bytes, bytes);
  if (!granted) return;
  struct block kept = {p, bytes < block->bytes ? bytes : block->bytes, block->mark};
  if (kept.bytes >= 8) TS_CHECK(memcmp(p, &block->mark, 8) == 0, "the start is lost");
  if (kept.bytes == block->bytes) block_check(&kept);
  *block = (struct block){p, bytes, 0};
  block_fill(block, ts_next(rng));
}

static void drop(struct block *block) {
  if (block->p == NULL) return;
  block_check(block);
  errno = 77;
  hd_free(block->p);
  TS_CHECK(errno == 77, "free changed errno to %d", errno);
  block->p = NULL;
}

static void churn(struct block *blocks, struct ts_rng *rng) {
  for (int step = 0; step < STEPS; step++) {
    struct block *block = blocks + ts_below(rng, BLOCKS);
    if (block->p == NULL) make(block, rng);
    else if (ts_below(rng, 3) == 0) resize(block, rng);
    else drop(block);
    if (step % 100 == 70) hd_collect(0);
  }
}

/* A block that grows by copies, by the units behind it and by moved pages; another one stands in its way. */
static void grow(uint64_t seed) {
  struct block one = {NULL, 0, 0}, other = {NULL, 0, 0};
  for (size_t bytes = 100 * 1024; bytes < 9 * MIB; bytes += bytes / 2) {
    uint8_t *p = NULL;
    if (TRY_POINTER(p, hd_realloc(one.p, bytes))) {
      struct block kept = {p, one.bytes, one.mark};
      if (one.p != NULL) block_check(&kept);
      one = (struct block){p, bytes, 0};
      block_fill(&one, seed + bytes);
    }
    drop(&other);
    other.bytes = 70000;
    if (TRY_POINTER(other.p, hd_malloc(other.bytes))) block_fill(&other, seed);
  }
  drop(&one);
  drop(&other);
}

/* A zeroed block where one lay of which little was touched: its memory is exchanged. */
static void exchange(void) {
  for (int round = 0; round < 4; round++) {
    size_t bytes = round < 2 ? 2 * MIB : 5 * MIB;
    uint8_t *p = NULL;
    if (TRY_POINTER(p, hd_calloc(1, bytes))) {
      for (size_t at = 0; at < bytes; at += 256 * 1024) TS_CHECK(p[at] == 0, "not zero at %zu", at);
      for (size_t at = 0; at < bytes; at += 256 * 1024) p[at] = 1;
    }
    hd_free(p);
  }
}

/* What a program begins with: buffers of whole system pages, which are runs of their own the first two times. */
static void buffers(uint64_t seed) {
  struct block two[2] = {{NULL, 4096, 0}, {NULL, 8192, 0}};
  if (TRY_POINTER(two[0].p, hd_malloc(two[0].bytes))) block_fill(two, seed);
  if (TRY_POINTER(two[1].p, hd_calloc(1, two[1].bytes))) block_check_zero(two[1].p, two[1].bytes);
  drop(two);
  drop(two + 1);
}

static void never_granted(void) {
  volatile size_t half = SIZE_MAX / 2 - 4096, three = 3;
  errno = 0;
  TS_CHECK(hd_malloc(half) == NULL && errno == ENOMEM, "half of all addresses, errno %d", errno);
  errno = 0;
  TS_CHECK(hd_calloc(half, three) == NULL && errno == ENOMEM, "an overflow, errno %d", errno);
  errno = 0;
  TS_CHECK(hd_aligned_alloc(three, 10) == NULL && errno == EINVAL, "alignment 3, errno %d", errno);
}

/* ---- explicit heaps ------------------------------------------------------------------------------------------------------- */

static void fill_heap(hd_heap *heap, uint64_t seed, bool limited) {
  enum { COUNT = 60 };
  struct block blocks[COUNT];
  struct ts_rng rng = {seed};
  for (size_t i = 0; i < COUNT; i++) {
    struct block *block = blocks + i;
    block->bytes = i % 9 == 0 ? 100000 : ts_below(&rng, 9000);
    errno = 0;
    block->p = i % 4 == 0 ? hd_heap_zalloc(heap, block->bytes) : hd_heap_malloc(heap, block->bytes);
    if (!limited) work_judge(block->p != NULL, "hd_heap_malloc", __LINE__);
    else TS_CHECK(block->p != NULL || errno == ENOMEM, "errno %d", errno);
    if (block->p == NULL) continue;
    if (i % 4 == 0) block_check_zero(block->p, block->bytes);
    block_fill(block, seed + i);
  }
  for (size_t i = 0; i < COUNT; i++) {
    if (blocks[i].p == NULL) continue;
    block_check(blocks + i);
    if (i % 3 == 0) hd_free(blocks[i].p);
    else if (i % 3 == 1) hd_heap_free(heap, blocks[i].p);
  }
}

static void use_heaps(uint64_t seed) {
  enum { OWN_BYTES = 4 * MIB };
  hd_heap *heap = NULL;
  hd_heap_config config = {.struct_bytes = sizeof config, .name = "fault"};
  for (unsigned kind = 0; kind < 8; kind++) {
    config.limit_bytes = kind & 1 ? MIB : 0;
    config.one_user = (kind & 2) != 0;
    config.memory_bytes = kind & 4 ? OWN_BYTES : 0;
    config.memory = NULL;
    if (kind & 4) {
      config.memory = mmap(NULL, OWN_BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
      TS_CHECK(config.memory != MAP_FAILED, "mmap");
    }
    if (TRY_POINTER(heap, hd_heap_create(&config))) {
      fill_heap(heap, seed + kind, (kind & 5) != 0);
      hd_heap_reset(heap);
      fill_heap(heap, seed - kind, (kind & 5) != 0);
      hd_heap_destroy(heap);
    }
    /* Gone with the heap, and where no heap was made: nobody may look at this memory again. */
    if (kind & 4) munmap(config.memory, OWN_BYTES);
    TS_CHECK(!hd_owns(&config), "the stack is nobody's block");
  }
}

void work_heap(uint64_t seed) {
  struct block blocks[BLOCKS];
  struct ts_rng rng = {seed};
  memset(blocks, 0, sizeof blocks);
  never_granted();
  buffers(seed);
  churn(blocks, &rng);
  grow(seed);
  exchange();
  use_heaps(seed);
  churn(blocks, &rng);
  for (size_t i = 0; i < BLOCKS; i++) drop(blocks + i);
}

/* ---- looking --------------------------------------------------------------------------------------------------------------- */

static bool count_area(const hd_area *area, void *block, size_t block_bytes, void *user) {
  size_t *live = user;
  (void)area;
  if (block != NULL) *live += block_bytes;
  return true;
}

/* Statistics, walks and options, with blocks that are live. */
void work_look(uint64_t seed) {
  enum { COUNT = 150 };
  struct block blocks[COUNT];
  struct ts_rng rng = {seed};
  char text[4096];
  size_t live = 0, walked = 0;
  hd_stats before = {.struct_bytes = sizeof before}, after = {.struct_bytes = sizeof after};
  TS_CHECK(hd_option_set("purge-delay", "0") == HD_OK, "the option");
  TS_CHECK(hd_stats_get(&before), "statistics");
  for (size_t i = 0; i < COUNT; i++) {
    blocks[i] = (struct block){NULL, some_size(&rng) / 4, 0};
    if (!TRY_POINTER(blocks[i].p, hd_malloc(blocks[i].bytes))) continue;
    block_fill(blocks + i, seed + i);
    live += hd_usable_size(blocks[i].p);
    TS_CHECK(hd_owns(blocks[i].p) && hd_heap_of(blocks[i].p) == NULL, "a thread's block");
    if (i % 50 == 20) hd_thread_idle();
  }
  TS_CHECK(hd_stats_get(&after) && after.live - before.live == live, "%zu live, not %zu", after.live - before.live, live);
  hd_heap_walk(NULL, true, count_area, &walked);
  TS_CHECK(walked == after.live, "%zu walked, not %zu", walked, after.live);
  TS_CHECK(hd_stats_text(text, sizeof text) > 100 && hd_stats_json(text, sizeof text) > 100, "texts");
  TS_CHECK(hd_option_get("purge-delay", text, sizeof text) == 1, "the option");
  for (size_t i = 0; i < COUNT; i++) drop(blocks + i);
  hd_collect(0);
  TS_CHECK(hd_option_set("purge-delay", "750") == HD_OK, "the option");
}
