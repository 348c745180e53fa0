/* The index of a block from a pointer, exhaustively over every class and every offset in a page, and outside it.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/sizeclass.h"
#include "core/unit.h"

static hd_unit make_page(unsigned class_index, uintptr_t base) {
  uint32_t bytes = hdi_sizeclass_bytes(class_index);
  hd_unit unit = {.base = (uint8_t *)base, .block_bytes = bytes, .inverse = hdi_unit_inverse(bytes)};
  unit.capacity = hdi_sizeclass_units(bytes) * HD_UNIT_BYTES / bytes;
  return unit;
}

static void test_every_offset(void **state) {
  (void)state;
  const uintptr_t base = (uintptr_t)0x7f1234560000;
  for (unsigned c = 1; c < HD_CLASS_COUNT; c++) {
    hd_unit unit = make_page(c, base);
    size_t page = (size_t)hdi_sizeclass_units((uint32_t)unit.block_bytes) * HD_UNIT_BYTES;
    for (size_t offset = 0; offset < page; offset++) {
      uint64_t index = hdi_unit_block_index(&unit, (const void *)(base + offset));
      bool start = offset % unit.block_bytes == 0 && offset / unit.block_bytes < unit.capacity;
      if (start) assert_true(index == offset / unit.block_bytes);
      else assert_true(index >= unit.capacity);
    }
  }
}

/* Pointers from anywhere: below the page, behind it, random ones, and multiples of the block size far away. */
static void test_pointers_from_elsewhere(void **state) {
  (void)state;
  struct ts_rng rng = {ts_seed()};
  const uintptr_t base = (uintptr_t)0x7f1234560000;
  for (unsigned c = 1; c < HD_CLASS_COUNT; c++) {
    hd_unit unit = make_page(c, base);
    size_t page = (size_t)unit.capacity * unit.block_bytes;
    for (size_t d = 0; d < 20000; d++) {
      assert_true(hdi_unit_block_index(&unit, (const void *)(base - 1 - d)) >= unit.capacity);
      assert_true(hdi_unit_block_index(&unit, (const void *)(base + page + d)) >= unit.capacity);
      uintptr_t anywhere = ts_next(&rng);
      if (anywhere - base < page) continue;
      assert_true(hdi_unit_block_index(&unit, (const void *)anywhere) >= unit.capacity);
      uintptr_t multiple = base + (anywhere >> 20) * unit.block_bytes;
      if (multiple - base >= page) assert_true(hdi_unit_block_index(&unit, (const void *)multiple) >= unit.capacity);
    }
    assert_true(hdi_unit_block_index(&unit, NULL) >= unit.capacity);
  }
}

/* An entry of a unit that was never used must refuse everything. */
static void test_empty_entry(void **state) {
  (void)state;
  hd_unit unit = {0};
  for (size_t at = 0; at < 1000000; at += 16) assert_true(hdi_unit_block_index(&unit, (const void *)at) >= unit.capacity);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_every_offset),
      cmocka_unit_test(test_pointers_from_elsewhere),
      cmocka_unit_test(test_empty_entry),
  };
  return cmocka_run_group_tests_name("block index", tests, NULL, NULL);
}
