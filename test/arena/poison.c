/* Built with AddressSanitizer, against a library that is not: misuse of an arena's memory is reported.
 *   arena_poison N     does the n-th misuse; 0: none
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "heddle/arena.h"

int main(int argc, char **argv) {
  int which = argc > 1 ? atoi(argv[1]) : 0;
  hd_arena_config config = {.struct_bytes = sizeof config, .name = "poison", .capacity_bytes = which % 2 ? 1 << 20 : 0};
  hd_arena *arena = hd_arena_create(&config);
  volatile char *first = hd_arena_alloc(arena, 24);
  volatile int beyond = 101;
  hd_mark mark = hd_arena_mark(arena);
  volatile char *second = hd_arena_zalloc_aligned(arena, 64, 100);
  volatile char *right = hd_arena_alloc_right(arena, 5000);
  memset((char *)first, 1, 24);
  memset((char *)right, 1, 5000);
  second[99] = 1;
  if (which == 1 || which == 2) first[beyond - 77] = 1;   /* beyond a block */
  if (which == 3 || which == 4) second[beyond] = 1;   /* beyond a zeroed block */
  hd_arena_release(arena, mark);
  if (which == 5 || which == 6) second[0] = 1;    /* after a release */
  hd_arena_reset_right(arena);
  if (which == 7 || which == 8) right[10] = 1;    /* after a reset */
  first[23] = 1;
  hd_arena_destroy(arena);
  return 0;
}
