/* C++'s operators new and delete, under their mangled names, without a C++ compiler.
 *
 * A failing operator new calls the process's new-handler until there is none, then throws std::bad_alloc through the C++
 * library's own function for it; built with -fexceptions so that the exception passes. Both are weak: a C program that
 * preloads Heddle has neither.
 * SPDX-License-Identifier: MIT */
#include <stddef.h>

#include "core/alloc.h"
#include "heddle.h"
#include "os/os.h"

typedef void new_handler(void);

extern new_handler *_ZSt15get_new_handlerv(void) __attribute__((weak));
extern _Noreturn void _ZSt17__throw_bad_allocv(void) __attribute__((weak));

/* One more try? Calls the handler if there is one. It may throw. */
static bool ask_handler(void) {
  new_handler *handler = _ZSt15get_new_handlerv == NULL ? NULL : _ZSt15get_new_handlerv();
  if (handler == NULL) return false;
  handler();
  return true;
}

static SLOW void *retry(size_t alignment, size_t bytes) {
  while (ask_handler()) {
    void *p = hdi_alloc_aligned(alignment, bytes, false);
    if (p != NULL) return p;
  }
  if (_ZSt17__throw_bad_allocv != NULL) _ZSt17__throw_bad_allocv();
  hdi_os_abort();
}

/* The nothrow forms answer NULL where the others throw, also when the handler throws; a handler that throws can't be caught
 * in C, so they do not call it. */
FAST void *new_or_throw(size_t bytes) {
  void *p = hdi_alloc(bytes);
  return HD_LIKELY(p != NULL) ? p : retry(16, bytes);
}

static void *new_aligned(size_t bytes, size_t alignment) {
  void *p = hdi_alloc_aligned(alignment, bytes, false);
  return HD_LIKELY(p != NULL) ? p : retry(alignment, bytes);
}

/* A size's letter in mangled names: unsigned long, or unsigned int where addresses have 32 bits. */
#if SIZE_MAX == UINT32_MAX
#define WITH_LETTER(operator, name) operator(name, j)
#else
#define WITH_LETTER(operator, name) operator(name, m)
#endif

#define OPERATOR_NEW(name, size)                                                                                             \
  HD_EXPORT void *_Zn##name##size(size_t bytes);                                                                             \
  HD_EXPORT HOT void *_Zn##name##size(size_t bytes) { return new_or_throw(bytes); }                                          \
  HD_EXPORT void *_Zn##name##size##RKSt9nothrow_t(size_t bytes, const void *tag);                                            \
  HD_EXPORT void *_Zn##name##size##RKSt9nothrow_t(size_t bytes, const void *tag) {                                           \
    (void)tag;                                                                                                               \
    return hdi_alloc(bytes);                                                                                                 \
  }                                                                                                                          \
  HD_EXPORT void *_Zn##name##size##St11align_val_t(size_t bytes, size_t alignment);                                          \
  HD_EXPORT void *_Zn##name##size##St11align_val_t(size_t bytes, size_t alignment) { return new_aligned(bytes, alignment); } \
  HD_EXPORT void *_Zn##name##size##St11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void *tag);           \
  HD_EXPORT void *_Zn##name##size##St11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void *tag) {          \
    (void)tag;                                                                                                               \
    return hdi_alloc_aligned(alignment, bytes, false);                                                                       \
  }

#define OPERATOR_DELETE(name, size)                                                                                                     \
  HD_EXPORT void _Zd##name##Pv(void *p);                                                                                                \
  HD_EXPORT HOT void _Zd##name##Pv(void *p) { hdi_free(p); }                                                                            \
  HD_EXPORT void _Zd##name##Pv##size(void *p, size_t bytes);                                                                            \
  HD_EXPORT HOT void _Zd##name##Pv##size(void *p, size_t bytes) { hdi_free_sized(p, bytes, 1); }                                        \
  HD_EXPORT void _Zd##name##PvRKSt9nothrow_t(void *p, const void *tag);                                                                 \
  HD_EXPORT void _Zd##name##PvRKSt9nothrow_t(void *p, const void *tag) {                                                                \
    (void)tag;                                                                                                                          \
    hdi_free(p);                                                                                                                        \
  }                                                                                                                                     \
  HD_EXPORT void _Zd##name##PvSt11align_val_t(void *p, size_t alignment);                                                               \
  HD_EXPORT void _Zd##name##PvSt11align_val_t(void *p, size_t alignment) {                                                              \
    (void)alignment;                                                                                                                    \
    hdi_free(p);                                                                                                                        \
  }                                                                                                                                     \
  HD_EXPORT void _Zd##name##Pv##size##St11align_val_t(void *p, size_t bytes, size_t alignment);                                         \
  HD_EXPORT void _Zd##name##Pv##size##St11align_val_t(void *p, size_t bytes, size_t alignment) { hdi_free_sized(p, bytes, alignment); } \
  HD_EXPORT void _Zd##name##PvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment, const void *tag);                                \
  HD_EXPORT void _Zd##name##PvSt11align_val_tRKSt9nothrow_t(void *p, size_t alignment, const void *tag) {                               \
    (void)alignment, (void)tag;                                                                                                         \
    hdi_free(p);                                                                                                                        \
  }

WITH_LETTER(OPERATOR_NEW, w)
WITH_LETTER(OPERATOR_NEW, a)
WITH_LETTER(OPERATOR_DELETE, l)
WITH_LETTER(OPERATOR_DELETE, a)
