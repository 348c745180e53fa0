/* Somebody else's memory where the common space, its table or the metadata store would grow; and the child of a fork that finds the
 * space half grown by a thread that it does not have. Each test in a process of its own: what it plants stays.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/options.h"
#include "core/space_grow.h"
#include "core/store.h"
#include "heddle.h"
#include "os/linux_memory.h"
#include "os/os.h"

#define MIB ((size_t)1 << 20)

enum { FOREIGN = 0x5c, BLOCKS = 3000, PLANTED_MAX = 64 };

/* Ends the process: cmocka would go on with the next test, in the child. */
#define NEED(condition) TS_CHECK(condition, "in pid %d", (int)getpid())

static struct ts_rng rng;
static struct planted {
  uint8_t *at;
  size_t bytes;
} planted[PLANTED_MAX];
static size_t planted_count;
static struct block {
  uint8_t *p;
  size_t bytes;
} blocks[BLOCKS];

static bool plant(uint8_t *at, size_t bytes) {
  uint8_t *got = mmap(at, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0);
  if (got != at) return false;
  for (size_t i = 0; i < bytes; i += 4096) at[i] = FOREIGN;
  planted[planted_count++] = (struct planted){at, bytes};
  return true;
}

static uint8_t *committed_end(void) { return hdi_space.base + (hd_load_acquire(&hdi_space.committed) << HD_UNIT_SHIFT); }

static void check_planted(void) {
  for (size_t i = 0; i < planted_count; i++) {
    for (size_t at = 0; at < planted[i].bytes; at += 4096) NEED(planted[i].at[at] == FOREIGN);
    NEED(!hd_owns(planted[i].at));
    NEED(!hd_owns(planted[i].at + planted[i].bytes - 1));
    if (planted[i].at < committed_end()) NEED(!hdi_space_covers(planted[i].at));
    NEED(hdi_space_find(planted[i].at) == NULL);
  }
}

static bool is_apart(const struct block *block) {
  for (size_t i = 0; i < planted_count; i++)
    if (block->p < planted[i].at + planted[i].bytes && planted[i].at < block->p + block->bytes) return false;
  return true;
}

/* Take so many bytes in blocks of all sizes; then give all back, in another order, with their contents checked. */
static void use(size_t bytes, size_t most) {
  size_t count = 0;
  for (size_t taken = 0; taken < bytes && count < BLOCKS; count++) {
    struct block *block = blocks + count;
    block->bytes = 1 + ts_below(&rng, ts_below(&rng, 4) != 0 ? most : 40000);
    block->p = ts_below(&rng, 8) != 0 ? hd_malloc(block->bytes) : hd_aligned_alloc((size_t)1 << (16 + ts_below(&rng, 6)), block->bytes);
    NEED(block->p != NULL);
    NEED(is_apart(block));
    memset(block->p, (int)count, 1 + block->bytes / 100);
    block->p[block->bytes - 1] = (uint8_t)count;
    taken += block->bytes;
  }
  check_planted();
  for (size_t i = 0; i < count; i++) {
    struct block *block = blocks + (i * 7919) % count;
    if (block->p == NULL) block = blocks + i;
    if (block->p == NULL) continue;
    uint8_t name = (uint8_t)(block - blocks);
    NEED(block->p[0] == name);
    NEED(block->p[block->bytes - 1] == name);
    hd_free(block->p);
    block->p = NULL;
  }
  for (size_t i = 0; i < count; i++) hd_free(blocks[i].p);
  hd_collect(0);
  check_planted();
}

/* The books: a free run and passed units account for all below top that no heap has. */
static void check_books(void) {
  size_t passed = 0;
  for (size_t at = 0; at < hd_load_relaxed(&hdi_space.committed); at++) {
    passed += hd_load_relaxed(&hdi_space.units[at].kind) == HD_UNIT_PASSED;
  }
  NEED(passed == hd_load_relaxed(&hdi_space.passed_units));
  NEED(passed > 0);
}

static void right_behind(void) {
  NEED(plant(committed_end(), 4096));
  use(300 * MIB, 3 * MIB);
  check_books();
}

static void inside_the_next_step(void) {
  NEED(plant(committed_end() + 5 * HD_UNIT_BYTES, 4 * HD_UNIT_BYTES));
  use(300 * MIB, 3 * MIB);
  check_books();
}

static void long_range(void) {
  NEED(plant(committed_end() + MIB, 200 * MIB));
  use(300 * MIB, 3 * MIB);
  check_books();
}

static void everywhere(void) {
  uint8_t *end = committed_end();
  for (size_t i = 0; i < PLANTED_MAX; i++) plant(end + ts_below(&rng, 600) * MIB + ts_below(&rng, 200) * 4096, 256 * 1024);
  NEED(planted_count > PLANTED_MAX / 2);
  use(500 * MIB, 8 * MIB);
  check_books();
  use(500 * MIB, 8 * MIB);
}

