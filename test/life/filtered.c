/* Under a filter that ends the process for any system call that service managers do not let services make as a rule (systemd's
 * @system-service), as far as this program needs them. What Heddle asks the system for stands in docs/guide/troubleshooting.md.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/filter.h"
#include "../support/support.h"
#include "../support/sut.h"
#include "cases.h"

#define MIB ((size_t)1 << 20)

enum { SMALL = 200000, PURGED_MS = 2500, STALE_MS = 40 };

static const long allowed[] = {
    /* Heddle's */
    SYS_munmap, SYS_mprotect, SYS_madvise, SYS_mremap, SYS_munlock, SYS_futex, SYS_membarrier, SYS_clone, SYS_exit, SYS_sched_yield,
    SYS_sched_getaffinity, SYS_gettid, SYS_getpid, SYS_tgkill, SYS_getrandom, SYS_prlimit64, SYS_sysinfo, SYS_openat, SYS_read, SYS_lseek,
    SYS_close, SYS_write, SYS_rt_sigprocmask, SYS_rt_sigaction, SYS_clock_gettime, SYS_capget,
#ifdef SYS_mmap
    SYS_mmap,
#endif
#ifdef SYS_mmap2
    SYS_mmap2,
#endif
    /* the program's and the C library's */
    SYS_exit_group, SYS_clock_nanosleep, SYS_wait4, SYS_set_robust_list, SYS_rt_sigreturn, SYS_brk, SYS_getppid, SYS_fcntl,
#ifdef SYS_clone3
    SYS_clone3,
#endif
#ifdef SYS_rseq
    SYS_rseq,
#endif
#ifdef SYS_clock_gettime64
    SYS_clock_gettime64, SYS_clock_nanosleep_time64, SYS_futex_time64,
#endif
#ifdef SYS_nanosleep
    SYS_nanosleep,
#endif
#ifdef SYS_fstat
    SYS_fstat,
#endif
#ifdef SYS_newfstatat
    SYS_newfstatat,
#endif
    SYS_pread64,
};

static void put_up(void) {
  if (!ts_filter_calls(TS_FILTER_ALLOW, allowed, sizeof allowed / sizeof *allowed)) cases_skip("the system has no filters");
}

static uint8_t *checked(void *p, size_t bytes) {
  TS_CHECK(p != NULL, "no block of %zu", bytes);
  return p;
}

/* Zeroed blocks where filled ones were, and where little was touched. */
static void zeroed(void) {
  for (size_t bytes = 300000; bytes < 40 * MIB; bytes = bytes * 7 / 4) {
    for (int round = 0; round < 4; round++) {
      uint8_t *p = checked(ts_sut()->malloc(bytes), bytes);
      memset(p, 0xa5, round == 3 ? 5000 : bytes);
      ts_sut()->free(p);
      p = checked(ts_sut()->calloc(1, bytes), bytes);
      for (size_t at = 0; at < bytes; at += 511) TS_CHECK(p[at] == 0, "byte %zu of %zu is %d", at, bytes, p[at]);
      ts_sut()->free(p);
    }
  }
}

static void growing(void) {
  size_t bytes = 100000;
  uint8_t *p = checked(ts_sut()->malloc(bytes), bytes);
  memset(p, 0x5a, bytes);
  while (bytes < 200 * MIB) {
    size_t next = bytes + bytes / 2;
    p = checked(ts_sut()->realloc(p, next), next);
    memset(p + bytes, 0x5a, next - bytes);
    bytes = next;
  }
  for (size_t at = 0; at < bytes; at += 4001) TS_CHECK(p[at] == 0x5a, "byte %zu has changed", at);
  ts_sut()->free(p);
}

static void *small(void *unused) {
  (void)unused;
  void **held = (void *)checked(ts_sut()->malloc(SMALL * sizeof *held), SMALL * sizeof *held);
  for (size_t i = 0; i < SMALL; i++) held[i] = memset(checked(ts_sut()->malloc(16 + i % 300), 16), 1, 16);
  for (size_t i = 0; i < SMALL; i++) ts_sut()->free(held[i * 7919 % SMALL]);
  return held;
}

static void threads(void) {
  pthread_t thread[4];
  for (int i = 0; i < 4; i++) TS_CHECK(pthread_create(&thread[i], NULL, small, NULL) == 0, "no thread");
  for (int i = 0; i < 4; i++) {
    void *held = NULL;
    TS_CHECK(pthread_join(thread[i], &held) == 0, "not joined");
    ts_sut()->free(held);
  }
}

static void all_kinds(void) {
  zeroed();
  growing();
  ts_sut()->free(small(NULL));
  threads();
}

static void in_child(void) {
  pid_t child = fork();
  if (child == 0) {
    all_kinds();
    _exit(0);
  }
  int status = -1;
  TS_CHECK(waitpid(child, &status, 0) == child && status == 0, "the child ended with %x", (unsigned)status);
}

/* Memory goes back, too. */
static void service(void) {
  put_up();
  all_kinds();
  in_child();
  ts_sleep_ms(PURGED_MS);
  TS_CHECK(ts_rss() < 40 * MIB, "%zu bytes are resident", ts_rss());
}

static void later(void) {
  all_kinds();
  put_up();
  ts_sleep_ms(STALE_MS);
  all_kinds();
  in_child();
}

static void *filtered_thread(void *unused) {
  (void)unused;
  put_up();
  ts_sleep_ms(STALE_MS);
  all_kinds();
  return NULL;
}

static void one_thread(void) {
  pthread_t thread;
  all_kinds();
  TS_CHECK(pthread_create(&thread, NULL, filtered_thread, NULL) == 0 && pthread_join(thread, NULL) == 0, "no thread");
  all_kinds();
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"service", service, 0, 60, NULL, NULL},
      {"later", later, 0, 60, NULL, NULL},
      {"one_thread", one_thread, 0, 60, NULL, NULL},
  };
  return cases_main(argc, argv, "filtered", cases, sizeof cases / sizeof *cases);
}
