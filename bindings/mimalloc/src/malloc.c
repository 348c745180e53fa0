/* The names: mi_malloc and its family, from the thread's default heap and from a given one. See mimalloc.h.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <limits.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "mi.h"

static const mi_want plain = {1, 0, false}, zeroed = {1, 0, true};

static void *of_product(mi_heap_t *heap, size_t count, size_t size, mi_want want) {
  size_t total = 0;
  return mi_product(count, size, &total) ? mi_alloc_want(heap, total, want) : NULL;
}

static void *resized_product(mi_heap_t *heap, void *p, size_t count, size_t size, mi_want want) {
  size_t total = 0;
  return mi_product(count, size, &total) ? mi_realloc_want(heap, p, total, want) : NULL;
}

static void *resized_or_freed(mi_heap_t *heap, void *p, size_t size) {
  void *block = mi_realloc_want(heap, p, size, plain);
  if (block == NULL) mi_free(p);
  return block;
}

static char *copied(mi_heap_t *heap, const char *text, size_t length) {
  char *copy = mi_alloc_want(heap, length + 1, plain);
  if (copy == NULL) return NULL;
  memcpy(copy, text, length);
  copy[length] = 0;
  return copy;
}

/* ---- the fast ones ---------------------------------------------------------------------------------------------------- */

void *mi_malloc(size_t size) {
  if (MI_LIKELY(mi_default->heap == NULL)) {
    void *p = hd_malloc(size);
    if (MI_LIKELY(p != NULL)) return p;
  }
  return mi_alloc_want(mi_default, size, plain);
}

void *mi_zalloc(size_t size) {
  if (MI_LIKELY(mi_default->heap == NULL)) {
    void *p = hd_zalloc(size);
    if (MI_LIKELY(p != NULL)) return p;
  }
  return mi_alloc_want(mi_default, size, zeroed);
}

void mi_free(void *p) {
  if (mi_any_shifted()) p = mi_shifted_remove(p);
  hd_free(p);
}

void *mi_malloc_small(size_t size) { return mi_malloc(size); }
void *mi_zalloc_small(size_t size) { return mi_zalloc(size); }

/* ---- from a heap ------------------------------------------------------------------------------------------------------ */

#define WANT(alignment, offset, zero) ((mi_want){alignment, offset, zero})

void *mi_heap_malloc(mi_heap_t *heap, size_t size) { return mi_alloc_want(heap, size, plain); }
void *mi_heap_malloc_small(mi_heap_t *heap, size_t size) { return mi_alloc_want(heap, size, plain); }
void *mi_heap_zalloc(mi_heap_t *heap, size_t size) { return mi_alloc_want(heap, size, zeroed); }
void *mi_heap_calloc(mi_heap_t *heap, size_t count, size_t size) { return of_product(heap, count, size, zeroed); }
void *mi_heap_mallocn(mi_heap_t *heap, size_t count, size_t size) { return of_product(heap, count, size, plain); }
void *mi_heap_realloc(mi_heap_t *heap, void *p, size_t size) { return mi_realloc_want(heap, p, size, plain); }
void *mi_heap_reallocn(mi_heap_t *heap, void *p, size_t count, size_t size) { return resized_product(heap, p, count, size, plain); }
void *mi_heap_reallocf(mi_heap_t *heap, void *p, size_t size) { return resized_or_freed(heap, p, size); }
void *mi_heap_rezalloc(mi_heap_t *heap, void *p, size_t size) { return mi_realloc_want(heap, p, size, zeroed); }
void *mi_heap_recalloc(mi_heap_t *heap, void *p, size_t count, size_t size) { return resized_product(heap, p, count, size, zeroed); }

char *mi_heap_strdup(mi_heap_t *heap, const char *text) { return text == NULL ? NULL : copied(heap, text, strlen(text)); }

char *mi_heap_strndup(mi_heap_t *heap, const char *text, size_t most) {
  return text == NULL ? NULL : copied(heap, text, strnlen(text, most));
}

char *mi_heap_realpath(mi_heap_t *heap, const char *name, char *resolved) {
  char path[PATH_MAX];
  if (resolved != NULL) return realpath(name, resolved);
  return realpath(name, path) == NULL ? NULL : copied(heap, path, strlen(path));
}

