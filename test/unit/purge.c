/* Giving memory back: when it is done and when it is not, how much collecting leaves, and what the helper is.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <dirent.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/heap.h"
#include "core/options.h"
#include "core/purge.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"
#include "pages.h"
#include "worker.h"

#define MIB ((size_t)1 << 20)

static void set(const char *name, const char *value) { assert_int_equal(hd_option_set(name, value), HD_OK); }

static void *filled(size_t bytes) {
  void *p = hd_malloc(bytes);
  assert_non_null(p);
  return memset(p, 0x5a, bytes);
}

static size_t dirty_bytes(void) { return hd_load_relaxed(&hdi_space.dirty.units) << HD_UNIT_SHIFT; }

/* First of all: nothing has grown yet. */
static void test_small_heap_has_no_helper(void **state) {
  (void)state;
  for (int i = 0; i < 20; i++) hd_free(filled(3 * MIB));
  assert_in_range(hd_load_relaxed(&hdi_space.top), 1, 159); /* 10 MiB */
  assert_int_equal(hd_load_relaxed(&hdi_purge_running), 0);
}

static void test_off_is_off(void **state) {
  (void)state;
  set("purge", "off");
  hd_free(filled(64 * MIB));
  assert_int_equal(hd_load_relaxed(&hdi_purge_running), 0);
  assert_true(dirty_bytes() >= 64 * MIB);
}

static void test_collects_at_once(void **state) {
  (void)state;
  for (int i = 0; i < 5; i++) {
    hd_free(filled(32 * MIB));
    assert_true(hd_collect(0));
    assert_int_equal(dirty_bytes(), 0);
  }
  assert_false(hd_collect(0)); /* there is nothing more */
}

static void test_collects_what_it_releases(void **state) {
  (void)state;
  void *p = filled(HD_SMALL_MAX + 1); /* of a small class the block would be malloc's */
  hd_unit *page = hdi_space_find(p);
  hd_free(p);
  assert_int_equal(page->kind, HD_UNIT_PAGE); /* its class keeps it */
  hd_collect(0);
  assert_int_not_equal(page->kind, HD_UNIT_PAGE);
  assert_int_equal(hdi_heap_self->cached_units, 0);
  assert_int_equal(dirty_bytes(), 0);
}

static void *rested[2];

static void rest(worker *self) {
  (void)self;
  only_pages();
  for (int i = 0; i < 2; i++) rested[i] = hd_malloc(HD_MEDIUM_MAX);
  hd_free(rested[0]); /* into its magazine */
}

/* A page of a thread that rests, with one block in the magazine and another in a parcel that nobody has sent: one call gets it. */
static void test_collects_from_others(void **state) {
  (void)state;
  static worker other;
  assert_int_equal(worker_start(&other), 0);
  worker_do(&other, rest);
  hd_unit *page = hdi_space_find(rested[0])->head;
  assert_ptr_equal(hdi_space_find(rested[1])->head, page);
  hd_free(rested[1]);
  assert_int_equal(hdi_heap_self->parcels_open, 1);
  hd_collect(0);
  assert_int_not_equal(page->kind, HD_UNIT_PAGE);
  assert_int_equal(dirty_bytes(), 0);
  worker_end(&other);
}

/* Of runs apart from each other as many stay as were asked for. */
static void test_collect_keeps(void **state) {
  (void)state;
  enum { COUNT = 48 };
  void *blocks[2 * COUNT];
  for (int i = 0; i < 2 * COUNT; i++) blocks[i] = filled(2 * MIB);
  for (int i = 0; i < 2 * COUNT; i += 2) hd_free(blocks[i]);
  assert_true(dirty_bytes() >= COUNT * 2 * MIB);
  assert_true(hd_collect(32 * MIB));
  assert_in_range(dirty_bytes(), 30 * MIB, 32 * MIB);
  assert_true(hd_collect(0));
  assert_int_equal(dirty_bytes(), 0);
  for (int i = 1; i < 2 * COUNT; i += 2) hd_free(blocks[i]);
  hd_collect(0);
}

/* What a heap has put aside is found before a request is refused. */
static void test_limit_collects_first(void **state) {
  (void)state;
  enum { COUNT = 8 };
  void *blocks[COUNT], *pages[COUNT];
  char limit[32];
  hd_collect(0);
  for (int i = 0; i < COUNT; i++) blocks[i] = filled(2 * HD_UNIT_BYTES);
  size_t units = hd_load_relaxed(&hdi_space.top) - hd_load_relaxed(&hdi_space.free_units);
  snprintf(limit, sizeof limit, "%zu", units << HD_UNIT_SHIFT);
  set("limit", limit);
  assert_null(hd_malloc(3 * HD_UNIT_BYTES));
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
  assert_true(hdi_heap_self->cached_units > 0);
  for (int i = 0; i < COUNT; i++) assert_non_null(pages[i] = hd_malloc(2000 + 600 * (size_t)i)); /* a page for each */
  for (int i = 0; i < COUNT; i++) hd_free(pages[i]);
  set("limit", "0");
}

