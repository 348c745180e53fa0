/* Pools, class pools, string pools and tables of handles: what the model tests do not reach: refusals, reports, slack, memory that
 * comes back, growth without limit.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "heddle/handle.h"
#include "heddle/pool.h"
#include "heddle/string_pool.h"

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)

static hd_pool *make(size_t item_bytes) {
  hd_pool_config config = {.struct_bytes = sizeof config, .name = "nodes", .item_bytes = item_bytes};
  hd_pool *pool = hd_pool_create(&config);
  assert_non_null(pool);
  return pool;
}

static hd_pool_stats stats_of(hd_pool *pool) {
  hd_pool_stats stats = {.struct_bytes = sizeof stats};
  assert_true(hd_pool_stats_get(pool, &stats));
  return stats;
}

/* ---- refusals ------------------------------------------------------------------------------------------------------ */

static void refused_pool(hd_pool_config config, int error) {
  errno = 0;
  assert_null(hd_pool_create(&config));
  assert_int_equal(errno, error);
}

static void bad_pools(void **state) {
  (void)state;
  const hd_pool_config good = {.struct_bytes = sizeof good, .item_bytes = 64};
  hd_pool_config config = good;
  config.struct_bytes = 8;
  refused_pool(config, EINVAL);
  config = good, config.item_bytes = 0;
  refused_pool(config, EINVAL);
  config = good, config.item_bytes = SIZE_MAX;
  refused_pool(config, EINVAL);
  config = good, config.alignment = 24;
  refused_pool(config, EINVAL);
  config = good, config.alignment = (size_t)1 << 62;
  refused_pool(config, EINVAL);
  config = good, config.maximum = 10, config.minimum = 11;
  refused_pool(config, EINVAL);
  config = good, config.maximum = 10, config.initial = 11;
  refused_pool(config, EINVAL);
  config = good, config.limit_bytes = 63;
  refused_pool(config, EINVAL);
  config = good, config.maximum = SIZE_MAX - 1, config.extra = 1;
  refused_pool(config, EINVAL);
  config = good, config.initial = SIZE_MAX / 2;
  refused_pool(config, ENOMEM);
  errno = 0;
  assert_null(hd_pool_create(NULL));
  assert_int_equal(errno, EINVAL);
  assert_int_equal(hd_pool_destroy(NULL), 0);
}

static void limits_at_the_edge(void **state) {
  (void)state;
  hd_pool_config config = {.struct_bytes = sizeof config, .item_bytes = 64, .maximum = SIZE_MAX - 1, .step = SIZE_MAX};
  hd_pool *pool = hd_pool_create(&config); /* the limit is beyond all addresses: it begins with what there is */
  assert_non_null(pool);
  void *item = hd_pool_take(pool);
  assert_non_null(item);
  assert_int_equal(hd_pool_destroy(pool), 1);
  hd_pool_config huge = {.struct_bytes = sizeof huge, .item_bytes = (size_t)1 << 40};
  pool = hd_pool_create(&huge);
  if (pool != NULL) {
    item = hd_pool_take(pool);
    if (item != NULL) hd_pool_give(pool, item);
    hd_pool_destroy(pool);
  }
}

