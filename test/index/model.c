/* Index pools against an oracle: random scripts of every operation on pools of many shapes.
 *
 * The oracle knows which slots belong to which live object and what stands in them. After each operation the counters must agree
 * with it; every now and then the whole pool is compared. A take may only fail when no run of free slots is long enough.
 *   usage: index_model [-n scripts] [-s first script]      HEDDLE_TEST_SEED repeats a run
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/index_pool.h>

#include "../support/support.h"

enum { MOST_SLOTS = 70100, MOST_LIVE = MOST_SLOTS, FILE_BYTES = 8 << 20 };

typedef struct object {
  uint32_t index, slots, stamp;
} object;

static struct {
  struct ts_rng rng;
  hd_index_pool *pool;
  hd_index_config config;
  object live[MOST_LIVE];
  uint32_t live_count;
  uint32_t at[MOST_SLOTS + 2];   /* slot -> live number + 1 where an object starts */
  uint8_t taken[MOST_SLOTS + 2]; /* slot -> belongs to a live object */
  uint64_t used, used_high, size, extra, taken_total, given_total;
  uint64_t refusals;
  uint32_t stamp;
  uint32_t overflows;
  bool compacting; /* or perhaps no longer: a take may have ended it */
  bool refuse_growth;
} m;

static unsigned char file[FILE_BYTES];
static size_t file_bytes, file_read;

/* ---- content ------------------------------------------------------------------------------------------------------- */

static void fill(const object *o) {
  unsigned char *p = hd_index_pool_at(m.pool, o->index);
  size_t bytes = (size_t)o->slots * m.config.slot_bytes;
  for (size_t i = 0; i < bytes; i += 4) {
    uint32_t word = o->stamp * 2654435761u + (uint32_t)i;
    memcpy(p + i, &word, 4);
  }
}

static void verify(const object *o) {
  const unsigned char *p = hd_index_pool_at(m.pool, o->index);
  size_t bytes = (size_t)o->slots * m.config.slot_bytes;
  for (size_t i = 0; i < bytes; i += 4) {
    uint32_t word = 0;
    memcpy(&word, p + i, 4);
    TS_CHECK(word == o->stamp * 2654435761u + (uint32_t)i, "object %u of %u slots, byte %zu", o->index, o->slots, i);
  }
}

/* ---- the oracle ---------------------------------------------------------------------------------------------------- */

static void enter(uint32_t index, uint32_t slots) {
  uint64_t most = m.size + m.extra;
  TS_CHECK(index >= 1 && (uint64_t)index + slots - 1 <= most, "index %u + %u above %llu", index, slots, (unsigned long long)most);
  for (uint32_t i = 0; i < slots; i++) {
    TS_CHECK(m.taken[index + i] == 0, "slot %u handed out twice", index + i);
    m.taken[index + i] = 1;
  }
  m.live[m.live_count] = (object){index, slots, ++m.stamp};
  m.at[index] = ++m.live_count;
  fill(&m.live[m.live_count - 1]);
  m.used += slots;
  if (m.used > m.used_high) m.used_high = m.used;
  m.taken_total++;
}

static void leave(uint32_t number) {
  object gone = m.live[number];
  memset(m.taken + gone.index, 0, gone.slots);
  m.at[gone.index] = 0;
  m.used -= gone.slots;
  m.given_total++;
  m.live[number] = m.live[--m.live_count];
  if (number < m.live_count) m.at[m.live[number].index] = number + 1;
}

static uint64_t longest_run(void) {
  uint64_t longest = 0, run = 0;
  for (uint64_t i = 1; i <= m.size + m.extra; i++) {
    run = m.taken[i] ? 0 : run + 1;
    if (run > longest) longest = run;
  }
  return longest;
}

static uint64_t highest(void) {
  uint64_t end = 1;
  for (uint32_t i = 0; i < m.live_count; i++) {
    if ((uint64_t)m.live[i].index + m.live[i].slots > end) end = (uint64_t)m.live[i].index + m.live[i].slots;
  }
  return end;
}

