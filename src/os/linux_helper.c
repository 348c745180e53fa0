/* The bare helper thread of Linux: a kernel thread of this process that the C library never hears of.
 *
 * Why not pthread_create: it would allocate, take the library's locks (free is called under some of them), and count as a
 * thread of the program, so that a program whose main thread leaves with pthread_exit would never end. The bare thread has
 * no thread-local storage but a dummy block, so that its thread pointer is its own and a stack protector finds its word.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/linux_syscall.h"
#include "os/os.h"

#if defined(HD_SANITIZE_THREAD) || !(defined(__x86_64__) || defined(__aarch64__))
bool hdi_os_helper_start(void (*run)(void), void *stack, size_t stack_bytes, atomic_uint *alive) {
  (void)run, (void)stack, (void)stack_bytes, (void)alive;
  return false;
}
#else

enum { STORAGE_AT = 8192 /* the dummy block: its variables lie below on x86-64, above on aarch64 */ };

/* clone() and, in the new thread, run() then exit: one piece of assembly, because the child returns on another stack. */
static long clone_bare(unsigned long flags, void *stack_top, void *storage, atomic_uint *alive, void (*run)(void)) {
#if defined(__x86_64__)
  long result;
  register long child_word __asm__("r10") = (long)alive;
  register long tls __asm__("r8") = (long)storage;
  register void (*entry)(void) __asm__("r9") = run;
  __asm__ volatile(
      "syscall\n\t"
      "test %%rax, %%rax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "call *%%r9\n\t"
      "xor %%edi, %%edi\n\t"
      "mov %[exit], %%eax\n\t"
      "syscall\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"((long)SYS_clone), "D"(flags), "S"(stack_top), "d"(0L), "r"(child_word), "r"(tls), "r"(entry), [exit] "i"(SYS_exit)
      : "rcx", "r11", "memory");
  return result;
#else
  register long x8 __asm__("x8") = SYS_clone;
  register long x0 __asm__("x0") = (long)flags;
  register long x1 __asm__("x1") = (long)stack_top;
  register long x2 __asm__("x2") = 0;
  register long x3 __asm__("x3") = (long)storage;
  register long x4 __asm__("x4") = (long)alive;
  register void (*x9)(void) __asm__("x9") = run;
  __asm__ volatile(
      "svc 0\n\t"
      "cbnz x0, 1f\n\t"
      "mov x29, xzr\n\t"
      "blr x9\n\t"
      "mov x0, xzr\n\t"
      "mov x8, %[exit]\n\t"
      "svc 0\n\t"
      "brk 0\n"
      "1:"
      : "+r"(x0)
      : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x9), [exit] "i"(SYS_exit)
      : "x30", "memory");
  return x0;
#endif
}

bool hdi_os_helper_start(void (*run)(void), void *stack, size_t stack_bytes, atomic_uint *alive) {
  const unsigned long flags =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID;
  uint8_t *top = (uint8_t *)stack + stack_bytes;
  void **storage = (void **)((uint8_t *)stack + STORAGE_AT);
  storage[0] = storage; /* the thread pointer, where the ABI of x86-64 looks for it */
  uint64_t all = UINT64_MAX;
  uint64_t kept = 0;
  atomic_store_explicit(alive, 1, memory_order_relaxed);
  hd_syscall6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&kept, sizeof all, 0, 0);
  long result = clone_bare(flags, (void *)hd_round_down((uintptr_t)top, 16), storage, alive, run);
  hd_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&kept, 0, sizeof all, 0, 0);
  if (result > 0) return true;
  atomic_store_explicit(alive, 0, memory_order_relaxed);
  return false;
}
#endif
