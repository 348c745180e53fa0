/* The words of options as an options file and single variables may have them: spaces, tabs, ends of lines, other spellings, names that are
 * no option. One process reads them once, so each word sets an option of its own.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "heddle.h"

static char path[] = "/tmp/heddle-options-XXXXXX";

static void assert_option(const char *name, const char *wanted) {
  char value[32];
  assert_int_equal(hd_option_get(name, value, sizeof value), strlen(wanted));
  assert_string_equal(value, wanted);
}

static void test_file_and_variables(void **state) {
  (void)state;
  static const char text[] =
      "# a comment\n\t purge-delay:  1kb \t\r\n;;stats=yes;\n   \nonerror: report\n purge\t\r\nthp:always,no-colon-or-value,=,:\n";
  int fd = mkstemp(path);
  assert_true(fd >= 0 && write(fd, text, sizeof text - 1) == (ssize_t)sizeof text - 1);
  close(fd);
  setenv("HEDDLE_FILE", path, 1);
  setenv("HEDDLE_THP", "never", 1); /* stronger than the file */
  setenv("HEDDLE_PURGE", "maybe", 1);
  setenv("HEDDLE_lower_case", "1", 1);
  setenv("HEDDLE_", "1", 1);
  setenv("HEDDLE_A_NAME_THAT_IS_LONGER_THAN_ANY_OPTION_EVER_WAS", "1", 1);
  setenv("HEDDLE_PREFIX[9]", "1", 1);
  putenv("HEDDLE_NO_VALUE");
  hd_free(hd_malloc(1));
  unlink(path);
  assert_option("purge-delay", "1024");
  assert_option("stats", "on");
  assert_option("onerror", "report");
  assert_option("purge", "on");
  assert_option("thp", "never");
}

static void test_words(void **state) {
  (void)state;
  static const char *const on[] = {"on", "1", "yes", "true", ""}, *const off[] = {"off", "0", "no", "false"};
  for (int i = 0; i < 5; i++) {
    assert_int_equal(hd_option_set("purge", on[i]), HD_OK);
    assert_option("purge", "on");
    assert_int_equal(hd_option_set("stats", off[i % 4]), HD_OK);
    assert_option("stats", "off");
    assert_int_equal(hd_option_set("purge", off[i % 4]), HD_OK);
    assert_option("purge", "off");
    assert_int_equal(hd_option_set("stats", on[i]), HD_OK);
    assert_option("stats", "on");
  }
  assert_int_equal(hd_option_set("stats", "off"), HD_OK);
  assert_int_equal(hd_option_set("onerror", "yes"), HD_ERR_VALUE); /* no flag */
  assert_int_equal(hd_option_set("thp", "auto"), HD_ERR_LATE);
  assert_int_equal(hd_option_set(NULL, "1"), HD_ERR_UNKNOWN);
  assert_int_equal(hd_option_set("purge", NULL), HD_ERR_UNKNOWN);
}

static void test_numbers(void **state) {
  (void)state;
  static const char *const good[] = {"1", "1k", "1K", "1ki", "1kb", "1kib", "1KiB", "3600000"};
  static const char *const bad[] = {"", "k", "1x", "1kx", "1kix", "1kibx", "1 k", "-1", "3600001", "99999999999999999999",
                                    "18446744073709551615", "18446744073709551616", "17179869184g", "9223372036854775808"};
  for (size_t i = 0; i < sizeof good / sizeof good[0]; i++) assert_int_equal(hd_option_set("purge-delay", good[i]), HD_OK);
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) assert_int_equal(hd_option_set("purge-delay", bad[i]), HD_ERR_VALUE);
  assert_option("purge-delay", "3600000");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_file_and_variables),
      cmocka_unit_test(test_words),
      cmocka_unit_test(test_numbers),
  };
  return cmocka_run_group_tests_name("options_words", tests, NULL, NULL);
}
