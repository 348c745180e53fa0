/* Sizes that are needed now and then keep little memory: a table of blocks whose sizes follow a power law is replaced at random for a
 * while, and then the pages of the heap hold no more than a few times what lives in them. Each of the eighty classes would like to keep
 * what it once had. Nothing here depends on time.
 * SPDX-License-Identifier: MIT */
#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle.h"

enum { SLOTS = 1024, STEPS = 2000000, LOW = 4, HIGH = 32768, BOUND = 1600 * 1024 };

static size_t resident, live, pages;

static bool add(const hd_area *area, void *block, size_t bytes, void *user) {
  (void)block, (void)bytes, (void)user;
  resident += ts_resident(area->address, area->bytes);
  live += area->block_used * area->block_bytes;
  pages++;
  return true;
}

int main(void) {
  static void *table[SLOTS];
  struct ts_rng rng = {1};
  double low = 1 / sqrt(LOW), high = 1 / sqrt(HIGH);
  for (int i = 0; i < STEPS; i++) {
    size_t slot = ts_below(&rng, SLOTS);
    double part = (double)ts_below(&rng, 1 << 20) / (1 << 20), root = low - part * (low - high);
    size_t bytes = (size_t)(1 / (root * root));
    hd_free(table[slot]);
    table[slot] = hd_malloc(bytes);
    TS_CHECK(table[slot] != NULL, "%zu bytes", bytes);
    memset(table[slot], 1, bytes);
  }
  hd_heap_walk(NULL, false, add, NULL);
  ts_print(1, "%zu pages, %zu KiB resident, %zu KiB live\n", pages, resident >> 10, live >> 10);
  TS_CHECK(pages > 65, "%zu pages: the sizes do not meet every class", pages);
  TS_CHECK(resident < BOUND, "%zu KiB resident, %d expected at most", resident >> 10, BOUND >> 10);
  for (int i = 0; i < SLOTS; i++) hd_free(table[i]);
  return 0;
}
