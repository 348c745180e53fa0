/* Frees of another thread's blocks, step by step: counted in a table, announced when it is worth it, taken in by the owner or by a
 * collector that has stopped it.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/page.h"
#include "core/purge.h"
#include "core/remote.h"
#include "heddle.h"
#include "os/os.h"

enum { BYTES = 1024, PER_PAGE = HD_UNIT_BYTES / BYTES, ENOUGH = PER_PAGE / 4, PAGES = 200, COUNT = PAGES * PER_PAGE };

static void *blocks[COUNT];
static hd_heap *owner;
static hd_unit *pages[PAGES];
static pthread_t thread;
static pthread_barrier_t made, drain, drained, ends;

/* Takes the blocks and rests; takes in its mail when asked to. */
static void *own(void *unused) {
  (void)unused;
  for (size_t i = 0; i < COUNT; i++) blocks[i] = hd_malloc(BYTES);
  owner = hdi_heap_self;
  pthread_barrier_wait(&made);
  pthread_barrier_wait(&drain);
  hd_thread_idle();
  pthread_barrier_wait(&drained);
  pthread_barrier_wait(&ends);
  return NULL;
}

static int set_up(void **state) {
  (void)state;
  pthread_barrier_t *const all[] = {&made, &drain, &drained, &ends};
  for (int i = 0; i < 4; i++) pthread_barrier_init(all[i], NULL, 2);
  if (pthread_create(&thread, NULL, own, NULL) != 0) return -1;
  pthread_barrier_wait(&made);
  memset(pages, 0, sizeof pages);
  for (size_t i = 0, found = 0; i < COUNT && found < PAGES; i++) {
    hd_unit *page = hdi_space_find(blocks[i]);
    bool known = false;
    for (size_t k = 0; k < found; k++) known = known || pages[k] == page;
    if (!known) pages[found++] = page;
  }
  return 0;
}

/* Everything goes back, whatever the test left over. */
static int tear_down(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT; i++) {
    if (blocks[i] != NULL) hd_free(blocks[i]);
    blocks[i] = NULL;
  }
  hd_thread_idle(); /* what the table still counts */
  pthread_barrier_wait(&drain);
  pthread_barrier_wait(&drained);
  hd_stats stats = {.struct_bytes = sizeof stats};
  bool good = hd_stats_get(&stats) && stats.live == 0 && owner->class[hdi_sizeclass_of(BYTES)].page_count <= 1;
  pthread_barrier_wait(&ends);
  pthread_join(thread, NULL);
  return good ? 0 : -1;
}

/* Free blocks of a page, as another thread; how many it has is the caller's business. */
static void free_of(hd_unit *page, size_t count) {
  for (size_t i = 0; i < COUNT && count > 0; i++) {
    if (blocks[i] == NULL || hdi_space_find(blocks[i]) != page) continue;
    hd_free(blocks[i]);
    blocks[i] = NULL;
    count--;
  }
  assert_int_equal(count, 0);
}

static void test_limits(void **state) {
  (void)state;
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    uint32_t bytes = hdi_sizeclass_bytes(i), capacity = (hdi_sizeclass_units(bytes) << HD_UNIT_SHIFT) / bytes;
    uint32_t limit = hdi_remote_limit(capacity, bytes), share = capacity > 16 && capacity <= 64 ? 4 : 8;
    assert_in_range(limit, 1, hd_max(1, capacity / share)); /* so much of the page, and no more than 16 KiB and a block */
    assert_true((limit - 1) * bytes < 16 * HD_KIB);
    assert_true(limit == hd_max(1, capacity / share) || limit * bytes >= 16 * HD_KIB);
  }
}

static void test_counted_then_announced(void **state) {
  (void)state;
  hd_unit *page = pages[3];
  hd_remote_entry *entry = hdi_remote_entry(hdi_heap_self, page);
  assert_int_equal(page->remote_limit, ENOUGH);
  for (uint32_t i = 1; i < ENOUGH; i++) {
    free_of(page, 1);
    assert_ptr_equal(entry->page, page);
    assert_int_equal(entry->left, ENOUGH - i);
    assert_int_equal(hd_load_relaxed(&page->remote_count), 0); /* nobody has been told */
    assert_false(hdi_remote_has_mail(owner));
  }
  free_of(page, 1);
  assert_null(entry->page);
  assert_int_equal(hdi_remote_counted(page), ENOUGH);
  assert_true(hdi_remote_is_queued(page) && hdi_remote_has_mail(owner));
}

