/* System calls of Linux without the C library's wrappers: those write errno, which the purge helper must not touch.
 * The result is the kernel's: a negative error number or the value.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_LINUX_SYSCALL_H
#define HD_OS_LINUX_SYSCALL_H

#include <stddef.h>
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
#elif defined(__riscv) && __riscv_xlen == 64
static inline long hd_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  register long a7 __asm__("a7") = number;
  register long a0 __asm__("a0") = a;
  register long a1 __asm__("a1") = b;
  register long a2 __asm__("a2") = c;
  register long a3 __asm__("a3") = d;
  register long a4 __asm__("a4") = e;
  register long a5 __asm__("a5") = f;
  __asm__ volatile("ecall" : "+r"(a0) : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(a5) : "memory");
  return a0;
}
#elif defined(__i386__)
/* The sixth argument goes by way of the stack: its register may be the frame pointer. */
static inline long hd_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  long result;
  __asm__ volatile(
      "push %[sixth]\n\t"
      "push %%ebp\n\t"
      "mov 4(%%esp), %%ebp\n\t"
      "int $0x80\n\t"
      "pop %%ebp\n\t"
      "add $4, %%esp"
      : "=a"(result)
      : "a"(number), "b"(a), "c"(b), "d"(c), "S"(d), "D"(e), [sixth] "m"(f)
      : "memory", "cc");
  return result;
}
#elif defined(__arm__)
/* r7, which takes the number, may be the frame pointer. */
static inline long hd_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  register long r0 __asm__("r0") = a;
  register long r1 __asm__("r1") = b;
  register long r2 __asm__("r2") = c;
  register long r3 __asm__("r3") = d;
  register long r4 __asm__("r4") = e;
  register long r5 __asm__("r5") = f;
  __asm__ volatile(
      "mov ip, r7\n\t"
      "mov r7, %[number]\n\t"
      "svc 0\n\t"
      "mov r7, ip"
      : "+r"(r0)
      : [number] "r"(number), "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5)
      : "ip", "memory");
  return r0;
}
#elif defined(__s390x__)
static inline long hd_syscall6(long number, long a, long b, long c, long d, long e, long f) {
  register long r1 __asm__("r1") = number;
  register long r2 __asm__("r2") = a;
  register long r3 __asm__("r3") = b;
  register long r4 __asm__("r4") = c;
  register long r5 __asm__("r5") = d;
  register long r6 __asm__("r6") = e;
  register long r7 __asm__("r7") = f;
  __asm__ volatile("svc 0" : "+r"(r2) : "r"(r1), "r"(r3), "r"(r4), "r"(r5), "r"(r6), "r"(r7) : "memory");
  return r2;
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

/* mmap of no file. Where an offset may not fit into a word the call counts it in pages; on IBM Z it takes a list. */
#if defined(__s390x__)
static inline long hd_syscall_mmap(void *hint, size_t bytes, int protection, int flags) {
  long list[6] = {(long)hint, (long)bytes, protection, flags, -1, 0};
  return hd_syscall6(SYS_mmap, (long)list, 0, 0, 0, 0, 0);
}
#else
#ifdef SYS_mmap2
#define HD_SYS_MMAP SYS_mmap2
#else
#define HD_SYS_MMAP SYS_mmap
#endif
static inline long hd_syscall_mmap(void *hint, size_t bytes, int protection, int flags) {
  return hd_syscall6(HD_SYS_MMAP, (long)hint, (long)bytes, protection, flags, -1, 0);
}
#endif

#define hd_syscall3(number, a, b, c) hd_syscall6((number), (long)(a), (long)(b), (long)(c), 0, 0, 0)

#endif
