/* The operator-new forms. Built with -fexceptions: the new-handler and std::bad_alloc pass through. Both belong to the C++ library,
 * which a C program does not have.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>

#include "mi.h"

typedef void new_handler(void);

extern new_handler *_ZSt15get_new_handlerv(void) __attribute__((weak));
extern _Noreturn void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

static _Noreturn void give_up(void) {
  if (_ZSt17__throw_bad_allocv != NULL) _ZSt17__throw_bad_allocv();
  abort();
}

/* Returns when there is reason to try again. */
static void ask_handler(void) {
  new_handler *handler = _ZSt15get_new_handlerv == NULL ? NULL : _ZSt15get_new_handlerv();
  if (handler == NULL) give_up();
  handler();
}

static void *new_of(mi_heap_t *heap, size_t size, size_t alignment) {
  for (;;) {
    void *p = mi_alloc_want(heap, size, (mi_want){alignment, 0, false});
    if (MI_LIKELY(p != NULL)) return p;
    ask_handler();
  }
}

static size_t product(size_t count, size_t size) {
  size_t total = 0;
  if (!mi_product(count, size, &total)) give_up();
  return total;
}

void *mi_new(size_t size) { return new_of(mi_default, size, 1); }
void *mi_new_aligned(size_t size, size_t alignment) { return new_of(mi_default, size, alignment); }
void *mi_new_n(size_t count, size_t size) { return new_of(mi_default, product(count, size), 1); }
void *mi_new_nothrow(size_t size) { return mi_malloc(size); }
void *mi_new_aligned_nothrow(size_t size, size_t alignment) { return mi_malloc_aligned(size, alignment); }
void *mi_heap_alloc_new(mi_heap_t *heap, size_t size) { return new_of(heap, size, 1); }
void *mi_heap_alloc_new_n(mi_heap_t *heap, size_t count, size_t size) { return new_of(heap, product(count, size), 1); }

void *mi_new_realloc(void *p, size_t size) {
  for (;;) {
    void *block = mi_realloc(p, size);
    if (MI_LIKELY(block != NULL)) return block;
    ask_handler();
  }
}

void *mi_new_reallocn(void *p, size_t count, size_t size) { return mi_new_realloc(p, product(count, size)); }
