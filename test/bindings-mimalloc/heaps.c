/* Heaps: allocation, deleting with the blocks living on (freed by anybody, in any order, at any time), destroying, defaults, visiting.
 * SPDX-License-Identifier: MIT */
#include <mimalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../support/support.h"

#define COUNT 3000

static void everything(mi_heap_t *heap) {
  volatile size_t half = (size_t)1 << 33, big = (size_t)PTRDIFF_MAX + 1;
  char *p[] = {mi_heap_malloc(heap, 10),
               mi_heap_zalloc(heap, 10),
               mi_heap_calloc(heap, 5, 2),
               mi_heap_mallocn(heap, 5, 2),
               mi_heap_malloc_small(heap, 10),
               mi_heap_strdup(heap, "123456789"),
               mi_heap_strndup(heap, "1234567890", 9),
               mi_heap_realpath(heap, "/usr/share", NULL),
               mi_heap_malloc_aligned(heap, 10, 64),
               mi_heap_malloc_aligned_at(heap, 10, 64, 8),
               mi_heap_zalloc_aligned(heap, 10, 64),
               mi_heap_zalloc_aligned_at(heap, 10, 64, 4),
               mi_heap_calloc_aligned(heap, 10, 1, 64),
               mi_heap_calloc_aligned_at(heap, 10, 1, 64, 20),
               mi_heap_realloc(heap, NULL, 10),
               mi_heap_reallocn(heap, NULL, 5, 2),
               mi_heap_reallocf(heap, NULL, 10),
               mi_heap_rezalloc(heap, NULL, 10),
               mi_heap_recalloc(heap, NULL, 10, 1),
               mi_heap_realloc_aligned(heap, NULL, 10, 64),
               mi_heap_realloc_aligned_at(heap, NULL, 10, 64, 8),
               mi_heap_rezalloc_aligned(heap, NULL, 10, 64),
               mi_heap_rezalloc_aligned_at(heap, NULL, 10, 64, 8),
               mi_heap_recalloc_aligned(heap, NULL, 10, 1, 64),
               mi_heap_recalloc_aligned_at(heap, NULL, 10, 1, 64, 8),
               mi_heap_alloc_new(heap, 10),
               mi_heap_alloc_new_n(heap, 10, 1)};
  for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
    TS_CHECK(p[i] != NULL && mi_heap_contains_block(heap, p[i]), "form %zu", i);
    memset(p[i], 7, 10);
    p[i] = mi_heap_realloc(heap, p[i], 2000);
    TS_CHECK(p[i] != NULL && p[i][9] == 7 && mi_heap_contains_block(heap, p[i]), "form %zu resized", i);
    if (i % 2 == 0) mi_free(p[i]);
  }
  TS_CHECK(mi_heap_calloc(heap, half, half) == NULL && mi_heap_malloc(heap, big) == NULL, "too large");
  char *other = mi_malloc(100);
  memset(other, 8, 100);
  TS_CHECK(!mi_heap_contains_block(heap, other) || heap == mi_heap_get_default(), "another heap's");
  other = mi_heap_realloc(heap, other, 150);
  TS_CHECK(other[99] == 8, "taken over with its content");
}

static void *free_all(void *blocks) {
  for (size_t i = 0; i < COUNT; i++) mi_free(((void **)blocks)[i]);
  return NULL;
}

static void fill(mi_heap_t *heap, void **blocks) {
  for (size_t i = 0; i < COUNT; i++) {
    size_t size = i % 50 == 0 ? 100000 : i % 700 + 8;
    blocks[i] = i % 9 == 0 ? mi_heap_malloc_aligned_at(heap, size, 64, 8) : mi_heap_malloc(heap, size);
    memset(blocks[i], (int)i, 8);
  }
}

static void check(void **blocks) {
  for (size_t i = 0; i < COUNT; i++) TS_CHECK(*(unsigned char *)blocks[i] == (unsigned char)i, "block %zu", i);
}

/* The promise that matters: blocks survive their heap. */
static void deleted(bool by_thread) {
  static void *blocks[COUNT];
  pthread_t thread;
  mi_heap_t *heap = mi_heap_new();
  fill(heap, blocks);
  mi_heap_delete(heap);
  check(blocks);
  TS_CHECK(mi_heap_contains_block(mi_heap_get_backing(), blocks[5]), "the backing heap has them now");
  mi_heap_t *next = mi_heap_new();
  void *p = mi_heap_malloc(next, 50);
  check(blocks);
  TS_CHECK(!mi_heap_contains_block(next, blocks[5]), "a new heap does not");
  blocks[1] = mi_realloc(blocks[1], 5000);
  blocks[2] = mi_heap_realloc(next, blocks[2], 5000);
  check(blocks);
  mi_free(blocks[2]);
  blocks[2] = NULL;
  mi_heap_destroy(next);
  blocks[2] = mi_malloc(1);
  (void)p;
  if (by_thread) TS_CHECK(pthread_create(&thread, NULL, free_all, blocks) == 0 && pthread_join(thread, NULL) == 0, "a thread");
  else free_all(blocks);
}

