/* Whom a collector stops, and for how long: one heap at a time, and none of which there is nothing to have; what the system is asked for
 * meanwhile nobody else waits for (decision 40).
 *
 * SPDX-License-Identifier: MIT */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>

#include <cmocka.h>

#include "core/counters.h"
#include "core/gate.h"
#include "core/page.h"
#include "core/purge.h"
#include "core/remote.h"
#include "heddle.h"
#include "os/os.h"
#include "worker.h"

enum {
  BYTES = 1024, PER_PAGE = HD_UNIT_BYTES / BYTES, PAGES = 40, COUNT = PAGES * PER_PAGE,
  A_BATCH = 128,                          /* pages that are handled while their heap is stopped, */
  MANY = 1024 + 2 * A_BATCH + 3,          /* and more than the collector has a list for */
  THREADS = 4
};

/* A thread with blocks. */
typedef struct holder {
  worker worker;
  void **blocks;
  size_t count;
} holder;

static holder holders[THREADS];
static void *blocks[THREADS][COUNT], *many[MANY * PER_PAGE];

/* What was seen when other threads were made to pass the barrier, after a gate was shut. */
static struct {
  int barriers;
  size_t most, in_all[THREADS]; /* heaps that were stopped at once; times that each was */
  size_t locked;                /* calls of the system under the lock of the space */
  size_t purges, most_purges;   /* calls to give memory back, at all and in a row */
} seen;

static size_t count_stopped(void) {
  size_t count = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) count += hd_load_relaxed(&heap->stopped) != 0;
  return count;
}

static bool barrier_fails;

bool __real_hdi_os_heavy_barrier(void);
bool __wrap_hdi_os_heavy_barrier(void);
bool __wrap_hdi_os_heavy_barrier(void) {
  seen.barriers++;
  seen.most = hd_max(seen.most, count_stopped());
  for (size_t i = 0; i < THREADS; i++) {
    hd_heap *heap = holders[i].worker.heap;
    seen.in_all[i] += heap != NULL && hd_load_relaxed(&heap->stopped) != 0;
  }
  seen.purges = 0;
  return !barrier_fails && __real_hdi_os_heavy_barrier();
}

bool __real_hdi_os_purge(void *address, size_t bytes);
bool __wrap_hdi_os_purge(void *address, size_t bytes);
bool __wrap_hdi_os_purge(void *address, size_t bytes) {
  seen.most = hd_max(seen.most, count_stopped());
  if (count_stopped() > 0) seen.most_purges = hd_max(seen.most_purges, ++seen.purges);
  return __real_hdi_os_purge(address, bytes);
}

hd_claim __real_hdi_os_claim(void *address, size_t bytes);
hd_claim __wrap_hdi_os_claim(void *address, size_t bytes);
hd_claim __wrap_hdi_os_claim(void *address, size_t bytes) {
  seen.locked += hdi_lock_is_taken(&hdi_space.lock);
  return __real_hdi_os_claim(address, bytes);
}

static void ask(size_t number, void (*task)(worker *)) { worker_do(&holders[number].worker, task); }

static hd_heap *heap_of(size_t number) { return holders[number].worker.heap; }

static int start(void **state) {
  (void)state;
  for (size_t i = 0; i < THREADS; i++) {
    holders[i] = (holder){.blocks = blocks[i], .count = COUNT};
    if (worker_start(&holders[i].worker) != 0) return -1;
  }
  hd_collect(0);
  memset(&seen, 0, sizeof seen);
  return 0;
}

static void free_rest(worker *self) {
  holder *has = (holder *)self;
  for (size_t i = 0; i < has->count; i++) hd_free(has->blocks[i]);
  memset(has->blocks, 0, has->count * sizeof *has->blocks);
}

static int end(void **state) {
  (void)state;
  for (size_t i = 0; i < THREADS; i++) {
    ask(i, free_rest);
    worker_end(&holders[i].worker);
  }
  hd_collect(0);
  hd_stats stats = {.struct_bytes = sizeof stats};
  return hd_stats_get(&stats) && stats.live == 0 ? 0 : -1;
}

static void fill(worker *self) {
  holder *has = (holder *)self;
  for (size_t i = 0; i < has->count; i++) assert_non_null(has->blocks[i] = memset(hd_malloc(BYTES), 1, BYTES));
}

