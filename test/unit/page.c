/* Pages: what init and clear leave behind, which blocks a claim takes, and which system pages a purge gives back.
 *
 * Each test cuts a page of its own out of an explicit heap and plays the owner with a class of its own.
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
#include "core/store.h"
#include "heddle.h"
#include "os/os.h"

static hd_heap *heap;
static hd_class class;

static size_t page_bytes(const hd_unit *page) { return (size_t)page->run_units << HD_UNIT_SHIFT; }

static hd_unit *new_page(unsigned class_index) {
  unsigned units = hdi_sizeclass_units(hdi_sizeclass_bytes(class_index));
  bool zeroed = false;
  hd_unit *page = hdi_heap_take_run(heap, units, 1, &zeroed);
  assert_non_null(page);
  assert_true(hdi_page_init(heap, page, class_index, units, zeroed));
  page->zeroed = true; /* as a fresh one */
  page->state = HD_PAGE_CURRENT;
  page->credit = 1;
  page->group_at = HD_NO_GROUP;
  class = (hd_class){.page = page, .step = 16};
  return page;
}

static void drop_page(hd_unit *page) {
  for (uint32_t i = 0; i < page->capacity; i++) hd_store_relaxed(&page->map[i], HD_BLOCK_FREE);
  unsigned units = page->run_units;
  hdi_page_clear(page);
  hdi_heap_give_run(heap, page, units, true);
}

/* Take what the slot holds; returns how many. */
static unsigned take_all(void) {
  unsigned count = 0;
  for (; class.slot.bits != 0; count++) hdi_alloc_take(&class.slot, class.slot.bits);
  return count;
}

/* A page of one group, all of its blocks taken. */
static hd_unit *taken_page(void) {
  hd_unit *page = new_page(hdi_sizeclass_of(1024));
  class.step = 64;
  assert_true(hdi_claim_next(page, &class));
  assert_int_equal(page->capacity, 64);
  assert_int_equal(take_all(), 64);
  return page;
}

static void free_block(hd_unit *page, uint32_t index) {
  assert_int_equal(hd_load_relaxed(&page->map[index]), HD_BLOCK_LIVE);
  assert_false(hdi_free_local(page, page->map + index));
}

/* Somebody without a hold on the heap looks: not while a fork comes between, nor where there is no page. */
static void test_look(void **state) {
  (void)state;
  hd_page_view view;
  hd_unit *page = new_page(hdi_sizeclass_of(100));
  assert_true(hdi_page_look(page, &view, NULL));
  assert_int_equal(view.live, 0);
  hdi_lock_fork_begin();
  assert_false(hdi_page_look(page, &view, NULL));
  hdi_lock_fork_end();
  drop_page(page);
  assert_false(hdi_page_look(page, &view, NULL));
}

static void test_init_and_clear(void **state) {
  (void)state;
  for (unsigned class_index = 1; class_index < HD_CLASS_COUNT; class_index++) {
    uint32_t bytes = hdi_sizeclass_bytes(class_index);
    hd_unit *page = new_page(class_index);
    hd_block_state *map = page->map;
    uint32_t units = page->run_units, capacity = (uint32_t)page->capacity, map_end = (capacity + 63) / 64 * 64;
    assert_int_equal(capacity, page_bytes(page) / bytes);
    for (uint32_t i = 0; i < map_end; i++) assert_int_equal(map[i], i < capacity ? HD_BLOCK_FREE : HD_BLOCK_NONE);
    for (uint32_t i = 0; i < units; i++) {
      assert_ptr_equal(page[i].head, page);
      assert_int_equal(page[i].kind, HD_UNIT_PAGE);
      assert_int_equal(page[i].owner, (uintptr_t)heap | HD_OWNER_EXPLICIT | (units > 1 ? HD_OWNER_MEDIUM : 0));
    }
    for (uint32_t i = 0; i < capacity; i++) {
      hd_unit *unit = hdi_space_find(page->base + (size_t)i * bytes);
      assert_int_equal(hdi_unit_block_index(unit, page->base + (size_t)i * bytes), i);
    }
    assert_true(hdi_unit_block_index(page, page->base + (size_t)capacity * bytes) >= capacity);
    assert_true(hdi_unit_block_index(page, page->base + 1) >= capacity);
    drop_page(page);
    for (uint32_t i = 0; i < map_end; i++) assert_int_equal(map[i], 0); /* the store asks for zeroed memory */
    for (uint32_t i = 0; i < units; i++) {
      assert_int_equal(page[i].owner, 0);
      assert_int_not_equal(page[i].kind, HD_UNIT_PAGE);
    }
  }
}

