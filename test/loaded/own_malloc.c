/* A program with a malloc of its own, as Chromium or Firefox are, with Heddle preloaded: whatever the C library's other
 * functions give it (strdup, reallocarray, getline ...) must come from its malloc, for its free will get it.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { ARENA_BYTES = 1 << 22 };
static _Alignas(16) char arena[ARENA_BYTES];
static size_t used;

static _Noreturn void fail(const char *what) {
  if (write(2, "own_malloc: ", 12) < 0 || write(2, what, strlen(what)) < 0 || write(2, "\n", 1) < 0) _exit(2);
  _exit(1);
}

static int is_ours(const void *p) { return (const char *)p > arena && (const char *)p < arena + ARENA_BYTES; }

/* Never gives anything back; the size stands before the block. */
void *malloc(size_t bytes) {
  size_t need = (bytes + 31) & ~(size_t)15;
  if (bytes > ARENA_BYTES || need > ARENA_BYTES - used) return NULL;
  char *block = arena + used + 16;
  used += need;
  memcpy(block - 16, &bytes, sizeof bytes);
  return block;
}

void free(void *p) {
  if (p != NULL && !is_ours(p)) fail("free of a block that another malloc made");
}

void *calloc(size_t count, size_t bytes) {
  if (bytes != 0 && count > SIZE_MAX / bytes) return NULL;
  void *p = malloc(count * bytes);
  return p == NULL ? NULL : memset(p, 0, count * bytes);
}

void *realloc(void *old, size_t bytes) {
  size_t kept = 0;
  if (old != NULL && !is_ours(old)) fail("realloc of a block that another malloc made");
  void *p = malloc(bytes);
  if (p == NULL || old == NULL) return p;
  memcpy(&kept, (char *)old - 16, sizeof kept);
  return memcpy(p, old, kept < bytes ? kept : bytes);
}

static void check(const char *name, char *p, const char *text) {
  if (p == NULL || !is_ours(p) || strcmp(p, text) != 0) fail(name);
  free(p);
}

int main(void) {
  check("strdup", strdup("twelve words"), "twelve words");
  check("strndup", strndup("twelve words", 6), "twelve");
  char *grown = strdup("seed");
  grown = reallocarray(grown, 100, 30);
  check("reallocarray", grown, "seed");
  grown = reallocarray(NULL, 3, 5);
  if (grown == NULL || !is_ours(grown)) fail("reallocarray of NULL");
  volatile size_t too_many = SIZE_MAX / 2;
  if (reallocarray(grown, too_many, 3) != NULL) fail("reallocarray of too much");
  char *line = NULL;
  if (asprintf(&line, "%d %s", 7, "lines") != 7) fail("asprintf");
  check("asprintf", line, "7 lines");
  check("realpath", realpath("/", NULL), "/");
  char *copy = NULL;
  size_t bytes = 0;
  FILE *stream = open_memstream(&copy, &bytes);
  if (stream == NULL || fputs("kept", stream) < 0 || fclose(stream) != 0) fail("open_memstream");
  check("open_memstream", copy, "kept");
  return 0;
}
