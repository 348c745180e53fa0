/* A heap with one user, whose blocks others free, while a collector runs; then it is destroyed, made again, handed to another thread.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle.h"

enum { HELD = 2000, RING = 4096, ROUNDS = 40, STEPS = 40000, FREERS = 2 };

static _Atomic(void *) ring[RING];
static atomic_bool stop;

static void check_and_free(uint64_t *p) {
  if (p == NULL) return;
  TS_CHECK(*p == (uint64_t)(uintptr_t)p, "content of %p", (void *)p);
  hd_free(p);
}

static void *freer(void *unused) {
  (void)unused;
  while (!atomic_load(&stop)) {
    for (int i = 0; i < RING; i++) check_and_free(atomic_exchange(&ring[i], NULL));
  }
  return NULL;
}

static void *collector(void *unused) {
  (void)unused;
  while (!atomic_load(&stop)) {
    hd_collect(0);
    ts_sleep_ms(1);
  }
  return NULL;
}

static size_t any_size(struct ts_rng *rng) {
  uint64_t kind = ts_below(rng, 100);
  return 8 + ts_below(rng, kind < 80 ? 300 : kind < 97 ? 20000 : 300000);
}

static void work(hd_heap *heap, struct ts_rng *rng) {
  static uint64_t *held[HELD];
  for (int step = 0; step < STEPS; step++) {
    uint64_t **at = &held[ts_below(rng, HELD)];
    uint64_t what = ts_below(rng, 10);
    if (*at != NULL) TS_CHECK(**at == (uint64_t)(uintptr_t)*at, "content of %p", (void *)*at);
    if (*at != NULL && what < 4) {
      hd_heap_free(heap, *at);
      *at = NULL;
    } else if (*at != NULL && what < 6) {
      void *none = NULL;
      if (atomic_compare_exchange_strong(&ring[ts_below(rng, RING)], &none, *at)) *at = NULL;
    } else {
      uint64_t *p = *at != NULL ? hd_heap_realloc(heap, *at, any_size(rng))
                    : what == 9 ? hd_heap_aligned_alloc(heap, 64, any_size(rng))
                                : hd_heap_malloc(heap, any_size(rng));
      TS_CHECK(p != NULL && hd_heap_of(p) == heap, "a block of the heap");
      *p = (uint64_t)(uintptr_t)p;
      *at = p;
    }
  }
  memset(held, 0, sizeof held); /* the rest goes with the heap */
}

int main(void) {
  struct ts_rng rng = {ts_seed()};
  pthread_t thread[FREERS + 1];
  for (int round = 0; round < ROUNDS; round++) {
    hd_heap_config config = {.struct_bytes = sizeof config, .one_user = true};
    hd_heap *heap = hd_heap_create(&config);
    TS_CHECK(heap != NULL, "a heap");
    atomic_store(&stop, false);
    for (int i = 0; i < FREERS; i++) pthread_create(&thread[i], NULL, freer, NULL);
    pthread_create(&thread[FREERS], NULL, collector, NULL);
    work(heap, &rng);
    atomic_store(&stop, true);
    for (int i = 0; i <= FREERS; i++) pthread_join(thread[i], NULL);
    if (round % 3 == 0) {
      for (int i = 0; i < RING; i++) atomic_store(&ring[i], NULL);
      hd_heap_reset(heap);
      work(heap, &rng);
    }
    for (int i = 0; i < RING; i++) atomic_store(&ring[i], NULL);
    hd_heap_destroy(heap);
  }
  puts("ok");
  return 0;
}