/* Heaps made and deleted again and again, with blocks that outlive them for a while, do not pile up. */
static void many(void) {
  static void *late[64];
  size_t before = 0;
  for (int i = 0; i < 6000; i++) {
    mi_heap_t *heap = mi_heap_new();
    TS_CHECK(heap != NULL, "heap %d", i);
    for (int k = 0; k < 5; k++) mi_free(mi_heap_malloc(heap, 100));
    mi_free(late[i % 64]);
    late[i % 64] = mi_heap_malloc(heap, 200);
    if (i % 3 == 0) TS_CHECK(mi_heap_malloc(heap, 70000) != NULL && mi_heap_malloc(heap, 30) != NULL, "blocks to be destroyed");
    if (i % 3 == 0) late[i % 64] = NULL;
    if (i % 3 == 0) mi_heap_destroy(heap);
    else mi_heap_delete(heap);
    if (i == 1000) before = ts_rss();
  }
  for (int i = 0; i < 64; i++) mi_free(late[i]);
  TS_CHECK(ts_rss() < before + ((size_t)8 << 20), "%zu KiB after 1000 heaps, %zu after 6000", before >> 10, ts_rss() >> 10);
}

static void defaults(void) {
  mi_heap_t *backing = mi_heap_get_backing(), *heap = mi_heap_new();
  TS_CHECK(mi_heap_get_default() == backing, "at first");
  TS_CHECK(mi_heap_set_default(heap) == backing && mi_heap_get_default() == heap, "set");
  void *p[] = {mi_malloc(10), mi_zalloc(10), mi_calloc(1, 10), mi_strdup("x"), mi_malloc_aligned(10, 64), mi_realloc(NULL, 10)};
  for (size_t i = 0; i < sizeof p / sizeof *p; i++) TS_CHECK(mi_heap_contains_block(heap, p[i]), "form %zu comes from the default", i);
  TS_CHECK(mi_check_owned(p[0]), "owned by the default");
  mi_heap_delete(heap);
  TS_CHECK(mi_heap_get_default() == backing, "a deleted default");
  for (size_t i = 0; i < sizeof p / sizeof *p; i++) mi_free(p[i]);
  heap = mi_heap_new();
  mi_heap_set_default(heap);
  mi_heap_destroy(heap);
  TS_CHECK(mi_heap_get_default() == backing, "a destroyed default");
  mi_heap_delete(backing);
  mi_heap_destroy(backing);
  mi_free(mi_malloc(10));
}

struct seen {
  size_t areas, blocks, bytes, stop;
};

static bool see(const mi_heap_t *heap, const mi_heap_area_t *area, void *block, size_t block_size, void *arg) {
  struct seen *seen = arg;
  TS_CHECK(heap != NULL && area->blocks != NULL && area->reserved >= area->committed && area->block_size > 0, "an area");
  if (block == NULL) {
    seen->areas++;
    return true;
  }
  TS_CHECK((char *)block >= (char *)area->blocks && (char *)block + block_size <= (char *)area->blocks + area->reserved,
           "a block in its area");
  seen->blocks++;
  seen->bytes += block_size;
  return seen->blocks != seen->stop;
}

static void visited(void) {
  mi_heap_t *heap = mi_heap_new();
  size_t asked = 0;
  char *p = NULL;
  for (size_t size = 1; size < 100000; size = size * 2 + 3) {
    for (int i = 0; i < 10; i++) p = mi_heap_malloc(heap, size);
    asked += 10 * size;
  }
  struct seen seen = {0}, areas = {0}, stopped = {.stop = 3};
  TS_CHECK(mi_heap_visit_blocks(heap, true, see, &seen), "to the end");
  TS_CHECK(seen.blocks % 10 == 0 && seen.blocks >= 100 && seen.bytes >= asked && seen.areas > 1, "%zu blocks, %zu bytes", seen.blocks,
           seen.bytes);
  TS_CHECK(mi_heap_visit_blocks(heap, false, see, &areas) && areas.areas == seen.areas && areas.blocks == 0, "areas alone");
  TS_CHECK(!mi_heap_visit_blocks(heap, true, see, &stopped) && stopped.blocks == 3, "stopped");
  TS_CHECK(mi_heap_check_owned(heap, p) && mi_is_in_heap_region(p), "owned");
  TS_CHECK(!mi_heap_check_owned(heap, &seen) && !mi_heap_check_owned(heap, NULL) && !mi_is_in_heap_region(&seen), "not owned");
  void *other = mi_malloc(10);
  TS_CHECK(!mi_heap_check_owned(heap, other) && mi_check_owned(other) && !mi_heap_contains_block(heap, NULL), "another heap's");
  mi_free(other);
  mi_heap_collect(heap, true);
  mi_heap_destroy(heap);
}

int main(void) {
  mi_heap_t *heap = mi_heap_new();
  everything(heap);
  mi_heap_destroy(heap);
  everything(mi_heap_get_backing());
  deleted(false);
  deleted(true);
  many();
  deleted(true); /* now on a reborn heap */
  defaults();
  visited();
  puts("ok");
  return 0;
}
