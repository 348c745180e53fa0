/* Allocation and reallocation in a heap, with alignment, offset and zeroing: what all entry points of malloc.c come down to.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <string.h>

#include "mi.h"

static bool is_power_of_2(size_t n) { return n != 0 && (n & (n - 1)) == 0; }

static void *refuse(int error) {
  errno = error == EOVERFLOW ? ENOMEM : error;
  mi_call_error(error);
  return NULL;
}

bool mi_product(size_t count, size_t size, size_t *total) {
  if (MI_LIKELY(!__builtin_mul_overflow(count, size, total))) return true;
  refuse(EOVERFLOW);
  return false;
}

/* ---- a block of Heddle's ---------------------------------------------------------------------------------------------- */

static void *plain(hd_heap *heap, size_t size, bool zero) {
  if (heap == NULL) return zero ? hd_zalloc(size) : hd_malloc(size);
  return zero ? hd_heap_zalloc(heap, size) : hd_heap_malloc(heap, size);
}

static void *aligned(hd_heap *heap, size_t size, size_t alignment, bool zero) {
  if (heap == NULL) return zero ? hd_aligned_zalloc(alignment, size) : hd_aligned_alloc(alignment, size);
  void *p = hd_heap_aligned_alloc(heap, alignment, size);
  __asm__("" : "+r"(p)); /* a compiler that checks lengths (_FORTIFY_SOURCE=3) knows of no more than `size` */
  if (p != NULL && zero) memset(p, 0, hd_usable_size(p));
  return p;
}

static void *take(hd_heap *heap, size_t size, size_t alignment, bool zero) {
  return alignment <= 16 ? plain(heap, size, zero) : aligned(heap, size, alignment, zero);
}

static void *shifted(hd_heap *heap, size_t size, mi_want want) {
  size_t shift = want.alignment - (want.offset & (want.alignment - 1));
  if (size > PTRDIFF_MAX - shift) return NULL;
  char *base = take(heap, size + shift, want.alignment, want.zero);
  if (base == NULL || mi_shifted_add(base + shift, base)) return base == NULL ? NULL : base + shift;
  hd_free(base);
  return NULL;
}

static void *once(hd_heap *heap, size_t size, mi_want want) {
  bool at_start = (want.offset & (want.alignment - 1)) == 0;
  return at_start ? take(heap, size, want.alignment, want.zero) : shifted(heap, size, want);
}

void *mi_alloc_want(mi_heap_t *heap, size_t size, mi_want want) {
  if (!is_power_of_2(want.alignment) || want.alignment > MI_ALIGNMENT_MAX) return refuse(EINVAL);
  if (size > PTRDIFF_MAX) return refuse(EOVERFLOW);
  void *p = once(heap->heap, size, want);
  if (MI_LIKELY(p != NULL)) return p;
  mi_call_deferred_free(true); /* what the program put off may be what is missing */
  p = once(heap->heap, size, want);
  return p != NULL ? p : refuse(ENOMEM);
}

/* ---- resizing --------------------------------------------------------------------------------------------------------- */

static bool lies_right(const void *p, mi_want want) { return (((uintptr_t)p + want.offset) & (want.alignment - 1)) == 0; }

/* Whether Heddle may do it: nothing about the block is special, and it stays in the heap it is in. */
static bool is_ordinary(mi_heap_t *heap, const void *p, mi_want want) {
  if (want.alignment > 16 || want.offset != 0 || mi_base_of(p) != p) return false;
  return heap->heap == NULL || hd_heap_of(p) == heap->heap;
}

static void *move(mi_heap_t *heap, void *p, size_t size, mi_want want) {
  size_t old = mi_usable_size(p);
  void *block = mi_alloc_want(heap, size, want);
  if (block == NULL) return NULL;
  memcpy(block, p, old < size ? old : size);
  mi_free(p);
  return block;
}

static void *resize(void *p, size_t size, bool zero) {
  size_t wanted = size == 0 ? 1 : size;
  void *block = zero ? hd_recalloc(p, 1, wanted) : hd_realloc(p, wanted);
  return block != NULL ? block : refuse(ENOMEM);
}

void *mi_realloc_want(mi_heap_t *heap, void *p, size_t size, mi_want want) {
  if (p == NULL) return mi_alloc_want(heap, size, want);
  if (!is_power_of_2(want.alignment) || want.alignment > MI_ALIGNMENT_MAX) return refuse(EINVAL);
  if (size > PTRDIFF_MAX) return refuse(EOVERFLOW);
  if (is_ordinary(heap, p, want)) return resize(p, size, want.zero);
  size_t usable = mi_usable_size(p);
  bool same_heap = heap->heap == NULL || hd_heap_of(mi_base_of(p)) == heap->heap;
  if (same_heap && size <= usable && size >= usable / 2 && lies_right(p, want)) return p;
  return move(heap, p, size, want);
}