static void bad_others(void **state) {
  (void)state;
  hd_string_pool_config strings = {.struct_bytes = sizeof strings, .intern = true, .limit_count = SIZE_MAX};
  errno = 0;
  assert_null(hd_string_pool_create(&strings));
  assert_int_equal(errno, EINVAL);
  assert_null(hd_string_pool_create(NULL));
  strings.limit_count = 0, strings.limit_bytes = PTRDIFF_MAX, errno = 0;
  assert_null(hd_string_pool_create(&strings));
  assert_int_equal(errno, ENOMEM);
  hd_handles_config handles = {.struct_bytes = sizeof handles, .alignment = 24};
  errno = 0;
  assert_null(hd_handles_create(&handles));
  assert_int_equal(errno, EINVAL);
  handles.alignment = 8;
  assert_null(hd_handles_create(&handles));
  handles.alignment = 0, handles.handle_bits = 16;
  assert_null(hd_handles_create(&handles));
  handles.handle_bits = 32, handles.limit_count = (1u << 20) + 1;
  assert_null(hd_handles_create(&handles));
  handles.limit_count = 0, handles.limit_bytes = SIZE_MAX;
  assert_null(hd_handles_create(&handles));
  handles.limit_bytes = 0;
  hd_handles *table = hd_handles_create(&handles);
  assert_non_null(table);
  static const size_t sizes[] = {SIZE_MAX, SIZE_MAX - 15, PTRDIFF_MAX, (size_t)1 << 36, (size_t)1 << 30};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    errno = 0;
    assert_int_equal(hd_handles_alloc(table, sizes[i]), 0);
    assert_int_equal(errno, ENOMEM);
  }
  hd_handle handle = hd_handles_alloc(table, 0);
  assert_true(handle != 0 && hd_handles_get(table, handle) != NULL);
  errno = 0;
  assert_false(hd_handles_resize(table, handle, SIZE_MAX));
  assert_int_equal(errno, ENOMEM);
  assert_int_equal(hd_handles_destroy(table), 1);
}

/* ---- misuse -------------------------------------------------------------------------------------------------------- */

typedef enum misuse { DOUBLE, DOUBLE_FAR, INSIDE, OTHER_POOL, STACK, NEVER, SHARED_DOUBLE, PLAIN_FREE, STALE_HANDLE, WILD_HANDLE } misuse;

static void misuse_pool(misuse what) {
  hd_pool_config config = {.struct_bytes = sizeof config, .name = "nodes", .item_bytes = 48, .shared = what == SHARED_DOUBLE};
  hd_pool *pool = hd_pool_create(&config), *other = make(48);
  char *item = hd_pool_take(pool), *second = hd_pool_take(pool), *foreign = hd_pool_take(other);
  int local = 0;
  (void)second;
  switch (what) {
    case DOUBLE_FAR:
      hd_pool_give(pool, item);
      hd_pool_flush(pool);
      hd_pool_give(pool, item);
      break;
    case INSIDE: hd_pool_give(pool, item + 16); break;
    case OTHER_POOL: hd_pool_give(pool, foreign); break;
    case STACK: hd_pool_give(pool, &local); break;
    case NEVER: hd_pool_give(pool, item + 48 * 50000); break;
    case PLAIN_FREE: hd_free(item); break;
    default:
      hd_pool_give(pool, item);
      hd_pool_give(pool, item);
  }
}

static void misuse_body(void *argument) {
  misuse what = *(misuse *)argument;
  if (what < STALE_HANDLE) {
    misuse_pool(what);
    return;
  }
  hd_handles_config config = {.struct_bytes = sizeof config, .name = "meshes"};
  hd_handles *table = hd_handles_create(&config);
  hd_handle handle = hd_handles_alloc(table, 100);
  hd_handles_free(table, handle);
  hd_handles_alloc(table, 100); /* the slot lives again, the handle does not */
  hd_handles_free(table, what == STALE_HANDLE ? handle : 12345678901u);
}

static void reported(void **state) {
  (void)state;
  static const struct {
    misuse what;
    const char *start, *end;
  } table[] = {
      {DOUBLE, "heddle: double give of 0x", " to the pool 'nodes' [HD-E08]\n"},
      {DOUBLE_FAR, "heddle: double give of 0x", " to the pool 'nodes' [HD-E08]\n"},
      {INSIDE, "heddle: give of 0x", ", an address inside an item, to the pool 'nodes' [HD-E08]\n"},
      {OTHER_POOL, "heddle: give of 0x", ", which is no item of the pool 'nodes' [HD-E08]\n"},
      {STACK, "heddle: give of 0x", ", which is no item of the pool 'nodes' [HD-E08]\n"},
      {NEVER, "heddle: give of 0x", ", which is no item of the pool 'nodes' [HD-E08]\n"},
      {SHARED_DOUBLE, "heddle: double give of 0x", " to the pool 'nodes' [HD-E08]\n"},
      {PLAIN_FREE, "heddle: free of 0x", ", memory of a pool 'nodes' [HD-E07]\n"},
      {STALE_HANDLE, "heddle: free of handle 0x", ", whose block is free already, to the table 'meshes' [HD-E08]\n"},
      {WILD_HANDLE, "heddle: free of handle 0x", ", which is none of the table 'meshes' [HD-E08]\n"},
  };
  for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
    misuse what = table[i].what;
    struct ts_outcome outcome;
    ts_fork_run(misuse_body, &what, 10, &outcome);
    assert_true(ts_signalled(&outcome, 6));
    assert_memory_equal(outcome.error, table[i].start, strlen(table[i].start));
    size_t length = strlen(outcome.error), tail = strlen(table[i].end);
    assert_true(length > tail);
    assert_string_equal(outcome.error + length - tail, table[i].end);
    assert_ptr_equal(strchr(outcome.error, '\n'), outcome.error + length - 1);
  }
}

