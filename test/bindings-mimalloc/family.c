/* Every allocating name of mimalloc.h at its edges: sizes, alignments, offsets, overflow, zeroing, errno.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <mimalloc.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"

#define BIG ((size_t)PTRDIFF_MAX + 1)
#define HALF ((size_t)1 << 33)

static bool all(const void *p, int byte, size_t from, size_t to) {
  const unsigned char *at = p;
  for (size_t i = from; i < to; i++) {
    if (at[i] != byte) return false;
  }
  return true;
}

/* Dirty blocks of a size, so that zeroed ones meet used memory. */
static void soil(size_t size) {
  void *used[64];
  for (int i = 0; i < 64; i++) {
    used[i] = mi_malloc(size);
    memset(used[i], 0xa5, size);
  }
  for (int i = 0; i < 64; i++) mi_free(used[i]);
}

static void plain(void) {
  for (size_t size = 0; size < 200000; size = size * 3 / 2 + 1) {
    char *p = mi_malloc(size), *q = mi_malloc(size);
    TS_CHECK(p != NULL && q != NULL && p != q, "two blocks of %zu", size);
    TS_CHECK(mi_usable_size(p) >= size && mi_malloc_usable_size(p) == mi_usable_size(p) && mi_malloc_size(p) == mi_usable_size(p), "%zu",
             size);
    TS_CHECK(mi_good_size(size) >= size && mi_malloc_good_size(size) == mi_good_size(size), "%zu", size);
    memset(p, 1, mi_usable_size(p));
    mi_free(p);
    mi_free_size(q, size);
    soil(size);
    p = mi_zalloc(size);
    q = mi_calloc(size, 1);
    TS_CHECK(all(p, 0, 0, size) && all(q, 0, 0, size), "zeroed, %zu", size);
    mi_free_aligned(p, 8);
    mi_free_size_aligned(q, size, 8);
    if (size > MI_SMALL_SIZE_MAX) continue;
    p = mi_malloc_small(size);
    q = mi_zalloc_small(size);
    TS_CHECK(p != NULL && q != NULL && all(q, 0, 0, size), "small, %zu", size);
    mi_free(p);
    mi_cfree(q);
  }
  mi_free(NULL);
  mi_cfree(NULL);
  TS_CHECK(mi_usable_size(NULL) == 0 && mi_expand(NULL, 1) == NULL, "NULL");
}

static void refusals(void) {
  volatile size_t big = BIG, half = HALF, most = SIZE_MAX;
  TS_CHECK(mi_malloc(big) == NULL && mi_malloc(most) == NULL && mi_zalloc(big) == NULL && mi_mallocn(half, half) == NULL, "too large");
  TS_CHECK(mi_calloc(half, half) == NULL && mi_calloc(most, 2) == NULL && mi_calloc(2, most) == NULL, "products");
  errno = 0;
  TS_CHECK(mi_malloc(big) == NULL && errno == ENOMEM, "errno %d", errno);
  char *p = mi_malloc(10);
  memset(p, 'k', 10);
  TS_CHECK(mi_realloc(p, big) == NULL && mi_reallocn(p, half, half) == NULL && mi_recalloc(p, half, half) == NULL, "too large");
  TS_CHECK(mi_rezalloc(p, big) == NULL && mi_reallocarray(p, half, half) == NULL && all(p, 'k', 0, 10), "and unchanged");
  void *same = p;
  TS_CHECK(mi_reallocarr(&same, half, half) != 0 && same == p, "BSD's form");
  TS_CHECK(mi_reallocf(p, big) == NULL, "frees the block");
  TS_CHECK(mi_malloc_aligned(big, 64) == NULL && mi_zalloc_aligned(most - 10, 4096) == NULL, "too large, aligned");
  TS_CHECK(mi_calloc_aligned(half, half, 64) == NULL && mi_malloc_aligned_at(big, 64, 8) == NULL, "too large, aligned");
  TS_CHECK(mi_malloc_aligned(10, 0) == NULL && mi_malloc_aligned(10, 3) == NULL && mi_malloc_aligned(10, 48) == NULL, "no alignments");
  TS_CHECK(mi_new_nothrow(big) == NULL && mi_new_aligned_nothrow(big, 64) == NULL, "nothrow");
  TS_CHECK(mi_pvalloc(most) == NULL && mi_valloc(most) == NULL, "too large, whole pages");
}

