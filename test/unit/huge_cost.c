/* What huge pages cost is seen by touching one; where small ones cost less, those are left for a while. What touching takes is told here,
 * so nothing is touched: the system's answers would not be the same twice.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include <cmocka.h>

#include "core/options.h"
#include "core/space.h"
#include "core/space_huge.h"
#include "heddle.h"
#include "os/os.h"
#include "huge_pages.h"

enum { MIB = 1024 * 1024, HUGE_BYTES = 2 * MIB, FEW_BYTES = 128 * 1024 };

/* Huge pages: what looks hold for; the longest run that is looked at; how many in a row are quick before that is believed, where one was
 * dear; and of how many one may be looked at. */
enum { FIRST = 16, MOST = 256, DATA = 1024, IN_A_ROW = 8, SHARE = 8 };

/* Nanoseconds; what they are on a machine whose memory is at hand, and on one whose host has taken its huge pages back. */
enum { QUICK = 230000, SLOW_HUGE = 4500000, FEW = 80000, SLOW_FEW = 600000, AT_ONCE = 1000000 };

/* A huge page that has to be found takes so long at least. */
enum { LEAST = 20000 };

static struct {
  uint64_t huge, few;      /* costs */
  size_t looks, compared;  /* calls */
  uint8_t *last;
  bool refuse, refuse_commit; /* memory for few small pages */
} tell = {QUICK, FEW, 0, 0, NULL, false, false};

uint64_t __real_hdi_os_touch(void *address, size_t bytes);
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes);
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes) {
  if (bytes == FEW_BYTES) {
    tell.compared++;
    memset(address, 1, bytes); /* it can be */
    return tell.few;
  }
  assert_int_equal(bytes, hdi_os.page_bytes);
  tell.looks++;
  tell.last = address;
  return tell.huge;
}

void *__real_hdi_os_reserve(size_t bytes, size_t alignment, bool readable);
void *__wrap_hdi_os_reserve(size_t bytes, size_t alignment, bool readable);
void *__wrap_hdi_os_reserve(size_t bytes, size_t alignment, bool readable) {
  return tell.refuse && bytes == FEW_BYTES ? NULL : __real_hdi_os_reserve(bytes, alignment, readable);
}

bool __real_hdi_os_commit(void *address, size_t bytes);
bool __wrap_hdi_os_commit(void *address, size_t bytes);
bool __wrap_hdi_os_commit(void *address, size_t bytes) {
  return !(tell.refuse_commit && bytes == FEW_BYTES) && __real_hdi_os_commit(address, bytes);
}

/* What really happens: from Linux 5.14 on the memory is resident, and that took time; and nothing where it can't be. */
static void test_system_touches(void **state) {
  (void)state;
  uint8_t *p = hdi_os_reserve(FEW_BYTES, HD_UNIT_BYTES, false);
  assert_non_null(p);
  assert_int_equal(__real_hdi_os_touch(p, FEW_BYTES), 0);
  assert_true(hdi_os_commit(p, FEW_BYTES));
  p[0] = 1;
  bool knows = __real_hdi_os_touch(p, FEW_BYTES) > 0;
  assert_int_equal(hdi_os_resident_in(p, FEW_BYTES), knows ? (size_t)FEW_BYTES : hdi_os.page_bytes);
  assert_int_equal(p[0], 1);
  assert_int_equal(p[FEW_BYTES - 1], 0);
  hdi_os_unreserve(p, FEW_BYTES);
}

/* Clean memory for so many huge pages, so many of which are asked for. */
static uint8_t *expect(size_t huge_pages, size_t asked) {
  uint8_t *p = hd_malloc(huge_pages * HUGE_BYTES);
  assert_non_null(p);
  for (size_t i = 0; i < huge_pages; i++) assert_int_equal(hdi_space_is_huge(p + i * HUGE_BYTES), i < asked);
  return p;
}

static void expect_look(size_t huge_pages, size_t asked) {
  size_t before = tell.looks;
  uint8_t *p = expect(huge_pages, asked);
  assert_int_equal(tell.looks, before + 1);
  assert_ptr_equal(tell.last, p);
}

static void expect_no_look(size_t huge_pages, size_t asked) {
  size_t before = tell.looks;
  expect(huge_pages, asked);
  assert_int_equal(tell.looks, before);
}

static void cost(uint64_t huge, uint64_t few) {
  tell.huge = huge;
  tell.few = few;
}

