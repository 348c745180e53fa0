/* Each published fault of the Weaver memory manager, and what else an arena promises, as a test of its own.
 *
 *   arena_traps NAME       runs one; without a name, all
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle/arena.h"
#include "heddle/frame.h"
#include "heddle/weaver.h"

#define KIB ((size_t)1024)
#define MIB (1024 * KIB)

static hd_arena *fixed(size_t bytes, size_t keep_bytes) {
  hd_arena_config config = {.struct_bytes = sizeof config, .name = "trap", .capacity_bytes = bytes, .keep_bytes = keep_bytes};
  hd_arena *arena = hd_arena_create(&config);
  TS_CHECK(arena != NULL, "an arena of %zu bytes", bytes);
  return arena;
}

static hd_arena_stats look(const hd_arena *arena) {
  hd_arena_stats stats = {.struct_bytes = sizeof stats};
  TS_CHECK(hd_arena_stats_get(arena, &stats), "stats");
  return stats;
}

/* W3: the restore forgets the padding, so that 16 rounds of this hand out overlapping memory. */
static void restore_exact(void) {
  for (int right = 0; right < 2; right++) {
    void *arena = _Wcreate_arena(64 * KIB);
    size_t room = hd_weaver_remaining(arena, NULL);
    uint8_t *keep[16];
    for (int i = 0; i < 16; i++) {
      keep[i] = _Walloc(arena, 1, right, 1);
      *keep[i] = (uint8_t)i;
      size_t before = hd_weaver_remaining(arena, NULL);
      TS_CHECK(_Wmempoint(arena, 4096, right), "point %d", i);
      uint8_t *p = _Walloc(arena, 4096, right, 100);
      TS_CHECK(p != NULL && (uintptr_t)p % 4096 == 0, "round %d", i);
      memset(p, 0xff, 100);
      _Wtrash(arena, right);
      TS_CHECK(hd_weaver_remaining(arena, NULL) == before, "round %d: %zu bytes, not %zu", i, hd_weaver_remaining(arena, NULL), before);
    }
    TS_CHECK(hd_weaver_remaining(arena, NULL) == room - 16, "16 blocks of 1 take %zu", room - hd_weaver_remaining(arena, NULL));
    uint8_t *rest = _Walloc(arena, 1, !right, room - 16);
    TS_CHECK(rest != NULL, "the rest in one block");
    memset(rest, 0xee, room - 16);
    for (int i = 0; i < 16; i++) TS_CHECK(*keep[i] == i, "block %d was overwritten", i);
    TS_CHECK(!_Wdestroy_arena(arena), "it was not empty");
  }
}

/* W4: the header is taken out of the user's size. */
static void whole_size(void) {
  for (size_t bytes = 1; bytes < 300 * KIB; bytes += 4093) {
    void *arena = Wcreate_arena(bytes);
    uint8_t *p = Walloc(arena, 1, (int)(bytes & 1), bytes);
    TS_CHECK(p != NULL, "%zu of %zu bytes", bytes, bytes);
    memset(p, 1, bytes);
    Wdestroy_arena(arena);
  }
}

/* W5: the mapping is not checked. */
static void huge_size(void) {
  static const size_t sizes[] = {(size_t)1 << 60, (size_t)1 << 63, SIZE_MAX, SIZE_MAX - 4095, PTRDIFF_MAX, (size_t)1 << 47};
  for (size_t i = 0; i < sizeof sizes / sizeof sizes[0]; i++) {
    errno = 0;
    TS_CHECK(Wcreate_arena(sizes[i]) == NULL && errno == ENOMEM, "%zx bytes", sizes[i]);
    hd_arena_config config = {.struct_bytes = sizeof config, .capacity_bytes = sizes[i], .guard = true};
    errno = 0;
    TS_CHECK(hd_arena_create(&config) == NULL && errno == ENOMEM, "%zx bytes", sizes[i]);
  }
}

