/* What the workloads of the fault driver share: blocks whose content is known, and the rule for every result.
 *
 * A workload does the same each time for a seed, frees all that it got, and notes whether anything was refused to it. It may be run
 * while the system refuses calls: then each call gives NULL with ENOMEM or what was asked for, and nothing else changes.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_FAULT_WORK_H
#define TEST_FAULT_WORK_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "../support/support.h"

struct work {
  const char *name;
  void (*run)(uint64_t seed);
  size_t most_bytes;     /* the system gives at most so much at once; 0: what it likes */
};

extern const struct work works[];
extern const size_t work_count;

void work_heap(uint64_t seed);
void work_threads(uint64_t seed);
void work_fork(uint64_t seed);
void work_objects(uint64_t seed);
void work_look(uint64_t seed);

/** Something was refused since this was set to false. */
extern atomic_bool work_refused;

/** The system refuses nothing now, so that what can be given back must be. */
extern atomic_bool work_all_granted;

/** Judge a result: failure needs a reason and ENOMEM, success keeps errno. Evaluates the call once. */
#define TRY(call) (errno = 0, work_judge((uintptr_t)(call) != 0, #call, __LINE__))
#define TRY_POINTER(p, call) (errno = 0, (p) = (call), work_judge((p) != NULL, #call, __LINE__))
bool work_judge(bool granted, const char *call, int line);

struct block {
  uint8_t *p;
  size_t bytes;
  uint64_t mark;
};

/** Write the mark into the block's first and last bytes and into each system page between; and see that it is there. */
void block_fill(struct block *block, uint64_t mark);
void block_check(const struct block *block);
/** The same places read as zero. */
void block_check_zero(const uint8_t *p, size_t bytes);

#endif
