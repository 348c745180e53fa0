/* A program that takes its first megabytes fast gets huge pages from 4 MiB on, and not from 12. How fast it is is told here: what it really
 * takes differs from run to run.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/options.h"
#include "core/space.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"

enum {
  MIB = 1024 * 1024,
  BLOCKS = 7,      /* of 2 MiB */
  ASKED = 5,       /* from the second to the sixth: before each the clock is looked at */
  MOST = 1500000   /* ns for 2 MiB, or 0.75 ms for one: the most that is fast */
};

static uint64_t clock_tells[ASKED];
static size_t looks;

uint64_t __wrap_hdi_os_spent_ns(void);
uint64_t __wrap_hdi_os_spent_ns(void) { return looks < ASKED ? clock_tells[looks++] : 0; }

uint64_t __wrap_hdi_os_touch(void *address, size_t bytes);
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes) {
  (void)address, (void)bytes;
  return 0;
}

/* Bit i: huge pages were asked for where block i lies. */
static int fill(void) {
  int huge = 0;
  while (hdi_space.top < BLOCKS * HD_HUGE_UNITS) {
    void *p = hd_malloc(HD_UNIT_BYTES);
    if (p == NULL) return -1;
    memset(p, 1, HD_UNIT_BYTES);
  }
  for (size_t i = 0; i < BLOCKS; i++) huge |= hdi_space_is_huge(hdi_space.base + (2 * i + 1) * MIB) << i;
  return looks == ASKED || hdi_os.huge_bytes == 0 ? huge : -1;
}

/* In a process of its own, which is small. Of the five times that 2 MiB are full the clock tells these. */
static int huge_blocks(const uint64_t *tells) {
  int status = 0;
  memcpy(clock_tells, tells, sizeof clock_tells);
  pid_t child = fork();
  if (child == 0) _exit(fill());
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int expected(int blocks) { return hdi_os.huge_bytes == 2 * MIB && hdi_options.thp == HD_THP_AUTO ? blocks : 0; }

/* In the first 4 MiB nobody knows yet, and from 12 on how fast it is does not matter. What it did before it grew does not matter either. */
static void test_fast_at_first(void **state) {
  (void)state;
  assert_int_equal(huge_blocks((uint64_t[]){90 * MOST, 91 * MOST, 99 * MOST, 109 * MOST, 119 * MOST}), expected(0x44));
  assert_int_equal(huge_blocks((uint64_t[]){90 * MOST, 91 * MOST, 92 * MOST, 93 * MOST, 94 * MOST}), expected(0x7c));
}

static void test_fast_later(void **state) {
  (void)state;
  assert_int_equal(huge_blocks((uint64_t[]){1, 1 + MOST + 1, 2 + 2 * MOST, 3 + 3 * MOST + 1, 9 * MOST}), expected(0x48));
}

static void test_no_clock(void **state) {
  (void)state;
  assert_int_equal(huge_blocks((uint64_t[]){0, 0, 0, 0, 0}), expected(0x40));
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fast_at_first),
      cmocka_unit_test(test_fast_later),
      cmocka_unit_test(test_no_clock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
