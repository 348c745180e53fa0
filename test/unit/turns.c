/* From page to page: when a page of many groups is left for another one of its class, what stays behind in it, from which size on a heap's
 * claims are fetched into the caches, and which blocks go back into the slot.
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
#include "core/page.h"
#include "core/remote.h"
#include "heddle.h"
#include "pages.h"

enum { BLOCK_BYTES = 64, PER_PAGE = HD_UNIT_BYTES / BLOCK_BYTES, LAST_GROUP = PER_PAGE / 64 - 1, EIGHTH = PER_PAGE / 8 };

static hd_heap *heap;
static hd_class *class;
static void *first[PER_PAGE], *second[PER_PAGE];
static hd_unit *left, *current; /* FULL at first, or PARTIAL; and the one behind the slot */

static void *take(void) {
  void *p = hd_heap_malloc(heap, BLOCK_BYTES);
  assert_non_null(p);
  return p;
}

static void free_some(void **blocks, size_t from, size_t to) {
  for (size_t i = from; i < to; i++) hd_free(blocks[i]);
}

/* Blocks from `from` on as another thread leaves them that has not told yet. */
static void free_untold(hd_unit *page, size_t from, size_t count) {
  for (size_t i = from; i < from + count; i++) hd_store_release(&page->map[i], HD_BLOCK_FREE);
}

/* The same, and it has told. */
static void free_elsewhere(hd_unit *page, size_t from, size_t to) {
  free_untold(page, from, to - from);
  hd_store_relaxed(&page->remote_count, (uint32_t)(to - from));
}

static int no_page(void **state) {
  (void)state;
  heap = hd_heap_create(NULL);
  if (heap == NULL) return -1;
  class = &heap->class[hdi_sizeclass_of(BLOCK_BYTES)];
  return 0;
}

/* Two pages that are full; of the first one an eighth is free again. */
static int two_pages(void **state) {
  if (no_page(state) != 0) return -1;
  for (size_t i = 0; i < PER_PAGE; i++) first[i] = take();
  for (size_t i = 0; i < PER_PAGE; i++) second[i] = take();
  left = hdi_space_find(first[0]);
  current = hdi_space_find(second[0]);
  assert_ptr_equal(class->page, current);
  assert_int_equal(current->group, LAST_GROUP);
  assert_int_equal(hdi_slot_bits(&class->slot), 0);
  free_some(first, 0, EIGHTH);
  assert_ptr_equal(class->first, left);
  return 0;
}

static int end_pages(void **state) {
  (void)state;
  hd_heap_destroy(heap);
  return 0;
}

/* The other page's first group, whole; and nothing is lost of the one that is left. */
static void test_turn(void **state) {
  (void)state;
  assert_ptr_equal(take(), first[0]);
  assert_ptr_equal(class->page, left);
  assert_null(class->first);
  assert_int_equal(hd_bit_count(hdi_slot_bits(&class->slot)), 63);
  assert_int_equal(hdi_page_used(left), PER_PAGE - EIGHTH + 1);
  assert_int_equal(current->state, HD_PAGE_FULL);
  assert_int_equal(hdi_page_used(current), PER_PAGE);
  free_some(second, 0, EIGHTH - 1);
  assert_int_equal(current->state, HD_PAGE_FULL);
  free_some(second, EIGHTH - 1, EIGHTH);
  assert_ptr_equal(class->first, current);
}

/* Free blocks of the page that is left, too few to go round again, count towards the eighth at which it comes back. */
static void test_left_with_free_blocks(void **state) {
  (void)state;
  free_some(second, 64, 64 + EIGHTH - 1);
  assert_ptr_equal(take(), first[0]);
  assert_int_equal(current->state, HD_PAGE_FULL);
  assert_int_equal(hdi_page_used(current), PER_PAGE - EIGHTH + 1);
  free_some(second, 0, 1); /* an eighth in all */
  assert_ptr_equal(class->first, current);
}

/* A group further on that has free blocks, where the next one has none. */
static void test_groups_behind(void **state) {
  (void)state;
  current->group = 0;
  free_some(second, 5 * 64, 5 * 64 + 2);
  assert_ptr_equal(take(), second[5 * 64]);
  assert_ptr_equal(take(), second[5 * 64 + 1]);
  assert_ptr_equal(take(), first[0]);
}

