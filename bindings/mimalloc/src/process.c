/* The process: options, callbacks, statistics, what is not offered. See mimalloc.h.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#include "mi.h"

/* ---- callbacks -------------------------------------------------------------------------------------------------------- */

static struct {
  mi_output_fun *output;
  mi_error_fun *error;
  mi_deferred_free_fun *deferred;
  void *output_arg, *error_arg, *deferred_arg;
  unsigned long long heartbeat;
} registered;

void mi_register_output(mi_output_fun *out, void *arg) {
  registered.output_arg = arg;
  registered.output = out;
}

void mi_register_error(mi_error_fun *fun, void *arg) {
  registered.error_arg = arg;
  registered.error = fun;
}

void mi_register_deferred_free(mi_deferred_free_fun *fun, void *arg) {
  registered.deferred_arg = arg;
  registered.deferred = fun;
}

void mi_call_error(int error) {
  if (registered.error != NULL) registered.error(error, registered.error_arg);
}

/* Not again from inside: the callback frees, and may allocate. */
void mi_call_deferred_free(bool force) {
  static __thread bool inside __attribute__((tls_model("initial-exec")));
  if (registered.deferred == NULL || inside) return;
  inside = true;
  unsigned long long beat = __atomic_add_fetch(&registered.heartbeat, 1, __ATOMIC_RELAXED);
  registered.deferred(force, beat, registered.deferred_arg);
  inside = false;
}

void mi_collect(bool force) {
  mi_call_deferred_free(force);
  if (force) hd_collect(0);
  else hd_thread_idle();
}

/* ---- life ------------------------------------------------------------------------------------------------------------- */

int mi_version(void) { return MI_MALLOC_VERSION; }
void mi_process_init(void) { hd_good_size(1 << 20); /* starts the library */ }
void mi_thread_init(void) { hd_free(hd_malloc(1)); }
void mi_thread_done(void) { hd_thread_idle(); }

/* ---- statistics ------------------------------------------------------------------------------------------------------- */

void mi_stats_reset(void) {}
void mi_stats_merge(void) {}

static void to_stderr(const char *text, void *arg) {
  (void)arg;
  fputs(text, stderr);
}

void mi_stats_print_out(mi_output_fun *out, void *arg) {
  char text[4096];
  if (out == NULL) out = registered.output, arg = registered.output_arg;
  if (out == NULL) out = to_stderr;
  hd_stats_text(text, sizeof text);
  out(text, arg);
}

void mi_stats_print(void *out) {
  (void)out;
  mi_stats_print_out(NULL, NULL);
}

void mi_thread_stats_print_out(mi_output_fun *out, void *arg) { mi_stats_print_out(out, arg); }
void mi_debug_show_arenas(void) { mi_stats_print_out(NULL, NULL); }

static size_t milliseconds(struct timeval time) { return (size_t)time.tv_sec * 1000 + (size_t)time.tv_usec / 1000; }

/* Since the library was loaded. */
static struct timespec loaded;
static __attribute__((constructor)) void note_start(void) { clock_gettime(CLOCK_MONOTONIC, &loaded); }

static size_t elapsed(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (size_t)((now.tv_sec - loaded.tv_sec) * 1000 + (now.tv_nsec - loaded.tv_nsec) / 1000000);
}

static void put(size_t *to, size_t value) {
  if (to != NULL) *to = value;
}

void mi_process_info(size_t *elapsed_msecs, size_t *user_msecs, size_t *system_msecs, size_t *current_rss, size_t *peak_rss,
                     size_t *current_commit, size_t *peak_commit, size_t *page_faults) {
  struct rusage usage;
  hd_stats stats = {.struct_bytes = sizeof stats};
  memset(&usage, 0, sizeof usage);
  getrusage(RUSAGE_SELF, &usage);
  hd_stats_get(&stats);
  size_t held = stats.live + stats.free_in_pages + stats.cached + stats.metadata;
  static size_t most_held; /* as far as this function has seen */
  size_t most = __atomic_load_n(&most_held, __ATOMIC_RELAXED);
  while (held > most && !__atomic_compare_exchange_n(&most_held, &most, held, false, __ATOMIC_RELAXED, __ATOMIC_RELAXED)) {
  }
  put(elapsed_msecs, elapsed());
  put(user_msecs, milliseconds(usage.ru_utime));
  put(system_msecs, milliseconds(usage.ru_stime));
  put(current_rss, stats.resident);
  put(peak_rss, (size_t)usage.ru_maxrss * 1024);
  put(current_commit, held);
  put(peak_commit, held > most ? held : most);
  put(page_faults, (size_t)usage.ru_majflt);
}

/* ---- options ---------------------------------------------------------------------------------------------------------- */

