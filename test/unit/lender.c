/* Lenders: a class that is needed now and then takes a block of a slightly larger class rather than memory that was never touched. Which
 * class is busy, and what busy classes get.
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/alloc.h"
#include "core/claim.h"
#include "heddle.h"
#include "alone.h"
#include "pages.h"

enum { WANTED = 5000, LENT = 7000 }; /* the classes of 5 and of 7 KiB, four apart */

static hd_class *class_of(size_t bytes) { return &hdi_heap_self->class[hdi_sizeclass_of(bytes)]; }

static size_t standing(size_t bytes) {
  const hd_magazine *magazine = hdi_heap_magazine(hdi_heap_self, hdi_sizeclass_of(bytes));
  return (size_t)(magazine->top - magazine->first);
}

/* A block of the larger class that was freed, and stands in its magazine. */
static void *freed(size_t bytes) {
  void *p = hd_malloc(bytes);
  memset(p, 0xa5, hd_usable_size(p));
  hd_free(p);
  return p;
}

static void lends_from_its_magazine(void) {
  void *p = freed(LENT);
  TS_CHECK(hd_malloc(WANTED) == p, "not the block that was there");
  TS_CHECK(hd_usable_size(p) == hd_good_size(LENT), "usable %zu", hd_usable_size(p));
  TS_CHECK(class_of(WANTED)->page_count == 0, "a page all the same");
  void *own = hd_malloc(WANTED);
  TS_CHECK(hd_usable_size(own) == hd_good_size(WANTED), "there was nothing to lend");
  hd_free(p);
  TS_CHECK(standing(LENT) == 1 && standing(WANTED) == 0, "it went back to another class");
  hd_free(own);
}

static void lends_what_was_handed_out(void) {
  void *first = hd_malloc(LENT), *second = hd_malloc(LENT);
  hd_free(first);
  hd_free(second);
  hdi_heap_drop_cache(hdi_heap_self); /* to their page */
  TS_CHECK(standing(LENT) == 0, "still in the magazine");
  void *a = hd_malloc(WANTED), *b = hd_malloc(WANTED);
  TS_CHECK((a == first && b == second) || (a == second && b == first), "not the two that were free");
  void *c = hd_malloc(WANTED);
  TS_CHECK(hd_usable_size(c) == hd_good_size(WANTED), "a block that nobody had was lent");
  hd_free(a);
  hd_free(b);
  hd_free(c);
}

static void keeps_virgin_blocks(void) {
  class_of(LENT)->step = 3;
  void *p = hd_malloc(LENT); /* two more are claimed with it */
  TS_CHECK(hdi_slot_bits(&class_of(LENT)->slot) != 0, "no claimed blocks");
  void *q = hd_malloc(WANTED);
  TS_CHECK(hd_usable_size(q) == hd_good_size(WANTED), "a block that nobody had was lent");
  hd_free(p), hd_free(q);
}

static void own_blocks_first(void) {
  void *own = hd_malloc(WANTED);
  void *stays = hd_malloc(WANTED);
  hd_free(own);
  hdi_heap_drop_cache(hdi_heap_self);
  freed(LENT);
  TS_CHECK(hd_malloc(WANTED) == own, "another class's block while an own one was free");
  hd_free(own);
  hd_free(stays);
}

/* A page that was somebody's memory may be resident in part only: what of it was never handed out waits as long as somebody lends. */
static void test_old_memory_waits(void **state) {
  (void)state;
  void *run = hd_malloc(HD_UNIT_BYTES);
  memset(run, 1, HD_UNIT_BYTES);
  hd_free(run);
  enum { OF_PAGE = HD_UNIT_BYTES / 5120 };
  void *own[OF_PAGE];
  own[0] = hd_malloc(WANTED);
  TS_CHECK(own[0] == run, "not on the run that was freed");
  void *p = freed(LENT);
  TS_CHECK(hd_malloc(WANTED) == p, "not the block that lay free");
  for (int i = 1; i < OF_PAGE; i++) {
    own[i] = hd_malloc(WANTED);
    TS_CHECK(hd_usable_size(own[i]) == hd_good_size(WANTED), "block %d was borrowed", i);
  }
  for (int i = 0; i < OF_PAGE; i++) hd_free(own[i]);
  hd_free(p);
}