static void resizing(void) {
  char *p = mi_realloc(NULL, 20);
  memset(p, 'a', 20);
  p = mi_realloc(p, 100000);
  TS_CHECK(p != NULL && all(p, 'a', 0, 20), "grown");
  p = mi_reallocn(p, 7, 2);
  TS_CHECK(p != NULL && all(p, 'a', 0, 14), "shrunk");
  p = mi_realloc(p, 0);
  TS_CHECK(p != NULL, "realloc to 0 gives a block");
  mi_free(p);
  p = mi_recalloc(NULL, 10, 3);
  TS_CHECK(p != NULL && all(p, 0, 0, 30), "recalloc of NULL");
  for (size_t size = 30; size < 300000; size *= 3) {
    soil(size * 3);
    memset(p, 'b', size);
    p = mi_rezalloc(p, size * 3);
    TS_CHECK(p != NULL && all(p, 'b', 0, size), "kept");
    p = mi_recalloc(p, size, 3);
  }
  mi_free(p);
  p = mi_zalloc(1000);
  for (size_t size = 1000; size < 500000; size = size * 2 + 8) {
    soil(size);
    p = mi_rezalloc(p, size);
    TS_CHECK(all(p, 0, 0, size), "zero all along, %zu", size);
  }
  TS_CHECK(mi_expand(p, mi_usable_size(p)) == p && mi_expand(p, 10) == p, "expand within");
  TS_CHECK(mi_expand(p, BIG) == NULL, "expand beyond");
  mi_free(p);
  void *q = NULL;
  TS_CHECK(mi_reallocarr(&q, 10, 10) == 0 && q != NULL && mi_usable_size(q) >= 100, "reallocarr");
  TS_CHECK(mi_reallocarr(NULL, 10, 10) == EINVAL, "reallocarr of nothing");
  q = mi_reallocarray(q, 100, 10);
  TS_CHECK(q != NULL && (q = mi_reallocf(q, 5)) != NULL, "reallocarray, reallocf");
  mi_free(q);
}

static bool lies(const void *p, size_t alignment, size_t offset) { return p != NULL && ((uintptr_t)p + offset) % alignment == 0; }

static void aligned(void) {
  for (size_t alignment = 1; alignment <= (size_t)1 << 20; alignment *= 2) {
    for (size_t size = 0; size < 3 * alignment && size < 300000; size = size * 2 + 5) {
      soil(size < 5000 ? size : 1);
      char *p = mi_malloc_aligned(size, alignment), *q = mi_zalloc_aligned(size, alignment), *r = mi_calloc_aligned(size, 1, alignment);
      TS_CHECK(lies(p, alignment, 0) && lies(q, alignment, 0) && lies(r, alignment, 0), "%zu at %zu", size, alignment);
      TS_CHECK(all(q, 0, 0, size) && all(r, 0, 0, size) && mi_usable_size(p) >= size, "%zu at %zu", size, alignment);
      memset(p, 'c', size);
      p = mi_realloc_aligned(p, size * 2 + 1, alignment);
      TS_CHECK(lies(p, alignment, 0) && all(p, 'c', 0, size), "%zu at %zu resized", size, alignment);
      p = mi_realloc_aligned(p, size / 2, alignment);
      TS_CHECK(lies(p, alignment, 0) && all(p, 'c', 0, size / 2), "%zu at %zu shrunk", size, alignment);
      q = mi_rezalloc_aligned(q, size * 2 + 9, alignment);
      r = mi_recalloc_aligned(r, size * 2 + 9, 1, alignment);
      TS_CHECK(lies(q, alignment, 0) && lies(r, alignment, 0) && all(q, 0, 0, size) && all(r, 0, 0, size), "%zu at %zu", size, alignment);
      mi_free(p);
      mi_free(q);
      mi_free_aligned(r, alignment);
    }
  }
}

static void offsets(void) {
  static void *held[400];
  size_t count = 0;
  for (size_t alignment = 2; alignment <= 4096; alignment *= 2) {
    for (size_t offset = 0; offset < 3 * alignment && count < 390; offset = offset * 2 + 4) {
      size_t size = offset + 40;
      soil(size);
      char *p = mi_malloc_aligned_at(size, alignment, offset);
      char *z = mi_zalloc_aligned_at(size, alignment, offset), *c = mi_calloc_aligned_at(size, 2, alignment, offset);
      TS_CHECK(lies(p, alignment, offset) && lies(z, alignment, offset) && lies(c, alignment, offset), "%zu + %zu", alignment, offset);
      TS_CHECK(mi_usable_size(p) >= size && all(z, 0, 0, size) && all(c, 0, 0, 2 * size), "%zu + %zu", alignment, offset);
      memset(p, 'd', size);
      p = mi_realloc_aligned_at(p, 3 * size, alignment, offset);
      TS_CHECK(lies(p, alignment, offset) && all(p, 'd', 0, size), "%zu + %zu grown", alignment, offset);
      z = mi_rezalloc_aligned_at(z, 3 * size, alignment, offset);
      c = mi_recalloc_aligned_at(c, 3 * size, 1, alignment, offset);
      TS_CHECK(lies(z, alignment, offset) && lies(c, alignment, offset), "%zu + %zu", alignment, offset);
      z = mi_realloc(z, 5 * size);
      TS_CHECK(z != NULL && all(z, 0, 0, size), "an ordinary realloc");
      mi_free(c);
      mi_free(z);
      memset(p, 'e', 3 * size);
      held[count++] = p;
    }
  }
  for (size_t i = 0; i < count; i++) {
    TS_CHECK(*(char *)held[i] == 'e', "block %zu", i);
    mi_free(held[i]);
  }
}

