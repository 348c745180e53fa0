/* Runs a fuzz target over inputs that are kept in files, without a fuzzer.
 *
 *   fuzz_TARGET FILE|DIRECTORY...
 *
 * SPDX-License-Identifier: MIT */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/stat.h>

#include "fuzz.h"

enum { INPUT_MAX = 1 << 20 };

static unsigned count;

static void run_file(const char *path) {
  FILE *file = fopen(path, "rb");
  uint8_t *data = malloc(INPUT_MAX);
  FZ_CHECK(file != NULL && data != NULL, "%s: errno %d", path, errno);
  size_t bytes = fread(data, 1, INPUT_MAX, file);
  fclose(file);
  uint8_t *exact = malloc(bytes + 1); /* so that a tool that watches memory sees a read behind it */
  FZ_CHECK(exact != NULL, "%zu bytes", bytes);
  memcpy(exact, data, bytes);
  free(data);
  fprintf(stderr, "%s\n", path);
  LLVMFuzzerTestOneInput(exact, bytes);
  free(exact);
  count++;
}

static void run_path(const char *path) {
  struct stat about;
  FZ_CHECK(stat(path, &about) == 0, "%s: errno %d", path, errno);
  if (!S_ISDIR(about.st_mode)) {
    run_file(path);
    return;
  }
  struct dirent **entries;
  int found = scandir(path, &entries, NULL, alphasort);
  FZ_CHECK(found >= 0, "%s: errno %d", path, errno);
  for (int i = 0; i < found; i++) {
    char name[4096];
    snprintf(name, sizeof name, "%s/%s", path, entries[i]->d_name);
    if (entries[i]->d_name[0] != '.') run_file(name);
    free(entries[i]);
  }
  free(entries);
}

int main(int argc, char **argv) {
  if (argc < 2) {
    fprintf(stderr, "usage: %s FILE|DIRECTORY...\n", argv[0]);
    return 2;
  }
  for (int i = 1; i < argc; i++) run_path(argv[i]);
  FZ_CHECK(count > 0, "no input in %s", argv[1]);
  printf("%u inputs\n", count);
  return 0;
}
