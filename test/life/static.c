/* A static program with heddle-override.o in it: the whole C family is Heddle's, threads end and processes fork as elsewhere, and
 * there is no other allocator to pass a foreign pointer to, so it is reported.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <malloc.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle.h>

#include "../support/support.h"
#include "cases.h"

static void family(void) {
  const char *why = NULL;
  bool active = hd_override_active(&why);
  TS_CHECK(active, "%s", why);
  void *p[] = {malloc(10), calloc(3, 100), realloc(NULL, 70000), aligned_alloc(64, 64), memalign(4096, 1), valloc(1), strdup("text")};
  for (size_t i = 0; i < sizeof p / sizeof *p; i++) {
    TS_CHECK(hd_owns(p[i]), "block %zu is not Heddle's", i);
    free(p[i]);
  }
  char *text = NULL;
  TS_CHECK(asprintf(&text, "%d", 5) == 1 && hd_owns(text) && malloc_usable_size(text) > 0, "asprintf");
  free(text);
}

static void *work(void *argument) {
  void *kept[100];
  for (size_t i = 0; i < 100; i++) kept[i] = malloc(i * i * 11);
  for (size_t i = 1; i < 100; i++) free(kept[i]);
  (void)argument;
  return kept[0];
}

static void threads(void) {
  for (int round = 0; round < 50; round++) {
    pthread_t thread[4];
    void *block;
    for (int t = 0; t < 4; t++) TS_CHECK(pthread_create(&thread[t], NULL, work, NULL) == 0, "pthread_create");
    for (int t = 0; t < 4; t++) {
      pthread_join(thread[t], &block);
      free(block);
    }
  }
}

static void forks(void) {
  threads();
  for (int n = 0; n < 50; n++) {
    int status = -1;
    pid_t pid = fork();
    if (pid == 0) {
      threads();
      exit(0);
    }
    TS_CHECK(waitpid(pid, &status, 0) == pid && status == 0, "the child ended with 0x%x", status);
  }
}

static void foreign(void) {
  static char outside[64];
  void *volatile p = outside + 16;
  free(p);
}

static const struct test_case all[] = {
    {.name = "family", .run = family},
    {.name = "threads", .run = threads},
    {.name = "forks", .run = forks},
    {.name = "foreign", .run = foreign, .status = 128 + 6, .report = "HD-E05"},
};

int main(int argc, char **argv) { return cases_main(argc, argv, "static", all, sizeof all / sizeof *all); }