/* W6: an alignment of 24 is accepted. */
static void bad_alignment(void) {
  void *arena = Wcreate_arena(64 * KIB);
  for (int right = 0; right < 2; right++) {
    errno = 0;
    TS_CHECK(Walloc(arena, 24, right, 8) == NULL && errno == EINVAL, "a block aligned to 24");
    errno = 0;
    TS_CHECK(!Wmempoint(arena, 24, right) && errno == EINVAL, "a point aligned to 24");
  }
  TS_CHECK(Wdestroy_arena(arena), "nothing was laid");
}

/* W6: a point at alignment 0 can be misaligned. */
static void point_anywhere(void) {
  for (int right = 0; right < 2; right++) {
    void *arena = Wcreate_arena(64 * KIB);
    for (unsigned shift = 1; shift < 40; shift++) {
      TS_CHECK(Walloc(arena, 0, right, shift) != NULL && Wmempoint(arena, 0, right), "point after %u", shift);
      TS_CHECK((uintptr_t)Walloc(arena, 8, right, 8) % 8 == 0, "a block after it");
    }
    for (unsigned shift = 1; shift < 40; shift++) Wtrash(arena, right);
    Wtrash(arena, right);
    TS_CHECK(Wdestroy_arena(arena), "all points are gone");
    hd_arena *plain = fixed(64 * KIB, 0);
    hd_arena_alloc_aligned(plain, 0, 3);
    hd_arena_alloc_aligned_right(plain, 0, 3);
    hd_mark mark = right ? hd_arena_mark_right(plain) : hd_arena_mark(plain);
    TS_CHECK((uintptr_t)mark.point % 16 == 0, "a point at %p", mark.point);
    TS_CHECK(hd_arena_release(plain, mark) && look(plain).used_left == 3 && look(plain).used_right == 3, "exactly back");
    hd_arena_destroy(plain);
  }
}

/* W7: what fits exactly is refused, because size + alignment - 1 is tested. */
static void exact_fit(void) {
  for (size_t alignment = 1; alignment <= 64 * KIB; alignment *= 2) {
    for (int right = 0; right < 2; right++) {
      void *arena = Wcreate_arena(64 * KIB);
      TS_CHECK(Walloc(arena, (unsigned)alignment, right, 64 * KIB) != NULL, "all of it, aligned to %zu", alignment);
      errno = 0;
      TS_CHECK(Walloc(arena, 1, right, 1) == NULL && errno == ENOMEM, "one byte more");
      Wtrash(arena, right);
      TS_CHECK(Walloc(arena, 1, !right, 5) != NULL, "five bytes");
      TS_CHECK(Walloc(arena, 16, right, 64 * KIB - 16) != NULL, "the other blocks of 16");
      Wdestroy_arena(arena);
    }
  }
  hd_arena *odd = fixed(64 * KIB, 0);
  TS_CHECK(hd_arena_alloc_aligned_right(odd, 1, 5) != NULL && hd_arena_alloc(odd, 16) != NULL, "both ends");
  TS_CHECK(hd_arena_alloc(odd, 64 * KIB - 21) != NULL && hd_arena_remaining(odd) == 0, "all between, an odd number of bytes");
  hd_arena_destroy(odd);
}

/* W7: SIZE_MAX-8 with alignment 16 wraps around and succeeds. */
static void wrapping_size(void) {
  void *arena = Wcreate_arena(64 * KIB);
  for (int right = 0; right < 2; right++) {
    Walloc(arena, 1, right, 1);
    for (size_t less = 0; less < 100; less++) {
      errno = 0;
      TS_CHECK(Walloc(arena, 16, right, SIZE_MAX - less) == NULL && errno == ENOMEM, "SIZE_MAX - %zu", less);
    }
    errno = 0;
    TS_CHECK(Walloc(arena, 1u << 31, right, 1) == NULL && errno == ENOMEM, "aligned to 2^31");
  }
  hd_arena *growing = hd_arena_create(NULL);
  for (unsigned bit = 0; bit < 64; bit++) {
    errno = 0;
    TS_CHECK(hd_arena_alloc_aligned(growing, (size_t)1 << bit, SIZE_MAX - 8) == NULL && errno == ENOMEM, "2^%u", bit);
    TS_CHECK(hd_arena_alloc_aligned_right(growing, (size_t)1 << bit, SIZE_MAX - 8) == NULL, "2^%u", bit);
  }
  TS_CHECK(hd_arena_destroy(growing), "nothing was laid");
  Wdestroy_arena(arena);
}

