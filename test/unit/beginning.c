/* What a process begins with: the first heap among the library's variables, the first byte maps in front of the table of units, and runs
 * of their own for the first buffers of whole system pages.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "alone.h"
#include "core/alloc.h"
#include "core/space_grow.h"
#include "core/store.h"
#include "core/thread.h"
#include "heddle.h"

enum { BUFFER = 4096 };

static unsigned kind_of(void *p) { return hd_load_relaxed(&hdi_space_find(p)->kind); }

static bool is_near(const void *a, const void *b) { return (uintptr_t)a - (uintptr_t)b + HD_MIB < 2 * HD_MIB; }

static void first_heap_is_a_variable(void) {
  hd_heap *first = hdi_thread_heap(), *second = hdi_thread_new_heap(&hdi_space, false);
  TS_CHECK(is_near(first, &hdi_space), "%p, far from %p", (void *)first, (void *)&hdi_space);
  TS_CHECK(second != first && !is_near(second, &hdi_space), "the second one as well: %p", (void *)second);
}

/* Up to a system page, and then in the store's own range; each zero, and nobody else's. */
static void first_maps_lie_before_the_table(void) {
  hdi_thread_heap();
  if (!hdi_space.open || HD_NARROW) return;
  char *table = (char *)hdi_space.units, *before = NULL, *item = NULL;
  size_t bytes = 0;
  for (; (item = hdi_store_take(512)) < table && item > table - BUFFER; before = item) {
    TS_CHECK(before == NULL || item - before >= 512, "%p after %p", (void *)item, (void *)before);
    TS_CHECK(item + 512 <= table, "%p reaches into the table", (void *)item);
    for (int i = 0; i < 512; i++) TS_CHECK(item[i] == 0, "byte %d of %p", i, (void *)item);
    memset(item, 1, 512);
    bytes += 512;
  }
  TS_CHECK(bytes >= 1024 && item < table, "%zu bytes, and then %p", bytes, (void *)item);
  TS_CHECK(hdi_space.units[0].base == NULL && hd_load_relaxed(&hdi_space.units[0].owner) == 0, "the table is not as it was");
  memset(before, 0, 512);
  hdi_store_give(before, 512);
  TS_CHECK(hdi_store_take(512) == before, "what was given back is lost");
}

static void two_buffers_stand_alone(void) {
  hd_heap *heap = hdi_thread_heap();
  char *one = hd_malloc(BUFFER), *two = hd_calloc(1, BUFFER), *three = hd_malloc(BUFFER);
  TS_CHECK(kind_of(one) == HD_UNIT_LARGE && kind_of(two) == HD_UNIT_LARGE && kind_of(three) == HD_UNIT_PAGE, "which is a run of its own");
  TS_CHECK(hd_usable_size(one) == BUFFER && hd_usable_size(two) == hd_good_size(BUFFER), "not as large as they say");
  TS_CHECK(heap->class[hdi_sizeclass_of(BUFFER)].page_count == 1, "a class of one block");
  for (int i = 0; i < BUFFER; i++) TS_CHECK(two[i] == 0, "byte %d", i);
  hd_free(one);
  hd_free(two);
  hd_free(three);
  TS_CHECK(hd_malloc(BUFFER) == three, "the class has a block, and gives another");
}

/* A class with a page of its own takes them from there. */
static void not_beside_a_page(void) {
  TS_CHECK(kind_of(hd_aligned_alloc(256, BUFFER)) == HD_UNIT_PAGE, "an aligned block has to come from its class");
  TS_CHECK(hdi_heap_self->class[hdi_sizeclass_of(BUFFER)].page_count == 1, "no page");
  TS_CHECK(kind_of(hd_malloc(BUFFER)) == HD_UNIT_PAGE && hdi_heap_self->lone == 0, "beside its page");
}

/* A limit counts units, so a page of the class is what two blocks share. */
static void not_under_a_limit(void) {
  TS_CHECK(hd_option_set("limit", "64MiB") == HD_OK, "no limit");
  char *one = hd_malloc(BUFFER), *two = hd_calloc(1, BUFFER);
  TS_CHECK(kind_of(one) == HD_UNIT_PAGE && hdi_space_find(one) == hdi_space_find(two), "a unit for each");
}

/* One of a used run is cleared. */
static void old_memory_is_cleared(void) {
  char *large = hd_malloc(60000);
  memset(large, 1, 60000);
  hd_free(large);
  char *buffer = hd_calloc(BUFFER, 1);
  TS_CHECK(buffer == large, "not the run that was there");
  for (int i = 0; i < BUFFER; i++) TS_CHECK(buffer[i] == 0, "byte %d", i);
}

static void others_do_not(void) {
  const size_t others[] = {0, 2000, BUFFER - 16, BUFFER + 1, 2 * BUFFER - 8};
  for (size_t i = 0; i < sizeof others / sizeof *others; i++) {
    TS_CHECK(kind_of(hd_malloc(others[i])) == HD_UNIT_PAGE && kind_of(hd_calloc(1, others[i])) == HD_UNIT_PAGE, "%zu bytes", others[i]);
  }
  hd_heap *heap = hd_heap_create(NULL);
  TS_CHECK(kind_of(hd_heap_malloc(heap, BUFFER)) == HD_UNIT_PAGE, "of an explicit heap");
  TS_CHECK(hdi_heap_self->lone == 0, "%u counted", hdi_heap_self->lone);
}

/* It grows where it stands as long as its unit has room, and moves when it loses more than half. */
static void resized_in_place(void) {
  char *p = hd_malloc(BUFFER);
  memset(p, 7, BUFFER);
  for (size_t bytes = BUFFER; bytes <= HD_UNIT_BYTES; bytes += 500) {
    TS_CHECK(hd_realloc(p, bytes) == p && hd_usable_size(p) >= bytes, "moved for %zu bytes", bytes);
  }
  TS_CHECK(hd_realloc(p, 40000) == p && hd_usable_size(p) < 45000, "usable %zu of 40000", hd_usable_size(p));
  TS_CHECK(hd_realloc(p, 20000 + BUFFER) == p, "moved to lose less than half");
  char *q = hd_realloc(p, 3000);
  TS_CHECK(q != p && kind_of(q) == HD_UNIT_PAGE, "keeps a unit for 3000 bytes");
  for (int i = 0; i < 3000; i++) TS_CHECK(q[i] == 7, "byte %d", i);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      ALONE(first_heap_is_a_variable), ALONE(first_maps_lie_before_the_table),
      ALONE(two_buffers_stand_alone),  ALONE(not_beside_a_page),
      ALONE(not_under_a_limit),        ALONE(old_memory_is_cleared),
      ALONE(others_do_not),            ALONE(resized_in_place),
  };
  return cmocka_run_group_tests_name("beginning", tests, NULL, NULL);
}
