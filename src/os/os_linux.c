/* The operating-system contract on Linux. See os.h.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <sched.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/mman.h>
#include <sys/resource.h>
#include <time.h>

#include "base/bits.h"
#include "base/text.h"
#include "os/linux_clock.h"
#include "os/linux_file.h"
#include "os/linux_memory.h"
#include "os/linux_syscall.h"
#include "os/os.h"

/* Numbers of the kernel's own headers, which do not come with every C library. */
enum {
  FUTEX_WAIT_OWN = 128, /* FUTEX_WAIT and FUTEX_WAKE, private to the process */
  FUTEX_WAKE_OWN = 129,
  DONTNEED_LOCKED = 24, /* MADV_DONTNEED_LOCKED, from Linux 5.18 on */
  POPULATE_WRITE = 23, /* MADV_POPULATE_WRITE, from Linux 5.14 on */
  BARRIER_NOW = 8, /* MEMBARRIER_CMD_PRIVATE_EXPEDITED, and its registration */
  BARRIER_PREPARE = 16
};

#ifndef MREMAP_DONTUNMAP
#define MREMAP_DONTUNMAP 4
#endif

hd_os_facts hdi_os;

long hdi_os_read_file(const char *path, char *buffer, size_t bytes) {
  long fd = hdi_linux_open(path);
  if (hdi_linux_failed(fd)) return -1;
  size_t have = hdi_linux_read(fd, buffer, bytes);
  hdi_linux_close(fd);
  return (long)have;
}

HD_START_TEXT(huge_mode, "/sys/kernel/mm/transparent_hugepage/enabled");

/* Where tables of pages fill a page with entries of eight bytes each, one of them maps a huge page. Elsewhere the system says. */
#if defined(__x86_64__) || defined(__aarch64__) || (defined(__riscv) && __riscv_xlen == 64)
static size_t huge_page_bytes(void) { return hdi_os.page_bytes / 8 * hdi_os.page_bytes; }
#else
static size_t huge_page_bytes(void) {
  static const char path[] = "/sys/kernel/mm/transparent_hugepage/hpage_pmd_size";
  char text[128];
  long length = hdi_os_read_file(path, text, sizeof text - 1);
  uint64_t bytes = 0;
  while (length > 0 && (text[length - 1] < '0' || text[length - 1] > '9')) length--;
  bool told = length > 0 && hdi_text_read_bytes(text, (size_t)length, &bytes) && hd_is_power_of_2(bytes);
  return told ? (size_t)bytes : 2 * HD_MIB;
}
#endif

/* The mode stands in brackets: always madvise [never]. */
static void read_huge_mode(void) {
  char text[128];
  long length = hdi_os_read_file(huge_mode, text, sizeof text - 1);
  if (length <= 0) return;
  text[length] = 0;
  const char *mode = text;
  while (*mode != 0 && *mode != '[') mode++;
  hdi_os.huge_always = *mode == '[' && mode[1] == 'a';
  if (*mode != '[' || mode[1] != 'n') hdi_os.huge_bytes = huge_page_bytes();
}

static void read_ram(void) {
  /* sysinfo's layout differs between machines only behind these fields. */
  struct {
    long uptime;
    unsigned long loads[3], total, rest[5];
    unsigned short procs, pad;
    unsigned long high[2];
    unsigned int unit;
    char tail[64];
  } info;
  memset(&info, 0, sizeof info);
  if (hdi_linux_failed(hd_syscall3(SYS_sysinfo, &info, 0, 0))) return;
  uint64_t bytes = (uint64_t)info.total * (info.unit ? info.unit : 1);
  hdi_os.ram_bytes = bytes > SIZE_MAX ? SIZE_MAX : (size_t)bytes;
}

void hdi_os_init(void) {
  hdi_os.page_bytes = getauxval(AT_PAGESZ);
  if (!hd_is_power_of_2(hdi_os.page_bytes)) hdi_os.page_bytes = 4096;
  hdi_os.ram_bytes = HD_GIB;
  hdi_os.can_move = true;
  hdi_os.cpu_count = 0;
  hdi_os.secure = getauxval(AT_SECURE) != 0;
  read_ram();
  read_huge_mode();
  unsigned char cpus[1024];
  memset(cpus, 0, sizeof cpus);
  long length = hd_syscall3(SYS_sched_getaffinity, 0, sizeof cpus, cpus);
  for (long i = 0; i < length; i++) hdi_os.cpu_count += hd_bit_count(cpus[i]);
  if (hdi_os.cpu_count == 0) hdi_os.cpu_count = 1;
}

