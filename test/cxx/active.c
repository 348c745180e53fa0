/* Linked with heddle-override.o: malloc of this program, of libc's own callers and of a dlopened library must be Heddle's.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <heddle.h>

#include "../support/support.h"

int main(void) {
  const char *reason = NULL;
  TS_CHECK(hd_override_active(&reason), "override is not active: %s", reason);
  void *p = malloc(100);
  TS_CHECK(hd_owns(p), "malloc is not Heddle's");
  hd_free(p);
  char *line = NULL;
  size_t room = 0;
  FILE *file = fopen("/proc/self/status", "r");
  TS_CHECK(file && getline(&line, &room, file) > 0, "getline");
  TS_CHECK(hd_owns(line), "getline's buffer is not Heddle's");
  fclose(file);
  free(line);
  line = strdup("text");
  TS_CHECK(hd_owns(line), "strdup's copy is not Heddle's");
  free(line);
  free(hd_malloc(10));
  ts_print(1, "active: ok\n");
  return 0;
}
