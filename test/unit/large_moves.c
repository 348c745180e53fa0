/* Large blocks where they change: a free run that counts as clean reads as zero whatever a block went through before, and what a block
 * gives up is on nobody's account.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/heap.h"
#include "core/options.h"
#include "core/space.h"
#include "heddle.h"
#include "os/os.h"
#include "pages.h"

#define MIB ((size_t)1 << 20)

/* Memory of every clean run, to its last byte. */
static void check_clean_runs(void) {
  size_t top = hd_load_relaxed(&hdi_space.top);
  for (size_t at = 0; at < top;) {
    hd_unit *unit = hdi_space.units + at;
    unsigned kind = hd_load_relaxed(&unit->kind);
    if (kind == HD_UNIT_CLEAN) {
      const uint8_t *memory = hdi_space_address(&hdi_space, unit);
      size_t bytes = (size_t)unit->run_units << HD_UNIT_SHIFT;
      assert_true(memory[0] == 0 && memcmp(memory, memory + 1, bytes - 1) == 0);
    }
    at += kind == HD_UNIT_CLEAN || kind == HD_UNIT_DIRTY ? unit->run_units : 1;
  }
}

static uint8_t *filled(size_t bytes) {
  uint8_t *p = hd_malloc(bytes);
  assert_non_null(p);
  return memset(p, 0x5a, bytes);
}

/* A block with another right behind it. */
static uint8_t *walled(size_t bytes, void **wall) {
  enum { TRIES = 50 };
  void *passed[2 * TRIES];
  for (size_t count = 0; count < 2 * TRIES; count += 2) {
    uint8_t *p = filled(bytes);
    *wall = filled(MIB);
    if (*wall == p + bytes) {
      for (size_t i = 0; i < count; i++) hd_free(passed[i]);
      return p;
    }
    passed[count] = p;
    passed[count + 1] = *wall;
  }
  fail_msg("no place with a neighbour");
  return NULL;
}

static void move(size_t from, size_t between, size_t to) {
  void *wall = NULL;
  uint8_t *p = walled(from, &wall);
  assert_ptr_equal(hd_realloc(p, between), p);
  uint8_t *moved = hd_realloc(p, to);
  assert_ptr_not_equal(moved, p);
  assert_true(moved[0] == 0x5a && memcmp(moved, moved + 1, between - 1) == 0);
  check_clean_runs();
  hd_free(moved);
  hd_free(wall);
}

static void test_copied_into_dirty_memory(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++) {
    void *old = filled(16 * MIB), *wall = filled(MIB);
    hd_free(old);
    move(MIB / 2, MIB / 2, 3 * MIB);
    hd_free(wall);
  }
}

static void test_moved_by_pages(void **state) {
  (void)state;
  for (int round = 0; round < 3; round++) {
    hd_collect(0);
    move(8 * MIB, 8 * MIB, 32 * MIB);
    move(8 * MIB, 8 * MIB - MIB / 2, 32 * MIB); /* the block has shrunk, the run has not: its end holds old content */
  }
}

static void test_shrunk(void **state) {
  (void)state;
  uint8_t *p = filled(8 * MIB), *wall = filled(MIB);
  for (size_t bytes = 8 * MIB; bytes > MIB; bytes -= bytes / 4) {
    assert_ptr_equal(hd_realloc(p, bytes), p);
    check_clean_runs();
  }
  hd_free(p);
  hd_free(wall);
}

/* Runs freed just now stay with the heap, but no more of them than that. */
static void test_cache_has_bounds(void **state) {
  (void)state;
  void *blocks[HD_CACHE_UNITS * 2];
  for (size_t units = 1; units <= HD_CACHE_RUN; units++) {
    for (size_t i = 0; i < HD_CACHE_UNITS * 2; i++) blocks[i] = filled(units << HD_UNIT_SHIFT);
    for (size_t i = 0; i < HD_CACHE_UNITS * 2; i++) hd_free(blocks[i]);
    assert_in_range(hdi_heap_self->cached_units, HD_CACHE_UNITS / 2, HD_CACHE_UNITS);
    hd_thread_idle();
    assert_int_equal(hdi_heap_self->cached_units, 0);
    for (size_t length = 0; length <= HD_CACHE_RUN; length++) assert_null(hdi_heap_self->cached[length]);
  }
}

