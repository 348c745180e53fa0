/* Moves by page tables as systems before Linux 6.17 have them: one range at a time, and what lay at the target is unmapped before that is
 * found out. And locked memory. All of it once more with the one move that systems before 5.7 have, which unmaps the source.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/filter.h"
#include "../support/support.h"
#include "core/counters.h"
#include "heddle.h"
#include "os/linux_memory.h"
#include "os/os.h"

enum { PAGES = 2048, SKIPPED = 77, COLD = 20 /* MADV_COLD */ };

#define NEED(condition) TS_CHECK(condition, "in pid %d", (int)getpid())

static size_t page(void) { return hdi_os.page_bytes; }

/* ---- the older system --------------------------------------------------------------------------------------------- */

static struct {
  bool on;
  bool blind;      /* finds out only as it moves: somebody cut the range in between */
  int moves, most; /* so many; -1: any number */
  bool takes;      /* knows only the move that unmaps the source, */
  bool is_here;    /* as the system does that the tests run on; */
  int unfilled;    /* and after which of them no memory is to be had for the hole; 0: none */
} older;

/* Whether all of it is one of the system's ranges. */
static bool is_one_range(const void *from, size_t bytes) {
  static char maps[1 << 20];
  size_t length = 0;
  int fd = open("/proc/self/maps", O_RDONLY);
  for (ssize_t part = 1; part > 0; length += (size_t)part) part = read(fd, maps + length, sizeof maps - 1 - length);
  close(fd);
  maps[length] = 0;
  for (char *line = maps; *line != 0; line = strchr(line, '\n') + 1) {
    char *end = NULL;
    uintptr_t start = strtoull(line, &end, 16), behind = strtoull(end + 1, NULL, 16);
    if ((uintptr_t)from >= start && (uintptr_t)from < behind) return (uintptr_t)from + bytes <= behind;
  }
  return false;
}

long __real_hdi_linux_try_range(void *from, size_t bytes);
long __wrap_hdi_linux_try_range(void *from, size_t bytes);
long __wrap_hdi_linux_try_range(void *from, size_t bytes) {
  if (!older.on) return __real_hdi_linux_try_range(from, bytes);
  return older.blind || is_one_range(from, bytes) ? -ENOMEM : -EFAULT;
}

typedef long move_function(void *from, void *to, size_t bytes);
move_function __real_hdi_linux_move, __wrap_hdi_linux_move, __real_hdi_linux_move_away, __wrap_hdi_linux_move_away;

static long move_by(move_function *real, void *from, void *to, size_t bytes) {
  older.moves++;
  if (!older.on) return real(from, to, bytes);
  munmap(to, bytes);
  if (!is_one_range(from, bytes)) return -EFAULT;
  if (older.most-- == 0) return -ENOMEM;
  return real(from, to, bytes);
}

long __wrap_hdi_linux_move(void *from, void *to, size_t bytes) {
  long result = older.takes ? -EINVAL : move_by(__real_hdi_linux_move, from, to, bytes);
  older.is_here = older.is_here || (!older.takes && result == -EINVAL);
  return result;
}

static void limit_addresses(rlim_t bytes) {
  struct rlimit limit = {bytes, RLIM_INFINITY};
  assert_int_equal(setrlimit(RLIMIT_AS, &limit), 0);
}

long __wrap_hdi_linux_move_away(void *from, void *to, size_t bytes) {
  assert_true(older.takes || older.is_here);
  if (older.unfilled > 0 && older.moves == older.unfilled) limit_addresses(RLIM_INFINITY); /* the way back */
  long result = move_by(__real_hdi_linux_move_away, from, to, bytes);
  if (older.unfilled > 0 && older.moves == older.unfilled) limit_addresses(page());
  return result;
}

static int setup(void **state) {
  (void)state;
  older.on = false;
  hdi_os_move(NULL, NULL, 0); /* what can be done here is found out */
  older.on = true;
  older.blind = false;
  older.most = -1;
  older.moves = 0;
  older.unfilled = 0;
  return 0;
}

/* ---- moves -------------------------------------------------------------------------------------------------------- */

static uint8_t *memory(void) {
  uint8_t *p = hdi_os_reserve(PAGES * page(), 2 << 20, false);
  assert_true(p != NULL && hdi_os_commit(p, PAGES * page()));
  return p;
}

static void write_pages(uint8_t *p) {
  for (size_t i = 0; i < PAGES; i++) {
    p[i * page()] = (uint8_t)(i * 7 + 1);
    p[i * page() + page() - 1] = (uint8_t)(i + 3);
  }
}

static void check_written(const uint8_t *p) {
  for (size_t i = 0; i < PAGES; i++) {
    assert_int_equal(p[i * page()], (uint8_t)(i * 7 + 1));
    assert_int_equal(p[i * page() + page() - 1], (uint8_t)(i + 3));
  }
}

