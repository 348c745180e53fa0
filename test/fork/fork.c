/* fork in a threaded process: eight threads allocate, four use stdio, the main thread forks. Children free what they inherited
 * and allocate; none may take more than five seconds. Also vfork, posix_spawn, and fork from within atfork handlers that allocate.
 *
 *   fork [-n forks] [-s seed]
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"
#include "../support/sut.h"

#define ALLOCATORS 8
#define WRITERS 4
#define SLOTS 200
#define CHILD_SECONDS 5

extern char **environ;
static const struct ts_sut *sut;
static uint64_t seed;
static atomic_bool stop;

/* Blocks of the main thread and blocks that the other threads keep for ever: a child inherits both and frees both. */
static unsigned char *mine[SLOTS];
static _Atomic(unsigned char *) theirs[ALLOCATORS][SLOTS];
static size_t mine_bytes[SLOTS];

/* A pause now and then: threads that never sleep would leave the forking thread a twelfth of the machine. */
static void breathe(uint64_t round) {
  if (round % 256 == 0) usleep(300);
}

static void *allocator(void *argument) {
  size_t self = (size_t)argument;
  struct ts_rng rng = {ts_hash(seed, self)};
  unsigned char *own[SLOTS] = {0};
  for (int s = 0; s < SLOTS; s++) {
    unsigned char *p = sut->malloc(1 + ts_below(&rng, 3000));
    p[0] = (unsigned char)s;
    atomic_store_explicit(&theirs[self][s], p, memory_order_release);
  }
  for (uint64_t round = 1; !atomic_load_explicit(&stop, memory_order_relaxed); round++) {
    breathe(round);
    int s = (int)ts_below(&rng, SLOTS);
    sut->free(own[s]);
    own[s] = sut->malloc(ts_below(&rng, 64) ? ts_below(&rng, 2000) : ts_below(&rng, 300000));
    TS_CHECK(own[s] != NULL, "malloc failed");
    if (ts_below(&rng, 1000) == 0) own[s] = sut->realloc(own[s], ts_below(&rng, 100000) + 1);
  }
  for (int s = 0; s < SLOTS; s++) sut->free(own[s]);
  return NULL;
}

static void *writer(void *argument) {
  (void)argument;
  for (uint64_t round = 1; !atomic_load_explicit(&stop, memory_order_relaxed); round++) {
    breathe(round * 128);
    FILE *file = fopen("/dev/null", "w");
    TS_CHECK(file != NULL, "fopen: %d", errno);
    for (int i = 0; i < 100; i++) fprintf(file, "%d %s\n", i, "line");
    fclose(file);
  }
  return NULL;
}

/* ---- the child -------------------------------------------------------------------------------------------------- */

static void *child_thread(void *argument) {
  for (int i = 0; i < 100; i++) sut->free(sut->malloc((size_t)i * 50));
  return argument;
}

static void free_inherited(uint64_t number) {
  for (int s = 0; s < SLOTS; s++) {
    TS_CHECK(mine[s][0] == (unsigned char)s && mine[s][mine_bytes[s] - 1] == (unsigned char)s, "an inherited block has changed");
    sut->free(mine[s]);
  }
  for (int t = 0; t < ALLOCATORS; t++)
    for (int s = (int)(number % 2); s < SLOTS; s += 2) {
      unsigned char *p = atomic_load_explicit(&theirs[t][s], memory_order_acquire);
      if (!p) continue;
      TS_CHECK(p[0] == (unsigned char)s, "a block of another thread has changed");
      sut->free(p);
    }
}

static void use_more(void) {
  pthread_t thread;
  TS_CHECK(pthread_create(&thread, NULL, child_thread, NULL) == 0, "pthread_create in the child");
  pthread_join(thread, NULL);
  if (fork() == 0) _exit(sut->malloc(10) ? 0 : 1); /* a grandchild */
  int status = -1;
  wait(&status);
  TS_CHECK(status == 0, "the grandchild ended with %d", status);
}

static _Noreturn void child(uint64_t number) {
  alarm(CHILD_SECONDS);
  struct ts_rng rng = {ts_hash(seed ^ 0xc41d, number)};
  free_inherited(number);
  unsigned char *fresh[SLOTS];
  for (int s = 0; s < SLOTS; s++) {
    size_t bytes = 1 + ts_below(&rng, s % 50 == 0 ? 200000 : 2000);
    fresh[s] = sut->malloc(bytes);
    TS_CHECK(fresh[s] != NULL, "malloc failed in the child");
    memset(fresh[s], s, bytes < 4096 ? bytes : 4096);
  }
  for (int s = 0; s < SLOTS; s++) {
    TS_CHECK(fresh[s][0] == (unsigned char)s, "blocks overlap in the child");
    sut->free(fresh[s]);
  }
  if (number % 64 == 0) use_more();
  FILE *file = fopen("/dev/null", "w"); /* stdio's own locks must be usable too */
  if (file) fclose(file);
  _exit(0);
}

