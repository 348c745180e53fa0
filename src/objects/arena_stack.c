/* The slow paths of an arena's two stacks: blocks that need a look at the memory under them, points, resets. See arena.h.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "core/check.h"
#include "objects/annotate.h"
#include "objects/arena.h"

static arena *of(hd_arena *face) { return (arena *)(void *)face; }

static bool is_alignment(size_t alignment) { return (alignment & (alignment - 1)) == 0; }

static void *fail(int code) {
  errno = code;
  return NULL;
}

/* ---- blocks -------------------------------------------------------------------------------------------------------------- */

static uint8_t *lay(arena *a, int right, size_t alignment, size_t bytes) {
  if (!is_alignment(alignment)) return fail(EINVAL);
  int saved = errno;
  uint8_t *p = a->shared ? hdi_arena_shared_place(a, right, alignment, bytes) : hdi_arena_room_place(a, right, alignment, bytes);
  if (p == NULL) return fail(ENOMEM);
  errno = saved;
  if (a->annotated) hdi_annotate_show(p, bytes, false);
  return p;
}

HD_EXPORT void *hd_arena_alloc_slow(hd_arena *face, int right, size_t alignment, size_t bytes) {
  return lay(of(face), right, alignment, hd_max(bytes, 1));
}

static void *lay_zeroed(arena *a, int right, size_t alignment, size_t bytes) {
  bytes = hd_max(bytes, 1);
  uint8_t *p = lay(a, right, alignment, bytes);
  if (p == NULL) return NULL;
  hdi_arena_room_clear(a, right, p, bytes);
  if (a->annotated) hdi_annotate_show(p, bytes, true);
  return p;
}

HD_EXPORT void *hd_arena_zalloc(hd_arena *face, size_t bytes) { return lay_zeroed(of(face), 0, 16, bytes); }
HD_EXPORT void *hd_arena_zalloc_right(hd_arena *face, size_t bytes) { return lay_zeroed(of(face), 1, 16, bytes); }
HD_EXPORT void *hd_arena_zalloc_aligned(hd_arena *face, size_t alignment, size_t bytes) {
  return lay_zeroed(of(face), 0, alignment, bytes);
}
HD_EXPORT void *hd_arena_zalloc_aligned_right(hd_arena *face, size_t alignment, size_t bytes) {
  return lay_zeroed(of(face), 1, alignment, bytes);
}

/* ---- resizing -------------------------------------------------------------------------------------------------------------- */

/* Take back the last block of the left stack, so that it can be laid again, longer or shorter. false: it is not the last. */
static bool take_back_left(arena *a, const uint8_t *p, size_t alignment, size_t old_bytes) {
  hd_arena_side *side = &a->face.side[0];
  size_t whole = hd_round_up(old_bytes, hd_min(hd_max(alignment, 1), 16));
  if ((uintptr_t)side->at - (uintptr_t)p != whole || a->cut != 0) return false;
  hdi_arena_room_note(a);
  side->at = (uint8_t *)(uintptr_t)p;
  return true;
}

static void *resize_left(arena *a, uint8_t *p, size_t alignment, size_t old_bytes, size_t bytes) {
  hd_arena_side *side = &a->face.side[0];
  const hd_arena_chunk *chunk = side->chunk;
  uint8_t *at = side->at;
  if (a->shared || chunk == NULL || p < chunk->from || p >= chunk->to) return NULL;
  if (!take_back_left(a, p, alignment, old_bytes)) return NULL;
  size_t end = hdi_arena_distance(chunk, 0, a->chunk != NULL ? a->face.side[1].at : chunk->to);
  if (bytes > end - hdi_arena_distance(chunk, 0, p)) {
    side->at = at;
    return NULL;
  }
  if (a->annotated) hdi_annotate_hide(p, old_bytes);
  uint8_t *same = hdi_arena_room_place(a, 0, hd_min(hd_max(alignment, 1), 16), bytes); /* aligned already, so no padding */
  HD_ASSERT(same == p);
  if (a->annotated) hdi_annotate_show(p, bytes, true);
  return p;
}

