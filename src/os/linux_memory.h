/* What the files of the contract on Linux share: calls on mappings, and whether the program keeps its memory resident.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_LINUX_MEMORY_H
#define HD_OS_LINUX_MEMORY_H

#include <stdbool.h>
#include <stddef.h>
#include <sys/mman.h>

#include "os/linux_syscall.h"

#ifndef MAP_FIXED_NOREPLACE
#define MAP_FIXED_NOREPLACE 0x100000
#endif

static inline bool hdi_linux_failed(long result) { return result < 0 && result > -4096; }

static inline long hdi_linux_try_map(void *hint, size_t bytes, int protection, int extra) {
  return hd_syscall_mmap(hint, bytes, protection, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | extra);
}

static inline void *hdi_linux_map(void *hint, size_t bytes, int protection, int extra) {
  long result = hdi_linux_try_map(hint, bytes, protection, extra);
  return hdi_linux_failed(result) ? NULL : (void *)result;
}

static inline void hdi_linux_unmap(void *address, size_t bytes) { hd_syscall3(SYS_munmap, address, bytes, 0); }

static inline bool hdi_linux_advise(void *address, size_t bytes, int advice) {
  return !hdi_linux_failed(hd_syscall3(SYS_madvise, address, bytes, advice));
}

/* Whether the program has all its memory locked (mlockall): what it has, or what it maps from now on. What is locked can't be called cold.
 * The answer may be a quarter of a second old. */
bool hdi_linux_keeps_resident(void);

/* The system's own moves: one that leaves the source mapped, and an older one that unmaps it. And a call that always fails, with EFAULT
 * where the range is more than one of the system's and they would not move it. Tests put an older system in their place. */
long hdi_linux_move(void *from, void *to, size_t bytes);
long hdi_linux_move_away(void *from, void *to, size_t bytes);
long hdi_linux_try_range(void *from, size_t bytes);

/* The lowest bit of present[i]: whether page i is resident, as the system says. Tests put a sandbox in its place. */
long hdi_linux_mincore(const void *address, size_t bytes, unsigned char *present);

#endif
