/* The malloc family by sizes: all of them to 1 MiB, in every way of allocating; resizing between all pairs of edges; recalloc's zeroes.
 *
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "core/alloc.h"
#include "heddle.h"
#include "pages.h"

#define MIB ((size_t)1 << 20)

static void all_sizes(void **state) {
  (void)state;
  own_pages();
  for (size_t bytes = 0; bytes <= MIB; bytes++) {
    unsigned char *p = hd_malloc(bytes);
    size_t usable = hd_usable_size(p);
    assert_non_null(p);
    assert_int_equal((uintptr_t)p % 16, 0);
    assert_true(usable >= bytes && usable == hd_good_size(bytes));
    if (bytes > 0) p[0] = p[usable - 1] = 0xa5;
    assert_ptr_equal(hd_expand(p, usable), p);
    hd_free_sized(p, bytes);
  }
}

/* More blocks than a claim takes, so that what calloc gives has been somebody's. */
static void small_sizes_zeroed(void **state) {
  (void)state;
  enum { BLOCKS = 200 };
  unsigned char *block[BLOCKS];
  for (size_t bytes = 16; bytes <= 1024; bytes += 16) {
    for (int zero = 0; zero < 2; zero++) {
      for (int i = 0; i < BLOCKS; i++) {
        block[i] = zero ? hd_zalloc(bytes) : hd_malloc(bytes);
        assert_non_null(block[i]);
        size_t usable = hd_usable_size(block[i]);
        if (zero) assert_true(block[i][0] == 0 && memcmp(block[i], block[i] + 1, usable - 1) == 0);
        memset(block[i], 0xa5, usable);
      }
      for (int i = 0; i < BLOCKS; i++) hd_free(block[i]);
    }
  }
}

static void all_sizes_zeroed(void **state) {
  (void)state;
  for (size_t bytes = 1; bytes <= MIB; bytes += bytes < 70000 ? 1 : 257) {
    unsigned char *p = hd_malloc(bytes);
    memset(p, 0xa5, hd_usable_size(p));
    hd_free(p);
    p = hd_zalloc(bytes);
    size_t usable = hd_usable_size(p);
    assert_true(p[0] == 0 && memcmp(p, p + 1, usable - 1) == 0);
    hd_free(p);
  }
}

static void all_alignments(void **state) {
  (void)state;
  for (size_t alignment = 1; alignment <= 4 * MIB; alignment *= 2) {
    for (size_t bytes = 0; bytes <= 300000; bytes += bytes < 2000 ? 13 : 9973) {
      unsigned char *p = hd_aligned_zalloc(alignment, bytes);
      assert_non_null(p);
      assert_int_equal((uintptr_t)p & (alignment - 1), 0);
      assert_true(hd_usable_size(p) >= bytes && (bytes == 0 || (p[0] | p[bytes - 1]) == 0));
      memset(p, 0xa5, bytes);
      p = hd_aligned_realloc(p, alignment, bytes * 2 + 1);
      assert_int_equal((uintptr_t)p & (alignment - 1), 0);
      assert_true(bytes == 0 || (p[0] & p[bytes - 1]) == 0xa5);
      hd_free_aligned_sized(p, alignment, bytes * 2 + 1);
    }
  }
}

/* Several at a time: the first block of a page lies well for every alignment. */
static void all_classes_at_all_alignments(void **state) {
  (void)state;
  enum { SOME = 5 };
  for (size_t alignment = 32; alignment <= HD_MEDIUM_MAX; alignment *= 2) {
    for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
      void *blocks[SOME];
      size_t bytes = hdi_sizeclass_bytes(i);
      for (size_t k = 0; k < SOME; k++) {
        blocks[k] = hd_aligned_alloc(alignment, bytes - k);
        assert_int_equal((uintptr_t)blocks[k] & (alignment - 1), 0);
        assert_true(hd_usable_size(blocks[k]) >= bytes - k);
        memset(blocks[k], 0xa5, bytes - k);
      }
      for (size_t k = 0; k < SOME; k++) hd_free_aligned_sized(blocks[k], alignment, bytes - k);
    }
  }
}

static const size_t edges[] = {1,     16,    17,    64,    65,    1024,  1025,   1245,    4096,     20480,
                               28672, 57344, 57345, 65536, 65537, 262144, 262145, MIB + 1, 4 * MIB, 9 * MIB};
#define EDGE_COUNT (sizeof edges / sizeof *edges)

static void resized_between_edges(void **state) {
  hd_heap *heap = *state;
  for (size_t i = 0; i < EDGE_COUNT * EDGE_COUNT; i++) {
    size_t from = edges[i / EDGE_COUNT], to = edges[i % EDGE_COUNT], kept = from < to ? from : to;
    for (int where = 0; where < 2; where++) {
      unsigned char *p = where ? hd_heap_malloc(heap, from) : hd_malloc(from);
      memset(p, 0x5a, from);
      p = where ? hd_heap_realloc(heap, p, to) : hd_realloc(p, to);
      assert_true(p[0] == 0x5a && memcmp(p, p + 1, kept - 1) == 0);
      assert_true(hd_usable_size(p) >= to);
      assert_ptr_equal(hd_heap_of(p), where ? heap : NULL);
      if (where) hd_heap_free(heap, p);
      else hd_free(p);
    }
  }
}

