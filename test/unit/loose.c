/* Pages that change owners: full ones are loose, their heap takes them back, and others take them over from a thread that does not read its
 * mail (decision 39).
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/counters.h"
#include "core/page.h"
#include "core/purge.h"
#include "core/remote.h"
#include "heddle.h"
#include "os/os.h"
#include "worker.h"

enum { BYTES = 1024, PER_PAGE = HD_UNIT_BYTES / BYTES, ENOUGH = PER_PAGE / 4, PAGES = 40, COUNT = PAGES * PER_PAGE };

static void *blocks[COUNT];
static hd_heap *owner;
static worker other;
static void (*wanted)(void);

static void take_blocks(worker *self) {
  for (size_t i = 0; i < COUNT; i++) blocks[i] = hd_malloc(BYTES);
  owner = self->heap;
}

static void do_wanted(worker *self) {
  (void)self;
  wanted();
}

/* Have the owner's thread do something. */
static void ask(void (*what)(void)) {
  wanted = what;
  worker_do(&other, do_wanted);
}

static hd_class *my_class(void) { return &hdi_heap_self->class[hdi_sizeclass_of(BYTES)]; }

static hd_unit *page_of(size_t number) { return hdi_space_find(blocks[number * PER_PAGE])->head; }

static uintptr_t word_of(size_t number) { return hd_load_relaxed(&page_of(number)->owner); }

static bool is_loose(size_t number) { return word_of(number) == ((uintptr_t)owner | HD_OWNER_LOOSE); }

/* Blocks that are free are passed over; the first one of a page tells where it is, and stays until the end. */
static void free_of(size_t number, size_t count) {
  for (size_t i = 1; i < PER_PAGE && count > 0; i++) {
    void **block = &blocks[number * PER_PAGE + i];
    if (*block == NULL) continue;
    hd_free(*block);
    *block = NULL;
    count--;
  }
  assert_int_equal(count, 0);
}

/* So many of the owner's pages wait in its inbox. */
static void write_mail(size_t pages) {
  for (size_t i = 0; i < pages; i++) free_of(i, ENOUGH);
}

static int set_up(void **state) {
  (void)state;
  if (worker_start(&other) != 0) return -1;
  worker_do(&other, take_blocks);
  return my_class()->page == NULL && my_class()->first == NULL ? 0 : -1;
}

/* Everything goes back, whatever the test left over. */
static int tear_down(void **state) {
  (void)state;
  for (size_t i = 0; i < COUNT; i++) hd_free(blocks[i]);
  hd_thread_idle(); /* what the table still counts */
  ask(hd_thread_idle);
  hd_thread_idle(); /* what the owner has passed on */
  hd_stats stats = {.struct_bytes = sizeof stats};
  bool good = hd_stats_get(&stats) && stats.live == 0;
  worker_end(&other);
  hd_collect(0);
  return good && hd_stats_get(&stats) && stats.page_count == 0 ? 0 : -1;
}

static void free_of_3(void) { free_of(3, 1); }
static void free_of_4(void) { free_of(4, 1); }
static void free_enough_of_4(void) { free_of(4, ENOUGH); }
static void free_of_5(void) { free_of(5, 1); }

static void *freed_twice;
static void free_twice(void) { hd_free(freed_twice); }

static void test_full_pages_are_loose(void **state) {
  (void)state;
  for (size_t i = 0; i < PAGES - 1; i++) assert_true(page_of(i)->state == HD_PAGE_FULL && is_loose(i));
  uint32_t credit = page_of(3)->credit, units = hdi_heap_page_units(owner);
  ask(free_of_3); /* it takes the page back */
  assert_int_equal(word_of(3), (uintptr_t)owner);
  assert_int_equal(page_of(3)->credit, credit - 1);
  assert_int_equal(hdi_heap_page_units(owner), units);
  ask(free_of_3);
  assert_int_equal(page_of(3)->credit, credit - 2);
  hd_unit *page = page_of(5);
  page->rest = (uint16_t)(page->rest + page->credit - 1); /* its credit runs out with the free that takes it back */
  page->credit = 1;
  ask(free_of_5);
  assert_int_equal(word_of(5), (uintptr_t)owner);
  assert_int_equal(page->credit, PER_PAGE / 8 - 1);
  for (size_t i = 1; i < PER_PAGE / 8; i++) {
    assert_int_equal(page->state, HD_PAGE_FULL);
    ask(free_of_5);
  }
  assert_true(page->state == HD_PAGE_PARTIAL && page->credit == PER_PAGE - PER_PAGE / 8);
}

