/* Linked into what is built for coverage: counts are written where a process ends without exit handlers, by _exit or an abort, too.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stddef.h>
#include <unistd.h>

void __gcov_dump(void);
void __gcov_reset(void);

_Noreturn void __real__exit(int status);
_Noreturn void __wrap__exit(int status);
_Noreturn void __wrap__exit(int status) {
  __gcov_dump();
  __real__exit(status);
}

/* The program's runtime and a preloaded library's have counts of their own, and each has its handler: pass the signal on. */
static struct sigaction before;

static void dump(int number) {
  __gcov_dump();
  if (before.sa_handler != SIG_DFL && before.sa_handler != SIG_IGN) before.sa_handler(number);
}

/* A child starts from nothing, or it would tell again what its parent tells; before the library's own handler, which is to count. The
 * compiler's way, writing and clearing in the parent, would lose what other threads count meanwhile: and most branches' counts are made
 * from others'. */
static __attribute__((constructor(101))) void begin(void) {
  struct sigaction action = {.sa_handler = dump, .sa_flags = (int)(SA_RESETHAND | SA_NODEFER)};
  sigaction(SIGABRT, &action, &before);
  pthread_atfork(NULL, NULL, __gcov_reset);
}
