/* A shared pool under threads: items are taken by one and given by any, the counters add up, nobody gets an item twice.
 *
 *   threads [-t threads] [-n rounds] [-s seed]
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/pool.h"

#define THREAD_MAX 16
#define EXCHANGE 64
#define OWN 200

typedef struct item {
  uint64_t owner;
  uint64_t rest[63];
} item;

typedef struct worker {
  pthread_t thread;
  uint64_t number, rounds, taken;
  struct ts_rng rng;
} worker;

static hd_pool *pool;
static _Atomic(item *) exchange[EXCHANGE];
static atomic_size_t growths;

static void grown(const hd_pool_event *event, void *user) {
  (void)user;
  atomic_fetch_add(&growths, 1);
  TS_CHECK(event->allocated > 0, "growth to %zu", event->allocated);
}

static item *take(worker *w, bool zeroed) {
  item *one = zeroed ? hd_pool_take_zeroed(pool) : hd_pool_take(pool);
  TS_CHECK(one != NULL, "an item");
  for (size_t i = 0; zeroed && i < 63; i++) TS_CHECK(one->rest[i] == 0, "a zeroed item");
  w->taken++;
  one->owner = w->number;
  memset(one->rest, 0xee, sizeof one->rest);
  return one;
}

static bool count_item(void *one, size_t bytes, void *user) {
  (void)one, (void)bytes;
  return ++*(size_t *)user < 10;
}

static void *work(void *argument) {
  worker *w = argument;
  item *own[OWN];
  size_t held = 0;
  uint64_t taking = 700; /* of a thousand, in phases: growing, shrinking */
  for (uint64_t i = 0; i < w->rounds; i++) {
    uint64_t roll = ts_below(&w->rng, 1000);
    if (i % 400 == 0) taking = taking == 700 ? 300 : 700;
    if (roll < 2) {
      hd_pool_trim(pool, 100);
    } else if (roll < 4) {
      hd_pool_stats stats = {.struct_bytes = sizeof stats};
      hd_pool_stats_get(pool, &stats);
      TS_CHECK(stats.used + stats.list == stats.allocated && stats.used <= stats.max, "counters of one moment");
      TS_CHECK(stats.used <= THREAD_MAX * (OWN + 1) + EXCHANGE, "used %zu", stats.used);
    } else if (roll < 5) {
      size_t seen = 0;
      hd_pool_walk(pool, count_item, &seen);
    } else if (roll < 100) {
      item *mine = held > 0 ? own[--held] : take(w, true);
      mine = atomic_exchange(&exchange[ts_below(&w->rng, EXCHANGE)], mine);
      if (mine == NULL) continue;
      TS_CHECK(mine->rest[62] == 0xeeeeeeeeeeeeeeeeu, "an item in passing keeps its content");
      hd_pool_give(pool, mine);
    } else if (held < OWN && (held == 0 || roll < taking)) {
      own[held++] = take(w, roll % 4 == 0);
    } else {
      size_t at = (size_t)ts_below(&w->rng, held);
      TS_CHECK(own[at]->owner == w->number && hd_pool_owns(pool, own[at]), "the item is still ours");
      hd_pool_give(pool, own[at]);
      own[at] = own[--held];
    }
  }
  while (held > 0) hd_pool_give(pool, own[--held]);
  return NULL;
}

int main(int argc, char **argv) {
  uint64_t seed = ts_option(argc, argv, "-s", 0), threads = ts_option(argc, argv, "-t", 4), rounds = ts_option(argc, argv, "-n", 200000);
  if (seed == 0) seed = ts_seed();
  static worker workers[THREAD_MAX];
  TS_CHECK(threads <= THREAD_MAX, "at most %d threads", THREAD_MAX);
  snprintf(ts_replay, sizeof ts_replay, "%s -t %llu -n %llu -s %llu", argv[0], (unsigned long long)threads, (unsigned long long)rounds,
           (unsigned long long)seed);
  hd_pool_config config = {.struct_bytes = sizeof config, .name = "shared", .item_bytes = sizeof(item), .kept = 300, .step = 50,
                           .shared = true, .growth = grown};
  pool = hd_pool_create(&config);
  for (uint64_t i = 0; i < threads; i++) {
    workers[i] = (worker){.number = i + 1, .rounds = rounds, .rng = {ts_hash(seed, i)}};
    TS_CHECK(pthread_create(&workers[i].thread, NULL, work, &workers[i]) == 0, "a thread");
  }
  uint64_t taken = 0;
  for (uint64_t i = 0; i < threads; i++) {
    pthread_join(workers[i].thread, NULL);
    taken += workers[i].taken;
  }
  for (size_t i = 0; i < EXCHANGE; i++) hd_pool_give(pool, atomic_load(&exchange[i]));
  hd_pool_stats stats = {.struct_bytes = sizeof stats};
  hd_pool_stats_get(pool, &stats);
  TS_CHECK(stats.used == 0 && stats.count == taken, "%zu left, %llu taken of %llu", stats.used, (unsigned long long)stats.count,
           (unsigned long long)taken);
  TS_CHECK(stats.growth_count == growths, "every growth was told");
  TS_CHECK(taken >= threads * rounds / 4, "the threads did something");
  TS_CHECK(hd_pool_destroy(pool) == 0, "nothing left");
  printf("%llu items taken, %zu growths, %llu spans released\n", (unsigned long long)taken, (size_t)growths,
         (unsigned long long)stats.release_count);
  return 0;
}
