/* See space_grow.h.
 * SPDX-License-Identifier: MIT */
#include "core/space_grow.h"

#include <string.h>

#include "core/counters.h"
#include "core/space_huge.h"
#include "os/os.h"

enum {
  SMALLEST_WINDOW_SHIFT = 28,
  OPEN_TRIES = 4,
  /* Where the table starts in its first system page: half an entry off, and behind the store's first bytes (hdi_space_store_range). */
  TABLE_SHIFT = 20 * sizeof(hd_unit) + sizeof(hd_unit) / 2,
  PASS_UNITS = 16,      /* others' memory is passed by in steps of 1 MiB, */
  PASS_PART = 8         /* or of an eighth of what has been passed by, where there are many addresses */
};

/* log2 of the lowest place for the window, and of the length of the part of the address space that it is chosen from: above the 64 TiB
 * where engines of script languages map their pages at random, below the programs. The thread sanitizer knows other parts only. */
#ifdef HD_SANITIZE_THREAD
enum { LOWEST_SHIFT = 36, PLACES_SHIFT = 38 };
#else
enum { LOWEST_SHIFT = 46, PLACES_SHIFT = 44 };
#endif

/* Where there are fewer addresses (256 GiB on most RISC-V boards, 512 on small ARM ones) there is one place: 64 GiB from the 64th on, below
 * where those systems put programs and what they map. */
#define FEW_BYTES (64 * HD_GIB)

/* Addresses of 32 bits, in units. */
enum {
  ALL_UNITS = 1 << 16,
  FIRST_UNIT = 1 << 12, /* not below 256 MiB, */
  END_UNIT = ALL_UNITS - (1 << 8),
  START_STEP = 32,
  START_COUNT = 64, /* where the space starts differs from run to run */
  NARROW_STORE = 128 * 1024 * 1024
};

/* What a free() finds before the window exists: an entry that nobody owns. */
static HD_LATER_DATA hd_unit no_unit;

static HD_LATER_DATA hd_unit *clean_bins[HD_BIN_COUNT], *dirty_bins[HD_BIN_COUNT], *sparse_bins[HD_BIN_COUNT];

hd_space hdi_space;
hd_unit *hdi_window_units = &no_unit;
size_t hdi_window_mask;

/* Let free() see the table as far as it may be read. The table first: the mask must never reach beyond it. */
static void show_window(hd_unit *table, size_t count) {
  hd_store_owned(&hdi_window_units, table);
  atomic_thread_fence(memory_order_release); /* pairs with hdi_space_entry */
  hd_store_owned(&hdi_window_mask, (count - 1) << HD_UNIT_ENTRY_SHIFT);
}

/* ---- the right to move the committed end --------------------------------------------------------------------------------- */

/* In a child where ours is not the fork's first handler. No fork takes this lock, so a thread that is not there may have it. Whoever comes
 * first finds out; the others may be threads that those handlers have started. */
static void free_growth(hd_space *space) {
  unsigned held = hd_load_relaxed(&space->growth.word);
  unsigned here = hdi_os_process_id(), freed_in = hd_load_relaxed(&space->growth_freed);
  if (freed_in == here || !hd_swap_if(&space->growth_freed, &freed_in, here)) return;
  if (held != 0) hdi_lock_reset(&space->growth);
}

/* false: this thread has it already, and a signal handler that forks came in between. */
static bool begin(hd_space *space) {
  if (hdi_lock_is_mine(&space->growth)) return false;
  if (hdi_lock_is_new_child()) free_growth(space);
  hdi_lock_take(&space->growth);
  return true;
}

static void end(hd_space *space, bool begun) {
  if (begun) hdi_lock_drop(&space->growth);
}

static hd_claim commit(uint8_t *start, size_t bytes) {
  hdi_counters_os_call(1);
  return hdi_os_commit(start, bytes) ? HD_CLAIM_DONE : HD_CLAIM_REFUSED;
}

static hd_claim claim(uint8_t *start, size_t bytes) {
  hdi_counters_os_call(1);
  return hdi_os_claim(start, bytes);
}

