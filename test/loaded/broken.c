/* Allocators that are broken on purpose: the check of real programs has to find each out.
 *
 *   BREAK_CALLOC   now and then a calloc is not all zero
 *   BREAK_REALLOC  now and then a realloc changes a byte of what it should keep
 *   BREAK_MALLOC   now and then a block that lives is handed out a second time
 *   (none)         forwards nothing: mapped, and of no use to anybody
 * Now and then: the BREAK_EVERY-th call.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <malloc.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>

/* glibc's allocator under its other names. */
extern void *__libc_malloc(size_t bytes);
extern void *__libc_calloc(size_t count, size_t bytes);
extern void *__libc_realloc(void *p, size_t bytes);
extern void __libc_free(void *p);

const char broken_name[] = "a broken allocator"; /* so that the library is never empty */

#ifdef BREAK_EVERY
static bool due(atomic_uint *calls) {
  return atomic_fetch_add_explicit(calls, 1, memory_order_relaxed) % BREAK_EVERY == BREAK_EVERY - 1;
}
#endif

#ifdef BREAK_CALLOC
void *calloc(size_t count, size_t bytes) {
  static atomic_uint calls;
  char *p = __libc_calloc(count, bytes);
  if (p && count * bytes > 64 && due(&calls)) p[count * bytes / 2] = 1;
  return p;
}
#endif

#ifdef BREAK_REALLOC
void *realloc(void *old, size_t bytes) {
  static atomic_uint calls;
  size_t before = old ? malloc_usable_size(old) : 0;
  char *p = __libc_realloc(old, bytes);
  if (p && before > 32 && bytes > before && due(&calls)) p[before / 2 & ~(size_t)7] ^= 1;
  return p;
}
#endif

#ifdef BREAK_MALLOC
static _Atomic(void *) youngest, /* the block of the last call, while it lives */
    shared;                      /* a block with two owners: the first free of it does nothing */

void *malloc(size_t bytes) {
  static atomic_uint calls;
  if (bytes >= 24 && due(&calls)) {
    void *p = atomic_exchange(&youngest, NULL);
    if (p && malloc_usable_size(p) >= bytes && !atomic_load(&shared)) {
      atomic_store(&shared, p);
      return p;
    }
  }
  void *p = __libc_malloc(bytes);
  atomic_store(&youngest, p);
  return p;
}

void free(void *p) {
  void *expected = p;
  if (p && atomic_compare_exchange_strong(&shared, &expected, NULL)) return;
  expected = p;
  atomic_compare_exchange_strong(&youngest, &expected, NULL);
  __libc_free(p);
}
#endif
