/* The workload of what stands on regions: arenas of each kind, frames, pools, class pools, string pools, tables of handles, index pools.
 * See work.h.
 *
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include <heddle/arena.h>
#include <heddle/frame.h>
#include <heddle/handle.h>
#include <heddle/index_pool.h>
#include <heddle/pool.h>
#include <heddle/string_pool.h>

#include "work.h"

/* ---- arenas ---------------------------------------------------------------------------------------------------------------- */

static void use_arena(hd_arena *arena, uint64_t seed) {
  enum { STEPS = 60 };
  struct block laid[STEPS];
  struct ts_rng rng = {seed};
  for (unsigned i = 0; i < STEPS; i++) {
    struct block *block = laid + i;
    block->bytes = i % 12 == 0 ? ts_below(&rng, 300000) + 1 : ts_below(&rng, 20000) + 1;
    switch (i % 3) {
      case 0:
        TRY_POINTER(block->p, hd_arena_alloc_right(arena, block->bytes));
        break;
      case 1:
        if (TRY_POINTER(block->p, hd_arena_zalloc(arena, block->bytes))) block_check_zero(block->p, block->bytes);
        break;
      default:
        TRY_POINTER(block->p, hd_arena_alloc(arena, block->bytes));
    }
    if (block->p != NULL) block_fill(block, seed + i);
  }
  for (unsigned i = 0; i < STEPS; i++) {
    if (laid[i].p != NULL) block_check(laid + i);
  }
}

static void arenas(uint64_t seed) {
  hd_arena *arena = NULL;
  hd_arena_config config = {.struct_bytes = sizeof config, .name = "fault"};
  for (unsigned kind = 0; kind < 6; kind++) {
    config.guard = (kind & 1) != 0;
    config.capacity_bytes = kind < 2 ? 0 : 16 << 20;
    config.shared = kind >= 4;
    config.keep_bytes = kind & 1 ? 1 : 0;
    if (!TRY_POINTER(arena, hd_arena_create(&config))) continue;
    if (config.shared) {
      struct block block = {NULL, 100000, 0};
      if (TRY_POINTER(block.p, hd_arena_alloc(arena, block.bytes))) {
        block_fill(&block, seed);
        block_check(&block);
      }
    } else {
      use_arena(arena, seed);
      hd_mark mark = hd_arena_mark(arena);
      use_arena(arena, seed + 1);
      if (mark.point != NULL) TS_CHECK(hd_arena_release(arena, mark), "the mark is still there");
    }
    hd_arena_reset(arena);
    hd_arena_trim(arena, 0);
    if (!config.shared) use_arena(arena, seed + 2);
    hd_arena_destroy(arena);
  }
  hd_frame *frame = NULL;
  hd_frame_config two = {.struct_bytes = sizeof two, .doubled = true, .capacity_bytes = 1 << 20};
  if (!TRY_POINTER(frame, hd_frame_create(&two))) return;
  for (unsigned i = 0; i < 4; i++) {
    hd_frame_begin(frame);
    struct block block = {NULL, 200000, 0};
    if (TRY_POINTER(block.p, hd_frame_alloc(frame, block.bytes))) block_fill(&block, i);
  }
  hd_frame_destroy(frame);
}

/* ---- pools ----------------------------------------------------------------------------------------------------------------- */

static void use_pool(const hd_pool_config *config, size_t count, uint64_t seed) {
  static struct block items[2000];
  hd_pool *pool = NULL;
  if (!TRY_POINTER(pool, hd_pool_create(config))) return;
  for (unsigned round = 0; round < 2; round++) {
    for (size_t i = 0; i < count; i++) {
      items[i].bytes = config->item_bytes;
      if (!TRY_POINTER(items[i].p, hd_pool_take_zeroed(pool))) continue;
      block_check_zero(items[i].p, items[i].bytes);
      block_fill(items + i, seed + i);
    }
    for (size_t i = 0; i < count; i++) {
      if (items[i].p == NULL) continue;
      block_check(items + i);
      hd_pool_give(pool, items[i].p);
    }
    hd_pool_flush(pool);
  }
  TS_CHECK(hd_pool_destroy(pool) == 0, "all were given back");
}

