/* Fuzz target: scripts of index pools. Objects keep their content through compaction, saving and loading, the pool agrees with itself,
 * and what is no live object is reported and changes nothing.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdlib.h>

#include <heddle/index_pool.h>

#include "fuzz.h"

enum { OBJECTS = 300, STEPS_MAX = 300, SLOT = 8, LIMIT = 6000, FILE_MAX = 1 << 17 };

static hd_index_pool *pool;
static struct object {
  uint32_t index, slots;
  unsigned tag;
} object[OBJECTS];
static unsigned live, tags;
static uint32_t one_size;
static unsigned char file[FILE_MAX];
static size_t file_bytes, file_at;

static void check(const char *what) {
  const char *wrong = hd_index_pool_check(pool);
  FZ_CHECK(wrong == NULL, "%s: %s", what, wrong);
  hd_index_stats stats = {.struct_bytes = sizeof stats};
  hd_index_pool_stats_get(pool, &stats);
  uint64_t used = 0;
  for (unsigned i = 0; i < live; i++) {
    used += object[i].slots;
    FZ_CHECK(hd_index_pool_slots(pool, object[i].index) == object[i].slots, "%s: slots of %u", what, object[i].index);
    fz_want_whole(hd_index_pool_at(pool, object[i].index), object[i].slots * SLOT, object[i].tag, what);
  }
  FZ_CHECK(stats.used == used && stats.used_count == live && stats.used + stats.free == stats.ptr - 1, "%s: counters", what);
}

static void take(struct fz *in, bool zeroed) {
  unsigned how = fz_byte(in);
  uint32_t slots = one_size ? one_size : how < 200 ? how % 120 : how < 254 ? fz_word(in) % 1000 : how == 254 ? 0 : UINT32_MAX - 5;
  if (live == OBJECTS) return;
  errno = 0;
  uint32_t index = zeroed ? hd_index_pool_take_zeroed(pool, slots) : hd_index_pool_take(pool, slots);
  FZ_CHECK(errno == (index ? 0 : slots == 0 ? EINVAL : ENOMEM) || (index == 0 && errno == EINVAL), "errno %d for %u slots", errno, slots);
  if (index == 0) return;
  FZ_CHECK(slots > 0 && slots <= LIMIT, "%u slots at %u", slots, index);
  unsigned char *p = hd_index_pool_at(pool, index);
  FZ_CHECK(hd_index_pool_index(pool, p) == index && hd_index_pool_index(pool, p + 1) == 0, "index of %u", index);
  if (zeroed) FZ_CHECK(fz_is_zero(p, slots * SLOT), "not zero");
  for (unsigned i = 0; i < live; i++)
    FZ_CHECK(index >= object[i].index + object[i].slots || object[i].index >= index + slots, "%u lies in %u", index, object[i].index);
  object[live++] = (struct object){index, slots, ++tags};
  fz_fill(p, slots * SLOT, tags);
}

static void give(unsigned which) {
  if (live == 0) return;
  struct object *o = &object[which % live];
  fz_want_whole(hd_index_pool_at(pool, o->index), o->slots * SLOT, o->tag, "an object");
  unsigned before = fz_reports;
  hd_index_pool_give(pool, o->index);
  FZ_CHECK(fz_reports == before && hd_index_pool_slots(pool, o->index) == 0, "given, and still there");
  *o = object[--live];
}

/* A give of any index that is not the start of a live object. */
static void misuse(uint32_t index) {
  for (unsigned i = 0; i < live; i++)
    if (object[i].index == index) return;
  unsigned before = fz_reports;
  hd_index_pool_give(pool, index);
  FZ_CHECK(fz_reports == before + (index != 0), "%u reports for %u", fz_reports - before, index);
}

static void moved(hd_index_pool *of, uint32_t from, uint32_t to, uint32_t slots, void *user) {
  (void)user;
  FZ_CHECK(of == pool && to < from, "moved from %u to %u", from, to);
  for (unsigned i = 0; i < live; i++) {
    if (object[i].index != from) continue;
    FZ_CHECK(object[i].slots == slots, "%u slots, not %u", slots, object[i].slots);
    object[i].index = to;
    return;
  }
  FZ_CHECK(false, "%u was moved and is not live", from);
}

static bool visit(hd_index_pool *of, uint32_t index, uint32_t slots, void *user) {
  (void)of;
  for (unsigned i = 0; i < live; i++)
    if (object[i].index == index && object[i].slots == slots) return ++*(unsigned *)user > 0;
  FZ_CHECK(false, "the walk shows %u", index);
}

static bool write_file(void *user, const void *data, size_t bytes) {
  (void)user;
  if (bytes > FILE_MAX - file_bytes) return false;
  memcpy(file + file_bytes, data, bytes);
  file_bytes += bytes;
  return true;
}

static bool read_file(void *user, void *data, size_t bytes, size_t *done) {
  (void)user;
  *done = bytes < file_bytes - file_at ? bytes : file_bytes - file_at;
  memcpy(data, file + file_at, *done);
  file_at += *done;
  return true;
}

static void save_and_load(bool compact) {
  hd_index_save how = {.struct_bytes = sizeof how, .compact = compact, .moved = moved};
  file_bytes = file_at = 0;
  FZ_CHECK(hd_index_pool_save_to(pool, write_file, NULL, &how) == HD_INDEX_OK, "%s", hd_index_pool_error(pool));
  hd_index_stats stats = {.struct_bytes = sizeof stats};
  hd_index_pool_stats_get(pool, &stats);
  hd_index_status wanted = stats.ptr - 1 > stats.size - stats.extra ? HD_INDEX_TOO_LARGE : HD_INDEX_OK; /* slack does not count */
  FZ_CHECK(hd_index_pool_load_from(pool, read_file, NULL) == wanted, "%s", hd_index_pool_error(pool));
  check("loaded");
}

static void run_step(struct fz *in) {
  unsigned what = fz_byte(in), seen = 0;
  switch (what % 16) {
    case 0: hd_index_pool_merge(pool); break;
    case 1: hd_index_pool_shrink(pool); break;
    case 2: hd_index_pool_compact(pool, what / 16 * 20, moved, NULL); break;
    case 3: misuse(fz_word(in)); break;
    case 4: save_and_load(what & 16); break;
    case 5: check("in between"); break;
    case 6:
      hd_index_pool_walk(pool, visit, &seen);
      FZ_CHECK(seen == live, "the walk shows %u of %u", seen, live);
      break;
    case 7:
      if (what > 220) hd_index_pool_reset(pool), live = 0;
      else hd_index_pool_limit(pool, 100 + fz_word(in) % (LIMIT - 100));
      break;
    case 8:
    case 9:
    case 10: give(fz_byte(in)); break;
    default: take(in, what & 16);
  }
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t bytes) {
  struct fz in = {data, bytes};
  unsigned how = fz_byte(&in);
  one_size = how & 1 ? 1 + how / 2 % 4 : 0;
  hd_index_config config = {.struct_bytes = sizeof config, .name = "fuzz", .slot_bytes = SLOT, .object_slots = one_size};
  config.maximum = LIMIT - 100;
  config.slack = how & 64 ? 100 : 0;
  config.step = how & 128 ? 16 : 0;
  fz_count_reports();
  pool = hd_index_pool_create(&config);
  FZ_CHECK(pool != NULL, "no pool, errno %d", errno);
  live = 0;
  for (unsigned step = 0; step < STEPS_MAX && in.left > 0; step++) run_step(&in);
  check("at the end");
  hd_index_pool_destroy(pool);
  return 0;
}