/* A limit is met to the unit. */
static void test_limit_is_exact(void **state) {
  (void)state;
  char limit[32];
  hd_collect(0);
  size_t units = hd_load_relaxed(&hdi_space.top) - hd_load_relaxed(&hdi_space.free_units);
  snprintf(limit, sizeof limit, "%zu", (units + 40) << HD_UNIT_SHIFT);
  set("limit", limit);
  assert_null(hd_malloc(41 * HD_UNIT_BYTES));
  void *p = hd_malloc(40 * HD_UNIT_BYTES);
  assert_non_null(p);
  assert_null(hd_malloc(60000)); /* one unit */
  hd_free(p);
  set("limit", "0");
}

/* Whether all threads but the caller block a signal; false: there are no others. */
static bool others_block(int signal_number) {
  DIR *tasks = opendir("/proc/self/task");
  bool found = false, blocked = true;
  assert_non_null(tasks);
  for (struct dirent *task; (task = readdir(tasks)) != NULL;) {
    char path[300], line[200];
    if (task->d_name[0] == '.' || atoi(task->d_name) == getpid()) continue;
    snprintf(path, sizeof path, "/proc/self/task/%s/status", task->d_name);
    FILE *status = fopen(path, "r");
    if (status == NULL) continue; /* it has just ended */
    while (fgets(line, sizeof line, status) != NULL) {
      if (strncmp(line, "SigBlk:", 7) != 0) continue;
      found = true;
      blocked = blocked && (strtoull(line + 7, NULL, 16) >> (signal_number - 1) & 1) != 0;
    }
    fclose(status);
  }
  closedir(tasks);
  return found && blocked;
}

static void test_waits_for_the_delay(void **state) {
  (void)state;
  set("purge-delay", "3600000");
  set("purge", "on");
  void *p = filled(64 * MIB);
  hd_free(p);
  assert_int_equal(hd_load_relaxed(&hdi_purge_running), 1);
  assert_true(others_block(SIGTERM) && others_block(SIGALRM) && others_block(SIGCHLD));
  ts_sleep_ms(1200); /* some rounds of the helper's */
  assert_true(ts_resident(p, 64 * MIB) >= 60 * MIB);
  set("purge-delay", "0");
  for (int tries = 0; tries < 200 && ts_resident(p, 64 * MIB) > MIB; tries++) ts_sleep_ms(50);
  assert_true(ts_resident(p, 64 * MIB) <= MIB);
}

/* Huge pages are always quick here: see huge_cost.c. */
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes);
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes) {
  (void)address, (void)bytes;
  return 0;
}

/* A program that wants no huge pages is not given any. */
static void test_asks_for_huge_pages_by_option(void **state) {
  (void)state;
  int64_t thp = hdi_options.thp;
  bool known = hdi_os.huge_bytes == 2 * MIB;
  for (int64_t wanted = HD_THP_NEVER; wanted >= HD_THP_AUTO; wanted--) {
    hdi_options.thp = wanted;
    void *p = hd_malloc(512 * MIB); /* fresh, and never touched */
    assert_int_equal(hdi_space_is_huge((uint8_t *)p + 256 * MIB), known && wanted == HD_THP_AUTO);
    hd_free(p);
    hd_collect(0); /* or the next one would not be fresh */
  }
  hdi_options.thp = thp;
}

/* A quarter of a second, but in very large heaps as much longer as a look at them takes longer. */
static void test_pause(void **state) {
  (void)state;
  const size_t units_a_gib = ((size_t)1 << 30) / HD_UNIT_BYTES;
  assert_int_equal(hdi_purge_pause_ms(0), 250);
  assert_int_equal(hdi_purge_pause_ms(62 * units_a_gib), 250);
  assert_int_equal(hdi_purge_pause_ms(1024 * units_a_gib), 4096);
}

int main(void) {
  only_pages();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_pause),
      cmocka_unit_test(test_small_heap_has_no_helper),
      cmocka_unit_test(test_off_is_off),
      cmocka_unit_test(test_collects_at_once),
      cmocka_unit_test(test_collects_what_it_releases),
      cmocka_unit_test(test_collects_from_others),
      cmocka_unit_test(test_collect_keeps),
      cmocka_unit_test(test_limit_collects_first),
      cmocka_unit_test(test_limit_is_exact),
      cmocka_unit_test(test_asks_for_huge_pages_by_option),
      cmocka_unit_test(test_waits_for_the_delay),
  };
  return cmocka_run_group_tests_name("purge", tests, NULL, NULL);
}
