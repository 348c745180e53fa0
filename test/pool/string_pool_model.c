/* String pools against a simple oracle: the strings again, in one buffer of the test's own.
 *
 *   string_pool_model [-n scripts] [-o operations] [-s seed]
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/string_pool.h"

#define STRING_MAX 6000
#define TEXT_MAX ((size_t)8 << 20)

static char text[TEXT_MAX];
static size_t start[STRING_MAX + 1]; /* in text, without zeros */
static const char *place[STRING_MAX];

typedef struct script {
  struct ts_rng rng;
  hd_string_pool *pool;
  hd_string_pool_config config;
  size_t count, bytes;           /* bytes: with zeros */
  size_t max, count_max;
  uint64_t appends, found, growths, overflows;
  bool slack_open, say_yes;
} script;

static size_t bytes_limit(const script *s) { return s->config.limit_bytes + (s->slack_open ? s->config.extra_bytes : 0); }
static size_t count_limit(const script *s) { return s->config.limit_count + (s->slack_open ? s->config.extra_count : 0); }

static void grown(const hd_pool_event *event, void *user) {
  script *s = user;
  s->growths++;
  TS_CHECK(event->allocated >= event->used && strcmp(event->what, "bytes") == 0, "growth to %zu", event->allocated);
}

static bool overflown(const hd_pool_event *event, void *user) {
  script *s = user;
  s->overflows++;
  bool bytes = strcmp(event->what, "bytes") == 0;
  TS_CHECK(event->limit == (bytes ? bytes_limit(s) : count_limit(s)), "limit %zu of %s", event->limit, event->what);
  TS_CHECK(event->slack == (s->slack_open ? 0 : bytes ? s->config.extra_bytes : s->config.extra_count), "slack %zu", event->slack);
  if (s->say_yes) s->slack_open = true;
  return s->say_yes;
}

static size_t length_of(size_t index) { return start[index + 1] - start[index]; }

static void check(script *s) {
  hd_string_pool_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_string_pool_stats_get(s->pool, &stats), "stats");
  TS_CHECK(stats.used == s->bytes && stats.max == s->max, "used %zu max %zu, oracle %zu %zu", stats.used, stats.max, s->bytes, s->max);
  TS_CHECK(stats.count == s->count && stats.count_max == s->count_max, "count %zu, oracle %zu", stats.count, s->count);
  TS_CHECK(stats.append_count == s->appends && stats.found_count == s->found, "appends %llu", (unsigned long long)stats.append_count);
  TS_CHECK(stats.growth_count == s->growths, "growths %llu", (unsigned long long)stats.growth_count);
  TS_CHECK(stats.allocated >= stats.used, "used %zu of %zu", stats.used, stats.allocated);
  TS_CHECK(stats.allocated <= s->config.limit_bytes + s->config.extra_bytes, "allocated %zu", stats.allocated);
  TS_CHECK(stats.limit == bytes_limit(s) && stats.count_limit == count_limit(s), "limits %zu, %zu", stats.limit, stats.count_limit);
  TS_CHECK(hd_string_pool_mark(s->pool) == s->count, "mark");
}

static void check_string(script *s, size_t index) {
  const char *stored = hd_string_pool_text(s->pool, index);
  TS_CHECK(stored == place[index], "string %zu stays where it is", index);
  TS_CHECK(hd_string_pool_length(s->pool, index) == length_of(index), "length of %zu", index);
  TS_CHECK(memcmp(stored, text + start[index], length_of(index)) == 0 && stored[length_of(index)] == 0, "content of %zu", index);
  TS_CHECK(hd_string_pool_index(s->pool, stored) == index, "number of %zu by address", index);
  TS_CHECK(hd_string_pool_index(s->pool, stored + 1) != index, "no string inside another");
}

static size_t oracle_find(const script *s, const char *bytes, size_t length) {
  for (size_t i = 0; i < s->count; i++) {
    if (length_of(i) == length && memcmp(text + start[i], bytes, length) == 0) return i;
  }
  return SIZE_MAX;
}

static size_t draw_string(script *s, char *to) {
  size_t length = (size_t)ts_below(&s->rng, ts_below(&s->rng, 50) == 0 ? 20000 : 12);
  unsigned letters = s->config.intern ? 4 : 256;
  for (size_t i = 0; i < length; i++) to[i] = (char)ts_below(&s->rng, letters);
  return length;
}