/* ---- limits and slack ---------------------------------------------------------------------------------------------- */

typedef struct told {
  hd_pool *pool;
  void *give_back;
  bool answer;
  unsigned overflows, growths;
  hd_pool_event last;
} told;

static bool overflown(const hd_pool_event *event, void *user) {
  told *t = user;
  t->overflows++;
  t->last = *event;
  assert_null(t->give_back == NULL ? hd_pool_take(t->pool) : NULL); /* an overflow inside the callback just fails */
  if (t->give_back != NULL) hd_pool_give(t->pool, t->give_back);
  t->give_back = NULL;
  return t->answer;
}

static void grown(const hd_pool_event *event, void *user) {
  told *t = user;
  t->growths++;
  t->last = *event;
  assert_int_equal(stats_of(t->pool).allocated, event->allocated); /* no lock is held */
}

static void slack(void **state) {
  (void)state;
  for (int shared = 0; shared < 2; shared++) {
    told t = {.answer = false};
    hd_pool_config config = {.struct_bytes = sizeof config, .name = "names", .item_bytes = 32, .maximum = 100, .extra = 10, .step = 30,
                             .overflow = overflown, .growth = grown, .user = &t, .shared = shared == 1};
    void *items[110];
    t.pool = hd_pool_create(&config);
    for (size_t i = 0; i < 100; i++) assert_non_null(items[i] = hd_pool_take(t.pool));
    assert_int_equal(t.growths, 4);
    assert_int_equal(t.last.allocated, 100);
    assert_null(hd_pool_take(t.pool));
    assert_int_equal(t.overflows, 1);
    assert_string_equal(t.last.name, "names");
    assert_int_equal(t.last.limit, 100);
    assert_int_equal(t.last.slack, 10);
    t.give_back = items[50]; /* the callback makes room: no slack needed */
    assert_non_null(items[50] = hd_pool_take(t.pool));
    assert_int_equal(stats_of(t.pool).size, 100);
    t.answer = true;
    for (size_t i = 100; i < 110; i++) assert_non_null(items[i] = hd_pool_take(t.pool));
    assert_int_equal(t.overflows, 3);
    assert_null(hd_pool_take(t.pool));
    assert_int_equal(t.last.slack, 0);
    assert_int_equal(stats_of(t.pool).used, 110);
    for (size_t i = 0; i < 20; i++) hd_pool_give(t.pool, items[i]);
    hd_pool_flush(t.pool); /* closes the slack: 90 live */
    t.answer = false;
    for (size_t i = 0; i < 10; i++) assert_non_null(hd_pool_take(t.pool));
    assert_null(hd_pool_take(t.pool));
    assert_int_equal(hd_pool_destroy(t.pool), 100);
  }
}

static bool give_odd(void *item, size_t bytes, void *user) {
  (void)bytes;
  unsigned *count = ((void **)user)[1];
  if (++*count % 2 == 1) hd_pool_give(((void **)user)[0], item);
  return *count < 900;
}

static void walk_and_give(void **state) {
  (void)state;
  hd_pool *pool = make(2000);
  unsigned count = 0;
  void *user[] = {pool, &count};
  for (int i = 0; i < 1000; i++) hd_pool_take(pool);
  assert_false(hd_pool_walk(pool, give_odd, user));
  assert_int_equal(count, 900);
  assert_int_equal(hd_pool_destroy(pool), 550);
}

/* ---- memory -------------------------------------------------------------------------------------------------------- */

