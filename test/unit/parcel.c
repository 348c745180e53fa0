/* Frees of another thread's blocks of medium classes, step by step: put into a parcel, sent, taken in by the owner, the helper or a
 * collector; and counted where no parcel is at hand.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/page.h"
#include "core/parcel.h"
#include "core/purge.h"
#include "core/remote.h"
#include "core/thread.h"
#include "heddle.h"
#include "worker.h"

enum { BYTES = 2304, COUNT = 200, LONG_BYTES = 24 * 1024, LONGS = 20, OWNERS = 24, ROUNDS = 200, QUIET_MS = 5500 };

/* A thread that has made blocks. */
typedef struct maker {
  worker worker;
  void *blocks[COUNT], *longs[LONGS];
  void *taken;
} maker;

static void make(worker *self) {
  maker *maker = (struct maker *)self;
  for (size_t i = 0; i < COUNT; i++) maker->blocks[i] = hd_malloc(BYTES);
  for (size_t i = 0; i < LONGS; i++) maker->longs[i] = hd_malloc(LONG_BYTES);
}

static void take_one(worker *self) { ((maker *)self)->taken = hd_malloc(BYTES); }

static void free_taken(worker *self) { hd_free(((maker *)self)->taken); }

static void idle(worker *self) {
  (void)self;
  hd_thread_idle();
}

static void have(maker *maker, void (*task)(worker *)) { worker_do(&maker->worker, task); }

static int start(maker *maker) {
  if (worker_start(&maker->worker) != 0) return -1;
  have(maker, make);
  return 0;
}

/* By this thread, which did not make them. */
static void free_all(void **blocks, size_t count) {
  for (size_t i = 0; i < count; i++) {
    hd_free(blocks[i]);
    blocks[i] = NULL;
  }
}

static maker one;

static int set_up(void **state) {
  (void)state;
  hd_free(hd_malloc(16)); /* a heap to fill parcels in */
  if (hd_option_set("purge", "off") != HD_OK) return -1; /* no helper that sends and takes in */
  return start(&one);
}

/* Everything goes back, whatever the test left over. */
static int tear_down(void **state) {
  (void)state;
  free_all(one.blocks, COUNT);
  free_all(one.longs, LONGS);
  hd_thread_idle();
  have(&one, idle);
  hd_stats stats = {.struct_bytes = sizeof stats};
  bool good = hd_stats_get(&stats) && stats.live == 0 && !hdi_parcel_has_any(one.worker.heap) && !hdi_parcel_has_any(hdi_heap_self);
  worker_end(&one.worker);
  return good ? 0 : -1;
}

static unsigned state_of(void *p) {
  hd_unit *unit = hdi_space_find(p);
  return hd_load_relaxed(&unit->map[hdi_unit_block_index(unit, p)]);
}

static void free_one(size_t i) {
  hd_free(one.blocks[i]);
  one.blocks[i] = NULL;
}

/* The one parcel that this thread fills. */
static hd_parcel *filled(void) {
  hd_parcel *found = NULL;
  assert_int_equal(hdi_heap_self->parcels_open, 1);
  for (size_t i = 0; i < HD_PARCELS; i++) {
    if (hdi_heap_self->parcel[i].room > 0) found = &hdi_heap_self->parcel[i];
  }
  assert_non_null(found);
  return found;
}

static hd_parcel *arrived(void) { return hd_load_acquire(&one.worker.heap->arrived); }

/* Freed as far as the program can see, and nobody else has been told. */
static void test_sent(void **state) {
  (void)state;
  void *p = one.blocks[7];
  hd_unit *page = hdi_space_find(p);
  uint32_t used = hdi_page_used(page);
  free_one(7);
  assert_int_equal(state_of(p), HD_BLOCK_SENT);
  assert_int_equal(hdi_page_used(page), used);
  assert_int_equal(hd_load_relaxed(&page->remote_count), 0);
  assert_ptr_equal(hd_load_relaxed(&filled()->owner), one.worker.heap);
  assert_int_equal(filled()->count, 1);
  assert_null(arrived());
  ts_reports.count = 0;
  hd_misuse_hook_set(ts_count_report);
  assert_int_equal(hd_option_set("onerror", "ignore"), HD_OK);
  hd_free(p);
  assert_int_equal(hd_option_set("onerror", "abort"), HD_OK);
  hd_misuse_hook_set(NULL);
  assert_int_equal(ts_reports.count, 1);
  assert_string_equal(ts_reports.code, "HD-E03");
}

