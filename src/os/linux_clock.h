/* Clocks on Linux, for the files of the contract.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_LINUX_CLOCK_H
#define HD_OS_LINUX_CLOCK_H

#include <stdint.h>
#include <time.h>

/* The kernel's form of a time, which is not always the C library's. */
typedef struct hd_linux_time {
  long seconds, nanoseconds;
} hd_linux_time;

/* Nanoseconds of one of the system's clocks; 0 when it has none. */
uint64_t hdi_linux_clock_ns(clockid_t clock);

#endif
