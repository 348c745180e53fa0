/* Random delays at the library's atomic operations, in builds with HD_DELAY: now and then a thread gives way, spins or sleeps there, so
 * that others come in between where they otherwise hardly ever would. Which of them depends on the seed and the order of the threads.
 * SPDX-License-Identifier: MIT */
#include <errno.h>
#include <sched.h>
#include <time.h>

#include "race.h"

enum { YIELD_ONE_IN = 256, SPIN_ONE_IN = 1024, SLEEP_ONE_IN = 16384, SPINS = 400, SLEEP_NS = 60000 };

static _Atomic uint64_t next_seed;
static __thread struct ts_rng rng;
static __thread bool inside; /* the delay itself uses no library, but a signal handler may */

void race_delay_seed(uint64_t seed) { atomic_store(&next_seed, seed); }

void hd_delay_point(void);
void hd_delay_point(void) {
  if (inside) return;
  inside = true;
  if (rng.state == 0) rng.state = ts_hash(atomic_fetch_add(&next_seed, 1), 0xde1a) | 1;
  uint64_t choice = ts_next(&rng);
  int kept = errno;
  if (choice % SLEEP_ONE_IN == 0) {
    nanosleep(&(struct timespec){0, SLEEP_NS}, NULL);
  } else if (choice % SPIN_ONE_IN == 1) {
    for (int i = 0; i < SPINS; i++) atomic_signal_fence(memory_order_seq_cst);
  } else if (choice % YIELD_ONE_IN == 2) {
    sched_yield();
  }
  errno = kept;
  inside = false;
}