/* A block that another thread has freed: told, and the page stays as it is. */
static void test_freed_twice(void **state) {
  (void)state;
  freed_twice = blocks[6 * PER_PAGE + 1];
  free_of(6, 1);
  assert_int_equal(hd_option_set("onerror", "ignore"), HD_OK);
  hd_misuse_hook_set(ts_count_report);
  ts_reports.count = 0;
  ask(free_twice);
  hd_misuse_hook_set(NULL);
  assert_int_equal(hd_option_set("onerror", "abort"), HD_OK);
  assert_int_equal(ts_reports.count, 1);
  assert_string_equal(ts_reports.code, "HD-E03");
  assert_true(is_loose(6));
}

/* While a collector is at it the owner frees as others do. */
static void test_swept(void **state) {
  (void)state;
  hd_unit *page = page_of(4);
  assert_false(hdi_remote_sweep_begin(hdi_heap_self, page));
  assert_true(hdi_remote_sweep_begin(owner, page));
  assert_false(hdi_remote_sweep_begin(owner, page) || hdi_remote_is_settled(owner, page));
  uint32_t credit = page->credit;
  ask(free_of_4);
  assert_int_equal(word_of(4), (uintptr_t)owner | HD_OWNER_LOOSE | HD_OWNER_SWEPT);
  assert_int_equal(page->credit, credit);
  assert_ptr_equal(hdi_remote_entry(owner, page)->page, page);
  ask(free_enough_of_4); /* it tells itself */
  assert_true(hdi_remote_is_queued(page) && hd_load_relaxed(&owner->inbox) == page);
  hdi_remote_sweep_end(owner, page);
  assert_true(is_loose(4));
  ask(free_of_4);
  assert_true(hdi_remote_is_settled(owner, page));
  assert_int_equal(page->credit, credit - 1);
}

/* Two at most while none of their blocks is taken. */
static void test_taken_over(void **state) {
  (void)state;
  void *mine[3 * PER_PAGE] = {hd_malloc(BYTES)}; /* it takes blocks of the class itself */
  uint32_t units = hdi_heap_self->page_units, count = my_class()->page_count, lost = hd_load_relaxed(&owner->lost_units);
  write_mail(HD_MUCH_MAIL);
  for (size_t i = 0; i < HD_MUCH_MAIL; i++) assert_true(is_loose(i) && hdi_remote_is_queued(page_of(i)));
  hd_unit *first = page_of(HD_MUCH_MAIL), *second = page_of(HD_MUCH_MAIL + 1);
  free_of(HD_MUCH_MAIL, ENOUGH - 1);
  assert_true(is_loose(HD_MUCH_MAIL));
  free_of(HD_MUCH_MAIL, 1);
  assert_int_equal(word_of(HD_MUCH_MAIL), (uintptr_t)hdi_heap_self);
  assert_true(first->state == HD_PAGE_PARTIAL && my_class()->first == first);
  assert_int_equal(first->credit, PER_PAGE - ENOUGH);
  assert_int_equal(hd_load_relaxed(&first->remote_count), 0);
  assert_int_equal(hd_load_relaxed(&owner->lost_units), lost + 1);
  for (size_t i = 1; i < 3; i++) free_of(HD_MUCH_MAIL + i, ENOUGH);
  assert_int_equal(word_of(HD_MUCH_MAIL + 1), (uintptr_t)hdi_heap_self);
  assert_true(is_loose(HD_MUCH_MAIL + 2) && hdi_remote_is_queued(page_of(HD_MUCH_MAIL + 2)));
  assert_int_equal(hdi_heap_self->page_units, units + 2);
  assert_int_equal(my_class()->page_count, count + 2);
  size_t of_first = 0, of_second = 0;
  for (size_t i = 1; i < PER_PAGE + 2 * ENOUGH; i++) {
    mine[i] = hd_malloc(BYTES);
    of_first += hdi_space_find(mine[i]) == first;
    of_second += hdi_space_find(mine[i]) == second;
  }
  assert_true(of_first == ENOUGH && of_second == ENOUGH); /* before any new page */
  assert_int_equal(my_class()->page_count, count + 2);
  for (size_t i = 0; i < PER_PAGE + 2 * ENOUGH; i++) hd_free(mine[i]);
}

/* Not by one who takes no blocks of the class, whatever is to be read; nor while a collector is at the page. */
static void test_not_taken_over(void **state) {
  (void)state;
  uint32_t lost = hd_load_relaxed(&owner->lost_units); /* the heap is an adopted one */
  write_mail(HD_MUCH_MAIL + 1);
  assert_true(is_loose(HD_MUCH_MAIL) && hdi_remote_is_queued(page_of(HD_MUCH_MAIL)));
  void *mine = hd_malloc(BYTES);
  assert_true(hdi_remote_sweep_begin(owner, page_of(30)));
  free_of(30, ENOUGH);
  hdi_remote_sweep_end(owner, page_of(30));
  assert_true(is_loose(30) && hdi_remote_is_queued(page_of(30)));
  assert_int_equal(hd_load_relaxed(&owner->lost_units), lost);
  hd_free(mine);
}

