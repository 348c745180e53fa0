/* Many threads on one arena: nothing is handed out twice, nothing that fits is refused; arenas of threads go with them.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/arena.h"
#include "heddle/weaver.h"

enum { THREADS = 4, ROUNDS = 3000 };

static struct {
  hd_arena *arena;
  void *weaver;
} t;

struct worker {
  pthread_t thread;
  uint8_t id;
  uint8_t *block[ROUNDS];
  uint16_t bytes[ROUNDS];
  unsigned count;
};

static struct worker workers[THREADS];

static void *one(struct ts_rng *rng, size_t bytes) {
  int right = (int)ts_below(rng, 2);
  size_t alignment = (size_t)1 << ts_below(rng, 7);
  if (t.weaver != NULL) return Walloc(t.weaver, (unsigned)alignment, right, bytes);
  switch (ts_below(rng, 4)) {
    case 0: return right ? hd_arena_alloc_right(t.arena, bytes) : hd_arena_alloc(t.arena, bytes);
    case 1: return right ? hd_arena_zalloc_right(t.arena, bytes) : hd_arena_zalloc(t.arena, bytes);
    case 2: return hd_arena_realloc(t.arena, NULL, 0, bytes);
    default: return right ? hd_arena_alloc_aligned_right(t.arena, alignment, bytes) : hd_arena_alloc_aligned(t.arena, alignment, bytes);
  }
}

static void *work(void *argument) {
  struct worker *w = argument;
  struct ts_rng rng = {ts_hash(w->id, 7)};
  for (w->count = 0; w->count < ROUNDS; w->count++) {
    uint16_t bytes = (uint16_t)(1 + ts_below(&rng, 300));
    uint8_t *p = one(&rng, bytes);
    if (p == NULL) break;
    memset(p, w->id, bytes);
    w->block[w->count] = p;
    w->bytes[w->count] = bytes;
    hd_arena *own = hd_arena_thread();
    TS_CHECK(own != NULL && own == hd_arena_thread(), "an arena of the thread's own");
    memset(hd_arena_alloc(own, 100), w->id, 100);
  }
  return NULL;
}

static size_t run(void) {
  size_t total = 0;
  for (unsigned i = 0; i < THREADS; i++) {
    workers[i].id = (uint8_t)(i + 1);
    TS_CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "thread %u", i);
  }
  for (unsigned i = 0; i < THREADS; i++) pthread_join(workers[i].thread, NULL);
  for (unsigned i = 0; i < THREADS; i++) {
    for (unsigned k = 0; k < workers[i].count; k++) {
      for (unsigned b = 0; b < workers[i].bytes[k]; b++) TS_CHECK(workers[i].block[k][b] == i + 1, "block %u of thread %u", k, i);
      total += workers[i].bytes[k];
    }
  }
  return total;
}

static size_t object_count(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  hd_stats_get(&stats);
  return stats.object_count;
}

int main(void) {
  size_t before = object_count();
  hd_arena_config config = {.struct_bytes = sizeof config, .name = "shared", .capacity_bytes = 1 << 20, .shared = true};
  t.arena = hd_arena_create(&config);
  hd_mark mark = hd_arena_mark(t.arena);
  for (int round = 0; round < 8; round++) {
    size_t total = run();
    TS_CHECK(total > (1u << 20) / 2, "only %zu bytes fit", total);
    TS_CHECK(hd_arena_remaining(t.arena) < 512, "%zu bytes are left", hd_arena_remaining(t.arena));
    hd_arena_reset_right(t.arena);
    TS_CHECK(hd_arena_rewind(t.arena, mark) && hd_arena_remaining(t.arena) == (1 << 20) - HD_ARENA_POINT_BYTES, "rewound");
  }
  TS_CHECK(hd_arena_release(t.arena, mark) && hd_arena_destroy(t.arena), "empty");
  t.weaver = Wcreate_arena(1 << 20);
  for (int round = 0; round < 8; round++) {
    run();
    Wtrash(t.weaver, 0);
    Wtrash(t.weaver, 1);
  }
  TS_CHECK(Wdestroy_arena(t.weaver), "empty");
  TS_CHECK(object_count() == before, "%zu regions are left", object_count() - before);
  return 0;
}
