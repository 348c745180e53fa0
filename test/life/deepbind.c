/* A library that is loaded with RTLD_DEEPBIND, and that would find the C library's malloc and free before Heddle's: what it allocates
 * is Heddle's and what it is given it can free, or, where the option keeps the flag, it is left alone. And dlopen finds what it found
 * without Heddle.
 *
 *   deepbind NAME-OF-PLUGIN dropped|kept
 *
 * The plugin is found by this program's own RUNPATH alone.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "../support/sut.h"

#ifdef RTLD_DEEPBIND
static bool (*owns)(const void *);

static void find(void *library, const char *name, void *function) {
  void *found = dlsym(library, name);
  TS_CHECK(found != NULL, "no %s: %s", name, dlerror());
  memcpy(function, &found, sizeof found);
}

static void *load(const char *file, int more) {
  void *library = dlopen(file, RTLD_NOW | RTLD_LOCAL | more);
  TS_CHECK(library != NULL, "dlopen: %s", dlerror());
  return library;
}

static void cross(const char *file, bool dropped) {
  void *(*make)(size_t), (*end)(void *);
  void *library = load(file, RTLD_DEEPBIND);
  find(library, "plugin_make", &make);
  find(library, "plugin_end", &end);
  char *block = make(200);
  TS_CHECK(block != NULL && block[199] == 'p', "the plugin's block");
  TS_CHECK(owns(block) == dropped, "the plugin has %s malloc", dropped ? "the C library's" : "Heddle's");
  if (dropped) {
    free(block);
    end(malloc(200));
    end(strdup("crossing"));
    TS_CHECK(dlclose(library) == 0, "dlclose: %s", dlerror()); /* its end frees what the C library's strdup gave it */
  }
}

int main(int argc, char **argv) {
  TS_CHECK(argc == 3, "usage: deepbind NAME dropped|kept");
  bool dropped = strcmp(argv[2], "dropped") == 0;
  ts_expect_heddle();
  find(RTLD_DEFAULT, "hd_owns", &owns);
  for (int round = 0; round < (dropped ? 100 : 1); round++) cross(argv[1], dropped);

  (void)load(argv[1], 0);
  TS_CHECK(dlopen(NULL, RTLD_NOW | RTLD_DEEPBIND) != NULL, "the program itself: %s", dlerror());
  TS_CHECK(dlopen("no-such-library.so", RTLD_NOW | RTLD_DEEPBIND) == NULL && strstr(dlerror(), "no-such-library.so") != NULL,
           "a library that there is not");
  TS_CHECK(dlopen("no-such-library.so", RTLD_NOW) == NULL && strstr(dlerror(), "no-such-library.so") != NULL, "nor without the flag");
  ts_print(1, "deepbind: %s\n", argv[2]);
  _Exit(0); /* a plugin that keeps the C library's free would end the process with what strdup gave it */
}
#else
int main(void) {
  ts_print(1, "deepbind: this C library does not have it\n");
  return 0;
}
#endif
