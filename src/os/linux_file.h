/* Reading the system's own files on Linux, without the C library.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_LINUX_FILE_H
#define HD_OS_LINUX_FILE_H

#include <errno.h>
#include <fcntl.h>
#include <stddef.h>

#include "os/linux_memory.h"
#include "os/linux_syscall.h"

/* A descriptor, or what failed (hdi_linux_failed). */
static inline long hdi_linux_open(const char *path) { return hd_syscall6(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_CLOEXEC, 0, 0, 0); }

static inline void hdi_linux_close(long fd) { hd_syscall3(SYS_close, fd, 0, 0); }

/* As much as there is, up to so many bytes. */
static inline size_t hdi_linux_read(long fd, void *buffer, size_t bytes) {
  size_t have = 0;
  while (have < bytes) {
    long part = hd_syscall3(SYS_read, fd, (char *)buffer + have, bytes - have);
    if (part == -EINTR) continue;
    if (part <= 0) break;
    have += (size_t)part;
  }
  return have;
}

#endif