static void await(pid_t pid, uint64_t number) {
  int status = 0;
  while (waitpid(pid, &status, 0) < 0) TS_CHECK(errno == EINTR, "waitpid: %d", errno);
  TS_CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM, "child %llu hung for %d s", (unsigned long long)number, CHILD_SECONDS);
  TS_CHECK(status == 0, "child %llu ended with status 0x%x", (unsigned long long)number, status);
}

/* ---- other ways to start a process ------------------------------------------------------------------------------ */

#define NOTHING "do-nothing"

static void try_vfork(void) {
  pid_t pid = vfork();
  if (pid == 0) {
    execl("/proc/self/exe", "fork", NOTHING, (char *)NULL); /* this program: one of the system's may need another C library */
    _exit(127);
  }
  TS_CHECK(pid > 0, "vfork: %d", errno);
  await(pid, 0);
}

static void try_spawn(void) {
  pid_t pid;
  char *argv[] = {"fork", NOTHING, NULL};
  TS_CHECK(posix_spawn(&pid, "/proc/self/exe", NULL, NULL, argv, environ) == 0, "posix_spawn");
  await(pid, 0);
}

/* Handlers that allocate, as real programs have them, and one that forks. */
static _Thread_local int forking_handler;
static void *from_prepare[8];
static int depth;

static void prepare(void) { from_prepare[depth++] = sut->malloc(100); }

static void parent_handler(void) {
  sut->free(from_prepare[--depth]);
  if (!forking_handler) return;
  forking_handler = 0;
  pid_t pid = fork();
  if (pid == 0) {
    sut->free(sut->malloc(100));
    _exit(0);
  }
  await(pid, 0);
}

static void child_handler(void) {
  sut->free(from_prepare[--depth]);
  sut->free(sut->malloc(1000));
}

/* musl runs handlers under a lock of its own that fork takes first: a handler that forks waits for itself there, with any allocator. */
static void try_fork_in_handler(void) {
#ifndef __GLIBC__
  return;
#endif
  forking_handler = 1;
  pid_t pid = fork();
  if (pid == 0) child(64);
  await(pid, 64);
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static void prepare_blocks(void) {
  struct ts_rng rng = {seed};
  for (int s = 0; s < SLOTS; s++) {
    mine_bytes[s] = 1 + ts_below(&rng, s % 40 == 0 ? 500000 : 3000);
    mine[s] = sut->malloc(mine_bytes[s]);
    mine[s][0] = mine[s][mine_bytes[s] - 1] = (unsigned char)s;
  }
}

int main(int argc, char **argv) {
  if (argc == 2 && strcmp(argv[1], NOTHING) == 0) return 0;
  uint64_t forks = ts_option(argc, argv, "-n", 2000);
  seed = ts_option_text(argc, argv, "-s") ? ts_option(argc, argv, "-s", 0) : ts_seed();
  snprintf(ts_replay, sizeof ts_replay, "%s -n %llu -s %llu", argv[0], (unsigned long long)forks, (unsigned long long)seed);
  ts_expect_heddle();
  sut = ts_sut();
  pthread_atfork(prepare, parent_handler, child_handler);
  prepare_blocks();
  pthread_t threads[ALLOCATORS + WRITERS];
  for (size_t t = 0; t < ALLOCATORS + WRITERS; t++)
    TS_CHECK(pthread_create(&threads[t], NULL, t < ALLOCATORS ? allocator : writer, (void *)t) == 0, "pthread_create");
  uint64_t start = ts_now_ms();
  for (uint64_t n = 1; n <= forks; n++) {
    uint64_t before = ts_now_ms();
    pid_t pid = fork();
    if (pid == 0) child(n);
    TS_CHECK(pid > 0, "fork: %d", errno);
    await(pid, n);
    TS_CHECK(ts_now_ms() - before < (CHILD_SECONDS + 1) * 1000, "fork %llu took too long", (unsigned long long)n);
    sut->free(sut->malloc(n % 5000));
    if (n % 50 == 0) try_vfork(), try_spawn(), try_fork_in_handler();
  }
  atomic_store(&stop, true);
  for (int t = 0; t < ALLOCATORS + WRITERS; t++) pthread_join(threads[t], NULL);
  ts_print(1, "fork: %llu forks in %llu ms, no child hung\n", (unsigned long long)forks, (unsigned long long)(ts_now_ms() - start));
  return 0;
}
