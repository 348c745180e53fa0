/* Spaces: runs of 64 KiB units from one range of addresses.
 *
 * The common space is a window of address space, claimed as it grows, with the flat table of its units; a heap that lives in
 * the caller's memory has a small space of its own (space_fixed.h). A free run is clean (reads as zero, costs nothing) or dirty (resident);
 * neighbours of equal kind merge at once, over tags at both ends. A request takes the best fitting dirty run, then the best
 * fitting clean one, then fresh units from the top. Dirty runs carry the time of their freeing, and the purger turns the old
 * ones clean. A dirty run of which little is resident is sparse: it stays whole, so that the next long block touches what the last one did.
 *
 * Invariants: no two adjacent free runs of equal kind but sparse ones; both ends of a free run name its length and kind; every other unit
 * of it has kind NONE; live units + free units + passed units = top.
 * Threads: any; one lock a space. Above: page.c, large.c, purge.c. Below: os.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_SPACE_H
#define HD_CORE_SPACE_H

#include "base/atomic.h"
#include "core/lock.h"
#include "core/unit.h"

enum { HD_BIN_COUNT = 64, HD_EXACT_BINS = 32, HD_TICK_MS = 64 };

typedef struct hd_bins {
  uint64_t filled;              /* bit b: bin[b] is not empty */
  _Atomic size_t units;         /* in all runs together */
  hd_unit **bin;                /* HD_BIN_COUNT: 1..HD_EXACT_BINS units exactly, then two bins a doubling */
} hd_bins;

typedef struct hd_space {
  hd_lock lock;
  uint8_t *base;                /* first unit's memory; a multiple of the unit size */
  hd_unit *units;               /* its table */
  size_t unit_count;            /* length of both */
  bool fixed;                   /* caller's memory: already committed, never purged */
  bool open;                    /* claimed piece by piece, nothing reserved ahead */
  atomic_bool refuses;          /* the system did not take back what was last to be purged */
  size_t table_units;           /* entries of the table that may be read */
  _Atomic size_t top;           /* units below have been handed out at least once */
  _Atomic size_t committed;     /* units below may be touched, and their table entries written */
  hd_lock growth;               /* whoever moves `committed`: see space_grow.h */
  _Atomic(uint8_t *) table_claim; /* what that one is claiming, or has claimed last, for the table */
  _Atomic size_t table_claim_bytes;
  hd_bins clean, dirty, sparse; /* no sparse runs in the caller's memory */
  _Atomic size_t free_units;    /* units in free runs of all kinds */
  _Atomic size_t passed_units;  /* units below top that are not ours: see space_grow.h */
  _Atomic(hd_unit *) deferred;  /* runs freed while somebody else held the lock */
  _Atomic uint64_t aside;       /* a run put aside for as long as one holds it: index << 32 | units << 1 | clean */
  uint32_t aside_stamp;
  atomic_uint growth_freed;     /* the child in which `growth` was taken from a thread that is not there; 0 from a fork's beginning on */
  size_t aside_units;           /* how long the next one should be */
  _Atomic size_t fork_need;     /* units that the last fork's time took from it or from the top */
} hd_space;

extern HD_HIDDEN hd_space hdi_space;      /* the common space */

/* What free() needs to find a unit for any pointer: the table of the common space, and (count - 1) << HD_UNIT_ENTRY_SHIFT for a
 * count that is a power of two. Two variables, because each is then one operand of an instruction. */
extern HD_HIDDEN hd_unit *hdi_window_units;
extern HD_HIDDEN size_t hdi_window_mask;

/* Clean units that somebody has taken beforehand, so that his next pages lie side by side; and where the memory ends that they are from. */
typedef struct hd_ahead {
  hd_unit *first;
  uint32_t units, end;
} hd_ahead;

/* Table entry for any pointer at all: the window starts at a multiple of its own size, so the middle bits of an address are the
 * index, and a pointer from elsewhere lands on some entry, which hdi_unit_block_index then unmasks. */
FAST hd_unit *hdi_space_entry(const void *p) {
  size_t mask = hd_load_stable_first(size_t, &hdi_window_mask); /* whoever sees the mask sees the table that it belongs to */
  size_t at = ((uintptr_t)p >> (HD_UNIT_SHIFT - HD_UNIT_ENTRY_SHIFT)) & mask;
  return (hd_unit *)((uint8_t *)hd_load_stable(hd_unit *, &hdi_window_units) + at);
}

/* The unit that holds p, in the common space or in a fixed one; NULL when p lies in none of them. */
hd_unit *hdi_space_find(const void *p);
hd_space *hdi_space_of(const hd_unit *unit);

/* Whether p lies in the common space's range at all, used or not yet, and not in memory that is passed by: then it is no other
 * allocator's. */
bool hdi_space_covers(const void *p);

/* Whether the option `limit` leaves room for so many more units. */
bool hdi_space_allows(const hd_space *space, size_t units);

