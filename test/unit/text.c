/* Text output against snprintf, truncation at every length, and the reader of sizes.
 *
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "base/text.h"

static struct ts_rng rng;

static void write_line(hd_text *text, uint64_t value) {
  hdi_text_put(text, "value ");
  hdi_text_decimal(text, value);
  hdi_text_put(text, " at ");
  hdi_text_hex(text, value);
  hdi_text_pad(text, "left", 8);
  hdi_text_pad(text, "right", -8);
  hdi_text_put_n(text, "cut here", 3);
}

static void test_numbers_and_truncation(void **state) {
  (void)state;
  char expected[200], got[200];
  for (int i = 0; i < 2000; i++) {
    uint64_t value = i < 3 ? (uint64_t[]){0, 1, UINT64_MAX}[i] : ts_next(&rng) >> ts_below(&rng, 64);
    size_t length = (size_t)snprintf(expected, sizeof expected, "value %" PRIu64 " at 0x%" PRIx64 "left       rightcut", value, value);
    for (size_t room = 0; room <= length + 2; room++) {
      hd_text text;
      memset(got, '#', sizeof got);
      hdi_text_start(&text, room ? got : NULL, room);
      write_line(&text, value);
      assert_int_equal(text.wanted, length);
      assert_int_equal(hdi_text_length(&text), room == 0 ? 0 : room > length ? length : room - 1);
      if (room == 0) continue;
      assert_int_equal(strlen(got), hdi_text_length(&text));
      assert_memory_equal(got, expected, strlen(got));
      assert_int_equal(got[room], '#'); /* nothing behind the buffer */
    }
  }
}

static const char *bytes_text(uint64_t bytes) {
  static char buffer[64];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  hdi_text_bytes(&text, bytes);
  return buffer;
}

static void test_bytes_for_people(void **state) {
  (void)state;
  assert_string_equal(bytes_text(0), "0 B");
  assert_string_equal(bytes_text(1023), "1023 B");
  assert_string_equal(bytes_text(1024), "1.0 KiB");
  assert_string_equal(bytes_text(1536), "1.5 KiB");
  assert_string_equal(bytes_text((uint64_t)5 << 20), "5.0 MiB");
  assert_string_equal(bytes_text((uint64_t)3 << 30), "3.0 GiB");
  assert_string_equal(bytes_text((uint64_t)7 << 40), "7.0 TiB");
  assert_string_equal(bytes_text((uint64_t)1 << 60), "1048576.0 TiB");
  assert_string_equal(bytes_text(UINT64_MAX), "16777215.9 TiB");
}

static void test_reader(void **state) {
  (void)state;
  static const struct {
    const char *text;
    bool good;
    uint64_t value;
  } cases[] = {
      {"0", true, 0}, {"7", true, 7}, {"007", true, 7}, {"1k", true, 1024}, {"3m", true, 3 << 20}, {"2g", true, (uint64_t)2 << 30},
      {"1K", true, 1024}, {"18446744073709551615", true, UINT64_MAX}, {"18446744073709551616", false, 0},
      {"99999999999999999999k", false, 0}, {"17179869184g", false, 0}, {"", false, 0}, {"k", false, 0}, {"-1", false, 0},
      {"+1", false, 0}, {"1 ", false, 0}, {" 1", false, 0}, {"1kk", false, 0}, {"1x", false, 0}, {"0x10", false, 0}, {"1.5k", false, 0},
  };
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    uint64_t value = 42;
    bool good = hdi_text_read_bytes(cases[i].text, strlen(cases[i].text), &value);
    if (good != cases[i].good) fail_msg("'%s' was %s", cases[i].text, good ? "accepted" : "refused");
    if (good) assert_true(value == cases[i].value);
  }
  uint64_t value = 0;
  assert_true(hdi_text_read_bytes("12345", 2, &value)); /* only the length counts */
  assert_int_equal(value, 12);
  /* Random text must never crash, and what it accepts must be a number. */
  for (int i = 0; i < 300000; i++) {
    char text[12];
    size_t length = ts_below(&rng, sizeof text);
    for (size_t c = 0; c < length; c++) text[c] = "0123456789kmgKMG% -x"[ts_below(&rng, 20)];
    if (hdi_text_read_bytes(text, length, &value)) assert_true(length > 0 && text[0] >= '0' && text[0] <= '9');
  }
}

static void test_equal(void **state) {
  (void)state;
  assert_true(hdi_text_equal("abc", 3, "abc"));
  assert_true(hdi_text_equal("abcd", 3, "abc"));
  assert_false(hdi_text_equal("abc", 2, "abc"));
  assert_false(hdi_text_equal("abc", 3, "abcd"));
  assert_false(hdi_text_equal("abd", 3, "abc"));
  assert_true(hdi_text_equal("", 0, ""));
}

int main(void) {
  rng.state = ts_seed();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_numbers_and_truncation),
      cmocka_unit_test(test_bytes_for_people),
      cmocka_unit_test(test_reader),
      cmocka_unit_test(test_equal),
  };
  return cmocka_run_group_tests_name("text", tests, NULL, NULL);
}
