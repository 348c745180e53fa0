/* Counters of rare events, for statistics. Relaxed atomics: each number is right, their moments differ.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_COUNTERS_H
#define HD_CORE_COUNTERS_H

#include "base/atomic.h"
#include "base/bits.h"

typedef struct hd_counters {
  atomic_size_t os_calls;
  atomic_size_t purged_bytes;
  atomic_size_t moved_bytes;
} hd_counters;

extern HD_HIDDEN hd_counters hdi_counters;

static inline void hdi_counters_os_call(size_t count) { hd_add(&hdi_counters.os_calls, count); }
static inline void hdi_counters_purged(size_t bytes) { hd_add(&hdi_counters.purged_bytes, bytes); }
static inline void hdi_counters_moved(size_t bytes) { hd_add(&hdi_counters.moved_bytes, bytes); }

#endif
