/* Large blocks: growing in place, by copies and by moved pages keeps the option `limit` and a heap's own limit; what is misused is told.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/large.h"
#include "core/options.h"
#include "core/purge.h"
#include "core/thread.h"
#include "heddle.h"
#include "os/os.h"
#include "worker.h"

#define MIB ((size_t)1 << 20)

/* Bytes that the option `limit` counts. */
static size_t held(void) { return (hd_load_relaxed(&hdi_space.top) - hd_load_relaxed(&hdi_space.free_units)) << HD_UNIT_SHIFT; }

static void limit_to(size_t bytes) {
  char text[32];
  snprintf(text, sizeof text, "%zu", bytes);
  assert_int_equal(hd_option_set("limit", text), HD_OK);
}

/* A block of `bytes` that grows step by step under a limit of 16 MiB more than is held: not one step beyond. */
static void grow_under_limit(size_t bytes, bool in_place, bool blocked) {
  hd_collect(0);
  size_t limit = held() + 16 * MIB;
  limit_to(limit);
  uint8_t *p = hd_malloc(bytes);
  assert_non_null(p);
  memset(p, 0x5a, bytes);
  void *behind = blocked ? hd_malloc(100000) : NULL; /* or it would always grow where it stands */
  errno = 0;
  for (size_t more = bytes + MIB;; more += MIB) {
    void *grown = in_place ? hd_expand(p, more) : hd_realloc(p, more);
    assert_true(held() <= limit);
    if (grown == NULL) break;
    p = grown;
    assert_true(more <= 16 * MIB);
    assert_int_equal(p[bytes - 1], 0x5a);
  }
  assert_int_equal(errno, in_place ? 0 : ENOMEM);
  assert_int_equal(p[0], 0x5a); /* still valid and unchanged */
  hd_free(p);
  hd_free(behind);
  limit_to(0);
}

static void test_limit_in_place(void **state) {
  (void)state;
  grow_under_limit(MIB, true, false);
  grow_under_limit(MIB, false, false);
}

static void test_limit_by_moves(void **state) {
  (void)state;
  grow_under_limit(MIB, false, true);
  grow_under_limit(6 * MIB, false, true);
}

/* Dirty memory is at hand, and still not the program's to take. */
static void test_limit_by_copies(void **state) {
  (void)state;
  hd_option_set("purge", "off");
  uint8_t *dirty = hd_malloc(24 * MIB), *fence = hd_malloc(100000);
  memset(dirty, 1, 24 * MIB);
  size_t limit = held() - 24 * MIB + 8 * MIB;
  hd_free(dirty);
  uint8_t *p = hd_malloc(MIB), *behind = hd_malloc(100000);
  limit_to(limit);
  for (size_t more = 2 * MIB; more <= 20 * MIB; more += MIB) {
    void *grown = hd_realloc(p, more);
    assert_true(held() <= limit);
    if (grown == NULL) break;
    p = grown;
    assert_true(more <= 8 * MIB);
  }
  limit_to(0);
  hd_free(p);
  hd_free(behind);
  hd_free(fence);
  hd_option_set("purge", "on");
}

/* Without mremap a block that can't grow in place is copied. */
static void test_without_moves(void **state) {
  (void)state;
  bool could = hdi_os.can_move;
  hdi_os.can_move = false;
  uint8_t *p = hd_malloc(6 * MIB), *behind = hd_malloc(100000), *filled = hd_malloc(8 * MIB);
  memset(p, 0x33, 6 * MIB);
  memset(filled, 0x44, 8 * MIB);
  hd_free(filled);
  uint8_t *recycled = hd_malloc(30 * MIB); /* would be filled with its pages */
  assert_non_null(recycled);
  p = hd_realloc(p, 12 * MIB);
  for (size_t i = 0; i < 6 * MIB; i += 4096) assert_int_equal(p[i], 0x33);
  hd_free(recycled);
  hd_free(behind);
  hd_free(p);
  hdi_os.can_move = could;
}

/* A thread's heap never gets the block of an explicit heap by a move, and an explicit heap none at all. */
static void test_moves_of_heaps(void **state) {
  (void)state;
  hd_heap *heap = hd_heap_create(NULL);
  uint8_t *own = hd_heap_malloc(heap, MIB), *common = hd_malloc(MIB);
  assert_null(hdi_large_move(hdi_thread_heap(), hdi_space_find(own), 2 * MIB));
  assert_null(hdi_large_move(heap, hdi_space_find(common), 2 * MIB));
  hd_free(common);
  hd_heap_destroy(heap);
}

