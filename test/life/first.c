/* The first call of a process, from each entry point, in each situation:
 *
 *   first ENTRY WHERE
 *     ENTRY  malloc calloc realloc reallocarray aligned_alloc posix_memalign free strdup usable_size huge
 *            and, where the process has them, zalloc heap_create stats_get collect walk
 *     WHERE  main, constructor, threads (64 at once), child (of a fork), vfork
 *   first    without arguments runs every pair in a process of its own
 *
 * Built against the linked library the call is truly the first. Under preload the loader has allocated before.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"
#include "../support/sut.h"

#define THREADS 64

static bool nothing(const hd_area *area, void *block, size_t bytes, void *user) {
  (void)area, (void)block, (void)bytes, (void)user;
  return true;
}

static void use(void *p, size_t bytes) {
  TS_CHECK(p != NULL && (uintptr_t)p % 16 == 0, "the first call gave %p, errno %d", p, errno);
  memset(p, 0x77, bytes < 4096 ? bytes : 4096);
  ts_sut()->free(p);
}

static void by_malloc(const struct ts_sut *sut) { use(sut->malloc(100), 100); }
static void by_calloc(const struct ts_sut *sut) { use(sut->calloc(10, 10), 100); }
static void by_realloc(const struct ts_sut *sut) { use(sut->realloc(NULL, 100), 100); }
static void by_reallocarray(const struct ts_sut *sut) { use(sut->reallocarray(NULL, 10, 10), 100); }
static void by_aligned(const struct ts_sut *sut) { use(sut->aligned_alloc(4096, 100), 100); }
static void by_free(const struct ts_sut *sut) { sut->free(NULL); }
static void by_strdup(const struct ts_sut *sut) { use(sut->strdup("first"), 6); }
static void by_usable(const struct ts_sut *sut) { TS_CHECK(sut->usable_size(NULL) == 0, "usable size of NULL"); }
static void by_huge(const struct ts_sut *sut) { use(sut->malloc((size_t)100 << 20), (size_t)100 << 20); }
static void by_zalloc(const struct ts_sut *sut) { use(sut->zalloc(100), 100); }
static void by_collect(const struct ts_sut *sut) { sut->collect(0); }
static void by_walk(const struct ts_sut *sut) { TS_CHECK(sut->heap_walk(NULL, true, nothing, NULL), "the walk stopped"); }

static void by_posix(const struct ts_sut *sut) {
  void *p = NULL;
  TS_CHECK(sut->posix_memalign(&p, 64, 100) == 0, "posix_memalign");
  use(p, 100);
}

static void by_heap(const struct ts_sut *sut) {
  hd_heap *heap = sut->heap_create(NULL);
  TS_CHECK(heap != NULL, "no heap");
  use(sut->heap_malloc(heap, 50), 50);
  sut->heap_destroy(heap);
}

static void by_stats(const struct ts_sut *sut) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(sut->stats_get(&stats), "no statistics");
}

/* Needs: the offset of the function in the table that must be present. */
static const struct entry {
  const char *name;
  void (*call)(const struct ts_sut *sut);
  size_t needs;
} entries[] = {
#define NEEDS(field) offsetof(struct ts_sut, field)
    {"malloc", by_malloc, NEEDS(malloc)},
    {"calloc", by_calloc, NEEDS(calloc)},
    {"realloc", by_realloc, NEEDS(realloc)},
    {"reallocarray", by_reallocarray, NEEDS(reallocarray)},
    {"aligned_alloc", by_aligned, NEEDS(aligned_alloc)},
    {"posix_memalign", by_posix, NEEDS(posix_memalign)},
    {"free", by_free, NEEDS(free)},
    {"strdup", by_strdup, NEEDS(strdup)},
    {"usable_size", by_usable, NEEDS(usable_size)},
    {"huge", by_huge, NEEDS(malloc)},
    {"zalloc", by_zalloc, NEEDS(zalloc)},
    {"heap_create", by_heap, NEEDS(heap_create)},
    {"stats_get", by_stats, NEEDS(stats_get)},
    {"collect", by_collect, NEEDS(collect)},
    {"walk", by_walk, NEEDS(heap_walk)},
};
#define ENTRY_COUNT (sizeof entries / sizeof *entries)
static const char *const places[] = {"main", "constructor", "threads", "child", "vfork"};
#define PLACE_COUNT (sizeof places / sizeof *places)

