/* Programs that work in waves. A thread that gives more than it may keep gives and takes several runs at a time; whoever only takes gets
 * one. Where threads meet at the space each keeps more. What rests in its caches is given up before it touches memory that nobody had.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <sched.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/gate.h"
#include "core/page.h"
#include "heddle.h"
#include "pages.h"

enum { MANY = 48, BULK = HD_CACHE_UNITS / 2 };

static hd_unit *run[MANY];

static void take_all(size_t count, size_t units) {
  bool zeroed = false;
  for (size_t i = 0; i < count; i++) {
    run[i] = hdi_heap_take_run(hdi_heap_self, units, 1, &zeroed);
    assert_non_null(run[i]);
    assert_int_equal(run[i]->run_units, units);
    assert_int_equal(hd_load_relaxed(&run[i]->kind), HD_UNIT_NONE);
    for (size_t other = 0; other < i; other++) assert_true(run[other] + units <= run[i] || run[i] + units <= run[other]);
  }
}

static void give_all(size_t count, size_t units) {
  for (size_t i = 0; i < count; i++) hdi_heap_give_run(hdi_heap_self, run[i], units, true);
}

static int begin(void **state) {
  (void)state;
  own_pages();
  hd_collect(0);
  hdi_gate_enter(hdi_heap_self);
  return 0;
}

static int end(void **state) {
  (void)state;
  hdi_heap_drop_runs(hdi_heap_self);
  hdi_gate_leave(hdi_heap_self);
  return 0;
}

/* Half of the cache goes at once, and the thread takes as much as it has given so. */
static void test_waves(void **state) {
  (void)state;
  hd_heap *heap = hdi_heap_self;
  for (size_t units = 1; units <= 4; units++) {
    size_t top = 0, all = 0;
    for (int wave = 0; wave < 3; wave++) {
      take_all(MANY, units);
      if (wave == 0) top = hd_load_relaxed(&hdi_space.top);
      assert_int_equal(heap->given < units, 1); /* all that came back so was for this */
      give_all(MANY, units);
      assert_in_range(heap->cached_units, BULK, HD_CACHE_UNITS);
      all = hd_load_relaxed(&hdi_space.dirty.units) + heap->cached_units;
      assert_int_equal(heap->given + heap->cached_units, MANY * units);
    }
    assert_int_equal(hd_load_relaxed(&hdi_space.top), top);
    assert_true(all >= MANY * units);
    hdi_heap_drop_runs(heap);
    assert_int_equal(heap->given, 0);
  }
}

/* A processor fetches ahead from one run into the next if they are handed out as they lie (decision 43). Whatever order they were freed in,
 * only those that stood in the cache come in another. */
static void test_in_ascending_order(void **state) {
  (void)state;
  bool zeroed = false;
  for (int backwards = 0; backwards < 2; backwards++) {
    hd_unit *all = hdi_space_take(&hdi_space, MANY, 1, &zeroed);
    assert_non_null(all);
    hdi_space_give(&hdi_space, all, MANY, true);
    take_all(MANY, 1);
    for (size_t i = 0; i < MANY; i++) hdi_heap_give_run(hdi_heap_self, run[backwards ? MANY - 1 - i : i], 1, true);
    size_t cached = hdi_heap_self->cached_units, behind = 0;
    take_all(MANY, 1);
    for (size_t i = cached + 1; i < MANY; i++) behind += run[i] == run[i - 1] + 1;
    assert_in_range(behind, MANY - cached - 1 - MANY / BULK, MANY);
    give_all(MANY, 1);
    hdi_heap_drop_runs(hdi_heap_self);
  }
}

/* One lock for several: what comes with the first stands in the cache. */
static void test_several_at_once(void **state) {
  (void)state;
  hd_heap *heap = hdi_heap_self;
  take_all(MANY, 1);
  give_all(MANY, 1);
  size_t cached = heap->cached_units;
  take_all(cached, 1);
  assert_int_equal(heap->cached_units, 0);
  take_all(1, 1);
  assert_int_equal(heap->cached_units, BULK - 1);
  assert_int_equal(heap->given, MANY - cached - BULK);
  give_all(1, 1);
}

