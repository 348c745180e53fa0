/* Huge pages are asked for above memory that the program has filled: just below, or deeper where the top is being filled by many at once.
 * Long runs begin and end where huge pages do. And it is the library that asks, also where the system would not wait for that.
 *
 * SPDX-License-Identifier: MIT */
#include <inttypes.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>

#include <cmocka.h>

#include "core/heap.h"
#include "core/options.h"
#include "core/sizeclass.h"
#include "core/space.h"
#include "core/space_grow.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"
#include "huge_pages.h"
#include "huge_quick.h"

enum { MIB = 1024 * 1024, HUGE_BYTES = 2 * MIB };

/* Whether the system has a range that holds the address, or one of so many bytes, with a flag: "hg" if huge pages are wanted there, "nh" if
 * they are not. */
static bool has_range(const void *address, size_t bytes, const char *flag) {
  FILE *maps = fopen("/proc/self/smaps", "re");
  char line[512], *at;
  uintptr_t from, to;
  bool inside = false, found = false;
  assert_non_null(maps);
  while (fgets(line, sizeof line, maps) != NULL) {
    if (sscanf(line, "%" SCNxPTR "-%" SCNxPTR " ", &from, &to) == 2)
      inside = bytes != 0 ? to - from == bytes : from <= (uintptr_t)address && (uintptr_t)address < to;
    else if (inside && (at = strstr(line, "VmFlags:")) != NULL) found = found || strstr(at, flag) != NULL;
  }
  fclose(maps);
  return found;
}

static bool has_flag(const void *address, const char *flag) { return has_range(address, 0, flag); }

static uint8_t *last; /* the block taken last: units come from the top, one after the other */

static void take_unit(bool fill) {
  uint8_t *p = hd_malloc(HD_UNIT_BYTES);
  assert_non_null(p);
  assert_true(last == NULL || p == last + HD_UNIT_BYTES);
  if (fill) memset(p, 1, HD_UNIT_BYTES);
  last = p;
}

/* Long runs that were freed untouched wait for the next block of about their length: nobody gets those. */
static void take_sparse(void) {
  for (size_t units = 1; units < hdi_space.top; units *= 2) {
    while (hdi_space_take_sparse(&hdi_space, units, 1) != NULL) {
    }
  }
}

/* Nor what classes have in rows, nor what else is free: units come from the top. */
static void take_free(void) {
  hdi_heap_drop_cache(hdi_heap_mine());
  while (hdi_space_take_clean_again(&hdi_space, 1) != NULL || hdi_space_take_dirty(&hdi_space, 1) != NULL) {
  }
}

/* To the end of a huge page. */
static int begin(void **state) {
  (void)state;
  take_sparse();
  take_free();
  last = NULL;
  do take_unit(false);
  while (((uintptr_t)last + HD_UNIT_BYTES) % HUGE_BYTES != 0);
  return 0;
}

/* So many huge pages, every step-th of them filled (0: none). */
static void take(size_t huge_pages, size_t step) {
  for (size_t i = 0; i < huge_pages; i++) {
    for (size_t k = 0; k < HUGE_BYTES / HD_UNIT_BYTES; k++) take_unit(step != 0 && i % step == 0);
  }
}

static bool next_is_huge(void) {
  take(1, 0);
  return hdi_space_is_huge(last);
}

/* Of memory that has been claimed there is enough for so many. */
static void make_room(size_t huge_pages) {
  while (hdi_space.committed - hdi_space.top < huge_pages * HD_HUGE_UNITS) take(1, 0);
}

/* What lies so many huge pages below counts no more. */
static size_t too_deep(void) { return hd_max(16, hdi_space.top / HD_HUGE_UNITS / 7) + 1; }

/* So much that is empty that nothing tells any more of what was filled before. */
static void forget(void) {
  while (next_is_huge()) {
  }
  take(12 + too_deep(), 0);
  assert_false(next_is_huge());
}

/* Blocks of so many bytes, one after the other for so many huge pages; of each the first `touched` bytes are written. How many of the
 * blocks lie where huge pages were asked for, of 100. *p: the last one. */
