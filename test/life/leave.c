/* The ways in which a process ends: the main thread leaves first, atexit handlers free, a destructor of the program frees last,
 * quick_exit, _exit and exec with threads still allocating, detached ones as well, from the main thread and from others.
 *
 *   leave            runs every way in a process of its own
 *   leave WAY        one of those in `ways`
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

static void start_running(bool detached) {
  pthread_t thread;
  for (size_t t = 0; t < 4; t++) {
    TS_CHECK(pthread_create(&thread, NULL, run_on, (void *)((size_t)100 << 3 * t)) == 0, "pthread_create");
    if (detached) pthread_detach(thread);
  }
  ts_sleep_ms(20);
}

#ifdef __GLIBC__
static void let_go_on_exit(int status, void *argument) {
  TS_CHECK(status == 0 && argument == held, "on_exit's arguments");
  let_go();
}
#endif

static void *call_exit(void *argument) {
  hold();
  atexit(let_go);
  (void)argument;
  exit(0);
}

static void *call_exec(void *argument) {
  hold();
  char *const ended[] = {"/proc/self/exe", "ended", NULL}; /* not a program of the system, which may be of another machine */
  execv(ended[0], ended);
  return argument;
}

static int main_first(void) {
  pthread_t thread;
  TS_CHECK(pthread_create(&thread, NULL, outlive, NULL) == 0, "pthread_create");
  pthread_exit(NULL); /* the process must end with status 0 when the other thread does */
}

/* The helper that gives memory back must not keep a process alive either. */
static int main_first_with_helper(void) {
  void *large[64];
  for (int i = 0; i < 64; i++) memset(large[i] = ts_sut()->malloc((size_t)1 << 20), 1, (size_t)1 << 20);
  for (int i = 0; i < 64; i++) ts_sut()->free(large[i]);
  pthread_exit(NULL);
}

static int by_atexit(void) { return atexit(let_go); }
#ifdef __GLIBC__
static int by_on_exit(void) { return on_exit(let_go_on_exit, held); }
#else
static int by_on_exit(void) { return atexit(let_go); } /* other C libraries have no on_exit */
#endif

static int by_destructor(void) {
  for_destructor = ts_sut()->malloc(1000);
  return 0;
}

static int quick(void) {
  start_running(false);
  at_quick_exit(let_go);
  quick_exit(0);
}

static int at_once(void) {
  start_running(false);
  _exit(0);
}

static int running(void) {
  start_running(false);
  return atexit(let_go);
}

static int running_detached(void) {
  start_running(true);
  return by_destructor();
}

static int from_thread(void) {
  pthread_t thread;
  start_running(true);
  TS_CHECK(pthread_create(&thread, NULL, call_exit, NULL) == 0, "pthread_create");
  run_on((void *)50);
}

static int exec_from_thread(void) {
  pthread_t thread;
  start_running(true);
  TS_CHECK(pthread_create(&thread, NULL, call_exec, NULL) == 0, "pthread_create");
  run_on((void *)50);
}

static const struct {
  const char *name;
  int (*leave)(void);
} ways[] = {
    {"main-first", main_first},     {"main-first-with-helper", main_first_with_helper},
    {"atexit", by_atexit},          {"on_exit", by_on_exit},
    {"destructor", by_destructor},  {"quick", quick},
    {"at-once", at_once},           {"running", running},
    {"detached", running_detached}, {"from-thread", from_thread},
    {"exec-from-thread", exec_from_thread},
};

static int leave(const char *way) {
  hold();
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
    if (strcmp(way, ways[w].name) == 0) return ways[w].leave();
  ts_fail(__FILE__, __LINE__, "a way", "no way '%s'", way);
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], "ended") == 0) return 0;
  if (argc == 2) return leave(argv[1]);
  ts_expect_heddle();
  for (size_t w = 0; w < sizeof ways / sizeof *ways; w++)
    for (int round = 0; round < 10; round++) {
      struct ts_outcome outcome;
      char *child[] = {"/proc/self/exe", (char *)ways[w].name, NULL};
      ts_exec_run(child, NULL, 10, &outcome);
      TS_CHECK(ts_exited(&outcome, 0) && !outcome.error[0], "%s: status 0x%x%s\n%s", ways[w].name, outcome.status,
               outcome.timed_out ? " (hung)" : "", outcome.error);
    }
  ts_print(1, "leave (%s): %zu ways to end a process\n", TS_FLAVOUR, sizeof ways / sizeof *ways);
  return 0;
}