/* More than one segment; every item is the program's own; all of it comes back. */
static void without_limit(void **state) {
  (void)state;
  enum { COUNT = 100 };
  static uint8_t *items[COUNT];
  hd_pool *pool = make(MIB);
  size_t before = ts_rss();
  for (size_t i = 0; i < COUNT; i++) {
    assert_non_null(items[i] = hd_pool_take(pool));
    memset(items[i], (int)i + 1, MIB);
  }
  assert_true(ts_rss() > before + 90 * MIB);
  for (size_t i = 0; i < COUNT; i++) assert_true(items[i][0] == i + 1 && items[i][MIB - 1] == i + 1);
  for (size_t i = 0; i < COUNT; i++) hd_pool_give(pool, items[i]);
  assert_int_equal(stats_of(pool).list, COUNT);
  assert_true(hd_pool_flush(pool) >= COUNT * MIB);
  assert_true(ts_rss() < before + 4 * MIB);
  hd_pool_stats stats = stats_of(pool);
  assert_int_equal(stats.list + stats.used, 0);
  assert_int_equal(stats.max, COUNT);
  assert_int_equal(stats.count, COUNT);
  assert_int_equal(hd_pool_destroy(pool), 0);
}

/* `kept` gives memory back as it becomes free, without any call. */
static void kept(void **state) {
  (void)state;
  enum { COUNT = 200000 };
  static void *items[COUNT];
  hd_pool_config config = {.struct_bytes = sizeof config, .item_bytes = 256, .kept = 1000};
  hd_pool *pool = hd_pool_create(&config);
  for (size_t i = 0; i < COUNT; i++) memset(items[i] = hd_pool_take(pool), 1, 256);
  size_t full = ts_rss();
  for (size_t i = 0; i < COUNT; i++) hd_pool_give(pool, items[i]);
  assert_true(ts_rss() < full - 45 * MIB);
  hd_pool_stats stats = stats_of(pool);
  assert_true(stats.list <= 1000 + 64 + 256);
  assert_true(stats.release_count > 700);
  unsigned dirty = 0;
  for (size_t i = 0; i < COUNT; i++) {
    uint8_t *item = hd_pool_take_zeroed(pool);
    for (size_t at = 0; at < 256; at++) dirty |= item[at];
  }
  assert_int_equal(dirty, 0);
  hd_pool_destroy(pool);
}

/* The span of the group that is being taken from stays only as long as it is. */
static void kept_follows(void **state) {
  (void)state;
  enum { SPAN = 1024 };
  static void *items[2 * SPAN];
  hd_pool_config config = {.struct_bytes = sizeof config, .item_bytes = 64, .kept = 10, .step = 2 * SPAN};
  hd_pool *pool = hd_pool_create(&config);
  for (size_t i = 0; i < 2 * SPAN; i++) items[i] = hd_pool_take(pool);
  for (size_t i = SPAN; i < 2 * SPAN; i++) hd_pool_give(pool, items[i]);
  assert_int_equal(stats_of(pool).list, SPAN);
  hd_pool_give(pool, items[0]);
  items[0] = hd_pool_take(pool); /* from the first span now */
  hd_pool_give(pool, items[0]);
  assert_int_equal(stats_of(pool).list, 1);
  assert_int_equal(hd_pool_destroy(pool), SPAN - 1);
}

/* A hole that compaction had to leave below a pinned block is closed when the pin is gone. */
static void unpinned_moves(void **state) {
  (void)state;
  hd_handles_config config = {.struct_bytes = sizeof config};
  hd_handles *table = hd_handles_create(&config);
  hd_handle first = hd_handles_alloc(table, 1000), second = hd_handles_alloc(table, 1000), third = hd_handles_alloc(table, 1000);
  void *low = hd_handles_get(table, first), *pinned = hd_handles_pin(table, second), *high = hd_handles_get(table, third);
  hd_handles_free(table, first);
  hd_compaction step = hd_handles_compact(table, SIZE_MAX);
  assert_true(step.done && step.moved_count == 0);
  assert_ptr_equal(hd_handles_get(table, second), pinned);
  assert_true(hd_handles_unpin(table, second));
  step = hd_handles_compact(table, SIZE_MAX);
  assert_true(step.done && step.moved_count == 2);
  assert_ptr_equal(hd_handles_get(table, second), low);
  assert_ptr_equal(hd_handles_get(table, third), pinned);
  assert_true(high > hd_handles_get(table, third));
  assert_int_equal(hd_handles_destroy(table), 2);
}

