/* What threads leave behind: orphans with nothing put aside, each of which the next threads get again, also in the child of a fork.
 *
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <semaphore.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <string.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/gate.h"
#include "core/heap.h"
#include "core/lock.h"
#include "core/purge.h"
#include "core/remote.h"
#include "core/thread.h"
#include "heddle.h"
#include "pages.h"

enum { THREADS = 4, MANY = 1200, BLOCK_BYTES = 8192, MOST_ORPHANS = 64 };

static pthread_barrier_t together;
static void *blocks[THREADS][MANY];

static size_t heaps(int life) {
  size_t count = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    count += life < 0 || hd_load_relaxed(&heap->life) == (uint32_t)life;
  }
  return count;
}

static void *allocate(void *list) {
  void **own = list;
  for (int i = 0; i < MANY && (own[i] = hd_malloc(BLOCK_BYTES)) != NULL; i++) { /* 150 pages: more than there are classes */
  }
  void *large = hd_malloc(16 * HD_UNIT_BYTES);
  TS_CHECK(large != NULL, "no memory for a large block");
  hd_free(large);
  pthread_barrier_wait(&together);
  return NULL;
}

/* All alive at the same time. */
static void run_threads(void) {
  pthread_t threads[THREADS];
  pthread_barrier_init(&together, NULL, THREADS);
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, allocate, blocks[i]), 0);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  pthread_barrier_destroy(&together);
}

static void free_all(void) {
  for (int t = 0; t < THREADS; t++) {
    for (int i = 0; i < MANY; i++) hd_free(blocks[t][i]);
  }
}

/* A destroyed heap's structure becomes a thread's heap: without its limit. */
static void test_thread_has_no_limit(void **state) {
  (void)state;
  hd_heap_config config = {.struct_bytes = sizeof config, .limit_bytes = HD_UNIT_BYTES};
  hd_heap *limited = hd_heap_create(&config);
  assert_non_null(limited);
  hd_heap_destroy(limited);
  size_t all = heaps(-1);
  run_threads();
  assert_int_equal(heaps(-1), all + THREADS - 1);
  for (int t = 0; t < THREADS; t++) {
    for (int i = 0; i < MANY; i++) assert_non_null(blocks[t][i]);
  }
  free_all();
}

static void test_orphans_are_adopted(void **state) {
  (void)state;
  run_threads();
  size_t all = heaps(-1);
  assert_int_equal(heaps(HD_HEAP_ORPHAN), THREADS);
  for (int round = 0; round < 5; round++) {
    free_all();
    run_threads();
    assert_int_equal(heaps(-1), all);
    assert_int_equal(heaps(HD_HEAP_ORPHAN), THREADS);
  }
  free_all();
}

/* A thread that takes so many blocks of eight sizes and gives them back, takes MANY others if there is a place to keep them, and stays
 * until it is told to end. */
typedef struct guest {
  size_t spare;
  void **kept;
  hd_heap *heap;
  pthread_t id;
  sem_t begun, end;
} guest;

static void *stay(void *argument) {
  guest *self = argument;
  static __thread void *spare[MANY];
  for (int i = 0; i < MANY && self->kept != NULL; i++) self->kept[i] = hd_malloc(BLOCK_BYTES);
  for (size_t i = 0; i < self->spare; i++) spare[i] = hd_malloc(480 + i % 8 * 16);
  for (size_t i = 0; i < self->spare; i++) hd_free(spare[i]);
  self->heap = hdi_heap_mine();
  sem_post(&self->begun);
  sem_wait(&self->end);
  return NULL;
}

static hd_heap *begin(guest *who, size_t spare, void **kept) {
  *who = (guest){.spare = spare, .kept = kept};
  sem_init(&who->begun, 0, 0);
  sem_init(&who->end, 0, 0);
  assert_int_equal(pthread_create(&who->id, NULL, stay, who), 0);
  sem_wait(&who->begun);
  return who->heap;
}

static void end(guest *who) {
  sem_post(&who->end);
  pthread_join(who->id, NULL);
}

