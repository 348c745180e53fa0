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

#include "core/heap.h"
#include "core/options.h"
#include "core/space.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"
#include "huge_pages.h"

enum {
  MIB = 1024 * 1024,
  BLOCKS = 7,      /* of 2 MiB */
  ASKED = 5,       /* from the second to the sixth: before each the clock is looked at */
  AGAIN = 2,       /* and before each of two that are taken once more */
  MOST = 1500000,  /* ns for 2 MiB, or 0.75 ms for one: the most that is fast wherever it is */
  LITTLE = 32,     /* ns, one for each unit */
  FEW_SHARE = 16   /* such a share of 2 MiB is touched to see what page faults cost */
};

static uint64_t few_cost;  /* what that took, in ns */
static size_t touches, expected_touches;

static uint64_t clock_tells[ASKED + AGAIN];
static size_t looks;
static void *unit_at[BLOCKS * HD_HUGE_UNITS];

uint64_t __wrap_hdi_os_spent_ns(void);
uint64_t __wrap_hdi_os_spent_ns(void) { return looks < ASKED + AGAIN ? clock_tells[looks++] : 0; }

uint64_t __wrap_hdi_os_touch(void *address, size_t bytes);
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes) {
  (void)address;
  if (bytes == hdi_os.page_bytes) return 0; /* a huge page, which is quick */
  touches++;
  return bytes == 2 * MIB / FEW_SHARE ? few_cost : 0;
}

static void take_unit(void) {
  uint8_t *p = hd_malloc(HD_UNIT_BYTES);
  size_t at = (size_t)(p - hdi_space.base) / HD_UNIT_BYTES;
  if (p == NULL || at >= sizeof unit_at / sizeof *unit_at) _exit(255);
  memset(p, 1, HD_UNIT_BYTES);
  unit_at[at] = p;
}

/* Bit i: huge pages were asked for where block i lies. 255: the clock was looked at more or less often, or few pages touched. */
static int asked(size_t expected_looks) {
  int huge = 0;
  for (size_t i = 0; i < BLOCKS; i++) huge |= hdi_space_is_huge(hdi_space.base + (2 * i + 1) * MIB) << i;
  return (looks == expected_looks && touches == expected_touches) || !may_be_huge() ? huge : 255;
}

static int fill(void) {
  while (hdi_space.top < BLOCKS * HD_HUGE_UNITS) take_unit();
  return asked(ASKED);
}

/* The same once the third and the fourth block were given back and are taken again. */
static int fill_again(void) {
  fill();
  for (size_t i = 2 * HD_HUGE_UNITS; i < 4 * HD_HUGE_UNITS; i++) hd_free(unit_at[i]);
  hdi_heap_drop_runs(hdi_heap_mine());
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX); /* runs alone: where a page is purged in part no more huge pages come */
  for (size_t i = 0; i < 2 * HD_HUGE_UNITS; i++) take_unit();
  return asked(ASKED + AGAIN);
}

/* In a process of its own, which is small. Whenever 2 MiB are full the clock tells these. */
static int huge_blocks(int (*fills)(void), const uint64_t *tells, size_t count) {
  int status = 0;
  if (hdi_options.thp == HD_THP_ALWAYS) skip(); /* nobody asks */
  memcpy(clock_tells, tells, count * sizeof *tells);
  pid_t child = fork();
  if (child == 0) _exit(fills());
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_true(WIFEXITED(status));
  return WEXITSTATUS(status);
}

static int expected(int blocks) { return may_be_huge() ? blocks : 0; }

/* In the first 4 MiB nobody knows yet, and from 12 on how fast it is does not matter. What it did before it grew does not matter either. */
static void test_fast_at_first(void **state) {
  (void)state;
  assert_int_equal(huge_blocks(fill, (uint64_t[]){90 * MOST, 91 * MOST, 99 * MOST, 109 * MOST, 119 * MOST}, ASKED), expected(0x44));
  assert_int_equal(huge_blocks(fill, (uint64_t[]){90 * MOST, 91 * MOST, 92 * MOST, 93 * MOST, 94 * MOST}, ASKED), expected(0x7c));
}

static void test_fast_later(void **state) {
  (void)state;
  assert_int_equal(huge_blocks(fill, (uint64_t[]){1, 1 + 5 * MOST, 1 + 6 * MOST, 1 + 11 * MOST, 1 + 17 * MOST}, ASKED), expected(0x48));
}

/* Where page faults cost so much that they are 40 % of it, twice the time is fast as well. What they cost is found out where it may matter,
 * and until it is known. */
static void test_slow_faults(void **state) {
  (void)state;
  enum { FEW = 2 * MOST * 2 / 5 / FEW_SHARE };
  const uint64_t twice[] = {1, 1 + 2 * MOST, 1 + 4 * MOST, 1 + 6 * MOST, 1 + 8 * MOST};
  const uint64_t four_times[] = {1, 1 + 4 * MOST, 1 + 8 * MOST, 1 + 12 * MOST, 1 + 16 * MOST};
  const uint64_t slower[] = {1, 1 + 4 * (MOST + LITTLE), 1 + 8 * (MOST + LITTLE), 1 + 12 * (MOST + LITTLE), 1 + 16 * (MOST + LITTLE)};
  expected_touches = 1;
  few_cost = FEW;
  assert_int_equal(huge_blocks(fill, twice, ASKED), expected(0x7c));
  few_cost = FEW - LITTLE;
  assert_int_equal(huge_blocks(fill, twice, ASKED), expected(0x40));
  few_cost = 2 * FEW;
  assert_int_equal(huge_blocks(fill, four_times, ASKED), expected(0x7c));
  expected_touches = 4;
  few_cost = 0;
  assert_int_equal(huge_blocks(fill, twice, ASKED), expected(0x40));
  expected_touches = 0;
  few_cost = 9 * FEW;
  assert_int_equal(huge_blocks(fill, slower, ASKED), expected(0x40));
}

/* What was given back is as fresh as what comes behind it, but how long that took is not known before the next block. */
static void test_taken_again(void **state) {
  (void)state;
  const uint64_t from = 90 * (uint64_t)MOST;
  const uint64_t slowly[] = {from, from * 2, from * 3, from * 4, from * 5, from * 5 + 1, from * 6};
  const uint64_t fast[] = {from, from * 2, from * 3, from * 4, from * 5, from * 6, from * 6 + 1};
  assert_int_equal(huge_blocks(fill_again, slowly, ASKED + AGAIN), expected(0x40));
  assert_int_equal(huge_blocks(fill_again, fast, ASKED + AGAIN), expected(0x48));
}

static void test_no_clock(void **state) {
  (void)state;
  assert_int_equal(huge_blocks(fill, (uint64_t[]){0, 0, 0, 0, 0}, ASKED), expected(0x40));
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library */
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_fast_at_first),
      cmocka_unit_test(test_fast_later),
      cmocka_unit_test(test_slow_faults),
      cmocka_unit_test(test_taken_again),
      cmocka_unit_test(test_no_clock),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