/* The same where others free: all groups are looked at before the page is left. */
static void test_groups_behind_where_others_free(void **state) {
  (void)state;
  current->group = 0;
  class->shared = true;
  free_untold(current, 5 * 64, 2);
  assert_ptr_equal(take(), second[5 * 64]);
  assert_ptr_equal(class->page, current);
}

/* And the group that the slot stands for first of all, once they have told of some. */
static void test_same_group_first(void **state) {
  (void)state;
  current->group = 3;
  class->told = class->shared = true;
  free_untold(current, 3 * 64, 32);
  free_untold(current, 4 * 64, 32);
  assert_ptr_equal(take(), second[3 * 64]);
}

/* An eighth of the page, none of it in the first group. */
static void test_round_again(void **state) {
  (void)state;
  free_some(second, 64, 64 + EIGHTH);
  assert_ptr_equal(take(), second[64]);
}

/* All of it is free, and it begins from the start. */
static void test_all_free(void **state) {
  (void)state;
  free_some(second, 0, PER_PAGE);
  assert_int_equal(hdi_page_used(current), 0);
  assert_ptr_equal(hdi_space_find(take()), current);
}

/* What others have told of is taken in before either page is left or taken. */
static void test_told_of_this_page(void **state) {
  (void)state;
  free_elsewhere(current, 64, 64 + EIGHTH);
  assert_ptr_equal(take(), second[64]);
  assert_true(class->told);
}

static void test_told_of_the_next_page(void **state) {
  (void)state;
  free_elsewhere(left, 200, 203);
  assert_ptr_equal(take(), first[0]);
  assert_int_equal(hdi_page_used(left), PER_PAGE - EIGHTH - 3 + 1);
  assert_int_equal(hd_load_relaxed(&left->remote_count), 0);
}

/* A third page behind the slot, of which so many blocks have been handed out, the last ones in a claim of 16; the second one is full. */
static void fill_third(size_t blocks) {
  for (size_t i = 0; i < EIGHTH; i++) take();
  for (size_t i = 0; i < blocks; i++) {
    if (i + 64 >= blocks) class->step = 16;
    class->busy = false;
    take();
  }
  assert_int_equal(hdi_slot_bits(&class->slot), 0);
  assert_int_equal(class->page->fresh, blocks);
  free_some(first, EIGHTH, 2 * EIGHTH);
  assert_ptr_equal(class->first, left);
}

/* A page in the inbox comes before the first in the list. */
static void test_mail_first(void **state) {
  (void)state;
  fill_third(PER_PAGE);
  free_elsewhere(current, 200, 200 + EIGHTH);
  hd_store_relaxed(&current->remote_count, HD_REMOTE_QUEUED | EIGHTH);
  hd_store_relaxed(&heap->inbox, current);
  assert_ptr_equal(take(), second[200]);
  assert_false(hdi_remote_has_mail(heap));
}

/* A parcel that has arrived is taken in, though nothing is in it for this class. */
static void test_parcels_first(void **state) {
  (void)state;
  static hd_parcel parcel;
  hd_store_relaxed(&parcel.owner, heap);
  hd_store_relaxed(&heap->arrived, &parcel);
  assert_ptr_equal(take(), first[0]);
  assert_null(hd_load_relaxed(&heap->arrived));
  assert_null(hd_load_relaxed(&parcel.owner));
}

/* The next page has only blocks that nobody had. */
static void test_only_virgin_blocks_there(void **state) {
  (void)state;
  for (size_t i = 0; i < EIGHTH; i++) {
    hd_store_relaxed(&left->map[i], HD_BLOCK_LIVE);
    hd_store_relaxed(&left->map[PER_PAGE - EIGHTH + i], HD_BLOCK_FREE);
  }
  memset(left->words, 0, EIGHTH / 8);
  left->fresh = PER_PAGE - EIGHTH;
  assert_ptr_equal(take(), first[PER_PAGE - EIGHTH]);
  assert_ptr_equal(class->page, left);
  assert_int_equal(current->state, HD_PAGE_FULL);
}

