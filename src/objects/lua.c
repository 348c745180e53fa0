/* See include/heddle/lua.h: a heap per Lua state, and Lua's allocator function.
 *
 * Lua says with every call how long the block was, so bytes are counted exactly and without looking at the block. The counters live
 * in the first block of the state's heap and go with it. Where malloc is passed through (valgrind, sanitizers) there are no heaps;
 * then every block has a link in front, so that destroying a state still frees all of it.
 * Who may call: whoever uses the state, one thread at a time; nothing here is shared.
 * SPDX-License-Identifier: MIT */
#include "heddle/lua.h"

#include <errno.h>
#include <string.h>

#include "core/alloc.h"

/* In front of a block where malloc is passed through; as long as the alignment of what follows. */
typedef struct link {
  struct link *next, *prev;
} link;

_Static_assert(sizeof(link) % 16 == 0 || sizeof(void *) != 8, "blocks behind a link stay aligned to 16");

struct hd_lua_heap {
  uint64_t used_bytes, peak_bytes;
  uint64_t cap_bytes; /* UINT64_MAX: none */
  uint64_t block_count, refused_count;
  hd_heap *heap;      /* NULL: malloc is passed through, and the blocks are listed */
  link blocks;        /* that list, a ring */
};

/* ---- blocks with a link ------------------------------------------------------------------------------------------- */

static void tie(hd_lua_heap *heap, link *block) {
  block->next = heap->blocks.next;
  block->prev = &heap->blocks;
  block->next->prev = block->prev->next = block;
}

static void untie(link *block) {
  block->next->prev = block->prev;
  block->prev->next = block->next;
}

static void *linked_resize(hd_lua_heap *heap, void *p, size_t bytes) {
  if (bytes > PTRDIFF_MAX - sizeof(link)) return NULL;
  link *old = p == NULL ? NULL : (link *)p - 1;
  if (old != NULL) untie(old);
  link *block = hd_realloc(old, sizeof *block + bytes);
  if (block != NULL) tie(heap, block);
  else if (old != NULL) tie(heap, old);
  return block == NULL ? NULL : block + 1;
}

static void linked_free(void *p) {
  link *block = (link *)p - 1;
  untie(block);
  hd_free(block);
}

/* ---- the state's heap --------------------------------------------------------------------------------------------- */

static inline void *resize(hd_lua_heap *heap, void *p, size_t bytes) {
  if (HD_UNLIKELY(heap->heap == NULL)) return linked_resize(heap, p, bytes);
  return p == NULL ? hdi_alloc_of_user(heap->heap, bytes) : hdi_realloc_from(heap->heap, p, bytes);
}

static void *release(hd_lua_heap *heap, void *p, size_t bytes) {
  if (p == NULL) return NULL;
  heap->used_bytes -= bytes;
  heap->block_count--;
  if (HD_UNLIKELY(heap->heap == NULL)) linked_free(p);
  else hdi_free_of_user(heap->heap, p);
  return NULL;
}

static SLOW void *refuse(hd_lua_heap *heap) {
  heap->refused_count++;
  errno = ENOMEM;
  return NULL;
}

/* Lua counts on it that a block can always be made smaller, so one that can't stays as it is. */
static void *of_state(hd_lua_heap *heap, void *p, size_t old_bytes, size_t new_bytes) {
  if (p == NULL) old_bytes = 0;
  uint64_t used = heap->used_bytes - old_bytes + new_bytes;
  if (HD_UNLIKELY(used > heap->cap_bytes && new_bytes > old_bytes)) return refuse(heap);
  void *block = resize(heap, p, new_bytes);
  if (HD_UNLIKELY(block == NULL)) {
    if (new_bytes > old_bytes) return refuse(heap);
    block = p;
  }
  heap->used_bytes = used;
  heap->block_count += p == NULL;
  if (used > heap->peak_bytes) heap->peak_bytes = used;
  return block;
}

static void *of_thread(void *p, size_t old_bytes, size_t new_bytes) {
  if (new_bytes == 0) {
    hd_free(p);
    return NULL;
  }
  void *block = hd_realloc(p, new_bytes);
  return block == NULL && p != NULL && new_bytes <= old_bytes ? p : block;
}

HD_EXPORT void *hd_lua_alloc(void *heap, void *p, size_t old_bytes, size_t new_bytes) {
  if (HD_UNLIKELY(heap == NULL)) return of_thread(p, old_bytes, new_bytes);
  if (new_bytes == 0) return release(heap, p, old_bytes);
  return of_state(heap, p, old_bytes, new_bytes);
}

/* ---- life --------------------------------------------------------------------------------------------------------- */

/* Whether the system passes malloc through: then no heap can be made, and blocks are not Heddle's. */
static bool is_passed_through(void) {
  void *p = hd_malloc(1);
  bool foreign = p != NULL && !hd_owns(p);
  hd_free(p);
  return foreign;
}

static hd_lua_heap *make(const char *name) {
  hd_heap_config config = {.struct_bytes = sizeof config, .name = name, .one_user = true};
  hd_heap *heap = hd_heap_create(&config);
  if (heap == NULL && !is_passed_through()) return NULL;
  hd_lua_heap *made = heap != NULL ? hd_heap_zalloc(heap, sizeof *made) : hd_zalloc(sizeof *made);
  if (made == NULL) {
    hd_heap_destroy(heap);
    errno = ENOMEM;
    return NULL;
  }
  made->heap = heap;
  made->blocks.next = made->blocks.prev = &made->blocks;
  return made;
}

HD_EXPORT hd_lua_heap *hd_lua_heap_create(const hd_lua_config *config) {
  static const hd_lua_config standard = {.struct_bytes = sizeof standard};
  if (config == NULL) config = &standard;
  if (config->struct_bytes < sizeof *config) {
    errno = EINVAL;
    return NULL;
  }
  int before = errno;
  hd_lua_heap *heap = make(config->name);
  if (heap == NULL) return NULL;
  errno = before;
  hd_lua_heap_set_cap(heap, config->cap_bytes);
  return heap;
}

HD_EXPORT void hd_lua_heap_destroy(hd_lua_heap *heap) {
  if (heap == NULL) return;
  if (heap->heap != NULL) {
    hd_heap_destroy(heap->heap);
    return;
  }
  while (heap->blocks.next != &heap->blocks) linked_free(heap->blocks.next + 1);
  hd_free(heap);
}

HD_EXPORT void hd_lua_heap_set_cap(hd_lua_heap *heap, uint64_t cap_bytes) { heap->cap_bytes = cap_bytes == 0 ? UINT64_MAX : cap_bytes; }

HD_EXPORT bool hd_lua_heap_stats_get(const hd_lua_heap *heap, hd_lua_stats *stats) {
  if (stats == NULL || stats->struct_bytes < offsetof(hd_lua_stats, peak_bytes)) return false;
  hd_lua_stats found = {
      .struct_bytes = stats->struct_bytes,
      .used_bytes = heap->used_bytes,
      .peak_bytes = heap->peak_bytes,
      .cap_bytes = heap->cap_bytes == UINT64_MAX ? 0 : heap->cap_bytes,
      .block_count = heap->block_count,
      .refused_count = heap->refused_count,
  };
  memcpy(stats, &found, hd_min(stats->struct_bytes, sizeof found));
  return true;
}