/* A thread that has given nothing so takes one run, so that dirty memory is there for others. */
static void test_one_for_who_only_takes(void **state) {
  (void)state;
  hd_heap *heap = hdi_heap_self;
  take_all(MANY, 1);
  give_all(MANY, 1);
  hdi_heap_drop_runs(heap);
  size_t dirty = hd_load_relaxed(&hdi_space.dirty.units);
  take_all(1, 1);
  assert_int_equal(heap->cached_units, 0);
  assert_int_equal(hd_load_relaxed(&hdi_space.dirty.units), dirty - 1);
  give_all(1, 1);
}

/* Long runs go one by one, and those that do not fill a good part of the cache. */
static void test_long_ones_go_alone(void **state) {
  (void)state;
  hd_heap *heap = hdi_heap_self;
  for (size_t units = BULK / 2 + 1; units <= HD_CACHE_RUN; units += 3) {
    take_all(8, units);
    give_all(8, units);
    assert_int_equal(heap->given, 0);
    hdi_heap_drop_runs(heap);
  }
}

/* Memory that somebody else has taken meanwhile: what there was to take is forgotten, and comes from the top. */
static void test_nothing_left(void **state) {
  (void)state;
  hd_heap *heap = hdi_heap_self;
  bool zeroed = false;
  take_all(MANY, 2);
  give_all(MANY, 2);
  uint32_t given = heap->given;
  assert_true(given >= BULK);
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
  take_all(heap->cached_units / 2, 2);
  assert_int_equal(heap->cached_units, 0);
  hd_unit *one = hdi_heap_take_run(heap, 2, 1, &zeroed);
  assert_non_null(one);
  assert_true(zeroed);
  assert_int_equal(heap->given, 0);
  hdi_heap_give_run(heap, one, 2, true);
}

/* What was a large block is none any more once its run has gone; the one that did not fit in is unmarked as well. */
static void test_large_blocks(void **state) {
  enum { BYTES = 2 * HD_UNIT_BYTES };
  void *p[MANY];
  (void)state;
  hdi_gate_leave(hdi_heap_self);
  for (int wave = 0; wave < 3; wave++) {
    for (size_t i = 0; i < MANY; i++) {
      assert_non_null(p[i] = hd_malloc(BYTES));
      memset(p[i], (int)i + 1, BYTES);
    }
    for (size_t i = 0; i < MANY; i++) {
      uint8_t *bytes = p[i];
      assert_true(bytes[0] == i + 1 && bytes[BYTES - 1] == i + 1);
      hd_free(p[i]);
    }
    size_t marked = 0;
    for (size_t i = 0; i < MANY; i++) marked += hd_load_relaxed(&hdi_space_find(p[i])->kind) == HD_UNIT_LARGE;
    assert_in_range(marked, hdi_heap_self->cached_units / 2 - 1, hdi_heap_self->cached_units / 2);
  }
  hdi_gate_enter(hdi_heap_self);
}

/* Nothing that was touched is left in the space; whether the heap has taken enough since to give up what rests in it. */
static void nothing_dirty(bool taken) {
  hdi_heap_drop_runs(hdi_heap_self);
  hdi_space_purge(&hdi_space, hdi_space_tick(), SIZE_MAX);
  assert_false(hdi_space_has_dirty(&hdi_space, 1));
  hdi_heap_self->taken = taken ? UINT32_MAX / 2 : 0;
}

/* Whether a run of one unit is memory that nobody had. */
static bool next_is_new(void) {
  bool zeroed = false;
  hd_unit *first = hdi_heap_take_run(hdi_heap_self, 1, 1, &zeroed);
  assert_non_null(first);
  hdi_heap_give_run(hdi_heap_self, first, 1, true);
  return zeroed;
}

static hd_class *class_of(size_t bytes) { return &hdi_heap_self->class[hdi_sizeclass_of(bytes)]; }

