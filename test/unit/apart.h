/* Tests that need a process of their own: what they change, or find out once, stays in it.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_APART_H
#define TEST_APART_H

/* After cmocka.h. */
#include "../support/support.h"

enum { NOT_HERE = 77 }; /* the status of a child that can't test this here */

/* Run body in a child; what it reports fails the test. */
static inline void run_apart(void (*body)(void *), unsigned timeout_s) {
  struct ts_outcome outcome;
  ts_fork_run(body, NULL, timeout_s, &outcome);
  if (ts_exited(&outcome, NOT_HERE)) skip();
  if (!ts_exited(&outcome, 0)) fail_msg("status %x: %s", (unsigned)outcome.status, outcome.error);
}

#endif
