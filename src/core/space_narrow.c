/* See space_narrow.h.
 * SPDX-License-Identifier: MIT */
#include "core/space_narrow.h"

#include "core/counters.h"
#include "os/os.h"

enum {
  ALL_UNITS = 1 << 16,           /* of all addresses, */
  FIRST_UNIT = 1 << 12,          /* and of those below 256 MiB, */
  END_UNIT = ALL_UNITS - (1 << 8),
  START_STEP = 32,
  START_COUNT = 64, /* where the space starts differs from run to run */
  PASS_UNITS = 16                /* others' memory is passed by in steps of 1 MiB */
};

bool hdi_space_narrow_init(hd_space *space) {
  hd_unit *table = hdi_os_reserve(ALL_UNITS * sizeof(hd_unit), HD_UNIT_BYTES, true);
  if (table == NULL) return false;
  size_t first = FIRST_UNIT + (size_t)(hdi_os_random() % START_COUNT) * START_STEP;
  space->base = (uint8_t *)((uintptr_t)first << HD_UNIT_SHIFT);
  space->units = table + first;
  space->unit_count = space->table_units = END_UNIT - first;
  space->open = true;
  hdi_space_show_window(table, ALL_UNITS);
  return true;
}

/* ---- the right to move the committed end --------------------------------------------------------------------------------- */

/* false: this thread has it already, and a signal handler that forks came in between. */
static bool begin(hd_space *space) {
  const size_t mine = (size_t)(uintptr_t)__builtin_thread_pointer();
  size_t holder = 0;
  while (!hd_swap_if(&space->step, &holder, mine)) {
    if (holder == mine) return false;
    holder = 0;
    hdi_os_yield();
  }
  return true;
}

static void end(hd_space *space, bool begun) {
  if (begun) hd_store_release(&space->step, (size_t)0);
}

bool hdi_space_narrow_commit(hd_space *space, size_t wanted) {
  bool begun = begin(space);
  bool done = true;
  size_t have = hd_load_acquire(&space->committed);
  while (done && have < wanted) {
    size_t next = hd_min(hd_round_up(wanted, HD_COMMIT_UNITS), space->unit_count);
    done = hdi_space_commit_step(space, have, next);
    if (!done && next > wanted) {
      next = wanted; /* no room for a whole step: ask for no more than is needed */
      done = hdi_space_commit_step(space, have, next);
    }
    if (done && hd_swap_if(&space->committed, &have, next)) have = next;
  }
  end(space, begun);
  return done;
}

/* ---- passing by --------------------------------------------------------------------------------------------------------- */

/* Whether the system gives so much memory at all. */
static bool is_there_room(size_t bytes) {
  void *probe = hdi_os_reserve(bytes, HD_UNIT_BYTES, false);
  if (probe == NULL) return false;
  bool usable = hdi_os_commit(probe, bytes);
  hdi_os_unreserve(probe, bytes);
  return usable;
}

/* Units [place, place + units) have been claimed, above the committed ones. While top is above those nobody takes from it. */
static void go_on_at(hd_space *space, size_t place, size_t units) {
  size_t have = hd_load_acquire(&space->committed);
  size_t top = hd_load_acquire(&space->top);
  while (!hd_swap_if(&space->top, &top, place)) {
  }
  for (size_t at = have; at < place; at++) hd_store_relaxed(&space->units[at].kind, HD_UNIT_PASSED);
  hd_add(&space->passed_units, place - have);
  if (have > top) hdi_space_defer(space, space->units + top, have - top, hdi_space_tick());
  while (have < place + units && !hd_swap_if(&space->committed, &have, place + units)) {
  }
}

static bool find_place(hd_space *space, size_t units) {
  size_t have = hd_load_acquire(&space->committed);
  for (size_t place = hd_round_up(have + 1, PASS_UNITS); place <= space->unit_count - units; place += PASS_UNITS) {
    uint8_t *address = space->base + (place << HD_UNIT_SHIFT);
    hdi_counters_os_call(1);
    if (!hdi_os_claim(address, units << HD_UNIT_SHIFT)) continue;
    bool done = hdi_space_commit_table(space, have, place + units);
    if (done) go_on_at(space, place, units);
    else hdi_os_unreserve(address, units << HD_UNIT_SHIFT);
    return done;
  }
  return false;
}

bool hdi_space_narrow_pass(hd_space *space, size_t units) {
  if (!space->open || units > space->unit_count || !is_there_room(units << HD_UNIT_SHIFT)) return false;
  bool begun = begin(space);
  bool found = find_place(space, units);
  end(space, begun);
  return found;
}

/* Its last act may have been to move the top; what it claimed is lost, and will be passed by. */
void hdi_space_narrow_fork_child(hd_space *space) {
  size_t have = hd_load_relaxed(&space->committed);
  size_t passed = 0;
  hd_store_relaxed(&space->step, (size_t)0);
  if (hd_load_relaxed(&space->top) <= have) return;
  for (size_t at = 0; at < have; at++) passed += hd_load_relaxed(&space->units[at].kind) == HD_UNIT_PASSED;
  hd_store_relaxed(&space->passed_units, passed);
}
