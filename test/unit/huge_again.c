/* Where memory is purged piece by piece there are no more huge pages, until all that a huge page takes has been given back.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>

#include <cmocka.h>

#include "core/options.h"
#include "core/space.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"
#include "huge_pages.h"

enum { BLOCK = HD_HUGE_UNITS, STEP = 512 /* 32 MiB */, STEPS = 4 };

/* Huge pages are always quick here: see huge_cost.c. */
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes);
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes) {
  (void)address, (void)bytes;
  return 0;
}

static hd_unit *run; /* of some steps of 32 MiB, from the beginning of one */

/* Units [from, to) of the run are free, and have been given back to the system. */
static void purge(size_t from, size_t to) {
  hdi_space_give(&hdi_space, run + from, to - from, true);
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
}

/* Whether there are huge pages in each of some blocks, after a wish for all that can be had. */
static void expect(size_t first, size_t last, bool huge) {
  hdi_space_want_huge(&hdi_space, run, (size_t)STEPS * STEP, HD_TOUCH_PERHAPS);
  for (size_t i = first; i <= last; i++) {
    assert_int_equal(hdi_space_is_huge(hdi_space_address(&hdi_space, run + i * BLOCK)), huge && may_be_huge());
  }
}

static int take_steps(void **state) {
  (void)state;
  bool zeroed = false;
  run = hdi_space_take(&hdi_space, (size_t)STEPS * STEP, STEP, &zeroed);
  assert_non_null(run);
  expect(0, 63, true);
  return 0;
}

static void test_a_gap_takes_them_from_its_step(void **state) {
  (void)state;
  purge(5, 8);
  expect(0, 15, false);
  expect(16, 63, true);
}

static void test_what_is_given_back_whole_may_have_them_again(void **state) {
  (void)state;
  purge(0, 5);
  expect(0, 15, false); /* the block isn't whole yet */
  purge(9, 31);
  purge(8, 9); /* up to a unit before its end, and merged */
  expect(0, 15, false);
  purge(31, 32);
  expect(0, 0, true);
  expect(1, 15, false);
  purge(35, 35 + 40); /* a block and more, but none of them whole */
  expect(1, 15, false);
  hdi_space_give(&hdi_space, run + 75, 85, true);
  expect(1, 15, false); /* free, but not given back */
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
  expect(1, 1, false);
  expect(2, 4, true);
  expect(5, 15, false);
}

static void test_a_gap_across_two_steps(void **state) {
  (void)state;
  purge(STEP * 2 - 1, STEP * 2 + 1);
  expect(16, 47, false);
  expect(48, 63, true);
  purge(STEP * 2 - 32, STEP * 2 - 1);
  expect(16, 30, false);
  expect(31, 31, true);
  expect(32, 47, false);
}

static void test_many_at_once(void **state) {
  (void)state;
  purge(160, STEP * 2 - 32);
  purge(STEP * 2 + 1, STEP * 4 - 1); /* two words of bits */
  expect(1, 1, false);
  expect(2, 62, true);
  purge(STEP * 4 - 1, STEP * 4);
  expect(63, 63, true);
}

/* Each block may become a range that the system has to keep, and it keeps some 65,000. */
static void test_not_beyond_32_gib(void **state) {
  (void)state;
  enum { LIMIT = 16384 * BLOCK };
  bool zeroed = false;
  size_t units = LIMIT + (size_t)STEPS * STEP - hd_min(hdi_space.top, LIMIT);
  hd_unit *long_run = hdi_space_take(&hdi_space, units, 1, &zeroed);
  if (long_run == NULL) skip(); /* a system that counts address ranges */
  run = hdi_space.units + LIMIT - STEP;
  assert_true(run >= long_run);
  expect(0, 31, true);
  purge(STEP - 1, STEP + 1);
  expect(0, 31, false);
  purge(0, STEP - 1);
  purge(STEP + 1, STEP * 2);
  expect(0, 15, true);
  expect(16, 31, false);
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_a_gap_takes_them_from_its_step, take_steps),
      cmocka_unit_test(test_what_is_given_back_whole_may_have_them_again),
      cmocka_unit_test(test_a_gap_across_two_steps),
      cmocka_unit_test(test_many_at_once),
      cmocka_unit_test(test_not_beyond_32_gib),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