/* A block that grows in its place comes to the end of what is ours. */
static void growing_block(void) {
  NEED(plant(committed_end(), 64 * 1024));
  uint8_t *p = NULL;
  for (size_t bytes = MIB; bytes < 200 * MIB; bytes += bytes / 2) {
    uint8_t *grown = hd_realloc(p, bytes);
    NEED(grown != NULL);
    if (p != NULL) NEED(grown[MIB - 2] == 77);
    p = grown;
    p[MIB - 2] = 77;
    p[bytes - 1] = 78;
  }
  hd_free(p);
  check_planted();
}

static void behind_the_store(void) {
  uint8_t *item = hdi_store_take(4096); /* in the range, and not among its first bytes */
  NEED(item != NULL);
  uint8_t *at = (uint8_t *)hd_round_up((uintptr_t)item, hdi_os.page_bytes);
  while (!plant(at, hdi_os.page_bytes)) at += hdi_os.page_bytes;
  for (size_t i = 0; i < 400; i++) {
    uint8_t *more = hdi_store_take(4096);
    NEED(more != NULL);
    NEED(more + 4096 <= planted[0].at || planted[0].at + planted[0].bytes <= more);
    memset(more, 1, 4096);
  }
  NEED(planted[0].at[0] == FOREIGN);
}

/* Nothing can go on behind that; but what there is goes on working. */
static void behind_the_table(void) {
  if (HD_NARROW) return; /* the table is whole from the start */
  uint8_t *end = (uint8_t *)(hdi_space.units + hdi_space.table_units);
  NEED(plant((uint8_t *)hd_round_up((uintptr_t)end, hdi_os.page_bytes), 4096));
  errno = 0;
  NEED(hd_malloc(HD_GIB) == NULL);
  NEED(errno == ENOMEM);
  NEED(planted[0].at[0] == FOREIGN);
  for (int i = 0; i < 1000; i++) {
    void *p = hd_malloc(100000);
    NEED(p != NULL);
    hd_free(p);
  }
}

/* Room is found behind a neighbour, and none for the table of so many units. */
static void no_table_for_the_place(void) {
  if (HD_NARROW) return;
  hdi_options.thp = HD_THP_NEVER; /* runs as long as what is asked for */
  NEED(hdi_space_grow(&hdi_space, HD_COMMIT_UNITS) == HD_CLAIM_DONE);
  size_t have = hd_load_acquire(&hdi_space.committed);
  NEED(plant(hdi_space.base + ((have + 400) << HD_UNIT_SHIFT), 4 * HD_UNIT_BYTES));
  size_t rest = have - hd_load_acquire(&hdi_space.top);
  NEED(hd_malloc((rest + 200) << HD_UNIT_SHIFT) != NULL); /* a part of a step, with a table for all of it */
  NEED(hdi_space.table_units == 2 * have);
  NEED(plant((uint8_t *)hd_round_up((uintptr_t)(hdi_space.units + hdi_space.table_units), hdi_os.page_bytes), 4096));
  errno = 0;
  NEED(hd_malloc(290 * HD_UNIT_BYTES) == NULL);
  NEED(errno == ENOMEM);
  check_planted();
  NEED(hd_malloc(80 * HD_UNIT_BYTES) != NULL);
  NEED(!hdi_space_pass(&hdi_space, hdi_space.unit_count + 1)); /* more than there can be */
}

/* All of the window's addresses are somebody's: refused, soon, and the heap lives on. */
static void no_addresses(void) {
  size_t rest = (hdi_space.unit_count - hd_load_relaxed(&hdi_space.committed)) << HD_UNIT_SHIFT;
  uint8_t *end = committed_end();
  if (mmap(end, rest, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED_NOREPLACE, -1, 0) != end) return;
  uint64_t before = ts_now_ms();
  for (int i = 0; i < 100; i++) {
    errno = 0;
    NEED(hd_malloc(HD_GIB) == NULL);
    NEED(errno == ENOMEM);
  }
  NEED(ts_now_ms() - before < 5000);
  hd_free(hd_malloc(1000));
}

/* Another thread has the right to grow, and has claimed as much as `units` and `table` of a step, when the process forks; and a handler
 * that runs before ours in the child needs more memory. */
static void half_grown_in_a_child(size_t units, size_t table) {
  uint8_t *behind = (uint8_t *)hd_round_up((uintptr_t)(hdi_space.units + hdi_space.table_units), hdi_os.page_bytes);
  hdi_lock_fork_begin();
  hd_store_release(&hdi_space.growth.word, 0x7ff0u); /* nobody's mark */
  if (units > 0) NEED(hdi_os_claim(committed_end(), units) == HD_CLAIM_DONE);
  if (table > 0 && !HD_NARROW) {
    hd_store_release(&hdi_space.table_claim_bytes, table);
    hd_store_release(&hdi_space.table_claim, behind);
    NEED(hdi_os_claim(behind, table) == HD_CLAIM_DONE);
  }
  pid_t pid = (pid_t)syscall(SYS_fork); /* without the handlers */
  if (pid == 0) {
    alarm(8);
    uint8_t *p = hd_malloc(100 * MIB);
    if (p != NULL) memset(p, 1, 100 * MIB);
    hd_free(p);
    syscall(SYS_exit_group, p != NULL ? 0 : 9);
  }
  int status = 1;
  NEED(waitpid(pid, &status, 0) == pid);
  NEED(status == 0);
}