/* What lies right behind the table. Where that has been tried and nothing came of it, who tried is not in this process, or is this very
 * thread before a signal: what it claimed is nobody's. Units that are lost in this way will be passed by, but the table has no gaps. */
static hd_claim claim_for_table(hd_space *space, uint8_t *start, size_t bytes) {
  if (hd_load_acquire(&space->table_claim) == start) hdi_os_unclaim(start, hd_load_relaxed(&space->table_claim_bytes));
  hd_store_relaxed(&space->table_claim_bytes, bytes);
  hd_store_release(&space->table_claim, start);
  hd_claim claimed = claim(start, bytes);
  if (claimed != HD_CLAIM_DONE) hd_store_release(&space->table_claim, NULL);
  return claimed;
}

/* ---- growing --------------------------------------------------------------------------------------------------------------- */

/* The entries of a table that is reserved, or is a part of one for all addresses. */
static hd_claim open_table(hd_space *space, size_t have, size_t wanted) {
  uint8_t *start = (uint8_t *)hd_round_down((uintptr_t)(space->units + have), hdi_os.page_bytes);
  uint8_t *end = (uint8_t *)hd_round_up((uintptr_t)(space->units + wanted), hdi_os.page_bytes);
  return commit(start, (size_t)(end - start));
}

/* Table entries for at least `wanted` units. In an open space their number stays a power of two, because free() masks an address
 * with it; a free() that still uses the smaller mask finds an entry it does not own and takes the slow path. */
static hd_claim grow_table(hd_space *space, size_t have, size_t wanted) {
  if (HD_NARROW || !space->open) return open_table(space, have, wanted);
  size_t old = space->table_units;
  if (wanted <= old) return HD_CLAIM_DONE;
  size_t count = (size_t)1 << hd_highest_bit(wanted + wanted - 1);
  uint8_t *table = (uint8_t *)space->units - TABLE_SHIFT;
  uint8_t *start = table + (old == 0 ? 0 : hd_round_up(TABLE_SHIFT + old * sizeof(hd_unit), hdi_os.page_bytes));
  uint8_t *end = table + hd_round_up(TABLE_SHIFT + count * sizeof(hd_unit), hdi_os.page_bytes);
  hd_claim claimed = end > start ? claim_for_table(space, start, (size_t)(end - start)) : HD_CLAIM_DONE;
  if (claimed == HD_CLAIM_DONE && count > space->table_units) space->table_units = count;
  return wanted <= space->table_units ? HD_CLAIM_DONE : HD_CLAIM_REFUSED; /* nothing goes on behind memory that lies in the table's place */
}

static hd_claim grow_to(hd_space *space, size_t have, size_t next) {
  hd_claim claimed = grow_table(space, have, next);
  if (claimed != HD_CLAIM_DONE) return claimed;
  uint8_t *start = space->base + (have << HD_UNIT_SHIFT);
  size_t bytes = (next - have) << HD_UNIT_SHIFT;
  claimed = space->open ? claim(start, bytes) : commit(start, bytes);
  if (claimed != HD_CLAIM_DONE) return claimed;
  if (!HD_NARROW && space == &hdi_space) show_window(space->units, space->table_units);
  hdi_space_huge_step(space, have, next);
  return HD_CLAIM_DONE;
}

/* As much again as there is, within bounds. */
static size_t step_behind(size_t have) {
  size_t as_much = have == 0 ? 0 : (size_t)1 << hd_highest_bit(have);
  return hd_min(hd_max(as_much, HD_COMMIT_FIRST), HD_COMMIT_UNITS);
}

hd_claim hdi_space_grow(hd_space *space, size_t wanted) {
  if (HD_LIKELY(hd_load_acquire(&space->committed) >= wanted)) return HD_CLAIM_DONE;
  hd_claim claimed = HD_CLAIM_DONE;
  bool begun = begin(space);
  size_t have = hd_load_acquire(&space->committed);
  while (have < wanted) {
    size_t next = hd_min(hd_round_up(wanted, step_behind(have)), space->unit_count);
    claimed = grow_to(space, have, next);
    if (claimed != HD_CLAIM_DONE && next > wanted) {
      next = wanted; /* no room for a whole step: ask for no more than is needed */
      claimed = grow_to(space, have, next);
    }
    size_t now = have;
    if (claimed == HD_CLAIM_DONE) hd_swap_if(&space->committed, &now, next);
    now = hd_load_acquire(&space->committed);
    if (now == have) break;
    have = now; /* if nothing else, then a signal handler in between has moved it */
  }
  end(space, begun);
  return have >= wanted ? HD_CLAIM_DONE : claimed;
}

