/* See space_huge.h.
 * SPDX-License-Identifier: MIT */
#include "core/space_huge.h"

#include "core/counters.h"
#include "core/options.h"
#include "core/space_grow.h"
#include "os/os.h"

enum {
  BLOCK_UNITS = HD_HUGE_UNITS,
  BLOCK_BYTES = BLOCK_UNITS << HD_UNIT_SHIFT,
  STEP_BLOCKS = HD_COMMIT_UNITS / BLOCK_UNITS,
  HUGE_BLOCKS = 65536,     /* huge pages in the first 128 GiB, */
  HUGE_FIRST_UNITS = 32,   /* but not in the first 2 MiB, */
  HUGE_LOOK_UNITS = 128,   /* where 8 MiB below are resident, or all that there is; */
  HUGE_DEEP_UNITS = 512,   /* or a quarter of them, and those that begin 32 MiB below */
  LACK_OF_UNIT = 8,        /* but for an eighth, if a single unit comes next: it may be a class's that is needed now and then; */
  LACK_OF_RUN = 4,         /* or a quarter, if a run does, which will be filled */
  LEAST_PAGES = 2          /* of the units looked at for a single one, half must be pages */
};

/* By blocks of 2 MiB: where huge pages were asked for; by steps of 32 MiB: where that was taken back for good. */
static struct {
  _Atomic uint64_t asked[HUGE_BLOCKS / 64], lost[HUGE_BLOCKS / STEP_BLOCKS / 64];
} huge;

static bool is_in(_Atomic uint64_t *set, size_t at) { return (hd_load_relaxed(&set[at / 64]) >> at % 64 & 1) != 0; }

static void put_in(_Atomic uint64_t *set, size_t at) {
  atomic_fetch_or_explicit(&set[at / 64], (uint64_t)1 << at % 64, memory_order_relaxed);
}

static size_t block_of(const uint8_t *address) { return (size_t)(address - hdi_space.base) / BLOCK_BYTES; }

/* Ask for the blocks that lie in units [from, to), as far as nobody has, with a call for each stretch. */
static void ask(size_t from, size_t to) {
  size_t last = hd_min(to / BLOCK_UNITS, HUGE_BLOCKS);
  for (size_t at = (from + BLOCK_UNITS - 1) / BLOCK_UNITS; at < last; at++) {
    size_t start = at;
    while (at < last && !is_in(huge.asked, at) && !is_in(huge.lost, at / STEP_BLOCKS)) put_in(huge.asked, at++);
    if (at == start) continue;
    hdi_counters_os_call(1);
    hdi_os_huge(hdi_space.base + start * BLOCK_BYTES, (at - start) * BLOCK_BYTES, true);
  }
}

static bool can_be_huge(const hd_space *space) { return space == &hdi_space && hdi_os.huge_bytes == BLOCK_BYTES; }

static bool asks_by_itself(const hd_space *space) { return can_be_huge(space) && hdi_options.thp == HD_THP_AUTO; }

void hdi_space_huge_step(const hd_space *space, size_t have, size_t next) {
  uint8_t *start = space->base + (have << HD_UNIT_SHIFT);
  size_t bytes = (next - have) << HD_UNIT_SHIFT;
  if (hdi_os.huge_bytes == 0 || space != &hdi_space) return;
  if (hdi_options.thp == HD_THP_ALWAYS) hdi_os_huge(start, bytes, true);
  else if (hdi_os.huge_always) hdi_os_huge(start, bytes, false); /* it waits to be asked, as other systems do by themselves */
}

static size_t resident(const hd_space *space, size_t from, size_t units) {
  return hdi_os_resident_in(space->base + (from << HD_UNIT_SHIFT), units << HD_UNIT_SHIFT) >> HD_UNIT_SHIFT;
}

/* A unit of a page, or with a block of its own. Of a longer block the first unit is taken for one as well, which changes little. */
static bool is_page(const hd_space *space, size_t at) {
  unsigned kind = hd_load_relaxed(&space->units[at].kind);
  return kind == HD_UNIT_PAGE || kind == HD_UNIT_LARGE;
}