static void not_too_large(void) {
  freed(8000);
  void *p = hd_malloc(WANTED);
  TS_CHECK(hd_usable_size(p) == hd_good_size(WANTED), "five classes away: usable %zu", hd_usable_size(p));
  hd_free(p);
  void *largest = hd_malloc(HD_MEDIUM_MAX); /* nobody stands above it */
  TS_CHECK(hd_usable_size(largest) == HD_MEDIUM_MAX, "usable %zu", hd_usable_size(largest));
  hd_free(largest);
}

static void busy_classes_have_their_own(void) {
  freed(LENT);
  class_of(WANTED)->busy = true;
  void *p = hd_malloc(WANTED);
  TS_CHECK(hd_usable_size(p) == hd_good_size(WANTED), "a busy class borrowed");
  hd_free(p);
}

static void zero_as_a_whole(void) {
  void *p = freed(LENT);
  unsigned char *q = hd_calloc(1, WANTED);
  TS_CHECK(q == p, "not the block that was there");
  for (size_t i = 0; i < hd_usable_size(q); i++) TS_CHECK(q[i] == 0, "byte %zu is %#x", i, q[i]);
  hd_free(q);
}

static void alignment_is_exact(void) {
  freed(9000); /* 9 KiB: not a multiple of 2 KiB */
  void *p = hd_aligned_alloc(8192, 8192);
  TS_CHECK((uintptr_t)p % 8192 == 0, "%p", p);
  hd_free(p);
  freed(5000);
  for (size_t alignment = 32; alignment <= 4096; alignment *= 2) {
    void *q = hd_aligned_alloc(alignment, 4096);
    TS_CHECK((uintptr_t)q % alignment == 0, "%p at %zu", q, alignment);
    size_t borrowed = 5120; /* every class above 2 KiB is as good for an alignment of 256 as any */
    TS_CHECK(hd_usable_size(q) == (alignment <= HD_MEDIUM_ALIGN ? borrowed : 4096), "usable %zu at %zu", hd_usable_size(q), alignment);
    hd_free(q);
  }
}

/* Where four units make a page, and by realloc. */
static void resizes(void) {
  void *p = freed(20000);
  char *q = hd_malloc(15000);
  TS_CHECK(q == p, "not the block that was there");
  memset(q, 1, 15000);
  TS_CHECK(hd_realloc(q, 20000) == q && hd_realloc(q, 15000) == q, "it was moved for nothing");
  TS_CHECK(hd_expand(q, hd_usable_size(q)) == q, "it is as long as it says");
  q = hd_realloc(q, 30000);
  for (int i = 0; i < 15000; i++) TS_CHECK(q[i] == 1, "byte %d", i);
  hd_free(q);
}

static void test_heaps_keep_to_their_classes(void **state) {
  (void)state;
  for (int one_user = 0; one_user < 2; one_user++) {
    hd_heap_config config = {.struct_bytes = sizeof config, .one_user = one_user};
    hd_heap *heap = hd_heap_create(&config);
    hd_heap_free(heap, hd_heap_malloc(heap, LENT));
    void *p = hd_heap_malloc(heap, WANTED);
    assert_int_equal(hd_usable_size(p), hd_good_size(WANTED));
    hd_heap_destroy(heap);
  }
}

/* Found out every sixteen claims of a class: busy if the heap had at most 128 meanwhile. */
static void test_busy(void **state) {
  (void)state;
  static hd_heap heap;
  hd_class often = {0}, rare = {0};
  for (int i = 0; i < 15; i++) hdi_claim_count(&heap, &often);
  assert_false(often.busy);
  hdi_claim_count(&heap, &often);
  assert_true(often.busy);
  for (int i = 0; i < 64; i++) {
    hdi_claim_count(&heap, &rare);
    for (int k = 0; k < 8; k++) hdi_claim_count(&heap, &often);
  }
  assert_false(rare.busy);
  assert_true(often.busy);
  for (int i = 0; i < 32; i++) {
    hdi_claim_count(&heap, &rare);
    for (int k = 0; k < 7; k++) hdi_claim_count(&heap, &often);
  }
  assert_true(rare.busy);
  heap.claims = UINT32_MAX - 3; /* the count goes round */
  for (int i = 0; i < 32; i++) hdi_claim_count(&heap, &often);
  assert_true(often.busy);
}

