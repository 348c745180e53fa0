/* The gate: it keeps an owner out while a collector is in, a collector away while the owner is in, and nobody waits for longer.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/gate.h"
#include "heddle.h"
#include "os/os.h"
#include "pages.h"

static hd_heap heap;
static atomic_bool ends;
static volatile size_t inside; /* changed by the owner, within the gate, with plain stores */

static pthread_t begin(void *(*run)(void *)) {
  pthread_t thread;
  assert_int_equal(pthread_create(&thread, NULL, run, NULL), 0);
  return thread;
}

static bool is_busy(void) { return hdi_gate_is_inside(&heap); }

static void test_enter_and_leave(void **state) {
  (void)state;
  assert_false(is_busy());
  hdi_gate_enter(&heap);
  assert_true(is_busy());
  hdi_gate_leave(&heap);
  assert_false(is_busy());
}

static void test_try_is_refused(void **state) {
  (void)state;
  hdi_gate_raise(&heap);
  assert_false(hdi_gate_try(&heap));
  assert_false(is_busy()); /* who is refused is not inside */
  hdi_gate_open(&heap);
  assert_true(hdi_gate_try(&heap));
  hdi_gate_leave(&heap);
}

static void *open_later(void *unused) {
  (void)unused;
  ts_sleep_ms(40);
  hdi_gate_open(&heap);
  return NULL;
}

static hd_heap *mine;
static void *open_mine(void *unused) {
  (void)unused;
  ts_sleep_ms(40);
  hdi_gate_open(mine);
  return NULL;
}

static void test_waits_until_it_is_open(void **state) {
  (void)state;
  hdi_gate_raise(&heap);
  pthread_t thread = begin(open_later);
  hdi_gate_enter(&heap);
  assert_int_equal(hd_load_relaxed(&heap.stopped), 0);
  hdi_gate_leave(&heap);
  pthread_join(thread, NULL);
}

static void test_settles_only_without_an_owner(void **state) {
  (void)state;
  hdi_gate_enter(&heap);
  hdi_gate_raise(&heap);
  assert_false(hdi_gate_settle(&heap, HD_GATE_TRIES)); /* it stays inside: the collector gives up */
  hdi_gate_open(&heap);
  hdi_gate_leave(&heap);
  hdi_gate_raise(&heap);
  assert_true(hdi_gate_settle(&heap, HD_GATE_TRIES));
  hdi_gate_open(&heap);
}

static void *own(void *unused) {
  (void)unused;
  while (!hd_load_acquire(&ends)) {
    hdi_gate_enter(&heap);
    inside = inside + 1;
    inside = inside + 1;
    hdi_gate_leave(&heap);
  }
  return NULL;
}

/* While the heap is stopped nothing changes, and what is seen was left whole. */
static void test_stopped_is_stopped(void **state) {
  (void)state;
  size_t held = 0, last = 0, moved = 0;
  if (!hdi_os_heavy_barrier_init()) skip();
  hd_store_release(&ends, false);
  pthread_t thread = begin(own);
  for (int round = 0; round < 3000; round++) {
    hdi_gate_raise(&heap);
    assert_true(hdi_gate_barrier());
    if (hdi_gate_settle(&heap, HD_GATE_TRIES)) {
      size_t seen = inside;
      for (int i = 0; i < 50; i++) assert_int_equal(inside, seen);
      assert_int_equal(seen % 2, 0);
      moved += seen != last;
      last = seen;
      held++;
    }
    hdi_gate_open(&heap);
    if (round % 64 == 0) ts_sleep_ms(1);
  }
  hd_store_release(&ends, true);
  pthread_join(thread, NULL);
  assert_true(held > 0 && moved > 0);
}

/* The ways in front of the gate that would rather do something else than wait: stopped, they do. */
static pthread_t stopped_for_a_moment(void) {
  hdi_gate_raise(hdi_heap_self);
  return begin(open_mine);
}

static void test_short_ways_when_stopped(void **state) {
  (void)state;
  enum { MEDIUM = 3000, LARGE = 100000, WIDE = 20000 };
  mine = hdi_heap_self;
  void *blocks[40] = {hd_malloc(WIDE)}; /* before there is old memory that would make a shorter page of this class */
  hd_free(hd_malloc(LARGE));            /* a run in the cache */
  size_t count = 1;
  hd_slot *slot = &mine->class[hdi_sizeclass_of(MEDIUM)].slot;
  do assert_non_null(blocks[count++] = hd_malloc(MEDIUM));
  while (hdi_slot_bits(slot) == 0 && count < 35);
  assert_true(hdi_slot_bits(slot) != 0 && mine->cached[2] != NULL);
  pthread_t thread = stopped_for_a_moment();
  assert_non_null(blocks[count++] = hd_malloc(MEDIUM));
  pthread_join(thread, NULL);
  thread = stopped_for_a_moment();
  assert_non_null(blocks[count++] = hd_malloc(LARGE));
  pthread_join(thread, NULL);
  hd_magazine *magazine = hdi_heap_magazine(mine, hdi_sizeclass_of(WIDE));
  assert_ptr_equal(magazine->top, magazine->first);
  thread = stopped_for_a_moment();
  hd_free(blocks[0]); /* waits: the magazines are the gate's */
  assert_ptr_equal(magazine->top, magazine->first + 1);
  pthread_join(thread, NULL);
  thread = stopped_for_a_moment();
  assert_ptr_equal(hd_malloc(WIDE), blocks[0]); /* the same for taking it */
  pthread_join(thread, NULL);
  hd_free(blocks[0]);
  for (size_t i = 1; i < count; i++) hd_free(blocks[i]);
}

int main(void) {
  only_pages();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_enter_and_leave),        cmocka_unit_test(test_try_is_refused),
      cmocka_unit_test(test_waits_until_it_is_open), cmocka_unit_test(test_settles_only_without_an_owner),
      cmocka_unit_test(test_stopped_is_stopped),     cmocka_unit_test(test_short_ways_when_stopped),
  };
  return cmocka_run_group_tests_name("gate", tests, NULL, NULL);
}
