/* Tests that each run in a process of their own, where nothing has been allocated: ALONE(body) in a list of tests.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_UNIT_ALONE_H
#define TEST_UNIT_ALONE_H

#include "../support/support.h"

static void alone_run(void *body) { ((void (*)(void))body)(); }

static void alone_test(void **state) {
  struct ts_outcome outcome;
  ts_fork_run(alone_run, *state, 20, &outcome);
  if (!ts_exited(&outcome, 0)) fail_msg("%s", outcome.error);
}

#define ALONE(body) {#body, alone_test, NULL, NULL, (void *)(body)}

#endif
