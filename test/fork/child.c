/* See child.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "child.h"

#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"
#include "../support/sut.h"

enum { BLOCKS = 64, BUSY_MAX = 16 };

void child_limit(void) {
  signal(SIGALRM, SIG_DFL);
  alarm(CHILD_SECONDS);
}

void child_await(pid_t pid) {
  int status = 0;
  TS_CHECK(pid > 0, "fork: %d", errno);
  while (waitpid(pid, &status, 0) < 0) TS_CHECK(errno == EINTR, "waitpid: %d", errno);
  TS_CHECK(!WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM, "the child hung for %d s", CHILD_SECONDS);
  TS_CHECK(status == 0, "the child ended with status 0x%x", status);
}

void child_run(void (*body)(void *), void *argument) {
  pid_t pid = fork();
  if (pid == 0) {
    child_limit();
    body(argument);
    _exit(0);
  }
  child_await(pid);
}

void use_memory(unsigned salt) {
  unsigned char *held[BLOCKS];
  size_t bytes[BLOCKS];
  for (unsigned i = 0; i < BLOCKS; i++) {
    bytes[i] = 1 + (salt * 131 + i * i * 17) % (i % 16 == 3 ? 300000 : 3000);
    held[i] = ts_sut()->malloc(bytes[i]);
    TS_CHECK(held[i] != NULL, "malloc(%zu) failed: %d", bytes[i], errno);
    held[i][0] = held[i][bytes[i] - 1] = (unsigned char)i;
  }
  for (unsigned i = 0; i < BLOCKS; i++) {
    TS_CHECK(held[i][0] == (unsigned char)i && held[i][bytes[i] - 1] == (unsigned char)i, "a block has changed");
    ts_sut()->free(held[i]);
  }
}

static void *in_thread(void *salt) {
  use_memory((unsigned)(uintptr_t)salt);
  return NULL;
}

void use_memory_in_thread(unsigned salt) {
  pthread_t thread;
  TS_CHECK(pthread_create(&thread, NULL, in_thread, (void *)(uintptr_t)salt) == 0, "pthread_create");
  pthread_join(thread, NULL);
}

/* ---- busy threads ----------------------------------------------------------------------------------------------- */

static atomic_bool stop;
static pthread_t busy[BUSY_MAX];
static int busy_count;

static void *work(void *salt) {
  for (unsigned round = (unsigned)(uintptr_t)salt; !atomic_load_explicit(&stop, memory_order_relaxed); round++) {
    use_memory(round);
    if (round % 32 == 0) usleep(200); /* else the forking thread would hardly run */
  }
  return NULL;
}

/* Signals of a test are for its main thread, from the first moment of the others: a handler that forks would leave a child in which one of
 * these works for ever, and takes no alarm. */
void busy_start(int threads) {
  sigset_t all, kept;
  sigfillset(&all);
  pthread_sigmask(SIG_BLOCK, &all, &kept);
  atomic_store(&stop, false);
  for (busy_count = 0; busy_count < threads && busy_count < BUSY_MAX; busy_count++)
    TS_CHECK(pthread_create(&busy[busy_count], NULL, work, (void *)(uintptr_t)(busy_count * 1000)) == 0, "pthread_create");
  pthread_sigmask(SIG_SETMASK, &kept, NULL);
}

void busy_stop(void) {
  atomic_store(&stop, true);
  while (busy_count > 0) pthread_join(busy[--busy_count], NULL);
}