/* It can be read and written everywhere, too. */
static void check_clean(uint8_t *p) {
  for (size_t i = 0; i < PAGES * page(); i += page() / 2) {
    assert_int_equal(p[i], 0);
    p[i] = 1;
  }
}

static void cut(uint8_t *p, size_t first, size_t pages) {
  assert_int_equal(madvise(p + first * page(), pages * page(), MADV_DONTFORK), 0);
}

/* From pages that are five of the system's ranges, of one page at least. */
static bool move_ranges(uint8_t **from, uint8_t **to) {
  *from = memory();
  *to = memory();
  write_pages(*from);
  cut(*from, 5, 1);
  cut(*from, PAGES - 700, 600);
  return hdi_os_move(*from, *to, PAGES * page());
}

static void unreserve(uint8_t *one, uint8_t *other) {
  hdi_os_unreserve(one, PAGES * page());
  hdi_os_unreserve(other, PAGES * page());
}

static void test_range_by_range(void **state) {
  (void)state;
  uint8_t *from = NULL, *to = NULL;
  assert_true(move_ranges(&from, &to));
  assert_int_equal(older.moves, 5);
  check_written(to);
  check_clean(from);
  unreserve(from, to);
}

static void test_one_range_at_once(void **state) {
  (void)state;
  uint8_t *from = memory(), *to = memory();
  write_pages(from);
  assert_true(hdi_os_move(from, to, PAGES * page()));
  assert_int_equal(older.moves, 1);
  check_written(to);
  check_clean(from);
  unreserve(from, to);
}

/* As the system refuses a move, or has it cut in between, the target's memory has gone: nobody may notice. */
static void test_nothing_changed(void **state) {
  (void)state;
  for (int blind = 0; blind < 2; blind++) {
    uint8_t *from = NULL, *to = NULL;
    older.blind = blind != 0;
    older.most = 0;
    assert_false(move_ranges(&from, &to));
    check_written(from);
    check_clean(to);
    unreserve(from, to);
  }
}

/* A part has moved when the system refuses the rest. */
static void test_rest_is_copied(void **state) {
  (void)state;
  for (int most = 1; most < 5; most++) {
    uint8_t *from = NULL, *to = NULL;
    older.most = most;
    assert_true(move_ranges(&from, &to));
    check_written(to);
    check_clean(from);
    unreserve(from, to);
  }
}

/* A move whose hole can't be filled is taken back: nothing has changed, or what was to be moved is copied. */
static void test_hole_not_filled(void **state) {
  (void)state;
  for (int at = 1; at < 5; at++) {
    uint8_t *from = NULL, *to = NULL;
    older.moves = 0;
    older.unfilled = at;
    bool moved = move_ranges(&from, &to);
    assert_int_equal(moved, at > 1);
    assert_int_equal(older.moves, at + 1);
    check_written(moved ? to : from);
    check_clean(moved ? from : to);
    unreserve(from, to);
  }
}

/* The system may have put nothing in the range at all. */
static void test_no_range(void **state) {
  (void)state;
  uint8_t *from = memory(), *to = memory();
  munmap(from, page());
  assert_false(hdi_os_move(from, to, PAGES * page()));
  assert_int_equal(older.moves, 0);
  check_clean(to);
  unreserve(from, to);
}

/* A block that grows, after its program has kept a part of it from children. */
static void test_block(void **state) {
  (void)state;
  enum { MIB = 1 << 20, SIZE = 24 * MIB };
  size_t before = hd_load_relaxed(&hdi_counters.moved_bytes);
  for (size_t round = 0; round < 4; round++) {
    uint8_t *p = hd_malloc(SIZE + round * MIB);
    assert_non_null(p);
    memset(p, 0x5a, SIZE);
    void *wall = hd_malloc(3 * MIB);
    uint8_t *middle = (uint8_t *)hd_round_up((uintptr_t)p + SIZE / 2, page());
    assert_int_equal(madvise(middle, MIB, MADV_DONTFORK), 0);
    uint8_t *moved = hd_realloc(p, 3 * SIZE);
    assert_non_null(moved);
    assert_true(moved[0] == 0x5a && memcmp(moved, moved + 1, SIZE - 1) == 0);
    memset(moved + SIZE, 1, 2 * SIZE);
    hd_free(moved);
    hd_free(wall);
  }
  if (hdi_os.can_move) assert_true(hd_load_relaxed(&hdi_counters.moved_bytes) >= before + SIZE);
}

