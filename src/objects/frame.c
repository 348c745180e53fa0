/* Frames: one arena that is reset each round, or two in turn. See include/heddle/frame.h.
 * SPDX-License-Identifier: MIT */
#include "heddle/frame.h"

#include <errno.h>
#include <string.h>

#include "base/bits.h"
#include "core/store.h"

typedef struct frame {
  hd_frame face;
  hd_arena *arena[2]; /* single: the second is NULL */
  uint64_t count;
} frame;

static frame *of(const hd_frame *face) { return (frame *)(uintptr_t)face; }

static void give_struct(frame *f) {
  memset(f, 0, sizeof *f);
  hdi_store_give(f, sizeof *f);
}

static hd_frame *fail(int code) {
  errno = code;
  return NULL;
}

HD_EXPORT hd_frame *hd_frame_create(const hd_frame_config *config) {
  static const hd_frame_config plain = {.struct_bytes = sizeof plain};
  if (config == NULL) config = &plain;
  if (config->struct_bytes < sizeof *config) return fail(EINVAL);
  const hd_arena_config each = {
      .struct_bytes = sizeof each,
      .name = config->name,
      .capacity_bytes = config->capacity_bytes,
      .limit_bytes = config->limit_bytes,
      .keep_bytes = config->keep_bytes,
      .guard = config->guard,
  };
  hd_arena *first = hd_arena_create(&each);
  if (first == NULL) return NULL;
  frame *f = hdi_store_take(sizeof *f);
  hd_arena *second = f != NULL && config->doubled ? hd_arena_create(&each) : NULL;
  if (f == NULL || (config->doubled && second == NULL)) {
    if (f != NULL) give_struct(f);
    hd_arena_destroy(first);
    return fail(ENOMEM);
  }
  f->arena[0] = f->face.arena = first;
  f->arena[1] = second;
  f->count = 1;
  return &f->face;
}

HD_EXPORT void hd_frame_destroy(hd_frame *face) {
  if (face == NULL) return;
  frame *f = of(face);
  hd_arena_destroy(f->arena[0]);
  hd_arena_destroy(f->arena[1]);
  give_struct(f);
}

HD_EXPORT hd_arena *hd_frame_begin(hd_frame *face) {
  frame *f = of(face);
  if (f->arena[1] != NULL) face->arena = f->arena[f->count & 1];
  f->count++;
  hd_arena_reset(face->arena);
  return face->arena;
}

HD_EXPORT uint64_t hd_frame_count(const hd_frame *face) { return of(face)->count; }

HD_EXPORT size_t hd_frame_peak(const hd_frame *face) {
  const frame *f = of(face);
  size_t peak = 0;
  for (int i = 0; i < 2 && f->arena[i] != NULL; i++) {
    hd_arena_stats stats = {.struct_bytes = sizeof stats};
    hd_arena_stats_get(f->arena[i], &stats);
    peak = hd_max(peak, stats.peak);
  }
  return peak;
}