static void append(script *s) {
  static char drawn[20000];
  const char *bytes = drawn;
  size_t length = draw_string(s, drawn);
  if (s->count > 0 && ts_below(&s->rng, 10) == 0) { /* a piece of the pool itself */
    size_t from = (size_t)ts_below(&s->rng, s->count);
    length = length_of(from) / 2;
    bytes = hd_string_pool_text(s->pool, from) + length_of(from) - length;
  }
  if (s->count == STRING_MAX || start[s->count] + length > TEXT_MAX) return;
  s->say_yes = ts_below(&s->rng, 2) == 0;
  size_t known = s->config.intern ? oracle_find(s, bytes, length) : SIZE_MAX;
  uint64_t index;
  switch (ts_below(&s->rng, 3)) {
    case 0: index = hd_string_pool_append(s->pool, bytes, length); break;
    case 1: index = hd_string_pool_append_32(s->pool, bytes, length);
      if (index == HD_STRING_NONE_32) index = HD_STRING_NONE;
      break;
    default: {
      const char *stored = hd_string_pool_append_text(s->pool, bytes, length);
      index = stored == NULL ? HD_STRING_NONE : hd_string_pool_index(s->pool, stored);
    }
  }
  if (known != SIZE_MAX) {
    TS_CHECK(index == known, "interned as %zu, not %llu", known, (unsigned long long)index);
    s->found++, s->appends++;
    return;
  }
  bool room = s->count < count_limit(s) && length + 1 <= bytes_limit(s) - s->bytes;
  TS_CHECK((index != HD_STRING_NONE) == room, "string of %zu at %zu of %zu", length, s->bytes, bytes_limit(s));
  if (!room) {
    TS_CHECK(errno == ENOMEM, "errno %d", errno);
    return;
  }
  TS_CHECK(index == s->count, "number %llu, oracle %zu", (unsigned long long)index, s->count);
  memcpy(text + start[s->count], bytes, length);
  start[s->count + 1] = start[s->count] + length;
  place[s->count++] = hd_string_pool_text(s->pool, index);
  s->bytes += length + 1;
  s->appends++;
  if (s->bytes > s->max) s->max = s->bytes;
  if (s->count > s->count_max) s->count_max = s->count;
  check_string(s, s->count - 1);
}

static void flush(script *s) {
  size_t mark = s->count - (size_t)ts_below(&s->rng, s->count / (ts_below(&s->rng, 4) ? 8 : 1) + 1);
  if (ts_below(&s->rng, 20) == 0) mark = 0;
  TS_CHECK(!hd_string_pool_flush(s->pool, s->count + 1) && errno == EINVAL, "a mark from the future");
  TS_CHECK(hd_string_pool_flush(s->pool, mark), "flush to %zu", mark);
  for (; s->count > mark; s->count--) s->bytes -= length_of(s->count - 1) + 1;
  if (mark == 0) s->slack_open = false;
  TS_CHECK(hd_string_pool_text(s->pool, mark) == NULL && hd_string_pool_length(s->pool, mark) == 0, "flushed strings are gone");
  hd_string_pool_stats stats = {.struct_bytes = sizeof stats};
  hd_string_pool_stats_get(s->pool, &stats);
  size_t steps = (stats.used + s->config.kept_bytes + stats.step - 1) / stats.step;
  TS_CHECK(stats.allocated <= steps * stats.step + ts_os_page(), "flush keeps %zu of %zu", stats.allocated, stats.used);
}

static void look(script *s) {
  char drawn[20000];
  for (size_t i = 0; i < s->count; i += 1 + (size_t)ts_below(&s->rng, 50)) check_string(s, i);
  size_t length = draw_string(s, drawn);
  if (!s->config.intern) {
    TS_CHECK(hd_string_pool_find(s->pool, drawn, length) == HD_STRING_NONE && errno == EINVAL, "find needs a table");
    return;
  }
  size_t known = oracle_find(s, drawn, length);
  TS_CHECK(hd_string_pool_find(s->pool, drawn, length) == (known == SIZE_MAX ? HD_STRING_NONE : known), "found");
  for (size_t i = 0; i < s->count; i++) {
    TS_CHECK(hd_string_pool_find(s->pool, place[i], length_of(i)) == i, "string %zu is found", i);
  }
}