/* A page is gone through once more for an eighth of its blocks, and for a sixteenth where it is all that a rare class has. */
static void test_pays(void **state) {
  (void)state;
  hd_unit page = {.capacity = 117, .fresh = 48};
  hd_class one = {.page_count = 1}, two = {.page_count = 2}, busy = {.page_count = 1, .busy = true};
  assert_true(hdi_claim_pays(&page, &one, 3));
  assert_false(hdi_claim_pays(&page, &one, 2));
  assert_true(hdi_claim_pays(&page, &two, 6) && hdi_claim_pays(&page, &busy, 6));
  assert_false(hdi_claim_pays(&page, &two, 5) || hdi_claim_pays(&page, &busy, 5));
  page = (hd_unit){.capacity = 64, .fresh = 64}; /* one group: a sixteenth for all */
  assert_true(hdi_claim_pays(&page, &two, 4) && hdi_claim_pays(&page, &busy, 4));
  assert_false(hdi_claim_pays(&page, &one, 3) || hdi_claim_pays(&page, &busy, 3));
  page.fresh = 4;
  assert_false(hdi_claim_pays(&page, &one, 0));
}

/* Busy classes claim more at a time, the others stay with a system page. */
static void test_steps(void **state) {
  (void)state;
  hd_heap *heap = hd_heap_create(NULL);
  for (int busy = 0; busy < 2; busy++) {
    size_t bytes = 512 + 256 * (size_t)busy;
    hd_class *class = &heap->class[hdi_sizeclass_of(bytes)];
    assert_int_equal(class->step, 0); /* of classes that a heap does not use nothing is written */
    unsigned step = (unsigned)(4096 / bytes);
    for (int i = 0; i < 40; i++) {
      class->busy = busy;
      assert_non_null(hd_heap_malloc(heap, bytes));
    }
    if (busy) assert_in_range(class->step, 2 * step, 64);
    else assert_int_equal(class->step, step);
  }
  hd_heap_destroy(heap);
}

/* On memory of earlier owners a busy class takes a whole group at once, others a step at a time there as well. */
static void test_steps_on_old_memory(void **state) {
  (void)state;
  for (int zeroed = 0; zeroed < 2; zeroed++) {
    for (int busy = 0; busy < 2; busy++) {
      uint64_t words[2] = {0};
      hd_unit page = {.capacity = 117, .block_bytes = 560, .zeroed = zeroed, .words = words};
      hd_class class = {.step = 7, .busy = busy, .zeroes = true};
      hdi_claim_begin(&page, &class);
      assert_true(hdi_claim_virgin(&page, &class));
      assert_int_equal(page.fresh, busy && !zeroed ? 64 : 7);
      assert_int_equal(hd_bit_count(hdi_slot_bits(&class.slot)), page.fresh);
      assert_int_equal(class.zeroed, zeroed);
    }
  }
}

int main(void) {
  only_pages();
  const struct CMUnitTest tests[] = {
      ALONE(lends_from_its_magazine),
      ALONE(lends_what_was_handed_out),
      ALONE(keeps_virgin_blocks),
      ALONE(own_blocks_first),
      ALONE(not_too_large),
      ALONE(busy_classes_have_their_own),
      ALONE(zero_as_a_whole),
      ALONE(alignment_is_exact),
      ALONE(resizes),
      cmocka_unit_test(test_heaps_keep_to_their_classes),
      cmocka_unit_test(test_busy),
      cmocka_unit_test(test_pays),
      cmocka_unit_test(test_steps),
      cmocka_unit_test(test_steps_on_old_memory),
      cmocka_unit_test(test_old_memory_waits), /* in this process, where coverage is counted; last: the others want no pages */
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