/* All blocks but the first of each page. */
static void free_most(worker *self) {
  holder *has = (holder *)self;
  for (size_t i = 0; i < has->count; i++) {
    if (i % PER_PAGE == 0) continue;
    hd_free(has->blocks[i]);
    has->blocks[i] = NULL;
  }
}

static size_t collected(void) {
  size_t before = hd_load_relaxed(&hdi_counters.purged_bytes);
  hd_collect(0);
  return hd_load_relaxed(&hdi_counters.purged_bytes) - before;
}

/* Three threads of four have something to give. */
static void test_one_at_a_time(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  for (size_t i = 0; i < THREADS - 1; i++) {
    ask(i, fill);
    ask(i, free_most);
  }
  assert_true(collected() >= (THREADS - 1) * (PAGES - 2) * (HD_UNIT_BYTES - 2 * hdi_os.page_bytes));
  assert_int_equal(seen.most, 1);
  for (size_t i = 0; i < THREADS - 1; i++) assert_true(seen.in_all[i] >= 1);
  assert_int_equal(seen.in_all[THREADS - 1], 0);
}

/* And afterwards nobody has. */
static void test_nobody_without_need(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  ask(0, fill);
  ask(0, free_most);
  collected();
  assert_true(seen.barriers > 0);
  memset(&seen, 0, sizeof seen);
  assert_int_equal(collected(), 0);
  assert_int_equal(seen.barriers, 0);
}

/* No more pages at a time than a batch, and all of them in the end. */
static void test_so_many_pages_at_a_time(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  holders[0].blocks = many;
  holders[0].count = MANY * PER_PAGE;
  ask(0, fill);
  ask(0, free_most);
  assert_true(collected() >= (MANY - 2) * (HD_UNIT_BYTES - 2 * hdi_os.page_bytes));
  assert_int_equal(seen.most, 1);
  assert_int_equal(seen.most_purges, A_BATCH);
  assert_true(seen.in_all[0] >= MANY / A_BATCH);
}

static void put_run_aside(worker *self) {
  (void)self;
  hd_free(hd_malloc(2 * HD_UNIT_BYTES));
}

static void put_block_aside(worker *self) {
  (void)self;
  hd_free(hd_malloc(5000));
}

/* A page that comes and goes leaves its map, and its run, which goes on to the space. */
static void put_map_aside(worker *self) {
  fill(self);
  free_rest(self);
  hdi_gate_enter(hdi_heap_self);
  while (hdi_heap_self->cached[1] != NULL) hdi_space_give(&hdi_space, hdi_heap_take_cached(hdi_heap_self, 1), 1, true);
  hdi_gate_leave(hdi_heap_self);
}

static bool has_shelf(hd_heap *heap) { return hdi_shelf_has_any(&heap->shelf); }
static bool has_run(hd_heap *heap) { return heap->cached_units != 0; }
static bool has_block(hd_heap *heap) {
  hd_magazine *magazine = hdi_heap_magazine(heap, hdi_sizeclass_of(5000));
  return magazine->top != magazine->first;
}

/* Whatever a thread has put aside is taken from it. */
static void test_each_thing_kept(void **state) {
  (void)state;
  static const struct {
    void (*put)(worker *);
    bool (*has)(hd_heap *);
  } cases[] = {{put_run_aside, has_run}, {put_block_aside, has_block}, {put_map_aside, has_shelf}};
  if (!hdi_os_heavy_barrier_init()) skip();
  for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
    ask(1, cases[i].put);
    assert_true(cases[i].has(heap_of(1)));
    hd_collect(0);
    assert_false(cases[i].has(heap_of(1)));
  }
}

/* Frees of the first thread's blocks: all of so many pages, which it is told, and one of the next page, which it is not. */
static void free_of_first(worker *self) {
  void **of = holders[0].blocks;
  (void)self;
  for (size_t page = 0; page < HD_MUCH_MAIL; page++) {
    for (size_t i = 0; i < PER_PAGE; i++) {
      hd_free(of[page * PER_PAGE + i]);
      of[page * PER_PAGE + i] = NULL;
    }
  }
  hd_free(of[HD_MUCH_MAIL * PER_PAGE]);
  of[HD_MUCH_MAIL * PER_PAGE] = NULL;
}