/* A page's virgin blocks wait behind what was freed in another one, and nothing of either is lost. */
static void test_virgin_blocks_wait(void **state) {
  (void)state;
  fill_third(PER_PAGE - 16);
  hd_unit *page = class->page;
  for (size_t i = 0; i < EIGHTH; i++) assert_ptr_equal(hdi_space_find(take()), left);
  assert_int_equal(page->state, HD_PAGE_PARTIAL);
  assert_int_equal(hdi_page_used(page), PER_PAGE - 16);
  assert_int_equal(page->fresh, PER_PAGE - 16);
  for (size_t i = 0; i < 16; i++) assert_ptr_equal(hdi_space_find(take()), page);
  assert_int_equal(page->fresh, PER_PAGE);
  assert_int_equal(class->page_count, 3);
}

/* Also where others free, and their mail is looked through first. */
static void test_virgin_blocks_wait_for_mail(void **state) {
  (void)state;
  fill_third(PER_PAGE - 16);
  class->told = class->shared = true;
  assert_ptr_equal(take(), first[EIGHTH]);
  assert_false(class->told);
}

/* What waits has been begun, and is long enough. */
static void test_what_waits(void **state) {
  (void)state;
  uint64_t words[PER_PAGE / 64 + 1] = {0};
  hd_unit page = {.capacity = PER_PAGE, .fresh = 1, .words = words};
  hd_class copy = *class;
  assert_false(hdi_claim_virgin(&page, &copy));
  page.fresh = 0;
  assert_true(hdi_claim_virgin(&page, &copy));
  page.fresh = PER_PAGE;
  assert_false(hdi_claim_virgin(&page, &copy));
}

/* The page stands behind all that have none, also those that come later. */
static void test_waits_as_the_last(void **state) {
  (void)state;
  fill_third(PER_PAGE - 16);
  hd_unit *page = class->page;
  free_some(second, 0, EIGHTH);
  assert_ptr_equal(take(), second[0]);
  assert_ptr_equal(class->first, left);
  assert_ptr_equal(left->next, page);
  assert_null(page->next);
  for (size_t i = 1; i < EIGHTH; i++) assert_ptr_equal(hdi_space_find(take()), current);
  assert_ptr_equal(take(), first[EIGHTH]); /* the list is the page alone */
  free_some(second, EIGHTH, 2 * EIGHTH);
  assert_ptr_equal(class->first, current);
  assert_ptr_equal(current->next, page);
  free_some(second, 2 * EIGHTH, PER_PAGE); /* all but those that were taken again, which are the first ones */
  free_some(second, 0, EIGHTH);
  assert_ptr_equal(class->first, page); /* current is released */
  assert_int_equal(class->page_count, 2);
  assert_ptr_equal(page->prev, page);
}

/* When the first of two leaves, the other one is first and last. */
static void test_out_of_the_list(void **state) {
  (void)state;
  fill_third(PER_PAGE - 16);
  hd_unit *page = class->page;
  free_some(second, 0, EIGHTH);
  assert_ptr_equal(take(), second[0]); /* its page is behind the slot; the list is left, page */
  free_some(first, 2 * EIGHTH, PER_PAGE);
  assert_ptr_equal(class->first, left);
  assert_ptr_equal(left->prev, page);
  for (size_t i = 0; i < EIGHTH; i++) hdi_free_local(left, &left->map[i]); /* those that fill_third took in their places */
  hdi_heap_settle(heap, left);
  assert_ptr_equal(class->first, page);
  assert_ptr_equal(page->prev, page);
  assert_null(page->next);
}

/* The class's list, from first to last and back; as many pages as it should have. */
static void check_list(size_t count) {
  const hd_unit *last = NULL;
  for (const hd_unit *page = class->first; page != NULL; page = page->next) {
    if (last != NULL) assert_ptr_equal(page->prev, last);
    last = page;
    assert_true(count-- > 0);
  }
  assert_int_equal(count, 0);
  if (last != NULL) assert_ptr_equal(class->first->prev, last);
}