static size_t share_in_huge(size_t huge_pages, size_t bytes, size_t touched, uint8_t **p) {
  size_t blocks = huge_pages * (HUGE_BYTES / bytes), inside = 0;
  for (size_t i = 0; i < blocks; i++) {
    *p = hd_malloc(bytes);
    assert_non_null(*p);
    memset(*p, 1, touched);
    inside += hdi_space_is_huge(*p);
  }
  last = NULL;
  return inside * 100 / blocks;
}

static void test_where_it_is_filled(void **state) {
  (void)state;
  forget();
  take(8, 1);
  assert_int_equal(next_is_huge(), may_be_huge());
  take(too_deep(), 0);
  assert_false(next_is_huge()); /* that lies too deep now */
}

/* So many of them behind the unit that was taken last. */
static bool is_huge_behind(size_t huge_pages) { return hdi_space_is_huge(last + HD_UNIT_BYTES + huge_pages * HUGE_BYTES); }

/* Whoever comes to a block finds that it has been asked for, with the one below; but not two blocks ahead. */
static void test_one_is_asked_for_ahead(void **state) {
  (void)state;
  forget();
  make_room(12);
  take(8, 1);
  take_unit(false);
  for (int i = 0; i < 2; i++) {
    assert_int_equal(hdi_space_is_huge(last), may_be_huge());
    assert_int_equal(hdi_space_is_huge(last + HUGE_BYTES), may_be_huge());
    assert_false(hdi_space_is_huge(last + 2 * HUGE_BYTES));
    take(1, 0);
  }
}

/* Where nothing is claimed yet there is nothing to ask for; that follows when it is. */
static void test_none_is_asked_for_where_nothing_is(void **state) {
  (void)state;
  forget();
  while (hdi_space.committed - hdi_space.top != 9 * HD_HUGE_UNITS) take(1, 0);
  take(8, 1);
  size_t committed = hdi_space.committed;
  assert_int_equal(next_is_huge(), may_be_huge());
  assert_int_equal(hdi_space.committed, committed);
  assert_false(is_huge_behind(0));
  take_unit(true);
  assert_int_equal(hdi_space_is_huge(last), may_be_huge());
  assert_true(!may_be_huge() || has_flag(last, " hg"));
}

/* A block that grows may never be filled, and says nothing of what comes behind it. */
static void test_growth_asks_for_its_own(void **state) {
  (void)state;
  forget();
  make_room(12);
  take(8, 1);
  uint8_t *p = hd_realloc(last, 2 * HD_UNIT_BYTES);
  assert_ptr_equal(p, last);
  assert_int_equal(is_huge_behind(0), may_be_huge());
  assert_false(is_huge_behind(1));
  last = NULL;
}

static void test_where_it_is_filled_deeper(void **state) {
  (void)state;
  forget();
  take(4, 1);
  while (next_is_huge()) { /* until that is too deep */
  }
  take(3, 0);
  assert_false(next_is_huge()); /* nothing of the last 8 MiB is filled */
  take(4, 2);
  assert_int_equal(next_is_huge(), may_be_huge()); /* some is, and all of what began 32 MiB below */
  forget();
  take(4, 2);
  assert_false(next_is_huge()); /* nothing is filled deeper down */
}

static hd_heap *heaps[6]; /* destroyed at the end: what they give back would not be at the top */

/* Pages of so many classes of a new heap, one block in each. */
static void open_pages(hd_heap **heap, size_t count) {
  *heap = hd_heap_create(NULL);
  assert_non_null(*heap);
  for (unsigned i = 1; i <= count; i++) assert_non_null(hd_heap_malloc(*heap, hdi_sizeclass_bytes(i)));
  last = NULL;
}

static int end_heaps(void **state) {
  (void)state;
  for (int i = 0; i < 6; i++) hd_heap_destroy(heaps[i]);
  return 0;
}

static size_t units_below_top(void) { return (size_t)(last - hdi_space.base) / HD_UNIT_BYTES + 1; }

