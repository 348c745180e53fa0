/* Every entry point at the edges: sizes around each power of two and at the end of the address space, products that overflow,
 * alignments good and bad, exact errno, exact alignment, usable sizes.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "../support/support.h"
#include "../support/sut.h"

#define MARK 4242
/* By the length of an address: its bits, log2 of the largest alignment, and of the largest size that may be given. */
#define WORD_BITS ((int)sizeof(size_t) * 8)
#define ALIGN_BITS (WORD_BITS == 64 ? 40 : 28)
#define LARGEST_TRIED ((size_t)1 << (WORD_BITS == 64 ? 36 : 30))

static const struct ts_sut *sut;
static hd_heap *heap;
static struct ts_rng rng;

/* ---- the entry points as functions of (alignment, bytes) -------------------------------------------------------- */

static void *by_malloc(size_t a, size_t n) { return (void)a, sut->malloc(n); }
static void *by_zalloc(size_t a, size_t n) { return (void)a, sut->zalloc(n); }
static void *by_calloc(size_t a, size_t n) { return (void)a, sut->calloc(1, n); }
static void *by_calloc_bytes(size_t a, size_t n) { return (void)a, sut->calloc(n, 1); }
static void *by_realloc(size_t a, size_t n) { return (void)a, sut->realloc(NULL, n); }
static void *by_reallocarray(size_t a, size_t n) { return (void)a, sut->reallocarray(NULL, n, 1); }
static void *by_recalloc(size_t a, size_t n) { return (void)a, sut->recalloc(NULL, 1, n); }
static void *by_aligned(size_t a, size_t n) { return sut->aligned_alloc(a, n); }
static void *by_aligned_zero(size_t a, size_t n) { return sut->aligned_zalloc(a, n); }
static void *by_aligned_realloc(size_t a, size_t n) { return sut->aligned_realloc(NULL, a, n); }
static void *by_memalign(size_t a, size_t n) { return sut->memalign(a, n); }
static void *by_valloc(size_t a, size_t n) { return (void)a, sut->valloc(n); }
static void *by_pvalloc(size_t a, size_t n) { return (void)a, sut->pvalloc(n); }
static void *by_heap_malloc(size_t a, size_t n) { return (void)a, sut->heap_malloc(heap, n); }
static void *by_heap_zalloc(size_t a, size_t n) { return (void)a, sut->heap_zalloc(heap, n); }
static void *by_heap_calloc(size_t a, size_t n) { return (void)a, sut->heap_calloc(heap, n, 1); }
static void *by_heap_realloc(size_t a, size_t n) { return (void)a, sut->heap_realloc(heap, NULL, n); }
static void *by_heap_aligned(size_t a, size_t n) { return sut->heap_aligned_alloc(heap, a, n); }

/* posix_memalign gives its error as the result; put it where the others have it. */
static void *by_posix(size_t a, size_t n) {
  void *p = (void *)8;
  int before = errno, status = sut->posix_memalign(&p, a == 1 || a == 2 || a == 4 ? sizeof(void *) : a, n);
  if (sut->owns) assert_int_equal(errno, status == ENOMEM ? ENOMEM : before);
  errno = before;
  if (status == 0) return p;
  assert_ptr_equal(p, (void *)8);
  errno = status;
  return NULL;
}

struct entry {
  const char *name;
  void *(*call)(size_t alignment, size_t bytes);
  bool aligned, zero;
  size_t least; /* alignment without being asked; 0: the OS page */
};

static struct entry entries[24];
static size_t entry_count;

static void add(const char *name, void *(*call)(size_t, size_t), bool present, bool aligned, bool zero, size_t least) {
  if (present) entries[entry_count++] = (struct entry){name, call, aligned, zero, least};
}