/* Text that grows by little is given room: a quarter at each move, and no more than that beside what classes leave over. */
static void growth_by_little_leaves_room(void **state) {
  hd_heap *heap = *state;
  for (int where = 0; where < 2; where++) {
    unsigned moves = 0;
    unsigned char *p = where ? hd_heap_malloc(heap, 1024) : hd_malloc(1024);
    memset(p, 0x5a, 1024);
    for (size_t bytes = 1024; bytes <= HD_MEDIUM_MAX; bytes += 16) {
      unsigned char *grown = where ? hd_heap_realloc(heap, p, bytes) : hd_realloc(p, bytes);
      assert_non_null(grown);
      moves += grown != p;
      p = grown;
      assert_true(p[0] == 0x5a && p[bytes - 17] == 0x5a && hd_usable_size(p) >= bytes && hd_usable_size(p) <= bytes * 3 / 2);
      memset(p + bytes - 16, 0x5a, 16);
    }
    assert_in_range(moves, 8, 22);
    if (where) hd_heap_free(heap, p);
    else hd_free(p);
  }
}

/* Room is a wish: where there is memory for what was asked and no more, that is given, and errno stays as it was. */
static void growth_without_room(void **state) {
  (void)state;
  hd_heap *heap = hd_heap_create(&(hd_heap_config){.limit_bytes = (size_t)2 * HD_UNIT_BYTES});
  void *p = hd_heap_malloc(heap, 1024), *held = hd_heap_malloc(heap, 1100), *fits = hd_heap_malloc(heap, 1100);
  assert_true(p != NULL && held != NULL && fits != NULL);
  assert_null(hd_heap_malloc(heap, 1280));
  hd_heap_free(heap, fits);
  errno = 0;
  p = hd_heap_realloc(heap, p, 1100);
  assert_non_null(p);
  assert_int_equal(errno, 0);
  assert_int_equal(hd_usable_size(p), hd_usable_size(held));
  assert_null(hd_heap_realloc(heap, p, 3000));
  assert_int_equal(errno, ENOMEM);
  hd_heap_destroy(heap);
}

/* A chain of recalloc that writes nothing stays zero, also where a shorter copy took over memory with old content. */
static void recalloc_stays_zero(void **state) {
  (void)state;
  for (size_t i = 0; i < EDGE_COUNT * EDGE_COUNT; i++) {
    size_t from = edges[i / EDGE_COUNT], to = edges[i % EDGE_COUNT];
    unsigned char *old = hd_malloc(to);
    memset(old, 0xa5, hd_usable_size(old));
    hd_free(old);
    unsigned char *p = hd_recalloc(NULL, 1, from);
    p = hd_recalloc(p, to, 1);
    p = hd_recalloc(p, 2, to);
    assert_true(p[0] == 0 && memcmp(p, p + 1, 2 * to - 1) == 0);
    hd_free(p);
  }
}

static void refused(void **state) {
  hd_heap *heap = *state;
  void *out = heap, *p = hd_malloc(10);
  volatile size_t much = SIZE_MAX / 2 + 1; /* or the compiler warns of each call */
  size_t half = much;
  assert_int_equal(hd_posix_memalign(&out, 4, 8), EINVAL);
  assert_int_equal(hd_posix_memalign(&out, 24, 8), EINVAL);
  assert_int_equal(hd_posix_memalign(&out, (size_t)1 << 41, 8), EINVAL);
  assert_int_equal(hd_posix_memalign(&out, 16, half), ENOMEM);
  assert_ptr_equal(out, heap);
  errno = 0;
  assert_null(hd_aligned_alloc(0, 8));
  assert_int_equal(errno, EINVAL);
  hd_free(hd_malloc(8)); /* now there is a block that would do */
  errno = 0;
  assert_null(hd_aligned_alloc(24, 8));
  assert_int_equal(errno, EINVAL);
  void *results[] = {hd_malloc(half),           hd_zalloc(half),      hd_calloc(half, 2),     hd_realloc(p, half),
                     hd_reallocarray(p, half, 2), hd_recalloc(p, half, 2), hd_aligned_alloc(64, half), hd_heap_malloc(heap, half),
                     hd_heap_calloc(heap, 2, half), hd_heap_aligned_alloc(heap, 64, half), hd_aligned_realloc(p, 64, half)};
  for (size_t i = 0; i < sizeof results / sizeof *results; i++) assert_null(results[i]);
  assert_int_equal(errno, ENOMEM);
  assert_int_equal(hd_good_size(half), 0);
  assert_null(hd_expand(p, half));
  assert_null(hd_expand(NULL, 1));
  assert_int_equal(hd_usable_size(p), 16);
  assert_null(hd_realloc(p, 0));
}