void *mi_heap_malloc_aligned_at(mi_heap_t *heap, size_t size, size_t alignment, size_t offset) {
  return mi_alloc_want(heap, size, WANT(alignment, offset, false));
}
void *mi_heap_zalloc_aligned_at(mi_heap_t *heap, size_t size, size_t alignment, size_t offset) {
  return mi_alloc_want(heap, size, WANT(alignment, offset, true));
}
void *mi_heap_calloc_aligned_at(mi_heap_t *heap, size_t count, size_t size, size_t alignment, size_t offset) {
  return of_product(heap, count, size, WANT(alignment, offset, true));
}
void *mi_heap_realloc_aligned_at(mi_heap_t *heap, void *p, size_t size, size_t alignment, size_t offset) {
  return mi_realloc_want(heap, p, size, WANT(alignment, offset, false));
}
void *mi_heap_rezalloc_aligned_at(mi_heap_t *heap, void *p, size_t size, size_t alignment, size_t offset) {
  return mi_realloc_want(heap, p, size, WANT(alignment, offset, true));
}
void *mi_heap_recalloc_aligned_at(mi_heap_t *heap, void *p, size_t count, size_t size, size_t alignment, size_t offset) {
  return resized_product(heap, p, count, size, WANT(alignment, offset, true));
}

void *mi_heap_malloc_aligned(mi_heap_t *heap, size_t size, size_t alignment) { return mi_heap_malloc_aligned_at(heap, size, alignment, 0); }
void *mi_heap_zalloc_aligned(mi_heap_t *heap, size_t size, size_t alignment) { return mi_heap_zalloc_aligned_at(heap, size, alignment, 0); }
void *mi_heap_calloc_aligned(mi_heap_t *heap, size_t count, size_t size, size_t alignment) {
  return mi_heap_calloc_aligned_at(heap, count, size, alignment, 0);
}
void *mi_heap_realloc_aligned(mi_heap_t *heap, void *p, size_t size, size_t alignment) {
  return mi_heap_realloc_aligned_at(heap, p, size, alignment, 0);
}
void *mi_heap_rezalloc_aligned(mi_heap_t *heap, void *p, size_t size, size_t alignment) {
  return mi_heap_rezalloc_aligned_at(heap, p, size, alignment, 0);
}
void *mi_heap_recalloc_aligned(mi_heap_t *heap, void *p, size_t count, size_t size, size_t alignment) {
  return mi_heap_recalloc_aligned_at(heap, p, count, size, alignment, 0);
}

/* ---- from the default heap -------------------------------------------------------------------------------------------- */

void *mi_calloc(size_t count, size_t size) { return of_product(mi_default, count, size, zeroed); }
void *mi_mallocn(size_t count, size_t size) { return of_product(mi_default, count, size, plain); }
void *mi_realloc(void *p, size_t size) { return mi_realloc_want(mi_default, p, size, plain); }
void *mi_reallocn(void *p, size_t count, size_t size) { return resized_product(mi_default, p, count, size, plain); }
void *mi_reallocf(void *p, size_t size) { return resized_or_freed(mi_default, p, size); }
void *mi_rezalloc(void *p, size_t size) { return mi_realloc_want(mi_default, p, size, zeroed); }
void *mi_recalloc(void *p, size_t count, size_t size) { return resized_product(mi_default, p, count, size, zeroed); }
char *mi_strdup(const char *text) { return mi_heap_strdup(mi_default, text); }
char *mi_strndup(const char *text, size_t most) { return mi_heap_strndup(mi_default, text, most); }
char *mi_realpath(const char *name, char *resolved) { return mi_heap_realpath(mi_default, name, resolved); }

