/* The first call of a process, from each entry point, in each situation:
 *
 *   first ENTRY WHERE
 *     ENTRY  see the table below; what the process does not have is left out
 *     WHERE  main, preinit, constructor (of priority 101), threads (64 at once), child (of a fork), vfork, closed (without stdin,
 *            stdout and stderr), bare (without an environment)
 *   first    without arguments runs every pair in a process of its own
 *
 * Built against the linked library the call is truly the first. Under preload the loader has allocated before.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
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

/* A block of bytes; above PTRDIFF_MAX there is none. */
static void use_or_fail(void *p, size_t bytes) {
  if (bytes <= PTRDIFF_MAX) use(p, bytes);
  else TS_CHECK(p == NULL && errno == ENOMEM, "%zu bytes: %p, errno %d", bytes, p, errno);
}

#define MEDIUM ((size_t)30000)
#define HUGE ((size_t)(sizeof(void *) > 4 ? 1536 : 24) << 20) /* 64 threads want it at once */
#define IMPOSSIBLE (SIZE_MAX - 100)
/* The entry at five sizes: 0, small, medium, huge, impossible. call has bytes to ask for. */
#define AT_SIZES(name, call)                                                                       \
  static void name##_at(const struct ts_sut *sut, size_t bytes) { use_or_fail(call, bytes); }      \
  static void name##_zero(const struct ts_sut *sut) { name##_at(sut, 0); }                         \
  static void name##_small(const struct ts_sut *sut) { name##_at(sut, 100); }                      \
  static void name##_medium(const struct ts_sut *sut) { name##_at(sut, MEDIUM); }                  \
  static void name##_huge(const struct ts_sut *sut) { name##_at(sut, HUGE); }                      \
  static void name##_impossible(const struct ts_sut *sut) { name##_at(sut, IMPOSSIBLE); }
AT_SIZES(malloc, sut->malloc(bytes))
AT_SIZES(calloc, sut->calloc(1, bytes))
AT_SIZES(realloc, sut->realloc(NULL, bytes))
AT_SIZES(reallocarray, sut->reallocarray(NULL, 1, bytes))
AT_SIZES(aligned_alloc, sut->aligned_alloc(4096, bytes))
AT_SIZES(memalign, sut->memalign(64, bytes))
AT_SIZES(valloc, sut->valloc(bytes))
AT_SIZES(pvalloc, sut->pvalloc(bytes))
AT_SIZES(zalloc, sut->zalloc(bytes))

static void by_malloc(const struct ts_sut *sut) { use(sut->malloc(100), 100); }
static void by_free(const struct ts_sut *sut) { sut->free(NULL); }
static void by_strdup(const struct ts_sut *sut) { use(sut->strdup("first"), 6); }
static void by_usable(const struct ts_sut *sut) { TS_CHECK(sut->usable_size(NULL) == 0, "usable size of NULL"); }
static void by_huge(const struct ts_sut *sut) { use(sut->malloc((size_t)100 << 20), (size_t)100 << 20); }
static void by_strndup(const struct ts_sut *sut) { use(sut->strndup("first", 3), 4); }
static void by_cfree(const struct ts_sut *sut) { sut->cfree(NULL); }
static void by_idle(const struct ts_sut *sut) { sut->thread_idle(); }
static void by_owns(const struct ts_sut *sut) { TS_CHECK(!sut->owns(sut), "owns a static address"); }
static void by_good_size(const struct ts_sut *sut) { TS_CHECK(sut->good_size(100) >= 100, "good size"); }

/* Memory that the C library allocated before anybody called Heddle is passed on to it. */
static void by_free_foreign(const struct ts_sut *sut) { sut->free(malloc(100)); }

static void by_asprintf(const struct ts_sut *sut) {
  char *text = NULL;
  TS_CHECK(asprintf(&text, "%d words", 17) == 8 && strcmp(text, "17 words") == 0, "asprintf");
  sut->free(text);
}