static void compare_counters(void) {
  hd_index_stats s = {.struct_bytes = sizeof s};
  TS_CHECK(hd_index_pool_stats_get(m.pool, &s), "stats");
  TS_CHECK(s.used == m.used && s.used_count == m.live_count, "used %llu in %llu objects, not %llu in %u", (unsigned long long)s.used,
           (unsigned long long)s.used_count, (unsigned long long)m.used, m.live_count);
  TS_CHECK(s.used_high == m.used_high && s.taken_total == m.taken_total && s.given_total == m.given_total, "totals");
  TS_CHECK(s.used + s.free == s.ptr - 1 && s.ptr <= s.top && s.ptr - 1 <= s.allocated, "ptr %llu", (unsigned long long)s.ptr);
  TS_CHECK(s.size == m.size + m.extra && s.extra == m.extra && s.allocated <= s.size, "limit %llu", (unsigned long long)s.size);
  TS_CHECK(s.item_bytes == m.config.slot_bytes && s.step == m.config.step && s.minimum == m.config.minimum, "configuration");
  TS_CHECK(s.maximum == m.config.maximum && s.slack == m.config.slack && s.object_slots == m.config.object_slots, "configuration");
  uint64_t free = s.large_free, free_count = 0;
  for (uint32_t size = 1; size <= HD_INDEX_EXACT_SLOTS; size++) {
    free += size * hd_index_pool_free_count(m.pool, size);
    free_count += hd_index_pool_free_count(m.pool, size);
  }
  TS_CHECK(free == s.free && (s.large_free > 0) == (s.free_count > free_count), "free lists hold %llu slots, not %llu",
           (unsigned long long)free, (unsigned long long)s.free);
}

static bool compare_one(hd_index_pool *pool, uint32_t index, uint32_t slots, void *user) {
  uint32_t *seen = user;
  TS_CHECK(pool == m.pool && m.at[index] != 0 && m.live[m.at[index] - 1].slots == slots, "walk shows %u of %u slots", index, slots);
  verify(&m.live[m.at[index] - 1]);
  ++*seen;
  return true;
}

static void compare_all(void) {
  uint32_t seen = 0;
  const char *wrong = hd_index_pool_check(m.pool);
  TS_CHECK(wrong == NULL, "%s", wrong);
  TS_CHECK(hd_index_pool_walk(m.pool, compare_one, &seen) && seen == m.live_count, "%u objects of %u", seen, m.live_count);
}

/* ---- callbacks ------------------------------------------------------------------------------------------------------ */

static bool growth(hd_index_pool *pool, uint64_t old_slots, uint64_t new_slots, void *user) {
  hd_index_stats s = {.struct_bytes = sizeof s};
  TS_CHECK(user == &m && hd_index_pool_stats_get(pool, &s) && s.allocated == old_slots, "growth from %llu", (unsigned long long)old_slots);
  TS_CHECK(new_slots > old_slots && new_slots <= m.size + m.extra, "growth to %llu", (unsigned long long)new_slots);
  TS_CHECK(new_slots - old_slots >= m.config.step || new_slots == m.size + m.extra, "a step of %llu",
           (unsigned long long)(new_slots - old_slots));
  m.refusals += m.refuse_growth;
  return !m.refuse_growth;
}

static void overflow(hd_index_pool *pool, const char *text, uint64_t limit, uint64_t slack, void *user) {
  TS_CHECK(pool == m.pool && user == &m && limit == m.size && slack == m.config.slack && m.extra == 0, "overflow at %llu",
           (unsigned long long)limit);
  char expected[200];
  snprintf(expected, sizeof expected, "index pool 'model': overflow, the limit of %llu slot%s is reached, %llu slot%s of slack granted",
           (unsigned long long)limit, limit == 1 ? "" : "s", (unsigned long long)slack, slack == 1 ? "" : "s");
  TS_CHECK(strcmp(text, expected) == 0, "%s", text);
  m.extra = slack;
  m.overflows++;
}

static void moved(hd_index_pool *pool, uint32_t from, uint32_t to, uint32_t slots, void *user) {
  TS_CHECK(pool == m.pool && user == &m && to < from && m.at[from] != 0, "moved %u to %u", from, to);
  object *o = &m.live[m.at[from] - 1];
  TS_CHECK(o->slots == slots, "moved %u slots", slots);
  memset(m.taken + from, 0, slots);
  for (uint32_t i = 0; i < slots; i++) TS_CHECK(m.taken[to + i] == 0, "moved on top of slot %u", to + i);
  memset(m.taken + to, 1, slots);
  m.at[to] = m.at[from];
  m.at[from] = 0;
  o->index = to;
  verify(o);
}

/* ---- operations ---------------------------------------------------------------------------------------------------- */

static uint32_t some_size(void) {
  if (m.config.object_slots != 0) return m.config.object_slots;
  switch (ts_below(&m.rng, 8)) {
    case 0: return 1 + (uint32_t)ts_below(&m.rng, 40);
    case 1: return 105 + (uint32_t)ts_below(&m.rng, 12);
    case 2: return 100 + (uint32_t)ts_below(&m.rng, 400);
    default: return 1 + (uint32_t)ts_below(&m.rng, 6);
  }
}