static void test_claims_cover_each_block_once(void **state) {
  (void)state;
  static const size_t sizes[] = {16, 48, 64, 160, 1024, 1280, 9000, 40000, 57344};
  for (size_t s = 0; s < sizeof sizes / sizeof *sizes; s++) {
    static uint8_t taken[HD_UNIT_BYTES / 16];
    hd_unit *page = new_page(hdi_sizeclass_of(sizes[s]));
    memset(taken, 0, sizeof taken);
    uint32_t count = 0;
    while (hdi_claim_next(page, &class)) {
      assert_int_not_equal(class.slot.bits, 0);
      uint32_t claimed = (uint32_t)hd_bit_count(class.slot.bits);
      assert_true(claimed <= class.step);
      assert_int_equal(page->credit, 1 + count + claimed);
      while (class.slot.bits != 0) {
        uint64_t offset = (uint64_t)((uint8_t *)hdi_alloc_take(&class.slot, class.slot.bits) - page->base);
        assert_int_equal(offset % page->block_bytes, 0);
        assert_true(offset / page->block_bytes < page->capacity);
        assert_int_equal(taken[offset / page->block_bytes]++, 0);
        count++;
      }
      assert_int_equal(hdi_page_used(page), count);
      assert_int_equal(hdi_page_count_live(page), count);
    }
    assert_int_equal(count, page->capacity);
    drop_page(page);
  }
}

static void test_virgin_blocks_last(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  page->zeroed = true;
  assert_true(hdi_claim_next(page, &class));
  assert_true(class.zeroed);
  assert_int_equal(take_all(), 16);
  free_block(page, 3);
  free_block(page, 9);
  assert_true(hdi_claim_next(page, &class)); /* an eighth of what was handed out: worth a second look */
  assert_int_equal(class.slot.bits, 1u << 3 | 1u << 9);
  assert_int_equal(page->fresh, 16);
  assert_false(class.zeroed);
  assert_int_equal(take_all(), 2);
  free_block(page, 3);
  assert_true(hdi_claim_next(page, &class)); /* one in sixteen is not */
  assert_int_equal(page->fresh, 32);
  assert_true(class.zeroed);
  assert_int_equal(class.slot.bits, 0xffffu << 16);
  assert_int_equal(take_all(), 16);
  for (uint32_t i = 4; i < 16; i++) free_block(page, i);
  class.extend = true;
  assert_true(hdi_claim_next(page, &class)); /* on demand they come first */
  assert_int_equal(page->fresh, 48);
  assert_false(class.extend);
  drop_page(page);
}

static void test_claim_again_wants_a_quarter(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  class.step = 64;
  assert_true(hdi_claim_next(page, &class));
  assert_int_equal(take_all(), 64);
  assert_int_equal(hdi_claim_again(page, &class), 0);
  for (uint32_t i = 0; i < 15; i++) free_block(page, 2 * i);
  uint32_t credit = page->credit;
  class.pause = 0;
  assert_int_equal(hdi_claim_again(page, &class), 0);
  assert_int_equal(page->credit, credit);
  free_block(page, 63);
  class.zeroed = true;
  for (int pause = 0; pause < 3; pause++) assert_int_equal(hdi_claim_again(page, &class), 0); /* it failed: not again at once */
  uint64_t bits = hdi_claim_again(page, &class);
  assert_true(bits == (0x15555555u | UINT64_C(1) << 63));
  assert_int_equal(page->credit, credit - 1 + 16);
  assert_false(class.zeroed);
  drop_page(page);
}

static uint64_t quick(hd_unit *page) {
  uint64_t bits = hdi_claim_quick(page, &class);
  if (bits != 0) class.slot.bits = bits;
  return bits;
}

/* The next group, where there is nothing else to see to: all of it was handed out, some is free, nobody has told of frees. */
static void test_quick_claim(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  class.step = 64;
  for (int i = 0; i < 3; i++) {
    assert_true(hdi_claim_next(page, &class));
    assert_int_equal(quick(page), 0); /* virgin blocks come after */
    assert_int_equal(take_all(), 64);
  }
  assert_int_equal(page->fresh, 192);
  page->group_at = 0;
  assert_int_equal(quick(page), 0);
  free_block(page, 65);
  for (uint32_t i = 100; i < 128; i++) free_block(page, i);
  uint32_t credit = page->credit;
  class.extend = true;
  assert_int_equal(quick(page), 0);
  class.extend = false;
  hd_store_relaxed(&page->remote_count, 1u);
  assert_int_equal(quick(page), 0);
  hd_store_relaxed(&page->remote_count, 0u);
  class.zeroed = true;
  uint64_t bits = quick(page);
  assert_true(bits == (UINT64_C(0xfffffff) << 36 | 2));
  assert_int_equal(page->group_at, 64);
  assert_int_equal(page->credit, credit + 29);
  assert_ptr_equal(class.slot.blocks, page->base + 64 * 64);
  assert_ptr_equal(class.slot.map, page->map + 64);
  assert_false(class.zeroed);
  assert_int_equal(take_all(), 29);
  page->group_at = 128; /* the last one: round again where an eighth is free */
  for (uint32_t i = 1; i < 24; i++) free_block(page, i);
  assert_int_equal(quick(page), 0);
  free_block(page, 130);
  assert_int_equal(quick(page), 0xfffffe);
  assert_int_equal(page->group_at, 0);
  assert_int_equal(take_all(), 23);
  page->fresh = 160; /* as if half of the last group had never been handed out */
  memset((void *)(page->map + 160), HD_BLOCK_FREE, 32);
  page->group_at = 64;
  credit = page->credit;
  assert_int_equal(quick(page), 4);
  assert_int_equal(page->credit, credit + 1);
  assert_int_equal(take_all(), 1);
  memset((void *)(page->map + 160), HD_BLOCK_LIVE, 32);
  page->fresh = 192;
  for (uint32_t i = 0; i < 192; i++) free_block(page, i);
  page->group_at = 64;
  assert_int_equal(quick(page), 0); /* all is free: from the start again */
  drop_page(page);
}