static void look(void) {
  for (size_t before = tell.looks; tell.looks == before;) assert_non_null(hd_malloc(4 * HUGE_BYTES));
}

/* Found to be dear; and then to be quick often enough, so that this holds for the first 32 MiB. */
static void become_dear(void) {
  cost(QUICK, FEW);
  for (int i = 0; i < IN_A_ROW; i++) look();
  cost(SLOW_HUGE, FEW);
  look();
}

static void become_quick(void) {
  become_dear();
  cost(QUICK, FEW);
  for (int i = 0; i < IN_A_ROW; i++) look();
}

/* These tests take gigabytes of addresses. */
static bool has_huge_pages(void) { return sizeof(void *) > 4 && may_be_huge(); }

#define NEED_HUGE_PAGES() \
  (void)state;            \
  if (!has_huge_pages()) skip()

/* The process is so large that long runs are asked for from their first byte on. What may never be touched is not looked at. */
static int begin(void **state) {
  (void)state;
  hd_free(hd_malloc(1)); /* starts the library */
  if (!has_huge_pages()) return 0;
  uint8_t *p = hd_calloc(1, 64 * MIB);
  assert_true(hdi_space_is_huge(p + 32 * MIB));
  assert_true(fill_until_grown(p, 64 * MIB));
  assert_int_equal(tell.looks, 0);
  return 0;
}

/* A long run may never be touched: its first page is after 8 MiB of them, then after 32, then after twice as many each time. */
static void test_long_runs_are_looked_at_now_and_then(void **state) {
  NEED_HUGE_PAGES();
  expect_no_look(2, 2);
  expect_look(2, 2);
  for (size_t step = FIRST; step <= MOST; step *= 2) {
    expect_no_look(step - 3, step - 3);
    expect_look(3, 3);
  }
  expect_no_look(MOST - 3, MOST - 3);
  expect_look(3, 3);
  assert_int_equal(tell.compared, 0);
}

/* Memory that was given back is in huge pages again, at once: there is nothing to ask for, so nothing to find out. */
static void test_asked_for_before(void **state) {
  NEED_HUGE_PAGES();
  become_quick();
  uint8_t *p = expect(6, 6);
  expect_no_look(FIRST - 7, FIRST - 7);
  memset(p, 1, 6 * HUGE_BYTES);
  hd_free(p);
  hd_collect(0);
  assert_int_equal(hdi_os_resident_in(p, 6 * HUGE_BYTES), 0);
  size_t looks = tell.looks;
  assert_ptr_equal(expect(6, 6), p);
  assert_int_equal(tell.looks, looks);
  expect_look(1 + FIRST, 1 + FIRST);
}

/* A block as long as the machine's memory may be there for its addresses only. */
static void test_longest_runs_are_not_looked_at(void **state) {
  NEED_HUGE_PAGES();
  become_quick();
  size_t looks = tell.looks;
  void *p = hd_malloc((size_t)(DATA + 1) * HUGE_BYTES);
  if (p == NULL) skip(); /* the system promises no more than it has */
  assert_true(hdi_space_is_huge(p));
  assert_int_equal(tell.looks, looks);
  expect_look(DATA, DATA);
}

/* calloc, which touches nothing. */
static void expect_cleared(size_t huge_pages, bool asked) {
  size_t before = tell.looks;
  uint8_t *p = hd_calloc(huge_pages, HUGE_BYTES);
  assert_non_null(p);
  for (size_t i = 0; i < huge_pages; i++) assert_int_equal(hdi_space_is_huge(p + i * HUGE_BYTES), asked);
  assert_int_equal(tell.looks, before);
}

/* The one that was looked at is all there is for 32 MiB, and for twice as much each time. */
static void test_dear_ones_are_left_out(void **state) {
  NEED_HUGE_PAGES();
  become_dear();
  for (size_t step = FIRST; step <= 4 * FIRST; step *= 2) {
    expect_no_look(step - 9, 0);
    expect_cleared(6, false);
    expect_look(3, 1);
  }
  cost(QUICK, FEW);
  expect_no_look(8 * FIRST - 3, 0);
  expect_cleared(3, true); /* enough was left out; but this does not tell whether they are dear still */
  expect_cleared(3, true);
  for (int i = 1; i < IN_A_ROW; i++) expect_look(3, 1);
  expect_look(3, 3);
  expect_no_look(3, 3);
}

/* Where the host has taken some of its memory back, quick ones and dear ones come by turns: a dear one among them, and it is as if there
 * had been no quick ones. */
