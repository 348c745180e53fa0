/* Systems unlike the one that tests run on, each in a child of its own: such as let nobody choose addresses, lack the barrier, mremap
 * or huge pages, have one processor, or refuse at a moment that no plan of test/fault hits. The linker puts what stands below between the
 * library and the system (--wrap). In each the heap must work, or say ENOMEM, and work again when the system does.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"
#include "core/purge.h"
#include "core/space.h"
#include "core/store.h"
#include "core/thread.h"
#include "heddle.h"
#include "heddle/arena.h"
#include "os/os.h"

/* What the system refuses: 0 nothing; n > 0 the next n calls; less than 0 all of them. */
static struct {
  int claim, commit, reserve, purge, barrier_init, barrier, resident, key;
  size_t commit_from, reserve_below; /* only such lengths, when not 0 */
  void (*init)(void);
} refuse;

static bool is_refused(int *count) {
  if (*count > 0) return (*count)-- > 0;
  return *count < 0;
}

#define WRAPPED(result, name, ...)          \
  result __real_hdi_os_##name(__VA_ARGS__); \
  result __wrap_hdi_os_##name(__VA_ARGS__); \
  result __wrap_hdi_os_##name(__VA_ARGS__)

WRAPPED(void, init, void) {
  __real_hdi_os_init();
  if (refuse.init != NULL) refuse.init();
}

WRAPPED(hd_claim, claim, void *address, size_t bytes) {
  return is_refused(&refuse.claim) ? HD_CLAIM_REFUSED : __real_hdi_os_claim(address, bytes);
}

WRAPPED(bool, commit, void *address, size_t bytes) {
  if (bytes >= refuse.commit_from && is_refused(&refuse.commit)) return false;
  return __real_hdi_os_commit(address, bytes);
}

WRAPPED(void *, reserve, size_t bytes, size_t alignment, bool readable) {
  if ((refuse.reserve_below == 0 || bytes < refuse.reserve_below) && is_refused(&refuse.reserve)) return NULL;
  return __real_hdi_os_reserve(bytes, alignment, readable);
}

WRAPPED(bool, purge, void *address, size_t bytes) { return !is_refused(&refuse.purge) && __real_hdi_os_purge(address, bytes); }
WRAPPED(bool, heavy_barrier, void) { return !is_refused(&refuse.barrier) && __real_hdi_os_heavy_barrier(); }
WRAPPED(bool, heavy_barrier_init, void) { return !is_refused(&refuse.barrier_init) && __real_hdi_os_heavy_barrier_init(); }

/* All of it is resident, as after a dense growth. */
static bool seems_resident;
WRAPPED(size_t, resident_in, const void *address, size_t bytes) {
  return seems_resident ? bytes : __real_hdi_os_resident_in(address, bytes);
}

int __real_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *));
int __wrap_pthread_key_create(pthread_key_t *key, void (*destructor)(void *)) {
  return is_refused(&refuse.key) ? EAGAIN : __real_pthread_key_create(key, destructor);
}

/* ---- a bit of everything --------------------------------------------------------------------------------------------- */

enum { BLOCKS = 1200, MIB = 1 << 20 };

static void *use_in_thread(void *given) {
  void **blocks = given;
  for (int i = 0; i < BLOCKS; i += 2) hd_free(blocks[i]);
  void *own = hd_malloc(100);
  TS_CHECK(own != NULL, "a thread gets memory");
  hd_free(own);
  return NULL;
}

static void use(void) {
  static void *blocks[BLOCKS];
  pthread_t thread;
  for (int round = 0; round < 2; round++) {
    for (int i = 0; i < BLOCKS; i++) {
      size_t bytes = i % 400 == 0 ? 5 * MIB : (size_t)(i * 37) % 30000 + 1;
      blocks[i] = hd_malloc(bytes);
      TS_CHECK(blocks[i] != NULL, "block %d of %zu bytes", i, bytes);
      memset(blocks[i], 0x6b, bytes);
    }
    for (int i = 0; i < BLOCKS; i += 100) TS_CHECK((blocks[i] = hd_realloc(blocks[i], 300000 + (size_t)i)) != NULL, "realloc %d", i);
    TS_CHECK(pthread_create(&thread, NULL, use_in_thread, blocks) == 0 && pthread_join(thread, NULL) == 0, "a thread");
    for (int i = 1; i < BLOCKS; i += 2) hd_free(blocks[i]);
    hd_collect(0);
  }
  uint8_t *zeroed = hd_calloc(1, 6 * MIB);
  TS_CHECK(zeroed != NULL && zeroed[0] == 0 && memcmp(zeroed, zeroed + 1, 6 * MIB - 1) == 0, "calloc gives zeroes");
  hd_free(zeroed);
  hd_arena *arena = hd_arena_create(NULL);
  TS_CHECK(arena != NULL && hd_arena_alloc(arena, 3 * MIB) != NULL, "an arena");
  hd_arena_destroy(arena);
  hd_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_stats_get(&stats) && stats.live == 0, "%zu bytes are live at the end", stats.live);
}