/* Freed blocks of a medium class, each of which keeps a page. */
static void rest_in_magazine(size_t bytes) {
  enum { PAGES = 12 };
  void *p[PAGES * 16];
  size_t count = PAGES * (HD_UNIT_BYTES / bytes);
  assert_true(count <= sizeof p / sizeof *p);
  hdi_gate_leave(hdi_heap_self);
  for (size_t i = 0; i < count; i++) assert_non_null(p[i] = hd_malloc(bytes));
  for (size_t start = 0; start < count / PAGES; start++)
    for (size_t i = start; i < count; i += count / PAGES) hd_free(p[i]);
  hdi_gate_enter(hdi_heap_self);
}

static void test_magazines_give_way(void **state) {
  enum { BYTES = 8192 };
  (void)state;
  hd_magazine *magazine = hdi_heap_magazine(hdi_heap_self, hdi_sizeclass_of(BYTES));
  rest_in_magazine(BYTES);
  assert_true(magazine->top - magazine->first >= 4 && class_of(BYTES)->page_count >= 4);
  nothing_dirty(false);
  assert_true(next_is_new());
  assert_true(magazine->top - magazine->first >= 4 && class_of(BYTES)->page_count >= 4);
  nothing_dirty(true);
  assert_false(next_is_new());
  assert_ptr_equal(magazine->top, magazine->first);
  assert_true(class_of(BYTES)->page_count <= 1);
  assert_in_range(hdi_heap_self->taken, 1, 16); /* and only the next megabytes make it do so again */
}

/* Where it was much, the heap does so again before it has taken many more. */
static void test_much_gives_way_soon_again(void **state) {
  (void)state;
  for (size_t bytes = 5120; bytes <= 8192; bytes += 1024) rest_in_magazine(bytes); /* upwards: a class borrows from larger ones */
  nothing_dirty(true);
  assert_false(next_is_new());
  assert_in_range(hdi_heap_self->taken, 17, 63);
}

/* A run may be long, too. */
static void test_magazines_give_way_to_large_blocks(void **state) {
  enum { BYTES = 7168 };
  bool zeroed = false;
  (void)state;
  hd_magazine *magazine = hdi_heap_magazine(hdi_heap_self, hdi_sizeclass_of(BYTES));
  rest_in_magazine(BYTES);
  nothing_dirty(true);
  hd_unit *first = hdi_heap_take_run(hdi_heap_self, 40, 1, &zeroed);
  assert_non_null(first);
  assert_ptr_equal(magazine->top, magazine->first);
  hdi_heap_give_run(hdi_heap_self, first, 40, true);
}

/* So many blocks of a small class handed out, all but `live` freed. Returns the first. */
static uint8_t *rest_in_slot(size_t bytes, size_t count, size_t live) {
  static uint8_t *p[1024];
  assert_true(count <= 1024);
  hdi_gate_leave(hdi_heap_self);
  for (size_t i = 0; i < count; i++) {
    assert_non_null(p[i] = hd_malloc(bytes));
    memset(p[i], (int)i, bytes);
  }
  for (size_t i = live; i < count; i++) hd_free(p[i]);
  hdi_gate_enter(hdi_heap_self);
  assert_int_equal(class_of(bytes)->page_count, 1);
  assert_non_null(class_of(bytes)->page);
  return p[0];
}

/* The current page of a small class goes when it is empty and most of it was in use, not when a block is live or few were touched. */
static void test_current_pages_give_way(void **state) {
  (void)state;
  rest_in_slot(208, 250, 0);
  nothing_dirty(false);
  assert_true(next_is_new());
  assert_int_equal(class_of(208)->page_count, 1);
  nothing_dirty(true);
  assert_false(next_is_new());
  assert_int_equal(class_of(208)->page_count, 0);
  assert_null(class_of(208)->page);

  rest_in_slot(224, 60, 0);
  nothing_dirty(true);
  assert_true(next_is_new());
  assert_int_equal(class_of(224)->page_count, 1);

  uint8_t *live = rest_in_slot(240, 250, 1);
  nothing_dirty(true);
  assert_true(next_is_new());
  assert_int_equal(class_of(240)->page_count, 1);
  hdi_gate_leave(hdi_heap_self);
  for (int i = 0; i < 250; i++) {
    uint8_t *more = hd_malloc(240);
    assert_non_null(more);
    assert_ptr_not_equal(more, live);
    memset(more, 0xff, 240);
  }
  for (size_t i = 0; i < 240; i++) assert_int_equal(live[i], 0);
  hdi_gate_enter(hdi_heap_self);
}

