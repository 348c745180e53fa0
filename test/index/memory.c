/* What index pools really cost: a large pool is address space until it is touched, growing neither moves nor copies, shrinking gives
 * memory back, and the library's own statistics know it all.
 * SPDX-License-Identifier: MIT */
#include <stdio.h>
#include <string.h>

#include <heddle/index_pool.h>

#include "../support/support.h"

#define MIB ((size_t)1 << 20)

static hd_index_pool *make(uint32_t slot_bytes, uint32_t object_slots, uint64_t maximum) {
  hd_index_config config = {
      .struct_bytes = sizeof config, .name = "memory", .slot_bytes = slot_bytes, .object_slots = object_slots, .maximum = maximum};
  hd_index_pool *pool = hd_index_pool_create(&config);
  TS_CHECK(pool != NULL, "no pool");
  return pool;
}

static hd_index_stats stats_of(const hd_index_pool *pool) {
  hd_index_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_index_pool_stats_get(pool, &stats), "stats");
  return stats;
}

static size_t resident(const hd_index_pool *pool) { return ts_resident(hd_index_pool_at(pool, 0), stats_of(pool).reserved_bytes); }

/* 1 GiB of slots, an object of 1 MiB at a time, of which only the first bytes are touched. */
static void sparse(void) {
  size_t before = ts_rss();
  hd_index_pool *pool = make(16, 0, 64 * MIB);
  const unsigned char *base = hd_index_pool_at(pool, 0);
  uint32_t index = 0;
  for (unsigned i = 0; i < 1023; i++) {
    index = hd_index_pool_take(pool, 65536);
    TS_CHECK(index == 1 + i * 65536, "index %u", index);
    memset(hd_index_pool_at(pool, index), (int)i, 16);
  }
  for (unsigned i = 0; i < 1023; i++) {
    const unsigned char *p = hd_index_pool_at(pool, 1 + i * 65536);
    TS_CHECK(p == base + 16 + (size_t)i * MIB && p[15] == (unsigned char)i, "object %u moved", i);
  }
  hd_index_stats stats = stats_of(pool);
  TS_CHECK(stats.growth_count > 5 && stats.growth_count < 200 && stats.reserved_bytes >= 1088 * MIB, "%llu growths",
           (unsigned long long)stats.growth_count);
  /* A page for each object and one for its byte of the map. */
  TS_CHECK(ts_rss() - before < 24 * MIB, "%zu bytes for 1023 touched pages", ts_rss() - before);
  hd_index_pool_destroy(pool);
  TS_CHECK(ts_rss() < before + 24 * MIB, "destroyed");
}

/* Four thousand million indexes: the last ones are addressed right. */
static void widest(void) {
  hd_index_config config = {.struct_bytes = sizeof config, .slot_bytes = 4, .maximum = UINT32_MAX - 5, .slack = 5};
  hd_index_pool *pool = hd_index_pool_create(&config);
  if (pool == NULL) {
    ts_print(1, "no 20 GiB of address space here: left out\n");
    return;
  }
  uint32_t big = hd_index_pool_take(pool, UINT32_MAX - 15);
  TS_CHECK(big == 1 && hd_index_pool_slots(pool, big) == UINT32_MAX - 15, "index %u", big);
  uint32_t last = hd_index_pool_take(pool, 10);
  TS_CHECK(last == UINT32_MAX - 14 && hd_index_pool_take(pool, 6) == 0, "index %u", last);
  uint32_t slack = hd_index_pool_take(pool, 5);
  TS_CHECK(slack == UINT32_MAX - 4 && hd_index_pool_take(pool, 1) == 0, "index %u", slack);
  memset(hd_index_pool_at(pool, slack), 0xff, 20);
  unsigned char *p = hd_index_pool_at(pool, UINT32_MAX);
  TS_CHECK(p - (unsigned char *)hd_index_pool_at(pool, 0) == 4 * (ptrdiff_t)UINT32_MAX && p[3] == 0xff, "the last slot");
  TS_CHECK(hd_index_pool_index(pool, p) == UINT32_MAX && hd_index_pool_index(pool, p + 4) == 0, "index of the last slot");
  hd_index_stats stats = stats_of(pool);
  TS_CHECK(stats.ptr == (uint64_t)1 << 32 && stats.used == UINT32_MAX && stats.extra == 5, "ptr %llu", (unsigned long long)stats.ptr);
  TS_CHECK(hd_index_pool_next(pool, last) == slack && hd_index_pool_next(pool, slack) == 0, "walk");
  hd_index_pool_give(pool, big);
  TS_CHECK(hd_index_pool_take(pool, 7) == 1 && hd_index_pool_take(pool, UINT32_MAX - 22) == 8, "the large object was not cut");
  hd_index_pool_destroy(pool);
}

