/* What the system says of resident memory: by the call for it, and without that call, in a process whose system calls are filtered. And a
 * sandbox that says of all memory that it is resident.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/filter.h"
#include "apart.h"
#include "os/linux_memory.h"
#include "os/os.h"

enum { PAGES = 3000, SHORT = 5, STALE_MS = 40 /* as old as the answer that there is no filter may be, and a little more */ };

static const long for_resident = SYS_mincore;

static bool in_sandbox;

long __real_hdi_linux_mincore(const void *address, size_t bytes, unsigned char *present);
long __wrap_hdi_linux_mincore(const void *address, size_t bytes, unsigned char *present);
long __wrap_hdi_linux_mincore(const void *address, size_t bytes, unsigned char *present) {
  size_t pages = bytes / hdi_os.page_bytes;
  long result = in_sandbox ? 0 : __real_hdi_linux_mincore(address, bytes, present);
  for (size_t i = 0; i < pages; i++) present[i] |= in_sandbox ? 1 : 0xfe; /* what the other bits are for nobody knows */
  return result;
}

static uint8_t *memory(void) {
  uint8_t *p = hdi_os_reserve(PAGES * hdi_os.page_bytes, 2 << 20, false);
  TS_CHECK(p != NULL && hdi_os_commit(p, PAGES * hdi_os.page_bytes), "no memory");
  madvise(p, PAGES * hdi_os.page_bytes, MADV_NOHUGEPAGE);
  return p;
}

static void check_pages(const uint8_t *p, size_t pages, size_t resident, size_t last) {
  uint8_t is[PAGES + 1];
  size_t count = 0, end = 0;
  memset(is, 0xee, sizeof is);
  TS_CHECK(hdi_os_resident_pages(p, pages, is), "nobody says");
  for (size_t i = 0; i < pages; i++) {
    TS_CHECK(is[i] <= 1, "page %zu is %u", i, is[i]);
    count += is[i];
    if (is[i] == 1) end = i + 1;
  }
  TS_CHECK(count == resident && end == last, "%zu pages up to %zu, not %zu up to %zu", count, end, resident, last);
  TS_CHECK(is[pages] == 0xee, "one too many");
}

static void check(const uint8_t *p, size_t first, size_t pages, size_t resident, size_t last) {
  size_t page = hdi_os.page_bytes, end = SIZE_MAX;
  check_pages(p + first * page, pages, resident, last);
  size_t found = hdi_os_resident_until(p + first * page, pages * page, &end);
  TS_CHECK(found == resident * page, "%zu of %zu pages from %zu on are resident, not %zu", found / page, pages, first, resident);
  TS_CHECK(end == last * page, "the last one of %zu from %zu on ends at %zu, not %zu", pages, first, end / page, last);
  TS_CHECK(hdi_os_resident_in(p + first * page, pages * page) == found, "another answer");
}

/* Some here and there, then all, for longer than one question is, then none. In ranges of more than 128 pages one in `apart` stands for the
 * others. */
static void check_memory(uint8_t *p, size_t apart) {
  size_t page = hdi_os.page_bytes;
  check(p, 0, PAGES, 0, 0);
  for (size_t i = 0; i < 100; i += 10) p[i * page] = 1;
  for (size_t i = 1024; i < 2500; i++) p[i * page] = 1;
  check(p, 0, 1, 1, 1);
  check(p, 1, 1, 0, 0);
  check(p, 0, 0, 0, 0);
  check(p, 0, 100, 10, 91);
  check(p, 1, 100, 9, 90);
  check(p, 2450, 128, 50, 50);
  check(p, 2450, 129, apart == 1 ? 50 : 64, apart == 1 ? 50 : 64);
  check(p, 2500, PAGES - 2500, 0, 0);
  check(p, 1024, 1476, 1476, 1476);
  check(p, 0, PAGES, apart == 1 ? 1486 : 64 + 1536, apart == 1 ? 2500 : 2560);
  check(p, 960, 1160, 1096, 1160);
  TS_CHECK(hdi_os_purge(p, 2499 * page), "not purged");
  check(p, 2400, 101, 1, 100);
  check(p, 0, PAGES, apart == 1, apart == 1 ? 2500 : 0);
}

static void put_up(void) {
  if (!ts_filter_calls(TS_FILTER_FORBID, &for_resident, 1)) _exit(NOT_HERE);
}

static void unfiltered(void *unused) {
  (void)unused;
  check_memory(memory(), 1);
}

/* The call ends a process that makes it in spite of the filter. */
static void makes_the_call(void *unused) {
  (void)unused;
  unsigned char present;
  uint8_t *p = memory();
  put_up();
  syscall(SYS_mincore, p, hdi_os.page_bytes, &present);
}

static void filtered(void *unused) {
  (void)unused;
  uint8_t *p = memory();
  put_up();
  check_memory(p, 64);
}