/* ---- a heap with many pages -------------------------------------------------------------------------------------- */

enum { HEAP_UNITS = 64, LOOKS = 3, BIG = 6144, BIG_IN_UNIT = HD_UNIT_BYTES / BIG };

/* Live blocks in whole units, so that the heap has as many pages as said. Returns how many; the caller frees them. */
static size_t fill_units(void **p, uint32_t units) {
  size_t count = 0;
  while (hdi_heap_self->page_units < units) assert_non_null(p[count++] = hd_malloc(BIG));
  return count;
}

/* With each new page LOOKS classes are looked at: so many pages that all of them are, twice. */
static void look_twice(void **p, size_t *count) {
  enum { PAGES = 2 * HD_CLASS_COUNT / LOOKS + 2 };
  for (uint32_t i = 0; i < PAGES * BIG_IN_UNIT; i++) assert_non_null(p[(*count)++] = hd_malloc(BIG));
}

static void free_blocks(void **p, size_t count) {
  for (size_t i = 0; i < count; i++) hd_free(p[i]);
}

static void *many[(HEAP_UNITS + HD_CLASS_COUNT + 8) * BIG_IN_UNIT];

/* As many units as these tests need have been touched and are free. */
static void leave_old_memory(void) {
  hdi_gate_leave(hdi_heap_self);
  free_blocks(many, fill_units(many, HEAP_UNITS + HD_CLASS_COUNT));
  hdi_gate_enter(hdi_heap_self);
  hdi_heap_drop_cache(hdi_heap_self);
}

static size_t resting(size_t bytes) {
  hd_magazine *magazine = hdi_heap_magazine(hdi_heap_self, hdi_sizeclass_of(bytes));
  return (size_t)(magazine->top - magazine->first);
}

/* Without any growth: the space has old memory enough for all of it. */
static void test_idle_classes_give_way(void **state) {
  (void)state;
  leave_old_memory();
  rest_in_magazine(8192);
  rest_in_slot(256, 250, 0);
  uint8_t *live = rest_in_slot(304, 200, 1);
  hdi_gate_leave(hdi_heap_self);
  hdi_heap_self->taken = 0;
  size_t top = hd_load_relaxed(&hdi_space.top);
  size_t count = fill_units(many, HEAP_UNITS - 1);
  assert_true(resting(8192) >= 4 && class_of(8192)->page_count >= 4);
  assert_int_equal(class_of(256)->page_count, 1);
  look_twice(many, &count);
  assert_int_equal(hd_load_relaxed(&hdi_space.top), top);
  assert_int_equal(resting(8192), 0);
  assert_true(class_of(8192)->page_count <= 1);
  assert_int_equal(class_of(256)->page_count, 0);
  assert_int_equal(class_of(304)->page_count, 1);
  free_blocks(many, count);
  hd_free(live);
  hdi_gate_enter(hdi_heap_self);
}

/* In a heap of few pages, however many it takes one after the other. It doesn't ask the processor how bits are counted either. */
static void test_small_heaps_keep_theirs(void **state) {
  (void)state;
  hdi_page_counting = HD_COUNT_UNASKED;
  rest_in_slot(288, 220, 0);
  hdi_gate_leave(hdi_heap_self);
  for (int i = 0; i < HD_CLASS_COUNT; i++) {
    hdi_heap_self->taken = 0;
    free_blocks(many, fill_units(many, HEAP_UNITS - 1));
  }
  assert_int_equal(class_of(288)->page_count, 1);
  assert_int_equal(hdi_page_counting, HD_COUNT_UNASKED);
  hdi_gate_enter(hdi_heap_self);
}