static void by_getline(const struct ts_sut *sut) {
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen("/proc/self/stat", "r");
  TS_CHECK(file != NULL && getline(&line, &room, file) > 0, "getline");
  fclose(file);
  sut->free(line);
}

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
#define SIZES(name)                                                                                                         \
  {#name ":0", name##_zero, NEEDS(name)}, {#name, name##_small, NEEDS(name)}, {#name ":30000", name##_medium, NEEDS(name)}, \
      {#name ":huge", name##_huge, NEEDS(name)}, {#name ":impossible", name##_impossible, NEEDS(name)}
    SIZES(malloc),
    SIZES(calloc),
    SIZES(realloc),
    SIZES(reallocarray),
    SIZES(aligned_alloc),
    SIZES(memalign),
    SIZES(valloc),
    SIZES(pvalloc),
    SIZES(zalloc),
    {"posix_memalign", by_posix, NEEDS(posix_memalign)},
    {"free", by_free, NEEDS(free)},
    {"free_foreign", by_free_foreign, NEEDS(free)},
    {"cfree", by_cfree, NEEDS(cfree)},
    {"strdup", by_strdup, NEEDS(strdup)},
    {"strndup", by_strndup, NEEDS(strndup)},
    {"asprintf", by_asprintf, NEEDS(free)},
    {"getline", by_getline, NEEDS(free)},
    {"usable_size", by_usable, NEEDS(usable_size)},
    {"good_size", by_good_size, NEEDS(good_size)},
    {"owns", by_owns, NEEDS(owns)},
    {"thread_idle", by_idle, NEEDS(thread_idle)},
    {"heap_create", by_heap, NEEDS(heap_create)},
    {"stats_get", by_stats, NEEDS(stats_get)},
    {"collect", by_collect, NEEDS(collect)},
    {"walk", by_walk, NEEDS(heap_walk)},
};
#define ENTRY_COUNT (sizeof entries / sizeof *entries)
static const char *const places[] = {"main", "preinit", "constructor", "threads", "child", "vfork", "closed", "bare"};
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

/* glibc passes main's arguments to these functions, so the choice is known before main. A static program runs them too. */
static void before_main(int argc, char **argv, const char *place) {
  if (argc == 3 && strcmp(argv[2], place) == 0) find_entry(argv[1])->call(ts_sut());
}

__attribute__((constructor(101))) static void in_constructor(int argc, char **argv) { before_main(argc, argv, "constructor"); }

/* Before the constructors of any library: under preload Heddle's own has not run either. */
static void in_preinit(int argc, char **argv) { before_main(argc, argv, "preinit"); }
__attribute__((section(".preinit_array"), used)) static void (*const preinit)(int, char **) = in_preinit;

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

static void without_files(void) {
  int kept = fcntl(2, F_DUPFD_CLOEXEC, 50); /* a failed check must be heard */
  for (int fd = 0; fd < 3; fd++) close(fd);
  chosen->call(ts_sut());
  by_malloc(ts_sut());
  dup2(kept, 2);
}

static void without_environment(void) {
  environ = NULL;
  chosen->call(ts_sut());
}

static void run_one(const char *entry, const char *place) {
  chosen = find_entry(entry);
  if (strcmp(place, "main") == 0) chosen->call(ts_sut());
  else if (strcmp(place, "threads") == 0) in_threads();
  else if (strcmp(place, "child") == 0) in_child(false);
  else if (strcmp(place, "vfork") == 0) in_child(true);
  else if (strcmp(place, "closed") == 0) without_files();
  else if (strcmp(place, "bare") == 0) without_environment();
  else TS_CHECK(strcmp(place, "constructor") == 0 || strcmp(place, "preinit") == 0, "no place '%s'", place);
  by_malloc(ts_sut());
  by_huge(ts_sut());
}

/* The less telling sizes of an entry are tried in two places only. */
static bool is_variant(const char *name) {
  const char *size = strchr(name, ':');
  return size != NULL && strcmp(size, ":huge") != 0;
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
    for (size_t p = 0; p < PLACE_COUNT && present; p++) {
      if (p > 1 && is_variant(entries[e].name)) continue;
      run++;
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
