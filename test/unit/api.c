/* The public functions' own decisions: configs of heaps, heaps in memory of the caller's until there is no place for one more, what a
 * heap with one user makes of pointers that are not its own.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/heap.h"
#include "heddle.h"

#define MIB ((size_t)1 << 20)

static int watch(void **state) {
  (void)state;
  hd_misuse_hook_set(ts_count_report);
  return hd_option_set("onerror", "ignore");
}

/* The call before led to exactly one report, with this code. */
static void assert_told(const char *code) {
  assert_int_equal(ts_reports.count, 1);
  assert_string_equal(ts_reports.code, code);
  ts_reports.count = 0;
}

static hd_heap *create(hd_heap_config config, int error) {
  errno = 0;
  hd_heap *heap = hd_heap_create(&config);
  assert_int_equal(errno, error);
  assert_int_equal(heap == NULL, error != 0);
  return heap;
}

static void test_configs(void **state) {
  (void)state;
  static _Alignas(64) char memory[2 << 20];
  hd_heap_destroy(create((hd_heap_config){0}, 0)); /* a length of 0 is this version's */
  hd_heap_destroy(create((hd_heap_config){.struct_bytes = offsetof(hd_heap_config, one_user)}, 0));
  hd_heap_destroy(create((hd_heap_config){.struct_bytes = 2 * sizeof(hd_heap_config)}, 0));
  create((hd_heap_config){.struct_bytes = 8}, EINVAL);
  create((hd_heap_config){.memory_bytes = MIB}, EINVAL);
  create((hd_heap_config){.memory = memory, .memory_bytes = MIB - 1}, EINVAL);
  create((hd_heap_config){.memory = (void *)(UINTPTR_MAX - MIB), .memory_bytes = 2 * MIB}, EINVAL);
  hd_heap_destroy(create((hd_heap_config){.memory = memory + 1, .memory_bytes = MIB}, 0));
  hd_heap_destroy(NULL);
  assert_null(hd_heap_of(NULL));
  assert_null(hd_heap_of(memory));
}

/* Heaps in memory of their own, as many as there are places, then one too many; each place can be used again. */
static void test_own_memory(void **state) {
  (void)state;
  enum { MOST = 64 };
  static hd_heap *heaps[MOST];
  uint8_t *memory = hd_malloc((MOST + 1) * MIB);
  for (size_t round = 0; round < 2; round++) {
    for (size_t i = 0; i < MOST; i++) {
      heaps[i] = create((hd_heap_config){.memory = memory + i * MIB, .memory_bytes = MIB, .limit_bytes = 1}, 0);
      void *p = hd_heap_zalloc(heaps[i], 100);
      assert_ptr_equal(hd_heap_of(p), heaps[i]);
      assert_ptr_equal(hdi_space_of(hdi_space_find(p)), heaps[i]->space);
      assert_null(hd_heap_malloc(heaps[i], 5000)); /* a limit of one unit, which the other class has */
    }
    create((hd_heap_config){.memory = memory + MOST * MIB, .memory_bytes = MIB}, ENOMEM);
    for (size_t i = round; i < MOST; i += 2) hd_heap_destroy(heaps[i]);
    for (size_t i = 1 - round; i < MOST; i += 2) hd_heap_destroy(heaps[i]);
  }
  hd_free(memory);
}

static void test_realloc_of_others(void **state) {
  (void)state;
  hd_heap *heap = create((hd_heap_config){0}, 0), *user = create((hd_heap_config){.one_user = true}, 0);
  void *common = hd_malloc(100);
  volatile size_t too_much = (size_t)PTRDIFF_MAX + 1;
  int local = 0;
  assert_null(hd_heap_realloc(heap, common, 200));
  assert_told("HD-E05");
  assert_null(hd_heap_realloc(user, &local, 200));
  assert_told("HD-E05");
  assert_null(hd_heap_realloc(user, hd_heap_malloc(user, 100), too_much));
  void *freed = hd_heap_malloc(user, 100);
  assert_null(hd_heap_realloc(user, freed, 0));
  hd_heap_free(user, freed);
  assert_told("HD-E03"); /* that was a free */
  hd_free(common);
  hd_heap_destroy(heap);
  hd_heap_destroy(user);
}

/* Every wrong way to free in a heap with one user: in the common memory, then in memory of its own. */
static void misuse_user_heap(hd_heap *heap) {
  static const size_t sizes[] = {100, 40000, 100000};
  for (size_t i = 0; i < 3; i++) {
    uint8_t *p = hd_heap_malloc(heap, sizes[i]), *other = hd_heap_malloc(heap, sizes[i]);
    hd_heap_free(heap, p + 16);
    assert_told("HD-E01");
    assert_null(hd_heap_realloc(heap, p + 16, 50));
    assert_told("HD-E01");
    hd_heap_free(heap, p);
    assert_int_equal(ts_reports.count, 0);
    hd_heap_free(heap, p);
    assert_told("HD-E03");
    assert_null(hd_heap_realloc(heap, sizes[i] > 60000 ? other + 16 : p, 50)); /* a freed run is nobody's */
    assert_told(sizes[i] > 60000 ? "HD-E01" : "HD-E04");
    hd_heap_free(heap, other);
    assert_int_equal(ts_reports.count, 0);
  }
  void *common = hd_malloc(64);
  hd_heap_free(heap, common); /* any block will do */
  hd_heap_free(heap, NULL);
  assert_int_equal(ts_reports.count, 0);
}

static void test_misuse_of_user_heaps(void **state) {
  (void)state;
  void *memory = hd_malloc(8 * MIB);
  hd_heap *heap = create((hd_heap_config){.one_user = true}, 0);
  misuse_user_heap(heap);
  hd_heap_destroy(heap);
  heap = create((hd_heap_config){.one_user = true, .memory = memory, .memory_bytes = 8 * MIB}, 0);
  misuse_user_heap(heap);
  hd_heap_destroy(heap);
  hd_free(memory);
}

/* Blocks that make their page's credit run out, in a heap whose units the window's table does not have. */
static void test_pages_of_own_memory(void **state) {
  (void)state;
  enum { COUNT = 600 };
  static void *blocks[COUNT];
  void *memory = hd_malloc(8 * MIB);
  hd_heap *heap = create((hd_heap_config){.one_user = true, .memory = memory, .memory_bytes = 8 * MIB}, 0);
  for (int round = 0; round < 3; round++) {
    for (int i = 0; i < COUNT; i++) assert_non_null(blocks[i] = hd_heap_calloc(heap, 1, (size_t)(i % 3 + 1) * 3000));
    for (int i = 0; i < COUNT; i++) hd_heap_free(heap, blocks[(i * 7 + round) % COUNT]);
  }
  hd_collect(0);
  hd_heap_destroy(heap);
  hd_free(memory);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_configs),           cmocka_unit_test(test_own_memory),           cmocka_unit_test(test_realloc_of_others),
      cmocka_unit_test(test_misuse_of_user_heaps), cmocka_unit_test(test_pages_of_own_memory),
  };
  return cmocka_run_group_tests_name("api", tests, watch, NULL);
}
