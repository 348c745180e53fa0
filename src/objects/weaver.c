/* The Weaver memory manager's functions: a fixed arena and a lock. See include/heddle/weaver.h.
 *
 * The lock is held for some ten instructions. So it is one atomic operation to take and a plain store to drop, and who finds it taken
 * looks again after a while instead of being woken.
 * SPDX-License-Identifier: MIT */
#include "heddle/weaver.h"

#include <errno.h>
#include <string.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "core/store.h"
#include "heddle/arena.h"
#include "os/os.h"

enum { SPINS = 200 };

typedef struct weaver {
  atomic_uint lock; /* 1: taken */
  hd_arena *arena;
} weaver;

static SLOW void wait_for(weaver *w) {
  unsigned free = 0;
  do {
    for (int i = 0; i < SPINS && hd_load_relaxed(&w->lock) != 0; i++) hd_pause();
    if (hd_load_relaxed(&w->lock) != 0) hdi_os_wait(&w->lock, 1, 1);
    free = 0;
  } while (!hd_swap_if(&w->lock, &free, 1u));
}

FAST void take(weaver *w) {
  if (HD_UNLIKELY(hd_exchange(&w->lock, 1u) != 0)) wait_for(w);
}

FAST void drop(weaver *w) { hd_store_release(&w->lock, 0u); } /* pairs with the exchange in take */

HD_EXPORT void *hd_weaver_create(size_t bytes) {
  const hd_arena_config config = {.struct_bytes = sizeof config, .name = "weaver", .capacity_bytes = hd_max(bytes, 1)};
  hd_arena *arena = hd_arena_create(&config);
  weaver *w = arena == NULL ? NULL : hdi_store_take(sizeof *w);
  if (w != NULL) {
    w->arena = arena;
    return w;
  }
  hd_arena_destroy(arena);
  errno = ENOMEM;
  return NULL;
}

HD_EXPORT bool hd_weaver_destroy(void *handle) {
  weaver *w = handle;
  if (w == NULL) return true;
  bool empty = hd_arena_destroy(w->arena);
  memset((void *)w, 0, sizeof *w);
  hdi_store_give(w, sizeof *w);
  return empty;
}

HD_EXPORT void *hd_weaver_alloc(void *handle, unsigned alignment, int right, size_t bytes) {
  weaver *w = handle;
  take(w);
  void *p = right ? hd_arena_alloc_aligned_right(w->arena, alignment, bytes) : hd_arena_alloc_aligned(w->arena, alignment, bytes);
  drop(w);
  return p;
}

HD_EXPORT bool hd_weaver_point(void *handle, unsigned alignment, int right) {
  weaver *w = handle;
  int side = right != 0;
  take(w);
  hd_mark mark = alignment <= 16 && (alignment & (alignment - 1)) == 0 ? hd_arena_mark_on(w->arena, side)
                                                                       : hd_arena_mark_slow(w->arena, side, alignment);
  drop(w);
  return mark.point != NULL;
}

HD_EXPORT void hd_weaver_trash(void *handle, int right) {
  weaver *w = handle;
  take(w);
  if (right) hd_arena_pop_right(w->arena);
  else hd_arena_pop(w->arena);
  drop(w);
}

HD_EXPORT size_t hd_weaver_remaining(void *handle, size_t *least) {
  weaver *w = handle;
  hd_arena_stats stats = {.struct_bytes = sizeof stats};
  take(w);
  hd_arena_stats_get(w->arena, &stats);
  drop(w);
  if (least != NULL) *least = stats.least;
  return stats.remaining;
}