/* Take all orphans that there are. */
static size_t begin_others(guest *others, size_t room) {
  size_t count = heaps(HD_HEAP_ORPHAN);
  assert_in_range(count, 0, room);
  for (size_t i = 0; i < count; i++) begin(&others[i], 1, NULL);
  assert_int_equal(heaps(HD_HEAP_ORPHAN), 0);
  return count;
}

/* The heap with most free memory first; of those with as much, the one that was left last; one of many pages behind all. */
static void test_best_orphan_first(void **state) {
  (void)state; /* 640 blocks touch 300 to 512 KiB, on new pages or old ones */
  guest others[MOST_ORPHANS], large, little, same, vast, next[4];
  size_t count = begin_others(others, MOST_ORPHANS);
  begin(&large, 640, NULL);
  begin(&little, 1, NULL);
  begin(&same, 640, NULL);
  begin(&vast, 640, blocks[0]);
  end(&large);
  end(&same);
  end(&little);
  end(&vast);
  assert_ptr_equal(begin(&next[0], 1, NULL), same.heap);
  assert_ptr_equal(begin(&next[1], 1, NULL), large.heap);
  assert_ptr_equal(begin(&next[2], 1, NULL), little.heap);
  assert_ptr_equal(begin(&next[3], 1, NULL), vast.heap);
  for (int i = 0; i < 4; i++) end(&next[i]);
  assert_ptr_equal(begin(&next[0], 1, NULL), large.heap); /* left after the other one */
  end(&next[0]);
  for (size_t i = 0; i < count; i++) end(&others[i]);
  for (int i = 0; i < MANY; i++) hd_free(blocks[0][i]);
}

enum { UNTOLD = 64, UNTOLD_BYTES = 32 };

typedef struct untold_guest {
  guest who;
  void *blocks[UNTOLD];
  bool again;
  sem_t freed;
} untold_guest;

/* Takes blocks, and as many again after others have freed those: the same ones, as others have told of frees before. */
static void *take_twice(void *argument) {
  untold_guest *self = argument;
  own_pages();
  for (int i = 0; i < UNTOLD; i++) self->blocks[i] = hd_malloc(UNTOLD_BYTES);
  self->who.heap = hdi_heap_mine();
  sem_post(&self->who.begun);
  sem_wait(&self->freed);
  hd_class *class = &self->who.heap->class[hdi_sizeclass_of(UNTOLD_BYTES)];
  class->told = class->shared = true;
  void *first = self->blocks[0];
  for (int i = 0; i < UNTOLD; i++) self->blocks[i] = hd_malloc(UNTOLD_BYTES);
  self->again = self->blocks[0] == first;
  sem_wait(&self->who.end);
  return NULL;
}

/* Blocks that others freed without telling, and that were claimed again, are no spare memory. */
static void test_untold_is_not_spare(void **state) {
  (void)state;
  guest others[MOST_ORPHANS], large, next[2];
  untold_guest twice = {.who = {.spare = 0}};
  size_t count = begin_others(others, MOST_ORPHANS);
  begin(&large, 640, NULL);
  sem_init(&twice.who.begun, 0, 0);
  sem_init(&twice.who.end, 0, 0);
  sem_init(&twice.freed, 0, 0);
  assert_int_equal(pthread_create(&twice.who.id, NULL, take_twice, &twice), 0);
  sem_wait(&twice.who.begun);
  for (int i = 0; i < UNTOLD; i++) hd_free(twice.blocks[i]);
  sem_post(&twice.freed);
  end(&large);
  end(&twice.who);
  assert_true(twice.again);
  assert_ptr_equal(begin(&next[0], 1, NULL), large.heap);
  assert_ptr_equal(begin(&next[1], 1, NULL), twice.who.heap);
  for (int i = 0; i < 2; i++) end(&next[i]);
  for (size_t i = 0; i < count; i++) end(&others[i]);
  for (int i = 0; i < UNTOLD; i++) hd_free(twice.blocks[i]);
}