/* A process below 12 MiB has none, however dense it is. From there on pages that are being filled are no proof against it. */
static void test_open_pages_are_left_out(void **state) {
  (void)state;
  last = NULL;
  assert_true(hdi_space.top < 16);
  do take_unit(true);
  while (units_below_top() < 160);
  open_pages(&heaps[0], 30);
  while (last == NULL || units_below_top() < 192) take_unit(true);
  assert_false(hdi_space_is_huge(last));
  take_unit(true);
  assert_int_equal(hdi_space_is_huge(last), may_be_huge());
}

/* Unless there are more of them than of others: many threads with many classes each. */
static void test_most_pages_are_open(void **state) {
  last = NULL;
  begin(state);
  forget();
  take(4, 1);
  for (int i = 1; i < 4; i++) open_pages(&heaps[i], 56);
  begin(state);
  assert_false(next_is_huge());
}

/* A long block that is filled says nothing about pages. Those that lie below it do. */
static void test_long_blocks_are_no_proof(void **state) {
  last = NULL;
  begin(state);
  forget();
  uint8_t *p = hd_malloc(12 * MIB);
  assert_ptr_equal(p, last + HD_UNIT_BYTES);
  memset(p, 1, 12 * MIB);
  last = NULL;
  assert_false(next_is_huge());
  uint8_t *runs = last + HD_UNIT_BYTES;
  assert_int_equal(share_in_huge(6, 8 * HD_UNIT_BYTES, 0, &p), 0);
  memset(runs, 1, 6 * HUGE_BYTES);
  assert_false(next_is_huge());
  take(4, 1);
  memset(hd_malloc(20 * MIB), 1, 20 * MIB);
  last = NULL;
  assert_int_equal(next_is_huge(), may_be_huge());
  memset(hd_malloc(too_deep() * HUGE_BYTES), 1, HUGE_BYTES);
  last = NULL;
  assert_false(next_is_huge()); /* less than 2 MiB of pages within what counts */
}

/* Memory that was given back is as fresh as what nobody had: huge pages come where the program fills it. */
static void test_given_back_memory_starts_anew(void **state) {
  enum { BYTES = 64 * MIB };
  uint8_t *q = NULL;
  last = NULL;
  begin(state);
  forget();
  uint8_t *p = hd_malloc(BYTES);
  assert_non_null(hd_malloc(HD_UNIT_BYTES)); /* so that it does not become fresh memory altogether */
  memset(p, 1, BYTES);
  assert_int_equal(hdi_space_is_huge(p + BYTES / 2), may_be_huge());
  hd_free(p);
  hd_collect(0);
  assert_false(hdi_space_is_huge(p + BYTES / 2));
  assert_int_equal(share_in_huge(8, 2 * HD_UNIT_BYTES, 1, &q), 0);
  assert_in_range(q, p, p + BYTES);
  assert_int_equal(share_in_huge(8, HD_UNIT_BYTES, HD_UNIT_BYTES, &q) > 0, may_be_huge());
  assert_in_range(q, p, p + BYTES);
  assert_false(hdi_space_is_huge(q + 4 * MIB)); /* no further than it was filled */
  while (q >= p && q < p + BYTES) q = hd_malloc(HD_UNIT_BYTES);
}

/* A block between 2 and 4 MiB is as dense as what lies below it. */
static void test_middling_blocks(void **state) {
  last = NULL;
  begin(state);
  forget();
  take(8, 1);
  uint8_t *p = hd_malloc(3 * MIB + HD_UNIT_BYTES);
  assert_ptr_equal(p, last + HD_UNIT_BYTES);
  assert_int_equal(hdi_space_is_huge(p), may_be_huge());
  assert_int_equal(hdi_space_is_huge(p + 3 * MIB), may_be_huge());
  assert_false(hdi_space_is_huge(p + 4 * MIB)); /* and says nothing of what lies above it, unlike a page */
}

/* Three quarters are enough for a run, which will be filled, but not for a page of one unit. */
static void test_runs_want_less(void **state) {
  last = NULL;
  begin(state);
  forget();
  make_room(12);
  take(3, 1);
  take(1, 0);
  assert_false(next_is_huge());
  take(3, 1);
  take(1, 0);
  uint8_t *p = hd_malloc(2 * HD_UNIT_BYTES);
  assert_ptr_equal(p, last + HD_UNIT_BYTES);
  assert_int_equal(hdi_space_is_huge(p), may_be_huge());
  assert_int_equal(hdi_space_is_huge(p + HUGE_BYTES), may_be_huge());
}

