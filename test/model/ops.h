/* The operations of the model test: each is a pure function of (seed, index), so that any subset of a run is a run again.
 *
 * An operation names a slot. On an empty slot an allocation fills it and everything else does nothing; on a full slot an
 * allocation frees first. That keeps every subset of operations meaningful, which shrinking a failure needs.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_MODEL_OPS_H
#define TEST_MODEL_OPS_H

#include "../support/sut.h"
#include "shadow.h"

#define HEAP_COUNT 4

/** Faults that the driver can put between itself and the allocator, to prove that it notices. */
enum canary {
  CANARY_NONE, CANARY_OVERLAP, CANARY_ZERO, CANARY_ERRNO, CANARY_ALIGN, CANARY_PREFIX, CANARY_USABLE, CANARY_STATS, CANARY_COUNT
};
extern const char *const canary_name[CANARY_COUNT];

struct explicit_heap {
  hd_heap *handle; /* NULL: not created */
  void *memory;    /* the heap's own memory, or NULL */
  size_t memory_bytes;
  size_t limit_bytes;
};

struct model {
  const struct ts_sut *sut;
  uint64_t seed;
  bool racing;           /* other threads run operations too: no walking, no reset or destroy of heaps */
  enum canary canary;
  uint64_t canary_at;    /* the fault strikes at the first fitting operation from this index on */
  uint64_t index;        /* operation under way */
  size_t base_count, base_live; /* blocks of the process that are not the driver's */
  struct shadow shadow;
  struct explicit_heap *heap; /* HEAP_COUNT of them */
};

/** Carry out operation index. Reports a mismatch with model_fail. */
void model_run_op(struct model *model, uint64_t index);
/** Compare statistics and walks with the shadow. Only while nobody else allocates. */
void model_quiet_check(struct model *model);
/** Take the blocks that live now, less the shadow's, as the process's own. */
void model_rebase(struct model *model);
/** Free every block of the shadow and destroy the heaps (own_heaps). */
void model_empty(struct model *model, bool own_heaps);
/** Swap a block with one that another thread left; race mode only. */
void model_swap_mail(struct model *model, int slot);

/** Report a mismatch and end the process; defined in model.c. kind: one word, such as "overlap". */
_Noreturn void model_fail(struct model *model, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
