/* Every call to the system is refused, one after the other: a workload meets the refusal of its n-th call, of all from the n-th on, of
 * every n-th, and of the n-th of one kind, for every n. Nobody crashes or hangs; each call of the program gives NULL with ENOMEM or what it
 * should; what lives keeps its content; as soon as the system gives again the whole workload succeeds; and nothing is lost on the way.
 *
 *   faults [-w workload] [-m once|from|every|kind] [-k kind] [-n number] [-s seed] [--page bytes] [--long] [--first] [--list]
 *
 * Each trial is a child that never used the library before, so the first calls fail as well. It runs the workload under the plan, then
 * without, and all that four times: what the library holds afterwards is about what it holds where nothing was refused, and does not grow.
 * A trial that fails is one line, with the line that repeats it. Without --long, n is every number up to a bound
 * and then some.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <heddle.h>

#include "core/hardened.h"
#include "core/space.h"
#include "core/store.h"
#include "os/os_fault.h"
#include "work.h"

enum { JOBS = 2, ROUNDS = 4, ROUNDS_MAX = 12, LIMIT_S = 60, DENSE = 6, SPARSE = 5 };

const struct work works[] = {
    {"heap", work_heap, 0},
    {"tight", work_heap, 16 << 20}, /* steps of 32 MiB are refused: each run of units is asked for by itself */
    {"threads", work_threads, 0},
    {"objects", work_objects, 0},
    {"narrow", work_objects, 24 << 20},
    {"fork", work_fork, 0},
    {"look", work_look, 24 << 20},
};
const size_t work_count = sizeof works / sizeof works[0];
static const char *const mode_names[] = {"off", "once", "from", "every", "kind", "twice"};

atomic_bool work_refused, work_all_granted;

/* What the library holds when a workload is over. */
struct holding {
  size_t ranges;    /* reserved ranges */
  size_t store;     /* bytes of its own structures */
  size_t units;     /* of 64 KiB that are in use */
  size_t heaps;     /* of threads that live or have ended */
  size_t mapped;    /* bytes that may be touched */
};

/* One for all children. */
static struct {
  struct holding clean;                 /* of the child to which nothing was refused */
  size_t calls, calls_of[HD_FAULT_KIND_COUNT];
} *shared;

static uint64_t seed, page_bytes;
static bool whole;
static unsigned trials, failures, failures_max = 20;

/* ---- the rules ------------------------------------------------------------------------------------------------------------- */

bool work_judge(bool granted, const char *call, int line) {
  if (granted) {
    if (errno != 0) ts_fail("workload", line, call, "success changes errno to %d", errno);
    return true;
  }
  if (errno != ENOMEM) ts_fail("workload", line, call, "failure with errno %d", errno);
  if (!hdi_fault_ever()) ts_fail("workload", line, call, "NULL, though the system refused nothing");
  work_refused = true;
  return false;
}

/* Every place that a mark is written to: the start, the end, and some system pages between. */
static size_t next_place(size_t bytes, size_t at) {
  size_t step = bytes / 12 / 4096 * 4096 + 4096;
  return at + step + 8 <= bytes ? at + step : at + 16 <= bytes ? bytes - 8 : bytes;
}

void block_fill(struct block *block, uint64_t mark) {
  block->mark = mark;
  for (size_t at = 0; at + 8 <= block->bytes; at = next_place(block->bytes, at)) memcpy(block->p + at, &mark, 8);
}

void block_check(const struct block *block) {
  for (size_t at = 0; at + 8 <= block->bytes; at = next_place(block->bytes, at)) {
    TS_CHECK(memcmp(block->p + at, &block->mark, 8) == 0, "byte %zu of %zu at %p is lost", at, block->bytes, (void *)block->p);
  }
}

void block_check_zero(const uint8_t *p, size_t bytes) {
  uint64_t zero = 0;
  for (size_t at = 0; at + 8 <= bytes; at = next_place(bytes, at)) {
    TS_CHECK(memcmp(p + at, &zero, 8) == 0, "byte %zu of %zu is not 0", at, bytes);
  }
}

/* ---- one trial ------------------------------------------------------------------------------------------------------------- */

static struct holding look(void) {
  hd_collect(0);
  hdi_hardened_run_yield(); /* what is left of the reserve of guarded runs would count as in use: more or less of it each time */
  hd_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_stats_get(&stats), "statistics");
  TS_CHECK(stats.live_count == 0 && stats.object_count == 0, "%zu blocks and %zu objects are left", stats.live_count, stats.object_count);
  TS_CHECK(stats.cached == 0, "%zu bytes are not given back", stats.cached);
  hd_fault_ledger ledger = hdi_fault_ledger_get();
  return (struct holding){ledger.range_count, hdi_store_used(), hdi_space.top - hdi_space.free_units, stats.heap_count + stats.orphan_count,
                          ledger.open_bytes};
}

