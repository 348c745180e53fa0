/* Systems unlike the one that tests run on: see systems.c.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_TRUST_SYSTEMS_H
#define TEST_TRUST_SYSTEMS_H

#include <stdbool.h>
#include <stddef.h>

/* What the system refuses: 0 nothing; n > 0 the next n calls; less than 0 all of them. */
extern struct refuse {
  int claim, commit, reserve, purge, guard, unguard, move, barrier_init, barrier, key;
  size_t commit_from, reserve_below; /* only such lengths, when not 0 */
  int claim_after, reserve_after, guard_after; /* so many calls first that are not refused */
  bool seems_resident;               /* all of it is resident, as after a dense growth */
  size_t asked;                      /* bytes of which somebody asked whether they are resident */
  bool hasty;                        /* nobody waits for longer than a millisecond */
  bool next;                         /* there is no other allocator in the process */
  const char *file;                  /* what any options file says */
  void (*meanwhile)(void);           /* what others do during the next call for a guard that is refused */
  void (*init)(void);                /* at the end of hdi_os_init */
} refuse;

struct system {
  const char *name;
  void (*run)(void);
};

/* Each in a child of its own. returns the exit status. */
int run_systems(const struct system *systems, size_t count);

#endif
