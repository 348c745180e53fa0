/* A lock that spins a little, then sleeps. For short sections; never held across a call of the program's code.
 *
 * fork() is the exception to everything: the forking thread must hold the locks so that the child finds whole structures,
 * but between our fork handler and the copy of the process the C library waits for its stream locks, whose holders may
 * wait for us. So nobody waits for a forking thread: hdi_lock_take_unless_fork() gives up, and each user of a lock has a
 * second, lock-free way for that moment.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_LOCK_H
#define HD_CORE_LOCK_H

#include "base/atomic.h"
#include "base/bits.h"

/* 0: free, 1: held, 2: held and somebody may sleep. */
typedef struct hd_lock {
  atomic_uint word;
} hd_lock;

SLOW void hdi_lock_wait(hd_lock *lock);
SLOW void hdi_lock_wake(hd_lock *lock);

static inline bool hdi_lock_try(hd_lock *lock) {
  unsigned expected = 0;
  return hd_swap_if(&lock->word, &expected, 1u);
}

static inline void hdi_lock_take(hd_lock *lock) {
  if (HD_UNLIKELY(!hdi_lock_try(lock))) hdi_lock_wait(lock);
}

/* As hdi_lock_take, but false when a forking thread holds the locks. */
SLOW bool hdi_lock_wait_unless_fork(hd_lock *lock);
static inline bool hdi_lock_take_unless_fork(hd_lock *lock) {
  return HD_LIKELY(hdi_lock_try(lock)) || hdi_lock_wait_unless_fork(lock);
}

/* A fork begins or ends in this process. Set before the locks are taken, cleared after they are dropped. */
void hdi_lock_fork_begin(void);
void hdi_lock_fork_end(void);

static inline void hdi_lock_drop(hd_lock *lock) {
  if (HD_UNLIKELY(hd_exchange(&lock->word, 0u) == 2)) hdi_lock_wake(lock);
}

/* In the child of a fork: nobody else is left to hold it. */
static inline void hdi_lock_reset(hd_lock *lock) { hd_store_relaxed(&lock->word, 0u); }

#endif