/* W8, W9 */
static void says_what_is_left(void) {
  void *arena = Wcreate_arena(64 * KIB);
  size_t least = 0;
  Walloc(arena, 16, 0, 1000);
  Walloc(arena, 16, 1, 3000);
  Wtrash(arena, 0);
  Wtrash(arena, 1);
  TS_CHECK(hd_weaver_remaining(arena, &least) == 64 * KIB && least == 64 * KIB - 1008 - 3008, "least %zu", least);
  TS_CHECK(Wdestroy_arena(arena), "empty");
  arena = Wcreate_arena(0);
  Wmempoint(arena, 0, 1);
  TS_CHECK(!Wdestroy_arena(arena) && Wdestroy_arena(NULL), "a point is left");
}

__attribute__((weak)) void __asan_poison_memory_region(const volatile void *p, size_t bytes);

/* Whether an arena can have huge pages of 2 MiB: the system gives them to who asks, nobody has switched them off, and no sanitizer watches,
 * since arenas then do without. */
static bool has_huge_pages(void) {
  if (__asan_poison_memory_region != NULL || getenv("HEDDLE_THP") != NULL || getenv("HEDDLE") != NULL) return false;
  char mode[64] = "", bytes[32] = "";
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file != NULL) {
    if (fgets(mode, sizeof mode, file) == NULL) mode[0] = 0;
    fclose(file);
  }
  file = fopen("/sys/kernel/mm/transparent_hugepage/hpage_pmd_size", "r");
  if (file != NULL) {
    if (fgets(bytes, sizeof bytes, file) == NULL) bytes[0] = 0;
    fclose(file);
  }
  return strstr(mode, "[never]") == NULL && mode[0] != 0 && strncmp(bytes, "2097152", 7) == 0;
}

static void fill(hd_arena *arena, size_t bytes) {
  void *p = hd_arena_alloc(arena, bytes);
  TS_CHECK(p != NULL, "%zu bytes", bytes);
  memset(p, 1, bytes);
}

static size_t os_calls(void) {
  hd_stats stats = {.struct_bytes = sizeof stats};
  hd_stats_get(&stats);
  return stats.os_call_count;
}

enum { PERIOD_MS = 110 };   /* a period of an arena, as arena.h has it, and a little */

/* Two periods without use. */
static void let_pass(hd_arena *arena, bool points) {
  for (int period = 0; period < 3; period++) {
    ts_sleep_ms(PERIOD_MS);
    for (int i = 0; i < (points ? 1100 : 17); i++) {
      if (!points) hd_arena_reset(arena);
      else if (hd_arena_push(arena)) hd_arena_pop(arena);
    }
  }
}

/* A spike goes back at the reset; what a loop needs is learnt, and stays until it has not been wanted for a while. */
static void memory_returns(void) {
  const size_t kept = 3 * MIB + 64 * KIB;   /* 1 MiB, rounded up to huge pages, which a large arena has */
  hd_arena *arena = fixed(256 * MIB, 1 * MIB);
  fill(arena, 100 * MIB);
  size_t resident = ts_rss();
  hd_arena_reset(arena);
  TS_CHECK(look(arena).committed <= kept, "committed %zu", look(arena).committed);
  TS_CHECK(ts_rss() + 90 * MIB < resident, "resident %zu of %zu", ts_rss(), resident);
  size_t purges = 0;
  for (int round = 0; round < 200; round++) {
    if (round == 5) purges = look(arena).purge_count;
    fill(arena, (round % 5 + 4) * MIB);
    hd_arena_reset(arena);
  }
  TS_CHECK(look(arena).purge_count == purges, "%zu purges in a steady loop", look(arena).purge_count - purges);
  let_pass(arena, false);
  TS_CHECK(look(arena).committed <= kept, "kept %zu after an idle while", look(arena).committed);
  hd_arena_trim(arena, 0);
  TS_CHECK(look(arena).committed <= 64 * KIB, "trimmed to %zu", look(arena).committed);
  hd_arena_destroy(arena);
}

