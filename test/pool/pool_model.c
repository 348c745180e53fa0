/* Pools against a simple oracle: a list of live items, each filled with its own pattern, and counters kept by hand.
 *
 *   pool_model [-n scripts] [-o operations] [-s seed]
 *
 * Every script draws a form (item size, alignment, limits, step, slack, kept, shared or not) and a mood that changes now and then (filling,
 * emptying, hovering; last, first or any item given), and compares all counters after every operation.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/pool.h"

#define LIVE_MAX 20000
#define EDGE 64 /* bytes of pattern at both ends of an item */

typedef struct live {
  uint8_t *item;
  uint64_t id;
} live;

typedef struct script {
  struct ts_rng rng;
  hd_pool *pool;
  hd_pool_config config;
  size_t stride, maximum, cap;  /* cap: live items that the test itself allows */
  live *list;
  size_t used, max;
  uint64_t count, next_id, growths, overflows;
  size_t allocated;             /* as last seen */
  bool slack_open, say_yes;
} script;

static live lives[LIVE_MAX];

static uint8_t pattern(uint64_t id, size_t at) { return (uint8_t)(ts_hash(id, at / 8) >> (at % 8 * 8)) | 1; }

static void fill(const script *s, const live *one) {
  size_t bytes = s->config.item_bytes;
  for (size_t i = 0; i < bytes; i++) {
    if (i < EDGE || i + EDGE >= bytes) one->item[i] = pattern(one->id, i);
    else i = bytes - EDGE - 1;
  }
}

static void check_fill(const script *s, const live *one) {
  size_t bytes = s->config.item_bytes;
  for (size_t i = 0; i < bytes; i++) {
    if (i >= EDGE && i + EDGE < bytes) i = bytes - EDGE;
    TS_CHECK(one->item[i] == pattern(one->id, i), "item %zu bytes long keeps its content, byte %zu", bytes, i);
  }
}

static void grown(const hd_pool_event *event, void *user) {
  script *s = user;
  s->growths++;
  TS_CHECK(event->slack == 0 && event->allocated > s->allocated, "a growth grows: %zu from %zu", event->allocated, s->allocated);
  TS_CHECK(strcmp(event->name, "model") == 0 && strcmp(event->what, "items") == 0, "growth of '%s'", event->name);
}

static bool overflown(const hd_pool_event *event, void *user) {
  script *s = user;
  s->overflows++;
  TS_CHECK(event->used == s->used && event->limit == s->used, "overflow at %zu of %zu, oracle %zu", event->used, event->limit, s->used);
  TS_CHECK(event->slack == (s->slack_open ? 0 : s->config.extra), "slack %zu", event->slack);
  if (s->say_yes) s->slack_open = true;
  return s->say_yes;
}

static size_t limit_now(const script *s) {
  return s->maximum == SIZE_MAX ? SIZE_MAX : s->maximum + (s->slack_open ? s->config.extra : 0);
}

static void check_counters(script *s) {
  hd_pool_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_pool_stats_get(s->pool, &stats), "stats");
  TS_CHECK(stats.used == s->used, "used %zu, oracle %zu", stats.used, s->used);
  TS_CHECK(stats.max == s->max, "max %zu, oracle %zu", stats.max, s->max);
  TS_CHECK(stats.count == s->count, "count %llu, oracle %llu", (unsigned long long)stats.count, (unsigned long long)s->count);
  TS_CHECK(stats.list + stats.used == stats.allocated, "list %zu + used %zu is allocated %zu", stats.list, stats.used, stats.allocated);
  TS_CHECK(stats.bytes == stats.allocated * s->stride, "bytes %zu", stats.bytes);
  TS_CHECK(stats.size == limit_now(s), "size %zu, oracle %zu", stats.size, limit_now(s));
  TS_CHECK(stats.allocated <= stats.size, "allocated %zu within %zu", stats.allocated, stats.size);
  TS_CHECK(stats.growth_count == s->growths, "growths %llu told %llu", (unsigned long long)stats.growth_count,
           (unsigned long long)s->growths);
  s->allocated = stats.allocated;
}

