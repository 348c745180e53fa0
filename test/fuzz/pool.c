/* Fuzz target: scripts of pools. Items keep their content and lie apart, zeroed ones are zero, counters are exact, and what is no live
 * item is reported and changes nothing.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include <heddle/pool.h>

#include "fuzz.h"

enum { ITEMS = 600, STEPS_MAX = 500 };

static hd_pool *pool;
static struct item {
  unsigned char *at;
  unsigned tag;
} item[ITEMS];
static unsigned live, tags;
static size_t item_bytes, stride, limit, slack;
static bool opens; /* the overflow callback grants the slack */

static bool overflow(const hd_pool_event *event, void *user) {
  (void)user;
  FZ_CHECK(event->used >= limit && event->slack <= 3, "an overflow at %zu of %zu", event->used, limit);
  return opens;
}

static void check_counts(void) {
  hd_pool_stats stats = {.struct_bytes = sizeof stats};
  FZ_CHECK(hd_pool_stats_get(pool, &stats), "no statistics");
  FZ_CHECK(stats.used == live && stats.used + stats.list == stats.allocated, "%zu live, not %u", stats.used, live);
  FZ_CHECK(stats.max >= stats.used && (limit == 0 || stats.used <= limit + slack), "%zu of %zu", stats.used, limit);
}

static void take(bool zeroed) {
  if (live == ITEMS) return;
  errno = 0;
  unsigned char *p = zeroed ? hd_pool_take_zeroed(pool) : hd_pool_take(pool);
  FZ_CHECK(errno == (p ? 0 : ENOMEM), "errno %d", errno);
  if (p == NULL) {
    FZ_CHECK(limit != 0 && live >= limit, "refused with %u of %zu live", live, limit);
    return;
  }
  if (zeroed) FZ_CHECK(fz_is_zero(p, item_bytes), "an item that is not zero");
  for (unsigned i = 0; i < live; i++)
    FZ_CHECK(p >= item[i].at + stride || item[i].at >= p + stride, "%p lies in %p", (void *)p, (void *)item[i].at);
  item[live] = (struct item){p, ++tags};
  fz_fill(p, item_bytes, tags);
  live++;
}

static void give(unsigned which) {
  if (live == 0) return;
  struct item *it = &item[which % live];
  fz_want_whole(it->at, item_bytes, it->tag, "an item");
  unsigned before = fz_reports;
  errno = 7;
  hd_pool_give(pool, it->at);
  FZ_CHECK(fz_reports == before && errno == 7, "a report of a live item, or errno %d", errno);
  FZ_CHECK(!hd_pool_owns(pool, it->at), "still its item");
  *it = item[--live];
}

static void misuse(unsigned which) {
  unsigned char local[16];
  unsigned before = fz_reports;
  unsigned char *bad = local;
  if (which & 1 && live > 0) {
    bad = item[which / 2 % live].at + 1 + which % (stride > 1 ? stride - 1 : 1);
    if (stride == 1) return;
  } else if (which & 2 && live > 0) {
    bad = item[which / 4 % live].at;
    give(which / 4 % live);
  }
  FZ_CHECK(!hd_pool_owns(pool, bad), "owner of no item");
  hd_pool_give(pool, bad);
  FZ_CHECK(fz_reports == before + 1, "%u reports", fz_reports - before);
}

static bool visit(void *p, size_t bytes, void *user) {
  FZ_CHECK(bytes == item_bytes, "an item of %zu bytes", bytes);
  for (unsigned i = 0; i < live; i++)
    if (item[i].at == p) return ++*(unsigned *)user < ITEMS + 1;
  FZ_CHECK(false, "the walk shows %p, which is not live", p);
}

static void start(struct fz *in) {
  static const size_t sizes[] = {1, 8, 24, 48, 100, 4000, 65536, 70000};
  unsigned how = fz_byte(in), more = fz_byte(in);
  hd_pool_config config = {.struct_bytes = sizeof config, .name = "fuzz", .item_bytes = sizes[how & 7], .shared = how & 8};
  item_bytes = config.item_bytes;
  if (how & 16) config.alignment = (size_t)1 << more % 12;
  config.maximum = limit = how & 32 ? more + 1 : 0;
  config.extra = slack = how & 64 ? 3 : 0;
  config.kept = more % 4 * 10;
  config.step = more % 5 * 7;
  config.overflow = overflow;
  opens = how & 128;
  if (!opens) slack = 0;
  pool = hd_pool_create(&config);
  FZ_CHECK(pool != NULL, "no pool, errno %d", errno);
  hd_pool_stats stats = {.struct_bytes = sizeof stats};
  hd_pool_stats_get(pool, &stats);
  stride = stats.stride;
  live = 0;
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct fz in = {data, bytes};
  fz_count_reports();
  start(&in);
  for (unsigned step = 0; step < STEPS_MAX && in.left > 0; step++) {
    unsigned what = fz_byte(&in);
    unsigned seen = 0;
    switch (what % 16) {
      case 0: hd_pool_flush(pool); break;
      case 1: hd_pool_trim(pool, what / 16); break;
      case 2: misuse(fz_byte(&in)); break;
      case 3:
        hd_pool_walk(pool, visit, &seen);
        FZ_CHECK(seen == live, "the walk shows %u of %u", seen, live);
        break;
      case 4:
        if (what > 200) hd_pool_reset(pool), live = 0;
        break;
      case 5: check_counts(); break;
      case 6:
        for (unsigned i = what; i > 0; i--) take(false);
        break;
      case 7:
        for (unsigned i = what; i > 0; i--) give(i * 7);
        break;
      case 8:
      case 9:
      case 10:
      case 11: give(fz_byte(&in)); break;
      default: take(what & 16);
    }
  }
  check_counts();
  for (unsigned i = 0; i < live; i++) fz_want_whole(item[i].at, item_bytes, item[i].tag, "an item at the end");
  FZ_CHECK(hd_pool_destroy(pool) == live, "items that were live");
  return 0;
}
