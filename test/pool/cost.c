/* What take and give cost, against hd_malloc and hd_free of the same size in the same run: rounds in turn, the fastest of many.
 *
 *   cost [-r rounds]
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <stdio.h>
#include <time.h>

#include "../support/support.h"
#include "heddle/pool.h"

#define COUNT 2000
#define REPEAT 50

static void *items[COUNT];

static double now_ns(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (double)now.tv_sec * 1e9 + (double)now.tv_nsec;
}

typedef struct timing {
  double take, give, pair;
} timing;

static void least(double *to, double ns, size_t operations) {
  double each = ns / (double)operations;
  if (each > 0 && (*to == 0 || each < *to)) *to = each; /* some machines' clocks step back */
}

#define KEEP(p) __asm__ volatile("" : : "r"(p) : "memory")

/* Take COUNT, give COUNT; and take and give one. */
#define MEASURE(timing, TAKE, GIVE)                                   \
  for (size_t repeat = 0; repeat < REPEAT; repeat++) {                \
    double start = now_ns();                                          \
    for (size_t i = 0; i < COUNT; i++) items[i] = TAKE;               \
    double middle = now_ns();                                         \
    for (size_t i = 0; i < COUNT; i++) GIVE(items[i]);                \
    double end = now_ns();                                            \
    for (size_t i = 0; i < COUNT; i++) {                              \
      void *one = TAKE;                                               \
      KEEP(one);                                                      \
      GIVE(one);                                                      \
    }                                                                 \
    least(&(timing).take, middle - start, COUNT);                     \
    least(&(timing).give, end - middle, COUNT);                       \
    least(&(timing).pair, now_ns() - end, COUNT);                     \
  }

int main(int argc, char **argv) {
  size_t rounds = (size_t)ts_option(argc, argv, "-r", 20);
  hd_pool_config config = {.struct_bytes = sizeof config, .item_bytes = 64};
  hd_pool *pool = hd_pool_create(&config);
  config.shared = true;
  hd_pool *shared = hd_pool_create(&config);
  timing of_pool = {0, 0, 0}, of_shared = {0, 0, 0}, of_heap = {0, 0, 0};
#define GIVE_POOL(item) hd_pool_give(pool, item)
#define GIVE_SHARED(item) hd_pool_give(shared, item)
  for (size_t round = 0; round < rounds; round++) {
    MEASURE(of_pool, hd_pool_take(pool), GIVE_POOL)
    MEASURE(of_heap, hd_malloc(64), hd_free)
    MEASURE(of_shared, hd_pool_take(shared), GIVE_SHARED)
  }
  printf("            take   give   pair  (ns)\n");
  printf("pool      %6.2f %6.2f %6.2f\n", of_pool.take, of_pool.give, of_pool.pair);
  printf("shared    %6.2f %6.2f %6.2f\n", of_shared.take, of_shared.give, of_shared.pair);
  printf("hd_malloc %6.2f %6.2f %6.2f\n", of_heap.take, of_heap.give, of_heap.pair);
  fflush(stdout);
  TS_CHECK(of_pool.take + of_pool.give < 1.5 * (of_heap.take + of_heap.give), "take and give cost no more than malloc and free");
  TS_CHECK(of_pool.pair < 1.6 * of_heap.pair, "nor does a pair");
  hd_pool_destroy(pool);
  hd_pool_destroy(shared);
  return 0;
}