static size_t resident_pages(const hd_space *space, size_t from, size_t to) {
  size_t have = 0;
  for (size_t at = from; at < to; at++) {
    size_t start = at;
    while (at < to && is_page(space, at)) at++;
    if (at > start) have += resident(space, start, at - start);
  }
  return have;
}

/* How the next page will be filled is to be seen from pages: long blocks are filled by their nature, and would pass for proof. So what is
 * looked at are as many units of pages, within 32 MiB below. *have: how much of that is resident. */
static bool are_pages_dense(const hd_space *space, size_t below, size_t look, size_t *have) {
  size_t pages = 0, from = below, last = below - hd_min(below, HUGE_DEEP_UNITS);
  while (from > last && pages < look) pages += is_page(space, --from);
  *have = resident_pages(space, from, below);
  return pages >= look / LEAST_PAGES && *have >= pages - pages / LACK_OF_UNIT;
}

static bool is_dense(const hd_space *space, size_t below, size_t look, size_t *have) {
  *have = resident(space, below - look, look);
  return *have >= look - look / LACK_OF_RUN;
}

/* A program that has filled the memory below will fill what comes next. Where many threads grow at once, the pages that each of them is
 * about to fill lie on top, and the proof lies deeper. */
static bool is_dense_below(const hd_space *space, size_t first, bool for_run) {
  bool (*const proves)(const hd_space *, size_t, size_t, size_t *) = for_run ? is_dense : are_pages_dense;
  size_t look = hd_min(first, HUGE_LOOK_UNITS), have = 0;
  if (proves(space, first, look, &have)) return true;
  return have >= look / 4 && first >= HUGE_DEEP_UNITS && proves(space, first - HUGE_DEEP_UNITS + look, look, &have);
}

/* Of a long run its owner knows more: see hdi_space_want_huge. */
void hdi_space_huge_top(const hd_space *space, size_t from, size_t to) {
  if (!asks_by_itself(space) || to - from >= HD_HUGE_RUN_UNITS) return;
  size_t first = hd_round_up(from, BLOCK_UNITS);
  size_t last = hd_min(hd_round_up(to, BLOCK_UNITS), hd_load_relaxed(&space->committed));
  if (first < last && first >= HUGE_FIRST_UNITS && is_dense_below(space, from, to - from > 1)) ask(first, last);
}

/* A limit counts units, whether they are touched or not. */
size_t hdi_space_huge_grain(const hd_space *space, size_t units) {
  bool wanted = hdi_options.thp != HD_THP_NEVER && hd_load_owned(&hdi_options.limit) == 0;
  return units >= HD_HUGE_RUN_UNITS && !HD_NARROW && wanted && can_be_huge(space) ? BLOCK_UNITS : 1;
}

void hdi_space_want_huge(hd_space *space, const hd_unit *first, size_t units) {
  size_t at = (size_t)(first - space->units);
  if (asks_by_itself(space)) ask(at, at + units);
}

bool hdi_space_is_huge(const uint8_t *address) {
  size_t block = block_of(address);
  return block < HUGE_BLOCKS && (hdi_options.thp == HD_THP_ALWAYS || is_in(huge.asked, block));
}

void hdi_space_before_purge(const uint8_t *address, size_t bytes) {
  size_t block = block_of(address);
  if (block >= HUGE_BLOCKS || bytes >= hdi_os.huge_bytes) return;
  size_t step = block / STEP_BLOCKS, first = step * STEP_BLOCKS % 64;
  uint64_t bits = hd_low_mask(STEP_BLOCKS) << first;
  bits &= atomic_fetch_and_explicit(&huge.asked[block / 64], ~bits, memory_order_relaxed);
  if (bits == 0) return;
  put_in(huge.lost, step);
  bits >>= first;
  while (bits != 0) { /* only what was asked for: between may lie somebody else's memory */
    size_t from = hd_lowest_bit(bits), count = hd_lowest_bit(~(bits >> from));
    hdi_os_huge(hdi_space.base + (step * STEP_BLOCKS + from) * BLOCK_BYTES, count * BLOCK_BYTES, false);
    bits &= ~(hd_low_mask((unsigned)count) << from);
  }
}
