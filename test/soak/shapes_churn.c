/* Shapes of one thread that replaces its blocks: always alike, in other sizes after a while, in phases, with idle times between, and
 * in the pattern by which fragmentation is forced.
 *
 * SPDX-License-Identifier: MIT */
#include "soak.h"

static struct soak_table kept, passing;

/* ---- steady ------------------------------------------------------------------------------------------------------ */

static void prepare_steady(void) { soak_table_prepare(&kept, soak_bytes / 128); }

static void run_steady(void) {
  struct soak_lane *lane = soak_lane(0);
  soak_table_fill(lane, &kept, soak_bytes, 16, 4 * KIB);
  for (; soak_running(); soak_cycle()) soak_table_churn(lane, &kept, kept.count / 8, 16, 4 * KIB);
}

/* ---- shift ------------------------------------------------------------------------------------------------------- */

static void prepare_shift(void) {
  soak_table_prepare(&kept, soak_bytes / 64);
  soak_table_prepare(&passing, soak_bytes / 64);
}

/* Drop all in random order, and in step with it make as many bytes in the new sizes: both generations mix in memory. */
static void shift_to(struct soak_lane *lane, size_t low, size_t high) {
  size_t old = kept.count, made = 0, dropped = 0;
  for (size_t i = old; i > 1; i--) {
    size_t j = ts_below(&lane->rng, i);
    struct soak_block swap = kept.slots[i - 1];
    kept.slots[i - 1] = kept.slots[j];
    kept.slots[j] = swap;
  }
  for (size_t taken = old; taken > 0 && soak_running();) {
    struct soak_block *last = &kept.slots[--taken];
    dropped += last->bytes;
    soak_drop(lane, last);
    while (made < dropped) {
      soak_make(lane, &passing.slots[passing.count], soak_size(lane, low, high));
      made += passing.slots[passing.count++].bytes;
    }
    kept.count = taken;
  }
  struct soak_table swap = kept;
  kept = passing;
  passing = swap;
}

static void run_shift(void) {
  static const size_t ranges[][2] = {{32, 256}, {512, 8 * KIB}, {128, 1 * KIB}, {2 * KIB, 48 * KIB}};
  struct soak_lane *lane = soak_lane(0);
  soak_table_fill(lane, &kept, soak_bytes, ranges[0][0], ranges[0][1]);
  for (unsigned turn = 1; soak_running(); turn++) {
    const size_t *range = ranges[turn % 4];
    soak_steady(false);
    shift_to(lane, range[0], range[1]);
    soak_steady(true);
    for (uint64_t end = ts_now_ms() + SOAK_SETTLE_MS + 700; soak_running() && ts_now_ms() < end; soak_pause(2))
      soak_table_churn(lane, &kept, kept.count / 1000 + 1, range[0], range[1]);
    if (turn % 4 == 0) soak_cycle();
  }
}

/* ---- phases ------------------------------------------------------------------------------------------------------ */

/* What each phase builds and throws away; its results, one block in `results_each`, outlive it by two rounds of phases. */
struct phase {
  size_t low, high, share; /* percent of the live bytes */
};
static const struct phase phases[] = {{16, 128, 60}, {8 * KIB, 64 * KIB, 80}, {64, 2 * KIB, 40}, {128 * KIB, 2 * MIB, 90}};
enum { SPARSE_MS = 10000, PHASES = 4, RESULTS = PHASES * 2 };
static struct soak_table results[RESULTS];

static void prepare_phases(void) {
  soak_table_prepare(&kept, soak_bytes / 128);
  soak_table_prepare(&passing, soak_bytes / 48);
  for (unsigned i = 0; i < RESULTS; i++) soak_table_prepare(&results[i], soak_bytes / 2048);
}

static void build_phase(struct soak_lane *lane, const struct phase *phase, struct soak_table *result) {
  size_t wanted = soak_bytes * phase->share / 100;
  for (size_t held = 0; held < wanted && soak_running(); held += passing.slots[passing.count++].bytes) {
    soak_make(lane, &passing.slots[passing.count], soak_size(lane, phase->low, phase->high));
    if (passing.count % 256 == 0) soak_table_fill(lane, result, phase->low, phase->low, phase->high);
  }
}

