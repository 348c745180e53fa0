/* A clock_gettime that stands before the C library's and allocates, as those do that give a program another time from a file. The library
 * asks for the time in the middle of an allocation, and so must not come by it.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "../support/support.h"

enum { ROUNDS = 200, BLOCKS = 3000, HELPER_US = 1500000 };

static atomic_int calls;
static atomic_bool in_call;

int clock_gettime(clockid_t clock, struct timespec *now) {
  atomic_fetch_add(&calls, 1);
  if (!atomic_exchange(&in_call, true)) {
    void *long_block = malloc(3 << 20), *short_block = malloc(100);
    free(long_block);
    free(short_block);
    atomic_store(&in_call, false);
  }
  return (int)syscall(SYS_clock_gettime, clock, now);
}

static void *work(void *unused) {
  static __thread void *held[BLOCKS];
  for (int round = 0; round < ROUNDS; round++) {
    size_t bytes = (size_t)(1 + round % 7) << 20;
    uint8_t *p = calloc(1, bytes);
    TS_CHECK(p != NULL && p[bytes / 2] == 0, "a block of %zu", bytes);
    memset(p, 1, bytes / 2);
    free(p);
  }
  for (int i = 0; i < BLOCKS; i++) held[i] = memset(malloc(5000), 1, 5000);
  for (int i = 0; i < BLOCKS; i++) free(held[i]);
  return unused;
}

int main(void) {
  pthread_t thread[2];
  struct timespec now;
  TS_CHECK(clock_gettime(CLOCK_MONOTONIC, &now) == 0 && calls == 1, "this program's clock is not called");
  for (int i = 0; i < 2; i++) TS_CHECK(pthread_create(&thread[i], NULL, work, NULL) == 0, "no thread");
  for (int i = 0; i < 2; i++) TS_CHECK(pthread_join(thread[i], NULL) == 0, "not joined");
  usleep(HELPER_US); /* the library's own thread looks at the clock, too */
  TS_CHECK(calls == 1, "the library called this program's clock %d times", calls - 1);
  puts("own_clock: ok");
  return 0;
}