/* Pages that share an entry: the older count is told, but is no reason to queue its page. */
static void test_pages_share_an_entry(void **state) {
  (void)state;
  for (size_t i = 0; i < PAGES; i++) {
    for (size_t k = i + 1; pages[i] != NULL && k < PAGES && pages[k] != NULL; k++) {
      hd_remote_entry *entry = hdi_remote_entry(hdi_heap_self, pages[i]);
      if (hdi_remote_entry(hdi_heap_self, pages[k]) != entry) continue;
      free_of(pages[i], 3);
      free_of(pages[k], 1);
      assert_ptr_equal(entry->page, pages[k]);
      assert_int_equal(hdi_remote_counted(pages[i]), 3);
      assert_false(hdi_remote_is_queued(pages[i]));
      return;
    }
  }
  fail_msg("no two of %d pages share an entry", PAGES);
}

/* A signal handler's free, while its thread is inside the gate: the table is not touched. */
static void test_inside_the_gate(void **state) {
  (void)state;
  hd_unit *page = pages[5];
  hd_remote_entry *entry = hdi_remote_entry(hdi_heap_self, page), before = *entry;
  hdi_gate_enter(hdi_heap_self);
  free_of(page, 1);
  assert_true(hdi_gate_is_inside(hdi_heap_self));
  hdi_gate_leave(hdi_heap_self);
  assert_int_equal(hdi_remote_counted(page), 1);
  assert_memory_equal(entry, &before, sizeof before);
}

static void *open_later(void *heap) {
  ts_sleep_ms(40);
  hdi_gate_open(heap);
  return NULL;
}

/* A collector has stopped the freeing thread: it waits, and then counts. */
static void test_stopped(void **state) {
  (void)state;
  pthread_t collector;
  hd_unit *page = pages[6];
  hdi_gate_raise(hdi_heap_self);
  assert_int_equal(pthread_create(&collector, NULL, open_later, hdi_heap_self), 0);
  free_of(page, 1);
  pthread_join(collector, NULL);
  assert_int_equal(hdi_remote_entry(hdi_heap_self, page)->left, ENOUGH - 1);
  assert_int_equal(hdi_remote_counted(page), 0);
}

/* What is not announced yet is, before the thread rests; what is taken in is taken once. */
static void test_flushed_and_taken(void **state) {
  (void)state;
  hd_unit *page = pages[7];
  free_of(page, 5);
  assert_int_equal(hdi_remote_counted(page), 0);
  hdi_gate_enter(hdi_heap_self);
  hdi_remote_flush(hdi_heap_self);
  hdi_gate_leave(hdi_heap_self);
  assert_int_equal(hdi_remote_counted(page), 5);
  assert_int_equal(hdi_remote_take(page), 5);
  assert_int_equal(hdi_remote_take(page), 0);
  hd_add(&page->remote_count, 5u); /* as it was: the owner has to learn of them */
}

/* A collector takes in pages where nobody has a block any more, and leaves the others in the inbox. */
static void test_drained_when_idle(void **state) {
  (void)state;
  hd_unit *part = pages[8], *whole = pages[9];
  if (!hdi_os_heavy_barrier_init()) skip();
  free_of(part, ENOUGH);
  free_of(whole, PER_PAGE);
  hdi_gate_enter(hdi_heap_self);
  hdi_remote_flush(hdi_heap_self);
  hdi_gate_leave(hdi_heap_self);
  hdi_gate_raise(owner);
  assert_true(hdi_gate_barrier() && hdi_gate_settle(owner, HD_GATE_TRIES));
  assert_false(hdi_remote_is_idle(owner, part));
  assert_true(hdi_remote_is_idle(owner, whole));
  size_t looks = 100;
  assert_int_equal(hdi_remote_drain_idle(owner, SIZE_MAX, &looks), 1);
  assert_int_equal(looks, 98);
  assert_int_equal(hdi_remote_counted(part), ENOUGH);
  assert_true(hdi_remote_is_queued(part) && hdi_remote_has_mail(owner));
  assert_int_not_equal(hd_load_relaxed(&whole->kind), HD_UNIT_PAGE);
  free_of(pages[10], PER_PAGE);
  free_of(pages[11], PER_PAGE);
  hdi_remote_flush(hdi_heap_self);
  looks = 1;
  assert_int_equal(hdi_remote_drain_idle(owner, SIZE_MAX, &looks), 1); /* the newest, and no look at the others */
  assert_int_equal(looks, 0);
  hdi_gate_open(owner);
}