/* What is bounded: which pages classes keep, and how many heaps threads had at once, differs a little with what was refused. */
static void check_bounds(const struct work *work, const struct holding *now) {
  bool threads = work->run == work_threads || work->run == work_fork;
  const struct holding *clean = &shared->clean;
  size_t units = threads ? 300 : 64, store = threads ? 8 * 48000 : 32 * 1024;
  /* Pools reserve a gigabyte each; during a fork all runs come from the top. */
  size_t mapped = work->run == work_objects ? (size_t)8 << 30 : work->run == work_fork ? (size_t)64 << 30 : (size_t)128 << 20;
  size_t ranges = clean->ranges + (hdi_space.open ? 0 : 3); /* where claims were refused at the start: its window, table and store */
  if (threads) ranges++;                                     /* the helper's stack: it starts once the space has a certain size */
  TS_CHECK(now->ranges <= ranges, "%zu reserved ranges, not %zu", now->ranges, ranges);
  TS_CHECK(now->heaps <= clean->heaps + (threads ? 8 : 0), "%zu heaps, not %zu", now->heaps, clean->heaps);
  TS_CHECK(now->store <= clean->store + store, "%zu bytes of the store, not %zu", now->store, clean->store);
  TS_CHECK(now->units <= clean->units + units, "%zu units, not %zu", now->units, clean->units);
  TS_CHECK(now->mapped <= clean->mapped + mapped, "%zu bytes mapped, not %zu", now->mapped, clean->mapped);
}

/* What has grown each time so far is lost. Which pages a class keeps and how many heaps threads had at once differs by turns, so what grows
 * with threads is looked at for longer. */
static bool grows(const struct holding *of, unsigned rounds) {
  bool ranges = true, heaps = true, store = true, units = true;
  for (unsigned i = 2; i < rounds; i++) {
    ranges &= of[i - 1].ranges < of[i].ranges;
    heaps &= of[i - 1].heaps < of[i].heaps;
    store &= of[i - 1].store < of[i].store;
    units &= of[i - 1].units < of[i].units;
  }
  return ranges || heaps || store || units;
}

static void check_growth(const struct holding *of, unsigned rounds) {
  const struct holding *from = of + 1, *to = of + rounds - 1;
  TS_CHECK(!grows(of, rounds), "each time more: %zu reserved ranges, then %zu; %zu heaps, then %zu; %zu bytes of the store, then %zu; "
           "%zu units, then %zu", from->ranges, to->ranges, from->heaps, to->heaps, from->store, to->store, from->units, to->units);
}

static void note_calls(void) {
  shared->calls = hdi_fault_calls();
  for (unsigned kind = 0; kind < HD_FAULT_KIND_COUNT; kind++) shared->calls_of[kind] = hdi_fault_calls_of(kind);
}

static struct holding run_round(const struct work *work, const hd_fault_plan *plan) {
  hdi_fault_set(plan);
  work->run(seed);
  if (shared->calls == 0) note_calls(); /* the first of all, to which nothing is refused */
  hdi_fault_clear();
  work_refused = false;
  work_all_granted = true;
  work->run(seed);
  work_all_granted = false;
  TS_CHECK(!work_refused, "the system gives again, and something is refused");
  return look();
}

static void run_trial(const struct work *work, const hd_fault_plan *plan) {
  struct holding of[ROUNDS_MAX];
  unsigned rounds = 0;
  alarm(LIMIT_S);
  hdi_fault_pages(page_bytes);
  do {
    of[rounds] = run_round(work, plan);
    if (rounds == 0 && plan->mode == HD_FAULT_OFF) shared->clean = of[0];
    check_bounds(work, of + rounds++);
  } while (rounds < ROUNDS || (rounds < ROUNDS_MAX && grows(of, rounds)));
  check_growth(of, rounds);
}

/* ---- all trials ------------------------------------------------------------------------------------------------------------ */

static struct { pid_t pid; char replay[sizeof ts_replay]; } running[JOBS];

static void await_one(void) {
  int status = 0, job = 0;
  pid_t pid = wait(&status);
  while (job < JOBS && running[job].pid != pid) job++;
  if (pid <= 0 || job == JOBS) return;
  running[job].pid = 0;
  if (status == 0) return;
  failures++;
  if (WIFSIGNALED(status)) {
    const char *what = WTERMSIG(status) == SIGALRM ? "it hangs" : strsignal(WTERMSIG(status));
    ts_print(2, "FAIL %s\nreplay: %s\n", what, running[job].replay);
  }
}

static void await_all(void) {
  for (int job = 0; job < JOBS; job++) {
    while (running[job].pid != 0) await_one();
  }
}