static void run(script *s, size_t operations) {
  s->config = (hd_string_pool_config){.struct_bytes = sizeof s->config, .name = "model", .growth = grown, .overflow = overflown, .user = s};
  s->config.intern = ts_below(&s->rng, 2) == 0;
  s->config.limit_bytes = 1 + (size_t)ts_below(&s->rng, ts_below(&s->rng, 2) ? 4 << 20 : 20000);
  s->config.limit_count = 1 + (size_t)ts_below(&s->rng, STRING_MAX - 200);
  s->config.extra_bytes = (size_t)ts_below(&s->rng, 5000);
  s->config.extra_count = (size_t)ts_below(&s->rng, 100);
  s->config.step_bytes = ts_below(&s->rng, 2) ? 1 + (size_t)ts_below(&s->rng, 200000) : 0;
  s->config.kept_bytes = ts_below(&s->rng, 2) ? (size_t)ts_below(&s->rng, 200000) : 0;
  s->pool = hd_string_pool_create(&s->config);
  TS_CHECK(s->pool != NULL, "pool of %zu bytes", s->config.limit_bytes);
  check(s);
  for (size_t i = 0; i < operations; i++) {
    uint64_t roll = ts_below(&s->rng, 1000);
    if (roll < 5) flush(s);
    if (roll < 12) look(s);
    else append(s);
    check(s);
  }
  look(s);
  TS_CHECK(hd_string_pool_destroy(s->pool) == s->count, "destroy tells %zu", s->count);
}

/* A table that was rebuilt holds its strings in another order than they came in: what a removal leaves behind must not hide those that
 * stand there because the place was taken once. */
static void check_rebuilt(uint64_t seed) {
  enum { LONG = 14000, SHORT = 2100, LETTERS = 10 };
  struct ts_rng rng = {seed};
  char drawn[LETTERS + 1];
  hd_string_pool_config config = {.struct_bytes = sizeof config, .intern = true};
  hd_string_pool *pool = hd_string_pool_create(&config);
  TS_CHECK(pool != NULL, "a pool");
  for (uint64_t count = 0; count < LONG; count++) {
    snprintf(drawn, sizeof drawn, "%010llu", (unsigned long long)count);
    TS_CHECK(hd_string_pool_append(pool, drawn, LETTERS) == count, "string %s", drawn);
  }
  for (uint64_t count = LONG; count > SHORT;) {
    count -= 1 + ts_below(&rng, count / 4);
    TS_CHECK(hd_string_pool_flush(pool, count), "flush to %llu", (unsigned long long)count);
    for (uint64_t i = 0; i < LONG; i++) {
      snprintf(drawn, sizeof drawn, "%010llu", (unsigned long long)i);
      uint64_t found = hd_string_pool_find(pool, drawn, LETTERS);
      TS_CHECK(found == (i < count ? i : HD_STRING_NONE), "string %s of %llu", drawn, (unsigned long long)count);
    }
  }
  hd_string_pool_destroy(pool);
}

int main(int argc, char **argv) {
  uint64_t seed = ts_option(argc, argv, "-s", 0);
  if (seed == 0) seed = ts_seed();
  size_t scripts = (size_t)ts_option(argc, argv, "-n", 100), operations = (size_t)ts_option(argc, argv, "-o", 4000);
  for (size_t i = 0; i < scripts; i++) {
    uint64_t own = scripts == 1 ? seed : ts_hash(seed, i) | 1;
    script s = {.rng = {own}};
    snprintf(ts_replay, sizeof ts_replay, "%s -n 1 -o %zu -s %llu", argv[0], operations, (unsigned long long)own);
    run(&s, operations);
  }
  snprintf(ts_replay, sizeof ts_replay, "%s -n 0 -s %llu", argv[0], (unsigned long long)seed);
  for (uint64_t round = 0; round < 5; round++) check_rebuilt(ts_hash(seed, ~round) | 1);
  printf("%zu scripts of %zu operations\n", scripts, operations);
  return 0;
}