static void filtered_later(void *unused) {
  (void)unused;
  uint8_t *p = memory();
  check(p, 0, SHORT, 0, 0);
  put_up();
  ts_sleep_ms(STALE_MS);
  check_memory(p, 64);
}

static void *in_thread(void *p) {
  put_up();
  ts_sleep_ms(STALE_MS);
  check_memory(p, 64);
  return NULL;
}

/* A filter may be one thread's alone. */
static void thread_filtered(void *unused) {
  (void)unused;
  pthread_t thread;
  uint8_t *p = memory(), *other = memory();
  check(p, 0, SHORT, 0, 0);
  TS_CHECK(pthread_create(&thread, NULL, in_thread, p) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  check_memory(other, 64);
}

/* And just before it a thread without one has been told that there is none. */
static void *at_once(void *p) {
  put_up();
  check(p, 0, SHORT, 0, 0);
  return NULL;
}

static void thread_at_once(void *unused) {
  (void)unused;
  pthread_t thread;
  uint8_t *p = memory();
  for (int i = 0; i < 20; i++) {
    check(p, 0, SHORT, 0, 0);
    TS_CHECK(pthread_create(&thread, NULL, at_once, p) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  }
}

static void check_unknown(const uint8_t *p) {
  const size_t bytes = SHORT * hdi_os.page_bytes;
  size_t end = 0;
  uint8_t resident[SHORT];
  TS_CHECK(hdi_os_resident_until(p, bytes, &end) == 0 && end == bytes, "end %zu", end);
  TS_CHECK(!hdi_os_resident_pages(p, SHORT, resident), "somebody says");
}

/* Where no file can be opened nobody says. */
static void no_files(void *unused) {
  (void)unused;
  uint8_t *p = memory();
  p[0] = 1;
  put_up();
  if (chroot("/sys") != 0) _exit(NOT_HERE);
  check_unknown(p);
}

/* A process that has all the files open that it may have is not taken for a filtered one when it has fewer. */
static void files_later(void *unused) {
  (void)unused;
  struct rlimit limit;
  uint8_t *p = memory();
  TS_CHECK(getrlimit(RLIMIT_NOFILE, &limit) == 0, "no limit");
  const struct rlimit none = {0, limit.rlim_max};
  TS_CHECK(setrlimit(RLIMIT_NOFILE, &none) == 0, "not limited");
  check_unknown(p);
  TS_CHECK(setrlimit(RLIMIT_NOFILE, &limit) == 0, "still limited");
  check_memory(p, 1);
}

/* Where all memory is said to be resident nobody says. */
static void sandboxed(void *unused) {
  (void)unused;
  uint8_t *p = memory();
  p[0] = 1;
  in_sandbox = true;
  check_unknown(p);
  check_unknown(p);
}

/* What a program keeps resident it is believed of, and what it has afterwards. */
static void locked(void *unused) {
  (void)unused;
  if (mlockall(MCL_CURRENT | MCL_FUTURE) != 0) _exit(NOT_HERE);
  check(memory(), 0, PAGES, PAGES, PAGES);
  munlockall();
  check_memory(memory(), 1);
}

static void test_unfiltered(void **state) {
  (void)state;
  run_apart(unfiltered, 20);
}

static void test_sandboxed(void **state) {
  (void)state;
  run_apart(sandboxed, 20);
}

static void test_locked(void **state) {
  (void)state;
  run_apart(locked, 20);
}

static void test_filter_works(void **state) {
  (void)state;
  struct ts_outcome outcome;
  ts_fork_run(makes_the_call, NULL, 20, &outcome);
  if (ts_exited(&outcome, NOT_HERE)) skip();
  assert_true(ts_signalled(&outcome, SIGSYS));
}

static void test_filtered(void **state) {
  (void)state;
  run_apart(filtered, 20);
}

static void test_filtered_later(void **state) {
  (void)state;
  run_apart(filtered_later, 20);
}

static void test_thread_filtered(void **state) {
  (void)state;
  run_apart(thread_filtered, 20);
}

static void test_thread_at_once(void **state) {
  (void)state;
  run_apart(thread_at_once, 20);
}

static void test_no_files(void **state) {
  (void)state;
  if (geteuid() != 0) skip();
  run_apart(no_files, 20);
}

static void test_files_later(void **state) {
  (void)state;
  run_apart(files_later, 20);
}

static int setup(void **state) {
  (void)state;
  hdi_os_init();
  return 0;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_unfiltered),      cmocka_unit_test(test_filter_works),   cmocka_unit_test(test_filtered),
      cmocka_unit_test(test_filtered_later),  cmocka_unit_test(test_thread_filtered), cmocka_unit_test(test_thread_at_once),
      cmocka_unit_test(test_no_files),        cmocka_unit_test(test_files_later),    cmocka_unit_test(test_sandboxed),
      cmocka_unit_test(test_locked),
  };
  return cmocka_run_group_tests(tests, setup, NULL);
}
