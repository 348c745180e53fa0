/* The shared record between a worker, which runs operations, and its supervisor, which starts it, judges it and shrinks it.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_MODEL_RUN_H
#define TEST_MODEL_RUN_H

#include <stdint.h>

#include "ops.h"

struct plan {
  uint64_t seed, op_count;
  int thread_count;
  bool racing;
  enum canary canary;
  const char *play;      /* file with the operations, or NULL */
  const struct op *list; /* read from it */
};

/* Lives in a memfd that the worker inherits. list holds list_count indices when listed, else all of 0..op_count-1 run. */
struct record {
  char kind[16];
  char message[256];
  uint64_t index;
  uint32_t listed, list_count;
  uint32_t list[];
};

/** Run the plan in this process; returns when nothing was found. */
void run_worker(const struct plan *plan, struct record *record);

#endif
