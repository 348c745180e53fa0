/* System calls of Linux without the C library's wrappers: those write errno, which the purge helper must not touch.
 * The result is the kernel's: a negative error number or the value.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_LINUX_SYSCALL_H
#define HD_OS_LINUX_SYSCALL_H

#include <sys/syscall.h>

#if defined(__x86_64__) && !defined(__ILP32__)
static inline long hd_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  register long r10 __asm__("r10") = d;
  register long r8 __asm__("r8") = e;
  register long r9 __asm__("r9") = f;
  __asm__ volatile("syscall" : "=a"(result) : "a"(number), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9) : "rcx", "r11", "memory");
  return result;
}
#elif defined(__aarch64__)
static inline long hd_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  register long x8 __asm__("x8") = number;
  register long x0 __asm__("x0") = a;
  register long x1 __asm__("x1") = b;
  register long x2 __asm__("x2") = c;
  register long x3 __asm__("x3") = d;
  register long x4 __asm__("x4") = e;
  register long x5 __asm__("x5") = f;
  __asm__ volatile("svc 0" : "+r"(x0) : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5) : "memory");
  return x0;
}
#else
#include <errno.h>
#include <unistd.h>
/* Other machines go through the library and put errno back; they start no bare thread. */
static inline long hd_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  int kept = errno;
  long result = syscall(number, a, b, c, d, e, f);
  if (result == -1) result = -errno;
  errno = kept;
  return result;
}
#endif

#define hd_syscall3(number, a, b, c) hd_syscall6((number), (long)(a), (long)(b), (long)(c), 0, 0, 0)

#endif
