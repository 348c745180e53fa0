/* A suite in miniature, so that the judge can be tested in a second and without the network: tiny realloc|align|errno|limit|pass|fail.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

static int realloc_keeps(void) {
  unsigned char *p = malloc(100);
  memset(p, 7, 100);
  p = realloc(p, 100000);
  for (int i = 0; i < 100; i++)
    if (p[i] != 7) return 1;
  free(p);
  return 0;
}

static int alignment_holds(void) {
  void *all[64];
  int bad = 0;
  for (int i = 0; i < 64; i++) {
    if (posix_memalign(&all[i], 4096, 100) != 0) return 1;
    bad |= ((uintptr_t)all[i] & 4095) != 0;
  }
  for (int i = 0; i < 64; i++) free(all[i]);
  return bad;
}

static int free_keeps_errno(void) {
  void *p = malloc(1 << 20);
  errno = 4711;
  free(p);
  return errno != 4711;
}

static int limit_holds(void) {
  volatile size_t bytes = (size_t)-1 / 3; /* the compiler must not know */
  errno = 0;
  return malloc(bytes) != NULL || errno != ENOMEM;
}

int main(int argc, char **argv) {
  const char *what = argc > 1 ? argv[1] : "";
  if (strcmp(what, "realloc") == 0) return realloc_keeps();
  if (strcmp(what, "align") == 0) return alignment_holds();
  if (strcmp(what, "errno") == 0) return free_keeps_errno();
  if (strcmp(what, "limit") == 0) return limit_holds();
  if (strcmp(what, "pass") == 0) return 0;
  fprintf(stderr, "tiny: fails, as it was told\n");
  return 1;
}