static void posix(void) {
  void *p = (void *)8;
  TS_CHECK(mi_posix_memalign(NULL, 16, 1) == EINVAL && mi_posix_memalign(&p, 0, 1) == EINVAL, "EINVAL");
  TS_CHECK(mi_posix_memalign(&p, 4, 1) == EINVAL && mi_posix_memalign(&p, 24, 1) == EINVAL && p == (void *)8, "EINVAL, nothing written");
  TS_CHECK(mi_posix_memalign(&p, 16, BIG) == ENOMEM && p == (void *)8, "ENOMEM, nothing written");
  TS_CHECK(mi_posix_memalign(&p, 256, 10) == 0 && lies(p, 256, 0), "a block");
  mi_free(p);
  p = mi_memalign(128, 10);
  TS_CHECK(lies(p, 128, 0), "memalign");
  mi_free(p);
  p = mi_aligned_alloc(64, 128);
  TS_CHECK(lies(p, 64, 0), "aligned_alloc");
  mi_free(p);
  p = mi_valloc(10);
  TS_CHECK(lies(p, ts_os_page(), 0), "valloc");
  mi_free(p);
  p = mi_pvalloc(ts_os_page() + 1);
  TS_CHECK(lies(p, ts_os_page(), 0) && mi_usable_size(p) >= 2 * ts_os_page(), "pvalloc");
  mi_free(p);
}

static void strings(void) {
  char buffer[PATH_MAX], *p = mi_strdup("heddle"), *q = mi_strndup("heddle", 3), *r = mi_strndup("he", 300);
  TS_CHECK(strcmp(p, "heddle") == 0 && strcmp(q, "hed") == 0 && strcmp(r, "he") == 0, "strings");
  TS_CHECK(mi_strdup(NULL) == NULL && mi_strndup(NULL, 3) == NULL, "no strings");
  mi_free(p);
  mi_free(q);
  mi_free(r);
  p = mi_realpath("/usr/../usr/.", NULL);
  TS_CHECK(p != NULL && strcmp(p, "/usr") == 0, "realpath");
  mi_free(p);
  TS_CHECK(mi_realpath("/usr/..", buffer) == buffer && strcmp(buffer, "/") == 0, "realpath into a buffer");
  TS_CHECK(mi_realpath("/does/not/exist", NULL) == NULL, "realpath of nothing");
}

struct pair {
  long a, b;
};

static void by_type(void) {
  struct pair *p = mi_malloc_tp(struct pair), *z = mi_zalloc_tp(struct pair), *c = mi_calloc_tp(struct pair, 10);
  TS_CHECK(p != NULL && z->a == 0 && z->b == 0 && c[9].b == 0, "by type");
  p = mi_reallocn_tp(p, struct pair, 100);
  c = mi_recalloc_tp(c, struct pair, 1000);
  TS_CHECK(mi_usable_size(p) >= 100 * sizeof *p && c[9].a == 0, "by type, resized");
  mi_free(p);
  mi_free(z);
  mi_free(c);
  void *n = mi_new(10), *m = mi_new_n(10, 10), *a = mi_new_aligned(10, 128);
  TS_CHECK(n != NULL && m != NULL && lies(a, 128, 0), "new");
  n = mi_new_realloc(n, 1000);
  m = mi_new_reallocn(m, 1000, 10);
  TS_CHECK(mi_usable_size(n) >= 1000 && mi_usable_size(m) >= 10000, "new, resized");
  mi_free(n);
  mi_free(m);
  mi_free(a);
}

int main(void) {
  plain();
  refusals();
  resizing();
  aligned();
  offsets();
  posix();
  strings();
  by_type();
  puts("ok");
  return 0;
}