static void take(void) {
  uint32_t slots = some_size();
  m.refuse_growth = ts_below(&m.rng, 50) == 0;
  uint64_t refusals = m.refusals;
  bool zeroed = ts_below(&m.rng, 4) == 0;
  errno = 77;
  uint32_t index = zeroed ? hd_index_pool_take_zeroed(m.pool, slots) : hd_index_pool_take(m.pool, slots);
  m.refuse_growth = false;
  if (index == 0) {
    TS_CHECK(errno == ENOMEM, "errno %d", errno);
    if (m.refusals == refusals) {
      TS_CHECK(longest_run() < slots, "refused %u slots, %llu are free in a row", slots, (unsigned long long)longest_run());
    }
    return;
  }
  TS_CHECK(errno == 77, "errno %d", errno);
  for (size_t i = 0; zeroed && i < (size_t)slots * m.config.slot_bytes; i++) {
    TS_CHECK(((unsigned char *)hd_index_pool_at(m.pool, index))[i] == 0, "byte %zu is not zero", i);
  }
  enter(index, slots);
}

static void give(void) {
  if (m.live_count == 0) return;
  uint32_t number = (uint32_t)ts_below(&m.rng, m.live_count);
  verify(&m.live[number]);
  hd_index_pool_give(m.pool, m.live[number].index);
  leave(number);
}

/* No live object starts there: nothing may happen (onerror is ignore here). */
static void misgive(void) {
  uint32_t index = (uint32_t)ts_below(&m.rng, m.size + m.extra + 3);
  if (ts_below(&m.rng, 8) == 0) index = (uint32_t)ts_next(&m.rng);
  if (index <= m.size + m.extra && m.at[index] != 0) return;
  TS_CHECK(hd_index_pool_slots(m.pool, index) == 0, "an object at %u", index);
  hd_index_pool_give(m.pool, index);
}

static void rearm(void) {
  hd_index_stats s = {.struct_bytes = sizeof s};
  hd_index_pool_stats_get(m.pool, &s);
  if (s.ptr - 1 <= m.size) m.extra = 0;
}

static void merge(void) {
  if (ts_below(&m.rng, 2) == 0) hd_index_pool_merge(m.pool);
  else hd_index_pool_shrink(m.pool);
  rearm();
  m.compacting = false;
  hd_index_stats s = {.struct_bytes = sizeof s};
  hd_index_pool_stats_get(m.pool, &s);
  TS_CHECK(s.ptr == highest(), "ptr is %llu, not %llu", (unsigned long long)s.ptr, (unsigned long long)highest());
  if (ts_below(&m.rng, 4) == 0) compare_all();
}

static void compact(void) {
  uint64_t budget = ts_below(&m.rng, 3) == 0 ? 0 : 1 + ts_below(&m.rng, 200);
  bool fresh = !m.compacting;
  bool done = hd_index_pool_compact(m.pool, budget, moved, &m);
  TS_CHECK(done || budget != 0, "a whole compaction is not done");
  m.compacting = !done;
  if (!done) return;
  rearm();
  hd_index_stats s = {.struct_bytes = sizeof s};
  hd_index_pool_stats_get(m.pool, &s);
  if (fresh) TS_CHECK(s.free == 0 && s.ptr == highest(), "%llu slots are free after a compaction", (unsigned long long)s.free);
}

static bool write_file(void *user, const void *data, size_t bytes) {
  (void)user;
  TS_CHECK(file_bytes + bytes <= FILE_BYTES, "the file is too long for the test");
  memcpy(file + file_bytes, data, bytes);
  file_bytes += bytes;
  return true;
}

static bool read_file(void *user, void *data, size_t bytes, size_t *done) {
  (void)user;
  *done = bytes < file_bytes - file_read ? bytes : file_bytes - file_read;
  memcpy(data, file + file_read, *done);
  file_read += *done;
  return true;
}

static void save_and_load(void) {
  hd_index_save how = {.struct_bytes = sizeof how, .compact = ts_below(&m.rng, 2) == 0, .moved = moved, .user = &m};
  if (m.config.slot_bytes * (uint64_t)MOST_SLOTS > FILE_BYTES && m.config.maximum > 5000) return;
  file_bytes = file_read = 0;
  TS_CHECK(hd_index_pool_save_to(m.pool, write_file, NULL, ts_below(&m.rng, 3) == 0 ? NULL : &how) == HD_INDEX_OK, "save");
  rearm();
  hd_index_stats s = {.struct_bytes = sizeof s};
  hd_index_pool_stats_get(m.pool, &s);
  if (ts_below(&m.rng, 2) == 0) hd_index_pool_reset(m.pool);
  else s.used_high = 0;
  if (s.used_high != 0) m.given_total = m.taken_total, rearm();
  hd_index_status status = hd_index_pool_load_from(m.pool, read_file, NULL);
  if (s.ptr - 1 > m.size) {
    TS_CHECK(status == HD_INDEX_TOO_LARGE, "loaded more than the limit");
    if (s.used_high == 0) return;
    memset(m.at, 0, sizeof m.at);
    memset(m.taken, 0, sizeof m.taken);
    m.live_count = 0, m.used = 0, m.compacting = false;
    return;
  }
  TS_CHECK(status == HD_INDEX_OK && file_read == file_bytes, "load: %s", hd_index_pool_error(m.pool));
  m.given_total = m.taken_total;
  m.taken_total += m.live_count;
  m.compacting = false;
  rearm();
  compare_all();
}

