/* dlopen and dlclose of a library that allocates, a thousand times, with blocks that cross its border in both directions and
 * outlive it; and the first allocation of a thread from within it.
 *
 *   dlopen PATH-OF-PLUGIN [-n rounds]
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "../support/sut.h"

static void *(*make)(size_t);
static void (*end)(void *);

static void bind_plugin(void *library) {
  void *a = dlsym(library, "plugin_make"), *b = dlsym(library, "plugin_end");
  TS_CHECK(a && b, "the plugin lacks its functions");
  memcpy(&make, &a, sizeof a);
  memcpy(&end, &b, sizeof b);
}

static void *first_in_thread(void *argument) {
  (void)argument;
  return make(333);
}

int main(int argc, char **argv) {
  TS_CHECK(argc >= 2, "usage: dlopen PLUGIN [-n rounds]");
  uint64_t rounds = ts_option(argc, argv, "-n", 1000);
  ts_expect_heddle();
  char *outliving[16] = {0};
  size_t early = 0;
  for (uint64_t round = 0; round < rounds; round++) {
    void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
    TS_CHECK(library != NULL, "dlopen: %s", dlerror());
    bind_plugin(library);
    free(outliving[round % 16]);
    outliving[round % 16] = make(1 + round % 3000);
    end(malloc(200));
    if (round % 20 == 0) {
      pthread_t thread;
      void *block;
      TS_CHECK(pthread_create(&thread, NULL, first_in_thread, NULL) == 0, "pthread_create");
      pthread_join(thread, &block);
      free(block);
    }
    TS_CHECK(dlclose(library) == 0, "dlclose: %s", dlerror());
    TS_CHECK(outliving[round % 16][0] == 'p', "a block of the unloaded plugin has changed");
    if (round == rounds / 10) early = ts_rss();
  }
  size_t late = ts_rss();
  for (int i = 0; i < 16; i++) free(outliving[i]);
  ts_print(1, "dlopen: %llu rounds, RSS %zu to %zu KiB\n", (unsigned long long)rounds, early >> 10, late >> 10);
  TS_CHECK(late <= early + ((size_t)2 << 20), "RSS grew from %zu to %zu", early, late);
  return 0;
}
