/* Systems unlike the one that tests run on, each in a child of its own: such as let nobody choose addresses, lack the barrier, mremap
 * or huge pages, have one processor, or refuse at a moment that no plan of test/fault hits. What is refused
 * stands in systems.c. In each the heap must work, or say ENOMEM, and work again when the system does.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"
#include "core/purge.h"
#include "core/region.h"
#include "core/space.h"
#include "core/space_grow.h"
#include "core/store.h"
#include "core/thread.h"
#include "heddle.h"
#include "heddle/arena.h"
#include "os/linux_memory.h"
#include "os/os.h"
#include "systems.h"

/* A program that says nothing where it might. */
const char *heddle_options;

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
  uint8_t *sparse = hd_malloc(6 * MIB); /* of which so little is resident that it is exchanged, not cleared */
  TS_CHECK(sparse != NULL, "a long block");
  memset(sparse, 1, 1);
  hd_free(sparse);
  zeroed = hd_calloc(1, 6 * MIB);
  TS_CHECK(zeroed != NULL && zeroed[0] == 0, "calloc gives zeroes");
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
  bool zeroed = false;
  TS_CHECK(hd_heap_create(NULL) == NULL, "a heap without memory");
  TS_CHECK(hdi_region_take(HD_AREA_POOL, NULL, 10, &zeroed) == NULL, "a region without memory");
  TS_CHECK(hdi_region_reserve(HD_AREA_POOL, NULL, 10) == NULL, "a region without memory");
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

/* There is a window, and no place for the store: not now, or not for a long one. */
static void no_store(void) {
  refuse.claim = refuse.reserve = -1;
  refuse.reserve_after = 2;
  fail_then_use();
}

