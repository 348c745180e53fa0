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
  class = (hd_class){.step = 16};
  hdi_claim_begin(page, &class);
  return page;
}

static void drop_page(hd_unit *page) {
  for (uint32_t i = 0; i < page->capacity; i++) hd_store_relaxed(&page->map[i], HD_BLOCK_FREE);
  unsigned units = page->run_units;
  hdi_page_clear(heap, page);
  hdi_heap_give_run(heap, page, units, true);
}

static uint64_t slot_bits(void) { return hdi_slot_bits(&class.slot); }

/* Take what the slot holds; returns how many. */
static unsigned take_all(void) {
  unsigned count = 0;
  for (; slot_bits() != 0; count++) hdi_alloc_take(&class.slot, slot_bits());
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
    uint64_t *words = page->words;
    assert_true((uintptr_t)words >= (uintptr_t)map + map_end || (uintptr_t)(words + map_end / 64) <= (uintptr_t)map);
    for (uint32_t i = 0; i < map_end; i++) assert_int_equal(map[i], HD_BLOCK_FREE);
    for (uint32_t i = 0; i < map_end / 64; i++) {
      assert_int_equal(words[i], 0);
      words[i] = UINT64_MAX;
    }
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
    /* The store asks for zeroed memory, and has put its links in front by now. */
    for (uint32_t i = sizeof(void *); i < map_end; i++) assert_int_equal(map[i], 0);
    for (uint32_t i = 0; i < map_end / 64; i++) assert_true(words[i] == 0 || i == 0);
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
      assert_int_not_equal(slot_bits(), 0);
      uint32_t claimed = (uint32_t)hd_bit_count(slot_bits());
      assert_true(claimed <= class.step);
      assert_int_equal(page->held, count + claimed);
      while (slot_bits() != 0) {
        uint64_t offset = (uint64_t)((uint8_t *)hdi_alloc_take(&class.slot, slot_bits()) - page->base);
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
  assert_int_equal(slot_bits(), 1u << 3 | 1u << 9);
  assert_int_equal(page->fresh, 16);
  assert_false(class.zeroed);
  assert_int_equal(take_all(), 2);
  free_block(page, 3);
  assert_true(hdi_claim_next(page, &class)); /* one in sixteen is not */
  assert_int_equal(page->fresh, 32);
  assert_true(class.zeroed);
  assert_int_equal(slot_bits(), 0xffffu << 16);
  assert_int_equal(take_all(), 16);
  drop_page(page);
}

/* As another thread does, who has not told yet. */
static void free_untold(hd_unit *page, uint32_t from, uint32_t to) {
  for (uint32_t i = from; i < to; i++) hd_store_release(&page->map[i], HD_BLOCK_FREE);
}

/* What others freed of the group; it is in its word from then on, and counts as used until they tell. */
static void test_claim_again_wants_a_quarter(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  class.step = 64;
  class.shared = true;
  assert_true(hdi_claim_next(page, &class));
  assert_int_equal(take_all(), 64);
  assert_int_equal(hdi_claim_again(page, &class), 0);
  for (uint32_t i = 0; i < 15; i++) free_untold(page, 2 * i, 2 * i + 1);
  class.pause = 0;
  assert_int_equal(hdi_claim_again(page, &class), 0);
  assert_int_equal(page->words[0], 0x15555555);
  assert_int_equal(page->held, 64 + 15);
  assert_int_equal(hdi_page_used(page), 64);
  free_untold(page, 63, 64);
  class.zeroed = true;
  for (int pause = 0; pause < 3; pause++) assert_int_equal(hdi_claim_again(page, &class), 0); /* it failed: not again at once */
  uint64_t bits = hdi_claim_again(page, &class);
  assert_true(bits == (0x15555555u | UINT64_C(1) << 63));
  assert_true(slot_bits() == bits);
  assert_int_equal(page->held, 64 + 16);
  assert_false(class.zeroed);
  drop_page(page);
}

/* A page of three groups, all of its blocks taken. */
static hd_unit *three_groups(void) {
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  class.step = 64;
  for (int i = 0; i < 3; i++) {
    assert_true(hdi_claim_next(page, &class));
    assert_int_equal(take_all(), 64);
  }
  assert_int_equal(page->fresh, 192);
  return page;
}

/* The next group that has something, without a look at any byte. */
static void test_claim_forward(void **state) {
  (void)state;
  hd_unit *page = three_groups();
  assert_int_equal(hdi_claim_forward(page, &class), 0);
  free_block(page, 130);
  free_block(page, 131);
  assert_int_equal(hdi_claim_forward(page, &class), 0); /* of the last group itself */
  page->group = 0;
  class.zeroed = true;
  free_untold(page, 65, 66);
  assert_int_equal(hdi_claim_forward(page, &class), 0xc);
  assert_int_equal(page->group, 2);
  assert_false(class.zeroed);
  assert_ptr_equal(class.slot.blocks, page->base + 128 * 64);
  assert_ptr_equal(class.slot.map, page->map + 128);
  assert_int_equal(take_all(), 2);
  page->group = 0;
  assert_int_equal(hdi_claim_forward(page, &class), 0);
  page->group = HD_NO_GROUP;
  free_block(page, 5);
  assert_int_equal(hdi_claim_forward(page, &class), 0x20);
  assert_int_equal(page->group, 0);
  assert_int_equal(take_all(), 1);
  free_block(page, 70);
  class.shared = true; /* the bytes say more than the words, so there is more to do */
  assert_int_equal(hdi_claim_forward(page, &class), 0);
  drop_page(page);
}

/* Where fewer were freed than would pay, nothing is counted; what was counted and not taken since adds to them. */
static void test_counted_again(void **state) {
  (void)state;
  hd_unit *page = three_groups();
  uint32_t count = 99;
  class.page_count = 2; /* an eighth, which is 24 blocks */
  for (uint32_t i = 0; i < 23; i++) free_block(page, i);
  assert_false(hdi_claim_again_pays(page, &class, &count));
  assert_int_equal(count, 99);
  assert_int_equal(hdi_page_words_most(page), 23);
  free_block(page, 100);
  assert_true(hdi_claim_again_pays(page, &class, &count));
  assert_int_equal(count, 24);
  assert_int_equal(page->credit, HD_CREDIT_CURRENT);
  assert_true(hdi_claim_from(page, &class, 0));
  assert_int_equal(take_all(), 23);
  assert_int_equal(hdi_page_words_most(page), 24); /* one, really */
  free_block(page, 101);
  assert_false(hdi_claim_again_pays(page, &class, &count));
  assert_int_equal(count, 2);
  assert_int_equal(hdi_page_words_most(page), 2);
  page->credit = 0; /* as after two thousand million frees */
  hdi_heap_settle(heap, page);
  assert_int_equal(page->state, HD_PAGE_CURRENT);
  assert_int_equal(page->credit, HD_CREDIT_CURRENT);
  assert_int_equal(hdi_page_words_most(page), page->capacity); /* nobody knows */
  assert_false(hdi_claim_again_pays(page, &class, &count));
  assert_int_equal(count, 2);
  class.shared = true;
  free_untold(page, 102, 105);
  hdi_claim_look(page, &class, 1);
  assert_int_equal(hdi_page_words_most(page), 2 + 3);
  drop_page(page);
}

/* Words by twos and the last one, or one after the other; and what the slot holds apart. */
static void count_words(void) {
  hd_unit *page = new_page(hdi_sizeclass_of(16));
  uint32_t expected = 0;
  for (uint32_t i = 0; i < 64; i++) page->words[i] = UINT64_C(0x9e3779b97f4a7c15) << i;
  for (uint32_t groups = 0; groups <= 64; groups++) {
    page->fresh = groups * 64;
    assert_int_equal(hdi_page_count_words(page), expected);
    if (groups < 64) expected += (uint32_t)__builtin_popcountll(page->words[groups]);
  }
  page->fresh = 65;
  page->words[0] = page->words[1] = page->apart = UINT64_MAX;
  assert_int_equal(hdi_page_count_words(page), 192);
  page->state = HD_PAGE_FULL; /* whose `next` lies there */
  assert_int_equal(hdi_page_count_words(page), 128);
  drop_page(page);
}

static void test_count_words(void **state) {
  (void)state;
  hdi_page_counting = HD_COUNT_UNASKED;
  count_words();
  hdi_page_ask_processor();
#if defined(__x86_64__)
  assert_int_equal(hdi_page_counting, __builtin_cpu_supports("popcnt") ? HD_COUNT_SINGLY : HD_COUNT_BY_PAIRS);
  uint8_t answer = hdi_page_counting;
  hdi_page_counting = HD_COUNT_BY_PAIRS; /* it is asked once */
  hdi_page_ask_processor();
  assert_int_equal(hdi_page_counting, HD_COUNT_BY_PAIRS);
  hdi_page_counting = answer;
#endif
  count_words();
}

/* Blocks that read as zero stay apart from those that are freed meanwhile. */
static void test_apart(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  assert_true(hdi_claim_next(page, &class));
  assert_true(class.zeroed);
  hdi_alloc_take(&class.slot, slot_bits());
  free_block(page, 0);
  assert_int_equal(slot_bits(), 0xfffe);
  assert_int_equal(page->words[0], 1);
  assert_int_equal(hdi_page_used(page), 0);
  assert_int_equal(take_all(), 15);
  assert_int_equal(page->apart, 0);
  drop_page(page);
}

/* Of a group that is touched in part only, what is virgin stays virgin. */
static void test_claim_again_leaves_virgin_blocks(void **state) {
  (void)state;
  hd_unit *page = new_page(hdi_sizeclass_of(64));
  class.shared = true;
  assert_true(hdi_claim_next(page, &class));
  assert_int_equal(take_all(), 16);
  free_untold(page, 0, 16);
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
  assert_true(slot_bits() == UINT64_MAX);
  assert_false(class.zeroed);
  assert_int_equal(page->fresh, 64);
  assert_int_equal(take_all(), 64);
  drop_page(page);
}

/* With everything in use nothing is looked at; a free makes the difference. */
static void test_claims_nothing_of_a_full_page(void **state) {
  (void)state;
  hd_unit *page = taken_page();
  assert_false(hdi_claim_next(page, &class));
  free_block(page, 5);
  assert_true(hdi_claim_next(page, &class) == false); /* one in 64 is too few */
  for (uint32_t i = 8; i < 16; i++) free_block(page, i);
  assert_true(hdi_claim_next(page, &class));
  assert_true(slot_bits() == 0xff20u);
  drop_page(page);
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
  class.told = class.shared = true;
  assert_true(hdi_claim_next(page, &class)); /* 22 of 208 are too few */
  assert_int_equal(page->fresh, 224);
  assert_int_equal(take_all(), 16);
  assert_false(class.told);
  free_untold(page, 140, 146);
  class.told = true;
  assert_true(hdi_claim_next(page, &class)); /* 28 of 224 are an eighth */
  assert_int_equal(page->fresh, 224);
  assert_true(class.told && slot_bits() == UINT64_C(0xf) << 60);
  assert_int_equal(page->held, 224 + 28);
  drop_page(page);
}

/* The same of a page with nothing else to give, as far as its owner knows. */
static void test_counts_a_page_that_seems_full(void **state) {
  (void)state;
  hd_unit *page = taken_page();
  class.told = class.shared = true;
  assert_false(hdi_claim_next(page, &class)); /* nothing is free at all */
  assert_false(class.told);
  free_untold(page, 7, 10);
  class.told = true;
  assert_false(hdi_claim_next(page, &class));
  free_untold(page, 10, 11);
  assert_false(hdi_claim_next(page, &class)); /* nobody has told since */
  class.told = true;
  assert_true(hdi_claim_next(page, &class));
  assert_true(slot_bits() == 0x780u);
  assert_int_equal(page->held, 64 + 4);
  drop_page(page);
}

/* The child of a fork: threads that it does not have were about to free blocks, counted them, and left their bytes LIVE. */
static void test_counted_but_live(void **state) {
  (void)state;
  hd_unit *page = taken_page();
  page->held -= 20;
  assert_false(hdi_claim_next(page, &class));
  page->held = 0;
  assert_false(hdi_claim_next(page, &class));
  drop_page(page);
}

/* Fill a page, keep the blocks of keep[], have block `claimed` in the slot, and compare every system page after the purge. */
static void check_purge(size_t block_bytes, const uint32_t *keep, size_t keep_count, uint32_t claimed) {
  hd_unit *page = new_page(hdi_sizeclass_of(block_bytes));
  size_t step = hdi_os.page_bytes, expected = 0;
  memset(page->base, 0x5a, page_bytes(page));
  page->fresh = (uint32_t)page->capacity;
  page->group = (uint16_t)(claimed / 64);
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
      cmocka_unit_test(test_claim_forward),
      cmocka_unit_test(test_counted_again),
      cmocka_unit_test(test_count_words),
      cmocka_unit_test(test_apart),
      cmocka_unit_test(test_claim_again_leaves_virgin_blocks),
      cmocka_unit_test(test_claims_all_of_old_memory),
      cmocka_unit_test(test_claims_nothing_of_a_full_page),
      cmocka_unit_test(test_counts_what_is_untold),
      cmocka_unit_test(test_counts_a_page_that_seems_full),
      cmocka_unit_test(test_counted_but_live),
      cmocka_unit_test(test_purge_keeps_live_and_claimed),
  };
  return cmocka_run_group_tests_name("page", tests, set_up, tear_down);
}