static void shrinks(void) {
  size_t before = ts_rss();
  hd_index_pool *pool = make(16, 1, 8 * MIB);
  for (unsigned i = 1; i <= 4 * MIB; i++) {
    uint32_t index = hd_index_pool_take(pool, 1);
    memset(hd_index_pool_at(pool, index), 1, 16);
  }
  size_t full = ts_rss();
  TS_CHECK(full - before > 64 * MIB && full - before < 76 * MIB, "%zu bytes for 68 MiB", full - before);
  TS_CHECK(stats_of(pool).bytes / MIB == 68, "%llu bytes", (unsigned long long)stats_of(pool).bytes);
  for (uint32_t i = 1; i <= 4 * MIB; i++) {
    if (i != 1000) hd_index_pool_give(pool, i);
  }
  size_t back = hd_index_pool_shrink(pool);
  TS_CHECK(back > 67 * MIB && ts_rss() < before + 8 * MIB, "%zu bytes came back, %zu stayed", back, ts_rss() - before);
  TS_CHECK(resident(pool) <= 2 * 65536, "%zu bytes of the pool stayed", resident(pool));
  hd_index_stats stats = stats_of(pool);
  TS_CHECK(stats.ptr == 1001 && stats.free == 999 && stats.top == 4 * MIB + 1 && stats.allocated == 1000, "counters");
  TS_CHECK(stats.bytes < 20000, "%llu bytes", (unsigned long long)stats.bytes);
  TS_CHECK(hd_index_pool_check(pool) == NULL && hd_index_pool_take(pool, 1) == 1, "the list is not in order");
  hd_index_pool_destroy(pool);
}

/* Free memory in the middle goes back as well, and is usable again. */
static void holes(void) {
  size_t before = ts_rss();
  hd_index_pool *pool = make(64, 0, 2 * MIB);
  for (unsigned i = 0; i < 10000; i++) memset(hd_index_pool_at(pool, hd_index_pool_take(pool, 100)), 2, 6400);
  uint32_t last = hd_index_pool_take(pool, 3);
  memset(hd_index_pool_at(pool, last), 3, 192);
  for (uint32_t i = 0; i < 10000; i++) hd_index_pool_give(pool, 1 + 100 * i);
  TS_CHECK(ts_rss() > before + 60 * MIB, "not resident");
  size_t back = hd_index_pool_shrink(pool);
  TS_CHECK(back > 60 * MIB && ts_rss() < before + 8 * MIB, "%zu bytes came back, %zu stayed", back, ts_rss() - before);
  TS_CHECK(resident(pool) <= 6 * 65536, "%zu bytes of the pool stayed", resident(pool));
  TS_CHECK(((unsigned char *)hd_index_pool_at(pool, last))[191] == 3, "a live object was touched");
  TS_CHECK(hd_index_pool_take(pool, 1000000) == 1 && hd_index_pool_check(pool) == NULL, "the hole is not used");
  hd_index_pool_destroy(pool);
}

static bool look(const hd_area *area, void *block, size_t block_bytes, void *user) {
  size_t *touched = user;
  (void)block, (void)block_bytes;
  if (area->kind == HD_AREA_INDEX_POOL && strcmp(area->name, "memory") == 0) *touched += area->block_bytes;
  return true;
}

static void shows(void) {
  hd_stats before = {.struct_bytes = sizeof before}, after = before;
  hd_stats_get(&before);
  hd_index_pool *pool = make(16, 0, MIB);
  for (unsigned i = 0; i < 100000; i++) hd_index_pool_take(pool, 2);
  size_t touched = 0;
  TS_CHECK(hd_heap_walk(NULL, true, look, &touched) && touched > 3 * MIB && touched < 4 * MIB, "the walk shows %zu bytes", touched);
  hd_stats_get(&after);
  TS_CHECK(after.object_count == before.object_count + 1 && after.objects == before.objects + touched, "statistics");
  hd_index_pool_reset(pool);
  hd_index_pool_shrink(pool);
  touched = 0;
  TS_CHECK(hd_heap_walk(NULL, true, look, &touched) && touched < 65536, "the walk shows %zu bytes", touched);
  hd_index_pool_destroy(pool);
  hd_stats_get(&after);
  TS_CHECK(after.object_count == before.object_count && after.metadata == before.metadata, "something is left");
}

/* Pools that come and go quickly use the same addresses again: a thousand times 1 GiB is more than the machine has. */
static void comes_and_goes(void) {
  for (unsigned i = 0; i < 1000; i++) {
    hd_index_pool *pool = make(16, 0, 64 * MIB);
    memset(hd_index_pool_at(pool, hd_index_pool_take(pool, 1000)), 1, 16000);
    hd_index_pool_destroy(pool);
  }
}

int main(void) {
  sparse();
  widest();
  shrinks();
  holes();
  shows();
  comes_and_goes();
  return 0;
}
