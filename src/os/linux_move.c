/* Memory that moves by its page tables, or that the program keeps where it is.
 *
 * The system keeps memory as ranges of like properties. Before Linux 6.17 it moves only what lies in one of them, and finds out when it has
 * unmapped what lay at the target. Our memory is cut into ranges where huge pages are asked for, and programs cut it themselves where they
 * lock pages or keep them from children: so a move goes range by range, and each is tried out first (decision 47). Before Linux 5.7 it
 * unmaps where the pages were, too (decision 49).
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/resource.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "os/linux_memory.h"
#include "os/os.h"

enum {
  COLD = 20, /* MADV_COLD, from Linux 5.4 on */
  ANSWER_MS = 256
};

HD_START_TEXT(overcommit_mode, "/proc/sys/vm/overcommit_memory");

/* ---- memory that stays resident ---------------------------------------------------------------------------------- */

/* Of a page that holds nothing, or what a file holds: to give it back is refused where it is locked. */
static bool is_locked(void *page) { return !hdi_linux_advise(page, hdi_os.page_bytes, MADV_DONTNEED); }

/* What is locked can't be called cold, and where nothing can be it is the code's page that would be read again. */
static bool is_all_locked(void *fresh) {
  bool knows_cold = fresh == NULL || hdi_linux_advise(fresh, hdi_os.page_bytes, COLD);
  void *data = (void *)hd_round_down((uintptr_t)&hdi_os, hdi_os.page_bytes);
  void *code = (void *)hd_round_down((uintptr_t)hdi_linux_keeps_resident, hdi_os.page_bytes);
  return knows_cold ? !hdi_linux_advise(data, hdi_os.page_bytes, COLD) : is_locked(code);
}

bool hdi_linux_keeps_resident(void) {
  static _Atomic uint64_t asked;
  static atomic_bool answer;
  uint64_t now = hdi_os_now_ms() / ANSWER_MS + 1;
  if (hd_load_relaxed(&asked) == now) return hd_load_relaxed(&answer);
  void *fresh = hdi_linux_map(NULL, hdi_os.page_bytes, PROT_READ | PROT_WRITE, 0);
  bool locked = (fresh != NULL && is_locked(fresh)) || is_all_locked(fresh);
  if (fresh != NULL) hdi_linux_unmap(fresh, hdi_os.page_bytes);
  hd_store_relaxed(&answer, locked);
  hd_store_relaxed(&asked, now);
  return locked;
}

/* ---- whether anything may be moved ------------------------------------------------------------------------------- */

static bool has_limit(int resource) {
  uint64_t limit[2] = {UINT64_MAX, UINT64_MAX};
  return !hdi_linux_failed(hd_syscall6(SYS_prlimit64, 0, resource, 0, (long)limit, 0, 0)) && limit[0] != UINT64_MAX;
}

/* The system unmaps what lies at the target before it looks whether the process may have so much: where it then refuses, a hole is left. It
 * does so under a limit on address space or data below present use, where not even a page is to be had; */
static bool is_at_limit(void) {
  if (!has_limit(RLIMIT_AS) && !has_limit(RLIMIT_DATA)) return false;
  void *probe = hdi_linux_map(NULL, hdi_os.page_bytes, PROT_READ | PROT_WRITE, 0);
  if (probe != NULL) hdi_linux_unmap(probe, hdi_os.page_bytes);
  return probe == NULL;
}

/* and where memory is promised to all processes together, and another one may be faster. */
static bool is_memory_promised(void) {
  char mode = 0;
  return hdi_os_read_file(overcommit_mode, &mode, 1) == 1 && mode == '2';
}

/* Whether the call that moves unmaps the source: the one that leaves it mapped came with Linux 5.7, and sandboxes (gVisor) lack it. */
static atomic_bool takes_source;

/* The hole is closed at once. Nobody maps memory there by chance meanwhile where addresses are plenty. */
static bool may_take_source(void) { return sizeof(void *) == 8; }

/* Whether the range that was moved away is still there, tried on a page of no use: a limit is written to it. An emulator (qemu-user 7.2)
 * lets the call through and then takes the old range for unmapped: purges of it do nothing and say that they did, so memory would not read
 * as zero. An error number, or 0. */
static long try_to_keep_source(void) {
  size_t page = hdi_os.page_bytes;
  uint8_t *probe = hdi_linux_map(NULL, 2 * page, PROT_READ | PROT_WRITE, 0);
  if (probe == NULL) return -ENOMEM;
  long result = hdi_linux_move(probe, probe + page, page);
  if (!hdi_linux_failed(result)) result = hd_syscall6(SYS_prlimit64, 0, RLIMIT_AS, 0, (long)probe, 0, 0);
  hdi_linux_unmap(probe, 2 * page);
  return hdi_linux_failed(result) ? result : 0;
}

static bool find_way(void) {
  long result = try_to_keep_source();
  bool takes = result == -EINVAL && may_take_source();
  hd_store_relaxed(&takes_source, takes);
  return result == 0 || takes;
}

/* What is locked moves, but the memory that comes in its place is not. */
static bool may_move(void) {
  static atomic_bool tried;
  if (!hdi_os.can_move || is_at_limit() || hdi_linux_keeps_resident()) return false;
  if (hd_load_relaxed(&tried)) return true;
  if (is_memory_promised() || !find_way()) hdi_os.can_move = false;
  hd_store_relaxed(&tried, true);
  return hdi_os.can_move;
}

/* ---- moving ------------------------------------------------------------------------------------------------------ */

static bool is_one_range(uint8_t *from, size_t bytes) { return hdi_linux_try_range(from, bytes) != -EFAULT; }

/* How much of so many bytes can be moved at once; 0: nothing. */
static size_t range_at(uint8_t *from, size_t bytes) {
  size_t is_one = 0, is_not = bytes;
  for (size_t at = bytes; at > is_one; at = hd_round_down(is_one + (is_not - is_one) / 2, hdi_os.page_bytes)) {
    if (is_one_range(from, at)) is_one = at;
    else is_not = at;
  }
  return is_one;
}

static bool map_there(void *address, size_t bytes) {
  return hdi_linux_map(address, bytes, PROT_READ | PROT_WRITE, MAP_FIXED_NOREPLACE) == address;
}

/* If no memory can be had for the source it gets its own back. */
static bool move_and_fill(void *from, void *to, size_t bytes) {
  if (hdi_linux_failed(hdi_linux_move_away(from, to, bytes))) return false;
  bool filled = map_there(from, bytes);
  if (!filled) hdi_linux_move_away(to, from, bytes);
  return filled;
}

/* If the system refuses even so, the target may be unmapped. Nobody else maps memory there by chance. */
static bool move_range(void *from, void *to, size_t bytes) {
  bool moved = hd_load_relaxed(&takes_source) ? move_and_fill(from, to, bytes) : !hdi_linux_failed(hdi_linux_move(from, to, bytes));
  if (!moved) (void)map_there(to, bytes);
  return moved;
}

/* What can't be moved, after a part that was. */
static void copy_range(void *from, void *to, size_t bytes) {
  memcpy(to, from, bytes);
  if (!hdi_os_purge(from, bytes)) memset(from, 0, bytes);
}

bool hdi_os_move(void *from, void *to, size_t bytes) {
  uint8_t *source = from, *target = to;
  size_t at = 0;
  if (!may_move()) return false;
  for (size_t range; at < bytes; at += range) {
    range = range_at(source + at, bytes - at);
    if (range == 0 || !move_range(source + at, target + at, range)) break;
  }
  if (at == 0) return false;
  if (at < bytes) copy_range(source + at, target + at, bytes - at);
  return true;
}
