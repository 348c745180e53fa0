/* A program whose system refuses from outside (see test_outside.py): it allocates, resizes and frees with threads, and knows its content.
 * Ends with 0 when all went well, with 3 and a sentence of its own when memory ran out; never by a signal.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

enum { BLOCKS = 2000, ROUNDS = 3 };

static _Noreturn void out_of_memory(int line) {
  static const char text[] = "victim: out of memory\n";
  (void)!write(2, text, sizeof text - 1);
  if (errno != ENOMEM) dprintf(2, "victim.c:%d: but errno is %d\n", line, errno);
  _exit(errno == ENOMEM ? 3 : 4);
}

static _Noreturn void wrong(size_t block) {
  dprintf(2, "victim: block %zu has lost its content\n", block);
  _exit(5);
}

static void *churn(void *argument) {
  static const size_t sizes[] = {24, 700, 9000, 70000, 1500000};
  unsigned char **blocks = calloc(BLOCKS, sizeof *blocks);
  if (blocks == NULL) out_of_memory(__LINE__);
  for (size_t round = 0; round < ROUNDS; round++) {
    for (size_t i = 0; i < BLOCKS; i++) {
      size_t bytes = sizes[i % 97 == 0 ? 4 : i % 4];
      errno = 0;
      blocks[i] = realloc(blocks[i], bytes);
      if (blocks[i] == NULL) out_of_memory(__LINE__);
      blocks[i][0] = blocks[i][bytes - 1] = (unsigned char)i;
    }
    for (size_t i = 0; i < BLOCKS; i++) {
      if (blocks[i][0] != (unsigned char)i) wrong(i);
      if (i % 3 != round) continue;
      free(blocks[i]);
      blocks[i] = NULL;
    }
  }
  for (size_t i = 0; i < BLOCKS; i++) free(blocks[i]);
  free(blocks);
  return argument;
}

/* The limit comes when the program is larger already: blocks that only move need no more addresses than there are. */
static void limit_below_use(void) {
  enum { MIB = 1 << 20 };
  struct rlimit limit = {64 * MIB, 64 * MIB};
  unsigned char *blocks[64], *guard = malloc(24 * MIB);
  if (guard == NULL) out_of_memory(__LINE__);
  for (size_t i = 0; i < 64; i++) {
    blocks[i] = malloc(8 * MIB);
    if (blocks[i] == NULL) out_of_memory(__LINE__);
    memset(blocks[i], (int)i, 8 * MIB);
  }
  for (size_t i = 0; i < 64; i += 4) {
    for (size_t at = i; at < i + 3; at++) free(blocks[at]), blocks[at] = NULL;
  }
  sleep(3); /* what was freed goes back, and is clean */
  if (setrlimit(RLIMIT_AS, &limit) != 0) _exit(6);
  for (size_t i = 3; i < 64; i += 4) {
    unsigned char *grown = realloc(blocks[i], 16 * MIB);
    if (grown != NULL) blocks[i] = grown;
    if (blocks[i][0] != (unsigned char)i || blocks[i][8 * MIB - 1] != (unsigned char)i) wrong(i);
    unsigned char *fresh = calloc(1, 8 * MIB); /* where the block was, or would have gone */
    if (fresh == NULL) continue;
    for (size_t at = 0; at < 8 * MIB; at += 4096) {
      if (fresh[at] != 0) wrong(i + 1000);
      fresh[at] = 1;
    }
  }
}

int main(int argc, char **argv) {
  if (argc > 1 && strcmp(argv[1], "shrunk") == 0) {
    limit_below_use();
    return 0;
  }
  pthread_t thread;
  bool threaded = argc > 1 && strcmp(argv[1], "threads") == 0 && pthread_create(&thread, NULL, churn, NULL) == 0;
  churn(NULL);
  if (threaded) pthread_join(thread, NULL);
  return 0;
}
