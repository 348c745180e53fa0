/* Shared arenas: both stacks in one word, moved by compare and swap. See arena.h.
 * SPDX-License-Identifier: MIT */
#include "core/region.h"
#include "objects/arena.h"

static size_t used_in(uint64_t word, int right) { return (size_t)(uint32_t)(right ? word >> 32 : word) * HD_ARENA_SHARED_STEP; }

static uint64_t word_of(size_t left, size_t right) {
  return (uint64_t)(left / HD_ARENA_SHARED_STEP) | (uint64_t)(right / HD_ARENA_SHARED_STEP) << 32;
}

size_t hdi_arena_shared_used(const arena *a, int right) { return used_in(hd_load_acquire(&((arena *)(uintptr_t)a)->word), right); }

size_t hdi_arena_shared_remaining(const arena *a) {
  uint64_t word = hd_load_acquire(&((arena *)(uintptr_t)a)->word);
  return a->room - used_in(word, 0) - used_in(word, 1);
}

/* A stack has passed a border of units. */
static SLOW void went_on(arena *a, int right, size_t others, size_t before, size_t mine) {
  if (!a->annotated) hdi_arena_room_dense(a->chunk, right, before, mine);
  hdi_region_note(a->chunk->region, others + mine);
}

/* Acquire and release pair with each other's: who lays a block sees the notes (fresh) that the last quiet moment left. */
uint8_t *hdi_arena_shared_place(arena *a, int right, size_t alignment, size_t bytes) {
  const hd_arena_chunk *chunk = a->chunk;
  size_t mask = hd_max(alignment, HD_ARENA_SHARED_STEP) - 1;
  uint64_t old = hd_load_acquire(&a->word);
  for (;;) {
    size_t used[2] = {used_in(old, 0), used_in(old, 1)};
    size_t room = a->room - used[0] - used[1];
    if (bytes > room) return NULL;
    size_t whole = hd_round_up(bytes, HD_ARENA_SHARED_STEP);
    uintptr_t edge = (uintptr_t)hdi_arena_address(chunk, right, used[right]);
    size_t padding = (right ? edge - whole : 0 - edge) & mask;
    if (padding > room - whole) return NULL;
    size_t mine = used[right] + padding + whole;
    uint64_t next = right ? word_of(used[0], mine) : word_of(mine, used[1]);
    if (!hd_swap_if(&a->word, &old, next)) continue;
    if ((used[right] ^ mine) >= HD_ARENA_UNIT) went_on(a, right, used[!right], used[right], mine);
    return hdi_arena_address(chunk, right, right ? mine : mine - whole);
  }
}

hd_arena_point *hdi_arena_shared_mark(arena *a, int right) {
  hd_arena_side *side = &a->face.side[right];
  uint64_t word = hd_load_acquire(&a->word);
  size_t used[2] = {used_in(word, 0), used_in(word, 1)};
  if (a->room - used[0] - used[1] < sizeof(hd_arena_point)) return NULL;
  used[right] += sizeof(hd_arena_point);
  uint8_t *at = hdi_arena_address(a->chunk, right, used[right]);
  hd_arena_point *point = (hd_arena_point *)(void *)(right ? at : at - sizeof *point);
  point->serial = side->serial += 2;
  point->prev = a->chain[right];
  a->chain[right] = point;
  hd_store_release(&a->word, word_of(used[0], used[1]));
  return point;
}

/* Plainly back, as the public header's inlined release; false: not this way. */
bool hdi_arena_shared_release(arena *a, int right, hd_arena_point *point) {
  if (!a->shared || a->annotated || (point->serial & HD_ARENA_UPKEEP_MASK) == 0) return false;
  uint64_t word = hd_load_acquire(&a->word);
  size_t used[2] = {used_in(word, 0), used_in(word, 1)};
  if (used[right] > hdi_arena_distance(a->chunk, right, a->face.side[right].high)) return false;
  if (a->room - used[0] - used[1] < a->face.least) return false;
  used[right] = hdi_arena_distance(a->chunk, right, (uint8_t *)(right ? point + 1 : point));
  a->chain[right] = point->prev;
  hd_store_release(&a->word, word_of(used[0], used[1]));
  return true;
}

void hdi_arena_shared_enter(arena *a) {
  if (!a->shared) return;
  for (int right = 0; right < 2; right++) {
    hd_arena_side *side = &a->face.side[right];
    side->at = side->limit = hdi_arena_address(a->chunk, right, hdi_arena_shared_used(a, right));
  }
}

void hdi_arena_shared_leave(arena *a) {
  if (!a->shared) return;
  size_t left = hdi_arena_distance(a->chunk, 0, a->face.side[0].at);
  size_t right = hdi_arena_distance(a->chunk, 1, a->face.side[1].at);
  hd_store_release(&a->word, word_of(left, right));
}