static void fail_then_use(void) {
  errno = 0;
  TS_CHECK(hd_malloc(10) == NULL && errno == ENOMEM, "malloc without memory");
  TS_CHECK(hd_heap_create(NULL) == NULL, "a heap without memory");
  memset(&refuse, 0, sizeof refuse);
  use();
}

/* ---- the systems ----------------------------------------------------------------------------------------------------- */

/* Addresses can't be chosen: the window is reserved, the store as well. Small ranges are refused at first: the table's, the store's. */
static void no_choice(void) {
  refuse.claim = -1;
  use();
}

static void no_choice_no_table(void) {
  refuse.claim = -1;
  refuse.reserve = 1;
  refuse.reserve_below = (size_t)1 << 30;
  use();
}

static void no_choice_no_store(void) {
  hd_free(NULL);
  refuse.claim = 4;
  refuse.reserve = 0;
  use();
}

static void no_memory_at_all(void) {
  refuse.claim = refuse.reserve = refuse.commit = -1;
  fail_then_use();
}

static void no_commit(void) {
  refuse.claim = refuse.commit = -1;
  fail_then_use();
}

/* The first place has room for the table and not for the units. */
static void second_place(void) {
  for (int i = 0; i < 6; i++) {
    pid_t child = fork();
    if (child == 0) {
      refuse.claim = i;
      use();
      _exit(0);
    }
    int status = 0;
    TS_CHECK(waitpid(child, &status, 0) == child && status == 0, "after %d refusals", i);
  }
}

/* Without the barrier nobody else's heap can be collected, but the caller's own is. */
static void no_barrier(void) {
  refuse.barrier_init = -1;
  use();
  hd_free(hd_malloc(100000));
  TS_CHECK(hdi_heap_self->cached_units > 0, "a run is cached");
  hd_collect(0);
  TS_CHECK(hdi_heap_self->cached_units == 0, "a collector leaves %u units in its own heap's cache", hdi_heap_self->cached_units);
  static void *blocks[1024];
  hd_stats before = {.struct_bytes = sizeof before}, after = before;
  for (int i = 0; i < 1024; i++) memset(blocks[i] = hd_malloc(4096), 1, 4096);
  for (int i = 0; i < 1024; i++) {
    if (i % 16 != 0) hd_free(blocks[i]);
  }
  hd_stats_get(&before);
  hd_collect(0);
  hd_stats_get(&after);
  TS_CHECK(after.purged_total - before.purged_total >= 3 * MIB, "%zu bytes came back", after.purged_total - before.purged_total);
  for (int i = 0; i < 1024; i += 16) hd_free(blocks[i]);
}

static void barrier_refused_later(void) {
  hd_free(hd_malloc(100000));
  hd_collect(0);
  refuse.barrier = -1;
  use();
}

/* Megabytes of the smallest blocks: their byte maps are worth purging, and fill the metadata store. */
static void use_tiny(void) {
  enum { COUNT = 300000 };
  void **blocks = malloc(COUNT * sizeof *blocks);
  for (int round = 0; round < 2; round++) {
    int count = 0;
    while (count < COUNT && (blocks[count] = hd_malloc(16)) != NULL) count++;
    for (int i = 0; i < count; i++) hd_free(blocks[i]);
    hd_collect(0);
  }
  free(blocks);
}

static void no_purge(void) {
  refuse.purge = -1;
  use();
  use_tiny();
  refuse.purge = 0;
  use_tiny();
}

/* What the space has claimed ahead is there, but the store can't grow: no byte maps. */
static void no_more_claims(void) {
  hd_free(hd_malloc(1));
  refuse.claim = -1;
  use_tiny();
  refuse.claim = 0;
  use();
}

/* The helper has nowhere to note what it saw; then nothing to stand on. */
static void no_sights(void) {
  refuse.commit = -1;
  refuse.commit_from = 4 * MIB;
  use();
  ts_sleep_ms(600);
  hd_collect(0);
}

static void no_stack(void) {
  refuse.commit = 1;
  use();
  refuse.reserve = 1;
  use();
}

/* While a fork holds the store its reserves may run out, and the next one be refused. */
static void *take_while_forking(void *unused) {
  (void)unused;
  refuse.reserve = refuse.commit = 1;
  int refusals = 0;
  for (int i = 0; i < 200; i++) refusals += hdi_store_take(16384) == NULL;
  TS_CHECK(refusals == 2 && refuse.reserve == 0 && refuse.commit == 0, "%d refusals", refusals);
  return NULL;
}