static bool system_is_silent, system_lies, purge_is_refused;

size_t __real_hdi_os_resident_until(const void *address, size_t bytes, size_t *end);
size_t __wrap_hdi_os_resident_until(const void *address, size_t bytes, size_t *end);
size_t __wrap_hdi_os_resident_until(const void *address, size_t bytes, size_t *end) {
  if (!system_is_silent) return __real_hdi_os_resident_until(address, bytes, end);
  *end = bytes;
  return 0;
}

/* Of what was swapped out it says that it is not resident. */
bool __real_hdi_os_resident_pages(const void *address, size_t pages, uint8_t *resident);
bool __wrap_hdi_os_resident_pages(const void *address, size_t pages, uint8_t *resident);
bool __wrap_hdi_os_resident_pages(const void *address, size_t pages, uint8_t *resident) {
  if (system_is_silent || !__real_hdi_os_resident_pages(address, pages, resident)) return false;
  for (size_t i = 0; system_lies && i < pages; i++) resident[i] = i % 10 < 3;
  return true;
}

bool __real_hdi_os_purge(void *address, size_t bytes);
bool __wrap_hdi_os_purge(void *address, size_t bytes);
bool __wrap_hdi_os_purge(void *address, size_t bytes) { return !purge_is_refused && __real_hdi_os_purge(address, bytes); }

/* Where a block of that length was freed that nobody has touched. */
static uint8_t *take_old(size_t bytes) {
  hd_collect(0);
  uint8_t *old = hd_malloc(bytes);
  assert_non_null(old);
  if (hdi_options.thp == HD_THP_NEVER) { /* whatever the tests before left there */
    assert_int_equal(madvise(old, bytes, MADV_NOHUGEPAGE) | madvise(old, bytes, MADV_DONTNEED), 0);
  }
  return old;
}

/* A zeroed one there. */
static uint8_t *take_zeroed(uint8_t *old, size_t bytes) {
  hd_free(old);
  hd_unit *sparse = hdi_space_take_sparse(&hdi_space, bytes / HD_UNIT_BYTES, 1); /* kept for a block of malloc, if it was looked at */
  if (sparse != NULL) hdi_space_give(&hdi_space, sparse, sparse->run_units, true);
  uint8_t *p = hd_calloc(1, bytes);
  assert_ptr_equal(p, old);
  return p;
}

static void check_zero(const uint8_t *p, size_t bytes) {
  for (size_t at = 0; at < bytes; at += hdi_os.page_bytes / 2 + 8) assert_int_equal(*(const uint64_t *)(const void *)(p + at), 0);
}

/* A zeroed block where one of the same length was freed, of whose first part every so-many-th page had been filled: how much of it is
 * resident. */
static size_t resident_when_cleared(size_t bytes, size_t part, size_t step) {
  uint8_t *old = take_old(bytes);
  for (size_t at = 0; at < part; at += step * hdi_os.page_bytes) memset(old + at, 0x5a, hdi_os.page_bytes);
  uint8_t *p = take_zeroed(old, bytes);
  size_t resident = hdi_os_resident_in(p, bytes);
  check_zero(p, bytes);
  hd_free(p);
  return resident;
}

/* Long ones of 4 MiB and more are cleared piece by piece, where what is resident of 4 MiB lies together or is a quarter of the used part,
 * above 20 MiB three quarters; and exchanged where less is, where there is very much of it, or above 20 MiB nothing in its middle. What
 * follows a piece without any is exchanged unseen. */
