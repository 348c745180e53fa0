/* mi_heap_t: a heap of Heddle's each, or the backing heap, which stands for the calling thread's.
 *
 * mi_heap_delete must leave the blocks alone, whoever frees them and whenever. So a deleted heap goes to a list and stays as it is; a
 * later mi_heap_new looks at a few of the list and takes one that has become empty. Such a reborn heap is never destroyed as a whole:
 * the last free of its former life may still be under way in another thread, which hd_heap_destroy does not allow; its blocks are
 * freed one by one, and it goes to the list again.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>

#include "mi.h"

enum { LOOKS = 4, BATCH = 512 };

mi_heap_t mi_backing;
__thread mi_heap_t *mi_default __attribute__((tls_model("initial-exec"))) = &mi_backing;

static struct {
  pthread_mutex_t lock;
  mi_heap_t *first, *last;
} deleted = {.lock = PTHREAD_MUTEX_INITIALIZER};

/* ---- deleted heaps ---------------------------------------------------------------------------------------------------- */

static void append(mi_heap_t *heap) {
  heap->next = NULL;
  if (deleted.first == NULL) deleted.first = heap;
  else deleted.last->next = heap;
  deleted.last = heap;
}

static mi_heap_t *take_first(void) {
  mi_heap_t *heap = deleted.first;
  if (heap != NULL) deleted.first = heap->next;
  return heap;
}

static bool is_empty(const mi_heap_t *heap) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  return hd_heap_stats_get(heap->heap, &stats) && stats.live_count == 0;
}

/* A deleted heap without blocks, or NULL; looks at a few and turns the list by as many. */
static mi_heap_t *take_empty(void) {
  mi_heap_t *found = NULL;
  pthread_mutex_lock(&deleted.lock);
  for (int i = 0; i < LOOKS && found == NULL && deleted.first != NULL; i++) {
    mi_heap_t *heap = take_first();
    if (is_empty(heap)) found = heap;
    else append(heap);
  }
  pthread_mutex_unlock(&deleted.lock);
  return found;
}

bool mi_is_deleted(const hd_heap *heap) {
  pthread_mutex_lock(&deleted.lock);
  mi_heap_t *at = deleted.first;
  while (at != NULL && at->heap != heap) at = at->next;
  pthread_mutex_unlock(&deleted.lock);
  return at != NULL;
}

/* ---- life ------------------------------------------------------------------------------------------------------------- */

mi_heap_t *mi_heap_new(void) {
  mi_heap_t *heap = take_empty();
  if (heap != NULL) {
    heap->reborn = true;
    return heap;
  }
  heap = hd_zalloc(sizeof *heap);
  if (heap == NULL) return NULL;
  heap->heap = hd_heap_create(NULL);
  if (heap->heap != NULL) return heap;
  hd_free(heap);
  return NULL;
}

static void leave_default(const mi_heap_t *heap) {
  if (mi_default == heap) mi_default = &mi_backing;
}

void mi_heap_delete(mi_heap_t *heap) {
  if (heap == NULL || heap->heap == NULL) return;
  leave_default(heap);
  pthread_mutex_lock(&deleted.lock);
  append(heap);
  pthread_mutex_unlock(&deleted.lock);
}

typedef struct batch {
  void *block[BATCH];
  size_t count;
} batch;

static bool gather(const hd_area *area, void *block, size_t block_bytes, void *user) {
  batch *found = user;
  (void)area, (void)block_bytes;
  if (block != NULL) found->block[found->count++] = block;
  return found->count < BATCH;
}

static void free_all(mi_heap_t *heap) {
  batch found;
  do {
    found.count = 0;
    hd_heap_walk(heap->heap, true, gather, &found);
    for (size_t i = 0; i < found.count; i++) hd_free(found.block[i]);
  } while (found.count == BATCH);
}

void mi_heap_destroy(mi_heap_t *heap) {
  if (heap == NULL || heap->heap == NULL) return;
  mi_shifted_forget(heap->heap);
  if (heap->reborn) {
    free_all(heap);
    mi_heap_delete(heap);
    return;
  }
  leave_default(heap);
  hd_heap_destroy(heap->heap);
  hd_free(heap);
}

mi_heap_t *mi_heap_set_default(mi_heap_t *heap) {
  mi_heap_t *before = mi_default;
  if (heap != NULL) mi_default = heap;
  return before;
}

mi_heap_t *mi_heap_get_default(void) { return mi_default; }
mi_heap_t *mi_heap_get_backing(void) { return &mi_backing; }

/* Threads' heaps take in their mail by themselves; given back is what the whole process has free. */
void mi_heap_collect(mi_heap_t *heap, bool force) {
  (void)heap;
  mi_collect(force);
}

/* ---- looking at ------------------------------------------------------------------------------------------------------- */

/* Whether the heap of Heddle's (NULL: a thread's) counts as this one. */
static bool is_part(const mi_heap_t *heap, const hd_heap *of) {
  if (heap->heap != NULL) return of == heap->heap;
  return of == NULL || mi_is_deleted(of);
}

bool mi_heap_contains_block(mi_heap_t *heap, const void *p) {
  const void *base = mi_base_of(p);
  return heap != NULL && base != NULL && hd_owns(base) && is_part(heap, hd_heap_of(base));
}

typedef struct visit {
  const mi_heap_t *heap;
  mi_block_visit_fun *visitor;
  void *arg;
} visit;

static bool visit_one(const hd_area *area, void *block, size_t block_bytes, void *user) {
  const visit *call = user;
  if (area->kind > HD_AREA_LARGE || !is_part(call->heap, area->heap)) return true;
  mi_heap_area_t shown = {
      .blocks = (void *)(uintptr_t)area->address,
      .reserved = area->bytes,
      .committed = area->bytes,
      .used = area->block_used,
      .block_size = area->block_bytes,
      .full_block_size = area->block_bytes,
  };
  return call->visitor(call->heap, &shown, block, block == NULL ? area->block_bytes : block_bytes, call->arg);
}

bool mi_heap_visit_blocks(const mi_heap_t *heap, bool visit_blocks, mi_block_visit_fun *visitor, void *arg) {
  if (heap == NULL || visitor == NULL) return false;
  visit call = {heap, visitor, arg};
  return hd_heap_walk(heap->heap, visit_blocks, visit_one, &call);
}

typedef struct search {
  const mi_heap_t *heap;
  const char *address;
  bool found;
} search;

/* Stops at the block around the address. */
static bool look(const hd_area *area, void *block, size_t block_bytes, void *user) {
  search *wanted = user;
  if (block == NULL || area->kind > HD_AREA_LARGE || !is_part(wanted->heap, area->heap)) return true;
  uintptr_t start = (uintptr_t)block, address = (uintptr_t)wanted->address;
  wanted->found = address >= start && address - start < block_bytes;
  return !wanted->found;
}

bool mi_heap_check_owned(mi_heap_t *heap, const void *p) {
  if (heap == NULL || p == NULL || !hd_owns(p)) return false;
  search wanted = {heap, p, false};
  hd_heap_walk(heap->heap, true, look, &wanted);
  return wanted.found;
}

bool mi_check_owned(const void *p) { return mi_heap_check_owned(mi_default, p); }
bool mi_is_in_heap_region(const void *p) { return p != NULL && hd_owns(p); }
bool mi_is_redirected(void) { return false; }