static int set_up(void **state) {
  (void)state;
  sut = ts_sut();
  if (sut->heap_create) heap = sut->heap_create(NULL);
  add("malloc", by_malloc, true, false, false, 16);
  add("zalloc", by_zalloc, sut->zalloc, false, true, 16);
  add("calloc", by_calloc, true, false, true, 16);
  add("calloc of bytes", by_calloc_bytes, true, false, true, 16);
  add("realloc", by_realloc, true, false, false, 16);
  add("reallocarray", by_reallocarray, sut->reallocarray, false, false, 16);
  add("recalloc", by_recalloc, sut->recalloc, false, true, 16);
  add("aligned_alloc", by_aligned, true, true, false, 16);
  add("aligned_zalloc", by_aligned_zero, sut->aligned_zalloc, true, true, 16);
  add("aligned_realloc", by_aligned_realloc, sut->aligned_realloc, true, false, 16);
  add("posix_memalign", by_posix, true, true, false, 16);
  add("memalign", by_memalign, sut->memalign, true, false, 16);
  add("valloc", by_valloc, sut->valloc, false, false, 0);
  add("pvalloc", by_pvalloc, sut->pvalloc, false, false, 0);
  add("heap_malloc", by_heap_malloc, heap, false, false, 16);
  add("heap_zalloc", by_heap_zalloc, heap, false, true, 16);
  add("heap_calloc", by_heap_calloc, heap, false, true, 16);
  add("heap_realloc", by_heap_realloc, heap, false, false, 16);
  add("heap_aligned_alloc", by_heap_aligned, heap, true, false, 16);
  return 0;
}

static int tear_down(void **state) {
  (void)state;
  if (heap) sut->heap_destroy(heap);
  return 0;
}

/* ---- one call --------------------------------------------------------------------------------------------------- */

/* A good alignment: the block must be right, or refused with ENOMEM where that is allowed. */
static void try_call(const struct entry *entry, size_t alignment, size_t bytes) {
  errno = MARK;
  unsigned char *p = entry->call(alignment, bytes);
  int error = errno;
  if (!p) {
    if (error != ENOMEM) fail_msg("%s(%zu, %zu): errno %d instead of ENOMEM", entry->name, alignment, bytes, error);
    if (bytes <= LARGEST_TRIED / 64 && alignment <= LARGEST_TRIED / 64) fail_msg("%s(%zu, %zu) is NULL", entry->name, alignment, bytes);
    return;
  }
  if (bytes > PTRDIFF_MAX) fail_msg("%s(%zu, %zu) gave %p", entry->name, alignment, bytes, (void *)p);
  if (error != MARK && sut->owns) fail_msg("%s(%zu, %zu) succeeded and set errno to %d", entry->name, alignment, bytes, error);
  size_t least = entry->least ? entry->least : ts_os_page(), want = entry->aligned && alignment > least ? alignment : least;
  if ((uintptr_t)p & (want - 1)) fail_msg("%s(%zu, %zu) gave %p", entry->name, alignment, bytes, (void *)p);
  size_t usable = sut->usable_size(p);
  if (usable < bytes) fail_msg("%s(%zu, %zu): usable size %zu", entry->name, alignment, bytes, usable);
  if (entry->zero && bytes) assert_int_equal(p[0] | p[bytes / 2] | p[bytes - 1], 0);
  if (usable) p[0] = p[usable / 2] = p[usable - 1] = 1;
  errno = MARK;
  sut->free(p);
  if (errno != MARK) fail_msg("free of %s(%zu, %zu) set errno to %d", entry->name, alignment, bytes, errno);
}

static void expect_error(const struct entry *entry, size_t alignment, size_t bytes, int wanted) {
  errno = MARK;
  void *p = entry->call(alignment, bytes);
  if (p || errno != wanted) fail_msg("%s(%zu, %zu): %p with errno %d instead of %d", entry->name, alignment, bytes, p, errno, wanted);
}

/* ---- the tests -------------------------------------------------------------------------------------------------- */

static void test_powers_of_two(void **state) {
  (void)state;
  for (size_t e = 0; e < entry_count; e++)
    for (int k = 0; k < WORD_BITS; k++)
      for (int d = -1; d <= 1; d++) try_call(&entries[e], 64, ((size_t)1 << k) + (size_t)d);
}

static void test_end_of_address_space(void **state) {
  (void)state;
  for (size_t e = 0; e < entry_count; e++) {
    for (size_t d = 0; d < 3; d++) try_call(&entries[e], 64, (size_t)PTRDIFF_MAX - 1 + d);
    for (size_t d = 0; d <= 4096; d += d < 64 ? 1 : 63) expect_error(&entries[e], 64, SIZE_MAX - d, ENOMEM);
    for (int k = 4; k < ALIGN_BITS; k++) expect_error(&entries[e], (size_t)1 << k, SIZE_MAX - 64, ENOMEM);
    try_call(&entries[e], 64, 100);
  }
}

static void test_every_small_size(void **state) {
  (void)state;
  for (size_t e = 0; e < entry_count; e++)
    for (size_t n = 0; n <= 2100; n++) try_call(&entries[e], 32, n);
}