/* A class that claims blocks all the while keeps what it has. A heap of so many pages asks the processor how bits are counted. */
static void test_classes_in_use_keep_theirs(void **state) {
  (void)state;
  hdi_page_counting = HD_COUNT_UNASKED;
  rest_in_slot(272, 200, 0);
  hdi_gate_leave(hdi_heap_self);
  size_t count = fill_units(many, HEAP_UNITS - 1);
  hd_class *class = class_of(272);
  hd_unit *page = class->page;
  assert_non_null(page);
  for (int i = 0; i < HD_CLASS_COUNT; i++) {
    class->claims++; /* as a claim does */
    hdi_heap_self->taken = 0;
    for (int k = 0; k < BIG_IN_UNIT; k++) assert_non_null(many[count++] = hd_malloc(BIG));
  }
  assert_ptr_equal(class->page, page);
#if defined(__x86_64__)
  assert_int_not_equal(hdi_page_counting, HD_COUNT_UNASKED);
#endif
  free_blocks(many, count);
  hdi_gate_enter(hdi_heap_self);
}

/* Of few touched blocks: a page of new memory stays, one of old memory goes. */
static void test_old_pages_give_way_earlier(void **state) {
  (void)state;
  leave_old_memory();
  rest_in_slot(384, 40, 0);
  rest_in_slot(352, 40, 0);
  assert_false(class_of(384)->page->zeroed || class_of(352)->page->zeroed);
  class_of(352)->page->zeroed = true; /* as if it were new */
  hdi_gate_leave(hdi_heap_self);
  size_t count = fill_units(many, HEAP_UNITS);
  look_twice(many, &count);
  assert_int_equal(class_of(384)->page_count, 0);
  assert_int_equal(class_of(352)->page_count, 1);
  class_of(352)->page->zeroed = false;
  free_blocks(many, count);
  hdi_gate_enter(hdi_heap_self);
}

/* The units that a heap counts are those of its pages. */
static void test_units_are_counted(void **state) {
  (void)state;
  uint32_t before = hdi_heap_self->page_units;
  bool zeroed = false;
  hd_unit *run_of_nobody = hdi_heap_take_run(hdi_heap_self, 1, 1, &zeroed);
  assert_int_equal(hdi_heap_self->page_units, before);
  hdi_heap_give_run(hdi_heap_self, run_of_nobody, 1, true);
  hdi_gate_leave(hdi_heap_self);
  void *p = hd_malloc(20 * 1024);
  uint32_t units = hdi_space_find(p)->head->run_units;
  assert_int_equal(hdi_heap_self->page_units, before + units);
  hd_free(p);
  hd_collect(0);
  assert_true(hdi_heap_self->page_units < before + units);
  hd_heap *heap = hd_heap_create(NULL);
  assert_non_null(hd_heap_malloc(heap, 100));
  assert_int_equal(heap->page_units, 1);
  hd_heap_reset(heap);
  assert_int_equal(heap->page_units, 0);
  assert_non_null(hd_heap_malloc(heap, 100));
  assert_int_equal(heap->page_units, 1);
  hd_heap_destroy(heap);
  hdi_gate_enter(hdi_heap_self);
}

/* Fill the cache with runs of two units, and give one more while somebody has the space's lock. What the cache does not take then is put
 * off, not waited with. */
static void give_one_more(void) {
  size_t most = hdi_heap_self->cache_room / 2;
  hdi_heap_self->taken = 0; /* a heap that grows gives up what it keeps, and its cache is as at first */
  take_all(most + 1, 2);
  give_all(most, 2);
  assert_int_equal(hdi_heap_self->cached_units, hdi_heap_self->cache_room);
  hdi_lock_take(&hdi_space.lock);
  hdi_heap_give_run(hdi_heap_self, run[most], 2, true);
  hdi_lock_drop(&hdi_space.lock);
}

