/* See heddle_crystal.h. Weak, because a Crystal program whose prelude defines a function itself must be able to link the archive too.
 * SPDX-License-Identifier: MIT */
#include "heddle_crystal.h"

#include <string.h>

#define WEAK __attribute__((weak))

/* A size of the compiler's as one of the system's: what does not fit becomes one that no allocation fulfils. */
static size_t fit(uint64_t size) { return size > SIZE_MAX ? SIZE_MAX : (size_t)size; }

WEAK void *__crystal_malloc64(uint64_t size) { return hd_malloc(fit(size)); }
WEAK void *__crystal_malloc_atomic64(uint64_t size) { return hd_malloc(fit(size)); }
WEAK void *__crystal_malloc_uninitialized64(uint64_t size) { return hd_malloc(fit(size)); }
WEAK void *__crystal_calloc64(uint64_t size) { return hd_zalloc(fit(size)); }
WEAK void *__crystal_calloc_atomic64(uint64_t size) { return hd_zalloc(fit(size)); }
WEAK void *__crystal_realloc64(void *p, uint64_t size) { return hd_realloc(p, fit(size)); }

WEAK void *__crystal_malloc(uint32_t size) { return hd_malloc(size); }
WEAK void *__crystal_malloc_atomic(uint32_t size) { return hd_malloc(size); }
WEAK void *__crystal_malloc_uninitialized(uint32_t size) { return hd_malloc(size); }
WEAK void *__crystal_calloc(uint32_t size) { return hd_zalloc(size); }
WEAK void *__crystal_calloc_atomic(uint32_t size) { return hd_zalloc(size); }
WEAK void *__crystal_realloc(void *p, uint32_t size) { return hd_realloc(p, size); }

/* A block that more than doubles goes into zeroed memory: the copy is shorter than what would have to be cleared. */
static void *regrow(void *p, size_t old_bytes, size_t bytes) {
  char *block = hd_zalloc(bytes);
  if (block == NULL) return NULL;
  memcpy(block, p, old_bytes);
  hd_free(p);
  return block;
}

static void *recalloc(void *p, size_t old_bytes, size_t bytes) {
  if (p == NULL) return hd_zalloc(bytes);
  if (bytes > old_bytes && bytes - old_bytes > old_bytes && bytes > hd_usable_size(p)) return regrow(p, old_bytes, bytes);
  char *block = hd_realloc(p, bytes);
  if (block != NULL && bytes > old_bytes) memset(block + old_bytes, 0, bytes - old_bytes);
  return block;
}

WEAK void *__crystal_recalloc64(void *p, uint64_t old_size, uint64_t size) { return recalloc(p, fit(old_size), fit(size)); }
WEAK void *__crystal_recalloc(void *p, uint32_t old_size, uint32_t size) { return recalloc(p, old_size, size); }