/* The system is ready to stop threads since the start; or never will be. */
static void test_barrier_is_ready(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier()) assert_false(hdi_os_heavy_barrier_init());
}

/* Units of memory that was not touched before, of so many that this thread takes and gives back. */
static size_t take_fresh(size_t count) {
  static hd_unit *runs[PAGES];
  static bool zeroed[PAGES];
  hd_heap *heap = hdi_heap_self;
  size_t fresh = 0;
  hdi_gate_enter(heap);
  for (size_t i = 0; i < count; i++) {
    runs[i] = hdi_heap_take_run(heap, 1, 1, &zeroed[i]);
    assert_non_null(runs[i]);
    fresh += zeroed[i];
  }
  for (size_t i = 0; i < count; i++) hdi_space_give(heap->space, runs[i], 1, !zeroed[i]);
  hdi_gate_leave(heap);
  return fresh;
}

/* A try that succeeds ends all pauses; then nothing is left that was touched. */
static void use_up(void) {
  hdi_purge_collect(0);
  for (int i = 180; i < 196; i++) free_of(pages[i], PER_PAGE);
  for (int tries = 0; take_fresh(1) != 0; tries++) assert_in_range(tries, 0, 32);
  hdi_purge_collect(0);
  assert_int_equal(hd_load_relaxed(&hdi_space.dirty.units), 0);
  assert_int_equal(take_fresh(1), 1);
}

/* Before new memory is taken, pages of an owner who does something else are: those that are free as a whole, 64 at a time. */
static void test_fetched_before_growth(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  use_up();
  for (int i = 10; i < 25; i++) free_of(pages[i], PER_PAGE);
  assert_false(hd_load_relaxed(&hdi_remote_much));
  assert_int_equal(take_fresh(1), 1); /* 15 pages are not worth stopping anybody */
  for (int i = 25; i < 110; i++) free_of(pages[i], PER_PAGE);
  assert_true(hd_load_relaxed(&hdi_remote_much));
  hd_heap *explicit_heap = hd_heap_create(NULL);
  assert_non_null(hd_heap_malloc(explicit_heap, BYTES)); /* it does not fetch, under its lock; and later it is dead */
  assert_true(hd_load_relaxed(&hdi_remote_much));
  hd_heap_destroy(explicit_heap);
  assert_int_equal(take_fresh(64), 0);
  assert_in_range(hd_load_relaxed(&hdi_space.dirty.units), 64, 64 + 2);
  assert_true(hd_load_relaxed(&hdi_remote_much) && hdi_remote_has_mail(owner));
  assert_int_equal(take_fresh(100), 0);
  assert_false(hdi_remote_has_mail(owner));
  assert_true(hd_load_relaxed(&owner->stopped) == 0 && owner->held == HD_HOLD_NOT);
}

/* When there was little, it is not tried again at once; nor while somebody collects. */
static void test_fetched_again_later(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  use_up();
  for (int i = 10; i < 40; i++) free_of(pages[i], PER_PAGE / 2);
  free_of(pages[40], PER_PAGE);
  assert_true(hd_load_relaxed(&hdi_remote_much));
  assert_int_equal(take_fresh(1), 0); /* a try: each page but this one has live blocks */
  hdi_purge_collect(0);
  assert_true(hd_load_relaxed(&hdi_remote_much)); /* they wait as before */
  for (int i = 10; i < 40; i++) free_of(pages[i], PER_PAGE / 2);
  for (int i = 0; i < 31 / 4; i++) assert_int_equal(take_fresh(1), 1); /* the pause, */
  hdi_purge_fork(HD_FORK_PREPARE);
  assert_int_equal(take_fresh(1), 1); /* the collector's lock, */
  hdi_purge_fork(HD_FORK_PARENT);
  hdi_gate_enter(owner);
  assert_int_equal(take_fresh(1), 1); /* an owner who is inside, */
  hdi_gate_leave(owner);
  for (int i = 0; i < 3; i++) assert_int_equal(take_fresh(1), 1); /* and a pause that is longer now */
  assert_int_equal(take_fresh(30), 0);
}

int main(void) {
  hd_option_set("purge", "off"); /* or a collector tells the owner before the test looks */
  hd_free(hd_malloc(1));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_barrier_is_ready),
      cmocka_unit_test(test_limits),
      cmocka_unit_test_setup_teardown(test_counted_then_announced, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_pages_share_an_entry, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_inside_the_gate, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_stopped, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_flushed_and_taken, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_drained_when_idle, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_fetched_before_growth, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_fetched_again_later, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("remote", tests, NULL, NULL);
}