static void drain(void) {
  hdi_gate_enter(hdi_heap_self);
  hdi_remote_drain(hdi_heap_self);
  hdi_gate_leave(hdi_heap_self);
}

static void *free_enough(void *number) {
  free_of(*(size_t *)number, ENOUGH);
  return hdi_heap_mine();
}

/* Nor by a thread without a heap, which has no use for it: the owner is told. */
static void test_not_taken_over_without_heap(void **state) {
  (void)state;
  pthread_t other;
  void *heap = NULL;
  size_t number = HD_MUCH_MAIL;
  uint32_t lost = hd_load_relaxed(&owner->lost_units);
  write_mail(number);
  assert_int_equal(pthread_create(&other, NULL, free_enough, &number), 0);
  assert_int_equal(pthread_join(other, &heap), 0);
  assert_ptr_equal(heap, &hdi_heap_empty);
  assert_true(is_loose(number) && hd_load_relaxed(&owner->inbox) == page_of(number));
  assert_int_equal(hd_load_relaxed(&page_of(number)->remote_count), HD_REMOTE_QUEUED | ENOUGH);
  assert_int_equal(hd_load_relaxed(&owner->lost_units), lost);
  ask(drain);
  assert_int_equal(word_of(number), (uintptr_t)owner);
  assert_true(page_of(number)->state == HD_PAGE_PARTIAL && page_of(number)->credit == PER_PAGE - ENOUGH);
}

/* Somebody read the owner, and pushes the page when it is another's. */
static void push_late(hd_unit *page) {
  hd_add(&page->remote_count, HD_REMOTE_QUEUED);
  page->remote_next = hd_load_relaxed(&owner->inbox);
  page->mail = HD_MUCH_MAIL;
  hd_store_release(&owner->inbox, page);
}

static void *free_without_heap(void *block) {
  hd_free(block);
  return NULL;
}

static void test_mail_is_passed_on(void **state) {
  (void)state;
  void *mine = hd_malloc(BYTES);
  write_mail(HD_MUCH_MAIL + 1);
  hd_unit *page = page_of(HD_MUCH_MAIL);
  assert_true(hdi_remote_is_settled(hdi_heap_self, page));
  pthread_t other;
  void **last = &blocks[HD_MUCH_MAIL * PER_PAGE + PER_PAGE - 1];
  assert_int_equal(pthread_create(&other, NULL, free_without_heap, *last), 0);
  pthread_join(other, NULL);
  *last = NULL;
  assert_int_equal(hdi_remote_counted(page), 1);
  uint32_t credit = page->credit;
  push_late(page);
  ask(drain);
  assert_true(hdi_remote_is_queued(page) && hd_load_relaxed(&hdi_heap_self->inbox) == page && page->credit == credit);
  assert_true(hdi_remote_is_settled(owner, page_of(0))); /* its own it has taken in */
  drain();
  assert_true(hd_load_relaxed(&page->remote_count) == 0 && page->credit == credit - 1);
  push_late(page);
  if (hdi_os_heavy_barrier_init()) hd_collect(0);
  else ask(drain);
  drain();
  assert_false(hdi_remote_has_mail(owner) || hdi_remote_is_queued(page));
  hd_free(mine);
}

/* A collector gives back what is free in loose pages, which stay loose; one of which nothing is in use it releases. */
static void test_collected(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  hd_unit *part = page_of(20), *whole = page_of(21);
  size_t system_page = hdi_os.page_bytes / BYTES;
  free_of(20, ENOUGH - 1);
  free_of(21, PER_PAGE - 1);
  hd_free(blocks[21 * PER_PAGE]);
  blocks[21 * PER_PAGE] = NULL;
  size_t before = hd_load_relaxed(&hdi_counters.purged_bytes);
  hd_collect(0);
  assert_int_not_equal(hd_load_relaxed(&whole->kind), HD_UNIT_PAGE);
  assert_true(is_loose(20) && part->state == HD_PAGE_FULL);
  size_t least = system_page < ENOUGH ? (ENOUGH / system_page - 1) * hdi_os.page_bytes : 0; /* in the first one the first block lives */
  assert_true(hd_load_relaxed(&hdi_counters.purged_bytes) - before >= HD_UNIT_BYTES + least);
}

int main(void) {
  hd_option_set("purge", "off"); /* or a collector tells the owner before the test looks */
  hd_free(hd_malloc(1));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_full_pages_are_loose, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_freed_twice, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_swept, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_taken_over, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_not_taken_over, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_not_taken_over_without_heap, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_mail_is_passed_on, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_collected, set_up, tear_down),
  };
  return cmocka_run_group_tests_name("loose", tests, NULL, NULL);
}
