/* Size classes, exhaustively: every size up to the largest class.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "core/sizeclass.h"
#include "core/unit.h"

static void test_every_size_fits_its_class(void **state) {
  (void)state;
  unsigned before = 1;
  for (size_t n = 0; n <= HD_MEDIUM_MAX; n++) {
    unsigned class_index = hdi_sizeclass_of(n);
    assert_in_range(class_index, 1, HD_CLASS_COUNT - 1);
    assert_true(class_index == before || class_index == before + 1); /* monotone, no class left out */
    before = class_index;
    uint32_t bytes = hdi_sizeclass_bytes(class_index);
    assert_true(bytes >= n);
    if (class_index > 1) assert_true(hdi_sizeclass_bytes(class_index - 1) < n); /* the smallest that fits */
    if (n > 0) assert_true(bytes - n < 16 || (bytes - n) * 8 <= n);
  }
  assert_int_equal(before, HD_CLASS_COUNT - 1);
}

static void test_classes_are_their_own_fixpoints(void **state) {
  (void)state;
  for (unsigned c = 1; c < HD_CLASS_COUNT; c++) {
    uint32_t bytes = hdi_sizeclass_bytes(c);
    assert_int_equal(bytes % 16, 0);
    assert_int_equal(hdi_sizeclass_of(bytes), c);
    if (bytes > HD_SMALL_MAX) assert_int_equal(hdi_sizeclass_medium(bytes), c);
  }
  assert_int_equal(hdi_sizeclass_bytes(HD_CLASS_COUNT - 1), HD_MEDIUM_MAX);
}

static void test_pages_waste_little(void **state) {
  (void)state;
  unsigned before = 1;
  for (unsigned c = 1; c < HD_CLASS_COUNT; c++) {
    uint32_t bytes = hdi_sizeclass_bytes(c);
    unsigned units = hdi_sizeclass_units(bytes);
    assert_true(units == 1 || units == 4 || units == 8);
    assert_true(units >= before);
    before = units;
    size_t page = (size_t)units * HD_UNIT_BYTES, capacity = page / bytes;
    assert_true(capacity >= 8);
    assert_true((page - capacity * bytes) * 8 <= page); /* the end of a page: at most an eighth */
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_size_fits_its_class),
      cmocka_unit_test(test_classes_are_their_own_fixpoints),
      cmocka_unit_test(test_pages_waste_little),
  };
  return cmocka_run_group_tests_name("sizeclass", tests, NULL, NULL);
}
