/* free() of an arena's memory is reported with the arena's name.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/arena.h"

static void misuse(void *p) { free(p); }

int main(void) {
  hd_arena_config config = {.struct_bytes = sizeof config, .name = "level 3", .capacity_bytes = 1 << 20};
  hd_arena *arena = hd_arena_create(&config);
  uint8_t *p = hd_arena_alloc(arena, 100000);
  void *where[] = {p, p + 16, p + 70000, hd_arena_alloc_right(arena, 10)};
  for (int i = 0; i < 4; i++) {
    struct ts_outcome outcome;
    ts_fork_run(misuse, where[i], 10, &outcome);
    TS_CHECK(!ts_exited(&outcome, 0), "free of an arena's memory went well");
    TS_CHECK(strstr(outcome.error, "memory of an arena 'level 3' [HD-E07]") != NULL, "the report is: %s", outcome.error);
  }
  return 0;
}
