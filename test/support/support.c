/* Support for the C tests. See support.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "support.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

char ts_replay[512];
extern char **environ;

/* ---- checks ----------------------------------------------------------------------------------------------------- */

static void write_all(int fd, const char *text, size_t bytes) {
  while (bytes > 0) {
    ssize_t n = write(fd, text, bytes);
    if (n <= 0) return;
    text += n;
    bytes -= (size_t)n;
  }
}

void ts_print(int fd, const char *format, ...) {
  char line[2048];
  va_list list;
  va_start(list, format);
  int n = vsnprintf(line, sizeof line, format, list);
  va_end(list);
  if (n > 0) write_all(fd, line, (size_t)n < sizeof line ? (size_t)n : sizeof line - 1);
}

void ts_fail(const char *file, int line, const char *cond, const char *format, ...) {
  char text[1024];
  va_list list;
  va_start(list, format);
  vsnprintf(text, sizeof text, format, list);
  va_end(list);
  ts_print(2, "FAIL %s:%d: %s: %s\n", file, line, cond, text);
  if (ts_replay[0]) ts_print(2, "replay: %s\n", ts_replay);
  _exit(1);
}

/* ---- random numbers --------------------------------------------------------------------------------------------- */

static uint64_t mix(uint64_t z) {
  z = (z ^ (z >> 30)) * 0xbf58476d1ce4e5b9u;
  z = (z ^ (z >> 27)) * 0x94d049bb133111ebu;
  return z ^ (z >> 31);
}

uint64_t ts_next(struct ts_rng *rng) { return mix(rng->state += 0x9e3779b97f4a7c15u); }

/* The high word of a product: by halves, because 32-bit machines have no wider type. */
static uint64_t high(uint64_t a, uint64_t b) {
  uint64_t low = (a & UINT32_MAX) * (b & UINT32_MAX), cross = (a >> 32) * (b & UINT32_MAX) + (low >> 32);
  uint64_t other = (a & UINT32_MAX) * (b >> 32) + (cross & UINT32_MAX);
  return (a >> 32) * (b >> 32) + (cross >> 32) + (other >> 32);
}

uint64_t ts_below(struct ts_rng *rng, uint64_t bound) { return high(ts_next(rng), bound); }

uint64_t ts_hash(uint64_t a, uint64_t b) { return mix(mix(a + 0x9e3779b97f4a7c15u) ^ (b * 0xd1342543de82ef95u)); }

uint64_t ts_seed(void) {
  const char *text = getenv("HEDDLE_TEST_SEED");
  uint64_t seed = text ? strtoull(text, NULL, 0) : 0;
  if (!text) {
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    seed = ts_hash((uint64_t)now.tv_nsec, (uint64_t)getpid()) >> 32;
  }
  ts_print(1, "seed %llu\n", (unsigned long long)seed);
  return seed;
}

/* ---- command line ----------------------------------------------------------------------------------------------- */

const char *ts_option_text(int argc, char **argv, const char *name) {
  for (int i = 1; i + 1 < argc; i++)
    if (strcmp(argv[i], name) == 0) return argv[i + 1];
  return NULL;
}

uint64_t ts_option(int argc, char **argv, const char *name, uint64_t fallback) {
  const char *text = ts_option_text(argc, argv, name);
  if (!text) return fallback;
  char *end;
  errno = 0;
  uint64_t value = strtoull(text, &end, 0);
  TS_CHECK(errno == 0 && end != text && *end == 0, "%s wants a number, got '%s'", name, text);
  return value;
}

bool ts_flag(int argc, char **argv, const char *name) {
  for (int i = 1; i < argc; i++)
    if (strcmp(argv[i], name) == 0) return true;
  return false;
}

/* ---- time and memory -------------------------------------------------------------------------------------------- */

uint64_t ts_now_ms(void) {
  struct timespec now;
  clock_gettime(CLOCK_MONOTONIC, &now);
  return (uint64_t)now.tv_sec * 1000 + (uint64_t)now.tv_nsec / 1000000;
}

void ts_sleep_ms(unsigned ms) {
  struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
  while (nanosleep(&left, &left) != 0 && errno == EINTR) {
  }
}

size_t ts_os_page(void) { return (size_t)sysconf(_SC_PAGESIZE); }

/* The figure of a line, in kB, of a file that the system keeps about this process. false: there is no such file. */
static bool read_bytes_in(const char *path, const char *name, size_t *bytes) {
  char text[4096];
  int fd = open(path, O_RDONLY | O_CLOEXEC);
  if (fd < 0) return false;
  ssize_t n = read(fd, text, sizeof text - 1);
  close(fd);
  TS_CHECK(n > 0, "empty %s", path);
  text[n] = 0;
  const char *line = strstr(text, name);
  TS_CHECK(line != NULL, "no %s line", name);
  *bytes = (size_t)strtoull(line + strlen(name), NULL, 10) * 1024;
  return true;
}

