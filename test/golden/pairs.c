/* pairs COUNT BYTES: COUNT pairs of malloc and free of one size, for counting instructions under callgrind.
 * The functions are called through volatile pointers: no compiler can drop a pair, and no linkage stub is counted.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

static void *(*volatile take)(size_t) = malloc;
static void (*volatile give)(void *) = free;

static __attribute__((noinline)) bool pairs(unsigned long count, size_t bytes) {
  for (unsigned long i = 0; i < count; i++) {
    void *p = take(bytes);
    if (p == NULL) return false;
    give(p);
  }
  return true;
}

static bool parse(const char *text, unsigned long *value) {
  char *end = NULL;
  errno = 0;
  *value = strtoul(text, &end, 10);
  return errno == 0 && end != text && *end == '\0' && *text != '-';
}

/* Instructions of another malloc would be counted without a word. */
static bool runs_on_heddle(void) {
  bool (*active)(const char **);
  *(void **)&active = dlsym(RTLD_DEFAULT, "hd_override_active");
  const char *reason = "libheddle.so is not preloaded";
  if (active != NULL && active(&reason)) return true;
  fprintf(stderr, "pairs: malloc is not Heddle's: %s\n", reason);
  return false;
}

int main(int argc, char **argv) {
  unsigned long count = 0, bytes = 0;
  if (argc != 3 || !parse(argv[1], &count) || !parse(argv[2], &bytes)) {
    fprintf(stderr, "usage: pairs COUNT BYTES\n");
    return 2;
  }
  if (!runs_on_heddle()) return 2;
  if (pairs(count, bytes)) return 0;
  fprintf(stderr, "pairs: malloc(%lu) failed\n", bytes);
  return 1;
}