static void no_reserve_in_fork(void) {
  pthread_t thread;
  use();
  hdi_lock_fork_begin();
  hdi_store_fork(HD_FORK_PREPARE);
  TS_CHECK(pthread_create(&thread, NULL, take_while_forking, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
  hdi_store_fork(HD_FORK_PARENT);
  hdi_lock_fork_end();
  use();
}

static void without_huge(void) { hdi_os.huge_bytes = 0; }
static void no_huge(void) {
  refuse.init = without_huge;
  use();
}

static void with_other_huge(void) { hdi_os.huge_bytes = 32 * MIB; }
static void other_huge(void) {
  refuse.init = with_other_huge;
  use();
}

static void with_always(void) { hdi_os.huge_always = true; }
static void always_huge(void) {
  refuse.init = with_always;
  seems_resident = true;
  use();
}

static void never_huge(void) {
  setenv("HEDDLE", "thp:never", 1);
  refuse.init = with_always;
  use();
}

static void with_one_cpu(void) { hdi_os.cpu_count = 1; }
static void one_cpu(void) {
  refuse.init = with_one_cpu;
  use();
}

static void without_moves(void) { hdi_os.can_move = false; }
static void no_moves(void) {
  refuse.init = without_moves;
  use();
}

/* What the environment says is not for a program that runs with another user's rights. */
static void with_rights(void) { hdi_os.secure = true; }
static void secure(void) {
  char value[16];
  setenv("HEDDLE", "purge-delay:77", 1);
  setenv("HEDDLE_PURGE_DELAY", "78", 1);
  refuse.init = with_rights;
  use();
  hd_option_get("purge-delay", value, sizeof value);
  TS_CHECK(strcmp(value, "750") == 0, "purge-delay is %s", value);
}

/* A child of vfork runs in the memory of a thread that has no heap yet, and gives it one. */
static void *vfork_first(void *unused) {
  (void)unused;
  pid_t child = vfork();
  if (child == 0) {
    void *p = hd_malloc(100);
    hd_free(p);
    _exit(p == NULL);
  }
  int status = 0;
  TS_CHECK(waitpid(child, &status, 0) == child && status == 0, "malloc in a child of vfork");
  hd_free(hd_malloc(100));
  return NULL;
}

static void vforks(void) {
  for (int i = 0; i < 20; i++) {
    pthread_t thread;
    TS_CHECK(pthread_create(&thread, NULL, vfork_first, NULL) == 0 && pthread_join(thread, NULL) == 0, "a thread");
  }
}

static void keys(void) {
  use();
  vforks();
}

static void no_keys(void) {
  refuse.key = -1;
  use();
  vforks();
}

/* Regions start a space of their own where malloc is passed through; it may have to wait for memory. */
static void passthrough(void) {
  setenv("HEDDLE", "passthrough:on", 1);
  TS_CHECK(hdi_thread_heap() == NULL && hdi_thread_is_passthrough(), "passed through");
  refuse.claim = refuse.reserve = refuse.commit = -1;
  TS_CHECK(hd_arena_create(NULL) == NULL, "an arena without memory");
  memset(&refuse, 0, sizeof refuse);
  hd_arena *arena = hd_arena_create(NULL);
  TS_CHECK(arena != NULL && hd_arena_alloc(arena, 100) != NULL, "an arena");
  hd_arena_destroy(arena);
  void *p = hd_aligned_zalloc(64, 100);
  TS_CHECK(p != NULL && hd_aligned_alloc((size_t)1 << 40, (size_t)1 << 46) == NULL, "the next allocator's");
  TS_CHECK(hd_aligned_zalloc((size_t)1 << 39, (size_t)1 << 62) == NULL, "the next allocator's");
  TS_CHECK(hd_usable_size(p) >= 100 && (p = hd_realloc(p, 1000)) != NULL, "the next allocator's");
  hd_free(p);
}

static const struct {
  const char *name;
  void (*run)(void);
} systems[] = {
    {"no_choice", no_choice}, {"no_choice_no_table", no_choice_no_table}, {"no_choice_no_store", no_choice_no_store},
    {"no_memory_at_all", no_memory_at_all}, {"no_commit", no_commit}, {"second_place", second_place}, {"no_barrier", no_barrier},
    {"barrier_refused_later", barrier_refused_later}, {"no_purge", no_purge}, {"no_huge", no_huge}, {"other_huge", other_huge},
    {"always_huge", always_huge}, {"never_huge", never_huge}, {"one_cpu", one_cpu}, {"no_moves", no_moves}, {"secure", secure},
    {"keys", keys}, {"no_keys", no_keys}, {"no_more_claims", no_more_claims}, {"no_sights", no_sights}, {"no_stack", no_stack},
    {"no_reserve_in_fork", no_reserve_in_fork}, {"passthrough", passthrough},
};

int main(void) {
  int failed = 0;
  for (size_t i = 0; i < sizeof systems / sizeof systems[0]; i++) {
    int status = 0;
    pid_t child = fork();
    TS_CHECK(child >= 0, "fork");
    if (child == 0) {
      alarm(60);
      systems[i].run();
      exit(0);
    }
    TS_CHECK(waitpid(child, &status, 0) == child, "wait");
    ts_print(1, "%s: %s\n", systems[i].name, status == 0 ? "ok" : "FAILED");
    failed += status != 0;
  }
  return failed != 0;
}