/* Zeroed items of fresh memory are not touched. */
static void zeroed_stays_untouched(void **state) {
  (void)state;
  hd_pool *pool = make(4 * MIB);
  size_t before = ts_rss();
  uint8_t *items[16];
  for (size_t i = 0; i < 16; i++) assert_non_null(items[i] = hd_pool_take_zeroed(pool));
  assert_true(ts_rss() < before + MIB);
  memset(items[3], 7, 4 * MIB);
  hd_pool_give(pool, items[3]);
  uint8_t *again = hd_pool_take_zeroed(pool);
  assert_ptr_equal(again, items[3]);
  for (size_t at = 0; at < 4 * MIB; at += 999) assert_int_equal(again[at], 0);
  hd_pool_give(pool, again);
  hd_pool_flush(pool);
  before = ts_rss();
  again = hd_pool_take_zeroed(pool);
  assert_true(ts_rss() < before + MIB);
  hd_pool_destroy(pool);
}

static void strings_give_back(void **state) {
  (void)state;
  for (int intern = 0; intern < 2; intern++) {
    hd_string_pool_config config = {.struct_bytes = sizeof config, .intern = intern == 1};
    hd_string_pool *pool = hd_string_pool_create(&config);
    size_t before = ts_rss();
    char line[40];
    for (unsigned i = 0; i < 1000000; i++) {
      int length = snprintf(line, sizeof line, "string number %u of many", i);
      assert_int_equal(hd_string_pool_append(pool, line, (size_t)length), i);
    }
    assert_true(ts_rss() > before + 30 * MIB);
    assert_string_equal(hd_string_pool_text(pool, 999999), "string number 999999 of many");
    if (intern) assert_int_equal(hd_string_pool_append_32(pool, "string number 77 of many", 24), 77);
    assert_true(hd_string_pool_flush(pool, 600000)); /* the table has grown often: its order is not that of the numbers */
    for (unsigned i = 0; intern && i < 600000; i++) {
      if (hd_string_pool_find(pool, hd_string_pool_text(pool, i), hd_string_pool_length(pool, i)) != i) fail_msg("string %u is lost", i);
    }
    assert_true(hd_string_pool_flush(pool, 1000));
    hd_collect(0); /* the old table waits among the free runs */
    assert_true(ts_rss() < before + 4 * MIB);
    assert_string_equal(hd_string_pool_text(pool, 999), "string number 999 of many");
    assert_int_equal(hd_string_pool_destroy(pool), 1000);
  }
}

static void handles_give_back(void **state) {
  (void)state;
  enum { COUNT = 20000 };
  static hd_handle handles[COUNT];
  hd_handles_config config = {.struct_bytes = sizeof config, .name = "meshes"};
  hd_handles *table = hd_handles_create(&config);
  size_t before = ts_rss();
  for (size_t i = 0; i < COUNT; i++) {
    handles[i] = hd_handles_alloc(table, 4000);
    memset(hd_handles_get(table, handles[i]), (int)(i % 251), 4000);
  }
  for (size_t i = 0; i < COUNT; i++) {
    if (i % 10 != 0) hd_handles_free(table, handles[i]);
  }
  hd_handles_stats stats = {.struct_bytes = sizeof stats};
  hd_handles_stats_get(table, &stats);
  assert_in_range(stats.fragmentation, 890, 910);
  assert_true(ts_rss() > before + 70 * MIB);
  hd_compaction step;
  unsigned steps = 0;
  do {
    step = hd_handles_compact(table, 100 * KIB);
    assert_true(step.moved_bytes <= 100 * KIB);
    steps++;
  } while (!step.done);
  assert_in_range(steps, 70, 100);
  hd_handles_stats_get(table, &stats);
  assert_int_equal(stats.holes, 0);
  assert_true(ts_rss() < before + 14 * MIB);
  for (size_t i = 0; i < COUNT; i += 10) assert_int_equal(((uint8_t *)hd_handles_get(table, handles[i]))[3999], i % 251);
  assert_null(hd_handles_get(table, handles[1]));
  assert_int_equal(hd_handles_destroy(table), COUNT / 10);
}

