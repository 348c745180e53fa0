/* The ways in which a process ends: the main thread leaves first, atexit handlers free, a destructor of the program frees last,
 * quick_exit and _exit with threads still allocating.
 *
 *   leave            runs every way in a process of its own
 *   leave WAY        main-first, atexit, destructor, quick, running
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/support.h"
#include "../support/sut.h"

#define BLOCKS 1000

static void *held[BLOCKS];
static void *for_destructor;

static void hold(void) {
  for (int i = 0; i < BLOCKS; i++) {
    held[i] = ts_sut()->malloc((size_t)i * 13 % 5000 + 1);
    TS_CHECK(held[i] != NULL, "malloc failed");
  }
}

static void let_go(void) {
  for (int i = 0; i < BLOCKS; i++) ts_sut()->free(held[i]);
  ts_sut()->free(ts_sut()->malloc(100000));
}

__attribute__((destructor)) static void last(void) {
  if (!for_destructor) return;
  ts_sut()->free(for_destructor);
  ts_sut()->free(ts_sut()->malloc(64));
}

static void *outlive(void *argument) {
  ts_sleep_ms(100);
  let_go();
  hold();
  let_go();
  return argument;
}

static _Noreturn void *run_on(void *argument) {
  for (;;) ts_sut()->free(ts_sut()->malloc((size_t)(uintptr_t)argument));
}

static int leave(const char *way) {
  pthread_t thread;
  hold();
  if (strcmp(way, "main-first") == 0) {
    TS_CHECK(pthread_create(&thread, NULL, outlive, NULL) == 0, "pthread_create");
    pthread_exit(NULL); /* the process must end with status 0 when the other thread does */
  }
  if (strcmp(way, "atexit") == 0) return atexit(let_go);
  if (strcmp(way, "destructor") == 0) {
    for_destructor = ts_sut()->malloc(1000);
    return 0;
  }
  if (strcmp(way, "quick") == 0) {
    at_quick_exit(let_go);
    quick_exit(0);
  }
  TS_CHECK(strcmp(way, "running") == 0, "no way '%s'", way);
  for (size_t t = 0; t < 4; t++) TS_CHECK(pthread_create(&thread, NULL, run_on, (void *)((size_t)100 << 3 * t)) == 0, "pthread_create");
  ts_sleep_ms(50);
  return 0;
}

int main(int argc, char **argv) {
  static const char *const ways[] = {"main-first", "atexit", "destructor", "quick", "running"};
  if (argc == 2) return leave(argv[1]);
  ts_expect_heddle();
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
    for (int round = 0; round < 10; round++) {
      struct ts_outcome outcome;
      char *child[] = {"/proc/self/exe", (char *)ways[w], NULL};
      ts_exec_run(child, NULL, 10, &outcome);
      TS_CHECK(ts_exited(&outcome, 0) && !outcome.error[0], "%s: status 0x%x%s\n%s", ways[w], outcome.status,
               outcome.timed_out ? " (hung)" : "", outcome.error);
    }
  ts_print(1, "leave (%s): %zu ways to end a process\n", TS_FLAVOUR, sizeof ways / sizeof *ways);
  return 0;
}