/* Runs that are filled speak for the next long run, though the pages between them are thin; and for no shorter one, which may be a page. */
static void test_runs_tell_of_runs(void **state) {
  enum { RUN = 16 * HD_UNIT_BYTES, WIDE = 56 * 1024, PAGES = 2, PER_PAGE = 9 };
  for (int filled = 0; filled < 2; filled++) {
    hd_heap *heap = heaps[4 + filled] = hd_heap_create(NULL);
    last = NULL;
    begin(state);
    forget();
    for (int i = 0; i < 9; i++) {
      uint8_t *run = hd_malloc(RUN);
      assert_non_null(run);
      if (filled) memset(run, 1, RUN);
      for (int k = 0; i < 8 && k < PAGES * PER_PAGE; k++) *(char *)hd_heap_malloc(heap, WIDE) = 1;
      last = run + RUN - HD_UNIT_BYTES;
    }
    begin(state);
    uint8_t *shorter = hd_malloc(RUN - HD_UNIT_BYTES);
    assert_ptr_equal(shorter, last + HD_UNIT_BYTES);
    assert_false(hdi_space_is_huge(shorter));
    last = shorter + RUN - 2 * HD_UNIT_BYTES;
    begin(state);
    uint8_t *run = hd_malloc(RUN);
    assert_ptr_equal(run, last + HD_UNIT_BYTES);
    assert_int_equal(hdi_space_is_huge(run), filled && may_be_huge());
    last = NULL;
  }
}

/* What lies in a huge page is resident, touched or not: one would bring the next, for good, if that were proof. */
static void test_huge_pages_are_no_proof(void **state) {
  uint8_t *p = NULL;
  const size_t bytes[] = {HD_UNIT_BYTES, 2 * HD_UNIT_BYTES, 6 * 1024};
  for (size_t i = 0; i < sizeof bytes / sizeof *bytes; i++) {
    last = NULL;
    begin(state);
    take(8, 1);
    assert_int_equal(share_in_huge(1, bytes[i], 1, &p) > 0, may_be_huge());
    share_in_huge(too_deep() + 12, bytes[i], 1, &p);
    assert_int_equal(share_in_huge(8, bytes[i], 1, &p), 0);
  }
}

/* Here and there one is left out, to see whether the program still fills its memory. */
static void test_some_are_left_out(void **state) {
  uint8_t *p = NULL;
  for (size_t units = 1; units <= 2; units++) {
    begin(state);
    take(8, 1);
    size_t share = share_in_huge(too_deep() + 4, units * HD_UNIT_BYTES, units * HD_UNIT_BYTES, &p);
    assert_in_range(share, may_be_huge() ? 60 : 0, may_be_huge() ? 99 : 0);
  }
}

/* A huge page that is left out, 2 MiB, tells enough of the next 32: one of sixteen is, and not two. */
static void test_few_are_left_out(void **state) {
  uint8_t *p = NULL;
  last = NULL;
  begin(state);
  take(8, 1);
  size_t share = share_in_huge(4 * too_deep(), 8000, 8000, &p);
  assert_in_range(share, may_be_huge() ? 93 : 0, may_be_huge() ? 99 : 0);
  begin(state);
  forget();
}

/* Pages of short blocks know how much of them was handed out, and none has to be left out for them. */
static void test_short_blocks_tell_themselves(void **state) {
  uint8_t *p = NULL;
  begin(state);
  take(8, 1);
  share_in_huge(2, 64, 1, &p);
  assert_int_equal(share_in_huge(too_deep() + 4, 64, 1, &p), may_be_huge() ? 100 : 0);
  share_in_huge(2, 4096, 1, &p);
  assert_int_equal(share_in_huge(too_deep() + 4, 4096, 1, &p), may_be_huge() ? 100 : 0);
}

static size_t units_of(const void *p) { return hdi_space_find(p)->run_units; }
static size_t whole(size_t bytes) { return may_be_huge() ? hd_round_up(bytes, HUGE_BYTES) : bytes; }

