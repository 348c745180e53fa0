/* What of the process's memory is resident, on Linux. See os.h.
 *
 * mincore tells, but it is not among the calls that services are allowed as a rule: a filter of system calls (seccomp) may end the process
 * for it. So where there is a filter, and where nobody knows, the process's own file of pages tells, which is read like any other. gVisor,
 * a sandbox, has no such file, and its mincore says of all memory that it is resident: there nobody tells.
 * SPDX-License-Identifier: MIT */
#include <string.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "base/text.h"
#include "os/linux_file.h"
#include "os/linux_memory.h"
#include "os/linux_syscall.h"
#include "os/os.h"

enum {
  ASKED_PAGES = 1024,  /* at once by mincore, */
  READ_PAGES = 128,    /* or from a file */
  STRETCH_PAGES = 64,  /* for which the first one stands where there are more */
  PRESENT_SHIFT = 63,  /* the bit of a page that is resident, in its eight bytes of the file */
  STATUS_BYTES = 2048, /* enough of the process's state, unless its user is in hundreds of groups */
  THREADS = 16,        /* that need not look for a filter each time, which takes some ten microseconds, */
  ANSWER_MS = 32       /* but once in so many milliseconds */
};

/* The second number of statm. */
size_t hdi_os_resident_bytes(void) {
  char text[128];
  uint64_t pages = 0;
  long length = hdi_os_read_file("/proc/self/statm", text, sizeof text - 1);
  if (length <= 0) return 0;
  text[length] = 0;
  const char *second = strchr(text, ' ');
  if (second == NULL || !hdi_text_read_bytes(second + 1, strcspn(second + 1, " "), &pages)) return 0;
  return (size_t)pages * hdi_os.page_bytes;
}

/* ---- filters of system calls ------------------------------------------------------------------------------------------- */

HD_START_TEXT(thread_status, "/proc/thread-self/status");
HD_START_TEXT(no_filter, "\nSeccomp:\t0\n");

/* Where the file can't be opened, for a time or at all, it is taken that there is one. */
static SLOW bool has_filter(bool *told) {
  char text[STATUS_BYTES];
  long fd = hdi_linux_open(thread_status);
  *told = !hdi_linux_failed(fd);
  if (!*told) return true;
  text[hdi_linux_read(fd, text, sizeof text - 1)] = 0;
  hdi_linux_close(fd);
  return strstr(text, no_filter) == NULL;
}

/* A thread may put up a filter at any time, for itself or for all, and has it for good. If one has, others are taken to have one, too. */
static SLOW bool is_filtered(void) {
  static atomic_bool found;
  static _Atomic uint64_t clear[THREADS]; /* a thread that had none, and when that was */
  if (hd_load_relaxed(&found)) return true;
  uint64_t thread = (uint64_t)(uintptr_t)hd_thread_pointer() * 0x9e3779b97f4a7c15u >> 32;
  uint64_t now = hdi_os_now_ms() / ANSWER_MS << 32 | thread;
  _Atomic uint64_t *slot = &clear[thread % THREADS];
  if (hd_load_relaxed(slot) == now) return false;
  bool told = false, is = has_filter(&told);
  if (!is) hd_store_relaxed(slot, now);
  else if (told) hd_store_relaxed(&found, true);
  return is;
}

/* ---- which pages ------------------------------------------------------------------------------------------------------- */

static bool ask_pages(const uint8_t *address, size_t count, unsigned char *present) {
  return !hdi_linux_failed(hdi_linux_mincore(address, count * hdi_os.page_bytes, present));
}

/* What was found out about it: nothing yet; that it says of all memory that it is resident; that it can be believed. */
enum { UNTRIED, USELESS, USEFUL };
static _Atomic unsigned char mincore_is;

