/* A class with many pages takes the next ones side by side, from a row of its own, in a process with one thread (decision 45).
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
#include "heddle.h"
#include "pages.h"
#include "worker.h"

enum {
  SHARE = 16, MOST = 16, MANY = 2 * SHARE, /* a row is a sixteenth of MANY pages and more, and 16 units at most */
  BYTES = 2048, OTHER = 1024,
  MEDIUM = 8 * 1024, /* the longest blocks in pages of one unit */
  LONG = 16 * 1024, /* and some in pages of four */
  LONG_UNITS = 4, MANY_UNITS = 64,
  PAGES = 20 * MOST
};

typedef struct taker {
  size_t bytes;
  hd_unit *page[PAGES];
  size_t count;
} taker;

static taker one = {.bytes = BYTES}, other = {.bytes = OTHER};

#define NEED(condition) TS_CHECK(condition, "a row of %u units, and %u in rows", row_of(&one)->units, mine()->row_units)

static hd_heap *mine(void) { return hdi_heap_mine(); }
static const hd_row *row_of(const taker *taker) { return &mine()->row[hdi_sizeclass_of(taker->bytes)]; }

/* Blocks until there is one more page. */
static bool take_page(taker *taker) {
  uint32_t *pages = &mine()->class[hdi_sizeclass_of(taker->bytes)].page_count;
  for (uint32_t had = *pages; *pages == had;) {
    void *p = hd_malloc(taker->bytes);
    if (p == NULL) return false;
    taker->page[taker->count] = hdi_space_entry(p)->head;
  }
  taker->count++;
  return true;
}

static void take(taker *taker, size_t pages) {
  for (size_t i = 0; i < pages; i++) NEED(take_page(taker));
}

/* Pages of both, one of each in turn. */
static void take_both(size_t pages) {
  for (size_t i = 0; i < pages; i++) {
    take(&one, 1);
    take(&other, 1);
  }
}

static size_t side_by_side(const taker *taker, size_t first) {
  size_t count = 0;
  for (size_t i = first + 1; i < taker->count; i++) count += taker->page[i] == taker->page[i - 1] + 1;
  return count;
}

/* Free memory that was in use, behind memory that is: nothing joins it to other runs. */
static void leave_dirty(size_t units) {
  void *p = hd_malloc(units * HD_UNIT_BYTES);
  NEED(p != NULL && hd_malloc(HD_UNIT_BYTES) != NULL);
  memset(p, 1, units * HD_UNIT_BYTES);
  hd_free(p);
  hdi_heap_drop_runs(mine());
  NEED(hdi_space_has_dirty(&hdi_space, units));
}

static void begin(void) {
  NEED(hd_malloc(BYTES) != NULL && hd_malloc(OTHER) != NULL);
  only_pages();
  other.bytes = LONG; /* what makes the heap one of many pages */
  for (size_t units = 0; units < MANY_UNITS; units += LONG_UNITS) NEED(take_page(&other));
  other = (taker){.bytes = OTHER};
}

static void in_child(void (*test)(void *)) {
  struct ts_outcome outcome;
  ts_fork_run(test, NULL, 20, &outcome);
  if (!ts_exited(&outcome, 0)) fail_msg("%s", outcome.error);
}

/* Two classes that grow together: each in pieces, which become longer. */
static void grow(void *unused) {
  (void)unused;
  begin();
  take_both(MANY - 1);
  NEED(side_by_side(&one, 0) == 0 && mine()->row_units == 0);
  take_both(2 * MANY);
  size_t rows = 0; /* of 2, 2, 2, 2, 2, 2, 2, 2, then of 3 and so on */
  for (size_t pages = MANY; pages < 3 * MANY; rows++) pages += pages / SHARE;
  NEED(one.count - MANY - side_by_side(&one, MANY) <= rows);
  NEED(other.count - MANY - side_by_side(&other, MANY) <= rows);
}

