/* The run allocator against an oracle: a fixed space in memory of ours, and a byte per unit that says who has it.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/options.h"
#include "core/space.h"
#include "core/space_fixed.h"
#include "core/space_grow.h"
#include "heddle.h"
#include "os/linux_memory.h"

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

static size_t next_free(size_t from) {
  while (from < RUNS && runs[from].first) from++;
  return from;
}

static bool has_free_run(size_t units) {
  size_t top = atomic_load(&space.top);
  for (size_t at = 0, free_units = 0; at < top; at++) {
    free_units = used[at] ? 0 : free_units + 1;
    if (free_units == units) return true;
  }
  return false;
}

/* As many of one length as are wanted, or all there are. */
static void take_several(void) {
  size_t units = 1 + ts_below(&rng, 4), most = 1 + ts_below(&rng, 8), count = 0, slots = 0;
  for (size_t run = next_free(0); run < RUNS && slots < most; run = next_free(run + 1)) slots++;
  if (slots < most) return;
  size_t run = next_free(0);
  for (hd_unit *first = hdi_space_take_runs(&space, units, most), *next; first; first = next, count++) {
    next = first->next;
    assert_int_equal(first->run_units, units);
    mark(first, units, 0, name_of(run));
    runs[run] = (struct run){first, units};
    uint8_t *address = hdi_space_address(&space, first);
    for (size_t at = 0; at < units * HD_UNIT_BYTES; at += 512) address[at] = (uint8_t)name_of(run);
    used_units += units;
    run = next_free(run);
  }
  assert_true(count <= most);
  if (count < most) assert_false(has_free_run(units));
}

/* Of any lengths. */
static void give_several(void) {
  hd_unit *list = NULL;
  for (size_t i = 0, run = ts_below(&rng, RUNS); i < 6; i++, run = (run + 1) % RUNS) {
    if (!runs[run].first) continue;
    check_content(run);
    mark(runs[run].first, runs[run].units, name_of(run), 0);
    runs[run].first->next = list;
    list = runs[run].first;
    assert_int_equal(list->run_units, runs[run].units);
    used_units -= runs[run].units;
    runs[run].first = NULL;
  }
  if (list) hdi_space_give_runs(&space, list);
}

