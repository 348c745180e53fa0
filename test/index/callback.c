/* What the callbacks of an index pool may do: use the pool from within, refuse, and give what is being moved; what is found at the
 * limit; and that a step of compaction moves no more than its budget and one object.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include <heddle/index_pool.h>

#include "../support/support.h"

static struct {
  unsigned calls, overflows;
  uint64_t moved_slots, dropped;
  uint32_t drop_every;
} seen;

static hd_index_pool *make(hd_index_config config) {
  config.struct_bytes = sizeof config;
  config.name = "nodes";
  config.slot_bytes = 8;
  hd_index_pool *pool = hd_index_pool_create(&config);
  TS_CHECK(pool != NULL, "no pool");
  memset(&seen, 0, sizeof seen);
  return pool;
}

static hd_index_stats stats_of(const hd_index_pool *pool) {
  hd_index_stats stats = {.struct_bytes = sizeof stats};
  const char *wrong = hd_index_pool_check(pool);
  TS_CHECK(wrong == NULL && hd_index_pool_stats_get(pool, &stats), "%s", wrong);
  return stats;
}

static void moved(hd_index_pool *pool, uint32_t from, uint32_t to, uint32_t slots, void *user) {
  uint32_t *mark = hd_index_pool_at(pool, to);
  (void)user;
  TS_CHECK(to < from && hd_index_pool_slots(pool, to) == slots && mark[1] == slots, "%u moved to %u", from, to);
  TS_CHECK(!hd_index_pool_compact(pool, 0, moved, NULL) && hd_index_pool_shrink(pool) == 0, "a compaction in a compaction");
  hd_index_pool_merge(pool);
  hd_index_pool_reset(pool);
  TS_CHECK(hd_index_pool_save(pool, "/dev/null", NULL) == HD_INDEX_INVALID, "saved by a callback");
  TS_CHECK(hd_index_pool_load(pool, "/dev/zero") == HD_INDEX_INVALID, "loaded by a callback");
  TS_CHECK(!hd_index_pool_limit(pool, 1), "limited by a callback");
  seen.calls++;
  seen.moved_slots += slots;
  if (seen.drop_every == 0 || seen.calls % seen.drop_every != 0) return;
  hd_index_pool_give(pool, to);
  seen.dropped++;
}

/* A growth callback takes, gives, and asks for more than there is. */
static bool busy_growth(hd_index_pool *pool, uint64_t old_slots, uint64_t new_slots, void *user) {
  (void)user, (void)new_slots;
  seen.calls++;
  TS_CHECK(hd_index_pool_take(pool, 50) == 0 && errno == ENOMEM, "grew within a growth");
  uint32_t own = hd_index_pool_take(pool, 2);
  if (old_slots == 20) TS_CHECK(own == 19, "two slots are left");
  if (own != 0 && seen.calls % 2 == 0) hd_index_pool_give(pool, own);
  hd_index_pool_merge(pool);
  return true;
}

static void growing(void) {
  hd_index_pool *pool = make((hd_index_config){.maximum = 1000, .step = 20, .initial = 20, .growth = busy_growth});
  unsigned taken = 0;
  while (hd_index_pool_take(pool, 3) != 0) taken++;
  hd_index_stats stats = stats_of(pool);
  TS_CHECK(seen.calls >= 49 && stats.growth_count == seen.calls && stats.allocated == 1000, "%u growths", seen.calls);
  TS_CHECK(taken > 280 && stats.ptr > 998, "%u objects", taken);
  hd_index_pool_destroy(pool);
}

static bool no_growth(hd_index_pool *pool, uint64_t old_slots, uint64_t new_slots, void *user) {
  (void)pool, (void)old_slots, (void)new_slots, (void)user;
  seen.calls++;
  return false;
}

static void count_overflow(hd_index_pool *pool, const char *text, uint64_t limit, uint64_t slack, void *user) {
  (void)user;
  seen.overflows++;
  TS_CHECK(limit == 30 && slack == 12 && strstr(text, "'nodes'") != NULL && strstr(text, "30 slots") != NULL, "%s", text);
  TS_CHECK(stats_of(pool).extra == 12 && hd_index_pool_take(pool, 100) == 0, "overflow in an overflow");
}

static void refusing(void) {
  hd_index_pool *pool = make((hd_index_config){.maximum = 100, .initial = 10, .growth = no_growth, .overflow = count_overflow});
  TS_CHECK(hd_index_pool_take(pool, 8) == 1 && hd_index_pool_take(pool, 3) == 0 && errno == ENOMEM, "growth was refused");
  TS_CHECK(seen.calls == 1 && seen.overflows == 0 && stats_of(pool).growth_count == 0, "%u calls", seen.calls);
  TS_CHECK(hd_index_pool_take(pool, 2) == 9, "what is left");
  hd_index_pool_destroy(pool);
}