/* Four pages leave the list in each of the 24 orders. */
static void test_out_of_the_list_in_any_order(void **state) {
  enum { PAGES = 4, ORDERS = 24 };
  static void *blocks[PAGES][PER_PAGE];
  for (unsigned order = 0; order < ORDERS; order++) {
    assert_int_equal(no_page(state), 0);
    size_t left_in_list[PAGES], rest = order;
    for (size_t i = 0; i < PAGES; i++) {
      left_in_list[i] = i;
      for (size_t at = 0; at < PER_PAGE; at++) blocks[i][at] = take();
    }
    take(); /* the current page's, so that none of the four is */
    for (size_t i = 0; i < PAGES; i++) {
      free_some(blocks[i], 0, EIGHTH);
      check_list(i + 1);
    }
    for (size_t count = PAGES; count > 0; count--) {
      size_t chosen = rest % count;
      rest /= count;
      free_some(blocks[left_in_list[chosen]], EIGHTH, PER_PAGE);
      left_in_list[chosen] = left_in_list[count - 1];
      check_list(count - 1);
      assert_int_equal(class->page_count, count); /* with the current one */
    }
    end_pages(state);
  }
}

/* A page that has virgin blocks itself is no reason to wait. */
static void test_two_with_virgin_blocks(void **state) {
  (void)state;
  fill_third(PER_PAGE - 16);
  hd_unit *page = class->page;
  left->fresh = PER_PAGE - 1;
  assert_ptr_equal(hdi_space_find(take()), page);
  assert_int_equal(page->fresh, PER_PAGE);
}

/* Nothing waits of a page that is in use as a whole, as far as its owner knows. */
static void test_used_up_with_virgin_blocks(void **state) {
  (void)state;
  fill_third(PER_PAGE - 16);
  hd_unit *page = class->page;
  hd_store_owned(&page->held, PER_PAGE);
  assert_ptr_equal(take(), first[EIGHTH]);
  assert_int_equal(page->state, HD_PAGE_FULL);
  assert_null(class->first);
}

/* Pages of fewer than 32 blocks take their own first. */
static void test_few_blocks_do_not_wait(void **state) {
  (void)state;
  static const size_t sizes[] = {2048, 2304};
  for (size_t i = 0; i < sizeof sizes / sizeof *sizes; i++) {
    void *blocks[32];
    size_t count = HD_UNIT_BYTES / sizes[i];
    hd_class *few = &heap->class[hdi_sizeclass_of(sizes[i])];
    for (size_t at = 0; at < count; at++) assert_non_null(blocks[at] = hd_heap_malloc(heap, sizes[i]));
    assert_non_null(hd_heap_malloc(heap, sizes[i]));
    while (hdi_slot_bits(&few->slot) != 0) assert_non_null(hd_heap_malloc(heap, sizes[i]));
    hd_unit *page = few->page;
    assert_true(page->fresh < count);
    free_some(blocks, 0, count / 2);
    assert_ptr_equal(few->first, hdi_space_find(blocks[0]));
    assert_ptr_equal(hdi_space_find(hd_heap_malloc(heap, sizes[i])), count < 32 ? page : hdi_space_find(blocks[0]));
  }
}

/* A try at the same group that failed is the more rarely repeated, until one succeeds. */
static void test_pauses(void **state) {
  (void)state;
  static const uint8_t pauses[] = {3, 7, 15, 31, 31};
  class->last_pause = 1;
  class->shared = true;
  free_untold(current, PER_PAGE - 64, 1);
  for (size_t i = 0; i < sizeof pauses; i++) {
    class->pause = 0;
    assert_int_equal(hdi_claim_again(current, class), 0);
    assert_int_equal(class->pause, pauses[i]);
  }
  for (int i = 0; i < 31; i++) assert_int_equal(hdi_claim_again(current, class), 0);
  assert_int_equal(class->pause, 0);
  free_untold(current, PER_PAGE - 64, 64);
  assert_true(hdi_claim_again(current, class) == UINT64_MAX);
  while (hdi_slot_bits(&class->slot) != 0) hdi_alloc_take(&class->slot, hdi_slot_bits(&class->slot));
  assert_int_equal(hdi_claim_again(current, class), 0);
  assert_int_equal(class->pause, 3);
}

/* Enough claims for the heap to find out anew how large it is. */
static bool is_far(void) {
  void *held[17 * 64];
  for (int i = 0; i < 17 * 64; i++) assert_non_null(held[i] = hd_malloc(16));
  bool far = hdi_heap_self->far;
  for (int i = 0; i < 17 * 64; i++) hd_free(held[i]);
  return far;
}

