/* Inside the mimalloc layer: what its files share. Everything public is declared in mimalloc.h; heddle.h is all it stands on.
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_MI_INTERNAL_H
#define HEDDLE_MI_INTERNAL_H

#include "heddle.h"
#include "mimalloc.h"

#define MI_LIKELY(x) __builtin_expect(!!(x), 1)
#define MI_UNLIKELY(x) __builtin_expect(!!(x), 0)
#define MI_HIDDEN __attribute__((visibility("hidden")))

struct mi_heap_s {
  hd_heap *heap;          /* NULL: the backing heap, which is the calling thread's */
  struct mi_heap_s *next; /* of the deleted ones */
  bool reborn;            /* was deleted before and found empty; see heap.c */
};

/* What a request wants, beside its size. */
typedef struct mi_want {
  size_t alignment, offset; /* 1 and 0 for none */
  bool zero;
} mi_want;

extern MI_HIDDEN mi_heap_t mi_backing;
extern MI_HIDDEN __thread mi_heap_t *mi_default __attribute__((tls_model("initial-exec")));

/* ---- alloc.c: every allocation that is not the fast path ------------------------------------------------------------ */

MI_HIDDEN void *mi_alloc_want(mi_heap_t *heap, size_t size, mi_want want);
MI_HIDDEN void *mi_realloc_want(mi_heap_t *heap, void *p, size_t size, mi_want want);
MI_HIDDEN bool mi_product(size_t count, size_t size, size_t *total); /* false, reported as EOVERFLOW, when it overflows */

/* ---- shifted.c: blocks that start inside a Heddle block, because p + offset had to be aligned ------------------------- */

extern MI_HIDDEN size_t mi_shifted_count;
MI_HIDDEN bool mi_shifted_add(void *p, void *base);
MI_HIDDEN void *mi_shifted_base(const void *p);  /* p itself when it is no such block */
MI_HIDDEN void *mi_shifted_remove(void *p);      /* the same, and it is none any more */

MI_HIDDEN void mi_shifted_forget(const hd_heap *heap);

static inline bool mi_any_shifted(void) { return MI_UNLIKELY(__atomic_load_n(&mi_shifted_count, __ATOMIC_RELAXED) != 0); }
static inline void *mi_base_of(const void *p) { return mi_any_shifted() ? mi_shifted_base(p) : (void *)(uintptr_t)p; }

/* ---- process.c: callbacks --------------------------------------------------------------------------------------------- */

MI_HIDDEN void mi_call_error(int error);
MI_HIDDEN void mi_call_deferred_free(bool force);

/* ---- heap.c ----------------------------------------------------------------------------------------------------------- */

/* Whether this is a heap of Heddle's that mi_heap_delete left to its blocks. */
MI_HIDDEN bool mi_is_deleted(const hd_heap *heap);

#endif
