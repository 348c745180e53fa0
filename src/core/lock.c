/* See lock.h.
 * SPDX-License-Identifier: MIT */
#include "core/lock.h"

#include "os/os.h"

enum { SPINS = 100, NAP_MS = 10 };

_Atomic uintptr_t hdi_lock_helper_stack;
static atomic_uint forking;
static atomic_uint fork_process; /* where the last fork began */

static bool wait_for(hd_lock *lock, bool unless_fork) {
  for (int spin = 0; spin < (hdi_os.cpu_count > 1 ? SPINS : 1); spin++) {
    hd_pause();
    if (hd_load_relaxed(&lock->word) == 0 && hdi_lock_try(lock)) return true;
  }
  for (;;) {
    unsigned seen = 0;
    if (hd_swap_if(&lock->word, &seen, hdi_lock_me() | HD_LOCK_SLEEPERS)) return true; /* others may sleep as well */
    if ((seen & HD_LOCK_SLEEPERS) == 0 && !hd_swap_if(&lock->word, &seen, seen | HD_LOCK_SLEEPERS)) continue;
    if (unless_fork && hdi_lock_is_forking()) return false;
    hdi_os_wait(&lock->word, seen | HD_LOCK_SLEEPERS, unless_fork ? NAP_MS : UINT32_MAX);
  }
}

/* A fork handler that runs between ours and the copy of the process: it may have what this thread holds for the fork. What the lock
 * guards is whole; the handler's drop ends the hold. */
static bool is_held_for_fork(const hd_lock *lock) { return hdi_lock_is_mine(lock) && hdi_lock_is_forking(); }

void hdi_lock_wait(hd_lock *lock) {
  if (!is_held_for_fork(lock)) (void)wait_for(lock, false);
}

bool hdi_lock_wait_unless_fork(hd_lock *lock) { return wait_for(lock, true); }

void hdi_lock_wake(hd_lock *lock) { hdi_os_wake(&lock->word); }

void hdi_lock_fork_begin(void) {
  hd_store_relaxed(&fork_process, hdi_os_process_id());
  hd_add(&forking, 1u);
}

bool hdi_lock_is_forking(void) { return hd_load_acquire(&forking) != 0; }

bool hdi_lock_is_new_child(void) { return hdi_lock_is_forking() && hd_load_relaxed(&fork_process) != hdi_os_process_id(); }

void hdi_lock_fork_end(void) { hd_sub(&forking, 1u); }

void hdi_lock_fork_child(void) { hd_store_release(&forking, 0u); }

/* For fork: this thread may have the lock already, when a signal handler that forks came in between. */
static void take_for_fork(hd_lock *lock) {
  if (hdi_lock_is_mine(lock)) lock->nested++;
  else hdi_lock_take(lock);
}

static void drop_for_fork(hd_lock *lock) {
  if (lock->nested > 0) lock->nested--;
  else hdi_lock_drop(lock);
}

void hdi_lock_fork(hd_lock *lock, hd_fork_step step) {
  switch (step) {
    case HD_FORK_PREPARE:
      take_for_fork(lock);
      break;
    case HD_FORK_PARENT:
      drop_for_fork(lock);
      break;
    case HD_FORK_CHILD:
      hdi_lock_reset(lock);
      break;
  }
}
