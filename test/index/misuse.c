/* Misuse of index pools: each mistake is one line on stderr, of exactly this text, then abort; with onerror:report the program goes on
 * and the pool is whole.
 * SPDX-License-Identifier: MIT */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle/index_pool.h>

#include "../support/support.h"

typedef struct misuse {
  void (*run)(hd_index_pool *pool);
  const char *line;
} misuse;

static hd_index_pool *make(uint32_t object_slots) {
  hd_index_config config = {
      .struct_bytes = sizeof config, .name = "nodes", .slot_bytes = 8, .object_slots = object_slots, .maximum = 10000};
  hd_index_pool *pool = hd_index_pool_create(&config);
  TS_CHECK(pool != NULL, "no pool");
  return pool;
}

/* 1: 3 slots live, 4: 3 slots, 7: 200 slots live, 207: 1 slot, 208: 5 slots live. */
static void fill(hd_index_pool *pool) {
  hd_index_pool_take(pool, 3);
  hd_index_pool_take(pool, 3);
  hd_index_pool_take(pool, 200);
  hd_index_pool_take(pool, 1);
  TS_CHECK(hd_index_pool_take(pool, 5) == 208, "layout");
}

static void twice(hd_index_pool *pool) {
  hd_index_pool_give(pool, 4);
  hd_index_pool_give(pool, 4);
}

static void twice_large(hd_index_pool *pool) {
  hd_index_pool_give(pool, 7);
  hd_index_pool_give(pool, 7);
}

static void twice_one(hd_index_pool *pool) {
  hd_index_pool_give(pool, 207);
  hd_index_pool_give(pool, 207);
}

static void inner(hd_index_pool *pool) { hd_index_pool_give(pool, 2); }
static void inner_large(hd_index_pool *pool) { hd_index_pool_give(pool, 150); }
static void inner_digit(hd_index_pool *pool) { hd_index_pool_give(pool, 8); }
static void never(hd_index_pool *pool) { hd_index_pool_give(pool, 213); }
static void beyond(hd_index_pool *pool) { hd_index_pool_give(pool, UINT32_MAX); }

static void merged(hd_index_pool *pool) {
  hd_index_pool_give(pool, 4);
  hd_index_pool_give(pool, 7);
  hd_index_pool_merge(pool);
  hd_index_pool_give(pool, 7);
}

static void in_free(hd_index_pool *pool) {
  hd_index_pool_give(pool, 4);
  hd_index_pool_give(pool, 5);
}

static void cut_off(hd_index_pool *pool) {
  hd_index_pool_give(pool, 208);
  hd_index_pool_shrink(pool);
  hd_index_pool_give(pool, 208);
}

static void written(hd_index_pool *pool) {
  hd_index_pool_give(pool, 1);
  hd_index_pool_give(pool, 4);
  memset(hd_index_pool_at(pool, 4), 0xee, 8);
  TS_CHECK(hd_index_pool_take(pool, 3) == 213 && hd_index_pool_free_count(pool, 6) == 1, "the lists were not mended");
}

static void written_near(hd_index_pool *pool) {
  uint32_t wrong = 2;
  hd_index_pool_give(pool, 1);
  hd_index_pool_give(pool, 4);
  memcpy(hd_index_pool_at(pool, 4), &wrong, 4);
  TS_CHECK(hd_index_pool_take(pool, 3) == 213 && hd_index_pool_free_count(pool, 6) == 1, "the lists were not mended");
}

static void written_large(hd_index_pool *pool) {
  hd_index_pool_give(pool, 7);
  memset(hd_index_pool_at(pool, 7), 0x11, 8);
  TS_CHECK(hd_index_pool_take(pool, 190) == 7, "the bins were not mended");
}

static void from_other_pool(hd_index_pool *pool) {
  hd_index_pool *other = make(0);
  hd_index_pool_give(other, 1);
  hd_index_pool_destroy(other);
  (void)pool;
}

