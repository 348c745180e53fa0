/* The C library's allocation functions, on ELF systems: thin shims over the core's fast paths.
 * The extras that look at the heap (mallinfo, malloc_trim ...) or stand on malloc (strdup ...) are in libc_extras.c.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>

#include "core/alloc.h"
#include "heddle.h"
#include "os/os.h"

#define ALIAS(target) __attribute__((visibility("default"), alias(#target)))

HD_EXPORT HOT void *malloc(size_t bytes) { return hdi_alloc(bytes); }
HD_EXPORT HOT void free(void *p) { hdi_free(p); }
HD_EXPORT HOT void *calloc(size_t count, size_t bytes) { return hdi_alloc_zeroed(count, bytes); }
HD_EXPORT void *realloc(void *p, size_t bytes) { return hdi_realloc(p, bytes); }

HD_EXPORT void cfree(void *p) { hdi_free(p); }
HD_EXPORT void free_sized(void *p, size_t bytes) { hd_free_sized(p, bytes); }
HD_EXPORT void free_aligned_sized(void *p, size_t alignment, size_t bytes) { hd_free_aligned_sized(p, alignment, bytes); }

HD_EXPORT int posix_memalign(void **out, size_t alignment, size_t bytes) { return hd_posix_memalign(out, alignment, bytes); }

HD_EXPORT void *aligned_alloc(size_t alignment, size_t bytes) { return hdi_alloc_aligned(alignment, bytes); }

/* The C library's memalign rounds an odd alignment up to the next power of two instead of refusing it. */
HD_EXPORT void *memalign(size_t alignment, size_t bytes) {
  size_t rounded = 16;
  while (rounded < alignment && rounded <= SIZE_MAX / 4) rounded *= 2;
  return hdi_alloc_aligned(rounded, bytes);
}

static size_t system_page(void) { return hdi_os.page_bytes != 0 ? hdi_os.page_bytes : 4096; }

HD_EXPORT void *valloc(size_t bytes) { return hdi_alloc_aligned(system_page(), bytes); }

HD_EXPORT void *pvalloc(size_t bytes) {
  size_t page = system_page();
  if (bytes > PTRDIFF_MAX - page) {
    errno = ENOMEM;
    return NULL;
  }
  return hdi_alloc_aligned(page, hd_round_up(hd_max(bytes, 1), page));
}

HD_EXPORT size_t malloc_usable_size(void *p) { return hdi_usable(p); }

/* Names under which programs and the C library itself reach the same functions. */
ALIAS(malloc) void *__libc_malloc(size_t bytes);
ALIAS(free) void __libc_free(void *p);
ALIAS(calloc) void *__libc_calloc(size_t count, size_t bytes);
ALIAS(realloc) void *__libc_realloc(void *p, size_t bytes);
ALIAS(cfree) void __libc_cfree(void *p);
ALIAS(memalign) void *__libc_memalign(size_t alignment, size_t bytes);
ALIAS(valloc) void *__libc_valloc(size_t bytes);
ALIAS(pvalloc) void *__libc_pvalloc(size_t bytes);
ALIAS(posix_memalign) int __posix_memalign(void **out, size_t alignment, size_t bytes);
