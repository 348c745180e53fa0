/* Where the system takes no memory back, since the program has locked it: the rest goes back, the helper ends, and what is freed is used
 * again. And how much memory a process has before it uses it, which counts where it is locked, or promised to all processes together.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/purge.h"
#include "core/space.h"
#include "core/space_grow.h"
#include "heddle.h"
#include "os/os.h"

#define MIB ((size_t)1 << 20)

/* ---- how much there is at once ------------------------------------------------------------------------------------ */

static size_t committed(void) { return hd_load_acquire(&hdi_space.committed); }

/* No more than 4 MiB, twice what was handed out, or 32 MiB beyond it. The blocks stay: what comes later lies behind them. */
static void test_in_proportion(void **state) {
  (void)state;
  enum { BLOCKS = 100 };
  static void *blocks[BLOCKS];
  hd_free(hd_malloc(1));
  assert_int_equal(committed(), HD_COMMIT_FIRST);
  for (int i = 0; i < BLOCKS; i++) {
    assert_non_null(blocks[i] = hd_malloc(MIB));
    size_t top = hd_load_acquire(&hdi_space.top);
    assert_in_range(committed(), top, hd_max(2 * top, HD_COMMIT_FIRST));
    assert_in_range(committed(), top, top + HD_COMMIT_UNITS);
  }
  assert_int_equal(committed() % HD_COMMIT_UNITS, 0); /* by then as few steps as can be */
}

/* Writable memory of its own that the process has, touched or not, as the system counts it. */
static size_t data_bytes(void) {
  size_t bytes = ts_status_bytes("VmData:");
  assert_true(bytes != 0);
  return bytes;
}

static void test_collector_needs_little(void **state) {
  (void)state;
  void *p = hd_malloc(100);
  size_t before = data_bytes();
  hd_collect(0);
  assert_in_range(data_bytes(), before, before + MIB);
  hd_free(p);
}

/* Pages that lie far behind the others, too. */
static void test_collector_sees_far(void **state) {
  (void)state;
  enum { BLOCKS = 600, BYTES = 5000 };
  static uint8_t *blocks[BLOCKS];
  if (HD_NARROW) skip(); /* there is no far, and nothing lies in order */
  void *far = hd_malloc(HD_GIB); /* none of it is touched */
  assert_non_null(far);
  for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = memset(hd_malloc(BYTES), 1, BYTES));
  assert_true((size_t)(blocks[BLOCKS - 1] - hdi_space.base) > HD_GIB);
  for (int i = 1; i < BLOCKS; i++) hd_free(blocks[i]);
  assert_true(hd_collect(0));
  assert_int_equal(ts_resident((void *)hd_round_down((uintptr_t)blocks[BLOCKS - 1], ts_os_page()), ts_os_page()), 0);
  hd_free(blocks[0]);
  hd_free(far);
}

/* ---- memory that stays -------------------------------------------------------------------------------------------- */

static struct {
  const uint8_t *start;
  size_t bytes; /* locked from there on; SIZE_MAX: everything */
  int refusals;
} locked;

bool __real_hdi_os_purge(void *address, size_t bytes);
bool __wrap_hdi_os_purge(void *address, size_t bytes);
bool __wrap_hdi_os_purge(void *address, size_t bytes) {
  const uint8_t *from = address;
  bool meets = locked.bytes == SIZE_MAX || (locked.bytes != 0 && from < locked.start + locked.bytes && locked.start < from + bytes);
  if (!meets) return __real_hdi_os_purge(address, bytes);
  locked.refusals++;
  return false;
}

static size_t to_purge(void) { return hdi_space_to_purge(&hdi_space) << HD_UNIT_SHIFT; }

/* A page of the longest run is locked. */
static void test_others_go(void **state) {
  (void)state;
  hd_option_set("purge", "off");
  hd_collect(0);
  assert_int_equal(to_purge(), 0);
  uint8_t *large = hd_malloc(40 * MIB), *wall = hd_malloc(3 * MIB), *small = hd_malloc(20 * MIB), *end = hd_malloc(3 * MIB);
  assert_true(large != NULL && wall != NULL && small != NULL && end != NULL);
  memset(large, 1, 40 * MIB);
  memset(small, 1, 20 * MIB);
  locked.start = large + 30 * MIB;
  locked.bytes = 4096;
  hd_free(large);
  hd_free(small);
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
  assert_int_equal(locked.refusals, 1);
  assert_false(hd_load_relaxed(&hdi_space.refuses)); /* but the one after it */
  assert_in_range(to_purge(), 40 * MIB, 42 * MIB);
  assert_int_equal(ts_resident(small + 4 * MIB, MIB), 0);
  assert_int_equal(ts_resident(large, MIB), MIB);
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
  assert_true(locked.refusals == 2 && hd_load_relaxed(&hdi_space.refuses));
  locked.bytes = 0;
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
  assert_false(hd_load_relaxed(&hdi_space.refuses));
  assert_int_equal(to_purge(), 0);
  hd_free(wall);
  hd_free(end);
  hd_option_set("purge", "on");
}

/* What a locked program frees it gets again, without a fault. The helper does not wait for what will not come, and is there again when it
 * would. */
static void test_helper_ends(void **state) {
  (void)state;
  enum { BLOCKS = 200, BYTES = 200000 };
  static uint8_t *blocks[BLOCKS];
  locked.bytes = SIZE_MAX;
  for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = memset(hd_malloc(BYTES), 1, BYTES));
  for (int i = 0; i < BLOCKS; i++) hd_free(blocks[i]);
  assert_int_equal(hdi_purge_running, 1);
  for (int i = 0; i < 300 && hdi_purge_running != 0; i++) ts_sleep_ms(50);
  assert_int_equal(hdi_purge_running, 0);
  assert_true(to_purge() > 30 * MIB);
  uint8_t *again = hd_malloc(BYTES);
  size_t whole = hd_round_down(BYTES, hdi_os.page_bytes);
  assert_int_equal(ts_resident(again, whole), whole); /* a block of so many bytes begins with a system page */
  locked.bytes = 0;
  hd_free(again);
  for (int i = 0; i < BLOCKS; i++) assert_non_null(blocks[i] = memset(hd_malloc(BYTES), 1, BYTES));
  for (int i = 0; i < BLOCKS; i++) hd_free(blocks[i]);
  for (int i = 0; i < 100 && to_purge() > MIB; i++) ts_sleep_ms(50);
  assert_true(to_purge() <= MIB);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_in_proportion),
      cmocka_unit_test(test_collector_needs_little),
      cmocka_unit_test(test_collector_sees_far),
      cmocka_unit_test(test_others_go),
      cmocka_unit_test(test_helper_ends),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