/* What the owner gets is the block that was freed last, as if it had freed it itself. */
static void test_taken_in(void **state) {
  (void)state;
  void *p = NULL;
  for (size_t i = 0; i < HD_PARCEL_BLOCKS; i++) {
    p = one.blocks[i];
    assert_null(arrived());
    free_one(i);
  }
  assert_non_null(arrived()); /* it is full */
  assert_int_equal(hdi_heap_self->parcels_open, 0);
  for (hd_slot *slot = &one.worker.heap->class[hdi_sizeclass_of(BYTES)].slot; hdi_slot_bits(slot) != 0;) {
    have(&one, take_one); /* what it had claimed before */
    one.blocks[hd_bit_count(hdi_slot_bits(slot))] = one.taken;
  }
  have(&one, take_one);
  assert_null(arrived());
  assert_int_equal(state_of(one.taken), HD_BLOCK_LIVE);
  const hd_magazine *magazine = hdi_heap_magazine(one.worker.heap, hdi_sizeclass_of(BYTES));
  assert_int_equal(magazine->top - magazine->first, HD_MAGAZINE_FIRST - 1);
  assert_true(state_of(p) == HD_BLOCK_FREE); /* the magazine had been full by then */
  have(&one, free_taken);
}

/* By their bytes it is full after three. */
static void test_full_by_bytes(void **state) {
  (void)state;
  hd_free(one.longs[0]);
  hd_free(one.longs[1]);
  assert_int_equal(filled()->count, 2);
  assert_null(arrived());
  hd_free(one.longs[2]);
  assert_int_equal(hdi_heap_self->parcels_open, 0);
  assert_int_equal(arrived()->count, 3);
  for (int i = 0; i < 3; i++) one.longs[i] = NULL;
}

/* An owner that does not look keeps all parcels; then frees are counted. When it has looked they go by parcel again. */
static void test_none_at_hand(void **state) {
  (void)state;
  hd_parcel *at_hand[HD_PARCELS];
  free_all(one.longs, LONGS);
  hd_thread_idle();
  for (size_t k = 0; k < HD_PARCELS; k++) { /* the others are on their way to somebody else who does not look */
    hd_parcel *parcel = &hdi_heap_self->parcel[k];
    at_hand[k] = hd_load_relaxed(&parcel->owner) == NULL ? parcel : NULL;
    if (at_hand[k] != NULL) hd_store_relaxed(&parcel->owner, hdi_heap_self);
  }
  void *p = one.blocks[0];
  hd_unit *page = hdi_space_find(p);
  free_one(0);
  assert_int_equal(state_of(p), HD_BLOCK_FREE);
  const hd_remote_entry *entry = hdi_remote_entry(hdi_heap_self, page);
  assert_true(entry->page == page && entry->left == entry->limit - 1u);
  have(&one, idle);
  p = one.blocks[1];
  free_one(1);
  assert_int_equal(state_of(p), HD_BLOCK_SENT);
  for (size_t k = 0; k < HD_PARCELS; k++) {
    if (at_hand[k] != NULL) hd_store_relaxed(&at_hand[k]->owner, NULL);
  }
}

/* A handler that frees while its thread is inside the gate finds the parcels under its hands. */
static void test_inside_the_gate(void **state) {
  (void)state;
  void *p = one.blocks[3];
  hdi_gate_enter(hdi_heap_self);
  free_one(3);
  assert_true(hdi_gate_is_inside(hdi_heap_self));
  hdi_gate_leave(hdi_heap_self);
  assert_int_equal(state_of(p), HD_BLOCK_FREE);
  assert_int_equal(hdi_heap_self->parcels_open, 0);
}

static void *end_with_one(void *unused) {
  (void)unused;
  hd_free(hd_malloc(16));
  hd_free(one.blocks[5]);
  return NULL;
}

static void *free_without_heap(void *unused) {
  (void)unused;
  hd_free(one.blocks[6]);
  return NULL;
}