/* What two threads that free the same block, or one page's last blocks, may find for a moment. */
static void moments(void **state) {
  (void)state;
  hd_unit gone = {.block_bytes = 64, .base = (uint8_t *)state};
  hd_block_state map[1] = {HD_BLOCK_FREE};
  char *p = hd_malloc(300000), *q = hd_malloc(3000);
  hd_unit *large = hdi_space_find(p), *page = hdi_space_find(q);
  assert_int_equal(hd_option_set("onerror", "ignore"), HD_OK);
  hd_misuse_hook_set(ts_count_report);
  hd_store_relaxed(&large->live, 0u); /* freed, and its unit not yet given back */
  hd_free(p);
  assert_string_equal(ts_reports.code, "HD-E03");
  assert_int_equal(hd_usable_size(p), 0);
  assert_string_equal(ts_reports.code, "HD-E04");
  assert_null(hd_realloc(p, 10));
  assert_int_equal(ts_reports.count, 3);
  hd_stats stats = {.struct_bytes = sizeof stats};
  assert_true(hd_stats_get(&stats));
  assert_int_equal(stats.large, 0); /* nor is it counted */
  hd_store_relaxed(&large->live, 1u);
  uintptr_t owner = hd_load_relaxed(&page->owner);
  hd_store_relaxed(&page->owner, (uintptr_t)0); /* being released */
  hd_free(q);
  assert_int_equal(ts_reports.count, 4);
  assert_string_equal(ts_reports.code, "HD-E03");
  hd_store_relaxed(&page->owner, owner);
  gone.map = map; /* a page whose space is gone by now: there is nothing to say about it */
  hdi_free_dead(&gone, 0);
  assert_int_equal(ts_reports.count, 4);
  hd_misuse_hook_set(NULL);
  hd_option_set("onerror", "abort");
  hd_free(p);
  hd_free(q);
}

/* A current page whose slot stands for none of its groups: its free blocks are found from the start. */
static void no_group_yet(void **state) {
  (void)state;
  enum { BYTES = 5000, COUNT = 60 };
  void *blocks[COUNT];
  hd_heap *mine = hdi_heap_self;
  unsigned class_index = hdi_sizeclass_of(BYTES);
  hd_unit *page = NULL;
  int count = 0;
  do { /* until all of a page is in use: the helper may have given back what the tests before left in the magazine */
    assert_true(count < COUNT - 1);
    assert_non_null(blocks[count++] = hd_malloc(BYTES));
    page = mine->class[class_index].page;
  } while (hdi_slot_bits(&mine->class[class_index].slot) != 0 || page == NULL || hdi_page_used(page) < page->capacity);
  page->group = HD_NO_GROUP;
  assert_non_null(blocks[count++] = hd_malloc(BYTES));
  for (int i = 0; i < count; i++) {
    for (int k = 0; k < i; k++) assert_ptr_not_equal(blocks[i], blocks[k]);
  }
  for (int i = 0; i < count; i++) hd_free(blocks[i]);
}

static int make_heap(void **state) {
  *state = hd_heap_create(NULL);
  return *state == NULL;
}

static int drop_heap(void **state) {
  hd_heap_destroy(*state);
  return 0;
}

/* A signal handler that allocates between malloc's look at its slot and the claim leaves blocks there, which are not claimed over. */
static void claimed_meanwhile(void **state) {
  (void)state;
  void *p = hd_malloc(48);
  hd_slot *slot = hdi_alloc_small_slot(hdi_heap_self, 48);
  if (hdi_heap_is_empty(hdi_heap_self)) skip(); /* hardened mode has no such way */
  while (hdi_slot_bits(slot) == 0) p = hd_malloc(48);
  uint64_t bits = hdi_slot_bits(slot);
  p = hdi_alloc_claim(48, slot);
  assert_ptr_equal(p, slot->blocks + hd_lowest_bit(bits) * slot->block_bytes);
  assert_true(hdi_slot_bits(slot) == (bits & (bits - 1)));
  hd_free(p);
}

int main(void) {
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(all_sizes),           cmocka_unit_test(small_sizes_zeroed),
      cmocka_unit_test(all_sizes_zeroed), cmocka_unit_test(all_alignments),
      cmocka_unit_test(resized_between_edges), cmocka_unit_test(recalloc_stays_zero), cmocka_unit_test(refused),
      cmocka_unit_test(all_classes_at_all_alignments), cmocka_unit_test(no_group_yet),      cmocka_unit_test(moments),
      cmocka_unit_test(claimed_meanwhile), cmocka_unit_test(growth_by_little_leaves_room), cmocka_unit_test(growth_without_room),
  };
  return cmocka_run_group_tests(tests, make_heap, drop_heap);
}