static void test_long_ones_cleared_or_exchanged(void **state) {
  (void)state;
  const size_t page = hdi_os.page_bytes;
  assert_int_equal(resident_when_cleared(5 * MIB, 5 * MIB, 1), 5 * MIB);
  size_t odd = 5 * MIB + 13 * page;
  assert_int_equal(resident_when_cleared(odd, odd, 1), odd);
  assert_int_equal(resident_when_cleared(128 * MIB, 128 * MIB, 1), 128 * MIB);
  assert_int_equal(resident_when_cleared(128 * MIB + HD_UNIT_BYTES, 128 * MIB, 1), 0);
  hdi_options.thp = HD_THP_NEVER;
  assert_int_equal(resident_when_cleared(6 * MIB, 6 * MIB, 2), 6 * MIB - 2 * page);
  assert_int_equal(resident_when_cleared(6 * MIB, 6 * MIB, 5), 0);
  assert_int_equal(resident_when_cleared(64 * MIB, 64 * MIB, 1000), 0);
  assert_int_equal(resident_when_cleared(14 * MIB, 6 * MIB, 1), 6 * MIB);
  assert_int_equal(resident_when_cleared(14 * MIB, 8 * MIB, 1), 8 * MIB);
  size_t asked = 8 * MIB + page; /* one page of the third piece */
  assert_int_equal(resident_when_cleared(14 * MIB, asked, 1), asked);
  assert_int_equal(resident_when_cleared(20 * MIB, 7 * MIB, 1), 7 * MIB);
  assert_int_equal(resident_when_cleared(24 * MIB, 11 * MIB, 1), 0);
  assert_int_equal(resident_when_cleared(24 * MIB, 13 * MIB, 1), 13 * MIB);
  assert_int_equal(resident_when_cleared(24 * MIB, 24 * MIB, 2), 0);
  hdi_options.thp = HD_THP_AUTO;
}

/* Shorter ones, from 256 KiB on, are looked at as a whole. */
static void test_front_cleared(void **state) {
  (void)state;
  const size_t page = hdi_os.page_bytes, most = 4 * MIB - page, least = 256 * 1024;
  hdi_options.thp = HD_THP_NEVER;
  assert_int_equal(resident_when_cleared(2 * MIB, 2 * MIB, 1), 2 * MIB);
  assert_int_equal(resident_when_cleared(most, MIB, 1), MIB);
  assert_int_equal(resident_when_cleared(most, MIB, 4), MIB - 3 * page);
  assert_int_equal(resident_when_cleared(most, MIB, 5), 0);
  assert_int_equal(resident_when_cleared(most, 0, 1), 0);
  assert_int_equal(resident_when_cleared(least, page, 1), page);
  assert_int_equal(resident_when_cleared(least - page, page, 1), least - page);
  system_is_silent = true;
  assert_int_equal(resident_when_cleared(most, page, 1), most);
  assert_int_equal(resident_when_cleared(4 * MIB, 4 * MIB, 1), 0);
  system_is_silent = false;
  hdi_options.thp = HD_THP_AUTO;
}

/* Parts that are used stay resident, with short holes between them; what is not resident is exchanged. */
static void test_parts_cleared(void **state) {
  (void)state;
  static const struct {
    size_t from, to;
  } used[] = {{3, 10}, {14, 20}, {25, 31}, {511, 512}};
  enum { PAGES = 512 };
  const size_t page = hdi_os.page_bytes, bytes = PAGES * page;
  uint8_t resident[PAGES];
  if (page != 4096) skip();
  hdi_options.thp = HD_THP_NEVER;
  uint8_t *old = take_old(bytes);
  for (size_t i = 0; i < sizeof used / sizeof *used; i++) memset(old + used[i].from * page, 0x5a, (used[i].to - used[i].from) * page);
  uint8_t *p = take_zeroed(old, bytes);
  assert_true(__real_hdi_os_resident_pages(p, PAGES, resident));
  for (size_t i = 0; i < PAGES; i++) assert_int_equal(resident[i], (i >= 3 && i < 20) || (i >= 25 && i < 31) || i == 511);
  check_zero(p, bytes);
  hd_free(p);
  hdi_options.thp = HD_THP_AUTO;
}

/* Nor is it taken for zero, nor lost where the system refuses to exchange it. */
static void test_what_is_not_resident(void **state) {
  (void)state;
  hdi_options.thp = HD_THP_NEVER;
  system_lies = true;
  assert_in_range(resident_when_cleared(2 * MIB, 2 * MIB, 1), MIB / 2, MIB);
  assert_in_range(resident_when_cleared(6 * MIB, 6 * MIB, 1), MIB, 3 * MIB);
  system_lies = false;
  uint8_t *old = take_old(2 * MIB);
  memset(old, 0x5a, 2 * MIB);
  system_lies = purge_is_refused = true;
  uint8_t *p = take_zeroed(old, 2 * MIB);
  check_zero(p, 2 * MIB);
  system_lies = purge_is_refused = false;
  hd_free(p);
  hdi_options.thp = HD_THP_AUTO;
}