/* The place is looked for among sixteen, however many threads have ended. */
static void test_place_is_near(void **state) {
  (void)state;
  enum { LOOKS = 16 };
  guest others[MOST_ORPHANS], large[LOOKS + 2], little, next[LOOKS + 3];
  size_t count = begin_others(others, MOST_ORPHANS);
  for (int i = 0; i < LOOKS + 2; i++) begin(&large[i], 640, NULL);
  begin(&little, 1, NULL);
  for (int i = 0; i < LOOKS + 2; i++) end(&large[i]);
  end(&little);
  for (int i = 0; i < LOOKS + 3; i++) {
    hd_heap *expected = i == LOOKS ? little.heap : large[i < LOOKS ? LOOKS + 1 - i : LOOKS + 2 - i].heap;
    assert_ptr_equal(begin(&next[i], 1, NULL), expected);
  }
  for (int i = 0; i < LOOKS + 3; i++) end(&next[i]);
  for (size_t i = 0; i < count; i++) end(&others[i]);
}

static void test_orphans_put_nothing_aside(void **state) {
  (void)state;
  run_threads();
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (hd_load_relaxed(&heap->life) == HD_HEAP_ORPHAN) assert_int_equal(heap->cached_units, 0);
  }
  free_all();
}

/* Frees of so many pages that the table in which a thread counts them is too short: all of them arrive. */
static void *free_some(void *list) {
  void **some = list;
  hd_free(hd_malloc(1));
  for (int i = 0; some[i] != NULL; i++) hd_free(some[i]);
  return NULL;
}

static void test_all_counts_arrive(void **state) {
  (void)state;
  enum { PAGES = 4 * HD_REMOTE_TABLE, BYTES = 64, PER_PAGE = HD_UNIT_BYTES / BYTES };
  static void *all[PAGES * PER_PAGE], *some[PAGES + 1];
  uint32_t counted = 0;
  int found = 0;
  pthread_t thread;
  for (int i = 0; i < PAGES * PER_PAGE; i++) {
    all[i] = hd_malloc(BYTES);
    if (found < PAGES && hdi_space_find(all[i])->base == all[i]) some[found++] = all[i]; /* the first of its page */
  }
  assert_true(found > 2 * HD_REMOTE_TABLE);
  assert_int_equal(pthread_create(&thread, NULL, free_some, some), 0);
  pthread_join(thread, NULL);
  for (int i = 0; i < found; i++) counted += hdi_remote_counted(hdi_space_find(some[i]));
  assert_int_equal(counted, found);
  for (int i = 0, next = 0; i < PAGES * PER_PAGE; i++) {
    if (all[i] == some[next]) next++;
    else hd_free(all[i]);
  }
}

/* A collector has stopped the thread's heap: whatever enters the gate waits until it is let go. */
static atomic_int stage; /* 1: the heap is there, 2: it is stopped, 3: the thread is through */
static void *large;
static hd_heap *stopped_heap;

static void free_large(void) { hd_free(large); }
static void take_large(void) { hd_free(hd_malloc(HD_UNIT_BYTES)); }
static void take_aligned(void) { hd_free(hd_aligned_alloc(HD_UNIT_BYTES, HD_UNIT_BYTES)); }
static void take_medium(void) { hd_free(hd_malloc(30000)); }

static void *go_through_gate(void *enter) {
  void (*const *run)(void) = enter;
  large = hd_malloc(2 * HD_UNIT_BYTES);
  stopped_heap = hdi_heap_self;
  atomic_store(&stage, 1);
  while (atomic_load(&stage) != 2) ts_sleep_ms(1);
  (*run)();
  if (*run != free_large) hd_free(large);
  atomic_store(&stage, 3);
  return NULL;
}