static void test_overflowing_products(void **state) {
  (void)state;
  static const size_t odd[] = {2, 3, 7, 16, 4097, 65537};
  void *kept = sut->malloc(100);
  memset(kept, 0x5a, 100);
  for (size_t i = 0; i < sizeof odd / sizeof *odd + WORD_BITS; i++) {
    size_t a = i < (size_t)WORD_BITS ? (size_t)1 << i : odd[i - WORD_BITS];
    if (a < 2) continue;
    size_t b = SIZE_MAX / a + 1 + ts_below(&rng, 5); /* a * b wraps, mostly to something small */
    errno = MARK;
    assert_null(sut->calloc(a, b));
    assert_int_equal(errno, ENOMEM);
    errno = MARK;
    assert_null(sut->reallocarray(kept, a, b));
    assert_int_equal(errno, ENOMEM);
    errno = MARK;
    if (sut->recalloc) assert_null(sut->recalloc(kept, a, b)), assert_int_equal(errno, ENOMEM);
    errno = MARK;
    if (heap) assert_null(sut->heap_calloc(heap, a, b)), assert_int_equal(errno, ENOMEM);
  }
  for (int i = 0; i < 100; i++) assert_int_equal(((unsigned char *)kept)[i], 0x5a);
  sut->free(kept);
  void *none = sut->calloc(0, SIZE_MAX), *none2 = sut->calloc(SIZE_MAX, 0);
  assert_non_null(none);
  assert_non_null(none2);
  assert_ptr_not_equal(none, none2);
  sut->free(none);
  sut->free(none2);
}

static void test_refused_realloc_keeps_block(void **state) {
  (void)state;
  for (size_t n = 1; n <= (size_t)4 << 20; n = n * 3 + 1) {
    unsigned char *p = sut->malloc(n);
    memset(p, 0x33, n);
    /* Of 32 bits' addresses half may be free. */
    const size_t less = sizeof(void *) > 4 ? PTRDIFF_MAX : (size_t)PTRDIFF_MAX + 1;
    for (size_t huge = less;; huge = SIZE_MAX - 15) {
      errno = MARK;
      assert_null(sut->realloc(p, huge));
      assert_int_equal(errno, ENOMEM);
      errno = MARK;
      if (sut->expand) assert_null(sut->expand(p, huge)), assert_int_equal(errno, MARK);
      if (huge != less) break;
    }
    for (size_t i = 0; i < n; i++) assert_int_equal(p[i], 0x33);
    sut->free(p);
  }
}

static void test_zero_bytes(void **state) {
  (void)state;
  void *p[64];
  for (int i = 0; i < 64; i++) {
    p[i] = sut->malloc(0);
    assert_non_null(p[i]);
    for (int j = 0; j < i; j++) assert_ptr_not_equal(p[i], p[j]);
  }
  for (int i = 0; i < 64; i++) sut->free(p[i]);
  void *q = sut->malloc(10);
  errno = MARK;
  assert_null(sut->realloc(q, 0)); /* frees q */
  assert_int_equal(errno, MARK);
  q = sut->realloc(NULL, 0);
  assert_non_null(q);
  sut->free(q);
  sut->free(NULL);
  assert_int_equal(sut->usable_size(NULL), 0);
}

static void test_bad_alignments(void **state) {
  (void)state;
  static const size_t bad[] = {0, 3, 5, 24, 48, 1000, 4095, ((size_t)1 << ALIGN_BITS) + 1, SIZE_MAX, (size_t)PTRDIFF_MAX};
  for (size_t e = 0; e < entry_count; e++) {
    if (!entries[e].aligned) continue;
    /* glibc takes any alignment in memalign and aligned_alloc and rounds it up; only POSIX's form is exact there. */
    if (!sut->owns && entries[e].call != by_posix) continue;
    /* memalign has no error for a strange alignment in the programs that use it: it rounds up, as glibc does. */
    if (entries[e].call == by_memalign) continue;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) expect_error(&entries[e], bad[i], 100, EINVAL);
    if (sut->owns) expect_error(&entries[e], (size_t)1 << (ALIGN_BITS + 1), 100, EINVAL);
  }
  void *p = (void *)8;
  for (size_t a = 0; a <= 24; a += a < 4 ? 1 : 4) {
    bool good = a == sizeof(void *) || a == 8 || a == 16;
    assert_int_equal(sut->posix_memalign(&p, a, 10), good ? 0 : EINVAL);
    if (good) sut->free(p), p = (void *)8;
    assert_ptr_equal(p, (void *)8);
  }
}

