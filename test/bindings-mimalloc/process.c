/* The process: version, options, callbacks, statistics, what is not offered.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <mimalloc.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

#include "../support/support.h"

static void options(void) {
  for (int i = 0; i < _mi_option_last; i++) {
    mi_option_t option = (mi_option_t)i;
    mi_option_set(option, 3);
    TS_CHECK(mi_option_get(option) == 3 && mi_option_is_enabled(option), "option %d", i);
    TS_CHECK(mi_option_get_clamp(option, 5, 9) == 5 && mi_option_get_clamp(option, 0, 2) == 2, "option %d clamped", i);
    mi_option_set_default(option, 7);
    TS_CHECK(mi_option_get(option) == 3, "option %d was set before", i);
    mi_option_disable(option);
    TS_CHECK(!mi_option_is_enabled(option), "option %d disabled", i);
    mi_option_enable(option);
    TS_CHECK(mi_option_get(option) == 1, "option %d enabled", i);
    mi_option_set_enabled_default(option, false);
    TS_CHECK(mi_option_is_enabled(option), "option %d was set before", i);
  }
  TS_CHECK(mi_option_get_size(mi_option_arena_reserve) == 1024, "an option in KiB");
  mi_option_set((mi_option_t)9999, 1);
  mi_option_set((mi_option_t)-1, 1);
  TS_CHECK(mi_option_get((mi_option_t)9999) == 0, "no option");
  mi_option_set(mi_option_purge_delay, -1);
  TS_CHECK(mi_option_get(mi_option_reset_delay) == -1, "never, by the older name");
  mi_option_set(mi_option_purge_delay, 500);
  TS_CHECK(mi_option_get(mi_option_purge_delay) == 500, "milliseconds");
}

struct heard {
  size_t calls, bytes;
  int error;
};

static void output(const char *text, void *arg) {
  struct heard *heard = arg;
  heard->calls++;
  heard->bytes += strlen(text);
}

static void error(int code, void *arg) {
  struct heard *heard = arg;
  heard->calls++;
  heard->error = code;
}

static void *put_off;
static void deferred(bool force, unsigned long long heartbeat, void *arg) {
  struct heard *heard = arg;
  heard->calls++;
  heard->error = (int)force;
  TS_CHECK(heartbeat > 0, "a heartbeat");
  mi_free(put_off);
  put_off = NULL;
}

static void callbacks(void) {
  struct heard out = {0}, own = {0}, errors = {0}, freed = {0};
  mi_register_output(output, &out);
  mi_stats_print(NULL);
  mi_stats_print_out(NULL, NULL);
  mi_stats_print_out(output, &own);
  mi_thread_stats_print_out(output, &own);
  TS_CHECK(out.calls >= 2 && out.bytes > 200 && own.calls >= 2 && own.bytes > 100, "%zu and %zu bytes", out.bytes, own.bytes);
  mi_register_output(NULL, NULL);
  mi_register_error(error, &errors);
  volatile size_t half = (size_t)1 << 33, most = PTRDIFF_MAX;
  TS_CHECK(mi_calloc(half, half) == NULL && errors.calls > 0 && errors.error == EOVERFLOW, "error %d", errors.error);
  TS_CHECK(mi_malloc_aligned(1, 3) == NULL && errors.error == EINVAL, "error %d", errors.error);
  TS_CHECK(mi_malloc(most) == NULL && errors.error == ENOMEM, "error %d", errors.error);
  mi_register_error(NULL, NULL);
  put_off = mi_malloc(100);
  mi_register_deferred_free(deferred, &freed);
  mi_collect(true);
  TS_CHECK(freed.calls == 1 && freed.error == 1 && put_off == NULL, "deferred, forced");
  mi_collect(false);
  TS_CHECK(freed.calls == 2 && freed.error == 0, "deferred");
  mi_register_deferred_free(NULL, NULL);
}

static void figures(void) {
  size_t elapsed = 0, user = 0, system = 0, rss = 0, peak_rss = 0, commit = 0, peak_commit = 0, faults = 0;
  char *p = mi_malloc(20 << 20);
  memset(p, 1, 20 << 20);
  mi_process_info(&elapsed, &user, &system, &rss, &peak_rss, &commit, &peak_commit, &faults);
  TS_CHECK(rss > 20 << 20 && peak_rss >= 20 << 20 && commit >= 20 << 20 && peak_commit >= commit, "%zu resident, %zu held", rss, commit);
  mi_free(p);
  mi_collect(true);
  size_t later = 0;
  mi_process_info(NULL, NULL, NULL, &rss, NULL, &commit, &later, NULL);
  TS_CHECK(rss < peak_rss - (15 << 20) && commit < peak_commit - (15 << 20) && later >= peak_commit, "after a collection");
  mi_process_info(NULL, NULL, NULL, NULL, NULL, NULL, NULL, NULL);
  mi_stats_reset();
  mi_stats_merge();
}

static void not_offered(void) {
  mi_arena_id_t arena = 1;
  size_t reserved = 9;
  static char memory[1 << 16];
  TS_CHECK(mi_reserve_os_memory(1 << 20, true, false) == ENOMEM, "memory");
  TS_CHECK(mi_reserve_os_memory_ex(1 << 20, true, false, true, &arena) == ENOMEM, "memory");
  TS_CHECK(mi_reserve_huge_os_pages_interleave(1, 0, 10) == ENOMEM && mi_reserve_huge_os_pages_at(1, 0, 10) == ENOMEM, "huge pages");
  TS_CHECK(mi_reserve_huge_os_pages_at_ex(1, 0, 10, true, &arena) == ENOMEM, "huge pages");
  TS_CHECK(mi_reserve_huge_os_pages(1, 0.1, &reserved) == ENOMEM && reserved == 0, "huge pages");
  TS_CHECK(!mi_manage_os_memory(memory, sizeof memory, true, false, true, -1), "the caller's memory");
  TS_CHECK(!mi_manage_os_memory_ex(memory, sizeof memory, true, false, true, -1, true, &arena), "the caller's memory");
  TS_CHECK(mi_arena_area(1, &reserved) == NULL && mi_heap_new_in_arena(1) == NULL, "arenas");
}

int main(void) {
  mi_process_init();
  mi_thread_init();
  TS_CHECK(mi_version() == MI_MALLOC_VERSION && mi_version() >= 200 && !mi_is_redirected(), "version %d", mi_version());
  options();
  callbacks();
  figures();
  not_offered();
  mi_thread_done();
  puts("ok");
  return 0;
}
