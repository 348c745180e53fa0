/* Where the common space lies, and how it grows: ranges behind its committed end are claimed, with a system call for each: 4 MiB, then
 * as much as there is already, up to 32 MiB. Where memory is locked, or promised to all processes together, what is claimed counts, touched
 * or not (decision 47). Nothing is reserved ahead, so others may have mapped memory there; the space passes it by and goes on behind. Units
 * that are passed by are below `top`, have kind PASSED and belong to nobody.
 *
 *     | metadata store | table of units | units: claimed ... | passed | claimed ... | free addresses ...
 *                                       ^ base                                      ^ committed
 *
 * Where addresses have 32 bits no part of them is the program's alone: base is then anywhere, the table is one for all addresses, and
 * passing by is what happens every day.
 *
 * One thread at a time moves the committed end. It waits for nobody meanwhile, so that others may wait for it even during a fork; and a
 * child that finds the end half moved by a thread that it does not have starts over.
 * Threads: any. Above: space.c. Below: space_huge.h, os.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_SPACE_GROW_H
#define HD_CORE_SPACE_GROW_H

#include "core/space.h"
#include "os/os.h"

enum {
  HD_NARROW = sizeof(void *) == 4,
  HD_COMMIT_FIRST = 64, /* units claimed at once where there is room: at first, */
  HD_COMMIT_UNITS = 512 /* and at most */
};

/* Find a place for the window. false: no memory at all. */
bool hdi_space_init(void);

/* Where the metadata store should lie: below the table. NULL: wherever the system likes. *first_bytes: so much right behind its end is
 * its own as well, in front of the table on a system page that every program touches. */
void *hdi_space_store_range(size_t *bytes, size_t *first_bytes);

/* Make units [0, wanted) usable. */
hd_claim hdi_space_grow(hd_space *space, size_t wanted);

/* They are taken: go on behind somebody else's memory, with so many units. true: it is worth another try. */
bool hdi_space_pass(hd_space *space, size_t units);

/* Whether a unit of the common space is not ours, or not yet. */
static inline bool hdi_space_is_passed(const hd_space *space, size_t at) {
  return !space->open ? false : at >= hd_load_acquire(&space->committed) || hd_load_relaxed(&space->units[at].kind) == HD_UNIT_PASSED;
}

/* In the child of a fork: who was moving the end is gone. */
void hdi_space_grow_fork_child(hd_space *space);

/* Of space.c: a run that whoever has the lock next takes in. */
void hdi_space_defer(hd_space *space, hd_unit *first, size_t units, uint32_t stamp);

#endif
