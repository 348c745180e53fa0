/* A static program whose malloc is Heddle's: threads that allocate and free each other's blocks, fork, alignment, errno.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heddle.h"

enum { THREADS = 4, ROUNDS = 20000, SLOTS = 64 };

static _Atomic(unsigned char *) shared[SLOTS];

static void *work(void *argument) {
  uintptr_t state = (uintptr_t)argument * 2654435761u + 1;
  for (int round = 0; round < ROUNDS; round++) {
    state = state * 1103515245u + 12345;
    size_t bytes = 1 + (state >> 8) % ((state & 63) == 0 ? 200000 : 900);
    unsigned char *p = malloc(bytes);
    if (p == NULL || ((uintptr_t)p & 15) != 0) return "malloc";
    p[0] = p[bytes - 1] = (unsigned char)bytes;
    unsigned char *old = __atomic_exchange_n((unsigned char **)&shared[(state >> 20) % SLOTS], p, __ATOMIC_ACQ_REL);
    free(old);
  }
  return NULL;
}

int main(void) {
  const char *reason = "";
  if (!hd_override_active(&reason)) return fprintf(stderr, "%s\n", reason), 1;
  pthread_t threads[THREADS];
  for (uintptr_t i = 0; i < THREADS; i++) pthread_create(&threads[i], NULL, work, (void *)(i + 1));
  for (int i = 0; i < 10; i++) {
    pid_t child = fork();
    if (child == 0) _exit(malloc(1000) == NULL);
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) return fprintf(stderr, "child: %d\n", status), 1;
  }
  for (int i = 0; i < THREADS; i++) {
    void *complaint = NULL;
    pthread_join(threads[i], &complaint);
    if (complaint != NULL) return fprintf(stderr, "%s\n", (char *)complaint), 1;
  }
  errno = 0;
  volatile size_t most = (size_t)PTRDIFF_MAX + 1;
  if (malloc(most) != NULL || errno != ENOMEM) return fprintf(stderr, "too much was given\n"), 1;
  return 0;
}
