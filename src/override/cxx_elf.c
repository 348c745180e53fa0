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
    void *p = hdi_alloc_aligned(alignment, bytes);
    if (p != NULL) return p;
  }
  if (_ZSt17__throw_bad_allocv != NULL) _ZSt17__throw_bad_allocv();
  hdi_os_abort();
}

/* What operator new does besides a hit: only here can there be no memory. */
static __attribute__((noinline)) void *new_medium(size_t bytes) {
  void *p = hdi_alloc_medium(bytes);
  return HD_LIKELY(p != NULL) ? p : retry(16, bytes);
}

static __attribute__((noinline)) void *new_claim(size_t bytes, hd_slot *slot) {
  void *p = hdi_alloc_claim(bytes, slot);
  return HD_LIKELY(p != NULL) ? p : retry(16, bytes);
}

static void *new_aligned(size_t bytes, size_t alignment) {
  void *p = hdi_alloc_aligned(alignment, bytes);
  return HD_LIKELY(p != NULL) ? p : retry(alignment, bytes);
}

/* A size's letter in mangled names: unsigned long, or unsigned int where addresses have 32 bits. */
#if SIZE_MAX == UINT32_MAX
#define WITH_LETTER(operator) operator(j)
#else
#define WITH_LETTER(operator) operator(m)
#endif

/* The nothrow forms answer NULL where the others throw, also when the handler throws; a handler that throws can't be caught
 * in C, so they do not call it. */
#define OPERATOR_NEW(size)                                                                                              \
  HD_EXPORT void *_Znw##size(size_t bytes);                                                                             \
  HD_EXPORT HOT void *_Znw##size(size_t bytes) { return hdi_alloc_else(bytes, new_medium, new_claim); }                 \
  HD_EXPORT void *_Znw##size##RKSt9nothrow_t(size_t bytes, const void *tag);                                            \
  HD_EXPORT void *_Znw##size##RKSt9nothrow_t(size_t bytes, const void *tag) {                                           \
    (void)tag;                                                                                                          \
    return hdi_alloc_aligned(16, bytes);                                                                                \
  }                                                                                                                     \
  HD_EXPORT void *_Znw##size##St11align_val_t(size_t bytes, size_t alignment);                                          \
  HD_EXPORT void *_Znw##size##St11align_val_t(size_t bytes, size_t alignment) { return new_aligned(bytes, alignment); } \
  HD_EXPORT void *_Znw##size##St11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void *tag);           \
  HD_EXPORT void *_Znw##size##St11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void *tag) {          \
    (void)tag;                                                                                                          \
    return hdi_alloc_aligned(alignment, bytes);                                                                         \
  }

#define OPERATOR_DELETE(size)                                                             \
  HD_EXPORT void _ZdlPv(void *p);                                                         \
  HD_EXPORT HOT void _ZdlPv(void *p) { hdi_free(p); }                                     \
  HD_EXPORT void _ZdlPv##size(void *p, size_t bytes);                                     \
  HD_EXPORT HOT void _ZdlPv##size(void *p, size_t bytes) { hdi_free_sized(p, bytes, 1); } \
  HD_EXPORT void _ZdlPv##size##St11align_val_t(void *p, size_t bytes, size_t alignment);  \
  HD_EXPORT void _ZdlPv##size##St11align_val_t(void *p, size_t bytes, size_t alignment) { hdi_free_sized(p, bytes, alignment); }

/* Arrays are no others: the same functions by second names. And a delete that has nothing to do with what it is told besides is the one
 * that is told nothing: it lies in registers, or the caller takes it off the stack. */
#define SAME_AS(target) __attribute__((visibility("default"), alias(target)))
#define SECOND_NAMES(size)                                                                                               \
  SAME_AS("_Znw" #size) void *_Zna##size(size_t bytes);                                                                  \
  SAME_AS("_Znw" #size "RKSt9nothrow_t") void *_Zna##size##RKSt9nothrow_t(size_t bytes, const void *tag);                \
  SAME_AS("_Znw" #size "St11align_val_t") void *_Zna##size##St11align_val_t(size_t bytes, size_t alignment);             \
  SAME_AS("_Znw" #size "St11align_val_tRKSt9nothrow_t")                                                                  \
  void *_Zna##size##St11align_val_tRKSt9nothrow_t(size_t bytes, size_t alignment, const void *tag);                      \
  SAME_AS("_ZdlPv") void _ZdaPv(void *p);                                                                                \
  SAME_AS("_ZdlPv" #size) void _ZdaPv##size(void *p, size_t bytes);                                                      \
  SAME_AS("_ZdlPv") void _ZdlPvRKSt9nothrow_t(void *p);                                                                  \
  SAME_AS("_ZdlPv") void _ZdaPvRKSt9nothrow_t(void *p);                                                                  \
  SAME_AS("_ZdlPv") void _ZdlPvSt11align_val_t(void *p);                                                                 \
  SAME_AS("_ZdlPv") void _ZdaPvSt11align_val_t(void *p);                                                                 \
  SAME_AS("_ZdlPv" #size "St11align_val_t") void _ZdaPv##size##St11align_val_t(void *p, size_t bytes, size_t alignment); \
  SAME_AS("_ZdlPv") void _ZdlPvSt11align_val_tRKSt9nothrow_t(void *p);                                                   \
  SAME_AS("_ZdlPv") void _ZdaPvSt11align_val_tRKSt9nothrow_t(void *p);

WITH_LETTER(OPERATOR_NEW)
WITH_LETTER(OPERATOR_DELETE)
WITH_LETTER(SECOND_NAMES)
