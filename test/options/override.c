/* Prints whether malloc of this process is Heddle's, with the reason, and checks that the family works either way.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "../support/sut.h"

int main(void) {
  bool (*override_active)(const char **);
  void *symbol = dlsym(RTLD_DEFAULT, "hd_override_active");
  TS_CHECK(symbol != NULL, "no hd_override_active: Heddle is not loaded");
  memcpy(&override_active, &symbol, sizeof symbol);
  const char *reason = NULL;
  bool active = override_active(&reason);
  TS_CHECK(reason != NULL && reason[0], "no reason");
  TS_CHECK(override_active(NULL) == active, "a second answer differs");
  ts_print(1, "%s: %s\n", active ? "active" : "inactive", reason);
  const struct ts_sut *sut = ts_sut();
  void *p[200];
  for (size_t i = 0; i < 200; i++) {
    p[i] = i % 3 ? sut->malloc(i * i) : sut->calloc(i, i);
    p[i] = sut->realloc(p[i], i * 50 + 1);
    TS_CHECK(p[i] != NULL && sut->usable_size(p[i]) >= i * 50 + 1, "realloc");
  }
  for (size_t i = 0; i < 200; i++) sut->free(p[i]);
  void *aligned = sut->aligned_alloc(4096, 100);
  TS_CHECK(aligned && (size_t)aligned % 4096 == 0, "aligned_alloc");
  sut->free(aligned);
  TS_CHECK(ts_is_heddle() == active, "hd_owns and hd_override_active disagree");
  return 0;
}