static void take(script *s) {
  bool zeroed = ts_below(&s->rng, 3) == 0;
  if (s->used == s->cap) return;
  s->say_yes = ts_below(&s->rng, 2) == 0;
  uint64_t overflows = s->overflows;
  size_t limit = limit_now(s);
  uint8_t *item = zeroed ? hd_pool_take_zeroed(s->pool) : hd_pool_take(s->pool);
  if (s->used >= limit) TS_CHECK(s->overflows == overflows + 1, "an overflow is told once");
  else TS_CHECK(s->overflows == overflows, "no overflow below the limit");
  if (item == NULL) {
    TS_CHECK(errno == ENOMEM && s->used >= limit_now(s), "refused at %zu of %zu", s->used, limit_now(s));
    return;
  }
  TS_CHECK(s->used < limit_now(s), "no item beyond the limit of %zu", limit_now(s));
  size_t alignment = s->config.alignment ? s->config.alignment : 1;
  TS_CHECK((uintptr_t)item % alignment == 0, "%p aligned to %zu", (void *)item, alignment);
  for (size_t i = 0; zeroed && i < s->config.item_bytes; i++) TS_CHECK(item[i] == 0, "zeroed item, byte %zu is %u", i, item[i]);
  live *one = &s->list[s->used++];
  *one = (live){item, ++s->next_id};
  s->count++;
  if (s->used > s->max) s->max = s->used;
  if (ts_below(&s->rng, 8) == 0) memset(item, 0xdd, s->config.item_bytes); /* all of it is ours */
  fill(s, one);
}

static void misuse(script *s, uint8_t *freed) {
  switch (ts_below(&s->rng, 4)) {
    case 0: hd_pool_give(s->pool, freed); break;
    case 1: hd_pool_give(s->pool, &s); break;
    case 2: if (s->stride > 1 && s->used > 0) hd_pool_give(s->pool, s->list[0].item + 1 + ts_below(&s->rng, s->stride - 1)); break;
    default: hd_pool_give(s->pool, NULL); break;
  }
  TS_CHECK(!hd_pool_owns(s->pool, freed) && !hd_pool_owns(s->pool, &s), "what is not live is not owned");
}

/* With nothing live `kept` leaves at most so much, and the spans of the group that is being taken from. */
static void check_kept(script *s) {
  check_counters(s);
  size_t span = 65536;
  while (span < s->stride) span *= 2;
  size_t base = s->config.kept > s->config.minimum ? s->config.kept : s->config.minimum;
  TS_CHECK(s->allocated <= base + 64 + 3 * (span / s->stride + 1), "%zu free items with kept %zu", s->allocated, s->config.kept);
}

static void give(script *s, unsigned order) {
  if (s->used == 0) return;
  size_t at = order == 0 ? s->used - 1 : order == 1 ? 0 : (size_t)ts_below(&s->rng, s->used);
  live one = s->list[at];
  check_fill(s, &one);
  TS_CHECK(hd_pool_owns(s->pool, one.item), "a live item is owned");
  if (order == 1) memmove(s->list, s->list + 1, (s->used - 1) * sizeof one);
  else s->list[at] = s->list[s->used - 1];
  s->used--;
  hd_pool_give(s->pool, one.item);
  if (s->used == 0 && s->config.kept > 0) check_kept(s);
  if (ts_below(&s->rng, 50) == 0) {
    check_counters(s);
    misuse(s, one.item);
  }
}

typedef struct sum {
  size_t count;
  uintptr_t mix;
} sum;

static bool add(void *item, size_t bytes, void *user) {
  sum *all = user;
  (void)bytes;
  all->count++;
  all->mix ^= (uintptr_t)item * 0x9e3779b97f4a7c15u;
  return true;
}

static void walk(script *s) {
  sum seen = {0, 0}, wanted = {0, 0};
  TS_CHECK(hd_pool_walk(s->pool, add, &seen), "walk ends");
  for (size_t i = 0; i < s->used; i++) {
    add(s->list[i].item, 0, &wanted);
    check_fill(s, &s->list[i]);
  }
  TS_CHECK(seen.count == wanted.count && seen.mix == wanted.mix, "walk sees %zu of %zu", seen.count, wanted.count);
}

static int by_address(const void *a, const void *b) {
  uintptr_t x = (uintptr_t)((const live *)a)->item, y = (uintptr_t)((const live *)b)->item;
  return x < y ? -1 : x > y;
}

/* After a flush every free item lies in a span with a live one, so there are at most so many. */
static void check_flushed(script *s) {
  size_t span = 65536;
  while (span < s->stride) span *= 2;
  qsort(s->list, s->used, sizeof *s->list, by_address);
  size_t spans = 0;
  for (size_t i = 0; i < s->used; i++) {
    /* spans are counted from the first item, which this test does not know: half a span of uncertainty */
    if (i == 0 || (uintptr_t)s->list[i].item / span != (uintptr_t)s->list[i - 1].item / span) spans++;
  }
  TS_CHECK(s->allocated <= (spans * 2) * (span / s->stride + 1), "%zu items in %zu spans after a flush", s->allocated, spans);
  if (s->used == 0) TS_CHECK(s->allocated == 0, "nothing left after a flush");
}

