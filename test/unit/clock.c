/* The clocks that the allocator asks: as the C library has them, without a system call where the kernel offers that.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/filter.h"
#include "apart.h"
#include "os/os.h"

enum { NAP_MS = 60, SLACK_MS = 200 };

static uint64_t library_ms(void) {
  struct timespec now;
  assert_int_equal(clock_gettime(CLOCK_MONOTONIC_COARSE, &now), 0);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

static void test_first_keeps_errno(void **state) {
  (void)state;
  errno = EDOM;
  assert_true(hdi_os_now_ms() > 0);
  assert_int_equal(errno, EDOM);
}

static void test_as_the_library(void **state) {
  (void)state;
  for (int i = 0; i < 3; i++) {
    uint64_t before = library_ms(), now = hdi_os_now_ms(), after = library_ms();
    assert_in_range(now, before, after);
    ts_sleep_ms(NAP_MS);
    assert_true(hdi_os_now_ms() > now);
  }
}

static void test_spent(void **state) {
  (void)state;
  uint64_t before = hdi_os_spent_ns(), until = library_ms() + NAP_MS, now = before;
  ts_sleep_ms(SLACK_MS);
  now = hdi_os_spent_ns();
  assert_true(before > 0 && now - before < (uint64_t)SLACK_MS * 1000000);
  for (until = library_ms() + NAP_MS; library_ms() < until;) now = hdi_os_spent_ns();
  assert_true(now > before);
}

static void without_the_call(void *unused) {
  (void)unused;
  const long call = SYS_clock_gettime;
  if (!ts_filter_calls(TS_FILTER_FORBID, &call, 1)) _exit(NOT_HERE);
  for (int i = 0; i < 1000; i++) TS_CHECK(hdi_os_now_ms() > 0, "no time");
}

static void test_no_call(void **state) {
  (void)state;
  if (getauxval(AT_SYSINFO_EHDR) == 0) skip();
  run_apart(without_the_call, 10);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_first_keeps_errno),
      cmocka_unit_test(test_as_the_library),
      cmocka_unit_test(test_spent),
      cmocka_unit_test(test_no_call),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
