/* A clock that begins with the program, as a sandbox's or a small virtual machine's does: what is freed in its first moments goes back, and
 * a system that refuses the helper is asked again a little later, not at once.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "apart.h"
#include "core/purge.h"
#include "heddle.h"
#include "os/os.h"

enum { COUNT = 4000, BYTES = 5000 };

static uint64_t clock_ms;

uint64_t __wrap_hdi_os_now_ms(void);
uint64_t __wrap_hdi_os_now_ms(void) { return clock_ms; }

static int refusals, asked;

typedef void run_function(void);
bool __real_hdi_os_helper_start(run_function *run, void *stack, size_t stack_bytes, atomic_uint *alive);
bool __wrap_hdi_os_helper_start(run_function *run, void *stack, size_t stack_bytes, atomic_uint *alive);
bool __wrap_hdi_os_helper_start(run_function *run, void *stack, size_t stack_bytes, atomic_uint *alive) {
  asked++;
  return asked > refusals && __real_hdi_os_helper_start(run, stack, stack_bytes, alive);
}

static void fill_and_free(void) {
  static void *blocks[COUNT];
  for (int i = 0; i < COUNT; i++) {
    TS_CHECK((blocks[i] = hd_malloc(BYTES)) != NULL, "no memory");
    memset(blocks[i], 1, BYTES);
  }
  for (int i = 0; i < COUNT; i++) hd_free(blocks[i]);
}

/* At such a time: how often the system has been asked for a helper by then. */
static void see_asked(uint64_t at_ms, int times) {
  clock_ms = at_ms;
  fill_and_free();
  TS_CHECK(asked == times, "asked %d times by %d ms, not %d", asked, (int)at_ms, times);
  TS_CHECK(hdi_purge_running == (times > refusals), "helper: %u", hdi_purge_running);
}

static void refused_twice(void *unused) {
  (void)unused;
  refusals = 2;
  see_asked(0, 1);
  see_asked(400, 1);
  see_asked(600, 2);
  see_asked(1000, 2);
  see_asked(1200, 3);
}

static size_t cached(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_stats_get(&stats), "no figures");
  return stats.cached;
}

/* The delay reaches back to before the clock began. */
static void first_moment(void *unused) {
  (void)unused;
  TS_CHECK(hd_option_set("purge-delay", "500") == HD_OK, "option");
  see_asked(0, 1);
  ts_sleep_ms(600);
  TS_CHECK(cached() > 8 << 20, "%zu bytes are left before their time", cached());
  clock_ms = 600;
  for (int i = 0; i < 200 && cached() > 1 << 20; i++) ts_sleep_ms(50);
  TS_CHECK(cached() <= 1 << 20, "%zu bytes have not gone back", cached());
}

static void test_refused_twice(void **state) {
  (void)state;
  run_apart(refused_twice, 60);
}

static void test_first_moment(void **state) {
  (void)state;
  run_apart(first_moment, 60);
}

int main(void) {
  const struct CMUnitTest tests[] = {cmocka_unit_test(test_first_moment), cmocka_unit_test(test_refused_twice)};
  return cmocka_run_group_tests(tests, NULL, NULL);
}