static void test_stopped_heap_waits(void **state) {
  (void)state;
  static void (*const ways[])(void) = {free_large, take_large, take_aligned, take_medium, hd_thread_idle};
  for (size_t i = 0; i < sizeof ways / sizeof ways[0]; i++) {
    pthread_t thread;
    atomic_store(&stage, 0);
    assert_int_equal(pthread_create(&thread, NULL, go_through_gate, (void *)(uintptr_t)&ways[i]), 0);
    while (atomic_load(&stage) != 1) ts_sleep_ms(1);
    hdi_purge_fork(HD_FORK_PREPARE); /* or the helper, at work after the tests before, would let it go at the end of its round */
    hdi_gate_raise(stopped_heap); /* its thread is outside, and sees it before it sees the stage: no barrier is needed */
    atomic_store(&stage, 2);
    ts_sleep_ms(30);
    assert_int_equal(atomic_load(&stage), 2);
    hdi_gate_open(stopped_heap);
    hdi_purge_fork(HD_FORK_PARENT);
    pthread_join(thread, NULL);
    assert_int_equal(atomic_load(&stage), 3);
  }
}

static hd_lock lock;
static atomic_int answer;

static void *take_lock(void *unused) {
  (void)unused;
  atomic_store(&answer, hdi_lock_take_unless_fork(&lock) ? 1 : 2);
  return NULL;
}

/* In the child: nobody forks any more, so whoever wants a lock waits for it. */
static void wait_in_child(void *unused) {
  (void)unused;
  pthread_t thread;
  hdi_lock_take(&lock);
  TS_CHECK(pthread_create(&thread, NULL, take_lock, NULL) == 0, "a thread in the child");
  ts_sleep_ms(100);
  TS_CHECK(atomic_load(&answer) == 0, "gave up on a lock, as if a fork were under way");
  hdi_lock_drop(&lock);
  pthread_join(thread, NULL);
  TS_CHECK(atomic_load(&answer) == 1, "did not get it");
}

static void test_child_is_not_forking(void **state) {
  (void)state;
  struct ts_outcome outcome;
  ts_fork_run(wait_in_child, NULL, 15, &outcome);
  if (!ts_exited(&outcome, 0)) print_error("%s", outcome.error);
  assert_true(ts_exited(&outcome, 0));
}

/* The heaps of threads that are not in the child are there for the child's own. */
static atomic_int parked;
static atomic_bool over;

static void *park(void *unused) {
  (void)unused;
  hd_free(hd_malloc(100));
  atomic_fetch_add(&parked, 1);
  while (!atomic_load(&over)) ts_sleep_ms(1);
  return NULL;
}

static void adopt_in_child(void *orphans) {
  size_t all = heaps(-1);
  TS_CHECK(heaps(HD_HEAP_ORPHAN) == *(size_t *)orphans + THREADS, "%zu orphans", heaps(HD_HEAP_ORPHAN));
  run_threads();
  TS_CHECK(heaps(-1) == all, "%zu heaps became %zu", all, heaps(-1));
}

static void test_child_has_all_heaps(void **state) {
  (void)state;
  pthread_t threads[THREADS];
  struct ts_outcome outcome;
  for (int i = 0; i < THREADS; i++) assert_int_equal(pthread_create(&threads[i], NULL, park, NULL), 0);
  while (atomic_load(&parked) < THREADS) ts_sleep_ms(1);
  size_t orphans = heaps(HD_HEAP_ORPHAN);
  ts_fork_run(adopt_in_child, &orphans, 15, &outcome);
  atomic_store(&over, true);
  for (int i = 0; i < THREADS; i++) pthread_join(threads[i], NULL);
  if (!ts_exited(&outcome, 0)) print_error("%s", outcome.error);
  assert_true(ts_exited(&outcome, 0));
}

int main(void) {
  hd_free(hd_malloc(1));
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_thread_has_no_limit),
      cmocka_unit_test(test_orphans_are_adopted),
      cmocka_unit_test(test_best_orphan_first),
      cmocka_unit_test(test_untold_is_not_spare),
      cmocka_unit_test(test_place_is_near),
      cmocka_unit_test(test_orphans_put_nothing_aside),
      cmocka_unit_test(test_all_counts_arrive),
      cmocka_unit_test(test_stopped_heap_waits),
      cmocka_unit_test(test_child_is_not_forking),
      cmocka_unit_test(test_child_has_all_heaps),
  };
  return cmocka_run_group_tests_name("thread", tests, NULL, NULL);
}
