/* The next allocator in the process, on Linux, and who is watching. See next.h.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <dlfcn.h>
#include <stdint.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/next.h"

/* Sanitizers bring these; a weak reference is NULL where they are absent. */
extern void __asan_init(void) __attribute__((weak));
extern void __tsan_init(void) __attribute__((weak));
extern void __msan_init(void) __attribute__((weak));
extern void __hwasan_init(void) __attribute__((weak));

static void *find(const char *name) {
  /* dlsym's result may not be converted to a function pointer by the letter of C; POSIX says it may. */
  return dlsym(RTLD_NEXT, name);
}

const hd_next *hdi_next_get(void) {
  static hd_next next;
  static atomic_uint resolved;
  if (HD_LIKELY(hd_load_acquire(&resolved) != 0)) return &next;
  /* Two threads may do this at once; they write the same values. */
  *(void **)&next.malloc = find("malloc");
  *(void **)&next.free = find("free");
  *(void **)&next.calloc = find("calloc");
  *(void **)&next.realloc = find("realloc");
  *(void **)&next.memalign = find("memalign");
  *(void **)&next.usable = find("malloc_usable_size");
  hd_store_release(&resolved, 1u);
  return &next;
}

/* Valgrind's documented question: rotations that leave the register as it was, then an exchange that does nothing; run by
 * valgrind they put the answer in rdx. Request 0x1001 asks how many valgrinds are below. */
static bool runs_on_valgrind(void) {
#if defined(__x86_64__)
  volatile uint64_t request[6] = {0};
  request[0] = 0x1001; /* by itself: as a part of the initializer it is a constant to be read; HD_START_TEXT has why that costs */
  uint64_t answer = 0;
  __asm__ volatile("rolq $3, %%rdi\n\trolq $13, %%rdi\n\trolq $61, %%rdi\n\trolq $51, %%rdi\n\txchgq %%rbx, %%rbx"
                   : "+d"(answer)
                   : "a"(&request[0])
                   : "cc", "memory", "rdi");
  return answer != 0;
#else
  return false;
#endif
}

bool hdi_next_is_watched(void) {
  return __asan_init != NULL || __tsan_init != NULL || __msan_init != NULL || __hwasan_init != NULL || runs_on_valgrind();
}