/* An exact mapping rarely falls on the alignment; the range just below it is free more often than not, and asking for
 * that one costs no address space that a limit would count. */
static void *reserve_near(size_t bytes, size_t alignment, int protection) {
  void *first = hdi_linux_map(NULL, bytes, protection, 0);
  if (first == NULL || ((uintptr_t)first & (alignment - 1)) == 0) return first;
  hdi_os_unreserve(first, bytes);
  void *wanted = (void *)hd_round_down((uintptr_t)first, alignment);
  void *second = hdi_linux_map(wanted, bytes, protection, MAP_FIXED_NOREPLACE);
  if (second == wanted) return second;
  if (second != NULL) hdi_os_unreserve(second, bytes);
  return NULL;
}

void *hdi_os_reserve(size_t bytes, size_t alignment, bool readable) {
  int protection = readable ? PROT_READ : PROT_NONE;
  void *near = reserve_near(bytes, alignment, protection);
  if (near != NULL) return near;
  size_t wide = bytes + alignment;
  if (wide < bytes) return NULL;
  uint8_t *range = hdi_linux_map(NULL, wide, protection, 0);
  if (range == NULL) return NULL;
  uint8_t *start = (uint8_t *)hd_round_up((uintptr_t)range, alignment);
  if (start > range) hdi_os_unreserve(range, (size_t)(start - range));
  size_t behind = (size_t)(range + wide - (start + bytes));
  if (behind > 0) hdi_os_unreserve(start + bytes, behind);
  return start;
}

hd_claim hdi_os_claim(void *address, size_t bytes) {
  long got = hdi_linux_try_map(address, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE);
  if (got == (long)address) return HD_CLAIM_DONE;
  if (hdi_linux_failed(got)) return got == -EEXIST ? HD_CLAIM_TAKEN : HD_CLAIM_REFUSED;
  hdi_os_unreserve((void *)got, bytes); /* a kernel that takes the address for a mere wish */
  return HD_CLAIM_TAKEN;
}

void hdi_os_unreserve(void *address, size_t bytes) { hdi_linux_unmap(address, bytes); }

void hdi_os_unclaim(void *address, size_t bytes) { hdi_os_unreserve(address, bytes); }

bool hdi_os_commit(void *address, size_t bytes) {
  return !hdi_linux_failed(hd_syscall3(SYS_mprotect, address, bytes, PROT_READ | PROT_WRITE));
}

bool hdi_os_close(void *address, size_t bytes) { return !hdi_linux_failed(hd_syscall3(SYS_mprotect, address, bytes, PROT_NONE)); }

/* Pages that a program has locked are not given up for the asking: before Linux 5.18 they have to be unlocked. */
static bool give_up_locked(void *address, size_t bytes) {
  if (hdi_linux_advise(address, bytes, DONTNEED_LOCKED)) return true;
  return !hdi_linux_failed(hd_syscall3(SYS_munlock, address, bytes, 0)) && hdi_linux_advise(address, bytes, MADV_DONTNEED);
}

bool hdi_os_guard(void *address, size_t bytes, bool on) {
  if (!on) return hdi_os_commit(address, bytes);
  bool empty = hdi_linux_advise(address, bytes, MADV_DONTNEED) || give_up_locked(address, bytes);
  return empty && hdi_os_close(address, bytes);
}

/* A program may have locked pages of its blocks, and freed those. */
bool hdi_os_purge(void *address, size_t bytes) {
  return hdi_linux_advise(address, bytes, MADV_DONTNEED) || (!hdi_linux_keeps_resident() && give_up_locked(address, bytes));
}

long hdi_linux_move(void *from, void *to, size_t bytes) {
  return hd_syscall6(SYS_mremap, (long)from, (long)bytes, (long)bytes, MREMAP_MAYMOVE | MREMAP_FIXED | MREMAP_DONTUNMAP, (long)to, 0);
}

long hdi_linux_move_away(void *from, void *to, size_t bytes) {
  return hd_syscall6(SYS_mremap, (long)from, (long)bytes, (long)bytes, MREMAP_MAYMOVE | MREMAP_FIXED, (long)to, 0);
}