static void pools(uint64_t seed) {
  use_pool(&(hd_pool_config){.struct_bytes = sizeof(hd_pool_config), .item_bytes = 200}, 2000, seed);
  use_pool(&(hd_pool_config){.struct_bytes = sizeof(hd_pool_config), .item_bytes = 300000, .kept = 3}, 20, seed);
  use_pool(&(hd_pool_config){.struct_bytes = sizeof(hd_pool_config), .item_bytes = 5000, .shared = true, .initial = 10}, 100, seed);
}

static void strings(void) {
  hd_string_pool *pool = NULL;
  hd_string_pool_config config = {.struct_bytes = sizeof config, .name = "fault", .intern = true};
  if (!TRY_POINTER(pool, hd_string_pool_create(&config))) return;
  uint64_t count = 0;
  for (uint64_t i = 0; i < 12000; i++) {
    uint64_t index = HD_STRING_NONE;
    if (!TRY((index = hd_string_pool_append(pool, &i, sizeof i)) != HD_STRING_NONE)) continue;
    TS_CHECK(index == count++, "string %llu", (unsigned long long)i);
  }
  for (uint64_t i = 0; i < count; i += 100) {
    TS_CHECK(hd_string_pool_find(pool, hd_string_pool_text(pool, i), sizeof i) == i, "string %llu is lost", (unsigned long long)i);
  }
  if (count > 10) TS_CHECK(hd_string_pool_flush(pool, 5), "flush");
  hd_string_pool_destroy(pool);
}

static void handles(void) {
  enum { COUNT = 1500, BYTES = 1000 };
  static hd_handle held[COUNT];
  hd_handles *table = NULL;
  hd_handles_config config = {.struct_bytes = sizeof config, .name = "fault"};
  if (!TRY_POINTER(table, hd_handles_create(&config))) return;
  for (size_t i = 0; i < COUNT; i++) {
    if (TRY((held[i] = hd_handles_alloc(table, BYTES)) != 0)) memset(hd_handles_get(table, held[i]), (int)i, BYTES);
  }
  for (size_t i = 0; i < COUNT; i++) {
    if (i % 3 != 0 && held[i] != 0) hd_handles_free(table, held[i]);
  }
  hd_handles_trim(table);
  while (!hd_handles_compact(table, 100000).done) continue;
  for (size_t i = 0; i < COUNT; i += 3) {
    const uint8_t *p = held[i] == 0 ? NULL : hd_handles_get(table, held[i]);
    TS_CHECK(p == NULL || (p[0] == (uint8_t)i && p[BYTES - 1] == (uint8_t)i), "block %zu", i);
  }
  hd_handles_reset(table);
  TS_CHECK(hd_handles_destroy(table) == 0, "reset");
}

static void indices(void) {
  enum { COUNT = 3000 };
  static uint32_t held[COUNT];
  hd_index_pool *pool = NULL;
  hd_index_config config = {.struct_bytes = sizeof config, .name = "fault", .slot_bytes = 8, .maximum = 100000, .step = 100};
  if (!TRY_POINTER(pool, hd_index_pool_create(&config))) return;
  for (uint32_t i = 0; i < COUNT; i++) {
    if (TRY((held[i] = hd_index_pool_take(pool, i % 50 == 0 ? 150 : 1 + i % 7)) != 0)) *(uint32_t *)hd_index_pool_at(pool, held[i]) = i;
  }
  for (uint32_t i = 0; i < COUNT; i++) {
    if (held[i] == 0) continue;
    TS_CHECK(*(uint32_t *)hd_index_pool_at(pool, held[i]) == i, "object %u", i);
    if (i % 3 != 0) hd_index_pool_give(pool, held[i]);
  }
  hd_index_pool_shrink(pool);
  const char *wrong = hd_index_pool_check(pool);
  TS_CHECK(wrong == NULL, "%s", wrong);
  hd_index_pool_destroy(pool);
}

void work_objects(uint64_t seed) {
  arenas(seed);
  pools(seed);
  strings();
  handles();
  indices();
}
