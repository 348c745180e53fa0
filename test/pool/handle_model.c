/* Tables of handles against a simple oracle: a list of live blocks with their patterns, and the dead handles.
 *
 *   handle_model [-n scripts] [-o operations] [-s seed]
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/handle.h"

#define LIVE_MAX 2000
#define DEAD_MAX 256

typedef struct live {
  hd_handle handle;
  size_t bytes;
  uint64_t id;
  unsigned pins;
  void *pinned_at;
} live;

typedef struct script {
  struct ts_rng rng;
  hd_handles *table;
  hd_handles_config config;
  live *list;
  size_t count, used, max, count_max, pinned;
  hd_handle dead[DEAD_MAX];
  size_t dead_count;
  uint64_t next_id, growths, overflows, moved;
  bool slack_open, say_yes;
} script;

static live lives[LIVE_MAX];

static uint8_t pattern(uint64_t id, size_t at) { return (uint8_t)(ts_hash(id, at / 8) >> (at % 8 * 8)); }

static void fill(script *s, const live *one, size_t from) {
  uint8_t *block = hd_handles_get(s->table, one->handle);
  for (size_t i = from; i < one->bytes; i++) block[i] = pattern(one->id, i);
}

static void check_block(script *s, const live *one) {
  const uint8_t *block = hd_handles_get(s->table, one->handle);
  size_t alignment = s->config.alignment ? s->config.alignment : 16;
  TS_CHECK(block != NULL && (uintptr_t)block % alignment == 0, "block %p aligned to %zu", (const void *)block, alignment);
  TS_CHECK(hd_handles_bytes(s->table, one->handle) == one->bytes, "%zu bytes", one->bytes);
  TS_CHECK(one->pins == 0 || block == one->pinned_at, "a pinned block stays");
  for (size_t i = 0; i < one->bytes; i++) TS_CHECK(block[i] == pattern(one->id, i), "byte %zu of %zu", i, one->bytes);
}

static size_t bytes_limit(const script *s) { return s->config.limit_bytes + (s->slack_open ? s->config.extra_bytes : 0); }
static size_t count_limit(const script *s) { return s->config.limit_count + (s->slack_open ? s->config.extra_count : 0); }

static void grown(const hd_pool_event *event, void *user) {
  ((script *)user)->growths++;
  TS_CHECK(strcmp(event->what, "bytes") == 0 && event->slack == 0, "growth of %s", event->what);
}

static bool overflown(const hd_pool_event *event, void *user) {
  script *s = user;
  s->overflows++;
  bool bytes = strcmp(event->what, "bytes") == 0;
  TS_CHECK(event->limit == (bytes ? bytes_limit(s) : count_limit(s)), "limit %zu of %s", event->limit, event->what);
  if (s->say_yes) s->slack_open = true;
  return s->say_yes;
}

static hd_handles_stats check(script *s) {
  hd_handles_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_handles_stats_get(s->table, &stats), "stats");
  TS_CHECK(stats.used == s->used && stats.max == s->max, "used %zu max %zu, oracle %zu %zu", stats.used, stats.max, s->used, s->max);
  TS_CHECK(stats.count == s->count && stats.count_max == s->count_max, "count %zu, oracle %zu", stats.count, s->count);
  TS_CHECK(stats.pinned_count == s->pinned, "pinned %zu, oracle %zu", stats.pinned_count, s->pinned);
  TS_CHECK(stats.used + stats.overhead + stats.holes == stats.top, "sum of the parts");
  TS_CHECK(stats.overhead < stats.top + 1 && stats.largest_hole <= stats.holes, "overhead %zu, holes %zu", stats.overhead, stats.holes);
  TS_CHECK((stats.holes == 0) == (stats.hole_count == 0) && (stats.holes == 0) == (stats.largest_hole == 0), "holes %zu", stats.hole_count);
  TS_CHECK(stats.top <= stats.allocated && stats.top <= bytes_limit(s), "top %zu, allocated %zu", stats.top, stats.allocated);
  TS_CHECK(stats.growth_count == s->growths && stats.moved_bytes == s->moved, "growths, moves");
  TS_CHECK(stats.fragmentation == (stats.top ? stats.holes * 1000 / stats.top : 0), "fragmentation %u", stats.fragmentation);
  return stats;
}

static size_t draw_bytes(script *s) {
  uint64_t kind = ts_below(&s->rng, 40);
  return (size_t)(kind == 0 ? ts_below(&s->rng, 100000) : kind < 10 ? ts_below(&s->rng, 4000) : ts_below(&s->rng, 200));
}

static void count_bytes(script *s, live *one, size_t bytes) {
  s->used = s->used - one->bytes + bytes;
  one->bytes = bytes;
  if (s->used > s->max) s->max = s->used;
}

static void alloc(script *s) {
  if (s->count == LIVE_MAX) return;
  size_t bytes = draw_bytes(s);
  s->say_yes = ts_below(&s->rng, 2) == 0;
  uint64_t overflows = s->overflows;
  hd_handle handle = s->config.handle_bits == 32 ? hd_handles_alloc_32(s->table, bytes) : hd_handles_alloc(s->table, bytes);
  if (handle == 0) {
    TS_CHECK(errno == ENOMEM && s->overflows > overflows, "refused only at a limit");
    return;
  }
  TS_CHECK(s->config.handle_bits != 32 || handle >> 32 == 0, "a handle of 32 bits");
  for (size_t i = 0; i < s->dead_count; i++) TS_CHECK(s->dead[i] != handle, "a dead handle does not come back");
  live *one = &s->list[s->count++];
  *one = (live){.handle = handle, .id = ++s->next_id};
  count_bytes(s, one, bytes);
  if (s->count > s->count_max) s->count_max = s->count;
  fill(s, one, 0);
  check_block(s, one);
}

static void bury(script *s, size_t at) {
  s->dead[s->dead_count < DEAD_MAX ? s->dead_count++ : (size_t)ts_below(&s->rng, DEAD_MAX)] = s->list[at].handle;
  s->used -= s->list[at].bytes;
  if (s->list[at].pins > 0) s->pinned--;
  s->list[at] = s->list[--s->count];
}

static void free_one(script *s) {
  if (s->count == 0) return;
  size_t at = (size_t)ts_below(&s->rng, s->count);
  check_block(s, &s->list[at]);
  hd_handles_free(s->table, s->list[at].handle);
  bury(s, at);
}

static void resize(script *s) {
  if (s->count == 0) return;
  live *one = &s->list[ts_below(&s->rng, s->count)];
  size_t bytes = draw_bytes(s), old = one->bytes;
  s->say_yes = ts_below(&s->rng, 2) == 0;
  if (!hd_handles_resize(s->table, one->handle, bytes)) {
    TS_CHECK(errno == (one->pins > 0 ? EBUSY : ENOMEM), "errno %d", errno);
    check_block(s, one);
    return;
  }
  const uint8_t *block = hd_handles_get(s->table, one->handle);
  for (size_t i = 0; i < bytes && i < old; i++) TS_CHECK(block[i] == pattern(one->id, i), "byte %zu of %zu is kept", i, old);
  count_bytes(s, one, bytes);
  fill(s, one, 0);
}

static void pin(script *s) {
  if (s->count == 0) return;
  live *one = &s->list[ts_below(&s->rng, s->count)];
  if (one->pins > 0 && ts_below(&s->rng, 2)) {
    TS_CHECK(hd_handles_unpin(s->table, one->handle), "unpin");
    if (--one->pins == 0) s->pinned--;
    return;
  }
  if (one->pins == 0) TS_CHECK(!hd_handles_unpin(s->table, one->handle) && errno == EINVAL, "no pin to take away");
  one->pinned_at = hd_handles_pin(s->table, one->handle);
  TS_CHECK(one->pinned_at == hd_handles_get(s->table, one->handle), "pin gives the address");
  if (one->pins++ == 0) s->pinned++;
}

static void stale(script *s) {
  bool known = s->dead_count > 0 && ts_below(&s->rng, 2);
  hd_handle handle = known ? s->dead[ts_below(&s->rng, s->dead_count)] : ts_next(&s->rng) | (hd_handle)1 << 63;
  for (size_t i = 0; i < s->count; i++) {
    if (s->list[i].handle == handle) return;
  }
  TS_CHECK(hd_handles_get(s->table, handle) == NULL && hd_handles_bytes(s->table, handle) == 0, "a stale handle leads nowhere");
  TS_CHECK(hd_handles_pin(s->table, handle) == NULL && errno == EINVAL, "nor can it be pinned");
  TS_CHECK(!hd_handles_unpin(s->table, handle) && !hd_handles_resize(s->table, handle, 8) && errno == EINVAL, "or resized");
  hd_handles_free(s->table, handle);
  TS_CHECK(hd_handles_get(s->table, 0) == NULL, "0 is no handle");
  hd_handles_free(s->table, 0);
}

static void compact(script *s) {
  size_t most = (size_t)ts_below(&s->rng, 50000), largest = 0;
  bool whole = ts_below(&s->rng, 4) == 0;
  for (size_t i = 0; i < s->count; i++) largest = s->list[i].bytes > largest ? s->list[i].bytes : largest;
  size_t alignment = s->config.alignment ? s->config.alignment : 16;
  for (unsigned step = 0;; step++) {
    hd_compaction done = hd_handles_compact(s->table, most);
    s->moved += done.moved_bytes;
    TS_CHECK(done.moved_count < 2 ? done.moved_bytes <= largest + 2 * alignment + 64 : done.moved_bytes <= most, "moved %zu of %zu in %zu",
             done.moved_bytes, most, done.moved_count);
    hd_handles_stats stats = check(s);
    TS_CHECK(!done.done || s->pinned > 0 || stats.holes == 0, "done leaves %zu in holes", stats.holes);
    TS_CHECK(stats.allocated <= stats.top + s->config.kept_bytes + stats.step + ts_os_page(),
             "allocated %zu above %zu", stats.allocated, stats.top);
    TS_CHECK(step < 100000, "compaction ends");
    if (!whole || done.done) return;
  }
}

typedef struct seen {
  script *s;
  size_t count, bytes;
  void *last;
} seen;

static bool look(hd_handle handle, void *block, size_t bytes, void *user) {
  seen *all = user;
  TS_CHECK(hd_handles_get(all->s->table, handle) == block && block > all->last, "walk in order of address");
  all->last = block;
  all->count++;
  all->bytes += bytes;
  return true;
}

static void walk(script *s) {
  seen all = {.s = s};
  TS_CHECK(hd_handles_walk(s->table, look, &all), "walk ends");
  TS_CHECK(all.count == s->count && all.bytes == s->used, "walk sees %zu of %zu", all.count, s->count);
  for (size_t i = 0; i < s->count; i++) check_block(s, &s->list[i]);
}

static void run(script *s, size_t operations) {
  hd_handles_config *config = &s->config;
  *config = (hd_handles_config){.struct_bytes = sizeof *config, .name = "model", .growth = grown, .overflow = overflown, .user = s};
  config->limit_bytes = 100 + (size_t)ts_below(&s->rng, ts_below(&s->rng, 2) ? 8 << 20 : 200000);
  config->limit_count = 1 + (size_t)ts_below(&s->rng, LIVE_MAX);
  config->extra_bytes = (size_t)ts_below(&s->rng, 20000);
  config->extra_count = (size_t)ts_below(&s->rng, 50);
  config->step_bytes = ts_below(&s->rng, 2) ? 1 + (size_t)ts_below(&s->rng, 300000) : 0;
  config->kept_bytes = ts_below(&s->rng, 2) ? (size_t)ts_below(&s->rng, 300000) : 0;
  config->alignment = ts_below(&s->rng, 2) ? (size_t)16 << ts_below(&s->rng, ts_below(&s->rng, 4) ? 4 : 13) : 0;
  config->handle_bits = ts_below(&s->rng, 2) ? 32 : 0;
  s->table = hd_handles_create(config);
  TS_CHECK(s->table != NULL, "table of %zu bytes", config->limit_bytes);
  check(s);
  unsigned filling = 60;
  for (size_t i = 0; i < operations; i++) {
    if (ts_below(&s->rng, 200) == 0) filling = (unsigned)(10 + ts_below(&s->rng, 80));
    uint64_t roll = ts_below(&s->rng, 1000);
    if (roll < 15) compact(s);
    else if (roll < 18) hd_handles_trim(s->table);
    else if (roll < 23) walk(s);
    else if (roll < 40) pin(s);
    else if (roll < 60) stale(s);
    else if (roll < 130) resize(s);
    else if (roll < 131) {
      hd_handles_reset(s->table);
      while (s->count > 0) bury(s, s->count - 1);
      s->slack_open = false;
    } else if (ts_below(&s->rng, 100) < filling) alloc(s);
    else free_one(s);
    check(s);
  }
  walk(s);
  TS_CHECK(hd_handles_destroy(s->table) == s->count, "destroy tells %zu", s->count);
}

int main(int argc, char **argv) {
  uint64_t seed = ts_option(argc, argv, "-s", 0);
  if (seed == 0) seed = ts_seed();
  size_t scripts = (size_t)ts_option(argc, argv, "-n", 25), operations = (size_t)ts_option(argc, argv, "-o", 3000);
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
