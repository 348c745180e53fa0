/* A program that starts as root and gives that up, as servers do: the helper's thread, which the C library does not know, must not keep
 * what the program no longer has. For root alone.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dirent.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "../support/support.h"
#include "../support/sut.h"
#include "cases.h"

#define MIB ((size_t)1 << 20)

enum { BLOCKS = 8000, BYTES = 5000, NOBODY = 65534, SOON_MS = 3000, STEP_MS = 20 };

typedef struct tasks {
  int count, roots; /* threads, and those of them whose user is root */
} tasks;

static bool is_root(const char *task) {
  char path[64], line[256];
  unsigned user = NOBODY;
  snprintf(path, sizeof path, "/proc/self/task/%.20s/status", task);
  FILE *status = fopen(path, "r");
  if (status == NULL) return false; /* it has just ended */
  while (fgets(line, sizeof line, status) != NULL && sscanf(line, "Uid: %*u %u", &user) != 1) {
  }
  fclose(status);
  return user == 0;
}

static tasks look(void) {
  tasks found = {0, 0};
  DIR *all = opendir("/proc/self/task");
  TS_CHECK(all != NULL, "no list of threads");
  for (struct dirent *task; (task = readdir(all)) != NULL;) {
    if (task->d_name[0] == '.') continue;
    found.count++;
    found.roots += is_root(task->d_name);
  }
  closedir(all);
  return found;
}

static void use_memory(void) {
  static void *blocks[BLOCKS];
  for (int i = 0; i < BLOCKS; i++) {
    TS_CHECK((blocks[i] = ts_sut()->malloc(BYTES)) != NULL, "no memory");
    memset(blocks[i], 1, BYTES);
  }
  for (int i = 0; i < BLOCKS; i++) ts_sut()->free(blocks[i]);
}

static void start_as_root(void) {
  if (geteuid() != 0) cases_skip("only root can give rights up");
  use_memory();
  tasks found = look();
  TS_CHECK(found.count == 2 && found.roots == 2, "%d threads, %d of root", found.count, found.roots);
}

static void expect_no_root(void) {
  for (int ms = 0; ms < SOON_MS && look().roots > 0; ms += STEP_MS) ts_sleep_ms(STEP_MS);
  tasks found = look();
  TS_CHECK(found.roots == 0, "%d of %d threads are root's", found.roots, found.count);
}

static void expect_memory_back(void) {
  for (int ms = 0; ms < SOON_MS && ts_rss() > 12 * MIB; ms += STEP_MS) ts_sleep_ms(STEP_MS);
  TS_CHECK(ts_rss() <= 12 * MIB, "%zu bytes are resident", ts_rss());
}

/* For good, and what is free by then goes back though the program does nothing more. */
static void given_up(void) {
  start_as_root();
  TS_CHECK(setgid(NOBODY) == 0 && setuid(NOBODY) == 0, "root's rights are kept");
  expect_no_root();
  expect_memory_back();
  use_memory();
  tasks found = look();
  TS_CHECK(found.count == 2 && found.roots == 0, "%d threads, %d of root", found.count, found.roots);
  expect_memory_back();
}

/* For a while, as servers do that act for a user. */
static void put_aside(void) {
  start_as_root();
  TS_CHECK(seteuid(NOBODY) == 0, "root's rights are kept");
  expect_no_root();
  TS_CHECK(seteuid(0) == 0, "root's rights don't come back");
  use_memory();
  expect_memory_back();
}

static void kept(void) {
  start_as_root();
  ts_sleep_ms(700);
  TS_CHECK(look().count == 2, "the helper has ended");
  expect_memory_back();
}

int main(int argc, char **argv) {
  static const struct test_case cases[] = {
      {"given_up", given_up, 0, 30, NULL, NULL},
      {"put_aside", put_aside, 0, 30, NULL, NULL},
      {"kept", kept, 0, 30, NULL, NULL},
  };
  return cases_main(argc, argv, "rights", cases, sizeof cases / sizeof *cases);
}
