/* The bare helper thread of Linux: a kernel thread of this process that the C library never hears of.
 *
 * Why not pthread_create: it would allocate, take the library's locks (free is called under some of them), and count as a
 * thread of the program, so that a program whose main thread leaves with pthread_exit would never end. The bare thread has
 * no thread-local storage but a dummy block, so that its thread pointer is its own and a stack protector finds its word.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <sched.h>
#include <signal.h>
#include <sys/auxv.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/linux_memory.h"
#include "os/linux_syscall.h"
#include "os/os.h"

#if defined(__x86_64__) || defined(__aarch64__) || defined(__riscv) || defined(__i386__) || defined(__arm__) || defined(__s390x__)
#define HD_BARE_THREADS 1
#endif

#if defined(HD_SANITIZE_THREAD) || !defined(HD_BARE_THREADS)
bool hdi_os_helper_start(void (*run)(void), void *stack, size_t stack_bytes, atomic_uint *alive) {
  (void)run, (void)stack, (void)stack_bytes, (void)alive;
  return false;
}

bool hdi_os_helper_outranks(void) { return false; }
#else

enum {
  STORAGE_AT = 8192, /* the dummy block: variables of threads lie below it or above, as the machine has it */
  RIGHTS_VERSION = 0x20080522 /* _LINUX_CAPABILITY_VERSION_3 */
};

/* A thread's capabilities: those in effect, those it may put in effect, those it hands on. Two words of each. */
typedef struct rights {
  struct {
    uint32_t effective, permitted, inheritable;
  } half[2];
} rights;

/* What the helper was born with; nothing where the process cannot have had more rights than anybody, and is not asked. */
static rights helper_rights;

static bool may_be_privileged(void) { return getauxval(AT_UID) == 0 || getauxval(AT_EUID) == 0 || getauxval(AT_SECURE) != 0; }

static rights rights_of(long thread) {
  const struct {
    uint32_t version;
    int thread;
  } whose = {RIGHTS_VERSION, (int)thread};
  rights found = {0};
  if (hdi_linux_failed(hd_syscall3(SYS_capget, &whose, &found, 0))) return (rights){0};
  return found;
}

static uint32_t lacks(const rights *has, const rights *wanted, int half) {
  return (wanted->half[half].effective & ~has->half[half].effective) | (wanted->half[half].permitted & ~has->half[half].permitted);
}

/* The program's first thread stands for all of them. */
bool hdi_os_helper_outranks(void) {
  if ((helper_rights.half[0].permitted | helper_rights.half[1].permitted) == 0) return false;
  rights program = rights_of(hd_syscall3(SYS_getpid, 0, 0, 0));
  return (lacks(&program, &helper_rights, 0) | lacks(&program, &helper_rights, 1)) != 0;
}