/* Many points on the way up, all of them taken back, again and again: nothing goes to the system, but it does when it is over. */
static void points_hold(void) {
  enum { POINTS = 4000 };
  static hd_mark mark[POINTS];
  hd_arena *arena = fixed(64 * MIB, 1 * MIB);
  size_t calls = 0;
  for (int round = 0; round < 8; round++) {
    if (round == 1) calls = os_calls();
    for (int i = 0; i < POINTS; i++) {
      mark[i] = hd_arena_mark(arena);
      fill(arena, 5120);
    }
    for (int i = POINTS; i-- > 0;) TS_CHECK(hd_arena_release(arena, mark[i]), "point %d", i);
  }
  TS_CHECK(os_calls() == calls, "%zu system calls in a steady loop of points", os_calls() - calls);
  let_pass(arena, true);
  TS_CHECK(look(arena).committed <= 3 * MIB + 64 * KIB, "kept %zu after an idle while", look(arena).committed);
  TS_CHECK(os_calls() > calls, "no system call gave it back");
  hd_arena_destroy(arena);
}

/* A growing arena that is empty after each round stays on its memory: it takes nothing, gives nothing, and blocks lie where they lay. One
 * that went through several chunks gets along with one. */
static void empty_stays(void) {
  for (int right = 0; right < 2; right++) {
    hd_arena *arena = hd_arena_create(NULL);
    const uint8_t *first = NULL;
    size_t calls = 0, given = 0;
    for (int round = 0; round < 200; round++) {
      if (round == 4) calls = os_calls(), given = look(arena).purge_count, first = NULL;
      bool done = right ? hd_arena_push_right(arena) : hd_arena_push(arena);
      for (int i = 0; i < 100; i++) {
        uint8_t *p = right ? hd_arena_alloc_right(arena, 5120) : hd_arena_alloc(arena, 5120);
        TS_CHECK(done && p != NULL, "block %d of round %d", i, round);
        memset(p, round, 5120);
        if (first == NULL) first = p;
        if (i == 0) TS_CHECK(round < 4 || p == first, "round %d begins elsewhere", round);
      }
      if (round >= 4) TS_CHECK(look(arena).chunk_count == 1, "%zu chunks in round %d", look(arena).chunk_count, round);
      TS_CHECK(right ? hd_arena_pop_right(arena) : hd_arena_pop(arena), "pop");
    }
    TS_CHECK(os_calls() == calls && look(arena).purge_count == given, "memory came and went in a steady loop");
    TS_CHECK(look(arena).used_left == 0 && look(arena).used_right == 0, "not empty");
    hd_arena_trim(arena, 0);
    TS_CHECK(look(arena).chunk_count == 0 && hd_arena_destroy(arena), "all goes when it is asked for");
  }
}

/* The memory of an empty stack is no reason to refuse a block that the limit allows. */
static void empty_yields(void) {
  hd_arena_config config = {.struct_bytes = sizeof config, .limit_bytes = 1 * MIB};
  for (int right = 0; right < 2; right++) {
    hd_arena *arena = hd_arena_create(&config);
    TS_CHECK(hd_arena_alloc(arena, 100) != NULL && hd_arena_alloc_right(arena, 100) != NULL, "a chunk on each stack");
    hd_arena_reset(arena);
    TS_CHECK((right ? hd_arena_alloc_right(arena, MIB) : hd_arena_alloc(arena, MIB)) != NULL, "1 MiB of 1 MiB");
    hd_arena_reset(arena);
    TS_CHECK(hd_arena_destroy(arena), "empty");
  }
}

/* A stack that is filled in order gets huge pages, so few faults, and a small arena none. A program may switch them off, or lack them. */
static void dense_is_huge(void) {
  for (int growing = 0; growing < 2; growing++) {
    hd_arena_config config = {.struct_bytes = sizeof config, .capacity_bytes = growing ? 0 : 64 * MIB};
    hd_arena *arena = hd_arena_create(&config);
    for (int i = 0; i < 1900 * 1024 / 5120; i++) fill(arena, 5120);
    size_t calls = os_calls();
    fill(arena, 400 * KIB);
    for (size_t i = 0; i < 48 * MIB / 5120; i++) fill(arena, 5120);
    size_t asked = os_calls() - calls;
    TS_CHECK(asked <= 20, "%zu system calls for 48 MiB", asked);
    if (!growing) TS_CHECK(!has_huge_pages() || asked >= 3, "%zu system calls for 48 MiB", asked);
    hd_arena_destroy(arena);
  }
}