void *mi_malloc_aligned(size_t size, size_t alignment) { return mi_heap_malloc_aligned(mi_default, size, alignment); }
void *mi_zalloc_aligned(size_t size, size_t alignment) { return mi_heap_zalloc_aligned(mi_default, size, alignment); }
void *mi_calloc_aligned(size_t count, size_t size, size_t alignment) { return mi_heap_calloc_aligned(mi_default, count, size, alignment); }
void *mi_realloc_aligned(void *p, size_t size, size_t alignment) { return mi_heap_realloc_aligned(mi_default, p, size, alignment); }
void *mi_rezalloc_aligned(void *p, size_t size, size_t alignment) { return mi_heap_rezalloc_aligned(mi_default, p, size, alignment); }
void *mi_recalloc_aligned(void *p, size_t count, size_t size, size_t alignment) {
  return mi_heap_recalloc_aligned(mi_default, p, count, size, alignment);
}
void *mi_malloc_aligned_at(size_t size, size_t alignment, size_t offset) {
  return mi_heap_malloc_aligned_at(mi_default, size, alignment, offset);
}
void *mi_zalloc_aligned_at(size_t size, size_t alignment, size_t offset) {
  return mi_heap_zalloc_aligned_at(mi_default, size, alignment, offset);
}
void *mi_calloc_aligned_at(size_t count, size_t size, size_t alignment, size_t offset) {
  return mi_heap_calloc_aligned_at(mi_default, count, size, alignment, offset);
}
void *mi_realloc_aligned_at(void *p, size_t size, size_t alignment, size_t offset) {
  return mi_heap_realloc_aligned_at(mi_default, p, size, alignment, offset);
}
void *mi_rezalloc_aligned_at(void *p, size_t size, size_t alignment, size_t offset) {
  return mi_heap_rezalloc_aligned_at(mi_default, p, size, alignment, offset);
}
void *mi_recalloc_aligned_at(void *p, size_t count, size_t size, size_t alignment, size_t offset) {
  return mi_heap_recalloc_aligned_at(mi_default, p, count, size, alignment, offset);
}

/* ---- sizes ------------------------------------------------------------------------------------------------------------ */

size_t mi_usable_size(const void *p) {
  if (!mi_any_shifted()) return hd_usable_size(p);
  const char *base = mi_base_of(p);
  return hd_usable_size(base) - (size_t)((const char *)p - base);
}

void *mi_expand(void *p, size_t size) {
  if (p == NULL) return NULL;
  if (mi_base_of(p) != p) return size <= mi_usable_size(p) ? p : NULL;
  return hd_expand(p, size);
}

size_t mi_good_size(size_t size) { return hd_good_size(size); }
size_t mi_malloc_size(const void *p) { return mi_usable_size(p); }
size_t mi_malloc_usable_size(const void *p) { return mi_usable_size(p); }
size_t mi_malloc_good_size(size_t size) { return hd_good_size(size); }

/* ---- POSIX and BSD ---------------------------------------------------------------------------------------------------- */

int mi_posix_memalign(void **out, size_t alignment, size_t size) {
  if (out == NULL || alignment == 0 || alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0) return EINVAL;
  void *p = mi_malloc_aligned(size, alignment);
  if (p == NULL) return alignment > MI_ALIGNMENT_MAX ? EINVAL : ENOMEM;
  *out = p;
  return 0;
}

void *mi_memalign(size_t alignment, size_t size) { return mi_malloc_aligned(size, alignment); }
void *mi_aligned_alloc(size_t alignment, size_t size) { return mi_malloc_aligned(size, alignment); }

void *mi_valloc(size_t size) { return mi_malloc_aligned(size, (size_t)sysconf(_SC_PAGESIZE)); }

void *mi_pvalloc(size_t size) {
  size_t page = (size_t)sysconf(_SC_PAGESIZE);
  size_t whole = size > SIZE_MAX - page ? SIZE_MAX : (size + page - 1) / page * page;
  return mi_malloc_aligned(whole, page);
}

void *mi_reallocarray(void *p, size_t count, size_t size) { return mi_reallocn(p, count, size); }

/* NetBSD's form: p is the address of the pointer. */
int mi_reallocarr(void *p, size_t count, size_t size) {
  void *old = NULL;
  if (p == NULL) return EINVAL;
  memcpy(&old, p, sizeof old);
  void *block = mi_reallocn(old, count, size);
  if (block == NULL) return errno;
  memcpy(p, &block, sizeof block);
  return 0;
}

void mi_cfree(void *p) {
  if (hd_owns(p)) mi_free(p);
}

void mi_free_size(void *p, size_t size) {
  (void)size;
  mi_free(p);
}

void mi_free_size_aligned(void *p, size_t size, size_t alignment) {
  (void)size, (void)alignment;
  mi_free(p);
}

void mi_free_aligned(void *p, size_t alignment) {
  (void)alignment;
  mi_free(p);
}
