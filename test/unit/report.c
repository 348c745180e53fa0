/* Reports of misuse as lines: each kind of memory, names of any length, checks that fail; written by a child, read here.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "core/check.h"
#include "core/gate.h"
#include "core/report.h"
#include "core/space.h"
#include "heddle.h"
#include "heddle/arena.h"

static char line[4096];

/* What a child that runs `act` writes to stderr; how it ended. */
static int told_by(void (*act)(void)) {
  int ends[2], status = 0;
  assert_int_equal(pipe(ends), 0);
  pid_t child = fork();
  if (child == 0) {
    dup2(ends[1], 2);
    act();
    _exit(0);
  }
  close(ends[1]);
  size_t have = 0;
  for (ssize_t part; (part = read(ends[0], line + have, sizeof line - 1 - have)) > 0;) have += (size_t)part;
  line[have] = 0;
  close(ends[0]);
  assert_int_equal(waitpid(child, &status, 0), child);
  return WIFSIGNALED(status) ? WTERMSIG(status) : 0;
}

static bool ends_with(const char *end) {
  size_t length = strlen(line), tail = strlen(end);
  return length >= tail && strcmp(line + length - tail, end) == 0;
}

/* One line, that ends with its code. */
static void assert_report(const char *code, const char *part) {
  char end[16] = " [";
  strcat(strcat(end, code), "]\n");
  assert_true(ends_with(end));
  assert_ptr_equal(strchr(line, '\n'), line + strlen(line) - 1);
  assert_non_null(strstr(line, part));
}

static char *arena_name;

static void free_in_arena(void) {
  hd_arena_config config = {.struct_bytes = sizeof config, .name = arena_name};
  hd_arena *arena = hd_arena_create(&config);
  hd_free(hd_arena_alloc(arena, 100));
}

static void test_names(void **state) {
  (void)state;
  static char name[600];
  arena_name = NULL;
  assert_int_equal(told_by(free_in_arena), SIGABRT);
  assert_report("HD-E07", ", memory of an arena [");
  arena_name = name;
  for (size_t length = 1; length < sizeof name; length = length * 2 + 1) {
    memset(name, 'n', length);
    assert_int_equal(told_by(free_in_arena), SIGABRT);
    assert_report("HD-E07", ", memory of an arena 'n");
  }
}

static void test_kinds(void **state) {
  (void)state;
  assert_string_equal(hdi_area_kind_text(HD_AREA_PAGE), "a page");
  assert_string_equal(hdi_area_kind_text(HD_AREA_HANDLES), "a table of handles");
  assert_string_equal(hdi_area_kind_text((hd_area_kind)99), "an object");
}

static void fail_check(void) { HD_UNREACHABLE("a test says so"); }

static void test_check(void **state) {
  (void)state;
  assert_int_equal(told_by(fail_check), SIGABRT);
  assert_report("HD-E06", "heddle: internal check failed: a test says so at ");
  assert_non_null(strstr(line, "report.c:"));
}

static int local;
static void realloc_stack(void) {
  hd_option_set("onerror", "report");
  hdi_report_foreign("realloc", &local);
}

static void test_foreign(void **state) {
  (void)state;
  assert_int_equal(told_by(realloc_stack), 0);
  assert_report("HD-E05", "realloc of 0x");
}

/* Addresses of the window that no block has been handed out in yet. */
static uint8_t *beyond;
static void use_beyond(void) {
  hd_option_set("onerror", "report");
  beyond = hdi_space.base + ((hdi_space.unit_count - 1) << HD_UNIT_SHIFT);
  if (hd_usable_size(beyond) != 0 || hd_realloc(beyond, 10) != NULL || hd_expand(beyond, 10) != NULL) _exit(3);
  hd_free(beyond);
}

static void test_never_handed_out(void **state) {
  (void)state;
  hd_free(hd_malloc(1));
  assert_int_equal(told_by(use_beyond), 0);
  assert_non_null(strstr(line, "usable_size of 0x"));
  assert_non_null(strstr(line, "realloc of 0x"));
  assert_non_null(strstr(line, "free of 0x"));
  assert_null(strstr(line, "expand")); /* asks only whether it can */
}

/* The run that the heap keeps is taken for something else and kept again: nothing says any more what stood there. */
static void unmark_kept(size_t units) {
  bool zeroed = false;
  hdi_gate_enter(hdi_heap_self);
  hdi_heap_give_run(hdi_heap_self, hdi_heap_take_run(hdi_heap_self, units, 1, &zeroed), units, true);
  hdi_gate_leave(hdi_heap_self);
}

/* Right behind a block that is in use: not a part of it. */
static void free_neighbour_twice(void) {
  enum { COUNT = 64, BYTES = 2 * HD_UNIT_BYTES };
  char *block[COUNT];
  hd_option_set("onerror", "report");
  for (int i = 0; i < COUNT; i++) block[i] = hd_malloc(BYTES);
  for (int i = 1; i < COUNT; i++) {
    if (block[i] != block[i - 1] + BYTES) continue;
    hd_free(block[i]);
    unmark_kept(BYTES >> HD_UNIT_SHIFT);
    hd_free(block[i]);
    return;
  }
}

static void test_behind_a_block(void **state) {
  (void)state;
  assert_int_equal(told_by(free_neighbour_twice), 0);
  assert_report("HD-E03", "double free of 0x");
}

/* The window's first unit: nothing stands in front of it. */
static void free_first_unit(void) {
  hd_option_set("onerror", "report");
  hd_store_relaxed(&hdi_space.units->kind, HD_UNIT_NONE);
  hdi_report_misuse("free", hdi_space.base, hdi_space.units);
}

static void test_first_unit(void **state) {
  (void)state;
  hd_free(hd_malloc(1)); /* a page */
  assert_int_equal(told_by(free_first_unit), 0);
  assert_report("HD-E03", "double free of 0x");
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_names),   cmocka_unit_test(test_kinds),            cmocka_unit_test(test_check),
      cmocka_unit_test(test_foreign), cmocka_unit_test(test_never_handed_out), cmocka_unit_test(test_behind_a_block),
      cmocka_unit_test(test_first_unit),
  };
  return cmocka_run_group_tests_name("report", tests, NULL, NULL);
}