/* One in 128 of such times the cache takes twice as much, up to four times; and when it is emptied it is as before. */
static void test_more_where_others_are(void **state) {
  (void)state;
  hd_heap *heap = hdi_heap_self;
  for (uint32_t room = 2 * HD_CACHE_UNITS; room <= HD_CACHE_UNITS_MOST; room *= 2) {
    heap->crowded = 127;
    give_one_more();
    assert_int_equal(heap->cache_room, room);
    assert_int_equal(heap->cached_units, room / 2 + 2);
    hd_unit *longest = heap->cached[HD_CACHE_RUN];
    bool zeroed = false;
    hd_unit *too_long = hdi_heap_take_run(heap, HD_CACHE_RUN + 1, 1, &zeroed);
    assert_non_null(too_long);
    hdi_heap_give_run(heap, too_long, HD_CACHE_RUN + 1, true);
    assert_ptr_equal(heap->cached[HD_CACHE_RUN], longest);
    assert_int_equal(heap->cached_units, room / 2 + 2);
  }
  heap->crowded = 127;
  give_one_more();
  assert_int_equal(heap->cache_room, HD_CACHE_UNITS_MOST);
  hdi_heap_drop_runs(heap);
  assert_int_equal(heap->cache_room, HD_CACHE_UNITS);
}

static atomic_uint held;

static void *hold_space(void *nothing) {
  hdi_lock_take(&hdi_space.lock);
  hd_store_release(&held, 1u);
  while (hd_load_acquire(&held) == 1 && (hd_load_relaxed(&hdi_space.lock.word) & HD_LOCK_SLEEPERS) == 0) sched_yield();
  hdi_lock_drop(&hdi_space.lock);
  return nothing;
}

/* A few times are no crowd; and nobody there is none at all. Runs are given without the lock, or it is waited for. */
static void test_not_at_once(void **state) {
  (void)state;
  hd_heap *heap = hdi_heap_self;
  pthread_t other;
  heap->crowded = 0;
  take_all(MANY, 2);
  give_all(MANY / 2, 2);
  assert_int_equal(heap->crowded, 0);
  assert_int_equal(pthread_create(&other, NULL, hold_space, NULL), 0);
  while (hd_load_acquire(&held) != 1) sched_yield();
  for (size_t i = MANY / 2; i < MANY; i++) hdi_heap_give_run(heap, run[i], 2, true);
  hd_store_release(&held, 2u);
  assert_int_equal(pthread_join(other, NULL), 0);
  assert_in_range(heap->crowded, 1, MANY / 2);
  assert_int_equal(heap->cache_room, HD_CACHE_UNITS);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_waves, begin, end),
      cmocka_unit_test_setup_teardown(test_in_ascending_order, begin, end),
      cmocka_unit_test_setup_teardown(test_several_at_once, begin, end),
      cmocka_unit_test_setup_teardown(test_one_for_who_only_takes, begin, end),
      cmocka_unit_test_setup_teardown(test_long_ones_go_alone, begin, end),
      cmocka_unit_test_setup_teardown(test_nothing_left, begin, end),
      cmocka_unit_test_setup_teardown(test_large_blocks, begin, end),
      cmocka_unit_test_setup_teardown(test_magazines_give_way, begin, end),
      cmocka_unit_test_setup_teardown(test_much_gives_way_soon_again, begin, end),
      cmocka_unit_test_setup_teardown(test_magazines_give_way_to_large_blocks, begin, end),
      cmocka_unit_test_setup_teardown(test_current_pages_give_way, begin, end),
      cmocka_unit_test_setup_teardown(test_idle_classes_give_way, begin, end),
      cmocka_unit_test_setup_teardown(test_small_heaps_keep_theirs, begin, end),
      cmocka_unit_test_setup_teardown(test_classes_in_use_keep_theirs, begin, end),
      cmocka_unit_test_setup_teardown(test_old_pages_give_way_earlier, begin, end),
      cmocka_unit_test_setup_teardown(test_units_are_counted, begin, end),
      cmocka_unit_test_setup_teardown(test_more_where_others_are, begin, end),
      cmocka_unit_test_setup_teardown(test_not_at_once, begin, end),
  };
  return cmocka_run_group_tests_name("waves", tests, NULL, NULL);
}
