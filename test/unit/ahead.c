/* Where there are several threads a heap's pages lie side by side: they come from what it has ahead.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/heap.h"
#include "core/lock.h"
#include "core/options.h"
#include "core/space.h"
#include "core/space_grow.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "huge_pages.h"
#include "huge_quick.h"
#include "pages.h"
#include "worker.h"

enum {
  LEAST = 4, MOST = 32,    /* units that a heap takes ahead */
  LONG_BYTES = 16 * 1024,  /* a page of four units holds 16 of these, */
  LONG_UNITS = 4,
  SHORT_BYTES = 2048,      /* and one of one unit 32 of these */
  PAGES = 24,
  ALONE_PAGES = 3
};

/* A thread that takes pages, a block after the other until it has so many more. */
typedef struct taker {
  worker worker;
  size_t bytes, pages;
  hd_unit *page[PAGES * HD_HUGE_UNITS];
  size_t count;
} taker;

static taker one, other;

/* Ends the process: cmocka would go on with the next test, in the child. */
#define NEED(condition) TS_CHECK(condition, "one has %u units ahead", one.worker.heap == NULL ? 0 : one.worker.heap->ahead.units)

static bool has(const taker *taker, const hd_unit *page) {
  size_t i = taker->count;
  while (i > 0 && taker->page[i - 1] != page) i--;
  return i > 0;
}

static void take_pages(worker *self) {
  taker *taker = (struct taker *)self;
  only_pages();
  for (size_t end = taker->count + taker->pages; taker->count < end;) {
    void *p = hd_malloc(taker->bytes);
    if (p == NULL || taker->count == sizeof taker->page / sizeof *taker->page) return;
    memset(p, 1, taker->bytes);
    hd_unit *page = hdi_space_entry(p)->head;
    if (!has(taker, page)) taker->page[taker->count++] = page;
  }
}

/* Leaves the taker with a page of which one block is taken. */
static void take(taker *taker, size_t bytes, size_t pages) {
  taker->bytes = bytes;
  taker->pages = pages;
  worker_do(&taker->worker, take_pages);
}

static void rest(worker *self) {
  (void)self;
  hd_thread_idle();
}

static void *block_of_many_units(size_t units) {
  void *p = hd_malloc(units * HD_UNIT_BYTES);
  NEED(p != NULL);
  return p;
}

/* Free memory that was in use, behind memory that is: nothing joins it to other runs. */
static void leave_dirty(size_t units) {
  void *p = block_of_many_units(units);
  block_of_many_units(1);
  memset(p, 1, units * HD_UNIT_BYTES);
  hd_free(p);
  hdi_heap_drop_runs(hdi_heap_mine());
  NEED(hdi_space_has_dirty(&hdi_space, units));
}

/* Each test in a process of its own, with the threads that it starts: what is ahead of a heap depends on all that was before. */
static void in_child(void (*test)(void *)) {
  struct ts_outcome outcome;
  ts_fork_run(test, NULL, 20, &outcome);
  if (!ts_exited(&outcome, 0)) fail_msg("%s", outcome.error);
}

static void start_two(void) {
  NEED(worker_start(&one.worker) == 0);
  NEED(worker_start(&other.worker) == 0);
}

/* Pages that lie right behind the one before. */
static size_t side_by_side(const taker *taker, size_t units) {
  size_t count = 0;
  for (size_t i = 1; i < taker->count; i++) count += taker->page[i] == taker->page[i - 1] + units;
  return count;
}

static void longer_pages(void *unused) {
  (void)unused;
  start_two();
  for (size_t i = 0; i < PAGES; i++) {
    take(&one, LONG_BYTES, 1);
    take(&other, LONG_BYTES, 1);
  }
  NEED(side_by_side(&one, LONG_UNITS) >= PAGES - PAGES * LONG_UNITS / MOST);
  NEED(side_by_side(&other, LONG_UNITS) >= PAGES - PAGES * LONG_UNITS / MOST);
}

/* A heap with few pages takes few ahead: as many as it has. */
static void short_pages(void *unused) {
  (void)unused;
  start_two();
  take(&other, SHORT_BYTES, 1);
  for (size_t had = 0, ahead = 0; had < 2 * MOST; had++) {
    if (ahead == 0) ahead = hd_max(LEAST, hd_min(had, MOST));
    take(&one, SHORT_BYTES, 1);
    NEED(one.worker.heap->ahead.units == --ahead);
  }
}

/* A thread that is alone takes nothing ahead, nor does an explicit heap. */
static void alone(void *unused) {
  (void)unused;
  NEED(worker_start(&one.worker) == 0);
  take(&one, LONG_BYTES, ALONE_PAGES);
  NEED(one.worker.heap->ahead.units == 0);
  NEED(side_by_side(&one, LONG_UNITS) == ALONE_PAGES - 1);
}

