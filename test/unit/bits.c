/* Bits and sizes against plain loops.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>

#include <cmocka.h>

#include "../support/support.h"
#include "base/bits.h"

static struct ts_rng rng;

static unsigned count_slowly(uint64_t word) {
  unsigned count = 0;
  for (; word; word >>= 1) count += word & 1;
  return count;
}

static void test_words(void **state) {
  (void)state;
  for (int i = 0; i < 200000; i++) {
    uint64_t word = ts_next(&rng) & (i % 3 ? UINT64_MAX : ts_next(&rng) & ts_next(&rng));
    assert_int_equal(hd_bit_count(word), count_slowly(word));
    if (!word) continue;
    size_t low = hd_lowest_bit(word);
    unsigned high = hd_highest_bit(word);
    assert_true((word >> low & 1) && (word & hd_low_mask((unsigned)low)) == 0);
    assert_true(word >> high == 1);
  }
  assert_int_equal(hd_bit_count(0), 0);
  assert_int_equal(hd_bit_count(UINT64_MAX), 64);
}

static void test_masks(void **state) {
  (void)state;
  for (unsigned n = 0; n <= 64; n++) assert_int_equal(count_slowly(hd_low_mask(n)), n);
  for (unsigned k = 0; k < sizeof(size_t) * CHAR_BIT; k++) {
    assert_true(hd_is_power_of_2((size_t)1 << k));
    if (k > 1) assert_false(hd_is_power_of_2(((size_t)1 << k) + 1) || hd_is_power_of_2(((size_t)1 << k) - 1));
  }
  assert_false(hd_is_power_of_2(0));
}

static void test_rounding(void **state) {
  (void)state;
  for (size_t step = 1; step <= 65536; step *= 2)
    for (int i = 0; i < 1000; i++) {
      size_t value = (size_t)(ts_next(&rng) >> 8) & (SIZE_MAX >> 2), up = hd_round_up(value, step), down = hd_round_down(value, step);
      assert_true(up % step == 0 && up >= value && up - value < step);
      assert_true(down % step == 0 && down <= value && value - down < step);
    }
}

static void test_product(void **state) {
  (void)state;
  for (int i = 0; i < 100000; i++) {
    size_t a = ts_next(&rng) >> ts_below(&rng, 64), b = ts_next(&rng) >> ts_below(&rng, 64), product = 0;
    bool fits = a == 0 || b <= SIZE_MAX / a;
    assert_int_equal(hd_multiply(a, b, &product), fits);
    if (fits) assert_true(product == a * b);
  }
}

static void test_inverse(void **state) {
  (void)state;
  for (uint64_t odd = 1; odd < 200000; odd += 2) assert_true(hd_inverse(odd) * odd == 1);
  for (int i = 0; i < 100000; i++) {
    uint64_t odd = ts_next(&rng) | 1;
    assert_true(hd_inverse(odd) * odd == 1);
  }
}

static void test_rotation(void **state) {
  (void)state;
  for (unsigned n = 0; n < 64; n++) {
    uint64_t word = ts_next(&rng), turned = hd_rotate_right(word, n);
    for (unsigned bit = 0; bit < 64; bit++) assert_int_equal(turned >> bit & 1, word >> ((bit + n) % 64) & 1);
  }
}

int main(void) {
  rng.state = ts_seed();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_words),   cmocka_unit_test(test_masks),   cmocka_unit_test(test_rounding),
      cmocka_unit_test(test_product), cmocka_unit_test(test_inverse), cmocka_unit_test(test_rotation),
  };
  return cmocka_run_group_tests_name("bits", tests, NULL, NULL);
}
