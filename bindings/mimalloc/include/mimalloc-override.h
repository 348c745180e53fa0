/* Include in each source file after the standard headers: the C family's names become mimalloc's.
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_MIMALLOC_OVERRIDE_H
#define HEDDLE_MIMALLOC_OVERRIDE_H

#include "mimalloc.h"

#define malloc(n) mi_malloc(n)
#define calloc(n, c) mi_calloc(n, c)
#define realloc(p, n) mi_realloc(p, n)
#define free(p) mi_free(p)
#define strdup(s) mi_strdup(s)
#define strndup(s, n) mi_strndup(s, n)
#define realpath(f, n) mi_realpath(f, n)
#define reallocf(p, n) mi_reallocf(p, n)
#define reallocarray(p, s, n) mi_reallocarray(p, s, n)
#define reallocarr(p, s, n) mi_reallocarr(p, s, n)
#define malloc_size(p) mi_usable_size(p)
#define malloc_usable_size(p) mi_usable_size(p)
#define malloc_good_size(sz) mi_malloc_good_size(sz)
#define cfree(p) mi_free(p)
#define valloc(n) mi_valloc(n)
#define pvalloc(n) mi_pvalloc(n)
#define memalign(a, n) mi_memalign(a, n)
#define aligned_alloc(a, n) mi_aligned_alloc(a, n)
#define posix_memalign(p, a, n) mi_posix_memalign(p, a, n)

#endif