/* The last block of the right stack ends where it ended, so that its content moves to the new start. */
static void *resize_right(arena *a, uint8_t *p, size_t alignment, size_t old_bytes, size_t bytes) {
  hd_arena_side *side = &a->face.side[1];
  const hd_arena_chunk *chunk = side->chunk;
  if (a->shared || chunk == NULL || p != side->at) return NULL;
  size_t used = hdi_arena_room_used(a, 1);
  size_t kept = hd_min(old_bytes, bytes);
  if (old_bytes > used) return NULL;
  size_t room = (size_t)(chunk->to - chunk->from) - (used - old_bytes) - (a->chunk != NULL ? hdi_arena_room_used(a, 0) : 0);
  uint8_t *end = p + old_bytes;
  if (bytes > room || (((uintptr_t)end - bytes) & (hd_max(alignment, 1) - 1)) > room - bytes) return NULL;
  hdi_arena_room_note(a);
  if (bytes < old_bytes) memmove((uint8_t *)((uintptr_t)(end - bytes) & ~(hd_max(alignment, 1) - 1)), p, kept);
  side->at = end;
  uint8_t *moved = hdi_arena_room_place(a, 1, alignment, bytes);
  HD_ASSERT(moved != NULL);
  if (a->annotated) {
    if (moved > p) hdi_annotate_hide(p, (size_t)(moved - p));
    hdi_annotate_show(moved, bytes, true);
  }
  if (bytes >= old_bytes) memmove(moved, p, kept);
  return moved;
}

static void *resize(arena *a, int right, size_t alignment, void *p, size_t old_bytes, size_t bytes) {
  old_bytes = hd_max(old_bytes, 1);
  bytes = hd_max(bytes, 1);
  if (p == NULL) return lay(a, right, alignment, bytes);
  if (!is_alignment(alignment)) return fail(EINVAL);
  int saved = errno;
  void *same = right ? resize_right(a, p, alignment, old_bytes, bytes) : resize_left(a, p, alignment, old_bytes, bytes);
  errno = saved;
  if (same != NULL) return same;
  if (bytes <= old_bytes) return p;
  void *copy = lay(a, right, alignment, bytes);
  if (copy != NULL) memcpy(copy, p, old_bytes);
  return copy;
}

HD_EXPORT void *hd_arena_realloc(hd_arena *face, void *p, size_t old_bytes, size_t bytes) {
  return resize(of(face), 0, 16, p, old_bytes, bytes);
}
HD_EXPORT void *hd_arena_realloc_right(hd_arena *face, void *p, size_t old_bytes, size_t bytes) {
  return resize(of(face), 1, 16, p, old_bytes, bytes);
}
HD_EXPORT void *hd_arena_realloc_aligned(hd_arena *face, size_t alignment, void *p, size_t old_bytes, size_t bytes) {
  return resize(of(face), 0, alignment, p, old_bytes, bytes);
}
HD_EXPORT void *hd_arena_realloc_aligned_right(hd_arena *face, size_t alignment, void *p, size_t old_bytes, size_t bytes) {
  return resize(of(face), 1, alignment, p, old_bytes, bytes);
}

/* ---- points ---------------------------------------------------------------------------------------------------------------- */

static uint8_t *plain_place(int right, hd_arena_point *point) { return (uint8_t *)(right ? point + 1 : point); }

static uint64_t serial_of(const hd_arena_point *point) { return point->serial != 0 ? point->serial : point->slow_serial; }

/* A point wherever there is room for it. */
static hd_arena_point *lay_point(arena *a, int right, size_t alignment) {
  hd_arena_side *side = &a->face.side[right];
  const hd_arena_chunk *chunk = side->chunk;
  uint8_t *at = hdi_arena_room_total(a, right) == 0 ? NULL : side->at;
  hd_arena_point *point = (hd_arena_point *)(void *)hdi_arena_room_place(a, right, hd_max(alignment, 16), sizeof *point);
  if (point == NULL) return NULL;
  if (a->annotated) hdi_annotate_show(point, sizeof *point, false);
  bool plain = chunk == side->chunk && at == plain_place(right, point);
  side->serial += 2;
  *point = (hd_arena_point){plain ? side->serial : 0, *hdi_arena_chain(a, right), at, side->serial};
  *hdi_arena_chain(a, right) = point;
  return point;
}