/* A run of units, its first at a multiple of align_units; *zeroed says whether it reads as zero. Entries of the run: kind NONE,
 * owner 0, run_units set at the first. NULL when the space is full or the system refuses. */
hd_unit *hdi_space_take(hd_space *space, size_t units, size_t align_units, bool *zeroed);

/* The same for somebody who takes pages one after the other. Memory that nobody had lately comes from what he has ahead: if that is too
 * little, and there is nothing else, so many units are taken at once, which are more. */
hd_unit *hdi_space_take_page(hd_space *space, size_t units, hd_ahead *ahead, size_t at_once, bool *zeroed);

/* The same for somebody whose next pages, of one unit each, shall lie side by side: so many units, or fewer. NULL also while a fork has the
 * lock. */
hd_unit *hdi_space_take_row(hd_space *space, size_t units, bool *zeroed);

/* The same from one kind of memory only. Clean, for pages that will be moved in: a free run or fresh units. Dirty, for content that will
 * be copied in: a free run. */
hd_unit *hdi_space_take_clean(hd_space *space, size_t units, size_t align_units);
hd_unit *hdi_space_take_clean_again(hd_space *space, size_t units); /* only what has been in use before */
hd_unit *hdi_space_take_dirty(hd_space *space, size_t units);

/* A sparse run whole, from `units` to four times as many of them, its first at a multiple of align_units. NULL: none was found. */
hd_unit *hdi_space_take_sparse(hd_space *space, size_t units, size_t align_units);

/* A piece of the longest dirty run of the common space: from `least` to `most` units, start and length multiples of `step`. NULL if it
 * holds none. */
hd_unit *hdi_space_take_piece(size_t least, size_t most, size_t step);

/* Whether there is a dirty run of so many units, or of HD_EXACT_BINS where more are asked for. Without the lock: it may be old at once. */
static inline bool hdi_space_has_dirty(hd_space *space, size_t units) {
  return hd_peek(&space->dirty.filled) >> (hd_min(units, HD_EXACT_BINS) - 1) != 0;
}

/* Units that somebody has. Without the lock, too. */
static inline size_t hdi_space_used(const hd_space *space) {
  return hd_load_relaxed(&space->top) - hd_load_relaxed(&space->free_units) - hd_load_relaxed(&space->passed_units);
}

/* Free units that cost memory, or may. Without the lock, too. */
static inline size_t hdi_space_to_purge(const hd_space *space) {
  return hd_load_relaxed(&space->dirty.units) + hd_load_relaxed(&space->sparse.units);
}

/* A dirty run of at least `least` units, *dirty of them, and the clean ones right behind it: `units` in all. NULL: there is none, or a
 * dirty run that is long enough. */
hd_unit *hdi_space_take_across(hd_space *space, size_t units, size_t least, size_t *dirty);

/* Up to so many dirty runs of one length at once, listed through next: whoever takes and gives many has the lock less often. NULL: there is
 * none, or a fork is under way. */
hd_unit *hdi_space_take_runs(hd_space *space, size_t units, size_t most);

/* Give dirty runs back, listed through next, which know their lengths. */
void hdi_space_give_runs(hd_space *space, hd_unit *first);

/* Give a run back, or a part of one. dirty: its memory has been touched. */
void hdi_space_give(hd_space *space, hd_unit *first, size_t units, bool dirty);

/* Give back what is left of it, which nobody has touched. */
static inline void hdi_space_give_ahead(hd_space *space, hd_ahead *ahead) {
  if (ahead->units > 0) hdi_space_give(space, ahead->first, ahead->units, false);
  ahead->units = 0;
}

/* Give a run back as a sparse one. */
void hdi_space_give_sparse(hd_space *space, hd_unit *first);

/* Take the free units right behind a run into it, if there are enough; all that is taken is committed. */
bool hdi_space_extend(hd_space *space, hd_unit *first, size_t units, size_t more, bool *zeroed);

/* Purge dirty and sparse runs freed at or before tick `until`, at most budget units. Returns units purged. What the system leaves us stays
 * dirty, and space->refuses says whether the last one was such a run. */
size_t hdi_space_purge(hd_space *space, uint32_t until, size_t budget);

/* The memory of a unit. */
static inline uint8_t *hdi_space_address(const hd_space *space, const hd_unit *unit) {
  return space->base + ((size_t)(unit - space->units) << HD_UNIT_SHIFT);
}

/* Units to leave out at the front of a run so that its start is aligned. */
static inline size_t hdi_space_misfit(const hd_space *space, const hd_unit *first, size_t align_units) {
  size_t at = ((uintptr_t)hdi_space_address(space, first) >> HD_UNIT_SHIFT) & (align_units - 1);
  return at == 0 ? 0 : align_units - at;
}

uint32_t hdi_space_tick(void);

void hdi_space_fork(hd_fork_step step);

#endif
