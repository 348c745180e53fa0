/* libheddle.so loaded late with dlopen: its static TLS must fit, its C API must work beside libc's malloc, and a pointer of libc
 * given to hd_free must go to libc.
 *
 *   embed PATH-OF-LIBHEDDLE
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"

static void *(*hd_malloc_loaded)(size_t);
static void (*hd_free_loaded)(void *);

static void *use(void *argument) {
  for (size_t i = 0; i < 10000; i++) {
    char *p = hd_malloc_loaded(i % 4000 + 1);
    TS_CHECK(p != NULL, "hd_malloc failed");
    p[0] = 1;
    hd_free_loaded(p);
  }
  return argument;
}

int main(int argc, char **argv) {
  TS_CHECK(argc == 2, "usage: embed LIBHEDDLE");
  void *before = malloc(100);
  void *library = dlopen(argv[1], RTLD_NOW | RTLD_LOCAL);
  TS_CHECK(library != NULL, "dlopen: %s", dlerror());
  void *a = dlsym(library, "hd_malloc"), *b = dlsym(library, "hd_free");
  TS_CHECK(a && b, "no hd_malloc or hd_free");
  memcpy(&hd_malloc_loaded, &a, sizeof a);
  memcpy(&hd_free_loaded, &b, sizeof b);
  use(NULL);
  pthread_t thread[4];
  for (int t = 0; t < 4; t++) TS_CHECK(pthread_create(&thread[t], NULL, use, NULL) == 0, "pthread_create");
  for (int t = 0; t < 4; t++) pthread_join(thread[t], NULL);
  hd_free_loaded(before); /* libc's block: forwarded */
  free(malloc(100));
  dlclose(library); /* stays loaded if it says so; either way libc goes on */
  free(malloc(1000));
  ts_print(1, "embed: ok\n");
  return 0;
}