/* A thread's last parcel is sent when it ends; one without a heap has none. */
static void test_other_threads(void **state) {
  (void)state;
  pthread_t thread;
  void *sent = one.blocks[5], *counted = one.blocks[6];
  assert_int_equal(pthread_create(&thread, NULL, end_with_one, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(arrived()->count, 1);
  assert_int_equal(state_of(sent), HD_BLOCK_SENT);
  assert_int_equal(pthread_create(&thread, NULL, free_without_heap, NULL), 0);
  assert_int_equal(pthread_join(thread, NULL), 0);
  assert_int_equal(state_of(counted), HD_BLOCK_FREE);
  one.blocks[5] = one.blocks[6] = NULL;
}

static bool any_under_way(void) { return hdi_parcel_has_any(hdi_heap_self) || hdi_parcel_has_any(one.worker.heap); }

static void await_none(int tries) {
  while (tries-- > 0 && any_under_way()) ts_sleep_ms(50);
  assert_false(any_under_way());
}

/* Where a page has been released its map is another's, or on a shelf. */
static bool is_under_way(void *block) { return hdi_heap_owner(hdi_space_entry(block)) != NULL && state_of(block) == HD_BLOCK_SENT; }

/* A parcel that nobody has any more may be in the helper's hands. */
static void await_taken_in(void *block, int tries) {
  while (tries-- > 0 && is_under_way(block)) ts_sleep_ms(50);
  assert_false(is_under_way(block));
}

/* Of an owner that sleeps, the helper sends and takes in: what is being filled, and what is full. */
static void test_helper(void **state) {
  (void)state;
  free_all(one.blocks, COUNT);
  free_all(one.longs, LONGS);
  assert_int_equal(hd_option_set("purge", "on"), HD_OK);
  hdi_purge_start();
  await_none(200);
  for (size_t blocks = 1; blocks <= HD_PARCEL_BLOCKS; blocks += HD_PARCEL_BLOCKS - 1) {
    void *taken[HD_PARCEL_BLOCKS];
    for (size_t i = 0; i < blocks; i++) {
      have(&one, take_one);
      taken[i] = one.taken;
    }
    ts_sleep_ms(QUIET_MS); /* until no page has changed for so long that it looks at none */
    for (size_t i = 0; i < blocks; i++) hd_free(taken[i]);
    assert_true(any_under_way());
    await_none(40);
    for (size_t i = 0; i < blocks; i++) await_taken_in(taken[i], 40);
  }
}

/* More owners than a heap has places for: their parcels are sent as they are. */
static void test_many_owners(void **state) {
  (void)state;
  static maker makers[OWNERS];
  struct ts_rng rng = {1};
  for (size_t i = 0; i < OWNERS; i++) assert_int_equal(start(&makers[i]), 0);
  for (size_t round = 0; round < ROUNDS; round++) {
    maker *maker = &makers[ts_below(&rng, OWNERS)];
    size_t i = ts_below(&rng, COUNT);
    if (maker->blocks[i] == NULL) continue;
    hd_free(maker->blocks[i]);
    maker->blocks[i] = NULL;
    assert_true(hdi_heap_self->parcels_open <= HD_PARCEL_SLOTS);
  }
  hd_thread_idle(); /* all of them are under way; of a page whose blocks went both ways, too few to be told of might be counted */
  for (size_t i = 0; i < HD_PARCELS; i++) assert_non_null(hd_load_relaxed(&hdi_heap_self->parcel[i].owner));
  for (size_t i = 0; i < OWNERS; i++) free_all(makers[i].blocks, COUNT), free_all(makers[i].longs, LONGS);
  hd_thread_idle();
  for (size_t i = 0; i < OWNERS; i++) {
    have(&makers[i], idle);
    assert_false(hdi_parcel_has_any(makers[i].worker.heap));
    assert_true(makers[i].worker.heap->class[hdi_sizeclass_of(BYTES)].page_count <= 1); /* the current one may stay */
    assert_true(makers[i].worker.heap->class[hdi_sizeclass_of(LONG_BYTES)].page_count <= 1);
    worker_end(&makers[i].worker);
  }
}

/* In the child of a fork a thread that was looking at what had arrived is not there any more, and will not send it back. */
static void test_owner_vanished(void **state) {
  (void)state;
  static hd_heap gone;
  hd_store_relaxed(&gone.life, (uint32_t)HD_HEAP_DEAD);
  for (size_t i = 0; i < HD_PARCELS; i++) {
    assert_null(hd_load_relaxed(&hdi_heap_self->parcel[i].owner));
    hd_store_relaxed(&hdi_heap_self->parcel[i].owner, i == 9 ? &gone : one.worker.heap);
  }
  void *p = one.blocks[0], *q = one.blocks[1];
  free_one(0);
  assert_int_equal(state_of(p), HD_BLOCK_FREE); /* this is no child of a fork */
  hdi_page_torn = true;
  free_one(1);
  hdi_page_torn = false;
  assert_int_equal(state_of(q), HD_BLOCK_SENT);
  assert_ptr_equal(filled(), &hdi_heap_self->parcel[9]);
  for (size_t i = 0; i < HD_PARCELS; i++) {
    if (i != 9) hd_store_relaxed(&hdi_heap_self->parcel[i].owner, NULL);
  }
}

/* Two threads that free one block at the same time may both find it live, and put it into a parcel each. */
static void take_in_twice(void *unused) {
  (void)unused;
  free_one(4);
  hd_parcel *parcel = filled();
  parcel->block[parcel->count++] = parcel->block[0];
  hdi_gate_enter(hdi_heap_self);
  hdi_parcel_flush(hdi_heap_self);
  hdi_parcel_take_in(one.worker.heap); /* nobody else is in this process */
}

static void test_sent_twice(void **state) {
  (void)state;
  struct ts_outcome outcome;
  ts_fork_run(take_in_twice, NULL, 10, &outcome);
  assert_true(ts_signalled(&outcome, SIGABRT));
  assert_non_null(strstr(outcome.error, "HD-E06"));
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_sent, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_taken_in, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_full_by_bytes, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_none_at_hand, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_inside_the_gate, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_other_threads, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_many_owners, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_owner_vanished, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_sent_twice, set_up, tear_down),
      cmocka_unit_test_setup_teardown(test_helper, set_up, tear_down), /* last: it goes on for a while */
  };
  return cmocka_run_group_tests(tests, NULL, NULL);
}
