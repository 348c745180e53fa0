/* A new large block is filled with pages that already lie in shorter free runs: no second fault, no growth of the resident set.
 * Runs with thp:never, because pages are not moved where huge pages were asked for. */
#include <stdio.h>
#include <string.h>

#include "heddle.h"

enum { COUNT = 192, SMALL = 512 * 1024, LARGE = 48 * 1024 * 1024 };

static unsigned char *small[COUNT];

static hd_stats look(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  hd_stats_get(&stats);
  return stats;
}

static int fail(const char *what, size_t got) {
  fprintf(stderr, "recycle: %s: %zu\n", what, got);
  return 1;
}

int main(void) {
  for (size_t i = 0; i < COUNT; i++) {
    small[i] = hd_malloc(SMALL);
    if (!small[i]) return fail("no memory for block", i);
    memset(small[i], (int)i + 1, SMALL);
  }
  /* Every eighth stays, so that no free run is longer than 3.5 MiB. */
  for (size_t i = 0; i < COUNT; i++) {
    if (i % 8 != 0) hd_free(small[i]);
  }
  hd_stats before = look();
  unsigned char *large = hd_malloc(LARGE);
  if (!large) return fail("no memory for the large block", LARGE);
  hd_stats after = look();
  size_t moved = after.moved_total - before.moved_total;
  if (moved < LARGE / 2) return fail("bytes moved into the large block", moved);
  if (after.cached + moved > before.cached + SMALL) return fail("free memory that is still resident", after.cached);
  memset(large, 0xa5, LARGE);
  size_t resident = look().resident;
  size_t grown = resident > before.resident ? resident - before.resident : 0; /* free memory beyond what is wanted back may have gone */
  if (grown > LARGE - moved + 4 * 1024 * 1024) return fail("bytes the resident set grew by", grown);
  for (size_t i = 0; i < COUNT; i += 8) {
    for (size_t at = 0; at < SMALL; at += 4096) {
      if (small[i][at] != (unsigned char)(i + 1)) return fail("a live block was damaged at", at);
    }
  }
  /* What the pages were moved out of reads as zero again, and calloc may rely on it. */
  unsigned char *zeroed = hd_calloc(1, 3 * 1024 * 1024);
  if (!zeroed) return fail("no memory for the zeroed block", 0);
  for (size_t at = 0; at < 3 * 1024 * 1024; at += 512) {
    if (zeroed[at] != 0) return fail("calloc gave old content at", at);
  }
  printf("moved %zu MiB into a block of %d MiB\n", moved >> 20, LARGE >> 20);
  return 0;
}
