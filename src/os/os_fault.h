/* The faults that tests plan, and the ledger of what the system has given: see os_fault.c.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_OS_FAULT_H
#define HD_OS_OS_FAULT_H

#include <stdbool.h>
#include <stddef.h>

/* The calls that a system may refuse. A wake is none: the word is in memory of our own. */
#define HD_FAULT_KINDS(KIND) \
  KIND(RESERVE, "reserve")   \
  KIND(CLAIM, "claim")       \
  KIND(COMMIT, "commit")     \
  KIND(GUARD, "guard")       \
  KIND(PURGE, "purge")       \
  KIND(MOVE, "move")         \
  KIND(HUGE, "huge")         \
  KIND(TOUCH, "touch")       \
  KIND(WAIT, "wait")         \
  KIND(BARRIER, "barrier")   \
  KIND(HELPER, "helper")     \
  KIND(READ, "read")         \
  KIND(RANDOM, "random")     \
  KIND(RESIDENT, "resident") \
  KIND(EXIT, "exit") /* the thread-exit hook: pthread_setspecific */

typedef enum hd_fault_kind {
#define HD_FAULT_KIND(kind, name) HD_FAULT_##kind,
  HD_FAULT_KINDS(HD_FAULT_KIND)
#undef HD_FAULT_KIND
      HD_FAULT_KIND_COUNT
} hd_fault_kind;

typedef enum hd_fault_mode {
  HD_FAULT_OFF,
  HD_FAULT_ONCE,
  HD_FAULT_FROM,
  HD_FAULT_EVERY,
  HD_FAULT_KIND_ONCE,
  HD_FAULT_KIND_TWICE /* the next one as well: what asks for less then is refused, too */
} hd_fault_mode;

typedef struct hd_fault_plan {
  hd_fault_mode mode;
  hd_fault_kind kind;  /* HD_FAULT_KIND_ONCE, _TWICE: only calls of this kind count */
  size_t n;            /* which call, from 1; of HD_FAULT_EVERY every n-th */
  size_t most_bytes;   /* claims and commits of more are refused whatever the mode; 0: none */
} hd_fault_plan;

/* What the library holds of the system. */
typedef struct hd_fault_ledger {
  size_t range_count;     /* reserved ranges that have not been given back */
  size_t reserved_bytes;  /* in states of the contract: reserved, */
  size_t open_bytes;      /* and clean or dirty */
} hd_fault_ledger;

/* Follow a plan from now on; the counts start again. */
void hdi_fault_set(const hd_fault_plan *plan);

/* Refuse nothing from now on. */
void hdi_fault_clear(void);

/* Calls since the last hdi_fault_set that could have been refused, of one kind, and that were refused by its mode. */
size_t hdi_fault_calls(void);
size_t hdi_fault_calls_of(hd_fault_kind kind);
size_t hdi_fault_refused(void);

/* Whether anything at all has been refused since the process began. */
bool hdi_fault_ever(void);

/* Pretend a page size. Before the library's first call. */
void hdi_fault_pages(size_t page_bytes);

hd_fault_ledger hdi_fault_ledger_get(void);
const char *hdi_fault_kind_name(hd_fault_kind kind);

#endif