static void run_phases(void) {
  struct soak_lane *lane = soak_lane(0);
  soak_table_fill(lane, &kept, soak_bytes / 2, 16, 4 * KIB);
  for (unsigned turn = 0; soak_running(); turn++) {
    const struct phase *phase = &phases[turn % PHASES];
    struct soak_table *result = &results[turn % RESULTS];
    soak_steady(false);
    soak_table_empty(lane, result);
    build_phase(lane, phase, result);
    soak_table_churn(lane, &passing, passing.count / 2, phase->low, phase->high);
    soak_table_churn(lane, &kept, kept.count / 8, 16, 4 * KIB);
    soak_table_empty(lane, &passing);
    /* System pages between the results go back after some seconds: the promise gives ten. */
    soak_pause(SPARSE_MS - SOAK_SETTLE_MS);
    soak_steady(true);
    soak_pause(SOAK_SETTLE_MS + 1000);
    if (turn % PHASES == PHASES - 1) soak_cycle();
  }
}

/* ---- idle -------------------------------------------------------------------------------------------------------- */

static void prepare_idle(void) {
  soak_table_prepare(&kept, soak_bytes / 128);
  soak_table_prepare(&passing, soak_bytes / 64);
}

static void run_idle(void) {
  struct soak_lane *lane = soak_lane(0);
  soak_table_fill(lane, &kept, soak_bytes / 2, 16, 4 * KIB);
  for (; soak_running(); soak_cycle()) {
    soak_steady(false);
    for (unsigned burst = 0; burst < 4; burst++) {
      soak_table_fill(lane, &passing, soak_bytes, 16, 16 * KIB);
      soak_table_churn(lane, &passing, passing.count / 4, 16, 16 * KIB);
      soak_table_churn(lane, &kept, kept.count / 64, 16, 4 * KIB);
      soak_table_empty(lane, &passing);
    }
    soak_steady(true);
    soak_pause(SOAK_SETTLE_MS + 1000);
  }
}

/* ---- attack ------------------------------------------------------------------------------------------------------ */

/* Robson's program: in step i keep exactly the blocks that hold a byte at the chosen place of each 2^i bytes, so that no hole is of
 * use to the next size, and make new ones of twice the size up to the same sum. Whatever does not move blocks must grow; by how
 * much is known: half a time the sum for each doubling. Ours goes through it with a sixteenth of the bytes, whose unavoidable growth
 * fits into the bound, round after round: the second must not cost more than the first. */
enum { ATTACK_LOW = 5, ATTACK_HIGH = 14 };

static void prepare_attack(void) {
  soak_table_prepare(&kept, soak_bytes / 128);
  soak_table_prepare(&passing, soak_bytes / 16 >> (ATTACK_LOW - 1));
}

static size_t held_at(const struct soak_block *block, uintptr_t place, uintptr_t span) {
  uintptr_t first = (uintptr_t)block->p, next = first + ((place - first) & (span - 1));
  return next < first + block->bytes ? block->bytes : 0;
}

/* Which of the two places of this step leaves more behind. */
static uintptr_t worse_place(uintptr_t place, uintptr_t span) {
  size_t here = 0, there = 0;
  for (size_t i = 0; i < passing.count; i++) {
    here += held_at(&passing.slots[i], place, span);
    there += held_at(&passing.slots[i], place + span / 2, span);
  }
  return here >= there ? place : place + span / 2;
}

static void attack_round(struct soak_lane *lane, size_t wanted) {
  uintptr_t place = 0;
  for (unsigned i = ATTACK_LOW; i <= ATTACK_HIGH && soak_running(); i++) {
    uintptr_t span = (uintptr_t)1 << i;
    size_t stay = 0, held = 0;
    place = worse_place(place, span);
    for (size_t k = 0; k < passing.count; k++) {
      struct soak_block block = passing.slots[k];
      if (held_at(&block, place, span) == 0) {
        soak_drop(lane, &block);
        continue;
      }
      held += block.bytes;
      passing.slots[stay++] = block;
    }
    passing.count = stay;
    for (; held + span <= wanted; held += span) soak_make(lane, &passing.slots[passing.count++], span);
  }
}

static void run_attack(void) {
  struct soak_lane *lane = soak_lane(0);
  soak_table_fill(lane, &kept, soak_bytes / 2, 16, 4 * KIB);
  for (; soak_running(); soak_cycle()) {
    attack_round(lane, soak_bytes / 16);
    soak_table_empty(lane, &passing);
  }
}

const struct soak_shape soak_churn_shapes[] = {
    {"steady", "blocks of 16 B to 4 KiB replaced at random", prepare_steady, run_steady},
    {"shift", "every block replaced by blocks of other sizes, then held", prepare_shift, run_shift},
    {"phases", "small, medium, large: built, churned, thrown away but for the results", prepare_phases, run_phases},
    {"idle", "four bursts, then seconds of nothing", prepare_idle, run_idle},
    {"attack", "Robson's pattern, which forces fragmentation, over and over", prepare_attack, run_attack},
    {0}};