static uint8_t *expect_whole(size_t bytes, bool with_tail) {
  uint8_t *p = hd_malloc(bytes);
  assert_non_null(p);
  if (may_be_huge()) assert_int_equal((uintptr_t)p % HUGE_BYTES, 0);
  assert_int_equal(units_of(p) * HD_UNIT_BYTES, whole(bytes));
  assert_int_equal(hdi_space_is_huge(p), may_be_huge());
  assert_int_equal(hdi_space_is_huge(p + 4 * MIB - 1), may_be_huge());
  assert_int_equal(hdi_space_is_huge(p + bytes - 1), with_tail && may_be_huge());
  return p;
}

/* In a small process some of this is otherwise: see huge_small.c. */
static int grow(void **state) {
  (void)state;
  uint8_t *p = hd_malloc(32 * MIB);
  assert_non_null(p);
  assert_true(fill_until_grown(p, 32 * MIB));
  last = NULL;
  return 0;
}

static void test_long_runs(void **state) {
  (void)state;
  uint8_t *first = expect_whole(9 * MIB, true); /* half of the last page is used, and what is not is a ninth of the block */
  uint8_t *second = expect_whole(4 * MIB + 4 * HD_UNIT_BYTES, false); /* this one would be half as large again */
  assert_ptr_equal(second, first + whole(9 * MIB));
  memset(first, 1, 9 * MIB);
  hd_free(first);
  uint8_t *third = expect_whole(7 * MIB, true); /* in the place of the first, which ends where a huge page does */
  assert_ptr_equal(third, first);
  uint8_t *fourth = expect_whole(5 * MIB, true);
  uint8_t *fifth = expect_whole(32 * MIB + 3 * HD_UNIT_BYTES, false); /* so little is faulted in by small pages */
  uint8_t *sixth = expect_whole(32 * MIB + 4 * HD_UNIT_BYTES, true);
  hd_free(second);
  hd_free(third);
  hd_free(fourth);
  hd_free(fifth);
  hd_free(sixth);
}

/* What is free and filled moves into the next block, unless that gets huge pages. */
static void test_huge_pages_are_not_filled_by_moves(void **state) {
  enum { PIECE = 2 * MIB + 3 * HD_UNIT_BYTES };
  for (size_t step = 0; step <= 1; step++) {
    last = NULL;
    begin(state);
    forget();
    uint8_t *piece = hd_malloc(PIECE);
    assert_ptr_equal(piece, last + HD_UNIT_BYTES);
    memset(piece, 1, PIECE);
    last = NULL;
    begin(state);
    take(8, step);
    hd_free(piece);
    uint8_t *p = hd_malloc(3 * MIB + HD_UNIT_BYTES);
    assert_ptr_equal(p, last + HD_UNIT_BYTES);
    bool huge = hdi_space_is_huge(p);
    assert_int_equal(huge, step == 1 && may_be_huge());
    assert_int_equal(p[MIB], !huge && hdi_os.can_move);
    assert_ptr_equal(hd_malloc(PIECE), piece);
  }
}

static void test_long_runs_resized(void **state) {
  (void)state;
  uint8_t *p = NULL, *top = hdi_space.base + hdi_space.top * HD_UNIT_BYTES;
  do p = hd_malloc(4 * MIB + HD_UNIT_BYTES);
  while (p < top);
  memset(p, 1, 4 * MIB);
  assert_ptr_equal(hd_realloc(p, 5 * MIB), p); /* the run is that long already, or what lies behind is free */
  assert_int_equal(units_of(p) * HD_UNIT_BYTES, whole(5 * MIB));
  assert_ptr_equal(hd_realloc(p, 7 * MIB), p);
  assert_int_equal(units_of(p) * HD_UNIT_BYTES, whole(7 * MIB));
  uint8_t *behind = hd_malloc(4 * MIB);
  assert_ptr_equal(hd_realloc(p, 4 * MIB), p);
  assert_int_equal(units_of(p) * HD_UNIT_BYTES, 4 * MIB);
  hd_free(hd_malloc(1 * MIB + HD_UNIT_BYTES)); /* so that less than a huge page is free behind it */
  uint8_t *moved = hd_realloc(p, 12 * MIB);
  assert_int_equal(moved[4 * MIB - 1], 1);
  if (may_be_huge()) assert_int_equal((uintptr_t)moved % HUGE_BYTES, 0);
  hd_free(moved);
  hd_free(behind);
}