static void explicit_heap(void *unused) {
  (void)unused;
  start_two();
  hd_heap *heap = hd_heap_create(NULL);
  size_t used = hdi_space_used(&hdi_space);
  NEED(heap != NULL && hd_heap_malloc(heap, LONG_BYTES) != NULL);
  NEED(hdi_space_used(&hdi_space) == used + LONG_UNITS);
}

/* What counts against a limit is what was asked for. */
static void limited(void *unused) {
  (void)unused;
  start_two();
  hd_store_owned(&hdi_options.limit, (size_t)1 << 30);
  take(&one, LONG_BYTES, 1);
  NEED(one.worker.heap->ahead.units == 0);
}

/* A heap that rests has nothing ahead. */
static void rests(void *unused) {
  (void)unused;
  start_two();
  take(&one, LONG_BYTES, 1);
  size_t used = hdi_space_used(&hdi_space);
  NEED(one.worker.heap->ahead.units == MOST - LONG_UNITS);
  worker_do(&one.worker, rest);
  NEED(one.worker.heap->ahead.units == 0);
  NEED(hdi_space_used(&hdi_space) <= used - (MOST - LONG_UNITS));
}

/* Memory that was in use comes first. */
static void dirty_first(void *unused) {
  (void)unused;
  start_two();
  take(&one, LONG_BYTES, 1);
  leave_dirty(2 * LONG_UNITS);
  size_t ahead = one.worker.heap->ahead.units;
  take(&one, LONG_BYTES, 2);
  NEED(one.worker.heap->ahead.units == ahead);
  NEED(!one.page[1]->zeroed && !one.page[2]->zeroed);
  take(&one, LONG_BYTES, 1);
  NEED(one.worker.heap->ahead.units == ahead - LONG_UNITS && one.page[3]->zeroed);
}

/* Also what somebody gave while others had the space's lock. */
static void deferred_first(void *unused) {
  (void)unused;
  bool zeroed = false;
  start_two();
  take(&one, LONG_BYTES, 1);
  hd_unit *run = hdi_space_take(&hdi_space, LONG_UNITS, 1, &zeroed);
  hdi_space_defer(&hdi_space, run, LONG_UNITS, hdi_space_tick());
  take(&one, LONG_BYTES, 1);
  NEED(one.page[1] == run);
}

/* A run behind which somebody has another: once it is given back nothing joins it to what comes behind it. */
static hd_unit *take_apart(size_t units) {
  bool zeroed = false;
  hd_unit *run = hdi_space_take(&hdi_space, units, 1, &zeroed);
  NEED(run != NULL && hdi_space_take(&hdi_space, 1, 1, &zeroed) != NULL);
  return run;
}

/* Of memory that was given back, and is too short for what is taken at once, there is what there is, where nothing is longer. */
static void short_runs(void *unused) {
  (void)unused;
  start_two();
  hd_unit *little = take_apart(2 * LONG_UNITS + 1), *much = take_apart(MOST);
  hdi_space_give(&hdi_space, little, 2 * LONG_UNITS + 1, false);
  hdi_space_give(&hdi_space, much, MOST, false);
  take(&one, LONG_BYTES, 1);
  NEED(one.page[0] == much && one.worker.heap->ahead.units == MOST - LONG_UNITS);
  take(&other, LONG_BYTES, 2);
  NEED(other.page[0] == little && other.page[1] == little + LONG_UNITS);
  NEED(other.worker.heap->ahead.units == 1);
}

/* What is too little for a page goes on where it ends, or back. */
static void too_little(void *unused) {
  (void)unused;
  start_two();
  take(&one, LONG_BYTES, 1);
  take(&one, SHORT_BYTES, 1);
  NEED(one.worker.heap->ahead.units == MOST - LONG_UNITS - 1);
  take(&one, LONG_BYTES, MOST / LONG_UNITS - 2);
  NEED(one.worker.heap->ahead.units == LONG_UNITS - 1);
  take(&one, LONG_BYTES, 1); /* nobody else has taken anything */
  NEED(one.page[one.count - 1] == one.page[one.count - 2] + LONG_UNITS);
  NEED(one.worker.heap->ahead.units == MOST - 1);
  take(&one, LONG_BYTES, MOST / LONG_UNITS - 1);
  NEED(one.worker.heap->ahead.units == LONG_UNITS - 1);
  take(&other, LONG_BYTES, 1);
  size_t used = hdi_space_used(&hdi_space);
  take(&one, LONG_BYTES, 1);
  NEED(one.worker.heap->ahead.units == MOST - LONG_UNITS);
  NEED(hdi_space_used(&hdi_space) == used + MOST - (LONG_UNITS - 1));
}