/* ---- class pools --------------------------------------------------------------------------------------------------- */

static void classes(void **state) {
  (void)state;
  enum { KINDS = 27 };
  hd_pool_class table[KINDS];
  char names[KINDS][8];
  for (size_t i = 0; i < KINDS; i++) {
    snprintf(names[i], sizeof names[i], "kind%zu", i);
    table[i] = (hd_pool_class){names[i], i == 5 ? 0 : 16 * (i + 1), i % 2 ? 250 : 1000};
  }
  hd_class_pools *pools = hd_class_pools_create(table, KINDS, NULL);
  assert_non_null(pools);
  assert_int_equal(pools->count, KINDS);
  assert_null(pools->pools[5]);
  void *item = NULL;
  for (size_t i = 0; i < KINDS; i++) {
    for (size_t n = 0; pools->pools[i] != NULL && n <= i; n++) item = hd_class_pools_take(pools, i);
  }
  hd_class_pools_give(pools, KINDS - 1, item);
  hd_pool_stats sum = {.struct_bytes = sizeof sum};
  assert_true(hd_class_pools_stats_get(pools, &sum));
  assert_int_equal(sum.count, 27 * 28 / 2 - 6);
  assert_int_equal(sum.used, sum.count - 1);
  assert_int_equal(stats_of(pools->pools[3]).kept, 250);
  char text[8192], cut[100];
  size_t length = hd_class_pools_text(pools, text, sizeof text);
  assert_int_equal(length, strlen(text));
  assert_non_null(strstr(text, "\nkind26 "));
  assert_null(strstr(text, "\nkind5 "));
  assert_non_null(strstr(text, "\nall "));
  assert_int_equal(hd_class_pools_text(pools, cut, sizeof cut), length);
  assert_int_equal(strlen(cut), sizeof cut - 1);
  assert_int_equal(hd_class_pools_text(pools, NULL, 0), length);
  hd_class_pools_flush(pools);
  assert_int_equal(hd_class_pools_destroy(pools), sum.used);
  errno = 0;
  assert_null(hd_class_pools_create(table, 0, NULL));
  assert_int_equal(errno, EINVAL);
  hd_pool_config common = {.struct_bytes = sizeof common, .minimum = 10, .maximum = 5};
  assert_null(hd_class_pools_create(table, KINDS, &common));
}

static void short_handles_wrap(void **state) {
  (void)state;
  hd_handles_config config = {.struct_bytes = sizeof config, .handle_bits = 32, .limit_count = 2};
  hd_handles *table = hd_handles_create(&config);
  hd_handle first = hd_handles_alloc_32(table, 10), last = first;
  for (unsigned i = 0; i < 10000; i++) {
    hd_handles_free(table, last);
    hd_handle next = hd_handles_alloc_32(table, 10);
    assert_true(next != 0 && next >> 32 == 0 && next != last);
    assert_null(hd_handles_get(table, last));
    last = next;
  }
  assert_int_equal(hd_handles_destroy(table), 1);
  config.handle_bits = 64;
  table = hd_handles_create(&config);
  errno = 0;
  assert_int_equal(hd_handles_alloc_32(table, 1), 0);
  assert_int_equal(errno, EINVAL);
  hd_handles_destroy(table);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(bad_pools), cmocka_unit_test(limits_at_the_edge), cmocka_unit_test(bad_others),
      cmocka_unit_test(reported), cmocka_unit_test(slack), cmocka_unit_test(walk_and_give),
      cmocka_unit_test(without_limit), cmocka_unit_test(kept), cmocka_unit_test(kept_follows),
      cmocka_unit_test(unpinned_moves), cmocka_unit_test(zeroed_stays_untouched),
      cmocka_unit_test(strings_give_back), cmocka_unit_test(handles_give_back), cmocka_unit_test(classes),
      cmocka_unit_test(short_handles_wrap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
