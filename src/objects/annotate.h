/* Tells memory checkers which parts of an object's memory hold blocks.
 *
 * AddressSanitizer is found at run time, through weak references: a program built with it gets the checks also from a library that was
 * not. Valgrind needs its header at build time: compile with HD_VALGRIND=1.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OBJECTS_ANNOTATE_H
#define HD_OBJECTS_ANNOTATE_H

#include "base/bits.h"

#if defined(HD_VALGRIND) && defined(__has_include)
#if __has_include(<valgrind/memcheck.h>)
#include <valgrind/memcheck.h>
#define HD_ANNOTATE_VALGRIND 1
#endif
#endif

#ifndef HD_ANNOTATE_VALGRIND
#define RUNNING_ON_VALGRIND 0
#define VALGRIND_MAKE_MEM_NOACCESS(p, bytes) ((void)(p), (void)(bytes))
#define VALGRIND_MAKE_MEM_UNDEFINED(p, bytes) ((void)(p), (void)(bytes))
#define VALGRIND_MAKE_MEM_DEFINED(p, bytes) ((void)(p), (void)(bytes))
#endif

/* The sanitizer's interface; both are NULL in a process without it. */
__attribute__((weak, visibility("default"))) void __asan_poison_memory_region(const volatile void *p, size_t bytes);
__attribute__((weak, visibility("default"))) void __asan_unpoison_memory_region(const volatile void *p, size_t bytes);

/* Whether anybody listens. */
static inline bool hdi_annotate_active(void) { return __asan_poison_memory_region != NULL || RUNNING_ON_VALGRIND; }

/* No access to this memory any more. */
static inline void hdi_annotate_hide(const void *p, size_t bytes) {
  if (__asan_poison_memory_region != NULL) __asan_poison_memory_region(p, bytes);
  VALGRIND_MAKE_MEM_NOACCESS(p, bytes);
}

/* Access again; its content is undefined, or zero. */
static inline void hdi_annotate_show(const void *p, size_t bytes, bool defined) {
  if (__asan_unpoison_memory_region != NULL) __asan_unpoison_memory_region(p, bytes);
  if (defined) VALGRIND_MAKE_MEM_DEFINED(p, bytes);
  else VALGRIND_MAKE_MEM_UNDEFINED(p, bytes);
}

#endif