HD_EXPORT hd_mark hd_arena_mark_slow(hd_arena *face, int right, size_t alignment) {
  arena *a = of(face);
  hd_mark mark = {NULL, (uint64_t)right};
  if (!is_alignment(alignment)) {
    errno = EINVAL;
    return mark;
  }
  int saved = errno;
  if (a->shared && !a->annotated && alignment <= 16) {
    mark.point = hdi_arena_shared_mark(a, right);
  } else {
    hdi_arena_shared_enter(a);
    mark.point = lay_point(a, right, alignment);
    hdi_arena_shared_leave(a);
  }
  errno = mark.point == NULL ? ENOMEM : saved;
  if (mark.point != NULL) mark.serial = face->side[right].serial;
  return mark;
}

/* The chunk of a stack that a place belongs to: the one of the point that stands for it, or the one before. */
static hd_arena_chunk *chunk_of(const arena *a, int right, const hd_arena_point *point, const uint8_t *place) {
  hd_arena_chunk *chunk = hdi_arena_room_find(a, right, (const uint8_t *)point);
  HD_ASSERT(chunk != NULL);
  return place >= chunk->from && place <= chunk->to ? chunk : chunk->prev;
}

/* The stack loses `point` and all above it. */
static void go_back(arena *a, int right, hd_arena_point *point) {
  uint8_t *at = point->serial != 0 ? plain_place(right, point) : point->at;
  hd_arena_chunk *chunk = at == NULL ? NULL : chunk_of(a, right, point, at);
  *hdi_arena_chain(a, right) = point->prev;
  hdi_arena_room_back(a, right, chunk, at);
}

static void empty(arena *a, int right) {
  *hdi_arena_chain(a, right) = &a->none;
  hdi_arena_room_empty(a, right, true);
}

HD_EXPORT bool hd_arena_pop_slow(hd_arena *face, int right) {
  arena *a = of(face);
  hd_arena_point *point = *hdi_arena_chain(a, right);
  if (point != &a->none && hdi_arena_shared_release(a, right, point)) return true;
  hdi_arena_shared_enter(a);
  if (point == &a->none) empty(a, right);
  else go_back(a, right, point);
  hdi_arena_shared_leave(a);
  return point != &a->none;
}

/* Points that lie on the stack are real, so one that is not among them is not looked at. */
static hd_arena_point *find_point(arena *a, int right, hd_mark mark) {
  for (hd_arena_point *point = *hdi_arena_chain(a, right); point != &a->none; point = point->prev) {
    if (point == mark.point) return serial_of(point) == mark.serial ? point : NULL;
  }
  return NULL;
}

HD_EXPORT bool hd_arena_release_slow(hd_arena *face, hd_mark mark, bool keep) {
  arena *a = of(face);
  int right = (int)(mark.serial & 1);
  hd_arena_point *point = find_point(a, right, mark);
  if (point == NULL) {
    errno = EINVAL;
    return false;
  }
  if (!keep && hdi_arena_shared_release(a, right, point)) return true;
  hdi_arena_shared_enter(a);
  if (keep) {
    uint8_t *edge = (uint8_t *)(right ? point : point + 1);
    *hdi_arena_chain(a, right) = point;
    hdi_arena_room_back(a, right, chunk_of(a, right, point, edge), edge);
  } else {
    go_back(a, right, point);
  }
  hdi_arena_shared_leave(a);
  return true;
}

/* ---- whole stacks ------------------------------------------------------------------------------------------------------------ */

static SLOW void reset_slow(arena *a, bool left, bool right) {
  hdi_arena_shared_enter(a);
  if (left) empty(a, 0);
  if (right) empty(a, 1);
  hdi_arena_shared_leave(a);
}

static void reset(hd_arena *face, bool left, bool right) {
  arena *a = of(face);
  left = left && !hdi_arena_room_empty_plain(a, 0);
  right = right && !hdi_arena_room_empty_plain(a, 1);
  if (HD_UNLIKELY(left || right)) reset_slow(a, left, right);
}

HD_EXPORT void hd_arena_reset_left(hd_arena *face) { reset(face, true, false); }
HD_EXPORT void hd_arena_reset_right(hd_arena *face) { reset(face, false, true); }
HD_EXPORT void hd_arena_reset(hd_arena *face) { reset(face, true, true); }

HD_EXPORT void hd_arena_trim(hd_arena *face, size_t keep_bytes) {
  arena *a = of(face);
  hdi_arena_shared_enter(a);
  hdi_arena_room_trim(a, keep_bytes);
  hdi_arena_shared_leave(a);
}