/* ---- passing by -------------------------------------------------------------------------------------------------------------- */

/* Units [place, place + units) have been claimed, above the committed ones. While top is above those nobody takes from it. */
static void go_on_at(hd_space *space, size_t place, size_t units) {
  size_t have = hd_load_acquire(&space->committed);
  size_t top = hd_load_acquire(&space->top);
  while (!hd_swap_if(&space->top, &top, place)) {
  }
  for (size_t at = have; at < place; at++) hd_store_relaxed(&space->units[at].kind, HD_UNIT_PASSED);
  hd_add(&space->passed_units, place - have);
  if (!HD_NARROW) show_window(space->units, space->table_units);
  if (have > top) hdi_space_defer(space, space->units + top, have - top, hdi_space_tick());
  while (have < place + units && !hd_swap_if(&space->committed, &have, place + units)) {
  }
}

/* Where to look after a place that is somebody else's. */
static size_t next_place(size_t have, size_t place) {
  size_t far = HD_NARROW ? 0 : hd_round_up((place - have) / PASS_PART, PASS_UNITS);
  return place + hd_max(far, PASS_UNITS);
}

static bool find_place(hd_space *space, size_t units) {
  size_t have = hd_load_acquire(&space->committed);
  size_t place = hd_round_up(have + 1, PASS_UNITS);
  for (; place <= space->unit_count - units; place = next_place(have, place)) {
    uint8_t *address = space->base + (place << HD_UNIT_SHIFT);
    hd_claim claimed = claim(address, units << HD_UNIT_SHIFT);
    if (claimed == HD_CLAIM_TAKEN) continue;
    if (claimed == HD_CLAIM_REFUSED) return false;
    bool done = grow_table(space, have, place + units) == HD_CLAIM_DONE;
    if (done) go_on_at(space, place, units);
    else hdi_os_unreserve(address, units << HD_UNIT_SHIFT);
    return done;
  }
  return false;
}

bool hdi_space_pass(hd_space *space, size_t units) {
  if (!space->open || units > space->unit_count) return false;
  bool begun = begin(space);
  bool found = find_place(space, units);
  end(space, begun);
  return found;
}

/* Its last act may have been to move the top; what it claimed there is lost, and will be passed by. */
SLOW void hdi_space_grow_fork_child(hd_space *space) {
  size_t have = hd_load_relaxed(&space->committed);
  size_t passed = 0;
  if (!hdi_lock_is_mine(&space->growth)) free_growth(space);
  if (hd_load_relaxed(&space->top) <= have) return;
  for (size_t at = 0; at < have; at++) passed += hd_load_relaxed(&space->units[at].kind) == HD_UNIT_PASSED;
  hd_store_relaxed(&space->passed_units, passed);
}

/* ---- finding a place --------------------------------------------------------------------------------------------------------- */

static bool init_narrow(void) {
  hd_unit *table = hdi_os_reserve(ALL_UNITS * sizeof(hd_unit), HD_UNIT_BYTES, true);
  if (table == NULL) return false;
  size_t first = FIRST_UNIT + (size_t)(hdi_os_random() % START_COUNT) * START_STEP;
  hdi_space.base = (uint8_t *)((uintptr_t)first << HD_UNIT_SHIFT);
  hdi_space.units = table + first;
  hdi_space.unit_count = hdi_space.table_units = END_UNIT - first;
  hdi_space.open = true;
  show_window(table, ALL_UNITS);
  return true;
}

static size_t wanted_window(void) {
  const uint64_t gib = HD_GIB;
  uint64_t wanted = (uint64_t)hdi_os.ram_bytes * 4;
  if (wanted < 64 * gib) wanted = 64 * gib;
  if (wanted > 4096 * gib) wanted = 4096 * gib;
  return (size_t)1 << hd_highest_bit(wanted + wanted - 1);
}