static long values[_mi_option_last];
static bool was_set[_mi_option_last];

static bool is_option(mi_option_t option) { return (int)option >= 0 && option < _mi_option_last; }

static long purge_delay(void) {
  char text[32];
  if (hd_option_get("purge", text, sizeof text) > 0 && strcmp(text, "off") == 0) return -1;
  return hd_option_get("purge-delay", text, sizeof text) > 0 ? strtol(text, NULL, 10) : 0;
}

static void set_purge_delay(long value) {
  char text[32];
  snprintf(text, sizeof text, "%ld", value);
  hd_option_set("purge", value < 0 ? "off" : "on");
  if (value >= 0) hd_option_set("purge-delay", text);
}

long mi_option_get(mi_option_t option) {
  if (!is_option(option)) return 0;
  return option == mi_option_purge_delay ? purge_delay() : values[option];
}

void mi_option_set(mi_option_t option, long value) {
  if (!is_option(option)) return;
  was_set[option] = true;
  values[option] = value;
  if (option == mi_option_purge_delay) set_purge_delay(value);
}

void mi_option_set_default(mi_option_t option, long value) {
  if (!is_option(option) || was_set[option]) return;
  mi_option_set(option, value);
  was_set[option] = false;
}

long mi_option_get_clamp(mi_option_t option, long min, long max) {
  long value = mi_option_get(option);
  return value < min ? min : value > max ? max : value;
}

size_t mi_option_get_size(mi_option_t option) {
  long value = mi_option_get(option);
  return value <= 0 ? 0 : (unsigned long)value > SIZE_MAX / 1024 ? SIZE_MAX : (size_t)value * 1024;
}

bool mi_option_is_enabled(mi_option_t option) { return mi_option_get(option) != 0; }
void mi_option_enable(mi_option_t option) { mi_option_set_enabled(option, true); }
void mi_option_disable(mi_option_t option) { mi_option_set_enabled(option, false); }
void mi_option_set_enabled(mi_option_t option, bool enable) { mi_option_set(option, enable); }
void mi_option_set_enabled_default(mi_option_t option, bool enable) { mi_option_set_default(option, enable); }

/* ---- not offered ------------------------------------------------------------------------------------------------------ */

int mi_reserve_huge_os_pages_interleave(size_t pages, size_t numa_nodes, size_t timeout_msecs) {
  (void)numa_nodes, (void)timeout_msecs;
  return pages == 0 ? 0 : ENOMEM;
}

int mi_reserve_huge_os_pages_at(size_t pages, int numa_node, size_t timeout_msecs) {
  (void)numa_node, (void)timeout_msecs;
  return pages == 0 ? 0 : ENOMEM;
}

int mi_reserve_huge_os_pages_at_ex(size_t pages, int numa_node, size_t timeout_msecs, bool exclusive, mi_arena_id_t *arena_id) {
  (void)numa_node, (void)timeout_msecs, (void)exclusive;
  if (arena_id != NULL) *arena_id = 0;
  return pages == 0 ? 0 : ENOMEM;
}

int mi_reserve_huge_os_pages(size_t pages, double max_secs, size_t *pages_reserved) {
  (void)max_secs;
  if (pages_reserved != NULL) *pages_reserved = 0;
  return pages == 0 ? 0 : ENOMEM;
}

int mi_reserve_os_memory(size_t size, bool commit, bool allow_large) {
  (void)size, (void)commit, (void)allow_large;
  return ENOMEM;
}

int mi_reserve_os_memory_ex(size_t size, bool commit, bool allow_large, bool exclusive, mi_arena_id_t *arena_id) {
  (void)exclusive;
  if (arena_id != NULL) *arena_id = 0;
  return mi_reserve_os_memory(size, commit, allow_large);
}

bool mi_manage_os_memory(void *start, size_t size, bool is_committed, bool is_large, bool is_zero, int numa_node) {
  (void)start, (void)size, (void)is_committed, (void)is_large, (void)is_zero, (void)numa_node;
  return false;
}

bool mi_manage_os_memory_ex(void *start, size_t size, bool is_committed, bool is_large, bool is_zero, int numa_node, bool exclusive,
                            mi_arena_id_t *arena_id) {
  (void)exclusive;
  if (arena_id != NULL) *arena_id = 0;
  return mi_manage_os_memory(start, size, is_committed, is_large, is_zero, numa_node);
}

void *mi_arena_area(mi_arena_id_t arena_id, size_t *size) {
  (void)arena_id;
  if (size != NULL) *size = 0;
  return NULL;
}

mi_heap_t *mi_heap_new_in_arena(mi_arena_id_t arena_id) {
  (void)arena_id;
  errno = ENOMEM;
  return NULL;
}