/* What is free lies badly, and there is no more. */
static void test_long_run_in_a_bad_place(void **state) {
  (void)state;
  enum { PIECES = 4, PIECE = 20 * HD_UNIT_BYTES };
  uint8_t *piece[PIECES + 1];
  struct rlimit before, now;
  while (hdi_space.committed - hdi_space.top != 4 * HD_HUGE_UNITS) take(1, 0); /* later too little for another place */
  for (int i = 0; i <= PIECES; i++) assert_non_null(piece[i] = hd_malloc(PIECE));
  for (int i = 1; i <= PIECES; i++) assert_ptr_equal(piece[i], piece[i - 1] + PIECE);
  for (int i = 0; i < PIECES; i++) hd_free(piece[i]);
  assert_int_equal(getrlimit(RLIMIT_AS, &before), 0);
  now = (struct rlimit){MIB, before.rlim_max};
  assert_int_equal(setrlimit(RLIMIT_AS, &now), 0);
  uint8_t *p = hd_malloc(PIECES * PIECE - 1);
  void *none = hd_malloc(1024 * (size_t)MIB);
  assert_int_equal(setrlimit(RLIMIT_AS, &before), 0);
  assert_ptr_equal(p, piece[0]);
  assert_null(none);
  hd_free(p);
  hd_free(piece[PIECES]);
}

static void test_limit_counts_units(void **state) {
  (void)state;
  assert_int_equal(hd_option_set("limit", "64g"), HD_OK);
  void *p = hd_malloc(4 * MIB + HD_UNIT_BYTES);
  assert_int_equal(units_of(p) * HD_UNIT_BYTES, 4 * MIB + HD_UNIT_BYTES);
  hd_free(p);
  assert_int_equal(hd_option_set("limit", "0"), HD_OK);
}

static void begin_in_next_step(void **state) {
  last = NULL;
  begin(state);
  size_t claimed = hdi_space.committed;
  take((claimed - hdi_space.top) / HD_HUGE_UNITS, 0);
  begin(state);
  assert_true(hdi_space.committed > claimed);
}

static bool small_at_start, small_behind; /* that the system is told to wait, in the first 4 MiB and in what follows */

static void look_at_start(void) {
  assert_int_equal(hdi_space_grow(&hdi_space, HD_COMMIT_FIRST + 1), HD_CLAIM_DONE);
  small_at_start = has_flag(hdi_space.base, " nh") && has_flag(hdi_space.base + 4 * MIB - 1, " nh");
  small_behind = has_flag(hdi_space.base + 4 * MIB, " nh");
}

/* A system that gives pages of other sizes unasked, of 64 KiB for instance, gives none to a small program, in its first 4 MiB; and nowhere
 * to one that wants none. */
static void test_small_programs_have_small_pages(void **state) {
  if (hdi_os.huge_bytes == 0 || hdi_options.thp == HD_THP_ALWAYS) skip();
  int64_t before = hdi_options.thp;
  assert_true(small_at_start);
  assert_int_equal(small_behind, hdi_os.huge_always || hdi_options.thp == HD_THP_NEVER);
  hdi_options.thp = HD_THP_NEVER;
  begin_in_next_step(state);
  assert_true(has_flag(last, " nh") && has_flag(hdi_space.base + hdi_space.committed * HD_UNIT_BYTES - 1, " nh"));
  hdi_options.thp = before;
}

/* Where the system gives huge pages unasked, it is told to wait: they come where they do elsewhere. */
static void test_system_gives_unasked(void **state) {
  bool before = hdi_os.huge_always;
  if (hdi_os.huge_bytes == 0 || hdi_options.thp == HD_THP_ALWAYS) skip();
  hdi_os.huge_always = true;
  begin_in_next_step(state);
  assert_true(has_flag(last, " nh"));
  take(12, 1);
  assert_true(has_flag(last, may_be_huge() ? " hg" : " nh"));
  assert_true(has_flag(last + 4 * MIB, " nh")); /* still in this step */
  size_t sights = 8192 * 2 * sizeof(uint32_t); /* purge.c has one for each unit, and gets so many ready at least */
  assert_false(has_range(NULL, sights, " nh"));
  hd_collect(0);
  assert_true(has_range(NULL, sights, " nh"));
  hdi_os.huge_always = before;
  take_unit(false); /* what comes next does not start where a huge page does by itself */
}

