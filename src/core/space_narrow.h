/* The common space where addresses have 32 bits: no part of them is the program's alone, so the space claims what is free and passes
 * by what others have mapped. Elsewhere HD_NARROW is 0 and nothing of this is left in space.c.
 *
 * The table serves all addresses, and is reserved as a whole; units that are passed by have kind PASSED. A claim that fails because
 * somebody else's memory lies there looks the same as one that fails because another thread was quicker. So one thread at a time moves
 * the committed end, for a few system calls, and the others wait for it even during a fork: it waits for nobody.
 * Threads: any. Above: space.c. Below: os.h, and what space.c shows of itself below.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_SPACE_NARROW_H
#define HD_CORE_SPACE_NARROW_H

#include "core/space.h"

enum { HD_NARROW = sizeof(void *) == 4, HD_NARROW_STORE = 128 * 1024 * 1024 /* bytes for the metadata store */ };

/* Prepare the space and the window's table. false: no memory at all. */
bool hdi_space_narrow_init(hd_space *space);

/* Make units [0, wanted) usable, as far as nobody else's memory lies there. */
bool hdi_space_narrow_commit(hd_space *space, size_t wanted);

/* The top has come to somebody else's memory: go on behind it, with so many units. true: it is worth another try. */
bool hdi_space_narrow_pass(hd_space *space, size_t units);

/* In the child of a fork: who was moving the end is gone. */
void hdi_space_narrow_fork_child(hd_space *space);

/* Whether a unit below top is not ours. */
static inline bool hdi_space_is_passed(const hd_space *space, size_t at) {
  return HD_NARROW && (at >= hd_load_acquire(&space->committed) || hd_load_relaxed(&space->units[at].kind) == HD_UNIT_PASSED);
}

/* Of space.c: units [have, next) and their table entries are made usable, or nothing; the entries alone; free() sees the table; a run
 * that whoever has the lock next takes in. */
enum { HD_COMMIT_UNITS = 512 /* at once where there is room: 32 MiB, one system call for each */ };
bool hdi_space_commit_step(hd_space *space, size_t have, size_t next);
bool hdi_space_commit_table(hd_space *space, size_t have, size_t wanted);
void hdi_space_show_window(hd_unit *table, size_t count);
void hdi_space_defer(hd_space *space, hd_unit *first, size_t units, uint32_t stamp);

#endif