/* The limit is passed once, into the slack; an orderly end gives objects back, and then it counts as new. */
static void overflowing(void) {
  hd_index_pool *pool = make((hd_index_config){.maximum = 30, .slack = 12, .step = 7, .overflow = count_overflow});
  for (unsigned i = 0; i < 14; i++) TS_CHECK(hd_index_pool_take(pool, 3) == 1 + 3 * i, "object %u", i);
  TS_CHECK(seen.overflows == 1 && stats_of(pool).allocated == 42, "%u overflows", seen.overflows);
  TS_CHECK(hd_index_pool_take(pool, 1) == 0 && errno == ENOMEM && seen.overflows == 1, "beyond the slack");
  for (unsigned i = 5; i < 14; i++) hd_index_pool_give(pool, 1 + 3 * i);
  TS_CHECK(stats_of(pool).extra == 12, "slack is kept until the pool is told");
  hd_index_pool_shrink(pool);
  hd_index_stats stats = stats_of(pool);
  TS_CHECK(stats.extra == 0 && stats.size == 30 && stats.allocated == 15, "size %llu", (unsigned long long)stats.size);
  for (unsigned i = 5; i < 14; i++) TS_CHECK(hd_index_pool_take(pool, 3) == 1 + 3 * i, "object %u", i);
  TS_CHECK(seen.overflows == 2, "%u overflows", seen.overflows);
  hd_index_pool_destroy(pool);
}

/* At the limit even the last object of a long bin is found. */
static void last_fit(void) {
  hd_index_pool *pool = make((hd_index_config){.maximum = 100 * 129 + 141});
  uint32_t held[101];
  for (unsigned i = 0; i <= 100; i++) {
    held[i] = hd_index_pool_take(pool, i < 100 ? 128 : 140);
    TS_CHECK(hd_index_pool_take(pool, 1) != 0, "a separator");
  }
  for (unsigned i = 0; i <= 100; i++) hd_index_pool_give(pool, held[100 - i]);
  TS_CHECK(hd_index_pool_take(pool, 140) == held[100] && hd_index_pool_take(pool, 140) == 0, "the one that fits");
  hd_index_pool_destroy(pool);
}

static uint32_t fill(hd_index_pool *pool, unsigned count) {
  uint32_t last = 0;
  for (unsigned i = 0; i < count; i++) {
    uint32_t slots = i % 100 == 0 ? 200 : 1 + i % 9;
    last = hd_index_pool_take(pool, slots);
    ((uint32_t *)hd_index_pool_at(pool, last))[1] = slots;
  }
  for (uint32_t at = hd_index_pool_next(pool, 0), i = 0; at != 0; at = hd_index_pool_next(pool, at), i++) {
    if (i % 3 == 1) hd_index_pool_give(pool, at);
  }
  return last;
}

static void bounded(void) {
  hd_index_pool *pool = make((hd_index_config){.maximum = 200000});
  fill(pool, 10000);
  unsigned steps = 1;
  for (; !hd_index_pool_compact(pool, 500, moved, NULL); steps++) {
    TS_CHECK(seen.moved_slots <= 700, "%llu slots in a step", (unsigned long long)seen.moved_slots);
    seen.moved_slots = 0;
    if (steps % 8 == 0) (void)stats_of(pool);
  }
  hd_index_stats stats = stats_of(pool);
  TS_CHECK(stats.free == 0 && steps > 50 && steps < 300, "%u steps, %llu slots free", steps, (unsigned long long)stats.free);
  hd_index_pool_destroy(pool);
}

/* The callback gives every fifth object that it is told of. */
static void dropping(uint64_t budget) {
  hd_index_pool *pool = make((hd_index_config){.maximum = 200000});
  fill(pool, 3000);
  uint64_t before = stats_of(pool).used_count;
  seen.drop_every = 5;
  while (!hd_index_pool_compact(pool, budget, moved, NULL)) continue;
  TS_CHECK(seen.dropped > 300 && stats_of(pool).used_count == before - seen.dropped, "%llu objects", (unsigned long long)seen.dropped);
  seen.drop_every = 0;
  while (!hd_index_pool_compact(pool, budget, moved, NULL)) continue;
  TS_CHECK(stats_of(pool).free == 0, "%llu slots free", (unsigned long long)stats_of(pool).free);
  hd_index_pool_destroy(pool);
}

/* A link overwritten while a compaction is under way: reported, and whole again at its end. */
static void broken_while_compacting(void) {
  hd_index_pool *pool = make((hd_index_config){.maximum = 200000});
  fill(pool, 3000);
  TS_CHECK(hd_option_set("onerror", "ignore") == HD_OK && !hd_index_pool_compact(pool, 5000, moved, NULL), "a step");
  uint32_t one = hd_index_pool_next(pool, 0), two = hd_index_pool_next(pool, one);
  while (hd_index_pool_slots(pool, two) != 4) two = hd_index_pool_next(pool, two);
  hd_index_pool_give(pool, two);
  memset(hd_index_pool_at(pool, two), 0x33, 16);
  uint32_t index = hd_index_pool_take(pool, 4);
  TS_CHECK(index != 0 && index != two, "took %u", index);
  ((uint32_t *)hd_index_pool_at(pool, index))[1] = 4;
  while (!hd_index_pool_compact(pool, 5000, moved, NULL)) continue;
  TS_CHECK(stats_of(pool).free_count == 1, "%llu free objects", (unsigned long long)stats_of(pool).free_count);
  hd_index_pool_destroy(pool);
}

int main(void) {
  growing();
  refusing();
  overflowing();
  last_fit();
  bounded();
  dropping(0);
  dropping(100);
  broken_while_compacting();
  return 0;
}