/* Of a page that can't have been touched. */
static SLOW bool may_believe(void) {
  unsigned char found = hd_load_relaxed(&mincore_is), present = 0;
  if (found != UNTRIED) return found == USEFUL;
  uint8_t *closed = hdi_linux_map(NULL, hdi_os.page_bytes, PROT_NONE, 0);
  if (closed == NULL) return false;
  found = ask_pages(closed, 1, &present) && (present & 1u) == 0 ? USEFUL : USELESS;
  hdi_linux_unmap(closed, hdi_os.page_bytes);
  hd_store_relaxed(&mincore_is, found);
  return found == USEFUL;
}

/* The lowest bit of present[i]: whether page i is, as an entry of the process's file of pages says. */
static bool read_entries(long fd, const uint8_t *address, size_t count, unsigned char *present) {
  uint64_t entry[READ_PAGES];
  long at = (long)((uintptr_t)address / hdi_os.page_bytes * sizeof *entry);
  size_t bytes = count * sizeof *entry;
  if (hd_syscall3(SYS_lseek, fd, at, SEEK_SET) != at || hdi_linux_read(fd, entry, bytes) != bytes) return false;
  for (size_t i = 0; i < count; i++) present[i] = (unsigned char)(entry[i] >> PRESENT_SHIFT);
  return true;
}

/* To read an entry takes ten times as long as to be told by mincore. So of many the first one of each stretch stands for all of it. */
static bool read_pages(long fd, const uint8_t *address, size_t count, unsigned char *present) {
  if (count <= READ_PAGES) return read_entries(fd, address, count, present);
  for (size_t at = 0; at < count; at += STRETCH_PAGES) {
    if (!read_entries(fd, address + at * hdi_os.page_bytes, 1, present + at)) return false;
    memset(present + at, present[at], hd_min(count - at, STRETCH_PAGES));
  }
  return true;
}

/* How to ask, and whether that is possible; for one question. */
typedef struct way {
  bool told;
  long fd; /* the file of pages, or below 0 */
} way;

static SLOW way find_way(void) {
  static const char path[] = "/proc/self/pagemap";
  bool filtered = hd_load_relaxed(&mincore_is) != USELESS && is_filtered();
  long fd = filtered ? hdi_linux_open(path) : -1;
  return (way){.told = filtered ? !hdi_linux_failed(fd) : may_believe(), .fd = fd};
}

static inline bool ask(const way *by, const uint8_t *address, size_t count, unsigned char *present) {
  return by->told && (by->fd >= 0 ? read_pages(by->fd, address, count, present) : ask_pages(address, count, present));
}

static inline void leave_way(const way *by) {
  if (by->fd >= 0) hdi_linux_close(by->fd);
}

SLOW size_t hdi_os_resident_until(const void *address, size_t bytes, size_t *end) {
  unsigned char present[ASKED_PAGES];
  size_t pages = bytes / hdi_os.page_bytes, count = 0, last = 0;
  way by = find_way();
  bool told = by.told;
  for (size_t at = 0; told && at < pages; at += ASKED_PAGES) {
    size_t piece = hd_min(pages - at, ASKED_PAGES);
    told = ask(&by, (const uint8_t *)address + at * hdi_os.page_bytes, piece, present);
    for (size_t i = 0; told && i < piece; i++) {
      if ((present[i] & 1u) == 0) continue;
      count++;
      last = at + i + 1;
    }
  }
  leave_way(&by);
  *end = told ? last * hdi_os.page_bytes : bytes;
  return told ? count * hdi_os.page_bytes : 0;
}

size_t hdi_os_resident_in(const void *address, size_t bytes) {
  size_t end = 0;
  return hdi_os_resident_until(address, bytes, &end);
}

SLOW bool hdi_os_resident_pages(const void *address, size_t pages, uint8_t *resident) {
  way by = find_way();
  bool told = ask(&by, address, pages, resident);
  leave_way(&by);
  for (size_t i = 0; told && i < pages; i++) resident[i] &= 1u;
  return told;
}