/* Below what it uses already the process may not have again what it gives up, of address space or of data: of that from Linux 4.7 on. */
static void move_at_limit(void *argument) {
  const int *resource = argument;
  struct rlimit limit = {page(), RLIM_INFINITY};
  uint8_t *from = memory(), *to = memory();
  write_pages(from);
  if (setrlimit(*resource, &limit) != 0) _exit(1);
  bool limited = hdi_linux_map(NULL, page(), PROT_READ | PROT_WRITE, 0) == NULL;
  NEED(limited || *resource == RLIMIT_DATA);
  bool moved = hdi_os_move(from, to, PAGES * page());
  for (size_t i = 0; i < PAGES; i++) to[i * page()] = 1;
  _exit(moved && limited ? 2 : 0);
}

static void test_limits(void **state) {
  (void)state;
  int resources[] = {RLIMIT_AS, RLIMIT_DATA};
  for (int i = 0; i < 2; i++) {
    struct ts_outcome outcome;
    ts_fork_run(move_at_limit, &resources[i], 10, &outcome);
    assert_true(ts_exited(&outcome, 0));
  }
}

/* ---- locked memory ------------------------------------------------------------------------------------------------ */

static void wait_for_answer(void) { ts_sleep_ms(600); }

/* What a program keeps resident stays so, and where it is, until it says otherwise. */
static void all_locked(void *argument) {
  const int *flags = argument;
  uint8_t *p = memory(), *to = memory();
  write_pages(p);
  NEED(!hdi_linux_keeps_resident());
  if (mlockall(*flags) != 0) _exit(SKIPPED);
  wait_for_answer();
  NEED(hdi_linux_keeps_resident());
  uint8_t *later = memory();
  write_pages(later);
  uint8_t *locked = (*flags & MCL_CURRENT) != 0 ? p : later;
  NEED(!hdi_os_purge(locked, PAGES * page()));
  check_written(locked);
  NEED(!hdi_os_move(locked, to, PAGES * page()));
  munlockall();
  wait_for_answer();
  NEED(!hdi_linux_keeps_resident());
  NEED(hdi_os_purge(locked, PAGES * page()) && locked[0] == 0);
  _exit(0);
}

static void test_all_locked(void **state) {
  (void)state;
  int flags[] = {MCL_CURRENT, MCL_FUTURE, MCL_CURRENT | MCL_FUTURE};
  int run = 0;
  for (int i = 0; i < 3; i++) {
    struct ts_outcome outcome;
    ts_fork_run(all_locked, &flags[i], 20, &outcome);
    if (ts_exited(&outcome, SKIPPED)) continue;
    if (!ts_exited(&outcome, 0)) fail_msg("flags %d: status %d, %s", flags[i], outcome.status, outcome.error);
    run++;
  }
  if (run == 0) skip(); /* the system lets nobody lock so much */
}

/* Pages that a program locked, and freed without another word, go back with the rest. */
static void test_some_locked(void **state) {
  (void)state;
  uint8_t *p = memory();
  write_pages(p);
  if (mlock(p + 100 * page(), 2 * page()) != 0) skip();
  wait_for_answer();
  assert_true(hdi_os_purge(p, PAGES * page()));
  check_clean(p);
  hdi_os_unreserve(p, PAGES * page());
}

static int run_all(const char *system) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup(test_range_by_range, setup), cmocka_unit_test_setup(test_one_range_at_once, setup),
      cmocka_unit_test_setup(test_nothing_changed, setup), cmocka_unit_test_setup(test_rest_is_copied, setup),
      cmocka_unit_test_setup(test_no_range, setup),        cmocka_unit_test_setup(test_block, setup),
      cmocka_unit_test_setup(test_limits, setup),          cmocka_unit_test_setup(test_all_locked, setup),
      cmocka_unit_test_setup(test_some_locked, setup),
  };
  return cmocka_run_group_tests_name(system, tests, NULL, NULL);
}

/* What the system can do is found out once in a process. */
static void before_5_7(void *unused) {
  (void)unused;
  const struct CMUnitTest holes[] = {cmocka_unit_test_setup(test_hole_not_filled, setup)};
  older.takes = true;
  ts_filter_value(SYS_madvise, 2, COLD); /* and before 5.4 no memory can be called cold */
  int failures = run_all("before Linux 5.7");
  _exit(failures + cmocka_run_group_tests_name("holes", holes, NULL, NULL));
}

int main(void) {
  struct ts_outcome outcome = {0};
  hd_free(hd_malloc(1));
  if (sizeof(void *) == 8) ts_fork_run(before_5_7, NULL, 60, &outcome); /* elsewhere such systems move nothing */
  if (!ts_exited(&outcome, 0)) ts_print(2, "status %d: %s\n", outcome.status, outcome.error);
  return run_all("before Linux 6.17") + !ts_exited(&outcome, 0);
}