/* A page of one group has no next one. */
static void test_quick_claim_of_a_full_page(void **state) {
  (void)state;
  hd_unit *page = taken_page();
  assert_int_equal(hdi_claim_quick(page, &class), 0);
  page->group_at = HD_NO_GROUP; /* as when it has just become CURRENT: all in use, as far as the owner knows */
  hd_store_release(&page->map[3], HD_BLOCK_FREE);
  assert_int_equal(hdi_claim_quick(page, &class), 0);
  free_block(page, 5);
  assert_int_equal(hdi_claim_quick(page, &class), 0x28);
  drop_page(page);
}

/* Of a group that is touched in part only, what is virgin stays virgin. */
static void test_claim_again_leaves_virgin_blocks(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  assert_true(hdi_claim_next(page, &class));
  assert_int_equal(take_all(), 16);
  for (uint32_t i = 0; i < 16; i++) free_block(page, i);
  assert_int_equal(hdi_claim_again(page, &class), 0xffff);
  assert_int_equal(page->fresh, 16);
  assert_int_equal(hdi_page_used(page), 16);
  drop_page(page);
}

/* Memory of earlier owners is resident for the most part: a busy class is not sparing with it. */
static void test_claims_all_of_old_memory(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  page->zeroed = false;
  class.busy = true;
  assert_true(hdi_claim_next(page, &class));
  assert_true(class.slot.bits == UINT64_MAX);
  assert_false(class.zeroed);
  assert_int_equal(page->fresh, 64);
  assert_int_equal(take_all(), 64);
  drop_page(page);
}

/* With everything in use nothing is looked at; a free makes the difference. */
static void test_claims_nothing_of_a_full_page(void **state) {
  (void)state;
  hd_unit *page = taken_page();
  assert_int_equal(hdi_claim_again(page, &class), 0);
  assert_int_equal(class.pause, 0);
  assert_false(hdi_claim_next(page, &class));
  free_block(page, 5);
  assert_true(hdi_claim_next(page, &class) == false); /* one in 64 is too few */
  for (uint32_t i = 8; i < 16; i++) free_block(page, i);
  assert_true(hdi_claim_next(page, &class));
  assert_true(class.slot.bits == 0xff20u);
  drop_page(page);
}

/* As another thread does, who has not told yet. */
static void free_untold(hd_unit *page, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) hd_store_release(&page->map[i], HD_BLOCK_FREE);
}

/* What others have freed and not told of is found by its bytes, where they are known to free; a look in vain is the last. */
static void test_counts_what_is_untold(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  class.step = 64;
  for (int group = 0; group < 3; group++) {
    assert_true(hdi_claim_next(page, &class));
    assert_int_equal(take_all(), 64);
  }
  class.step = 16;
  free_untold(page, 60, 70);
  free_untold(page, 178, 190);
  assert_true(hdi_claim_next(page, &class)); /* nobody has told */
  assert_int_equal(page->fresh, 208);
  assert_int_equal(take_all(), 16);
  class.told = true;
  assert_true(hdi_claim_next(page, &class)); /* 22 of 208 are too few */
  assert_int_equal(page->fresh, 224);
  assert_int_equal(take_all(), 16);
  assert_false(class.told);
  free_untold(page, 140, 146);
  class.told = true;
  assert_true(hdi_claim_next(page, &class)); /* 28 of 224 are an eighth */
  assert_int_equal(page->fresh, 224);
  assert_true(class.told && class.slot.bits == UINT64_C(0xf) << 60);
  assert_int_equal(page->credit, 1 + 224 + 4);
  drop_page(page);
}