static void start_trial(const struct work *work, hd_fault_plan plan) {
  int job = 0;
  if (failures >= failures_max) return;
  while (job < JOBS && running[job].pid != 0) job++;
  if (job == JOBS) {
    await_one();
    start_trial(work, plan);
    return;
  }
  plan.most_bytes = work->most_bytes;
  snprintf(running[job].replay, sizeof running[job].replay, "faults -w %s -m %s -n %zu -k %s -s %llu --page %llu", work->name,
           mode_names[plan.mode], plan.n, hdi_fault_kind_name(plan.kind), (unsigned long long)seed, (unsigned long long)page_bytes);
  trials++;
  running[job].pid = fork();
  TS_CHECK(running[job].pid >= 0, "fork: %d", errno);
  if (running[job].pid != 0) return;
  strcpy(ts_replay, running[job].replay);
  run_trial(work, &plan);
  _exit(0);
}

/* Every number up to a bound, then some, up to most. */
static size_t next_number(size_t n, size_t most) {
  if (whole || n < DENSE || most <= DENSE) return n + 1;
  size_t step = (most - DENSE) / SPARSE + 1;
  return n + 1 + (n + seed) % step;
}

static void try_numbers(const struct work *work, hd_fault_mode mode, hd_fault_kind kind, size_t most) {
  for (size_t n = 1; n <= most; n = next_number(n, most)) start_trial(work, (hd_fault_plan){.mode = mode, .kind = kind, .n = n});
}

static void try_mode(const struct work *work, hd_fault_mode mode) {
  if (mode < HD_FAULT_KIND_ONCE) {
    try_numbers(work, mode, 0, mode == HD_FAULT_EVERY ? shared->calls / 2 : shared->calls);
    return;
  }
  for (unsigned kind = 0; kind < HD_FAULT_KIND_COUNT; kind++) try_numbers(work, mode, kind, shared->calls_of[kind]);
}

static void try_work(const struct work *work, unsigned mode) {
  unsigned before = trials;
  shared->calls = 0;
  start_trial(work, (hd_fault_plan){.mode = HD_FAULT_OFF});
  await_all();
  if (failures > 0) return;
  for (unsigned m = HD_FAULT_ONCE; m <= HD_FAULT_KIND_TWICE; m++) {
    if (mode == 0 || m == mode) try_mode(work, m);
  }
  await_all();
  ts_print(1, "%-8s %5zu calls, %5u trials\n", work->name, shared->calls, trials - before);
}

static unsigned find(const char *const *names, unsigned count, const char *name) {
  for (unsigned i = 0; i < count; i++) {
    if (strcmp(names[i], name) == 0) return i;
  }
  ts_fail(__FILE__, __LINE__, name, "no such name");
}

static void list(void) {
  for (size_t i = 0; i < work_count; i++) {
    shared->calls = 0;
    start_trial(works + i, (hd_fault_plan){.mode = HD_FAULT_OFF});
    await_all();
    ts_print(1, "%s: %zu calls, holds %zu ranges, %zu bytes of the store, %zu units, %zu heaps, %zu bytes mapped\n ", works[i].name,
             shared->calls, shared->clean.ranges, shared->clean.store, shared->clean.units, shared->clean.heaps, shared->clean.mapped);
    for (unsigned kind = 0; kind < HD_FAULT_KIND_COUNT; kind++) ts_print(1, " %s %zu", hdi_fault_kind_name(kind), shared->calls_of[kind]);
    ts_print(1, "\n");
  }
}

int main(int argc, char **argv) {
  const char *only = ts_option_text(argc, argv, "-w"), *mode_name = ts_option_text(argc, argv, "-m");
  const char *kind_name = ts_option_text(argc, argv, "-k");
  size_t n = ts_option(argc, argv, "-n", 0);
  seed = ts_option(argc, argv, "-s", 0);
  if (seed == 0) seed = ts_seed();
  page_bytes = ts_option(argc, argv, "--page", 0);
  whole = ts_flag(argc, argv, "--long");
  if (ts_flag(argc, argv, "--first")) failures_max = 1;
  shared = mmap(NULL, sizeof *shared, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
  TS_CHECK(shared != MAP_FAILED, "mmap");
  if (ts_flag(argc, argv, "--list")) {
    list();
    return failures > 0;
  }
  unsigned mode = mode_name == NULL ? 0 : find(mode_names, sizeof mode_names / sizeof *mode_names, mode_name), kind = 0;
  while (kind_name != NULL && strcmp(hdi_fault_kind_name(kind), kind_name) != 0) {
    TS_CHECK(++kind < HD_FAULT_KIND_COUNT, "no kind %s", kind_name);
  }
  for (size_t i = 0; i < work_count; i++) {
    if (only != NULL && strcmp(works[i].name, only) != 0) continue;
    if (n == 0) {
      try_work(works + i, mode);
      continue;
    }
    start_trial(works + i, (hd_fault_plan){.mode = HD_FAULT_OFF});
    await_all();
    start_trial(works + i, (hd_fault_plan){.mode = mode, .kind = kind, .n = n});
    await_all();
  }
  TS_CHECK(trials > 0, "no such workload");
  ts_print(1, "%u trials, %u failures\n", trials, failures);
  return failures > 0;
}
