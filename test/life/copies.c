/* Two copies of the allocator in one process: the preloaded library (or one linked into the program) beside a copy hidden in a
 * plugin, beside the library loaded again under another name, and beside itself in another namespace of the loader. Each copy knows
 * its own blocks; another copy's go to the next allocator, or are reported.
 *
 *   COPIES_OWN=plugin COPIES_LIBRARY=libheddle.so copies [case...]
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/support.h"
#include "cases.h"

enum { ROUNDS = 1000, BLOCKS = 200 };

static void *(*own_make)(size_t);
static void (*own_end)(void *);

static void find(void *entry, void *library, const char *name) {
  void *symbol = dlsym(library, name);
  TS_CHECK(symbol != NULL, "no %s", name);
  memcpy(entry, &symbol, sizeof symbol);
}

static void *open_it(const char *variable, int flags) {
  void *library = dlopen(getenv(variable), flags);
  TS_CHECK(library != NULL, "dlopen: %s", dlerror());
  return library;
}

static void *open_own(void) {
  void *library = open_it("COPIES_OWN", RTLD_NOW | RTLD_LOCAL);
  find(&own_make, library, "own_make");
  find(&own_end, library, "own_end");
  return library;
}

/* Both at work side by side, with each other's blocks in between. */
static void *use_both(void *(*make)(size_t), void (*end)(void *)) {
  unsigned char *theirs[BLOCKS], *ours[BLOCKS];
  for (size_t i = 0; i < BLOCKS; i++) {
    size_t bytes = 1 + i * i % 5000;
    theirs[i] = make(bytes);
    ours[i] = malloc(bytes);
    TS_CHECK(theirs[i] != NULL && ours[i] != NULL, "no memory");
    memset(theirs[i], 1, bytes);
    memset(ours[i], 2, bytes);
  }
  for (size_t i = 0; i < BLOCKS; i++) {
    TS_CHECK(theirs[i][i * i % 5000] == 1 && ours[i][i * i % 5000] == 2, "the copies' blocks overlap");
    end(theirs[i]);
    free(ours[i]);
  }
  return NULL;
}

static void *use_own(void *argument) {
  for (int i = 0; i < 5; i++) use_both(own_make, own_end);
  return argument;
}

static void in_threads(void) {
  pthread_t thread[4];
  for (int t = 0; t < 4; t++) TS_CHECK(pthread_create(&thread[t], NULL, use_own, NULL) == 0, "pthread_create");
  for (int t = 0; t < 4; t++) pthread_join(thread[t], NULL);
}

static void hidden_in_plugin(void) {
  open_own();
  use_own(NULL);
  in_threads();
}

/* The plugin stays where it is (nodelete); its blocks live on, and threads that used it end later. */
static void plugin_closed_often(void) {
  void *kept = NULL;
  for (size_t round = 0; round < ROUNDS; round++) {
    void *library = open_own();
    if (kept) own_end(kept);
    kept = own_make(round % 3000 + 1);
    if (round % 50 == 0) in_threads();
    TS_CHECK(dlclose(library) == 0, "dlclose");
    TS_CHECK(*(char *)kept == 'o', "the closed plugin's block has changed");
  }
}

/* free of the process is given the plugin's block: it is passed on to the C library, which says what it thinks of it. */
static void theirs_to_ours(void) {
  open_own();
  free(own_make(100));
}

/* The plugin's copy is given ours: what comes next behind the plugin is the C library again. */
static void ours_to_theirs(void) {
  open_own();
  own_end(malloc(100));
}

/* ---- the library again ------------------------------------------------------------------------------------------ */

static void again(bool own_namespace) {
  char path[64], from[4096];
  void *(*make)(size_t);
  void (*end)(void *);
  snprintf(path, sizeof path, "/tmp/heddle-again-%d.so", (int)getpid());
  TS_CHECK(realpath(getenv("COPIES_LIBRARY"), from) != NULL, "no library");
  char *copy[] = {"cp", from, path, NULL};
  struct ts_outcome outcome;
  ts_exec_run(copy, NULL, 10, &outcome);
  TS_CHECK(ts_exited(&outcome, 0), "cp: %s", outcome.error);
  void *library = own_namespace ? dlmopen(LM_ID_NEWLM, path, RTLD_NOW | RTLD_LOCAL) : dlopen(path, RTLD_NOW | RTLD_LOCAL);
  unlink(path);
  TS_CHECK(library != NULL, "open: %s", dlerror());
  find(&make, library, "hd_malloc");
  find(&end, library, "hd_free");
  for (int i = 0; i < 20; i++) use_both(make, end);
  void *mine = malloc(10), *(*first)(size_t) = malloc;
  TS_CHECK(make != first && mine != NULL, "the same copy twice");
  free(mine);
  dlclose(library);
}

static void another_name(void) { again(false); }
static void another_namespace(void) { again(true); }

static const struct test_case all[] = {
    {.name = "hidden-in-plugin", .run = hidden_in_plugin},
    {.name = "plugin-closed-often", .run = plugin_closed_often, .limit_s = 30},
    {.name = "ours-to-theirs", .run = ours_to_theirs, .status = 128 + 6, .report = "pointer"},
    {.name = "theirs-to-ours", .run = theirs_to_ours, .status = 128 + 6, .report = "pointer"},
    {.name = "another-name", .run = another_name},
    {.name = "another-namespace", .run = another_namespace},
};

int main(int argc, char **argv) { return cases_main(argc, argv, "copies", all, sizeof all / sizeof *all); }