/* What is claimed of blocks of so many bytes is fetched. */
static bool is_fetched(size_t bytes) { return hdi_claim_is_far(hdi_heap_self, &hdi_heap_self->class[hdi_sizeclass_of(bytes)]); }

/* A heap is far from 2 MiB in pages on, whatever else the process has, and until it has less than 512 KiB. What is claimed there is
 * fetched, but of the classes that have one page. */
static void test_far(void **state) {
  (void)state;
  own_pages(); /* the thread has a heap from here on */
  if (hdi_heap_is_empty(hdi_heap_self)) skip(); /* hardened mode has its own pages */
  enum { BLOCKS = 4 * 1024 * 1024 / BLOCK_BYTES };
  static void *held[BLOCKS];
  void *large = hd_malloc((size_t)32 << 20), *of_16 = hd_malloc(16); /* whose page is there before is_far counts */
  hd_heap *self = hdi_heap_self;
  assert_true(large != NULL && of_16 != NULL);
  assert_true(self->page_units < 8);
  size_t count = 0;
  for (; self->page_units < 31; count++) assert_non_null(held[count] = hd_malloc(BLOCK_BYTES));
  assert_false(is_far());
  assert_false(is_fetched(BLOCK_BYTES));
  for (; self->page_units < 32; count++) assert_non_null(held[count] = hd_malloc(BLOCK_BYTES));
  assert_true(is_far());
  assert_true(is_fetched(BLOCK_BYTES));
  assert_false(is_fetched(16));
  hd_class *its = &self->class[hdi_sizeclass_of(BLOCK_BYTES)];
  its->zeroed = true;
  assert_false(is_fetched(BLOCK_BYTES));
  its->zeroed = false;
  while (self->page_units > 8) hd_free(held[--count]);
  assert_true(is_far());
  while (self->page_units > 7) hd_free(held[--count]);
  assert_false(is_far());
  for (; self->page_units < 31; count++) assert_non_null(held[count] = hd_malloc(BLOCK_BYTES));
  assert_false(is_far());
  while (count > 0) hd_free(held[--count]);
  hd_free(of_16);
  hd_free(large);
}

/* What is fetched is only looked at: blocks of each size, some of whose neighbours are in use, are handed out once, and nothing in them or
 * around them changes. */
static void test_fetched_blocks(void **state) {
  (void)state;
  enum { BYTES = 200 * 1024, UNITS = 32 };
  static const size_t sizes[] = {16, 32, 48, 512};
  static uint8_t *held[4][BYTES / 16], *filler[UNITS * 1024];
  hd_free(hd_malloc(1));
  if (hdi_heap_is_empty(hdi_heap_self)) skip();
  size_t fillers = 0;
  while (hdi_heap_self->page_units < UNITS) assert_non_null(filler[fillers++] = hd_malloc(BLOCK_BYTES));
  assert_true(is_far());
  for (size_t s = 0; s < 4; s++) {
    size_t blocks = BYTES / sizes[s];
    for (size_t i = 0; i < blocks; i++) {
      assert_non_null(held[s][i] = hd_malloc(sizes[s]));
      memset(held[s][i], (int)(i % 251), sizes[s]);
    }
    assert_true(is_fetched(sizes[s]));
    for (size_t i = 0; i < blocks; i++) {
      if (i % 7 < 3) hd_free(held[s][i]);
    }
    for (size_t i = 0; i < blocks; i++) {
      if (i % 7 < 3) memset(held[s][i] = hd_malloc(sizes[s]), (int)(i % 251), sizes[s]);
    }
    for (size_t i = 0; i < blocks; i++) assert_true(held[s][i][0] == i % 251 && held[s][i][sizes[s] - 1] == i % 251);
    for (size_t i = 0; i < blocks; i++) hd_free(held[s][i]);
  }
  while (fillers > 0) hd_free(filler[--fillers]);
}

/* ---- blocks that go back into the slot ---------------------------------------------------------------------------------- */

enum { BACK_BYTES = 720, BACK_MOST = 1000 };

static hd_class *back_class(void) { return &hdi_heap_self->class[hdi_sizeclass_of(BACK_BYTES)]; }