static void test_quick_ones_between_dear_ones(void **state) {
  NEED_HUGE_PAGES();
  become_dear();
  for (size_t step = FIRST; step <= 4 * FIRST; step *= 2) {
    expect_no_look(step - 3, 0);
    cost(QUICK, FEW);
    for (int i = 1; i < IN_A_ROW; i++) expect_look(3, 1);
    cost(SLOW_HUGE, FEW);
    expect_look(3, 1);
  }
}

/* What another thread has touched before is there in no time, and tells nothing. */
static void test_one_that_is_there_already(void **state) {
  NEED_HUGE_PAGES();
  become_dear();
  expect_no_look(FIRST - 3, 0);
  cost(LEAST - 1, FEW);
  for (int i = 0; i < 2 * IN_A_ROW; i++) expect_look(3, 1);
  cost(LEAST, FEW);
  for (int i = 1; i < IN_A_ROW; i++) expect_look(3, 1);
  expect_look(3, 3);
  expect_no_look(FIRST - 3, FIRST - 3);
  cost(LEAST - 1, FEW);
  for (int i = 0; i < 2; i++) expect_look(3, 3); /* nor does it hold for what comes next */
}

/* A long run shows by itself that they are quick again, in an eighth of it; a dear one ends that. */
static void test_many_looks_at_a_long_run(void **state) {
  NEED_HUGE_PAGES();
  become_dear();
  expect_no_look(FIRST - 3, 0);
  cost(QUICK, FEW);
  size_t looks = tell.looks;
  expect((IN_A_ROW - 1) * SHARE, IN_A_ROW - 1);
  assert_int_equal(tell.looks, looks + IN_A_ROW - 1);
  expect_look((IN_A_ROW - 1) * SHARE, (IN_A_ROW - 1) * SHARE);
  become_dear();
  expect_no_look(FIRST - 3, 0);
  looks = tell.looks;
  expect(IN_A_ROW * SHARE, 1);
  assert_int_equal(tell.looks, looks + 1);
  cost(QUICK, FEW);
  expect_no_look(2 * FIRST - 3, 0);
  expect((IN_A_ROW - 1) * SHARE + 1, (IN_A_ROW - 1) * SHARE + 1);
  assert_int_equal(tell.looks, looks + 1 + IN_A_ROW);
}

/* Where small pages are no quicker there is nothing to be won; and they are not asked about while a huge page comes at once. */
static void test_compared_with_small_ones(void **state) {
  NEED_HUGE_PAGES();
  become_quick();
  size_t compared = tell.compared;
  cost(AT_ONCE, 0);
  expect_look(FIRST, FIRST);
  assert_int_equal(tell.compared, compared);
  cost(SLOW_HUGE, SLOW_FEW);
  expect_look(2 * FIRST, 2 * FIRST);
  assert_int_equal(tell.compared, compared + 1);
  cost(2 * (HUGE_BYTES / FEW_BYTES) * (uint64_t)FEW, FEW);
  expect_look(4 * FIRST, 4 * FIRST);
  cost(2 * (HUGE_BYTES / FEW_BYTES) * (uint64_t)FEW + 1, FEW);
  expect_look(8 * FIRST, 1);
}

/* A system that has no memory to compare with has none for huge pages. One that can't tell is believed to be quick. */
static void test_unknown(void **state) {
  NEED_HUGE_PAGES();
  become_quick();
  cost(AT_ONCE + 1, SLOW_FEW);
  tell.refuse = true;
  expect_look(FIRST, 1);
  tell.refuse = false;
  cost(0, 0);
  expect_no_look(FIRST - 3, 0);
  for (int i = 1; i < IN_A_ROW; i++) expect_look(3, 1);
  expect_look(3, 3);
  expect_no_look(FIRST - 3, FIRST - 3);
  cost(AT_ONCE + 1, SLOW_FEW);
  tell.refuse_commit = true;
  expect_look(FIRST, 1);
  tell.refuse_commit = false;
}

static uint8_t *last_unit;

/* Blocks of one unit each, filled, up to the first one in a huge page: how many huge pages were passed by. */
static size_t left_out(void) {
  uint8_t *p = NULL;
  size_t units = 0;
  do {
    p = hd_malloc(HD_UNIT_BYTES);
    assert_non_null(p);
    memset(p, 1, HD_UNIT_BYTES);
    units++;
  } while (!hdi_space_is_huge(p) && units < 1024 * HD_HUGE_UNITS);
  while (((uintptr_t)p + HD_UNIT_BYTES) % HUGE_BYTES != 0) p = hd_malloc(HD_UNIT_BYTES);
  last_unit = p;
  return units / HD_HUGE_UNITS;
}