static void shrink(script *s, uint64_t kind) {
  size_t minimum = s->config.minimum, before = s->allocated;
  if (kind == 0) {
    hd_pool_flush(s->pool);
    if (s->used <= s->maximum) s->slack_open = false;
    check_counters(s);
    check_flushed(s);
  } else if (kind == 1) {
    size_t keep = (size_t)ts_below(&s->rng, 1000);
    hd_pool_trim(s->pool, keep);
    check_counters(s);
    TS_CHECK(s->allocated >= minimum || s->allocated == before, "trim keeps the minimum: %zu of %zu", s->allocated, minimum);
  } else {
    hd_pool_reset(s->pool);
    s->used = 0;
    s->slack_open = false;
    check_counters(s);
    if (s->config.kept > 0 && s->allocated > minimum + 65536 / s->stride + 1) {
      TS_CHECK(s->allocated <= s->config.kept + minimum, "reset keeps %zu", s->allocated);
    }
  }
}

static void draw(script *s) {
  static const size_t sizes[] = {1, 2, 3, 7, 8, 12, 16, 24, 40, 64, 100, 256, 1000, 1024, 4096, 5000, 30000, 65536, 70000, 200000};
  hd_pool_config *config = &s->config;
  *config = (hd_pool_config){.struct_bytes = sizeof *config, .name = "model", .growth = grown, .overflow = overflown, .user = s};
  config->item_bytes = ts_below(&s->rng, 2) ? sizes[ts_below(&s->rng, sizeof sizes / sizeof *sizes)] : 1 + (size_t)ts_below(&s->rng, 3000);
  if (ts_below(&s->rng, 2)) config->alignment = (size_t)1 << ts_below(&s->rng, config->item_bytes > 1000 ? 18 : 10);
  size_t alignment = config->alignment ? config->alignment : 1;
  s->stride = (config->item_bytes + alignment - 1) / alignment * alignment;
  s->cap = ((size_t)48 << 20) / s->stride; /* unlimited pools get a second segment at 16 MiB */
  if (s->cap > LIVE_MAX) s->cap = LIVE_MAX;
  s->maximum = SIZE_MAX;
  if (ts_below(&s->rng, 2)) {
    s->maximum = 1 + (size_t)ts_below(&s->rng, s->cap);
    if (ts_below(&s->rng, 2)) config->maximum = s->maximum;
    else config->limit_bytes = s->maximum * s->stride + ts_below(&s->rng, s->stride);
    config->extra = ts_below(&s->rng, 2) ? (size_t)ts_below(&s->rng, 100) : 0;
    config->minimum = (size_t)ts_below(&s->rng, s->maximum + 1);
    config->initial = (size_t)ts_below(&s->rng, s->maximum + 1);
  }
  if (ts_below(&s->rng, 2)) config->step = 1 + (size_t)ts_below(&s->rng, 2000);
  if (ts_below(&s->rng, 2)) config->kept = 1 + (size_t)ts_below(&s->rng, 2000);
  config->shared = ts_below(&s->rng, 3) == 0;
}

static void run(script *s, size_t operations) {
  draw(s);
  s->pool = hd_pool_create(&s->config);
  TS_CHECK(s->pool != NULL, "pool of %zu bytes aligned to %zu", s->config.item_bytes, s->config.alignment);
  check_counters(s);
  unsigned taking = 60, order = 2;
  for (size_t i = 0; i < operations; i++) {
    if (ts_below(&s->rng, 300) == 0) {
      static const unsigned moods[] = {95, 60, 50, 40, 5};
      taking = moods[ts_below(&s->rng, 5)];
      order = (unsigned)ts_below(&s->rng, 3);
    }
    if (order == 1 && s->used > 2000) order = 2; /* first items go by moving the whole list */
    uint64_t roll = ts_below(&s->rng, 10000);
    if (roll < 20) shrink(s, roll < 9 ? 0 : roll < 18 ? 1 : 2);
    else if (roll < 30) walk(s);
    else if (ts_below(&s->rng, 100) < taking) take(s);
    else give(s, order);
    check_counters(s);
  }
  walk(s);
  TS_CHECK(hd_pool_destroy(s->pool) == s->used, "destroy tells %zu", s->used);
}

int main(int argc, char **argv) {
  uint64_t seed = ts_option(argc, argv, "-s", 0);
  if (seed == 0) seed = ts_seed();
  size_t scripts = (size_t)ts_option(argc, argv, "-n", 60), operations = (size_t)ts_option(argc, argv, "-o", 6000);
  TS_CHECK(hd_option_set("onerror", "ignore") == HD_OK, "misuse goes on");
  for (size_t i = 0; i < scripts; i++) {
    uint64_t own = scripts == 1 ? seed : ts_hash(seed, i) | 1;
    script s = {.rng = {own}, .list = lives};
    snprintf(ts_replay, sizeof ts_replay, "%s -n 1 -o %zu -s %llu", argv[0], operations, (unsigned long long)own);
    run(&s, operations);
  }
  printf("%zu scripts of %zu operations\n", scripts, operations);
  return 0;
}
