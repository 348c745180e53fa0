/* Regions at the edges: lengths that nothing can have, the option `limit`, resizing that changes nothing, objects without a name.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#include <cmocka.h>

#include "core/region.h"
#include "core/space.h"
#include "heddle.h"

#define MIB ((size_t)1 << 20)

static void test_impossible_lengths(void **state) {
  (void)state;
  static const size_t lengths[] = {(size_t)PTRDIFF_MAX + 1, SIZE_MAX, PTRDIFF_MAX};
  bool zeroed = false;
  for (int i = 0; i < 3; i++) {
    assert_null(hdi_region_take(HD_AREA_POOL, NULL, lengths[i], &zeroed));
    assert_null(hdi_region_reserve(HD_AREA_POOL, NULL, lengths[i]));
  }
}

static void test_nothing_to_do(void **state) {
  (void)state;
  bool zeroed = false;
  uint8_t *region = hdi_region_take(HD_AREA_ARENA, NULL, 3 * HD_UNIT_BYTES, &zeroed);
  size_t start = 0;
  hdi_region_want_huge(region, 100, 200); /* no whole unit */
  assert_int_equal(hdi_region_purge(region, 100, 200, &start), 0);
  hdi_region_give(region, 0, 0);
}

static void test_limit(void **state) {
  (void)state;
  char text[32];
  bool zeroed = false;
  uint8_t *region = hdi_region_take(HD_AREA_ARENA, NULL, MIB, &zeroed);
  size_t held = (hd_load_relaxed(&hdi_space.top) - hd_load_relaxed(&hdi_space.free_units)) << HD_UNIT_SHIFT;
  snprintf(text, sizeof text, "%zu", held + 2 * MIB);
  assert_int_equal(hd_option_set("limit", text), HD_OK);
  assert_null(hdi_region_take(HD_AREA_ARENA, NULL, 3 * MIB, &zeroed));
  assert_null(hdi_region_reserve(HD_AREA_ARENA, NULL, 3 * MIB));
  uint8_t *other = hdi_region_take(HD_AREA_ARENA, NULL, 2 * MIB, &zeroed);
  assert_non_null(other);
  assert_null(hdi_region_take(HD_AREA_ARENA, NULL, 1, &zeroed));
  hd_option_set("limit", "0");
  hdi_region_give(other, 0, 0);
  hdi_region_give(region, 0, 0);
}

/* Reserved without end, and nothing to purge: new addresses. */
static void test_many_reserved(void **state) {
  enum { COUNT = 20, BYTES = 16 << 20 };
  uint8_t *region[COUNT];
  (void)state;
  hd_collect(0);
  assert_int_equal(hd_load_relaxed(&hdi_space.dirty.units), 0);
  for (int i = 0; i < COUNT; i++) {
    assert_non_null(region[i] = hdi_region_reserve(HD_AREA_POOL, NULL, BYTES));
    assert_int_equal(region[i][0] | region[i][BYTES - 1], 0);
  }
  for (int i = 0; i < COUNT; i++) hdi_region_give(region[i], 0, BYTES);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_impossible_lengths),
      cmocka_unit_test(test_nothing_to_do),
      cmocka_unit_test(test_limit),
      cmocka_unit_test(test_many_reserved),
  };
  return cmocka_run_group_tests_name("region_edges", tests, NULL, NULL);
}