static void other(void) {
  switch (ts_below(&m.rng, 4)) {
    case 0:
      hd_index_pool_reset(m.pool);
      memset(m.at, 0, sizeof m.at);
      memset(m.taken, 0, sizeof m.taken);
      m.given_total = m.taken_total;
      m.live_count = 0, m.used = 0, m.extra = 0, m.compacting = false;
      return;
    case 1:
    case 2: {
      hd_index_stats s = {.struct_bytes = sizeof s};
      hd_index_pool_stats_get(m.pool, &s);
      uint64_t slots = ts_below(&m.rng, m.config.maximum + 2);
      bool fits = slots >= m.config.minimum && slots >= s.ptr - 1 && slots <= m.config.maximum;
      errno = 0;
      TS_CHECK(hd_index_pool_limit(m.pool, slots) == fits && (fits || errno == EINVAL), "a limit of %llu", (unsigned long long)slots);
      if (fits) m.size = slots, m.extra = 0;
      return;
    }
    default: {
      uint32_t bad = m.config.object_slots != 0 ? m.config.object_slots + 1 : 0;
      errno = 0;
      TS_CHECK(hd_index_pool_take(m.pool, bad) == 0 && errno == EINVAL, "took %u slots", bad);
      hd_index_pool_give(m.pool, 0);
    }
  }
}

/* ---- scripts ------------------------------------------------------------------------------------------------------- */

static void make_pool(void) {
  static const uint32_t slot_bytes[] = {4, 8, 8, 12, 16, 16, 24, 40, 100};
  static const uint32_t maxima[] = {1, 2, 5, 110, 111, 200, 1000, 5000, 5000, 70000};
  static const uint32_t object_slots[] = {0, 0, 0, 0, 1, 1, 3, 110, 111, 150};
  static const uint32_t steps[] = {0, 1, 7, 1000};
  static const uint32_t slacks[] = {0, 1, 50};
  hd_index_config c = {.struct_bytes = sizeof c, .name = "model", .growth = growth, .overflow = overflow, .user = &m};
  c.slot_bytes = slot_bytes[ts_below(&m.rng, 9)];
  c.maximum = maxima[ts_below(&m.rng, 10)];
  c.object_slots = object_slots[ts_below(&m.rng, 10)];
  if (c.object_slots > c.maximum) c.object_slots = 1;
  c.step = steps[ts_below(&m.rng, 4)];
  c.slack = slacks[ts_below(&m.rng, 3)];
  c.minimum = ts_below(&m.rng, 2) ? ts_below(&m.rng, c.maximum + 1) : 0;
  c.initial = ts_below(&m.rng, 2) ? ts_below(&m.rng, c.maximum + 1) : 0;
  m.config = c;
  m.size = c.maximum;
  m.pool = hd_index_pool_create(&c);
  TS_CHECK(m.pool != NULL, "no pool");
}

static void operate(unsigned taking) {
  uint64_t dice = ts_below(&m.rng, 1000);
  if (dice < 5) merge();
  else if (dice < 25) compact();
  else if (dice < 28) save_and_load();
  else if (dice < 32) other();
  else if (dice < 80) misgive();
  else if (ts_below(&m.rng, 100) < taking) take();
  else give();
}

static void run_script(uint64_t seed) {
  memset(&m, 0, sizeof m);
  m.rng.state = seed;
  make_pool();
  unsigned operations = 500 + (unsigned)ts_below(&m.rng, 3000);
  unsigned taking = 50;
  for (unsigned i = 0; i < operations; i++) {
    if (i % 256 == 0) taking = 30 + (unsigned)ts_below(&m.rng, 60);
    operate(taking);
    compare_counters();
    if (i % 64 == 0) compare_all();
  }
  compare_all();
  hd_index_pool_destroy(m.pool);
}

int main(int argc, char **argv) {
  uint64_t scripts = ts_option(argc, argv, "-n", 300);
  uint64_t first = ts_option(argc, argv, "-s", 0);
  uint64_t seed = ts_seed();
  uint64_t overflows = 0;
  TS_CHECK(hd_option_set("onerror", "ignore") == HD_OK, "onerror");
  for (uint64_t i = first; i < first + scripts; i++) {
    snprintf(ts_replay, sizeof ts_replay, "HEDDLE_TEST_SEED=%llu %s -n 1 -s %llu", (unsigned long long)seed, argv[0],
             (unsigned long long)i);
    run_script(ts_hash(seed, i));
    overflows += m.overflows;
  }
  TS_CHECK(scripts < 50 || overflows > 0, "no script overflowed");
  return 0;
}