enum { TABLES = 6, TABLE_BYTES = 512 * 1024 };

/* A zeroed table that is used here and there: what was resident of it. */
static size_t use_table(uint8_t **table) {
  assert_non_null(*table = hd_calloc(1, TABLE_BYTES));
  size_t resident = hdi_os_resident_in(*table, TABLE_BYTES);
  for (size_t at = 0; at < TABLE_BYTES; at += 20 * hdi_os.page_bytes) (*table)[at] = 1;
  return resident;
}

/* Each of many such tables is exchanged every time it is taken again, and one that is taken more often stays resident in the end. */
static void test_many_exchanged(void **state) {
  (void)state;
  enum { TIMES = 80, MORE = 5 };
  uint8_t *table[TABLES];
  size_t kept = 0;
  hdi_options.thp = HD_THP_NEVER;
  hd_collect(0);
  for (unsigned time = 0; time < 2 * TIMES; time++) {
    size_t resident = 0;
    for (unsigned i = 0; i < TABLES; i++) resident += use_table(&table[i]);
    if (time < TIMES) assert_int_equal(resident, 0);
    for (unsigned more = 0; time >= TIMES && more < MORE; more++) {
      hd_free(table[0]);
      kept = use_table(&table[0]);
    }
    for (unsigned i = TABLES; i-- > 0;) hd_free(table[i]);
  }
  assert_true(kept > 0);
  hdi_options.thp = HD_THP_AUTO;
}

/* One alone is so until it has been taken many times; a long one always. */
static void test_one_kept(void **state) {
  (void)state;
  enum { TIMES = 40 };
  unsigned first = 0, kept = 0;
  hdi_options.thp = HD_THP_NEVER;
  for (unsigned i = 1; i <= TIMES; i++) {
    bool is = resident_when_cleared(3 * MIB, 3 * MIB, 20) > 0;
    if (is && first == 0) first = i;
    kept += is;
    assert_int_equal(resident_when_cleared(4 * MIB, 4 * MIB, 20), 0);
  }
  assert_in_range(first, 10, 22); /* tests before may have taken it, or others */
  assert_int_equal(kept, TIMES - first + 1);
  hdi_options.thp = HD_THP_AUTO;
}

/* What is resident of a block of calloc that is not looked at, on memory that nobody touched before. */
static size_t resident_when_fresh(size_t bytes) {
  hd_collect(0);
  uint8_t *p = hd_calloc(1, bytes);
  assert_non_null(p);
  size_t resident = hdi_os_resident_in(p, hd_round_up(bytes, hdi_os.page_bytes));
  hd_free(p);
  return resident;
}

/* Up to 1 MiB is touched while another thread has a heap, so that no page is faulted in twice. */
static void test_touched_among_threads(void **state) {
  (void)state;
  static worker other;
  const size_t some = 300 * 1000, whole = hd_round_up(some, hdi_os.page_bytes);
  hdi_options.thp = HD_THP_NEVER;
  assert_int_equal(resident_when_fresh(some), 0);
  assert_int_equal(worker_start(&other), 0);
  assert_int_equal(resident_when_fresh(some), whole);
  assert_int_equal(resident_when_fresh(MIB), MIB);
  assert_int_equal(resident_when_fresh(MIB + 1), 0);
  assert_int_equal(resident_when_cleared(MIB, hdi_os.page_bytes, 1), MIB);
  assert_int_equal(resident_when_cleared(2 * MIB, hdi_os.page_bytes, 1), hdi_os.page_bytes);
  worker_end(&other);
  assert_int_equal(resident_when_fresh(some), 0);
  hdi_options.thp = HD_THP_AUTO;
}