static void test_memalign_is_never_misaligned(void **state) {
  (void)state;
  if (!sut->memalign) skip();
  static const size_t odd[] = {0, 1, 2, 3, 5, 24, 48, 1000};
  for (size_t i = 0; i < sizeof odd / sizeof *odd; i++) {
    void *p[8];
    size_t rounded = 16;
    while (rounded < odd[i]) rounded *= 2;
    for (int k = 0; k < 8; k++) {
      p[k] = sut->memalign(odd[i], 1); /* rounded up to a power of two, or refused */
      if (p[k]) assert_int_equal((uintptr_t)p[k] % rounded, 0);
      else assert_int_equal(errno, EINVAL);
    }
    for (int k = 0; k < 8; k++) sut->free(p[k]);
  }
}

static void test_alignments_up_to_the_largest(void **state) {
  (void)state;
  for (size_t e = 0; e < entry_count; e++) {
    if (!entries[e].aligned) continue;
    for (int k = 0; k <= ALIGN_BITS; k++)
      for (int s = 0; s < 6; s++) {
        static const size_t sizes[] = {0, 1, 100, 4096, 70000, 3000000};
        try_call(&entries[e], (size_t)1 << k, sizes[s]);
      }
  }
}

/* Every alignment up to 64 KiB with every size up to 1 KiB and a sample of the sizes up to 64 KiB, several alive at once. */
static void test_size_by_alignment(void **state) {
  (void)state;
  static void *held[256];
  unsigned at = 0;
  for (size_t a = 16; a <= 65536; a *= 2)
    for (size_t n = 0; n <= 65536; n += n < 1024 ? 1 : 1 + ts_below(&rng, 160)) {
      unsigned char *p = sut->aligned_alloc(a, n);
      if (!p || (uintptr_t)p % a) fail_msg("aligned_alloc(%zu, %zu) gave %p", a, n, (void *)p);
      if (sut->usable_size(p) < n) fail_msg("aligned_alloc(%zu, %zu): usable size %zu", a, n, sut->usable_size(p));
      if (n) p[0] = p[n - 1] = 1;
      sut->free(held[at % 256]);
      held[at++ % 256] = p;
    }
  for (int i = 0; i < 256; i++) sut->free(held[i]);
}

/* The whole usable size, in memory that has been used: recalloc takes what lies behind the request for zero. */
static void test_calloc_clears_all_that_is_usable(void **state) {
  (void)state;
  for (size_t bytes = 1; bytes <= 3000; bytes++) {
    unsigned char *dirty[2], *p[2];
    for (int i = 0; i < 2; i++) dirty[i] = sut->malloc(bytes), memset(dirty[i], 0xa5, sut->usable_size(dirty[i]));
    for (int i = 0; i < 2; i++) sut->free(dirty[i]);
    for (int i = 0; i < 2; i++) p[i] = sut->calloc(1, bytes);
    for (int i = 0; i < 2; i++) {
      size_t usable = sut->usable_size(p[i]);
      for (size_t at = 0; at < usable; at++) assert_int_equal(p[i][at], 0);
      sut->free(p[i]);
    }
  }
}

static void test_usable_and_good_size(void **state) {
  (void)state;
  size_t before = 0;
  for (size_t n = 0; n <= (size_t)1 << 20; n += n < 70000 ? 1 : 511) {
    if (sut->good_size) {
      size_t good = sut->good_size(n);
      assert_true(good >= n && good >= before);
      /* Rounding wastes 16 bytes or an eighth. Above the block classes, pages may be the unit. */
      if (n > 0 && n <= 56 * 1024 && good - n > 15 && good - n > n / 8) fail_msg("%zu bytes cost %zu", n, good);
      before = good;
    }
    if (n > 70000 && n % 3) continue;
    unsigned char *p = sut->malloc(n);
    size_t usable = sut->usable_size(p);
    assert_true(usable >= n);
    /* A class above 2 KiB may borrow a block from one of the next four (decision 12). */
    size_t good = sut->good_size ? sut->good_size(n) : usable;
    bool borrowed = n > 2048 && n <= 56 * 1024 && usable > good && usable <= good + good / 2;
    if (usable != good && !borrowed) fail_msg("%zu bytes: usable %zu, good %zu", n, usable, good);
    if (usable) p[usable - 1] = 7;
    sut->free(p);
  }
  if (!sut->good_size) return;
  assert_int_equal(sut->good_size((size_t)PTRDIFF_MAX + 1), 0);
  assert_int_equal(sut->good_size(SIZE_MAX), 0);
}