static const misuse table[] = {
    {twice, "double give of 4 (3 slots)"},
    {twice_large, "double give of 7 (200 slots)"},
    {twice_one, "double give of 207 (1 slot)"},
    {inner, "give of 2, inside the object of 3 slots at 1"},
    {inner_large, "give of 150, inside the object of 200 slots at 7"},
    {inner_digit, "give of 8, inside the object of 200 slots at 7"},
    {never, "give of 213, an index that was never handed out"},
    {beyond, "give of 4294967295, an index that was never handed out"},
    {merged, "give of 7, in free memory"},
    {in_free, "give of 5, in free memory"},
    {cut_off, "give of 208, an index that was never handed out"},
    {written, "write after give to 4"},
    {written_near, "write after give to 4"},
    {written_large, "write after give to 7"},
    {from_other_pool, "give of 1, an index that was never handed out"},
};

static void run(void *argument) {
  const misuse *one = argument;
  hd_index_pool *pool = make(0);
  fill(pool);
  one->run(pool);
  const char *wrong = hd_index_pool_check(pool);
  TS_CHECK(wrong == NULL, "%s", wrong);
}

static unsigned told;

static void hear(const void *p, const char *code) { told += p != NULL && strcmp(code, "HD-E09") == 0; }

static void run_on(void *argument) {
  TS_CHECK(hd_option_set("onerror", "report") == HD_OK, "onerror");
  hd_misuse_hook_set(hear);
  run(argument);
  TS_CHECK(told == 1, "the hook was called %u times", told);
}

static void free_object(void *argument) {
  (void)argument;
  hd_index_pool *pool = make(1);
  hd_free(hd_index_pool_at(pool, hd_index_pool_take(pool, 1)));
}

static void bad_config(void) {
  hd_index_config good = {.struct_bytes = sizeof good, .slot_bytes = 8, .maximum = 10}, bad[14];
  for (unsigned i = 0; i < 14; i++) bad[i] = good;
  bad[0].struct_bytes = 0;
  bad[1].slot_bytes = 0;
  bad[2].slot_bytes = 7;
  bad[3].slot_bytes = 65540;
  bad[4].maximum = 0;
  bad[5].maximum = (uint64_t)1 << 32;
  bad[6].slack = UINT32_MAX;
  bad[7].initial = 11;
  bad[8].minimum = 11;
  bad[9].object_slots = 11;
  bad[10].slack = UINT64_MAX;
  bad[11].maximum = UINT64_MAX;
  bad[12].slot_bytes = 2;
  bad[13].slot_bytes = UINT32_MAX;
  for (unsigned i = 0; i < 14; i++) {
    TS_CHECK(hd_index_pool_create(&bad[i]) == NULL, "configuration %u was taken", i);
  }
  TS_CHECK(hd_index_pool_create(NULL) == NULL, "no configuration was taken");
  hd_index_pool_destroy(NULL);
  hd_index_pool *pool = hd_index_pool_create(&good);
  hd_index_stats stats = {.struct_bytes = 8};
  TS_CHECK(pool != NULL && !hd_index_pool_stats_get(pool, &stats), "a short struct");
  hd_index_pool_give(pool, HD_INDEX_NONE);
  hd_index_pool_destroy(pool);
}

int main(void) {
  struct ts_outcome outcome;
  char line[256];
  for (unsigned i = 0; i < sizeof table / sizeof table[0]; i++) {
    const char *what = table[i].line;
    void *argument = (void *)(uintptr_t)&table[i];
    snprintf(line, sizeof line, "heddle: index pool 'nodes': %s [HD-E09]\n", what);
    ts_fork_run(run, argument, 10, &outcome);
    bool told = strcmp(outcome.error, line) == 0;
    TS_CHECK(told && ts_signalled(&outcome, SIGABRT), "%s gives %x and: %s", what, outcome.status, outcome.error);
    ts_fork_run(run_on, argument, 10, &outcome);
    told = strcmp(outcome.error, line) == 0;
    TS_CHECK(told && ts_exited(&outcome, 0), "%s gives %x and: %s", what, outcome.status, outcome.error);
  }
  ts_fork_run(free_object, NULL, 10, &outcome);
  bool told = strstr(outcome.error, "memory of an index pool 'nodes' [HD-E07]") != NULL;
  TS_CHECK(told && ts_signalled(&outcome, SIGABRT), "free of an object: %s", outcome.error);
  bad_config();
  return 0;
}