/* Of a thread's block that has been freed only `live` changes while its heap keeps the run: the next one of as many units needs no more. */
static void test_kept_run(void **state) {
  (void)state;
  enum { UNITS = 4, BYTES = UNITS * HD_UNIT_BYTES - 5000, WIDE = 20000 };
  hdi_heap_drop_runs(hdi_heap_self);
  uint8_t *p = hd_malloc(BYTES + 4096);
  hd_unit *unit = hdi_space_find(p);
  memset(p, 1, BYTES);
  hd_free(p);
  assert_ptr_equal(hdi_heap_self->cached[UNITS], unit);
  assert_true(hd_load_relaxed(&unit->kind) == HD_UNIT_LARGE && hd_load_relaxed(&unit->live) == 0);
  assert_ptr_equal(hd_malloc(BYTES), p);
  assert_int_equal(hd_usable_size(p), hd_round_up(BYTES, hdi_os.page_bytes));
  hd_free(p);
  assert_ptr_equal(hd_calloc(1, BYTES), p); /* by the way through the heap */
  for (size_t i = 0; i < BYTES; i++) assert_int_equal(p[i], 0);
  hd_free(p);
  /* Another use: it is a large block no more. */
  void *blocks[32];
  size_t count = 0;
  for (bool page = false; !page && count < 32; count++) {
    blocks[count] = hd_malloc(WIDE);
    page = hd_load_relaxed(&unit->kind) == HD_UNIT_PAGE;
  }
  assert_int_equal(hd_load_relaxed(&unit->kind), HD_UNIT_PAGE);
  while (count > 0) hd_free(blocks[--count]);
  /* None: they go back to the space, which makes one free run of them. */
  hdi_heap_drop_runs(hdi_heap_self);
  for (size_t i = 0; i < 4; i++) assert_non_null(blocks[i] = hd_malloc(BYTES));
  for (size_t i = 4; i-- > 0;) hd_free(blocks[i]); /* the lowest one goes first */
  hdi_heap_drop_runs(hdi_heap_self);
  for (size_t i = 0; i < 4; i++) assert_int_not_equal(hd_load_relaxed(&hdi_space_find(blocks[i])->kind), HD_UNIT_LARGE);
}

/* A program may free nothing but what its heaps keep: that starts the helper as well, which gives it back. A child has none yet. */
static void test_kept_run_starts_helper(void **state) {
  (void)state;
  int status = -1;
  assert_true(hd_load_relaxed(&hdi_space.top) >= HD_PURGE_MIN_UNITS);
  pid_t child = fork();
  if (child == 0) {
    hd_unit *unit = hdi_space_find(hd_malloc(3 * HD_UNIT_BYTES));
    bool before = hd_load_relaxed(&hdi_purge_running) != 0;
    hd_free(unit->base);
    bool kept = hd_load_relaxed(&unit->live) == 0 && hd_load_relaxed(&unit->kind) == HD_UNIT_LARGE;
    _exit(before ? 1 : !kept ? 2 : hd_load_relaxed(&hdi_purge_running) == 0 ? 3 : 0);
  }
  assert_int_equal(waitpid(child, &status, 0), child);
  assert_int_equal(status, 0);
}

static int misuses;
static void count(const void *p, const char *code) {
  (void)p, (void)code;
  misuses++;
}

static void test_misuse(void **state) {
  (void)state;
  hd_option_set("onerror", "ignore");
  hd_misuse_hook_set(count);
  uint8_t *p = hd_malloc(MIB);
  hd_free(p + 16);
  hd_free(p + HD_UNIT_BYTES);
  assert_int_equal(misuses, 2);
  assert_int_equal(hd_usable_size(p + 16), 0);
  assert_null(hd_realloc(p + 16, 100));
  assert_null(hd_expand(p + HD_UNIT_BYTES, 100));
  assert_int_equal(misuses, 5);
  hd_free(p);
  hd_free(p);
  assert_int_equal(hd_usable_size(p), 0);
  assert_int_equal(misuses, 7);
  hd_misuse_hook_set(NULL);
  hd_option_set("onerror", "abort");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_limit_in_place), cmocka_unit_test(test_limit_by_moves), cmocka_unit_test(test_limit_by_copies),
      cmocka_unit_test(test_without_moves),  cmocka_unit_test(test_moves_of_heaps), cmocka_unit_test(test_misuse),
      cmocka_unit_test(test_long_ones_cleared_or_exchanged), cmocka_unit_test(test_front_cleared), cmocka_unit_test(test_kept_run),
      cmocka_unit_test(test_parts_cleared), cmocka_unit_test(test_what_is_not_resident), cmocka_unit_test(test_many_exchanged),
      cmocka_unit_test(test_one_kept),
      cmocka_unit_test(test_touched_among_threads), cmocka_unit_test(test_kept_run_starts_helper),
  };
  return cmocka_run_group_tests_name("large", tests, NULL, NULL);
}