static void test_sized_frees(void **state) {
  (void)state;
  if (!sut->free_sized || !sut->free_aligned_sized) skip();
  for (size_t n = 0; n <= 200000; n += 1 + n / 8) {
    void *p = sut->malloc(n), *q = sut->aligned_alloc(256, n);
    errno = MARK;
    sut->free_sized(p, n);
    sut->free_aligned_sized(q, 256, n);
    assert_int_equal(errno, MARK);
  }
  sut->free_sized(NULL, 0);
  sut->free_aligned_sized(NULL, 16, 0);
}

static void test_pvalloc_rounds_up(void **state) {
  (void)state;
  if (!sut->pvalloc) skip();
  size_t page = ts_os_page();
  for (size_t n = 1; n < 5 * page; n += 1000) {
    void *p = sut->pvalloc(n);
    assert_int_equal((uintptr_t)p % page, 0);
    assert_true(sut->usable_size(p) >= (n + page - 1) / page * page);
    if (sut->cfree) sut->cfree(p);
    else sut->free(p);
  }
}

static void test_bad_heap_configs(void **state) {
  (void)state;
  if (!heap) skip();
  static _Alignas(65536) char memory[1 << 17];
  hd_heap_config bad[] = {{.struct_bytes = 4},
                          {.struct_bytes = sizeof bad[0], .memory = memory, .memory_bytes = sizeof memory},
                          {.struct_bytes = sizeof bad[0], .memory = memory, .memory_bytes = SIZE_MAX}};
  for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
    errno = MARK;
    hd_heap *made = sut->heap_create(&bad[i]);
    /* A length that wraps around may as well be called too much. */
    bool known = errno == EINVAL || (errno == ENOMEM && bad[i].memory_bytes == SIZE_MAX);
    if (made || !known) fail_msg("config %zu: %p, errno %d", i, (void *)made, errno);
  }
  sut->heap_destroy(NULL);
}

/* A caller made for a library whose struct was shorter. */
static void test_older_heap_config(void **state) {
  (void)state;
  if (!sut->heap_create) skip();
  hd_heap_config config;
  memset(&config, 0xff, sizeof config);
  config = (hd_heap_config){.struct_bytes = offsetof(hd_heap_config, one_user), .name = "old"};
  memset((char *)&config + config.struct_bytes, 0xff, sizeof config - config.struct_bytes);
  hd_heap *made = sut->heap_create(&config);
  assert_non_null(made);
  sut->heap_destroy(made);
}

static void test_strings(void **state) {
  (void)state;
  char text[300];
  memset(text, 'x', sizeof text);
  for (size_t n = 0; n < sizeof text; n++) {
    text[n] = 0;
    char *all = sut->strdup(text), *some = sut->strndup(text, n / 2), *more = sut->strndup(text, SIZE_MAX);
    assert_string_equal(all, text);
    assert_string_equal(more, text);
    assert_int_equal(strlen(some), n / 2);
    text[n] = 'x';
    sut->free(all);
    sut->free(some);
    sut->free(more);
  }
  if (!sut->owns || TS_FLAVOUR[0] != 'a') return; /* strdup(NULL) is undefined in C; hd_strdup defines it */
  assert_null(sut->strdup(NULL));
  assert_null(sut->strndup(NULL, 5));
}

int main(void) {
  ts_expect_heddle();
  rng.state = ts_seed();
  const struct CMUnitTest tests[] = {
      cmocka_unit_test(test_powers_of_two),
      cmocka_unit_test(test_end_of_address_space),
      cmocka_unit_test(test_every_small_size),
      cmocka_unit_test(test_overflowing_products),
      cmocka_unit_test(test_refused_realloc_keeps_block),
      cmocka_unit_test(test_zero_bytes),
      cmocka_unit_test(test_bad_alignments),
      cmocka_unit_test(test_memalign_is_never_misaligned),
      cmocka_unit_test(test_alignments_up_to_the_largest),
      cmocka_unit_test(test_size_by_alignment),
      cmocka_unit_test(test_calloc_clears_all_that_is_usable),
      cmocka_unit_test(test_usable_and_good_size),
      cmocka_unit_test(test_sized_frees),
      cmocka_unit_test(test_pvalloc_rounds_up),
      cmocka_unit_test(test_bad_heap_configs),
      cmocka_unit_test(test_older_heap_config),
      cmocka_unit_test(test_strings),
  };
  return cmocka_run_group_tests_name("limits (" TS_FLAVOUR ")", tests, set_up, tear_down);
}