/* Huge pages for everything: long runs are as whole as where they are asked for one by one. For nothing: as long as they need to be. */
static void test_for_everything_and_nothing(void **state) {
  (void)state;
  if (hdi_options.thp != HD_THP_AUTO || hdi_os.huge_bytes != HUGE_BYTES) skip();
  hdi_options.thp = HD_THP_ALWAYS;
  take_sparse();
  uint8_t *p = hd_malloc(5 * MIB);
  assert_int_equal((uintptr_t)p % HUGE_BYTES, 0);
  assert_int_equal(units_of(p) * HD_UNIT_BYTES, 6 * MIB);
  assert_true(hdi_space_is_huge(p + 5 * MIB));
  hd_free(p);
  uint8_t *unit = hd_malloc(HD_UNIT_BYTES);
  assert_true(hdi_space_is_huge(unit));
  hd_free(unit);
  hdi_options.thp = HD_THP_NEVER;
  take_sparse();
  p = hd_malloc(5 * MIB);
  assert_int_equal(units_of(p) * HD_UNIT_BYTES, 5 * MIB);
  hd_free(p);
  hdi_options.thp = HD_THP_AUTO;
}

/* What it has from its parent is not its own: a child of a fork is as small a process as any. */
static void test_child_begins_small(void **state) {
  enum { FIRST = 6 /* of 2 MiB: 12 MiB */ };
  last = NULL;
  begin(state);
  take(8, 1);
  assert_int_equal(next_is_huge(), may_be_huge());
  hdi_space_huge_fork_child();
  for (size_t i = 0; i < FIRST; i++) {
    take(1, 1);
    assert_false(hdi_space_is_huge(last));
  }
  take(1, 1);
  assert_int_equal(hdi_space_is_huge(last), may_be_huge());
}

int main(void) {
  hd_free(hd_malloc(1)); /* starts the library */
  look_at_start();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_open_pages_are_left_out), /* first of all, in an empty process */
      cmocka_unit_test(test_few_are_left_out), /* while no more than 32 MiB below count */
      cmocka_unit_test(test_system_gives_unasked),  /* before anything large is freed: the helper makes a table too */
      cmocka_unit_test(test_small_programs_have_small_pages),
      cmocka_unit_test(test_runs_tell_of_runs),
      cmocka_unit_test(test_huge_pages_are_no_proof),
      cmocka_unit_test(test_some_are_left_out),
      cmocka_unit_test(test_short_blocks_tell_themselves),
      cmocka_unit_test_setup(test_where_it_is_filled, begin),
      cmocka_unit_test_setup(test_where_it_is_filled_deeper, begin),
      cmocka_unit_test_setup(test_one_is_asked_for_ahead, begin),
      cmocka_unit_test_setup(test_none_is_asked_for_where_nothing_is, begin),
      cmocka_unit_test_setup(test_growth_asks_for_its_own, begin),
      cmocka_unit_test_setup(test_long_run_in_a_bad_place, begin),
      cmocka_unit_test(test_most_pages_are_open),
      cmocka_unit_test(test_long_blocks_are_no_proof),
      cmocka_unit_test(test_middling_blocks),
      cmocka_unit_test(test_child_begins_small),
      cmocka_unit_test(test_given_back_memory_starts_anew),
      cmocka_unit_test(test_runs_want_less),
      cmocka_unit_test(test_huge_pages_are_not_filled_by_moves),
      cmocka_unit_test_setup(test_long_runs, grow),
      cmocka_unit_test(test_long_runs_resized),
      cmocka_unit_test(test_limit_counts_units),
      cmocka_unit_test(test_for_everything_and_nothing),
  };
  return cmocka_run_group_tests(tests, NULL, end_heaps);
}
