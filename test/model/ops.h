/* The operations of the model test.
 *
 * An operation names a slot. On an empty slot an allocation fills it and everything else does nothing; on a full slot an
 * allocation frees first. That keeps every subset of operations meaningful, which shrinking a failure needs. Where operations come
 * from is choose.c's matter: a pure function of (seed, index), a recorded list, or bytes that a fuzzer made up.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_MODEL_OPS_H
#define TEST_MODEL_OPS_H

#include "../support/sut.h"
#include "shadow.h"

#define HEAP_COUNT 4

/* Name, and how many of 10,000 operations by default. Allocations first, then what resizes, then what frees; see ops.c. */
#define MODEL_VERBS(V) \
  V(MALLOC, 1900) V(CALLOC, 700) V(ZALLOC, 200) V(ALIGNED, 400) V(ALIGNED_ZERO, 200) V(POSIX, 300) V(MEMALIGN, 150) \
  V(VALLOC, 25) V(PVALLOC, 25) V(STRDUP, 150) V(STRNDUP, 100) V(POOL_TAKE, 100) V(ARENA_LAY, 100) V(HEAP_MALLOC, 400) \
  V(HEAP_ZALLOC, 150) V(HEAP_CALLOC, 100) V(HEAP_ALIGNED, 100) V(REALLOC, 900) V(REALLOCARRAY, 200) V(RECALLOC, 200) \
  V(ALIGNED_REALLOC, 150) V(HEAP_REALLOC, 200) V(EXPAND, 200) V(FREE, 2050) V(FREE_SIZED, 300) V(HEAP_FREE, 300) V(CHECK_SIZE, 230) \
  V(NOTHING, 30) V(REFUSED, 30) V(MISUSE, 25) V(SWAP, 70) V(HEAP_CREATE, 6) V(HEAP_RESET, 2) V(HEAP_DESTROY, 2) V(ARENA_RESET, 1) \
  V(COLLECT, 1) V(IDLE, 1) V(FREE_MANY, 2)

enum verb {
#define VERB(name, weight) name,
  MODEL_VERBS(VERB)
#undef VERB
  VERB_COUNT
};

struct op {
  enum verb verb;
  int slot, heap;
  size_t bytes, alignment;
  uint64_t key; /* what else there is to choose, and the content */
};

/** Operation index of the run that seed names. */
struct op op_choose(uint64_t seed, uint64_t index);
/** One operation from a fuzzer's bytes. returns the bytes used, 0 at the end */
size_t op_read_bytes(const uint8_t *data, size_t bytes, struct op *op);
/** One operation as a line of text without its end, and back; false: not such a line. */
void op_write_text(const struct op *op, char *line, size_t bytes);
bool op_read_text(const char *line, struct op *op);

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

/** The pool and the arena that lie between the blocks; see objects.c. */
struct objects;

struct model {
  const struct ts_sut *sut;
  uint64_t seed;
  const struct op *list; /* recorded operations, or NULL: those of the seed */
  bool racing;           /* other threads run operations too: no walking, no reset or destroy of heaps */
  bool limited;          /* option limit: any allocation may fail */
  bool passed_through;   /* option passthrough: the next allocator's blocks, which Heddle knows nothing about */
  bool forgiving;        /* option onerror: the process goes on after misuse, so there is some */
  enum canary canary;
  uint64_t canary_at;    /* the fault strikes at the first fitting operation from this index on */
  uint64_t index;        /* operation under way */
  size_t base_count, base_live; /* blocks of the process that are not the driver's */
  struct shadow shadow;
  struct explicit_heap *heap; /* HEAP_COUNT of them */
  struct objects *objects;    /* made at the first use */
};

/** Take over what the options say about the process. */
void model_read_options(struct model *model);
/** Carry out an operation. Reports a mismatch with model_fail. */
void model_run_op(struct model *model, uint64_t index, const struct op *op);
/** Operation index of the model's list or seed. */
struct op model_op(const struct model *model, uint64_t index);
/** Compare statistics and walks with the shadow. Only while nobody else allocates. */
void model_quiet_check(struct model *model);
/** Take the blocks that live now, less the shadow's, as the process's own. */
void model_rebase(struct model *model);
/** Free every block of the shadow and destroy the heaps (own_heaps). */
void model_empty(struct model *model, bool own_heaps);
/** Swap a block with one that another thread left; race mode only. */
void model_swap_mail(struct model *model, int slot);

/** Report a mismatch and end the process; defined by the program. kind: one word, such as "overlap". */
_Noreturn void model_fail(struct model *model, const char *kind, const char *format, ...) __attribute__((format(printf, 3, 4)));

#endif