/* What its thread frees in the group that the slot stands for, the next malloc takes, and it is not clean. */
static void test_goes_back_into_the_slot(void **state) {
  (void)state;
  if (hdi_heap_is_empty(hdi_heap_self)) skip(); /* hardened mode takes other ways */
  void *a = hd_malloc(BACK_BYTES), *b = hd_malloc(BACK_BYTES), *c = hd_malloc(BACK_BYTES);
  hd_class *its = back_class();
  hd_unit *page = hdi_space_find(b);
  uint64_t bits = hdi_slot_bits(&its->slot), index = hdi_unit_block_index(page, b);
  uint32_t used = hdi_page_used(page);
  assert_ptr_equal(its->page, page);
  assert_false(its->zeroed);
  memset(b, 0xff, BACK_BYTES);
  hd_free(b);
  assert_int_equal(hdi_page_used(page), used - 1);
  assert_true(hdi_slot_bits(&its->slot) == (bits | UINT64_C(1) << (index - page->group * 64)));
  assert_int_equal(hd_load_relaxed(&page->map[index]), HD_BLOCK_FREE);
  uint8_t *again = hd_calloc(1, BACK_BYTES);
  assert_ptr_equal(again, b);
  for (size_t i = 0; i < BACK_BYTES; i++) assert_int_equal(again[i], 0);
  assert_true(hdi_slot_bits(&its->slot) == bits);
  hd_free(c);
  hd_free(a);
  assert_ptr_equal(hd_malloc(BACK_BYTES), hd_min((uintptr_t)a, (uintptr_t)c));
  assert_int_equal(hdi_page_used(page), used - 1);
  hd_free(b);
}

/* Blocks of other groups, and of pages that were left, are in their words and not taken at once. */
static void test_goes_back_nowhere_else(void **state) {
  (void)state;
  if (hdi_heap_is_empty(hdi_heap_self)) skip();
  static void *blocks[BACK_MOST];
  size_t count = 0;
  hd_class *its = back_class();
  do { /* the second group of some page */
    assert_true(count < BACK_MOST);
    blocks[count++] = hd_malloc(BACK_BYTES);
  } while (count < 2 || its->page->group != 1);
  hd_unit *page = its->page;
  uint32_t used = hdi_page_used(page);
  uint64_t bits = hdi_slot_bits(&its->slot);
  size_t at = 0;
  while (hdi_space_find(blocks[at]) != page || hdi_unit_block_index(page, blocks[at]) >= 64) at++;
  uint64_t index = hdi_unit_block_index(page, blocks[at]);
  hd_free(blocks[at]);
  assert_int_equal(hdi_page_used(page), used - 1);
  assert_true(hdi_slot_bits(&its->slot) == bits);
  assert_true((page->words[0] >> index & 1) != 0);
  blocks[at] = NULL;
  while (its->page == page) {
    assert_true(count < BACK_MOST);
    blocks[count++] = hd_malloc(BACK_BYTES);
  }
  used = hdi_page_used(page);
  bits = hdi_slot_bits(&its->slot);
  for (at = count - 1; hdi_space_find(blocks[at]) != page;) at--;
  hd_free(blocks[at]);
  assert_true(hdi_slot_bits(&its->slot) == bits);
  assert_int_equal(hdi_page_used(page), used - 1);
  blocks[at] = NULL;
  for (at = 0; at < count; at++) hd_free(blocks[at]);
}

static void misuse(void *p, const char *code) {
  int before = ts_reports.count;
  hd_free(p);
  assert_int_equal(ts_reports.count, before + 1);
  assert_string_equal(ts_reports.code, code);
}

