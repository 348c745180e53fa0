/* See clear.h.
 * SPDX-License-Identifier: MIT */
#include "core/clear.h"

#include <string.h>

#include "base/atomic.h"
#include "base/bits.h"
#include "core/unit.h"
#include "os/os.h"

enum {
  PAGE_LEAST = 4096,
  PIECE = 4 * 1024 * 1024,       /* so much is looked at at a time; who has as much is a long block */
  TABLE_MAX = 20 * 1024 * 1024,  /* of longer ones the middle tells whether they were used */
  CLEAR_MAX = 128 * 1024 * 1024, /* above this all of it is exchanged */
  TOGETHER_PAGES = 2,            /* so many lie side by side in the mean where a program uses parts of a table, and not places in it; */
  TABLE_QUARTERS = 1,            /* or so much of what was used is resident, */
  LONG_QUARTERS = 3,             /* of a long block, too */
  SHORT_HOLE = 16 * 1024,        /* what lies between resident pages and is no longer than that becomes resident with them */
  AGAIN_SLOTS = 4,               /* tables that are used here and there and taken more often than others, */
  AGAIN_TIMES = 16               /* from this time on */
};

/* The end of the stretch of resident pages, or of others, that begins at `at`. */
static SLOW size_t stretch_end(const uint8_t *resident, size_t at, size_t pages) {
  size_t end = at + 1;
  while (end < pages && resident[end] == resident[at]) end++;
  return end;
}

/* Whether the program will use the same pages again: what is resident lies side by side, or is so much of the used part. */
static SLOW bool is_together(const uint8_t *resident, size_t pages, size_t quarters) {
  size_t stretches = 0, count = 0, used = 0;
  for (size_t at = 0, end; at < pages; at = end) {
    end = stretch_end(resident, at, pages);
    if (resident[at] == 0) continue;
    stretches++;
    count += end - at;
    used = end;
  }
  return count >= TOGETHER_PAGES * stretches || count >= used / 4 * quarters;
}

/* A table that is used here and there is resident as a whole in the end, if what is resident of it is kept, and saves faults only when it
 * is. So it is one that has been taken many times, and one of few: each fifth of them or more that lies at the same place has a slot
 * sooner or later (Misra and Gries count frequent items in this way). Threads may lose each other's counts. */
static SLOW bool is_taken_again(uint8_t *p) {
  static struct {
    _Atomic(uint8_t *) at;
    atomic_uint times;
  } slots[AGAIN_SLOTS];
  size_t unused = AGAIN_SLOTS;
  for (size_t i = 0; i < AGAIN_SLOTS; i++) {
    unsigned times = hd_load_relaxed(&slots[i].times);
    if (times == 0) unused = i;
    if (times == 0 || hd_load_relaxed(&slots[i].at) != p) continue;
    hd_store_relaxed(&slots[i].times, (unsigned)hd_min(times + 1, 2 * AGAIN_TIMES));
    return times >= AGAIN_TIMES;
  }
  if (unused < AGAIN_SLOTS) {
    hd_store_relaxed(&slots[unused].at, p);
    hd_store_relaxed(&slots[unused].times, 1u);
    return false;
  }
  for (size_t i = 0; i < AGAIN_SLOTS; i++) {
    unsigned times = hd_load_relaxed(&slots[i].times);
    hd_store_relaxed(&slots[i].times, times - (times > 0));
  }
  return false;
}

/* Exchange a part, or clear it where the system refuses. */
static SLOW void exchange(uint8_t *p, size_t bytes) {
  if (!hdi_os_purge(p, bytes)) memset(p, 0, bytes);
}

static SLOW void clear_piece(uint8_t *p, size_t pages, const uint8_t *resident) {
  size_t page = hdi_os.page_bytes;
  for (size_t at = 0, end; at < pages; at = end) {
    end = stretch_end(resident, at, pages);
    bool fill = at > 0 && end < pages && (end - at) * page <= SHORT_HOLE;
    if (resident[at] != 0 || fill) memset(p + at * page, 0, (end - at) * page);
    else exchange(p + at * page, (end - at) * page);
  }
}

/* A piece that is not there at all is taken for the end of what was used, and so is the middle of a long block, since of one that was read
 * alone the beginning may seem resident. Where the system does not say, long blocks are exchanged and others cleared. */
SLOW void hdi_clear_old(uint8_t *p, size_t bytes) {
  uint8_t resident[PIECE / PAGE_LEAST];
  bool is_long = bytes >= PIECE;
  size_t quarters = bytes <= TABLE_MAX ? TABLE_QUARTERS : LONG_QUARTERS;
  size_t asked = bytes <= CLEAR_MAX ? PIECE : 0, page = hdi_os.page_bytes;
  if (bytes > TABLE_MAX && hdi_os_resident_in(p + hd_round_down(bytes / 2, HD_UNIT_BYTES), HD_UNIT_BYTES) == 0) asked = 0;
  for (size_t left = bytes, piece; left > 0; p += piece, left -= piece) {
    piece = hd_min(left, asked);
    size_t pages = piece / page;
    bool told = pages > 0 && hdi_os_resident_pages(p, pages, resident);
    if (!told && !is_long) {
      memset(p, 0, left);
      return;
    }
    if (!told || (resident[0] == 0 && stretch_end(resident, 0, pages) == pages)) {
      exchange(p, left);
      return;
    }
    bool keep = is_together(resident, pages, quarters) || (!is_long && is_taken_again(p));
    if (keep) clear_piece(p, pages, resident);
    else exchange(p, piece);
  }
}