/* May it grow where it is, to the end of all addresses? It never may, but whether it is one range is looked at first. Newer systems look at
 * the length before that, and move several ranges at once. */
long hdi_linux_try_range(void *from, size_t bytes) {
  return hd_syscall6(SYS_mremap, (long)from, (long)bytes, (long)hd_round_down(SIZE_MAX, hdi_os.page_bytes), 0, 0, 0);
}

long hdi_linux_mincore(const void *address, size_t bytes, unsigned char *present) {
  return hd_syscall3(SYS_mincore, address, bytes, present);
}

void hdi_os_huge(void *address, size_t bytes, bool on) { hdi_linux_advise(address, bytes, on ? MADV_HUGEPAGE : MADV_NOHUGEPAGE); }

uint64_t hdi_os_touch(void *address, size_t bytes) {
  uint64_t before = hdi_linux_clock_ns(CLOCK_THREAD_CPUTIME_ID);
  return hdi_linux_advise(address, bytes, POPULATE_WRITE) ? hdi_linux_clock_ns(CLOCK_THREAD_CPUTIME_ID) - before : 0;
}

void hdi_os_wait(atomic_uint *word, unsigned expected, unsigned timeout_ms) {
  hd_linux_time limit = {(long)(timeout_ms / 1000), (long)(timeout_ms % 1000) * 1000000};
  const void *timeout = timeout_ms == UINT32_MAX ? NULL : &limit;
  hd_syscall6(SYS_futex, (long)word, FUTEX_WAIT_OWN, (long)expected, (long)timeout, 0, 0);
}

void hdi_os_wake(atomic_uint *word) { hd_syscall6(SYS_futex, (long)word, FUTEX_WAKE_OWN, INT_MAX, 0, 0, 0); }

bool hdi_os_heavy_barrier(void) { return !hdi_linux_failed(hd_syscall3(SYS_membarrier, BARRIER_NOW, 0, 0)); }

bool hdi_os_heavy_barrier_init(void) { return !hdi_linux_failed(hd_syscall3(SYS_membarrier, BARRIER_PREPARE, 0, 0)); }

void hdi_os_yield(void) { hd_syscall3(SYS_sched_yield, 0, 0, 0); }

unsigned hdi_os_thread_id(void) { return (unsigned)hd_syscall3(SYS_gettid, 0, 0, 0); }

bool hdi_os_thread_alive(unsigned thread_id) { return !hdi_linux_failed(hd_syscall3(SYS_tgkill, hdi_os_process_id(), thread_id, 0)); }

unsigned hdi_os_process_id(void) { return (unsigned)hd_syscall3(SYS_getpid, 0, 0, 0); }

uint64_t hdi_os_random(void) {
  uint64_t bits = 0;
  if (hd_syscall3(SYS_getrandom, &bits, sizeof bits, 1) == (long)sizeof bits) return bits;
  const void *seed = (const void *)getauxval(AT_RANDOM);
  if (seed != NULL) memcpy(&bits, seed, sizeof bits);
  return bits ^ (hdi_os_now_ms() * 0x9e3779b97f4a7c15u);
}

void hdi_os_write(int fd, const char *text, size_t length) {
  while (length > 0) {
    long part = hd_syscall3(SYS_write, fd, text, length);
    if (part == -EINTR) continue;
    if (part <= 0) return;
    text += part;
    length -= (size_t)part;
  }
}

_Noreturn void hdi_os_abort(void) {
  /* No C library on this way: its abort() takes a lock that the broken program may hold. */
  struct {
    void (*handler)(int);
    unsigned long flags;
    void (*restorer)(void);
    uint64_t mask;
  } plain = {SIG_DFL, 0, NULL, 0};
  long process = hd_syscall3(SYS_getpid, 0, 0, 0);
  uint64_t mask = (uint64_t)1 << (SIGABRT - 1);
  hd_syscall6(SYS_rt_sigprocmask, SIG_UNBLOCK, (long)&mask, 0, sizeof mask, 0, 0);
  hd_syscall3(SYS_tgkill, process, hdi_os_thread_id(), SIGABRT); /* a handler may speak first */
  hd_syscall6(SYS_rt_sigaction, SIGABRT, (long)&plain, 0, sizeof mask, 0, 0);
  hd_syscall3(SYS_tgkill, process, hdi_os_thread_id(), SIGABRT);
  for (;;) __builtin_trap();
}