/* All but the lock: a thread that forks while this one starts may have it. */
static __attribute__((noinline)) void forget(void) {
  const size_t from = offsetof(hd_space, base);
  memset((uint8_t *)&hdi_space + from, 0, sizeof hdi_space - from);
  hdi_space.clean.bin = clean_bins;
  hdi_space.dirty.bin = dirty_bins;
  hdi_space.sparse.bin = sparse_bins;
}

/* A place where the table found room and the units did not. */
static void leave_place(void) {
  if (hdi_space.table_units == 0) return;
  size_t bytes = hd_round_up(TABLE_SHIFT + hdi_space.table_units * sizeof(hd_unit), hdi_os.page_bytes);
  hdi_os_unreserve((uint8_t *)hdi_space.units - TABLE_SHIFT, bytes);
  hdi_space.table_units = 0;
  hd_store_relaxed(&hdi_space.table_claim, NULL);
}

/* The common space lies in a part of the address space where the system puts nothing by itself, at a multiple of the window's length
 * that differs from run to run. It is claimed piece by piece: so the process's size stays what it uses, and a limit on address space
 * that is set later does no harm.
 *
 * The table starts half an entry off: a processor that compares the low 12 bits of addresses would otherwise take what a program has
 * just written to the start of its block for a part of that block's entry, and wait (22 instead of 9 ns for a large pair). */
static bool init_open(uint64_t lowest, uint64_t places, size_t bytes) {
  if (places == 0) return false;
  size_t count = bytes >> HD_UNIT_SHIFT;
  hdi_space.open = true;
  for (int tries = 0; tries < OPEN_TRIES; tries++) {
    hdi_space.base = (uint8_t *)(uintptr_t)(lowest + (hdi_os_random() % places + 1) * bytes);
    hdi_space.units = (hd_unit *)(hdi_space.base - count * sizeof(hd_unit) - HD_UNIT_BYTES + TABLE_SHIFT);
    hdi_space.unit_count = count;
    if (hdi_space_grow(&hdi_space, 1) == HD_CLAIM_DONE) return true;
    leave_place();
  }
  forget();
  return false;
}

static bool init_far(size_t bytes) { return init_open((uint64_t)1 << LOWEST_SHIFT, ((uint64_t)1 << PLACES_SHIFT) / bytes, bytes); }

static bool init_near(void) { return hdi_os.ram_bytes <= FEW_BYTES / 2 && init_open(0, 1, FEW_BYTES); }

/* Where addresses can't be chosen the whole window is reserved at once, smaller if need be. */
static bool init_reserved(size_t bytes) {
  size_t count = bytes >> HD_UNIT_SHIFT;
  uint8_t *base = hdi_os_reserve(bytes, bytes, false);
  if (base == NULL) return false;
  void *units = hdi_os_reserve(count * sizeof(hd_unit), HD_UNIT_BYTES, true);
  if (units == NULL) {
    hdi_os_unreserve(base, bytes);
    return false;
  }
  hdi_space.base = base;
  hdi_space.units = units;
  hdi_space.unit_count = count;
  hdi_space.table_units = count;
  show_window(units, count);
  return true;
}

bool hdi_space_init(void) {
  forget(); /* a start that a fork cut off may have been here */
  if (HD_NARROW) return init_narrow();
  size_t bytes = wanted_window();
  if (init_far(bytes) || init_near()) return true;
  for (; bytes >> SMALLEST_WINDOW_SHIFT != 0; bytes /= 2) {
    if (init_reserved(bytes)) return true;
  }
  return false;
}

void *hdi_space_store_range(size_t *bytes, size_t *first_bytes) {
  size_t window = hdi_space.unit_count << HD_UNIT_SHIFT;
  *bytes = HD_NARROW ? NARROW_STORE : hd_max(window / 8, 64 * HD_MIB);
  *first_bytes = 0;
  if (!hdi_space.open || HD_NARROW) return NULL;
  *first_bytes = TABLE_SHIFT;
  return (uint8_t *)hdi_space.units - TABLE_SHIFT - *bytes;
}