size_t ts_status_bytes(const char *name) {
  size_t bytes = 0;
  TS_CHECK(read_bytes_in("/proc/self/status", name, &bytes), "no status of the process");
  return bytes;
}

size_t ts_rss(void) {
  size_t bytes = 0;
  return read_bytes_in("/proc/self/smaps_rollup", "Rss:", &bytes) ? bytes : ts_status_bytes("VmRSS:");
}

#define PAGE_PRESENT ((uint64_t)1 << 63)
#define PAGE_EXCLUSIVE ((uint64_t)1 << 56)

/* Pages whose entries have all of these bits. */
static size_t count_pages(const void *from, size_t bytes, uint64_t bits) {
  size_t page = ts_os_page(), seen = 0;
  uint64_t entry[512];
  int fd = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
  TS_CHECK(fd >= 0, "no /proc/self/pagemap");
  size_t first = (uintptr_t)from / page, last = ((uintptr_t)from + bytes + page - 1) / page;
  while (first < last) {
    size_t count = last - first < 512 ? last - first : 512;
    ssize_t n = pread(fd, entry, count * 8, (off_t)(first * 8));
    TS_CHECK(n == (ssize_t)(count * 8), "short read of pagemap");
    for (size_t i = 0; i < count; i++) seen += (entry[i] & bits) == bits;
    first += count;
  }
  close(fd);
  return seen;
}

size_t ts_resident(const void *from, size_t bytes) { return count_pages(from, bytes, PAGE_PRESENT) * ts_os_page(); }
size_t ts_own_pages(const void *from, size_t bytes) { return count_pages(from, bytes, PAGE_PRESENT | PAGE_EXCLUSIVE); }

/* ---- reports of misuse ------------------------------------------------------------------------------------------ */

struct ts_reports ts_reports;

void ts_count_report(const void *p, const char *code) {
  (void)p;
  ts_reports.count++;
  snprintf(ts_reports.code, sizeof ts_reports.code, "%s", code);
}

/* ---- children --------------------------------------------------------------------------------------------------- */

static void collect(pid_t child, int fd, unsigned timeout_s, struct ts_outcome *outcome) {
  size_t have = 0;
  uint64_t end = ts_now_ms() + (uint64_t)timeout_s * 1000;
  outcome->timed_out = false;
  for (;;) {
    uint64_t now = ts_now_ms();
    struct pollfd waiting = {fd, POLLIN, 0};
    int ready = now >= end ? 0 : poll(&waiting, 1, (int)(end - now));
    if (ready < 0 && errno == EINTR) continue;
    if (ready <= 0) {
      outcome->timed_out = true;
      kill(child, SIGKILL);
      break;
    }
    char chunk[1024];
    ssize_t n = read(fd, chunk, sizeof chunk);
    if (n <= 0) break;
    size_t room = sizeof outcome->error - 1 - have;
    size_t take = (size_t)n < room ? (size_t)n : room;
    memcpy(outcome->error + have, chunk, take);
    have += take;
  }
  outcome->error[have] = 0;
  close(fd);
  while (waitpid(child, &outcome->status, 0) < 0 && errno == EINTR) {
  }
}

void ts_fork_run(void (*body)(void *), void *argument, unsigned timeout_s, struct ts_outcome *outcome) {
  int ends[2];
  TS_CHECK(pipe2(ends, O_CLOEXEC) == 0, "pipe: %d", errno);
  pid_t child = fork();
  TS_CHECK(child >= 0, "fork: %d", errno);
  if (child == 0) {
    dup2(ends[1], 2);
    close(ends[0]);
    close(ends[1]);
    body(argument);
    _exit(0);
  }
  close(ends[1]);
  collect(child, ends[0], timeout_s, outcome);
}

struct exec_plan {
  char *const *argv;
  char *const *extra_env;
};

static void exec_body(void *argument) {
  struct exec_plan *plan = argument;
  char *env[1024];
  size_t n = 0;
  for (char **e = environ; *e && n < 1000; e++) env[n++] = *e;
  for (char *const *e = plan->extra_env; e && *e && n < 1022; e++) env[n++] = *e;
  env[n] = NULL;
  execvpe(plan->argv[0], plan->argv, env);
  ts_print(2, "exec of %s failed: %d\n", plan->argv[0], errno);
  _exit(127);
}

void ts_exec_run(char *const argv[], char *const extra_env[], unsigned timeout_s, struct ts_outcome *outcome) {
  struct exec_plan plan = {argv, extra_env};
  ts_fork_run(exec_body, &plan, timeout_s, outcome);
}

bool ts_exited(const struct ts_outcome *outcome, int code) {
  return !outcome->timed_out && WIFEXITED(outcome->status) && WEXITSTATUS(outcome->status) == code;
}

bool ts_signalled(const struct ts_outcome *outcome, int signal) {
  return !outcome->timed_out && WIFSIGNALED(outcome->status) && WTERMSIG(outcome->status) == signal;
}
