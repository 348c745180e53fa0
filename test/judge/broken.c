/* Allocators that are broken on purpose, to be preloaded: the judge must call each of them worse than the control. BROKEN chooses the
 * fault: realloc (a moved block loses its content), align (aligned blocks are aligned to 16 at most), errno (free sets it), limit (sizes
 * that nobody has are given).
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <malloc.h>
#include <stdlib.h>

enum { REALLOC = 1, ALIGN, ERRNO, LIMIT };

/* glibc's own entry points, which it exports under these names for interposers. */
extern void *__libc_malloc(size_t), *__libc_calloc(size_t, size_t), *__libc_realloc(void *, size_t), *__libc_memalign(size_t, size_t);
extern void __libc_free(void *);

#define BEYOND(bytes) (BROKEN == LIMIT && (bytes) > (size_t)-1 / 4)

void *malloc(size_t bytes) { return __libc_malloc(BEYOND(bytes) ? 16 : bytes); }

void *calloc(size_t count, size_t bytes) { return __libc_calloc(count, bytes); }

void free(void *p) {
  int before = errno;
  __libc_free(p);
  errno = BROKEN == ERRNO ? EINVAL : before;
}

void *realloc(void *p, size_t bytes) {
  if (BROKEN != REALLOC || p == NULL || bytes <= malloc_usable_size(p)) return __libc_realloc(p, BEYOND(bytes) ? 16 : bytes);
  void *moved = __libc_calloc(1, bytes);
  if (moved != NULL) __libc_free(p);
  return moved;
}

static void *aligned(size_t alignment, size_t bytes) { return __libc_memalign(BROKEN == ALIGN ? 16 : alignment, bytes); }

void *memalign(size_t alignment, size_t bytes) { return aligned(alignment, bytes); }
void *aligned_alloc(size_t alignment, size_t bytes) { return aligned(alignment, bytes); }

int posix_memalign(void **out, size_t alignment, size_t bytes) {
  if (alignment % sizeof(void *) != 0 || (alignment & (alignment - 1)) != 0 || alignment == 0) return EINVAL;
  *out = aligned(alignment, bytes);
  return *out == NULL ? ENOMEM : 0;
}