/* Blocks that nobody fills stay without memory, however many there are; so do the points between them, but for a page here and there. */
static void sparse_is_small(void) {
  for (int growing = 0; growing < 2; growing++) {
    hd_arena_config config = {.struct_bytes = sizeof config, .capacity_bytes = growing ? 0 : 300 * MIB};
    hd_arena *arena = hd_arena_create(&config);
    size_t before = ts_rss();
    for (int i = 0; i < 400; i++) {
      TS_CHECK(hd_arena_push(arena), "point %d", i);
      for (int k = 0; k < 100; k++) TS_CHECK(hd_arena_alloc(arena, 5120) != NULL, "block %d", k);
    }
    TS_CHECK(ts_rss() < before + 8 * MIB, "%zu MiB for 200 MiB of blocks that nobody has touched", (ts_rss() - before) / MIB);
    hd_arena_destroy(arena);
  }
}

/* A block that is cut short at the end of the room, and one behind it that fills what its size rounded up would have taken: the first is
 * not the last, and may not grow over the other. */
static void cut_short(void) {
  hd_arena *arena = fixed(64 * KIB, 0);
  hd_arena_alloc_aligned_right(arena, 1, 8);
  uint8_t *first = hd_arena_alloc(arena, 64 * KIB - 9);
  TS_CHECK(first != NULL, "up to the end");
  hd_arena_reset_right(arena);
  uint8_t *behind = hd_arena_alloc_aligned(arena, 1, 7);
  TS_CHECK(behind == first + 64 * KIB - 8, "right behind it");
  memset(behind, 7, 7);
  uint8_t *shorter = hd_arena_realloc(arena, first, 64 * KIB - 9, 100);
  uint8_t *next = hd_arena_alloc_aligned(arena, 1, 1);
  TS_CHECK(shorter == first && next >= behind + 7, "it was taken for the last");
  hd_arena_reset(arena);
  first = hd_arena_alloc(arena, 100);
  TS_CHECK(hd_arena_realloc(arena, first, 100, 5000) == first, "in place again");
  hd_arena_destroy(arena);
}

/* Both stacks have been everywhere: it still goes back. */
static void both_sides_return(void) {
  hd_arena *arena = fixed(64 * MIB, 1);
  for (int right = 0; right < 2; right++) {
    void *p = right ? hd_arena_alloc_right(arena, 64 * MIB) : hd_arena_alloc(arena, 64 * MIB);
    memset(p, 3, 64 * MIB);
    if (right) hd_arena_reset_right(arena);
    else hd_arena_reset_left(arena);
  }
  hd_arena_trim(arena, 1);
  TS_CHECK(look(arena).committed <= 128 * KIB, "committed %zu", look(arena).committed);
  const uint8_t *zero = hd_arena_zalloc_aligned_right(arena, 1, 64 * MIB);
  for (size_t i = 0; i < 64 * MIB; i += 64) TS_CHECK(zero[i] == 0, "byte %zu", i);
  hd_arena_destroy(arena);
}

/* Zeroed memory that was never used is not touched. */
static void zero_is_free(void) {
  hd_arena *arena = fixed(512 * MIB, 0);
  size_t before = ts_rss();
  TS_CHECK(hd_arena_zalloc(arena, 200 * MIB) != NULL && hd_arena_zalloc_right(arena, 200 * MIB) != NULL, "400 MiB");
  TS_CHECK(ts_rss() < before + 4 * MIB, "%zu bytes were touched", ts_rss() - before);
  hd_arena_destroy(arena);
}

static void unreachable_read(void *at) { *(volatile uint8_t *)at; }