/* Memory that was given back to the system, and is taken again. */
static void clean_again(void *unused) {
  (void)unused;
  void *first = block_of_many_units(2 * MOST);
  block_of_many_units(1);
  hd_free(first);
  hdi_heap_drop_runs(hdi_heap_mine());
  start_two();
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
  for (size_t i = 0; i < MOST / LONG_UNITS; i++) {
    take(&one, LONG_BYTES, 1);
    take(&other, LONG_BYTES, 1);
  }
  NEED(side_by_side(&one, LONG_UNITS) == MOST / LONG_UNITS - 1);
  NEED((uint8_t *)first + 2 * MOST * HD_UNIT_BYTES > hdi_space_address(&hdi_space, other.page[0]));
}

/* Of a free run more may be had than what is taken ahead, and so huge pages may be asked for. */
static void ends(void *unused) {
  (void)unused;
  hd_ahead ahead = {NULL, 0, 0};
  bool zeroed = false;
  start_two();
  hd_unit *first = take_apart(2 * MOST);
  hdi_space_give(&hdi_space, first, 2 * MOST, false);
  NEED(hdi_space_take_page(&hdi_space, LONG_UNITS, &ahead, MOST, &zeroed) == first && zeroed);
  NEED(ahead.units == MOST - LONG_UNITS && ahead.first == first + LONG_UNITS);
  NEED(hdi_space.units + ahead.end == first + 2 * MOST);
  hdi_space_give_ahead(&hdi_space, &ahead);
  first = hdi_space_take(&hdi_space, 2 * MOST - LONG_UNITS, 1, &zeroed);
  NEED(hdi_space_take_page(&hdi_space, LONG_UNITS, &ahead, MOST, &zeroed) > first && zeroed);
  NEED(ahead.end == hdi_space.committed);
}

/* While a fork has the lock there is still what a heap has ahead. */
static void during_fork(void *unused) {
  (void)unused;
  start_two();
  take(&one, LONG_BYTES, 1);
  hdi_lock_fork_begin();
  hdi_space_fork(HD_FORK_PREPARE);
  take(&one, LONG_BYTES, MOST / LONG_UNITS - 1);
  NEED(side_by_side(&one, LONG_UNITS) == MOST / LONG_UNITS - 1);
  take(&one, LONG_BYTES, 1);
  NEED(one.count == MOST / LONG_UNITS + 1 && one.worker.heap->ahead.units == 0);
  hdi_space_fork(HD_FORK_PARENT);
  hdi_lock_fork_end();
}

/* Blocks of 2 MiB that a heap comes to by a page that it had ahead. */
static void huge_pages(void *unused) {
  (void)unused;
  enum { FIRST = 12, LAST = 20, MIB_UNITS = 16 };
  start_two();
  while (hdi_space.top < LAST * MIB_UNITS) {
    take(&one, SHORT_BYTES, 1);
    take(&other, SHORT_BYTES, 1);
  }
  size_t huge = 0;
  for (size_t mib = FIRST; mib < LAST; mib += 2) huge += hdi_space_is_huge(hdi_space.base + ((mib * MIB_UNITS + 1) << HD_UNIT_SHIFT));
  NEED(huge >= (LAST - FIRST) / 2 - 1);
}

#define IN_CHILD(name) \
  static void test_##name(void **state) { \
    (void)state; \
    in_child(name); \
  }

IN_CHILD(longer_pages)
IN_CHILD(short_pages)
IN_CHILD(alone)
IN_CHILD(explicit_heap)
IN_CHILD(limited)
IN_CHILD(rests)
IN_CHILD(dirty_first)
IN_CHILD(deferred_first)
IN_CHILD(short_runs)
IN_CHILD(too_little)
IN_CHILD(clean_again)
IN_CHILD(ends)
IN_CHILD(during_fork)

static void test_huge_pages(void **state) {
  (void)state;
  if (!may_be_huge()) skip();
  in_child(huge_pages);
}

int main(void) {
  hdi_thread_init();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_longer_pages), cmocka_unit_test(test_short_pages), cmocka_unit_test(test_alone),
      cmocka_unit_test(test_explicit_heap), cmocka_unit_test(test_limited), cmocka_unit_test(test_rests),
      cmocka_unit_test(test_dirty_first), cmocka_unit_test(test_deferred_first), cmocka_unit_test(test_short_runs),
      cmocka_unit_test(test_too_little), cmocka_unit_test(test_clean_again),
      cmocka_unit_test(test_ends), cmocka_unit_test(test_during_fork), cmocka_unit_test(test_huge_pages),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