/* clone() and, in the new thread, run() then exit: one piece of assembly, because the child returns on another stack. */
#if defined(__x86_64__)
static long clone_bare(unsigned long flags, void *stack_top, void *storage, atomic_uint *alive, void (*run)(void)) {
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
}
#elif defined(__aarch64__)
static long clone_bare(unsigned long flags, void *stack_top, void *storage, atomic_uint *alive, void (*run)(void)) {
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
}
#elif defined(__riscv)
static long clone_bare(unsigned long flags, void *stack_top, void *storage, atomic_uint *alive, void (*run)(void)) {
  register long a7 __asm__("a7") = SYS_clone;
  register long a0 __asm__("a0") = (long)flags;
  register long a1 __asm__("a1") = (long)stack_top;
  register long a2 __asm__("a2") = 0;
  register long a3 __asm__("a3") = (long)storage;
  register long a4 __asm__("a4") = (long)alive;
  register void (*t3)(void) __asm__("t3") = run;
  __asm__ volatile(
      "ecall\n\t"
      "bnez a0, 1f\n\t"
      "li s0, 0\n\t"
      "jalr t3\n\t"
      "li a0, 0\n\t"
      "li a7, %[exit]\n\t"
      "ecall\n\t"
      "ebreak\n"
      "1:"
      : "+r"(a0)
      : "r"(a7), "r"(a1), "r"(a2), "r"(a3), "r"(a4), "r"(t3), [exit] "i"(SYS_exit)
      : "ra", "memory");
  return a0;
}
#elif defined(__i386__)
static long clone_bare(unsigned long flags, void *stack_top, void *storage, atomic_uint *alive, void (*run)(void)) {
  /* The entry waits on the new stack. The selector of the thread's storage stays the same one, with another base behind it. */
  unsigned selector;
  __asm__("mov %%gs, %0" : "=r"(selector));
  __asm__("mov %%gs:0x10, %0" : "=r"(((void **)storage)[4])); /* how the C library enters the kernel */
  const unsigned descriptor[4] = {selector >> 3, (unsigned)storage, 0xfffff, 0x51 /* 32 bits, in pages, usable */};
  void **top = (void **)stack_top - 4;
  long result;
  top[0] = (void *)run;
  __asm__ volatile(
      "int $0x80\n\t"
      "test %%eax, %%eax\n\t"
      "jnz 1f\n\t"
      "xor %%ebp, %%ebp\n\t"
      "mov (%%esp), %%eax\n\t"
      "call *%%eax\n\t"
      "xor %%ebx, %%ebx\n\t"
      "mov %[exit], %%eax\n\t"
      "int $0x80\n\t"
      "hlt\n"
      "1:"
      : "=a"(result)
      : "a"((long)SYS_clone), "b"(flags), "c"(top), "d"(0L), "S"(descriptor), "D"(alive), [exit] "i"(SYS_exit)
      : "memory", "cc");
  return result;
}
#elif defined(__arm__)
static long clone_bare(unsigned long flags, void *stack_top, void *storage, atomic_uint *alive, void (*run)(void)) {
  register long r0 __asm__("r0") = (long)flags;
  register long r1 __asm__("r1") = (long)stack_top;
  register long r2 __asm__("r2") = 0;
  register long r3 __asm__("r3") = (long)storage;
  register long r4 __asm__("r4") = (long)alive;
  register void (*r5)(void) __asm__("r5") = run;
  register long r6 __asm__("r6") = SYS_clone;
  __asm__ volatile(
      "mov ip, r7\n\t"
      "mov r7, r6\n\t"
      "svc 0\n\t"
      "cmp r0, #0\n\t"
      "bne 1f\n\t"
      "blx r5\n\t"
      "mov r0, #0\n\t"
      "mov r7, %[exit]\n\t"
      "svc 0\n\t"
      "udf #0\n"
      "1:\n\t"
      "mov r7, ip"
      : "+r"(r0)
      : "r"(r1), "r"(r2), "r"(r3), "r"(r4), "r"(r5), "r"(r6), [exit] "i"(SYS_exit)
      : "ip", "lr", "cc", "memory");
  return r0;
}
#else
static long clone_bare(unsigned long flags, void *stack_top, void *storage, atomic_uint *alive, void (*run)(void)) {
  /* IBM Z: the stack comes first, and a function finds room for 160 bytes of its caller's on it. */
  register long r1 __asm__("r1") = SYS_clone;
  register long r2 __asm__("r2") = (long)stack_top - 160;
  register long r3 __asm__("r3") = (long)flags;
  register long r4 __asm__("r4") = 0;
  register long r5 __asm__("r5") = (long)alive;
  register long r6 __asm__("r6") = (long)storage;
  register void (*r7)(void) __asm__("r7") = run;
  __asm__ volatile(
      "svc 0\n\t"
      "ltgr %%r2, %%r2\n\t"
      "jne 1f\n\t"
      "basr %%r14, %%r7\n\t"
      "lghi %%r2, 0\n\t"
      "lghi %%r1, %[exit]\n\t"
      "svc 0\n\t"
      "j .\n"
      "1:"
      : "+r"(r2)
      : "r"(r1), "r"(r3), "r"(r4), "r"(r5), "r"(r6), "r"(r7), [exit] "i"(SYS_exit)
      : "r14", "cc", "memory");
  return r2;
}
#endif

bool hdi_os_helper_start(void (*run)(void), void *stack, size_t stack_bytes, atomic_uint *alive) {
  const unsigned long flags =
      CLONE_VM | CLONE_FS | CLONE_FILES | CLONE_SIGHAND | CLONE_THREAD | CLONE_SYSVSEM | CLONE_SETTLS | CLONE_CHILD_CLEARTID;
  uint8_t *top = (uint8_t *)stack + stack_bytes;
  void **storage = (void **)((uint8_t *)stack + STORAGE_AT);
  storage[0] = storage; /* the thread pointer, where the ABI of x86-64 looks for it */
  uint64_t all = UINT64_MAX;
  uint64_t kept = 0;
  helper_rights = may_be_privileged() ? rights_of(0) : (rights){0};
  atomic_store_explicit(alive, 1, memory_order_relaxed);
  hd_syscall6(SYS_rt_sigprocmask, SIG_BLOCK, (long)&all, (long)&kept, sizeof all, 0, 0);
  long result = clone_bare(flags, (void *)hd_round_down((uintptr_t)top, 16), storage, alive, run);
  hd_syscall6(SYS_rt_sigprocmask, SIG_SETMASK, (long)&kept, 0, sizeof all, 0, 0);
  if (result > 0) return true;
  atomic_store_explicit(alive, 0, memory_order_relaxed);
  return false;
}
#endif