static void short_store(void) {
  refuse.claim = -1;
  refuse.reserve = 2;
  refuse.reserve_after = 2;
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

/* calloc of a block that was used before and never touched looks at some pages of it, not at all. */
static void few_looks(void) {
  hd_free(hd_malloc(100 * MIB));
  uint8_t *p = hd_calloc(1, 100 * MIB);
  TS_CHECK(p != NULL && p[50 * MIB] == 0, "calloc gives zeroes");
  TS_CHECK(refuse.asked > 0 && refuse.asked <= 16 * hdi_os.page_bytes, "%zu bytes were looked at", refuse.asked);
  hd_free(p);
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
  refuse.seems_resident = true;
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

/* Refused in the middle of it: a window that was reserved, and one that goes on behind somebody else's memory. */
static void reserved_then_refused(void) {
  refuse.claim = -1;
  use();
  refuse.commit = -1;
  errno = 0;
  TS_CHECK(hd_malloc(100 * MIB) == NULL && errno == ENOMEM, "a commit is refused");
  refuse.commit = 0;
  use();
}

/* A whole step and no more: there is nothing less to ask for. */
static void refused_step(void) {
  hd_free(hd_malloc(1));
  size_t have = hd_load_acquire(&hdi_space.committed);
  refuse.claim = refuse.commit = -1;
  TS_CHECK(hdi_space_grow(&hdi_space, hd_round_up(have + 1, HD_COMMIT_UNITS)) == HD_CLAIM_REFUSED, "a step is refused");
  TS_CHECK(hd_load_acquire(&hdi_space.committed) == have, "the end stays where it was");
  refuse.claim = refuse.commit = 0;
  use();
}

/* As many blocks as there are, each with the one before it. */
static void **take_all(void **last, size_t bytes) {
  for (void **p; (p = hd_malloc(bytes)) != NULL; last = p) *p = (void *)last;
  return last;
}

/* A heap's first block of whole system pages finds no unit that is free. */
static void no_unit_for_one_block(void) {
  hd_free(hd_malloc(1));
  refuse.claim = refuse.commit = -1;
  void **last = take_all(take_all(NULL, 200001), 3001);
  errno = 0;
  TS_CHECK(hd_calloc(1, 4096) == NULL && errno == ENOMEM, "a block is refused");
  for (void **before; last != NULL; last = before) {
    before = (void **)*last;
    hd_free((void *)last);
  }
  refuse.claim = refuse.commit = 0;
  use();
}

/* From the start on there is room for a unit and never for a whole step: the table of units grows in place, within its page at first. */
static void unit_by_unit(void) {
  enum { UNITS = 40 };
  refuse.claim = 1;
  hd_free(hd_malloc(1));
  size_t first = hd_load_acquire(&hdi_space.committed);
  TS_CHECK(first < HD_COMMIT_UNITS, "%zu units at the start", first);
  for (size_t have = first; have < first + UNITS; have++) {
    refuse.claim = 1;
    TS_CHECK(hdi_space_grow(&hdi_space, have + 1) == HD_CLAIM_DONE && refuse.claim == 0, "a unit more than %zu", have);
    TS_CHECK(hd_load_acquire(&hdi_space.committed) == have + 1, "no more than that one");
    size_t table = hdi_space.table_units;
    TS_CHECK(table > have && table <= 2 * (have + 1), "a table of %zu for %zu", table, have + 1);
  }
  use();
}

static void refused_beside_others(void) {
  int refused = 0;
  hd_free(hd_malloc(1));
  for (int after = 0; after < 8; after++) {
    uint8_t *end = hdi_space.base + (hd_load_acquire(&hdi_space.committed) << HD_UNIT_SHIFT);
    void *other = mmap(end, HD_UNIT_BYTES, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_FIXED_NOREPLACE, -1, 0);
    TS_CHECK(other == end || errno == EEXIST, "somebody else's memory behind the end");
    refuse.claim_after = after;
    refuse.claim = -1;
    void *p = hd_malloc(100 * MIB);
    refused += p == NULL;
    hd_free(p);
    refuse.claim = 0;
    use();
  }
  TS_CHECK(refused > 2 && refused < 8, "%d refusals", refused);
}

/* The helper ends when there has been nothing to do for long, which here is not long; and is started again. */
static void idle_helper(void) {
  refuse.hasty = true;
  for (int round = 0; round < 3; round++) {
    void *p = hd_malloc(64 * MIB);
    memset(p, 1, 64 * MIB);
    hd_free(p);
    TS_CHECK(hd_load_acquire(&hdi_purge_running) == 1, "the helper runs");
    hd_collect(0);
    for (int i = 0; i < 3000 && hd_load_acquire(&hdi_purge_running) != 0; i++) ts_sleep_ms(2);
    TS_CHECK(hd_load_acquire(&hdi_purge_running) == 0, "the helper has ended");
    ts_sleep_ms(20); /* its thread as well, or the next one would not be started at once */
  }
}

static void with_little_memory(void) { hdi_os.ram_bytes = 512 * MIB; }
static void with_much_memory(void) { hdi_os.ram_bytes = (size_t)6 << 40; }
static void little_memory(void) {
  refuse.init = with_little_memory;
  use();
  TS_CHECK(hdi_space.unit_count << HD_UNIT_SHIFT == 64 * HD_GIB, "a window of %zu units", hdi_space.unit_count);
}

static void much_memory(void) {
  refuse.init = with_much_memory;
  use();
  TS_CHECK(hdi_space.unit_count << HD_UNIT_SHIFT == 4096 * HD_GIB, "a window of %zu units", hdi_space.unit_count);
}

static void check_delay(const char *wanted) {
  char value[16];
  use();
  hd_option_get("purge-delay", value, sizeof value);
  TS_CHECK(strcmp(value, wanted) == 0, "purge-delay is %s", value);
}

/* The file that all programs read, where nobody names another. */
static void common_file(void) {
  unsetenv("HEDDLE_FILE");
  refuse.file = "purge-delay:79\n";
  check_delay("79");
}

static void empty_file(void) {
  refuse.file = "";
  check_delay("750");
}

/* Entries that no shell would make. */
static void odd_environment(void) {
  static char no_value[] = "HEDDLE_PURGE_DELAY", no_name[] = "HEDDLE_=5", long_name[] = "HEDDLE_PURGE_DELAY_AND_MUCH_MORE_THAN_THAT=5";
  static char right[] = "HEDDLE_PURGE_DELAY=80";
  static char *entries[] = {no_value, no_name, long_name, right, NULL};
  environ = entries;
  check_delay("80");
}

static void no_environment(void) {
  environ = NULL;
  check_delay("750");
}

static int told;
static void tell(const void *p, const char *code) {
  (void)p;
  told += strcmp(code, "HD-E05") == 0;
}

/* Nobody else can have handed out what is not ours. */
static void nothing_behind(void) {
  static _Alignas(64) char foreign[256];
  refuse.next = true;
  hd_option_set("onerror", "ignore");
  hd_misuse_hook_set(tell);
  use();
  hd_free(foreign + 64);
  TS_CHECK(told == 1, "free of a foreign pointer: %d reports", told);
  errno = 0;
  TS_CHECK(hd_realloc(foreign + 64, 100) == NULL && errno == ENOMEM && told == 2, "realloc of a foreign pointer: %d reports", told);
  TS_CHECK(hd_usable_size(foreign + 64) == 0 && told == 2, "the size of a foreign pointer");
}

/* ---- calls while the library starts ---------------------------------------------------------------------------------- */

static pthread_t waiter;

static void *wait_for_start(void *unused) {
  (void)unused;
  void *p = hd_malloc(10);
  hd_free(p);
  return p;
}

/* A call from inside the start, one of another thread, and a child whose parent's thread was at it. */
static void during_start(void) {
  refuse.init = NULL;
  errno = 0;
  TS_CHECK(hd_malloc(10) == NULL && errno == ENOMEM, "malloc from inside the start");
  TS_CHECK(hdi_store_purge() == 0, "there is no store yet");
  pid_t child = fork();
  if (child == 0) {
    use();
    _exit(0);
  }
  int status = 0;
  TS_CHECK(waitpid(child, &status, 0) == child && status == 0, "a child of the start");
  TS_CHECK(pthread_create(&waiter, NULL, wait_for_start, NULL) == 0, "a thread");
  ts_sleep_ms(60);
}

static void busy_start(void) {
  void *p = NULL;
  refuse.init = during_start;
  use();
  TS_CHECK(pthread_join(waiter, &p) == 0 && p != NULL, "who waits for the start gets memory");
}

static size_t mappings(void) {
  size_t count = 0;
  FILE *maps = fopen("/proc/self/maps", "r");
  TS_CHECK(maps != NULL, "the system tells of mappings");
  for (int c = 0; (c = getc(maps)) != EOF;) count += c == '\n';
  fclose(maps);
  return count;
}

/* Each recycled piece costs the kernel two ranges, and every fork copies them: a process makes so many moves and no more. */
static void many_moves(void) {
  enum { PIECES = 2 * 600, PIECE = 256 * 1024, LARGE = 200, MOVES_MAX = 256, RANGES = 3 };
  static void *pieces[PIECES], *large[LARGE];
  setenv("HEDDLE", "purge:off", 1);
  hd_stats stats = {.struct_bytes = sizeof stats};
  for (int i = 0; i < PIECES; i++) TS_CHECK((pieces[i] = hd_malloc(PIECE)) != NULL, "piece %d", i);
  for (int i = 0; i < PIECES; i += 2) hd_free(pieces[i]);
  size_t before = mappings();
  for (int i = 0; i < LARGE; i++) TS_CHECK((large[i] = hd_malloc(MIB)) != NULL, "block %d", i);
  hd_stats_get(&stats);
  TS_CHECK(stats.moved_total == (size_t)MOVES_MAX * PIECE, "%zu pieces were moved", stats.moved_total / PIECE);
  size_t after = mappings();
  TS_CHECK(after <= before + (size_t)RANGES * MOVES_MAX, "%zu mappings, and %zu after the moves", before, after);
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

static const struct system systems[] = {
    {"no_choice", no_choice}, {"no_choice_no_table", no_choice_no_table}, {"no_choice_no_store", no_choice_no_store},
    {"no_memory_at_all", no_memory_at_all}, {"no_commit", no_commit}, {"second_place", second_place}, {"no_barrier", no_barrier},
    {"barrier_refused_later", barrier_refused_later}, {"no_purge", no_purge}, {"no_huge", no_huge}, {"other_huge", other_huge},
    {"always_huge", always_huge}, {"never_huge", never_huge}, {"one_cpu", one_cpu}, {"no_moves", no_moves}, {"secure", secure},
    {"keys", keys}, {"no_keys", no_keys}, {"no_more_claims", no_more_claims}, {"no_sights", no_sights}, {"no_stack", no_stack},
    {"no_reserve_in_fork", no_reserve_in_fork}, {"passthrough", passthrough}, {"no_store", no_store}, {"short_store", short_store},
    {"common_file", common_file}, {"empty_file", empty_file}, {"odd_environment", odd_environment}, {"no_environment", no_environment},
    {"nothing_behind", nothing_behind}, {"busy_start", busy_start}, {"many_moves", many_moves},
    {"reserved_then_refused", reserved_then_refused}, {"refused_step", refused_step}, {"unit_by_unit", unit_by_unit},
    {"refused_beside_others", refused_beside_others}, {"no_unit_for_one_block", no_unit_for_one_block},
    {"idle_helper", idle_helper}, {"little_memory", little_memory}, {"much_memory", much_memory},
    {"few_looks", few_looks},
};

int main(void) { return run_systems(systems, sizeof systems / sizeof systems[0]); }
