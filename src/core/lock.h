/* A lock that spins a little, then sleeps. For short sections; never held across a call of the program's code.
 *
 * fork() is the exception to everything: the forking thread must hold the locks so that the child finds whole structures,
 * but between our fork handler and the copy of the process the C library waits for its stream locks, whose holders may
 * wait for us. So nobody waits for a forking thread: hdi_lock_take_unless_fork() gives up, and each user of a lock has a
 * second, lock-free way for that moment. Explicit heaps alone have none; the forking thread's own handlers may use them even so.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_LOCK_H
#define HD_CORE_LOCK_H

#include "base/atomic.h"
#include "base/bits.h"

/* word: 0 while free, else who has it and, as the lowest bit, whether somebody may sleep. One word for both, so that a fork in a signal
 * handler knows exactly which locks its own thread has, whichever instruction was interrupted. */
typedef struct hd_lock {
  atomic_uint word;
  unsigned nested; /* forks by the holder while it has the lock */
} hd_lock;

enum { HD_LOCK_SLEEPERS = 1, HD_LOCK_HELPER = 2 };

/* The purge helper has no thread-local storage and shows its starter's thread pointer: it is known by its stack. 0: there is none yet. */
extern HD_HIDDEN _Atomic uintptr_t hdi_lock_helper_stack;
enum { HD_LOCK_HELPER_STACK = 64 * 1024 };

/* This thread's mark in a word: bits of its thread pointer, a multiple of 64, that tell it from others 128 bytes to 64 GiB away. */
static inline unsigned hdi_lock_me(void) {
  uintptr_t here = (uintptr_t)__builtin_frame_address(0);
  if (here - hd_load_relaxed(&hdi_lock_helper_stack) < HD_LOCK_HELPER_STACK) return HD_LOCK_HELPER;
  return (unsigned)((uintptr_t)hd_thread_pointer() >> 5 | 2) << 1;
}

SLOW void hdi_lock_wait(hd_lock *lock);
SLOW void hdi_lock_wake(hd_lock *lock);

static inline bool hdi_lock_try(hd_lock *lock) {
  unsigned expected = 0;
  return hd_swap_if(&lock->word, &expected, hdi_lock_me());
}

static inline void hdi_lock_take(hd_lock *lock) {
  if (HD_UNLIKELY(!hdi_lock_try(lock))) hdi_lock_wait(lock);
}

/* As hdi_lock_take, but false when a forking thread holds the locks. */
SLOW bool hdi_lock_wait_unless_fork(hd_lock *lock);
static inline bool hdi_lock_take_unless_fork(hd_lock *lock) { return HD_LIKELY(hdi_lock_try(lock)) || hdi_lock_wait_unless_fork(lock); }

/* A fork begins or ends in this process. Set before the locks are taken, cleared after they are dropped. */
void hdi_lock_fork_begin(void);
bool hdi_lock_is_forking(void);
bool hdi_lock_is_new_child(void); /* whether this is the child already, and its first step is still to come */
void hdi_lock_fork_end(void);
void hdi_lock_fork_child(void);

/* What each file with a lock offers to thread.c. */
typedef enum hd_fork_step { HD_FORK_PREPARE, HD_FORK_PARENT, HD_FORK_CHILD } hd_fork_step;

static inline void hdi_lock_drop(hd_lock *lock) {
  if (HD_UNLIKELY((hd_exchange(&lock->word, 0u) & HD_LOCK_SLEEPERS) != 0)) hdi_lock_wake(lock);
}

/* Whether anybody has it; the answer may be old at once. */
static inline bool hdi_lock_is_taken(const hd_lock *lock) { return hd_load_relaxed(&lock->word) != 0; }

static inline bool hdi_lock_is_mine(const hd_lock *lock) { return (hd_load_relaxed(&lock->word) & ~HD_LOCK_SLEEPERS) == hdi_lock_me(); }

/* In the child of a fork: who has it is this thread, or one that is not there. Threads that other handlers have started may wait for it. */
static inline void hdi_lock_reset(hd_lock *lock) {
  lock->nested = 0;
  hdi_lock_drop(lock);
}

void hdi_lock_fork(hd_lock *lock, hd_fork_step step);

/* The same for what others need while they can't have the lock: open() lays it open for them, close() takes back what is left. In a nested
 * fork neither runs: a signal handler forks, and its thread was about to change something. */
static inline void hdi_lock_fork_open(hd_lock *lock, hd_fork_step step, void (*open)(void), void (*close)(void)) {
  if (step != HD_FORK_PREPARE && lock->nested == 0) close();
  hdi_lock_fork(lock, step);
  if (step == HD_FORK_PREPARE && lock->nested == 0) open();
}

#endif