/* What is no live block goes nowhere, though it lies in the claimed group, or right behind the last block of it. */
static void test_misuse_goes_nowhere(void **state) {
  (void)state;
  if (hdi_heap_is_empty(hdi_heap_self)) skip();
  static uint8_t *blocks[BACK_MOST];
  size_t count = 0;
  hd_class *its = back_class();
  do {
    assert_true(count < BACK_MOST);
    blocks[count++] = hd_malloc(BACK_BYTES);
  } while (its->page->group != 1 || hdi_slot_bits(&its->slot) == 0);
  hd_unit *page = its->page;
  uint8_t *live = blocks[--count], *end = page->base + page->capacity * page->block_bytes;
  assert_true(page->capacity % 64 != 0 && end < page->base + HD_UNIT_BYTES);
  assert_int_equal(hd_option_set("onerror", "ignore"), HD_OK);
  hd_misuse_hook_set(ts_count_report);
  uint32_t used = hdi_page_used(page);
  uint64_t bits = hdi_slot_bits(&its->slot);
  misuse(end, "HD-E02");
  for (size_t within = 1; within < page->block_bytes; within++) misuse(live + within, "HD-E01");
  misuse(page->base + (64 + hd_lowest_bit(bits)) * page->block_bytes, "HD-E03");
  assert_true(hdi_slot_bits(&its->slot) == bits);
  hd_free(live);
  bits = hdi_slot_bits(&its->slot);
  misuse(live, "HD-E03");
  assert_true(hdi_slot_bits(&its->slot) == bits);
  assert_int_equal(hdi_page_used(page), used - 1);
  hd_misuse_hook_set(NULL);
  hd_option_set("onerror", "abort");
  while (count > 0) hd_free(blocks[--count]);
}

/* Untold frees are counted at last, and blocks that are still free leave the list. */
static size_t tell(hd_unit *page, size_t count, void **blocks, size_t held) {
  hd_store_relaxed(&page->remote_count, (uint32_t)count);
  size_t left_over = 0;
  for (size_t i = 0; i < held; i++) {
    bool freed = hd_load_relaxed(&page->map[hdi_unit_block_index(page, blocks[i])]) == HD_BLOCK_FREE && hdi_space_find(blocks[i]) == page;
    if (!freed) blocks[left_over++] = blocks[i];
  }
  return left_over;
}

/* What is free of the group can only be what others freed: it is looked at again where they do. */
static void test_same_group_where_others_free(void **state) {
  (void)state;
  if (hdi_heap_is_empty(hdi_heap_self)) skip();
  enum { BYTES = 800, FREED = 32 };
  static void *blocks[BACK_MOST];
  hd_class *its = &hdi_heap_self->class[hdi_sizeclass_of(BYTES)];
  for (int told = 0; told < 2; told++) {
    size_t count = 0;
    do {
      assert_true(count < BACK_MOST);
      assert_non_null(blocks[count++] = hd_malloc(BYTES));
    } while (its->page->fresh < 64 || its->page->group != 0 || hdi_slot_bits(&its->slot) != 0);
    hd_unit *page = its->page;
    free_untold(page, 0, FREED);
    its->told = its->shared = told;
    its->pause = 0;
    void *p = hd_malloc(BYTES);
    assert_ptr_equal(hdi_space_find(p), page);
    assert_int_equal(hdi_unit_block_index(page, p), told ? 0 : 64);
    if (told) assert_int_equal(hd_bit_count(hdi_slot_bits(&its->slot)), FREED - 1);
    hd_free(p);
    for (count = tell(page, FREED, blocks, count); count > 0;) hd_free(blocks[--count]);
    its->told = false;
  }
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_turn, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_left_with_free_blocks, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_groups_behind, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_groups_behind_where_others_free, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_same_group_first, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_round_again, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_all_free, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_told_of_this_page, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_told_of_the_next_page, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_mail_first, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_parcels_first, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_only_virgin_blocks_there, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_virgin_blocks_wait, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_virgin_blocks_wait_for_mail, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_what_waits, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_waits_as_the_last, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_out_of_the_list, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_two_with_virgin_blocks, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_used_up_with_virgin_blocks, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_few_blocks_do_not_wait, two_pages, end_pages),
      cmocka_unit_test_setup_teardown(test_pauses, two_pages, end_pages),
      cmocka_unit_test(test_far),
      cmocka_unit_test(test_fetched_blocks),
      cmocka_unit_test(test_goes_back_into_the_slot),
      cmocka_unit_test(test_goes_back_nowhere_else),
      cmocka_unit_test(test_misuse_goes_nowhere),
      cmocka_unit_test(test_same_group_where_others_free),
      cmocka_unit_test(test_out_of_the_list_in_any_order), /* last: it leaves old memory, which is claimed by larger pieces */
  };
  return cmocka_run_group_tests_name("turns", tests, NULL, NULL);
}