static void guards(void) {
  for (int growing = 0; growing < 2; growing++) {
    hd_arena_config config = {.struct_bytes = sizeof config, .capacity_bytes = growing ? 0 : 100000, .guard = true};
    hd_arena *arena = hd_arena_create(&config);
    uint8_t *first = hd_arena_alloc_aligned(arena, 1, 1);
    hd_arena_stats stats = look(arena);
    struct ts_outcome outcome;
    ts_fork_run(unreachable_read, first - 1, 10, &outcome);
    TS_CHECK(!ts_exited(&outcome, 0), "a read before the arena");
    ts_fork_run(unreachable_read, first + stats.capacity, 10, &outcome);
    TS_CHECK(!ts_exited(&outcome, 0), "a read behind it");
    ts_fork_run(unreachable_read, first + stats.capacity - 1, 10, &outcome);
    TS_CHECK(ts_exited(&outcome, 0), "a read of the last byte");
    hd_arena_destroy(arena);
  }
}

/* Memory of a round stays for one or for two. */
static void frames(void) {
  for (int doubled = 0; doubled < 2; doubled++) {
    hd_frame_config config = {.struct_bytes = sizeof config, .name = "f", .capacity_bytes = 8 * MIB, .doubled = doubled, .keep_bytes = 1};
    hd_frame *frame = hd_frame_create(&config);
    uint8_t *last = NULL;
    size_t calls = 0;
    for (unsigned round = 0; round < 300; round++) {
      hd_stats stats = {.struct_bytes = sizeof stats};
      hd_stats_get(&stats);
      if (round == 10) calls = stats.os_call_count;
      if (round == 299) TS_CHECK(stats.os_call_count == calls, "%zu system calls in a steady loop", stats.os_call_count - calls);
      size_t bytes = (round % 3 + 1) * MIB;
      uint8_t *p = hd_frame_alloc(frame, bytes);
      memset(p, (int)round, bytes);
      if (doubled && last != NULL) TS_CHECK(*last == (uint8_t)(round - 1), "the last round's memory");
      last = p;
      TS_CHECK(hd_frame_begin(frame) == frame->arena && look(frame->arena).used_left == 0, "a new round");
    }
    TS_CHECK(hd_frame_count(frame) == 301 && hd_frame_peak(frame) == 3 * MIB, "peak %zu", hd_frame_peak(frame));
    hd_frame_destroy(frame);
  }
}

static void bad_configs(void) {
  hd_arena_config bad[] = {
      {.struct_bytes = 8},
      {.struct_bytes = sizeof bad[0], .shared = true},
      {.struct_bytes = sizeof bad[0], .shared = true, .capacity_bytes = (size_t)1 << 40},
      {.struct_bytes = sizeof bad[0], .capacity_bytes = 4096, .limit_bytes = 1},
  };
  for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
    errno = 0;
    TS_CHECK(hd_arena_create(&bad[i]) == NULL && errno == EINVAL, "config %zu", i);
  }
  hd_frame_config frame = {.struct_bytes = 1};
  TS_CHECK(hd_frame_create(&frame) == NULL && errno == EINVAL, "frame");
}

static const struct {
  const char *name;
  void (*run)(void);
} traps[] = {
    {"restore_exact", restore_exact}, {"whole_size", whole_size},         {"huge_size", huge_size},
    {"bad_alignment", bad_alignment}, {"point_anywhere", point_anywhere}, {"exact_fit", exact_fit},
    {"wrapping_size", wrapping_size}, {"says_what_is_left", says_what_is_left}, {"memory_returns", memory_returns},
    {"points_hold", points_hold}, {"empty_stays", empty_stays}, {"empty_yields", empty_yields}, {"dense_is_huge", dense_is_huge},
    {"sparse_is_small", sparse_is_small}, {"cut_short", cut_short},
    {"both_sides_return", both_sides_return}, {"zero_is_free", zero_is_free}, {"guards", guards},
    {"frames", frames}, {"bad_configs", bad_configs},
};

int main(int argc, char **argv) {
  size_t ran = 0;
  for (size_t i = 0; i < sizeof traps / sizeof traps[0]; i++) {
    if (argc > 1 && strcmp(argv[1], traps[i].name) != 0) continue;
    traps[i].run();
    ran++;
  }
  TS_CHECK(ran != 0, "no test of that name");
  return 0;
}