static void test_against_oracle(void **state) {
  (void)state;
  for (int step = 0; step < 60000; step++) {
    size_t run = ts_below(&rng, RUNS);
    if (ts_below(&rng, 16) == 0) take_several();
    else if (ts_below(&rng, 16) == 0) give_several();
    else if (!runs[run].first) take(run);
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
  assert_false(hdi_space_init_fixed(&small, memory, 1000, 2000)); /* not even what stands in front of the table */
  /* One unit's length behind the start of the table, but none that begins at a multiple of it behind its end. */
  assert_false(hdi_space_init_fixed(&small, memory + HD_UNIT_BYTES - 64, HD_UNIT_BYTES, 0));
}

/* Memory of a caller's reads as anything, whoever calls it clean. */
static void test_never_zeroed(void **state) {
  (void)state;
  bool zeroed = true;
  hd_unit *first = hdi_space_take(&space, 3, 1, &zeroed);
  assert_non_null(first);
  assert_false(zeroed);
  hdi_space_give(&space, first, 3, false);
  zeroed = true;
  assert_ptr_equal(hdi_space_take(&space, 3, 1, &zeroed), first);
  assert_false(zeroed);
  hdi_space_give(&space, first, 3, true);
}

/* It has all its memory from the start. */
static void test_passes_nothing_by(void **state) {
  (void)state;
  assert_false(hdi_space_pass(&space, 1));
}

static void seek_nowhere(void *unit) { hdi_space_of(unit); }

/* Which space a unit is in, wherever in the address space that lies. */
static void test_space_of_a_unit(void **state) {
  enum { BYTES = 1 << 20 };
  static hd_unit nowhere;
  static hd_space low;
  struct ts_outcome outcome;
  (void)state;
  assert_ptr_equal(hdi_space_of(space.units), &space);
  assert_ptr_equal(hdi_space_of(space.units + space.unit_count - 1), &space);
  assert_ptr_equal(hdi_space_of(hdi_space.units), &hdi_space);
  void *at = MAP_FAILED;
  for (uintptr_t place = 256 * HD_MIB; at == MAP_FAILED && place < 1024 * HD_MIB; place += 16 * HD_MIB) {
    at = mmap((void *)place, BYTES, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
  }
  assert_ptr_not_equal(at, MAP_FAILED);
  assert_true(hdi_space_init_fixed(&low, at, BYTES, 0));
  assert_true(hdi_space_publish(&low));
  assert_ptr_equal(hdi_space_of(low.units + low.unit_count - 1), &low);
  assert_ptr_equal(hdi_space_of(space.units), &space);
  hdi_space_retract(&low);
  munmap(at, BYTES);
  ts_fork_run(seek_nowhere, &nowhere, 20, &outcome);
  assert_true(ts_signalled(&outcome, SIGABRT));
  assert_non_null(strstr(outcome.error, "a unit outside every space"));
}

/* What another thread does while this one forks. */
static void *in_fork(void *(*work)(void *), void *argument) {
  pthread_t thread;
  void *result = NULL;
  hdi_lock_fork_begin();
  hdi_space_fork(HD_FORK_PREPARE);
  bool started = pthread_create(&thread, NULL, work, argument) == 0;
  if (started) pthread_join(thread, &result);
  hdi_space_fork(HD_FORK_PARENT);
  hdi_lock_fork_end();
  assert_true(started);
  return result;
}

/* While a fork holds the lock: runs from the top, aligned ones too; what lies in the bins can wait. */
static void *take_during_fork(void *unused) {
  bool zeroed = false;
  (void)unused;
  hd_unit *aligned = hdi_space_take(&hdi_space, 3, 64, &zeroed);
  bool right = aligned != NULL && (uintptr_t)hdi_space_address(&hdi_space, aligned) % (64 * HD_UNIT_BYTES) == 0;
  right = right && hdi_space_take_piece(4, 8, 1) == NULL && hdi_space_take_clean(&hdi_space, 2, 1) == NULL;
  right = right && !hdi_space_extend(&hdi_space, aligned, 3, 1, &zeroed);
  if (aligned != NULL) hdi_space_give(&hdi_space, aligned, 3, true);
  return right ? aligned : NULL;
}

static void test_aligned_during_fork(void **state) {
  (void)state;
  hd_free(hd_malloc(10 * HD_UNIT_BYTES)); /* so that the top is at no multiple, sooner or later */
  for (int round = 0; round < 3; round++) assert_non_null(in_fork(take_during_fork, NULL));
}

/* A program that goes on while it forks lives on what it has given back: no new addresses, clean runs stay clean, old dirty ones old. */
enum { TAKEN = 24 };
static struct { hd_unit *run[TAKEN]; uint32_t units[TAKEN]; bool zeroed[TAKEN]; } held;

static void *take_many_during_fork(void *count) {
  for (size_t i = 0; i < *(size_t *)count; i++) {
    held.units[i] = 1 + (uint32_t)(i * 7 % 5);
    held.run[i] = hdi_space_take(&hdi_space, held.units[i], 1, &held.zeroed[i]);
  }
  return NULL;
}

static void give_held(size_t count) {
  for (size_t i = 0; i < count; i++) {
    uint8_t *p = hdi_space_address(&hdi_space, held.run[i]);
    if (held.zeroed[i]) assert_true(p[0] == 0 && memcmp(p, p + 1, ((size_t)held.units[i] << HD_UNIT_SHIFT) - 1) == 0);
    memset(p, 0xa5, (size_t)held.units[i] << HD_UNIT_SHIFT);
    hdi_space_give(&hdi_space, held.run[i], held.units[i], true);
  }
}

static void test_no_new_addresses_at_forks(void **state) {
  (void)state;
  bool zeroed = false;
  hd_unit *room = hdi_space_take(&hdi_space, 3 * TAKEN, 1, &zeroed);
  assert_non_null(room);
  hdi_space_give(&hdi_space, room, 3 * TAKEN, true);
  size_t top = hd_load_relaxed(&hdi_space.top), dirty = hd_load_relaxed(&hdi_space.dirty.units);
  for (size_t round = 0, count = TAKEN; round < 60; round++, count = 1 + round * 5 % TAKEN) {
    if (round == 30) hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
    in_fork(take_many_during_fork, &count);
    for (size_t i = 0; i < count; i++) {
      assert_non_null(held.run[i]);
      for (size_t other = 0; other < i; other++) {
        bool below = held.run[i] + held.units[i] <= held.run[other], above = held.run[i] >= held.run[other] + held.units[other];
        assert_true(below || above);
      }
    }
    assert_int_equal(hd_load_relaxed(&hdi_space.aside), 0);
    give_held(count);
  }
  assert_int_equal(hd_load_relaxed(&hdi_space.top), top);
  assert_true(hd_load_relaxed(&hdi_space.dirty.units) <= dirty + 3 * TAKEN);
  /* Nobody takes anything: what was put aside is as old as before. */
  size_t none = 0;
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
  room = hdi_space_take(&hdi_space, 600, 1, &zeroed);
  assert_non_null(room);
  uint32_t then = hdi_space_tick();
  hdi_space_give(&hdi_space, room, 600, true);
  usleep(8 * HD_TICK_MS * 1000);
  in_fork(take_many_during_fork, &none);
  assert_true(hdi_space_purge(&hdi_space, then + 1, SIZE_MAX) >= 600);
}

/* A longer run than there is: the longest is put aside. Under a limit none is. */
static void test_what_is_put_aside(void **state) {
  (void)state;
  size_t count = TAKEN;
  for (int round = 0; round < 4; round++) {
    in_fork(take_many_during_fork, &count);
    give_held(count);
  }
  hdi_lock_fork_begin();
  hdi_space_fork(HD_FORK_PREPARE);
  assert_true((hd_load_relaxed(&hdi_space.aside) & UINT32_MAX) >> 1 >= 64);
  hdi_space_fork(HD_FORK_PREPARE); /* in a signal handler: nothing is moved */
  hdi_space_fork(HD_FORK_PARENT);
  assert_true(hd_load_relaxed(&hdi_space.aside) != 0);
  hdi_space_fork(HD_FORK_CHILD);
  assert_true(hd_load_relaxed(&hdi_space.aside) == 0);
  hdi_options.limit = (int64_t)64 * HD_GIB;
  hdi_space_fork(HD_FORK_PREPARE);
  assert_true(hd_load_relaxed(&hdi_space.aside) == 0);
  hdi_space_fork(HD_FORK_PARENT);
  hdi_options.limit = 0;
  hdi_lock_fork_end();
}

/* Nobody waits for the lock to give dirty memory; whoever takes next finds it. */
static void *give_two_ways(void *three) {
  hd_unit **run = three;
  run[0]->next = run[1];
  run[1]->next = NULL;
  hdi_space_give_runs(&hdi_space, run[0]);
  hdi_space_give(&hdi_space, run[2], 3, true);
  return NULL;
}

static void test_nobody_waits_to_give(void **state) {
  (void)state;
  struct timespec soon;
  pthread_t thread;
  hd_unit *run[3];
  bool zeroed = false;
  for (int i = 0; i < 3; i++) assert_non_null(run[i] = hdi_space_take(&hdi_space, 3, 1, &zeroed));
  size_t free_units = hd_load_relaxed(&hdi_space.free_units);
  assert_true(hdi_lock_try(&hdi_space.lock));
  assert_int_equal(pthread_create(&thread, NULL, give_two_ways, run), 0);
  clock_gettime(CLOCK_REALTIME, &soon);
  soon.tv_sec += 20;
  assert_int_equal(pthread_timedjoin_np(thread, NULL, &soon), 0);
  assert_int_equal(hd_load_relaxed(&hdi_space.free_units), free_units);
  hdi_lock_drop(&hdi_space.lock);
  hd_unit *more = hdi_space_take_runs(&hdi_space, 3, 3);
  assert_true(more && more->next && more->next->next);
  assert_null(hd_load_relaxed(&hdi_space.deferred));
  assert_true(hd_load_relaxed(&hdi_space.free_units) <= free_units);
  hdi_space_give_runs(&hdi_space, more);
  assert_int_equal(hd_load_relaxed(&hdi_space.free_units), free_units + 9);
}

/* While a fork holds the lock there are none at once, and what is given waits. */
static void *several_during_fork(void *run) {
  bool none = hdi_space_take_runs(&hdi_space, 1, 4) == NULL;
  hdi_space_give_runs(&hdi_space, run);
  return none ? run : NULL;
}

static void test_several_during_fork(void **state) {
  (void)state;
  bool zeroed = false;
  hd_unit *run = hdi_space_take(&hdi_space, 8, 1, &zeroed);
  assert_non_null(run);
  hdi_space_give(&hdi_space, run, 8, true);
  run = hdi_space_take_runs(&hdi_space, 2, 4);
  assert_non_null(run);
  size_t free_units = hd_load_relaxed(&hdi_space.free_units);
  assert_ptr_equal(in_fork(several_during_fork, run), run);
  hdi_space_give(&hdi_space, hdi_space_take(&hdi_space, 1, 1, &zeroed), 1, true); /* takes in what waits */
  assert_int_equal(hd_load_relaxed(&hdi_space.free_units), free_units + 8);
}

/* No more than the limit leaves room for, not even if less would do. */
static void test_several_under_a_limit(void **state) {
  (void)state;
  bool zeroed = false;
  hd_unit *run = hdi_space_take(&hdi_space, 8, 1, &zeroed);
  assert_non_null(run);
  hdi_space_give(&hdi_space, run, 8, true);
  size_t live = hd_load_relaxed(&hdi_space.top) - hd_load_relaxed(&hdi_space.free_units) - hd_load_relaxed(&hdi_space.passed_units);
  hdi_options.limit = (int64_t)(live + 4) << HD_UNIT_SHIFT;
  assert_null(hdi_space_take_runs(&hdi_space, 1, 5));
  run = hdi_space_take_runs(&hdi_space, 1, 4);
  hdi_options.limit = 0;
  assert_non_null(run);
  hdi_space_give_runs(&hdi_space, run);
}

int main(void) {
  rng.state = ts_seed();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_against_oracle),
      cmocka_unit_test(test_merges_back),
      cmocka_unit_test(test_never_zeroed),
      cmocka_unit_test(test_passes_nothing_by),
      cmocka_unit_test(test_space_of_a_unit),
      cmocka_unit_test(test_nobody_waits_to_give),
      cmocka_unit_test(test_several_during_fork),
      cmocka_unit_test(test_several_under_a_limit),
      cmocka_unit_test(test_aligned_during_fork),
      cmocka_unit_test(test_no_new_addresses_at_forks),
      cmocka_unit_test(test_what_is_put_aside),
      cmocka_unit_test(test_too_small),
  };
  return cmocka_run_group_tests_name("space", tests, set_up, tear_down);
}
