/* Arenas: making, looking, and one for each thread. See arena.h.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <string.h>

#include "core/check.h"
#include "core/region.h"
#include "core/store.h"
#include "objects/annotate.h"
#include "objects/arena.h"

enum { KEEP_DEFAULT = 1024 * 1024 };

#define SHARED_MOST ((size_t)UINT32_MAX * HD_ARENA_SHARED_STEP)

static const arena *of(const hd_arena *face) { return (const arena *)(const void *)face; }

/* ---- making ---------------------------------------------------------------------------------------------------------------- */

static bool is_valid(const hd_arena_config *config) {
  if (config->struct_bytes < sizeof *config) return false;
  if (config->shared && (config->capacity_bytes == 0 || config->capacity_bytes > SHARED_MOST - HD_ARENA_UNIT)) return false;
  return config->capacity_bytes == 0 || (config->limit_bytes == 0 && config->chunk_bytes == 0);
}

static void set_up(arena *a, const hd_arena_config *config) {
  static _Atomic uint64_t count; /* no two arenas share a serial, so a mark of one means nothing to another */
  uint64_t serial = (uint64_t)(hd_add(&count, 1) + 1) << 40;
  a->limit_bytes = config->limit_bytes;
  a->chunk_bytes = hd_max(config->chunk_bytes, HD_ARENA_UNIT);
  a->keep_bytes = config->keep_bytes == 0 ? KEEP_DEFAULT : config->keep_bytes;
  a->guard = config->guard;
  a->shared = config->shared;
  a->annotated = hdi_annotate_active();
  if (config->name != NULL) {
    size_t length = 0;
    while (length < HD_ARENA_NAME_BYTES - 1 && config->name[length] != 0) length++;
    memcpy(a->name, config->name, length);
  }
  for (int right = 0; right < 2; right++) {
    a->face.side[right].point = a->chain[right] = &a->none;
    a->face.side[right].serial = a->more[right].since = serial | (unsigned)right;
  }
}

/* A fixed arena's one range, which both stacks stand in from the start. */
static bool open_fixed(arena *a, size_t capacity_bytes) {
  hd_arena_chunk *chunk = hdi_arena_room_open(a, capacity_bytes, true);
  if (chunk == NULL) return false;
  a->chunk = chunk;
  a->room = a->face.least = (size_t)(chunk->to - chunk->from);
  for (int right = 0; right < 2; right++) {
    hd_arena_side *side = &a->face.side[right];
    side->chunk = chunk;
    side->at = side->limit = side->high = hdi_arena_address(chunk, right, 0);
  }
  return true;
}

static void give_struct(arena *a) {
  memset((void *)a, 0, sizeof *a);
  hdi_store_give(a, sizeof *a);
}

HD_EXPORT hd_arena *hd_arena_create(const hd_arena_config *config) {
  static const hd_arena_config plain = {.struct_bytes = sizeof plain};
  if (config == NULL) config = &plain;
  if (!is_valid(config)) {
    errno = EINVAL;
    return NULL;
  }
  int saved = errno;
  arena *a = hdi_region_start() ? hdi_store_take(sizeof *a) : NULL;
  if (a == NULL) {
    errno = ENOMEM;
    return NULL;
  }
  set_up(a, config);
  if (config->capacity_bytes != 0 && !open_fixed(a, config->capacity_bytes)) {
    give_struct(a);
    errno = ENOMEM;
    return NULL;
  }
  errno = saved;
  return &a->face;
}

HD_EXPORT bool hd_arena_destroy(hd_arena *face) {
  if (face == NULL) return true;
  arena *a = (arena *)(void *)face;
  hdi_arena_shared_enter(a);
  hdi_arena_room_note(a);
  bool empty = hdi_arena_room_total(a, 0) == 0 && hdi_arena_room_total(a, 1) == 0;
  if (a->chunk != NULL) {
    hdi_arena_room_close(a, a->chunk);
  } else {
    hd_arena_reset(face);
    hdi_arena_room_trim(a, 0);
  }
  HD_ASSERT(a->held_bytes == 0 && a->chunk_count == 0);
  give_struct(a);
  return empty;
}

/* ---- one for each thread --------------------------------------------------------------------------------------------------- */

static __thread hd_arena *own __attribute__((tls_model("initial-exec")));

static struct {
  pthread_once_t once;
  pthread_key_t key;
  bool made;
} ending = {.once = PTHREAD_ONCE_INIT};

static void thread_ends(void *value) {
  own = NULL;
  hd_arena_destroy(value);
}

static void make_key(void) { ending.made = pthread_key_create(&ending.key, thread_ends) == 0; }

static SLOW hd_arena *make_own(void) {
  pthread_once(&ending.once, make_key);
  hd_arena *face = ending.made ? hd_arena_create(NULL) : NULL;
  if (face == NULL || pthread_setspecific(ending.key, face) != 0) {
    hd_arena_destroy(face);
    errno = ENOMEM;
    return NULL;
  }
  own = face;
  return face;
}

HD_EXPORT hd_arena *hd_arena_thread(void) { return HD_LIKELY(own != NULL) ? own : make_own(); }

/* ---- looking --------------------------------------------------------------------------------------------------------------- */

static size_t committed(const arena *a) {
  size_t bytes = 0;
  if (a->chunk != NULL) return hdi_arena_room_committed(a, a->chunk, 0);
  for (int right = 0; right < 2; right++) {
    const hd_arena_chunk *chunk = hdi_arena_chunk(a, right);
    for (; chunk != NULL; chunk = chunk->prev) bytes += hdi_arena_room_committed(a, chunk, right);
    for (chunk = a->more[right].spare; chunk != NULL; chunk = chunk->prev) bytes += chunk->fresh[right];
  }
  return bytes;
}

HD_EXPORT size_t hd_arena_remaining(const hd_arena *face) {
  const arena *a = of(face);
  if (a->shared) return hdi_arena_shared_remaining(a);
  if (a->chunk != NULL) return a->room - hdi_arena_room_total(a, 0) - hdi_arena_room_total(a, 1);
  if (a->limit_bytes == 0) return PTRDIFF_MAX - hd_min(a->held_bytes, PTRDIFF_MAX);
  return a->limit_bytes - hd_min(a->held_bytes, a->limit_bytes);
}

HD_EXPORT bool hd_arena_stats_get(const hd_arena *face, hd_arena_stats *stats) {
  if (face == NULL || stats == NULL || stats->struct_bytes < sizeof stats->struct_bytes) {
    errno = EINVAL;
    return false;
  }
  const arena *a = of(face);
  bool fixed = a->chunk != NULL;
  hd_arena_stats now = {.struct_bytes = stats->struct_bytes, .capacity = fixed ? a->room : a->held_bytes};
  now.used_left = hdi_arena_room_total(a, 0);
  now.used_right = hdi_arena_room_total(a, 1);
  now.remaining = hd_arena_remaining(face);
  now.least = fixed ? hd_min(face->least, now.remaining) : 0;
  now.peak_left = hd_max(a->more[0].peak, now.used_left);
  now.peak_right = hd_max(a->more[1].peak, now.used_right);
  now.peak = fixed ? a->room - now.least : now.peak_left + now.peak_right;
  now.committed = committed(a);
  now.chunk_count = a->chunk_count;
  now.purge_count = a->purge_count;
  memcpy(stats, &now, hd_min(stats->struct_bytes, sizeof now));
  return true;
}

HD_EXPORT bool hd_arena_owns(const hd_arena *face, const void *p) {
  const arena *a = of(face);
  return hdi_arena_room_find(a, 0, p) != NULL || hdi_arena_room_find(a, 1, p) != NULL;
}