/* However many pages there are. */
static void longest(void *unused) {
  (void)unused;
  begin();
  take(&one, MOST * SHARE + 2 * MOST);
  while (row_of(&one)->units != 0) take(&one, 1);
  take(&one, 1);
  NEED(row_of(&one)->units == MOST - 1 && row_of(&one)->zeroed);
}

/* What comes from a row is a page like others: of memory that reads as zero, and it is counted once. */
static void pages(void *unused) {
  (void)unused;
  begin();
  take(&one, MANY - 1);
  size_t used = hdi_space_used(&hdi_space);
  take(&one, 1);
  NEED(row_of(&one)->units > 0);
  for (size_t left = row_of(&one)->units; left > 0; left--) {
    NEED(row_of(&one)->units == left && mine()->row_units == left);
    take(&one, 1);
    hd_unit *page = one.page[one.count - 1];
    NEED(page->run_units == 1 && page->head == page && page->zeroed);
  }
  NEED(mine()->row_units == 0);
  NEED(hdi_space_used(&hdi_space) == used + one.count - (MANY - 1));
}

/* Blocks of up to 8 KiB have pages of one unit; longer ones have longer pages, and no rows. */
static void medium(void *unused) {
  (void)unused;
  begin();
  one.bytes = MEDIUM;
  take(&one, MANY + 1);
  NEED(mine()->row_units == 1);
  take(&one, 1);
  other.bytes = LONG;
  take(&other, MANY + 2);
  NEED(mine()->row_units == 0);
}

/* A page that was in use comes first, be it alone; and a row of such pages before one that nobody had. */
static void dirty_first(void *unused) {
  (void)unused;
  begin();
  take(&one, MANY);
  while (row_of(&one)->units != 0) take(&one, 1);
  leave_dirty(1);
  take(&one, 1);
  NEED(row_of(&one)->units == 0 && !one.page[one.count - 1]->zeroed);
  take(&one, 1);
  NEED(row_of(&one)->units > 0 && one.page[one.count - 1]->zeroed);
  while (row_of(&one)->units != 0) take(&one, 1);
  leave_dirty(MOST);
  take(&one, 1);
  NEED(row_of(&one)->units > 0 && !row_of(&one)->zeroed && !one.page[one.count - 1]->zeroed);
  size_t dirty = hdi_space.dirty.units, left = row_of(&one)->units;
  hdi_heap_drop_cache(mine());
  NEED(hdi_space.dirty.units == dirty + left);
}

/* So does one that the heap keeps. */
static void kept_first(void *unused) {
  (void)unused;
  begin();
  take(&one, MANY);
  while (row_of(&one)->units != 0) take(&one, 1);
  void *p = hd_malloc(HD_UNIT_BYTES);
  NEED(p != NULL);
  hd_free(p);
  NEED(mine()->cached_units == 1);
  take(&one, 1);
  NEED(mine()->cached_units == 0 && row_of(&one)->units == 0);
}

/* A run that the heap keeps, and that is as long as the row would be, becomes the row. */
static void kept_row(void *unused) {
  (void)unused;
  begin();
  take(&one, MANY);
  while (row_of(&one)->units != 0) take(&one, 1);
  void *p = hd_malloc(2 * HD_UNIT_BYTES);
  NEED(p != NULL);
  hd_unit *run = hdi_space_entry(p);
  leave_dirty(2); /* a row as long as that may be had */
  hd_free(p);
  NEED(mine()->cached_units == 2);
  take(&one, 1);
  NEED(one.page[one.count - 1] == run && row_of(&one)->units == 1 && !row_of(&one)->zeroed && mine()->cached_units == 0);
}

/* While a fork has the space's lock there are pages all the same. */
static void during_fork(void *unused) {
  (void)unused;
  begin();
  take(&one, MANY);
  while (row_of(&one)->units != 0) take(&one, 1);
  hdi_lock_fork_begin();
  hdi_space_fork(HD_FORK_PREPARE);
  take(&one, 2);
  NEED(mine()->row_units == 0);
  hdi_space_fork(HD_FORK_PARENT);
  hdi_lock_fork_end();
}

