/* As much of cmocka's interface as Heddle's tests use, for machines that have no such library: tests of one thread that run one
 * after the other, each ended by its first failure.
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_CROSS_CMOCKA_H
#define HEDDLE_CROSS_CMOCKA_H

#include <setjmp.h>
#include <stdarg.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>

typedef struct CMUnitTest {
  const char *name;
  void (*run)(void **state);
  int (*before)(void **state);
  int (*after)(void **state);
} CMUnitTest;

enum { CROSS_PASSED, CROSS_FAILED, CROSS_SKIPPED };

static jmp_buf cross_end;

static inline _Noreturn void cross_fail(const char *file, int line, const char *form, ...) {
  va_list more;
  va_start(more, form);
  printf("%s:%d: ", file, line);
  vprintf(form, more);
  printf("\n");
  va_end(more);
  longjmp(cross_end, CROSS_FAILED);
}

static inline void cross_is(int yes, const char *text, const char *file, int line) {
  if (!yes) cross_fail(file, line, "not true: %s", text);
}

/* wanted: whether a and b shall be equal. */
static inline void cross_compare(int wanted, uintmax_t a, uintmax_t b, const char *file, int line) {
  if ((a == b) != wanted) cross_fail(file, line, "%#jx %s %#jx", a, wanted ? "!=" : "==", b);
}

static inline void cross_texts(int wanted, const char *a, const char *b, const char *file, int line) {
  if ((strcmp(a, b) == 0) != wanted) cross_fail(file, line, "\"%s\" %s \"%s\"", a, wanted ? "!=" : "==", b);
}

static inline void cross_range(uintmax_t value, uintmax_t least, uintmax_t most, const char *file, int line) {
  if (value < least || value > most) cross_fail(file, line, "%ju is not in %ju..%ju", value, least, most);
}

#define CROSS_HERE __FILE__, __LINE__
#define assert_true(x) cross_is((x) ? 1 : 0, #x, CROSS_HERE)
#define assert_false(x) cross_is((x) ? 0 : 1, "!(" #x ")", CROSS_HERE)
#define assert_null(p) cross_is((p) == NULL, #p " == NULL", CROSS_HERE)
#define assert_non_null(p) cross_is((p) != NULL, #p " != NULL", CROSS_HERE)
#define assert_int_equal(a, b) cross_compare(1, (uintmax_t)(a), (uintmax_t)(b), CROSS_HERE)
#define assert_int_not_equal(a, b) cross_compare(0, (uintmax_t)(a), (uintmax_t)(b), CROSS_HERE)
#define assert_ptr_equal(a, b) cross_compare(1, (uintptr_t)(a), (uintptr_t)(b), CROSS_HERE)
#define assert_ptr_not_equal(a, b) cross_compare(0, (uintptr_t)(a), (uintptr_t)(b), CROSS_HERE)
#define assert_string_equal(a, b) cross_texts(1, (a), (b), CROSS_HERE)
#define assert_string_not_equal(a, b) cross_texts(0, (a), (b), CROSS_HERE)
#define assert_memory_equal(a, b, bytes) cross_is(memcmp((a), (b), (bytes)) == 0, #a " holds the same as " #b, CROSS_HERE)
#define assert_in_range(x, least, most) cross_range((uintmax_t)(x), (uintmax_t)(least), (uintmax_t)(most), CROSS_HERE)
#define fail() cross_fail(CROSS_HERE, "fail()")
#define fail_msg(...) cross_fail(CROSS_HERE, __VA_ARGS__)
#define skip() longjmp(cross_end, CROSS_SKIPPED)

#define cmocka_unit_test(f) {#f, f, NULL, NULL}
#define cmocka_unit_test_setup(f, before) {#f, f, before, NULL}
#define cmocka_unit_test_setup_teardown(f, before, after) {#f, f, before, after}

static inline int cross_run_one(const CMUnitTest *test, void **state) {
  int end = setjmp(cross_end);
  if (end == 0) {
    if (test->before != NULL && test->before(state) != 0) return CROSS_FAILED;
    test->run(state);
  }
  if (test->after != NULL && test->after(state) != 0) return CROSS_FAILED;
  return end;
}

static inline int cross_run_all(const CMUnitTest *tests, size_t count, int (*before)(void **), int (*after)(void **)) {
  static const char *const words[] = {"passed", "FAILED", "skipped"};
  void *state = NULL;
  int failures = 0;
  if (before != NULL && before(&state) != 0) return 1;
  for (size_t i = 0; i < count; i++) {
    int end = cross_run_one(&tests[i], &state);
    failures += end == CROSS_FAILED;
    printf("%s: %s\n", tests[i].name, words[end]);
    fflush(stdout);
  }
  if (after != NULL && after(&state) != 0) failures++;
  return failures;
}

#define cmocka_run_group_tests(tests, before, after) cross_run_all((tests), sizeof(tests) / sizeof *(tests), (before), (after))
#define cmocka_run_group_tests_name(name, tests, before, after) ((void)(name), cmocka_run_group_tests(tests, before, after))

#endif
