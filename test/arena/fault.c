/* Every call below an arena is refused once, from the n-th on or alone, for every n: NULL and ENOMEM, the arena as it was, nothing lost.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "../support/support.h"
#include "core/region.h"
#include "core/store.h"
#include "heddle/arena.h"
#include "heddle/frame.h"
#include "heddle/weaver.h"

static struct {
  unsigned calls, refuse;   /* refuse: number of the call, 0: none */
  bool for_good;            /* all later ones too */
  unsigned refused;
} fault;

static bool refuses(void) {
  fault.calls++;
  bool now = fault.refuse != 0 && (fault.for_good ? fault.calls >= fault.refuse : fault.calls == fault.refuse);
  fault.refused += now;
  if (now) errno = ENOMEM;
  return now;
}

void *__real_hdi_region_take(hd_area_kind kind, const char *name, size_t bytes, bool *zeroed);
void *__real_hdi_region_reserve(hd_area_kind kind, const char *name, size_t bytes);
bool __real_hdi_region_guard(void *region, size_t offset, size_t bytes, bool on);
size_t __real_hdi_region_purge(void *region, size_t offset, size_t bytes, size_t *start);
void *__real_hdi_store_take(size_t bytes);

void *__wrap_hdi_region_take(hd_area_kind kind, const char *name, size_t bytes, bool *zeroed);
void *__wrap_hdi_region_take(hd_area_kind kind, const char *name, size_t bytes, bool *zeroed) {
  return refuses() ? NULL : __real_hdi_region_take(kind, name, bytes, zeroed);
}
void *__wrap_hdi_region_reserve(hd_area_kind kind, const char *name, size_t bytes);
void *__wrap_hdi_region_reserve(hd_area_kind kind, const char *name, size_t bytes) {
  return refuses() ? NULL : __real_hdi_region_reserve(kind, name, bytes);
}
bool __wrap_hdi_region_guard(void *region, size_t offset, size_t bytes, bool on);
bool __wrap_hdi_region_guard(void *region, size_t offset, size_t bytes, bool on) {
  return on && refuses() ? false : __real_hdi_region_guard(region, offset, bytes, on);
}
size_t __wrap_hdi_region_purge(void *region, size_t offset, size_t bytes, size_t *start);
size_t __wrap_hdi_region_purge(void *region, size_t offset, size_t bytes, size_t *start) {
  return refuses() ? 0 : __real_hdi_region_purge(region, offset, bytes, start);
}
void *__wrap_hdi_store_take(size_t bytes);
void *__wrap_hdi_store_take(size_t bytes) { return refuses() ? NULL : __real_hdi_store_take(bytes); }

static void *checked(void *p) {
  if (p == NULL) TS_CHECK(errno == ENOMEM && fault.refused != 0, "NULL with errno %d, %u refused", errno, fault.refused);
  return p;
}

/* What is laid keeps its content whatever is refused; a failed call changes no figure. */
static void use(hd_arena *arena) {
  enum { STEPS = 120 };
  static struct { uint8_t *p; size_t bytes; } laid[STEPS];
  if (arena == NULL) return;
  for (int i = 0; i < STEPS; i++) {
    size_t bytes = (size_t)(i * i * 37 % 90000 + 1);
    hd_arena_stats before = {.struct_bytes = sizeof before}, after = before;
    if (i % 7 == 0) hd_arena_push(arena);
    errno = 0;
    hd_arena_stats_get(arena, &before);
    uint8_t *p = i % 3 == 0   ? hd_arena_alloc_right(arena, bytes)
                 : i % 3 == 1 ? hd_arena_zalloc(arena, bytes) : hd_arena_alloc(arena, bytes);
    checked(p);
    laid[i].p = p;
    laid[i].bytes = bytes;
    if (p != NULL) memset(p, i + 1, bytes);
    hd_arena_stats_get(arena, &after);
    if (p == NULL) TS_CHECK(after.used_left == before.used_left && after.used_right == before.used_right, "a failed call used memory");
  }
  for (int i = 0; i < STEPS; i++) {
    for (size_t b = 0; laid[i].p != NULL && b < laid[i].bytes; b++) TS_CHECK(laid[i].p[b] == i + 1, "block %d", i);
  }
  while (hd_arena_pop(arena)) {
  }
  hd_arena_reset(arena);
  hd_arena_trim(arena, 0);
  hd_arena_stats now = {.struct_bytes = sizeof now};
  hd_arena_stats_get(arena, &now);
  TS_CHECK(now.used_left == 0 && now.used_right == 0, "not empty");
}

static void scenario(void) {
  hd_arena_config config = {.struct_bytes = sizeof config, .capacity_bytes = 16 << 20, .keep_bytes = 1, .guard = true};
  hd_arena *fixed = checked(hd_arena_create(&config));
  use(fixed);
  hd_arena_destroy(fixed);
  config.capacity_bytes = 0;
  hd_arena *growing = checked(hd_arena_create(&config));
  use(growing);
  use(growing);
  hd_arena_destroy(growing);
  hd_frame_config two = {.struct_bytes = sizeof two, .doubled = true, .capacity_bytes = 1 << 20};
  hd_frame *frame = checked(hd_frame_create(&two));
  if (frame != NULL) hd_frame_begin(frame);
  hd_frame_destroy(frame);
  void *weaver = checked(Wcreate_arena(100000));
  Wdestroy_arena(weaver);
}

int main(void) {
  hd_stats before = {.struct_bytes = sizeof before}, after = before;
  scenario();
  hd_stats_get(&before);
  size_t store = hdi_store_used();
  for (int for_good = 0; for_good < 2; for_good++) {
    for (unsigned n = 1;; n++) {
      fault.calls = fault.refused = 0;
      fault.refuse = n;
      fault.for_good = for_good != 0;
      scenario();
      hd_stats_get(&after);
      TS_CHECK(after.object_count == before.object_count, "call %u refused: %zu regions lost", n, after.object_count - before.object_count);
      TS_CHECK(hdi_store_used() == store, "call %u refused: the store has lost memory", n);
      TS_CHECK(fault.refused != 0 || n > 50, "only %u calls", n);
      if (fault.refused == 0) break; /* how many there are depends on where the memory lies: purges go by huge pages */
    }
  }
  fault.refuse = 0;
  scenario();
  return 0;
}