/* A collector and a thread that says that it waits give back what is in rows. */
static void rests(void *unused) {
  (void)unused;
  begin();
  take_both(MANY);
  NEED(row_of(&one)->units > 0 && row_of(&other)->units > 0);
  size_t used = hdi_space_used(&hdi_space);
  uint32_t units = mine()->row_units;
  hd_thread_idle();
  NEED(mine()->row_units == 0 && row_of(&one)->units == 0 && row_of(&other)->units == 0);
  NEED(hdi_space_used(&hdi_space) <= used - units);
  while (mine()->row_units == 0) take_both(1);
  hd_collect(0);
  NEED(mine()->row_units == 0);
}

/* A class that the program does not use any more gives its row up while others grow. */
static void idle(void *unused) {
  (void)unused;
  begin();
  take(&one, 2 * MANY);
  while (row_of(&one)->units == 0) take(&one, 1);
  take(&other, HD_CLASS_COUNT);
  NEED(row_of(&one)->units == 0);
}

/* Where no memory is left for a row there is none for a page, and nothing is lost. */
static void full(void *unused) {
  (void)unused;
  begin();
  take(&one, MANY);
  while (row_of(&one)->units != 0) take(&one, 1);
  size_t count = hdi_space.unit_count;
  hdi_space.unit_count = hdi_space.top;
  NEED(!take_page(&one) && mine()->row_units == 0);
  hdi_space.unit_count = count;
  take(&one, 1);
  NEED(mine()->row_units > 0);
}

static void limited(void *unused) {
  (void)unused;
  begin();
  hd_store_owned(&hdi_options.limit, (size_t)1 << 30);
  take(&one, 2 * MANY);
  NEED(mine()->row_units == 0);
}

static void nothing(worker *self) {
  (void)self;
  NEED(hd_malloc(BYTES) != NULL);
}

static void several_threads(void *unused) {
  (void)unused;
  static worker thread;
  begin();
  NEED(worker_start(&thread) == 0);
  worker_do(&thread, nothing);
  take(&one, 2 * MANY);
  NEED(mine()->row_units == 0);
}

static void explicit_heap(void *unused) {
  (void)unused;
  begin();
  hd_heap *heap = hd_heap_create(&(hd_heap_config){.one_user = true});
  NEED(heap != NULL);
  uint32_t *pages = &heap->class[hdi_sizeclass_of(BYTES)].page_count;
  while (*pages < 2 * MANY) NEED(hd_heap_malloc(heap, BYTES) != NULL);
  NEED(heap->row_units == 0);
}

#define IN_CHILD(name) \
  static void test_##name(void **state) { \
    (void)state; \
    in_child(name); \
  }

IN_CHILD(grow)
IN_CHILD(longest)
IN_CHILD(pages)
IN_CHILD(medium)
IN_CHILD(dirty_first)
IN_CHILD(kept_first)
IN_CHILD(kept_row)
IN_CHILD(during_fork)
IN_CHILD(rests)
IN_CHILD(idle)
IN_CHILD(full)
IN_CHILD(limited)
IN_CHILD(several_threads)
IN_CHILD(explicit_heap)

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_grow),
      cmocka_unit_test(test_longest),
      cmocka_unit_test(test_pages),
      cmocka_unit_test(test_medium),
      cmocka_unit_test(test_dirty_first),
      cmocka_unit_test(test_kept_first),
      cmocka_unit_test(test_kept_row),
      cmocka_unit_test(test_during_fork),
      cmocka_unit_test(test_rests),
      cmocka_unit_test(test_idle),
      cmocka_unit_test(test_full),
      cmocka_unit_test(test_limited),
      cmocka_unit_test(test_several_threads),
      cmocka_unit_test(test_explicit_heap),
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
