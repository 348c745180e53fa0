/* Regions: what reads as zero, what comes back to the space, how they show in walks, statistics and reports.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/region.h"
#include "core/space.h"
#include "heddle.h"

#define UNIT ((size_t)HD_UNIT_BYTES)
#define MIB ((size_t)1 << 20)

static bool reads_zero(const uint8_t *p, size_t bytes) {
  for (size_t i = 0; i < bytes; i++) {
    if (p[i] != 0) return false;
  }
  return true;
}

static size_t units_out(void) { return hdi_space.top - hdi_space.free_units; }

static void taken_and_given(void **state) {
  (void)state;
  bool zeroed = false;
  size_t before = units_out();
  uint8_t *region = hdi_region_take(HD_AREA_ARENA, "one", 3 * UNIT - 5, &zeroed);
  assert_non_null(region);
  assert_int_equal((uintptr_t)region % UNIT, 0);
  assert_int_equal(hdi_region_bytes(region), 3 * UNIT);
  assert_int_equal(units_out(), before + 3);
  if (zeroed) assert_true(reads_zero(region, 3 * UNIT));
  memset(region, 0xaa, 3 * UNIT);
  hdi_region_give(region, 0, 0);
  assert_int_equal(units_out(), before);
}

static void refused(void **state) {
  (void)state;
  bool zeroed = false;
  errno = 0;
  assert_null(hdi_region_take(HD_AREA_POOL, NULL, SIZE_MAX, &zeroed));
  assert_int_equal(errno, ENOMEM);
  errno = 0;
  assert_null(hdi_region_reserve(HD_AREA_POOL, NULL, sizeof(size_t) > 4 ? (size_t)PTRDIFF_MAX : SIZE_MAX / 16 * 15));
  assert_int_equal(errno, ENOMEM);
}

/* Objects whose ends were used come and go: the address range in use has an end, also without a purger. */
static void come_and_go(void **state) {
  (void)state;
  size_t half = 0;
  assert_int_equal(hd_option_set("purge", "off"), HD_OK);
  for (unsigned round = 0; round < 4000; round++) {
    uint8_t *region = hdi_region_reserve(HD_AREA_ARENA, "short", MIB);
    assert_non_null(region);
    assert_int_equal(region[0] | region[1] | region[MIB - 1], 0);
    region[0] = region[MIB - 1] = 1;
    hdi_region_give(region, 1, MIB - 1);
    if (round == 2000) half = hdi_space.top;
  }
  assert_int_equal(hdi_space.top, half);
  assert_true(half < 3 * 4096);
  assert_int_equal(hd_option_set("purge", "on"), HD_OK);
}

/* A reserve costs nothing and is given back without becoming resident: only its touched ends are dirty afterwards. */
static void reserve_stays_clean(void **state) {
  (void)state;
  size_t bytes = 256 * MIB;
  size_t dirty = hdi_space.dirty.units;
  size_t resident = ts_rss();
  uint8_t *region = hdi_region_reserve(HD_AREA_ARENA, "big", bytes);
  assert_non_null(region);
  assert_true(ts_rss() < resident + 4 * MIB);
  region[0] = region[UNIT + 1] = region[bytes - 1] = 1;
  hdi_region_give(region, UNIT + 2, bytes - 1);
  assert_int_equal(hdi_space.dirty.units, dirty + 3);
  uint8_t *again = hdi_region_reserve(HD_AREA_ARENA, "big", bytes - 8 * UNIT);
  assert_non_null(again);
  assert_true(reads_zero(again, MIB) && reads_zero(again + bytes - 8 * UNIT - MIB, MIB));
  hdi_region_give(again, 0, bytes);
}

/* Made, touched and given back again and again, in the time between two rounds of the purger. */
static void does_not_pile_up(void **state) {
  (void)state;
  size_t before = ts_rss();
  for (int i = 0; i < 20; i++) {
    uint8_t *region = hdi_region_reserve(HD_AREA_ARENA, NULL, 16 * MIB);
    assert_non_null(region);
    memset(region, 1, 4 * MIB);
    hdi_region_give(region, 4 * MIB, 16 * MIB);
  }
  assert_true(ts_rss() < before + 8 * MIB);
}

static void purge_and_guard(void **state) {
  (void)state;
  bool zeroed = false;
  size_t start = 0;
  uint8_t *region = hdi_region_take(HD_AREA_ARENA, NULL, 4 * UNIT, &zeroed);
  memset(region, 7, 4 * UNIT);
  size_t purged = hdi_region_purge(region, 100, 2 * UNIT, &start);
  assert_true(start >= 100 && start + purged <= 100 + 2 * UNIT && purged > UNIT);
  assert_true(reads_zero(region + start, purged));
  assert_int_equal(region[start - 1], 7);
  assert_int_equal(region[start + purged], 7);
  assert_int_equal(hdi_region_purge(region, 1, 100, &start), 0);
  assert_true(hdi_region_guard(region, UNIT, UNIT, true));
  assert_true(hdi_region_guard(region, UNIT, UNIT, false));
  assert_true(reads_zero(region + UNIT, UNIT));
  hdi_region_give(region, 0, 0);
}

typedef struct seen {
  const void *region;
  unsigned count;
  hd_area area;
  char name[32];
} seen;

static bool look(const hd_area *area, void *block, size_t block_bytes, void *user) {
  seen *found = user;
  (void)block, (void)block_bytes;
  if (area->address != found->region) return true;
  found->count++;
  found->area = *area;
  strncpy(found->name, area->name, sizeof found->name - 1);
  return true;
}

static void shows(void **state) {
  (void)state;
  bool zeroed = false;
  hd_stats before = {.struct_bytes = sizeof before}, after = before;
  assert_true(hd_stats_get(&before));
  void *region = hdi_region_take(HD_AREA_STRING_POOL, "words", 2 * UNIT, &zeroed);
  hdi_region_note(region, 12345);
  seen found = {.region = region};
  assert_true(hd_heap_walk(NULL, true, look, &found));
  assert_int_equal(found.count, 1);
  assert_int_equal(found.area.kind, HD_AREA_STRING_POOL);
  assert_int_equal(found.area.bytes, 2 * UNIT);
  assert_int_equal(found.area.block_bytes, 12345);
  assert_string_equal(found.name, "words");
  assert_true(hd_stats_get(&after));
  assert_int_equal(after.objects, before.objects + 12345);
  assert_int_equal(after.object_count, before.object_count + 1);
  assert_int_equal(after.live, before.live);
  hdi_region_give(region, 0, 0);
  assert_true(hd_stats_get(&after));
  assert_int_equal(after.object_count, before.object_count);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(taken_and_given), cmocka_unit_test(refused),
      cmocka_unit_test(come_and_go),
      cmocka_unit_test(reserve_stays_clean), cmocka_unit_test(does_not_pile_up),
      cmocka_unit_test(purge_and_guard),
      cmocka_unit_test(shows),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
