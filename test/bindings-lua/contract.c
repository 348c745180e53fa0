/* hd_lua_alloc without Lua: what the header promises, edge by edge; a random run against shadow copies; configs; many heaps.
 *   lua_contract [-s seed] [-n steps]
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/lua.h"

static hd_lua_stats figures(const hd_lua_heap *heap) {
  hd_lua_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_lua_heap_stats_get(heap, &stats), "statistics of a heap");
  return stats;
}

static void edges(hd_lua_heap *heap) {
  TS_CHECK(hd_lua_alloc(heap, NULL, 0, 0) == NULL && hd_lua_alloc(heap, NULL, 5, 0) == NULL, "nothing to free");
  char *p = hd_lua_alloc(heap, NULL, 4, 24); /* 4: Lua's tag for a string */
  TS_CHECK(p != NULL && (uintptr_t)p % 16 == 0, "aligned to 16");
  memset(p, 'a', 24);
  TS_CHECK(heap == NULL || figures(heap).used_bytes == 24, "a tag is no size");
  errno = 0;
  TS_CHECK(hd_lua_alloc(heap, p, 24, SIZE_MAX) == NULL && errno == ENOMEM, "too large");
  TS_CHECK(hd_lua_alloc(heap, p, 24, (size_t)PTRDIFF_MAX + 1) == NULL, "too large by one");
  TS_CHECK(hd_lua_alloc(heap, NULL, 0, SIZE_MAX - 15) == NULL, "too large, and new");
  TS_CHECK(memcmp(p, "aaaaaaaaaaaaaaaaaaaaaaaa", 24) == 0, "unchanged after a refusal");
  p = hd_lua_alloc(heap, p, 24, 300000);
  TS_CHECK(p != NULL && p[0] == 'a' && p[23] == 'a', "content kept when growing");
  p = hd_lua_alloc(heap, p, 300000, 3);
  TS_CHECK(p != NULL && memcmp(p, "aaa", 3) == 0, "content kept when shrinking");
  TS_CHECK(heap == NULL || (figures(heap).used_bytes == 3 && figures(heap).block_count == 1), "counted");
  errno = 7;
  TS_CHECK(hd_lua_alloc(heap, p, 3, 0) == NULL && errno == 7, "free gives NULL and keeps errno");
  TS_CHECK(heap == NULL || (figures(heap).used_bytes == 0 && figures(heap).block_count == 0), "all free");
}

static void configs(void) {
  hd_lua_config config = {0};
  errno = 0;
  TS_CHECK(hd_lua_heap_create(&config) == NULL && errno == EINVAL, "struct_bytes of 0");
  config.struct_bytes = sizeof config;
  config.cap_bytes = 100;
  errno = 9;
  hd_lua_heap *heap = hd_lua_heap_create(&config);
  TS_CHECK(heap != NULL && errno == 9, "a heap, and errno kept");
  void *p = hd_lua_alloc(heap, NULL, 0, 100);
  TS_CHECK(p != NULL && hd_lua_alloc(heap, NULL, 0, 1) == NULL, "exactly at the cap");
  TS_CHECK(figures(heap).refused_count == 1 && figures(heap).cap_bytes == 100, "refusals are counted");
  hd_lua_heap_set_cap(heap, 10);
  p = hd_lua_alloc(heap, p, 100, 50);
  TS_CHECK(p != NULL && figures(heap).used_bytes == 50, "smaller is never refused");
  TS_CHECK(hd_lua_alloc(heap, p, 50, 51) == NULL, "larger is");
  hd_lua_heap_set_cap(heap, UINT64_MAX);
  TS_CHECK(figures(heap).cap_bytes == 0, "the largest cap is none");
  hd_lua_stats stats = {.struct_bytes = 4};
  TS_CHECK(!hd_lua_heap_stats_get(heap, &stats) && !hd_lua_heap_stats_get(heap, NULL), "no place for statistics");
  stats = (hd_lua_stats){.struct_bytes = offsetof(hd_lua_stats, cap_bytes), .cap_bytes = 77};
  TS_CHECK(hd_lua_heap_stats_get(heap, &stats) && stats.used_bytes == 50 && stats.cap_bytes == 77, "an older caller's struct");
  hd_lua_heap_destroy(heap);
  hd_lua_heap_destroy(NULL);
}