/* Pages are touched at once, so each huge page for them is looked at; while they are dear, one now and then. */
static void test_pages(void **state) {
  NEED_HUGE_PAGES();
  become_quick();
  left_out();
  for (size_t i = 0; i < 3; i++) {
    size_t looks = tell.looks;
    assert_in_range(left_out(), 0, 8);
    assert_int_equal(tell.looks, looks + 1);
  }
  size_t looks = tell.looks;
  cost(SLOW_HUGE, FEW);
  assert_in_range(left_out(), 0, 8);
  assert_in_range(left_out(), FIRST - 1, FIRST + 8);
  assert_in_range(left_out(), 2 * FIRST - 1, 2 * FIRST + 8);
  assert_int_equal(tell.looks, looks + 3);
}

/* Where threads grow together, the first one to be asked for again may be there before it is looked at; the next one has been asked for by
 * then, and tells. */
static void test_pages_of_several_threads(void **state) {
  NEED_HUGE_PAGES();
  become_dear();
  cost(LEAST - 1, FEW);
  assert_in_range(left_out(), FIRST - 1, FIRST + 8);
  if (hdi_space.top == hdi_space.committed) left_out(); /* nothing to ask for yet */
  assert_true(hdi_space_is_huge(last_unit + HD_UNIT_BYTES));
  cost(SLOW_HUGE, FEW);
  assert_int_equal(left_out(), 0);
  assert_false(hdi_space_is_huge(last_unit + HD_UNIT_BYTES));
}

/* Pages in memory that was given back are touched at once as well. */
static void test_pages_in_given_back_memory(void **state) {
  enum { BYTES = 128 * MIB };
  NEED_HUGE_PAGES();
  become_quick();
  uint8_t *p = hd_malloc(BYTES);
  assert_non_null(hd_malloc(HD_UNIT_BYTES)); /* so that it does not become fresh memory altogether */
  memset(p, 1, BYTES);
  hd_free(p);
  hd_collect(0);
  left_out();
  for (size_t i = 0; i < 2; i++) {
    size_t looks = tell.looks;
    assert_in_range(left_out(), 0, 8);
    assert_int_equal(tell.looks, looks + 1);
    assert_in_range(tell.last, p, p + BYTES - 1);
  }
}

/* A block that was filled is, as it grows. Where it stands, and where it has to move. */
static void test_growth(void **state) {
  NEED_HUGE_PAGES();
  for (int way = 0; way < 4; way++) {
    bool fill = way % 2 != 0, moves = way / 2 != 0;
    become_quick();
    uint8_t *p = expect(4, 4);
    if (fill) memset(p, 1, 4 * HUGE_BYTES);
    if (moves) assert_non_null(hd_malloc(4 * HUGE_BYTES));
    size_t looks = tell.looks;
    uint8_t *q = hd_realloc(p, 4 * HUGE_BYTES * FIRST);
    if (!moves) assert_ptr_equal(q, p);
    if (moves && hdi_os.can_move) assert_ptr_not_equal(q, p);
    if (!moves || hdi_os.can_move) assert_int_equal(tell.looks - looks, fill);
    if (tell.looks > looks) assert_ptr_equal(tell.last, q + 4 * HUGE_BYTES); /* where nobody has asked yet */
    assert_true(hdi_space_is_huge(q + 2 * HUGE_BYTES * FIRST));
    hd_free(q);
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_long_runs_are_looked_at_now_and_then),
      cmocka_unit_test(test_asked_for_before),
      cmocka_unit_test(test_longest_runs_are_not_looked_at),
      cmocka_unit_test(test_dear_ones_are_left_out),
      cmocka_unit_test(test_quick_ones_between_dear_ones),
      cmocka_unit_test(test_one_that_is_there_already),
      cmocka_unit_test(test_many_looks_at_a_long_run),
      cmocka_unit_test(test_compared_with_small_ones),
      cmocka_unit_test(test_unknown),
      cmocka_unit_test(test_pages),
      cmocka_unit_test(test_pages_of_several_threads),
      cmocka_unit_test(test_pages_in_given_back_memory),
      cmocka_unit_test(test_growth),
      cmocka_unit_test(test_system_touches),
  };
  return cmocka_run_group_tests(tests, begin, NULL);
}
