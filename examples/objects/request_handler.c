/* Request handlers on arenas: each worker thread has an arena of its own, each request a memory point.
 *
 *   cc -O2 request_handler.c -lheddle -lpthread -o request_handler
 *   ./request_handler [workers]
 *
 * A request is parsed into a list of parameters and answered with a list of squares. All of that is forgotten by one release, whatever
 * way the request ended. A request that asks for more than there is gets the status 503, and the worker goes on.
 * SPDX-License-Identifier: MIT */
#include <heddle/arena.h>

#include <errno.h>
#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { MAX_WORKERS = 64, ROUNDS = 2000 };

static const char *const REQUESTS[] = {
    "/squares?items=10", "/squares?items=1000&name=big",       "/squares", "/squares?items=25&name=Ada&name=Grace",
    "/nowhere?items=3",  "/squares?items=1152921504606846976", /* 2^60 numbers: more than any machine has */
};
enum { REQUEST_COUNT = sizeof REQUESTS / sizeof *REQUESTS };

typedef struct parameter {
  char *key, *value;
  struct parameter *next;
} parameter;

typedef struct {
  unsigned ok, missing, bad, no_memory;
  uint64_t sum;
  size_t peak_bytes, left_bytes;
} tally;

/* ---- one request: everything that it needs lies in the arena -------------------------------------------------------- */

/* A part of the text, terminated, in the arena. NULL: no memory. */
static char *copy_part(hd_arena *arena, const char *from, size_t length) {
  char *copy = hd_arena_alloc_aligned(arena, 1, length + 1);
  if (!copy) return NULL;
  memcpy(copy, from, length);
  copy[length] = 0;
  return copy;
}

/* The parameters behind the question mark. false: no memory. */
static bool parse_parameters(hd_arena *arena, const char *text, parameter **out) {
  *out = NULL;
  while (*text) {
    size_t length = strcspn(text, "&"), key_length = strcspn(text, "=&");
    const char *value = text + key_length + (key_length < length);
    parameter *p = hd_arena_alloc(arena, sizeof *p);
    if (!p) return false;
    p->key = copy_part(arena, text, key_length);
    p->value = copy_part(arena, value, (size_t)(text + length - value));
    if (!p->key || !p->value) return false;
    p->next = *out;
    *out = p;
    text += length + (text[length] == '&');
  }
  return true;
}

static const char *find_parameter(const parameter *list, const char *key) {
  while (list && strcmp(list->key, key) != 0) list = list->next;
  return list ? list->value : NULL;
}

/* Answer one request; returns the status that a browser would see. */
static unsigned answer(hd_arena *arena, const char *request, uint64_t *sum) {
  size_t path_length = strcspn(request, "?");
  parameter *parameters;
  if (!parse_parameters(arena, request + path_length + (request[path_length] == '?'), &parameters)) return 503;
  if (path_length != 8 || memcmp(request, "/squares", 8) != 0) return 404;
  const char *items = find_parameter(parameters, "items");
  if (!items || *items < '0' || *items > '9') return 400;
  uint64_t count = strtoull(items, NULL, 10);
  if (count > SIZE_MAX / sizeof(uint64_t)) return 503;
  uint64_t *squares = hd_arena_alloc(arena, count * sizeof *squares);
  if (!squares) return 503; /* ENOMEM */
  for (uint64_t i = 0; i < count; i++) squares[i] = i * i;
  *sum += count ? squares[count - 1] : 0;
  return 200;
}

/* ---- one worker ------------------------------------------------------------------------------------------------------- */

static void *work(void *argument) {
  tally *mine = argument;
  hd_arena *arena = hd_arena_thread(); /* this thread's own; gone with the thread */
  if (!arena) {
    mine->no_memory = ROUNDS * REQUEST_COUNT;
    return NULL;
  }
  for (unsigned i = 0; i < ROUNDS * REQUEST_COUNT; i++) {
    hd_mark before = hd_arena_mark(arena);
    unsigned status = before.point ? answer(arena, REQUESTS[i % REQUEST_COUNT], &mine->sum) : 503;
    mine->ok += status == 200;
    mine->missing += status == 404;
    mine->bad += status == 400;
    mine->no_memory += status == 503;
    if (before.point) hd_arena_release(arena, before); /* whatever it was: all of the request is gone */
  }
  hd_arena_stats stats = {.struct_bytes = sizeof stats};
  hd_arena_stats_get(arena, &stats);
  mine->peak_bytes = stats.peak_left;
  mine->left_bytes = stats.used_left;
  return NULL;
}

int main(int argc, char **argv) {
  char *end = NULL;
  unsigned long workers = argc > 1 ? strtoul(argv[1], &end, 10) : 4;
  if (argc > 2 || (end && *end) || workers < 1 || workers > MAX_WORKERS) {
    fprintf(stderr, "usage: request_handler [workers 1..%d]\n", MAX_WORKERS);
    return 2;
  }
  pthread_t threads[MAX_WORKERS];
  tally tallies[MAX_WORKERS] = {{0}}, sum = {0};
  for (unsigned long i = 0; i < workers; i++) {
    int problem = pthread_create(&threads[i], NULL, work, &tallies[i]);
    if (problem) {
      fprintf(stderr, "request_handler: no thread: %s\n", strerror(problem));
      return 1;
    }
  }
  for (unsigned long i = 0; i < workers; i++) {
    pthread_join(threads[i], NULL);
    sum.ok += tallies[i].ok;
    sum.missing += tallies[i].missing;
    sum.bad += tallies[i].bad;
    sum.no_memory += tallies[i].no_memory;
    sum.sum += tallies[i].sum;
    sum.left_bytes += tallies[i].left_bytes;
    if (tallies[i].peak_bytes > sum.peak_bytes) sum.peak_bytes = tallies[i].peak_bytes;
  }
  printf("%lu workers: %u answered, %u not found, %u bad, %u without memory\n", workers, sum.ok, sum.missing, sum.bad, sum.no_memory);
  printf("sum of the last squares: %" PRIu64 "\n", sum.sum);
  printf("most memory of one request: %zu KiB; left after the last one: %zu bytes\n", sum.peak_bytes >> 10, sum.left_bytes);
  return sum.left_bytes == 0 ? 0 : 1;
}
