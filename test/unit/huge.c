/* Huge pages are asked for above memory that the program has filled: just below, or deeper where the top is being filled by many at once.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/options.h"
#include "core/space.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"

enum { MIB = 1024 * 1024, HUGE_BYTES = 2 * MIB };

static uint8_t *last; /* the block taken last: units come from the top, one after the other */

static void take_unit(bool fill) {
  uint8_t *p = hd_malloc(HD_UNIT_BYTES);
  assert_non_null(p);
  assert_true(last == NULL || p == last + HD_UNIT_BYTES);
  if (fill) memset(p, 1, HD_UNIT_BYTES);
  last = p;
}

/* To the end of a huge page. */
static int begin(void **state) {
  (void)state;
  do take_unit(false);
  while (((uintptr_t)last + HD_UNIT_BYTES) % HUGE_BYTES != 0);
  return 0;
}

/* So many huge pages, every step-th of them filled (0: none). */
static void take(size_t huge_pages, size_t step) {
  for (size_t i = 0; i < huge_pages; i++) {
    for (size_t k = 0; k < HUGE_BYTES / HD_UNIT_BYTES; k++) take_unit(step != 0 && i % step == 0);
  }
}

static bool next_is_huge(void) {
  take(1, 0);
  return hdi_space_is_huge(last);
}

static bool may_be_huge(void) { return hdi_os.huge_bytes == HUGE_BYTES && hdi_options.thp == HD_THP_AUTO; }

static void test_where_it_is_filled(void **state) {
  (void)state;
  take(1, 0);
  assert_false(next_is_huge()); /* nothing is filled here */
  take(8, 1);
  assert_int_equal(next_is_huge(), may_be_huge());
  take(4, 0);
  assert_false(next_is_huge()); /* the last 8 MiB are empty */
}

static void test_where_it_is_filled_deeper(void **state) {
  (void)state;
  take(20, 1);
  assert_int_equal(next_is_huge(), may_be_huge());
  take(4, 2);
  assert_int_equal(next_is_huge(), may_be_huge()); /* some of the last 8 MiB, and all of what began 32 MiB below */
  take(4, 0);
  assert_false(next_is_huge()); /* that is not enough */
  take(12, 0);
  take(4, 2);
  assert_false(next_is_huge()); /* nor is this: nothing is filled deeper down */
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_where_it_is_filled, begin),
      cmocka_unit_test_setup(test_where_it_is_filled_deeper, begin),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