/* Mail too, and nothing else but that. */
static void test_mail_alone(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  ask(0, fill);
  ask(1, free_of_first);
  assert_true(hdi_remote_has_mail(heap_of(0)) && !has_run(heap_of(0)) && !has_shelf(heap_of(0)));
  hd_collect(0);
  assert_false(hdi_remote_has_mail(heap_of(0)) || hdi_remote_holds_counts(heap_of(1)));
}

/* It may have been in vain just now, and then waits for a while. */
static void fetch(void) {
  memset(&seen, 0, sizeof seen);
  hdi_gate_enter(hdi_heap_self);
  for (int pause = 0; pause < 10000 && seen.barriers == 0; pause++) hdi_purge_fetch(hdi_heap_self);
  hdi_gate_leave(hdi_heap_self);
  assert_int_equal(seen.barriers, 1);
  assert_int_equal(count_stopped(), 0);
}

static void enter(worker *self) { hdi_gate_enter(self->heap); }
static void leave(worker *self) { hdi_gate_leave(self->heap); }

/* Nor from anybody who can't be stopped. */
static void test_fetch_from_nobody(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  ask(0, fill);
  ask(1, free_of_first);
  barrier_fails = true;
  fetch();
  barrier_fails = false;
  assert_true(hdi_remote_has_much(heap_of(0)) && hdi_remote_holds_counts(heap_of(1)));
  ask(0, enter);
  fetch();
  ask(0, leave);
  assert_true(hdi_remote_has_much(heap_of(0)) && !hdi_remote_holds_counts(heap_of(1)));
  fetch();
  assert_false(hdi_remote_has_mail(heap_of(0)));
}

/* Who needs memory takes in the mail of one who does not read it, and has those tell who have counted; the others go on, and nobody takes
 * a heap's lock. */
static void test_fetch_from_those_with_mail(void **state) {
  (void)state;
  if (!hdi_os_heavy_barrier_init()) skip();
  ask(0, fill);
  hd_unit *untold = hdi_space_find(holders[0].blocks[HD_MUCH_MAIL * PER_PAGE]), *told = hdi_space_find(holders[0].blocks[0]);
  ask(1, free_of_first);
  assert_true(hdi_remote_has_much(heap_of(0)));
  assert_true(hdi_remote_holds_counts(heap_of(1)));
  hd_heap *locked = hd_heap_create(NULL);
  assert_non_null(locked);
  hdi_lock_take(&locked->lock);
  fetch();
  hdi_lock_drop(&locked->lock);
  hd_heap_destroy(locked);
  for (size_t i = 0; i < THREADS; i++) assert_int_equal(seen.in_all[i], i < 2);
  assert_int_not_equal(hd_load_relaxed(&told->kind), HD_UNIT_PAGE);
  assert_false(hdi_remote_has_mail(heap_of(0)));
  assert_false(hdi_remote_holds_counts(heap_of(1)));
  assert_int_equal(hdi_remote_counted(untold), 1);
}

/* Memory of the system: more than is claimed at once. */
static void grow(worker *self) {
  (void)self;
  void *p = hd_malloc(100 * HD_MIB);
  assert_non_null(p);
  hd_free(p);
}

static void test_growth_without_the_lock(void **state) {
  (void)state;
  size_t before = hd_load_relaxed(&hdi_space.committed);
  ask(0, grow);
  assert_true(hd_load_relaxed(&hdi_space.committed) > before);
  assert_int_equal(seen.locked, 0);
}

int main(void) {
  hd_option_set("purge", "off"); /* nobody else collects */
  hd_free(hd_malloc(1));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test_setup_teardown(test_growth_without_the_lock, start, end),
      cmocka_unit_test_setup_teardown(test_one_at_a_time, start, end),
      cmocka_unit_test_setup_teardown(test_nobody_without_need, start, end),
      cmocka_unit_test_setup_teardown(test_each_thing_kept, start, end),
      cmocka_unit_test_setup_teardown(test_mail_alone, start, end),
      cmocka_unit_test_setup_teardown(test_fetch_from_nobody, start, end),
      cmocka_unit_test_setup_teardown(test_fetch_from_those_with_mail, start, end),
      cmocka_unit_test_setup_teardown(test_so_many_pages_at_a_time, start, end),
  };
  return cmocka_run_group_tests_name("stops", tests, NULL, NULL);
}