/* ---- situations ------------------------------------------------------------------------------------------------- */

static const struct entry *chosen;
static pthread_barrier_t barrier;

static const struct entry *find_entry(const char *name) {
  for (size_t e = 0; e < ENTRY_COUNT; e++)
    if (strcmp(entries[e].name, name) == 0) return &entries[e];
  ts_print(2, "first: no entry '%s'\n", name);
  _exit(2);
}

/* glibc passes main's arguments to constructors, so the choice is known before main. */
__attribute__((constructor)) static void before_main(int argc, char **argv) {
  if (argc < 3 || strcmp(argv[2], "constructor") != 0) return;
  find_entry(argv[1])->call(ts_sut());
}

static void *in_thread(void *argument) {
  pthread_barrier_wait(&barrier);
  chosen->call(ts_sut());
  by_malloc(ts_sut());
  return argument;
}

static void in_threads(void) {
  pthread_t thread[THREADS];
  pthread_barrier_init(&barrier, NULL, THREADS);
  for (int t = 0; t < THREADS; t++) TS_CHECK(pthread_create(&thread[t], NULL, in_thread, NULL) == 0, "pthread_create");
  for (int t = 0; t < THREADS; t++) pthread_join(thread[t], NULL);
}

static void in_child(bool light) {
  int status = -1;
  pid_t pid = light ? vfork() : fork();
  if (pid == 0) {
    /* After vfork only a call that leaves nothing behind is safe; the parent goes on with the same memory. */
    chosen->call(ts_sut());
    _exit(0);
  }
  TS_CHECK(pid > 0 && waitpid(pid, &status, 0) == pid && status == 0, "the child ended with 0x%x", status);
  chosen->call(ts_sut());
}

static void run_one(const char *entry, const char *place) {
  chosen = find_entry(entry);
  if (strcmp(place, "main") == 0) chosen->call(ts_sut());
  else if (strcmp(place, "threads") == 0) in_threads();
  else if (strcmp(place, "child") == 0) in_child(false);
  else if (strcmp(place, "vfork") == 0) in_child(true);
  else TS_CHECK(strcmp(place, "constructor") == 0, "no place '%s'", place);
  by_malloc(ts_sut());
  by_huge(ts_sut());
}

int main(int argc, char **argv) {
  if (argc == 3) {
    run_one(argv[1], argv[2]);
    return 0;
  }
  ts_expect_heddle();
  int run = 0;
  for (size_t e = 0; e < ENTRY_COUNT; e++) {
    void *present;
    memcpy(&present, (const char *)ts_sut() + entries[e].needs, sizeof present);
    for (size_t p = 0; p < PLACE_COUNT && present; p++, run++) {
      struct ts_outcome outcome;
      char *child[] = {"/proc/self/exe", (char *)entries[e].name, (char *)places[p], NULL};
      ts_exec_run(child, NULL, 10, &outcome);
      TS_CHECK(ts_exited(&outcome, 0), "%s %s: status 0x%x%s\n%s", entries[e].name, places[p], outcome.status,
               outcome.timed_out ? " (hung)" : "", outcome.error);
      TS_CHECK(outcome.error[0] == 0, "%s %s wrote to stderr: %s", entries[e].name, places[p], outcome.error);
    }
  }
  ts_print(1, "first (%s): %d first calls\n", TS_FLAVOUR, run);
  return 0;
}