/* The same of a page with nothing else to give, as far as its owner knows. */
static void test_counts_a_page_that_seems_full(void **state) {
  (void)state;
  hd_unit *page = taken_page();
  class.told = true;
  assert_false(hdi_claim_next(page, &class)); /* nothing is free at all */
  assert_false(class.told);
  free_untold(page, 7, 10);
  class.told = true;
  assert_false(hdi_claim_next(page, &class));
  free_untold(page, 10, 11);
  assert_false(hdi_claim_next(page, &class)); /* nobody has told since */
  class.told = true;
  assert_true(hdi_claim_next(page, &class));
  assert_true(class.slot.bits == 0x780u);
  assert_int_equal(page->credit, 1 + 64 + 4);
  drop_page(page);
}

/* More of them were wanted, but for another page: of one that has none left it takes what is free. */
static void test_wants_more_than_there_is(void **state) {
  (void)state;
  hd_unit *page = taken_page();
  for (uint32_t i = 20; i < 40; i++) free_block(page, i);
  class.extend = true;
  assert_true(hdi_claim_next(page, &class));
  assert_true(class.slot.bits == 0xfffff00000u);
  assert_false(class.extend);
  drop_page(page);
}

/* The child of a fork: threads that it does not have were about to free blocks, counted them, and left their bytes LIVE. */
static void test_counted_but_live(void **state) {
  (void)state;
  hd_unit *page = taken_page();
  page->credit -= 20;
  assert_false(hdi_claim_next(page, &class));
  page->credit = 1;
  assert_false(hdi_claim_next(page, &class));
  drop_page(page);
}

/* Fill a page, keep the blocks of keep[], have block `claimed` in the slot, and compare every system page after the purge. */
static void check_purge(size_t block_bytes, const uint32_t *keep, size_t keep_count, uint32_t claimed) {
  hd_unit *page = new_page(hdi_sizeclass_of(block_bytes));
  size_t step = hdi_os.page_bytes, expected = 0;
  memset(page->base, 0x5a, page_bytes(page));
  page->fresh = (uint32_t)page->capacity;
  page->group_at = claimed / 64 * 64;
  for (size_t i = 0; i < keep_count; i++) hd_store_relaxed(&page->map[keep[i]], HD_BLOCK_LIVE);
  bool stays[8 * HD_UNIT_BYTES / 4096] = {false};
  for (size_t i = 0; i <= keep_count; i++) {
    size_t from = (size_t)(i < keep_count ? keep[i] : claimed) * page->block_bytes;
    for (size_t at = from / step; at <= (from + page->block_bytes - 1) / step; at++) stays[at] = true;
  }
  for (size_t at = 0; at < page_bytes(page) / step; at++) expected += stays[at] ? 0 : step;
  assert_int_equal(hdi_page_purge_free(page, UINT64_C(1) << claimed % 64), expected);
  for (size_t at = 0; at < page_bytes(page); at += 64) assert_int_equal(page->base[at], stays[at / step] ? 0x5a : 0);
  drop_page(page);
}

static void test_purge_keeps_live_and_claimed(void **state) {
  (void)state;
  const uint32_t small[] = {0, 300, 1023}, odd[] = {85, 1364}, medium[] = {3}, large[] = {2};
  check_purge(64, small, 3, 700);
  check_purge(64, NULL, 0, 0);
  check_purge(48, odd, 2, 500); /* block 85 lies across the border of two system pages of 4 KiB */
  check_purge(5120, medium, 1, 8);
  check_purge(57344, large, 1, 5);
}

static int set_up(void **state) {
  (void)state;
  return (heap = hd_heap_create(NULL)) != NULL ? 0 : -1;
}

static int tear_down(void **state) {
  (void)state;
  bool all_given = heap->held_units == 0 && heap->runs == 0;
  hd_heap_destroy(heap);
  return all_given ? 0 : -1;
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_look),
      cmocka_unit_test(test_init_and_clear),
      cmocka_unit_test(test_claims_cover_each_block_once),
      cmocka_unit_test(test_virgin_blocks_last),
      cmocka_unit_test(test_claim_again_wants_a_quarter),
      cmocka_unit_test(test_quick_claim), cmocka_unit_test(test_quick_claim_of_a_full_page),
      cmocka_unit_test(test_claim_again_leaves_virgin_blocks),
      cmocka_unit_test(test_claims_all_of_old_memory),
      cmocka_unit_test(test_claims_nothing_of_a_full_page),
      cmocka_unit_test(test_counts_what_is_untold),
      cmocka_unit_test(test_counts_a_page_that_seems_full),
      cmocka_unit_test(test_wants_more_than_there_is),
      cmocka_unit_test(test_counted_but_live),
      cmocka_unit_test(test_purge_keeps_live_and_claimed),
  };
  return cmocka_run_group_tests_name("page", tests, set_up, tear_down);
}
