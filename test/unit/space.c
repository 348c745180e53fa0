/* The run allocator against an oracle: a fixed space in memory of ours, and a byte per unit that says who has it.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/space.h"
#include "heddle.h"

#define SPACE_BYTES ((size_t)64 << 20)
#define ALIGNMENT ((size_t)64 << 20)
#define RUNS 200

static struct ts_rng rng;
static hd_space space;
static uint8_t *memory;
static uint8_t used[SPACE_BYTES / HD_UNIT_BYTES]; /* 0: free, else the run's number + 1, modulo 255 */
static struct run {
  hd_unit *first;
  size_t units;
} runs[RUNS];
static size_t used_units;

static size_t index_of(const hd_unit *unit) { return (size_t)(unit - space.units); }

static void mark(const hd_unit *first, size_t units, int before, int after) {
  assert_true(index_of(first) + units <= space.unit_count);
  for (size_t i = 0; i < units; i++) {
    assert_int_equal(used[index_of(first) + i], before);
    used[index_of(first) + i] = (uint8_t)after;
  }
}

static int name_of(size_t run) { return 1 + (int)(run % 250); }

/* Could the oracle place this request? */
static bool fits(size_t units, size_t align_units) {
  uint8_t *base = space.base;
  for (size_t at = 0, free_units = 0; at < space.unit_count; at++) {
    free_units = used[at] ? 0 : free_units + 1;
    if (free_units < units) continue;
    size_t first = at + 1 - units;
    if (((uintptr_t)(base + first * HD_UNIT_BYTES) >> HD_UNIT_SHIFT) % align_units == 0) return true;
  }
  return false;
}

static void take(size_t run) {
  size_t units = 1 + ts_below(&rng, ts_below(&rng, 4) ? 8 : 120), align_units = (size_t)1 << ts_below(&rng, 4) * ts_below(&rng, 2);
  bool zeroed = false;
  bool possible = fits(units, align_units);
  hd_unit *first = hdi_space_take(&space, units, align_units, &zeroed);
  if (!first) {
    /* An aligned request may be refused where fragments are tight; a plain one may not. */
    if (align_units == 1) assert_false(possible);
    return;
  }
  assert_true(possible);
  mark(first, units, 0, name_of(run));
  uint8_t *address = hdi_space_address(&space, first);
  assert_int_equal(((uintptr_t)address >> HD_UNIT_SHIFT) % align_units, 0);
  assert_ptr_equal(hdi_space_find(address), first);
  assert_ptr_equal(hdi_space_find(address + units * HD_UNIT_BYTES - 1), first + units - 1);
  if (zeroed)
    for (size_t at = 0; at < units * HD_UNIT_BYTES; at += 512) assert_int_equal(address[at], 0);
  for (size_t at = 0; at < units * HD_UNIT_BYTES; at += 512) address[at] = (uint8_t)name_of(run);
  runs[run] = (struct run){first, units};
  used_units += units;
}

static void check_content(size_t run) {
  uint8_t *address = hdi_space_address(&space, runs[run].first);
  for (size_t at = 0; at < runs[run].units * HD_UNIT_BYTES; at += 512) assert_int_equal(address[at], name_of(run));
}

static void give(size_t run) {
  check_content(run);
  size_t keep = ts_below(&rng, 4) ? 0 : ts_below(&rng, runs[run].units); /* sometimes only the tail of a run */
  hd_unit *from = runs[run].first + keep;
  size_t units = runs[run].units - keep;
  mark(from, units, name_of(run), 0);
  runs[run].first->run_units = (uint32_t)keep;
  hdi_space_give(&space, from, units, true);
  runs[run].units = keep;
  used_units -= units;
  if (!keep) runs[run].first = NULL;
}

static void extend(size_t run) {
  bool zeroed = false;
  size_t more = 1 + ts_below(&rng, 10), units = runs[run].units;
  if (!hdi_space_extend(&space, runs[run].first, units, more, &zeroed)) return;
  mark(runs[run].first + units, more, 0, name_of(run));
  uint8_t *tail = hdi_space_address(&space, runs[run].first + units);
  for (size_t at = 0; at < more * HD_UNIT_BYTES; at += 512) {
    if (zeroed) assert_int_equal(tail[at], 0);
    tail[at] = (uint8_t)name_of(run);
  }
  runs[run].units += more;
  used_units += more;
}

static void test_against_oracle(void **state) {
  (void)state;
  for (int step = 0; step < 60000; step++) {
    size_t run = ts_below(&rng, RUNS);
    if (!runs[run].first) take(run);
    else if (ts_below(&rng, 5) == 0) extend(run);
    else give(run);
    size_t top = atomic_load(&space.top), free_units = atomic_load(&space.free_units);
    assert_int_equal(used_units + free_units, top); /* live + free = top */
  }
}

/* When everything is given back, one run of nearly the whole space must be possible again: neighbours have merged. */
static void test_merges_back(void **state) {
  (void)state;
  for (size_t run = 0; run < RUNS; run++)
    while (runs[run].first) give(run);
  assert_int_equal(used_units, 0);
  bool zeroed;
  size_t most = 0;
  for (size_t units = space.unit_count; units > 0 && !most; units--) {
    hd_unit *first = hdi_space_take(&space, units, 1, &zeroed);
    if (!first) continue;
    most = units;
    hdi_space_give(&space, first, units, true);
  }
  size_t reserved = 0; /* the space's own table may stand in its first units */
  while (reserved < space.unit_count && hdi_space_address(&space, space.units + reserved) < memory) reserved++;
  assert_true(most + 2 + reserved >= space.unit_count);
}

static int set_up(void **state) {
  (void)state;
  hd_free(hd_malloc(1)); /* starts the library */
  uint8_t *all = mmap(NULL, 2 * ALIGNMENT, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (all == MAP_FAILED) return -1;
  memory = (uint8_t *)(((uintptr_t)all + ALIGNMENT - 1) & ~(ALIGNMENT - 1));
  if (!hdi_space_init_fixed(&space, memory, SPACE_BYTES, 0)) return -1;
  return hdi_space_publish(&space) ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  hdi_space_retract(&space);
  return hdi_space_find(memory + SPACE_BYTES / 2) == NULL ? 0 : -1;
}

static void test_too_small(void **state) {
  (void)state;
  static hd_space small;
  assert_false(hdi_space_init_fixed(&small, memory, 1000, 0));
}

int main(void) {
  rng.state = ts_seed();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_oracle),
      cmocka_unit_test(test_merges_back),
      cmocka_unit_test(test_too_small),
  };
  return cmocka_run_group_tests_name("space", tests, set_up, tear_down);
}