#define SLOTS 500
struct shadow {
  uint8_t *p;
  size_t bytes;
  uint8_t tag;
};

static void check_block(const struct shadow *block) {
  for (size_t i = 0; i < block->bytes; i += i < 64 ? 1 : 509) TS_CHECK(block->p[i] == (uint8_t)(block->tag + i), "byte %zu", i);
}

static void fill_block(struct shadow *block, uint8_t tag) {
  block->tag = tag;
  for (size_t i = 0; i < block->bytes; i++) block->p[i] = (uint8_t)(tag + i);
}

static void random_run(hd_lua_heap *heap, struct ts_rng *rng, uint64_t steps) {
  static struct shadow blocks[SLOTS];
  uint64_t used = 0, count = 0;
  for (uint64_t step = 0; step < steps; step++) {
    struct shadow *block = &blocks[ts_below(rng, SLOTS)];
    size_t bytes = ts_below(rng, 4) == 0 ? 0 : ts_below(rng, (uint64_t)16 << ts_below(rng, 15));
    if (block->p != NULL) check_block(block);
    uint8_t *p = hd_lua_alloc(heap, block->p, block->p == NULL ? ts_below(rng, 9) : block->bytes, bytes);
    TS_CHECK((p == NULL) == (bytes == 0), "a block of %zu bytes", bytes);
    count += (p != NULL) - (block->p != NULL);
    used += bytes - block->bytes;
    size_t kept = block->bytes < bytes ? block->bytes : bytes;
    *block = (struct shadow){p, kept, block->tag};
    if (p != NULL) check_block(block);
    block->bytes = bytes;
    if (p != NULL) fill_block(block, (uint8_t)ts_next(rng));
    if (heap != NULL) TS_CHECK(figures(heap).used_bytes == used && figures(heap).block_count == count, "counted after step %d", (int)step);
  }
  for (int i = 0; i < SLOTS; i += heap == NULL ? 1 : 2) {
    hd_lua_alloc(heap, blocks[i].p, blocks[i].bytes, 0);
    blocks[i] = (struct shadow){0};
  }
  memset(blocks, 0, sizeof blocks); /* the rest goes with the heap */
}

/* Heaps that come and go do not pile up, and one can be handed from thread to thread. */
static void *in_thread(void *heap) {
  char *p = NULL;
  for (size_t bytes = 1; bytes < 3000; bytes += 7) {
    p = hd_lua_alloc(heap, p, bytes == 1 ? 0 : bytes - 7, bytes);
    hd_lua_alloc(heap, NULL, 0, bytes);
  }
  return p;
}

static void many(void) {
  size_t before = 0;
  for (int i = 0; i < 600; i++) {
    hd_lua_heap *heap = hd_lua_heap_create(NULL);
    pthread_t thread;
    in_thread(heap);
    if (i % 8 == 0 && pthread_create(&thread, NULL, in_thread, heap) == 0) pthread_join(thread, NULL);
    in_thread(heap);
    hd_lua_heap_destroy(heap);
    if (i == 100) before = ts_rss();
  }
  TS_CHECK(ts_rss() < before + ((size_t)2 << 20), "%zu KiB after 100 heaps, %zu after 600", before >> 10, ts_rss() >> 10);
}

int main(int argc, char **argv) {
  struct ts_rng rng = {ts_option_text(argc, argv, "-s") != NULL ? ts_option(argc, argv, "-s", 0) : ts_seed()};
  snprintf(ts_replay, sizeof ts_replay, "%s -s %llu", argv[0], (unsigned long long)rng.state);
  hd_lua_heap *heap = hd_lua_heap_create(NULL);
  edges(heap);
  edges(NULL);
  configs();
  random_run(heap, &rng, ts_option(argc, argv, "-n", 40000));
  random_run(NULL, &rng, ts_option(argc, argv, "-n", 40000) / 4);
  hd_lua_heap_destroy(heap);
  many();
  puts("ok");
  return 0;
}