/* A resized aligned block holds its own content, and nothing of its neighbours'. */
static void test_aligned_copies_no_neighbour(void **state) {
  (void)state;
  static const char secret[16] = "one's neighbour";
  enum { BYTES = 64, COUNT = 64 };
  char *blocks[COUNT];
  for (int i = 0; i < COUNT; i++) {
    blocks[i] = hd_aligned_alloc(64, BYTES);
    for (size_t at = 0; at < BYTES; at += sizeof secret) memcpy(blocks[i] + at, secret, sizeof secret);
  }
  memset(blocks[7], 0x5a, BYTES);
  char *p = hd_aligned_realloc(blocks[7], 64, MIB);
  for (int i = 0; i < BYTES; i++) assert_int_equal(p[i], 0x5a);
  for (size_t at = BYTES; at < COUNT * BYTES; at += sizeof secret) assert_memory_not_equal(p + at, secret, sizeof secret);
  hd_free(p);
  for (int i = 0; i < COUNT; i++) {
    if (i != 7) hd_free(blocks[i]);
  }
}

/* To shrink needs no memory, so errno is not touched where there is none. */
static void test_shrinks_without_memory(void **state) {
  (void)state;
  void *p = hd_malloc(50000);
  assert_int_equal(hd_option_set("limit", "1"), HD_OK);
  errno = 77;
  assert_ptr_equal(hd_realloc(p, 11000), p);
  assert_int_equal(errno, 77);
  assert_null(hd_realloc(p, 60000));
  assert_int_equal(errno, ENOMEM);
  assert_int_equal(hd_option_set("limit", "0"), HD_OK);
  hd_free(p);
}

static void *new_range(size_t bytes) {
  void *range = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  assert_true(range != MAP_FAILED);
  return range;
}

/* With a limit on address space below what the process has already, the system would refuse a move and leave a hole at the target. */
static void test_no_hole_under_a_limit(void **state) {
  (void)state;
  const size_t bytes = 4 << 20;
  uint8_t *from = new_range(bytes), *to = new_range(bytes);
  memset(from, 5, bytes);
  pid_t pid = fork();
  if (pid == 0) {
    struct rlimit tight = {bytes / 2, RLIM_INFINITY};
    int wrong = setrlimit(RLIMIT_AS, &tight) == 0 ? 0 : 1;
    if (hdi_os_move(from, to, bytes)) wrong |= 2;
    for (size_t at = 0; at < bytes; at += 4096) wrong |= from[at] == 5 && to[at] == 0 ? 0 : 4;
    _exit(wrong);
  }
  int status = 1;
  assert_true(pid > 0 && waitpid(pid, &status, 0) == pid);
  assert_int_equal(status, 0);
  bool moves = hdi_os_move(from, to, bytes);
  for (size_t at = 0; at < bytes; at += 4096) assert_true(from[at] == (moves ? 0 : 5) && to[at] == (moves ? 5 : 0));
  munmap(from, bytes);
  munmap(to, bytes);
}

static void *grow_first_of_all(void *block) {
  assert_true(hdi_heap_is_empty(hdi_heap_self));
  return hd_realloc(block, 64 * MIB);
}

static size_t moved_total(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  assert_true(hd_stats_get(&stats));
  return stats.moved_total;
}

/* A thread whose first call resizes another one's block moves its pages as well. */
static void test_moved_by_a_new_thread(void **state) {
  (void)state;
  void *wall = NULL, *moved = NULL;
  uint8_t *p = walled(16 * MIB, &wall);
  size_t before = moved_total();
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, grow_first_of_all, p), 0);
  assert_int_equal(pthread_join(thread, &moved), 0);
  assert_ptr_not_equal(moved, p);
  assert_int_equal(moved_total() - before, 16 * MIB);
  hd_free(moved);
  hd_free(wall);
}

int main(void) {
  hd_option_set("purge", "off"); /* or runs become clean behind the test's back */
  only_pages();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_shrinks_without_memory),
      cmocka_unit_test(test_copied_into_dirty_memory),
      cmocka_unit_test(test_moved_by_pages),
      cmocka_unit_test(test_moved_by_a_new_thread),
      cmocka_unit_test(test_shrunk),
      cmocka_unit_test(test_no_hole_under_a_limit),
      cmocka_unit_test(test_cache_has_bounds),
      cmocka_unit_test(test_aligned_copies_no_neighbour),
  };
  return cmocka_run_group_tests_name("large_moves", tests, NULL, NULL);
}