static void child_of_a_grower(void) { half_grown_in_a_child((size_t)HD_COMMIT_UNITS << HD_UNIT_SHIFT, 0); }
static void child_of_a_table_grower(void) {
  half_grown_in_a_child(0, hd_round_up(hdi_space.table_units * sizeof(hd_unit), hdi_os.page_bytes));
}

static void child_of_who_began(void) { half_grown_in_a_child(0, 0); }

/* The same, but what our handler finds in the child. */
static void recovers_in_a_child(void (*leave)(void), bool held) {
  int status = 1;
  hd_option_set("purge", "off"); /* the helper would look at units below a top that has no table yet */
  NEED(plant(committed_end(), 4096));
  use(40 * MIB, MIB);
  size_t passed = hd_load_relaxed(&hdi_space.passed_units);
  NEED(passed > 0);
  hdi_lock_fork_begin();
  leave();
  pid_t pid = (pid_t)syscall(SYS_fork);
  if (pid == 0) {
    alarm(8);
    hdi_space_grow_fork_child(&hdi_space);
    NEED(hd_load_relaxed(&hdi_space.passed_units) == passed);
    NEED(hdi_lock_is_mine(&hdi_space.growth) == held);
    hdi_lock_fork_child();
    use(300 * MIB, 3 * MIB);
    check_books();
    _exit(0);
  }
  NEED(waitpid(pid, &status, 0) == pid);
  NEED(status == 0);
}

/* Its last act was to move the top, and to tell of units that it had not marked yet. */
static void move_the_top(void) {
  size_t place = hd_load_acquire(&hdi_space.committed) + 48;
  hd_store_release(&hdi_space.growth.word, 0x7ff0u);
  NEED(hdi_os_claim(hdi_space.base + (place << HD_UNIT_SHIFT), MIB) == HD_CLAIM_DONE);
  hd_store_release(&hdi_space.top, place);
  hd_add(&hdi_space.passed_units, 48u);
  NEED(!hd_owns(committed_end() + MIB)); /* below the top, and nobody's */
}

static void child_of_who_passed_by(void) { recovers_in_a_child(move_the_top, false); }

/* A signal handler forked while this very thread was moving the end. */
static void hold_growth(void) { hdi_lock_take(&hdi_space.growth); }
static void child_in_a_signal(void) { recovers_in_a_child(hold_growth, true); }

/* It grows meanwhile, and leaves the right to move the end to whom it interrupted. */
static void grower_in_a_signal(void) {
  hold_growth();
  use(100 * MIB, 3 * MIB);
  NEED(hdi_lock_is_mine(&hdi_space.growth));
  hdi_lock_drop(&hdi_space.growth);
}

/* ---- each in a process of its own ---------------------------------------------------------------------------------------- */

static void in_child(void (*test)(void)) {
  pid_t pid = fork();
  assert_true(pid >= 0);
  if (pid == 0) {
    test();
    _exit(0);
  }
  int status = 1;
  assert_true(waitpid(pid, &status, 0) == pid);
  assert_int_equal(status, 0);
}

#define TEST(name)                        \
  static void test_##name(void **state) { \
    (void)state;                          \
    in_child(name);                       \
  }

TEST(right_behind)
TEST(inside_the_next_step)
TEST(long_range)
TEST(everywhere)
TEST(growing_block)
TEST(behind_the_store)
TEST(behind_the_table)
TEST(no_addresses)
TEST(child_of_a_grower)
TEST(child_of_a_table_grower)
TEST(child_of_who_began)
TEST(no_table_for_the_place)
TEST(child_of_who_passed_by)
TEST(child_in_a_signal)
TEST(grower_in_a_signal)

static int set_up(void **state) {
  (void)state;
  hd_free(hd_malloc(1)); /* starts the library */
  return 0;
}

int main(void) {
  rng.state = ts_seed();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_right_behind),      cmocka_unit_test(test_inside_the_next_step), cmocka_unit_test(test_long_range),
      cmocka_unit_test(test_everywhere),        cmocka_unit_test(test_growing_block),        cmocka_unit_test(test_behind_the_store),
      cmocka_unit_test(test_behind_the_table),  cmocka_unit_test(test_no_addresses),         cmocka_unit_test(test_child_of_a_grower),
      cmocka_unit_test(test_child_of_a_table_grower), cmocka_unit_test(test_child_of_who_began),
      cmocka_unit_test(test_no_table_for_the_place), cmocka_unit_test(test_child_of_who_passed_by),
      cmocka_unit_test(test_child_in_a_signal), cmocka_unit_test(test_grower_in_a_signal),
  };
  return cmocka_run_group_tests_name("neighbours", tests, set_up, NULL);
}
