/* Clocks on Linux, for the files of the contract.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_LINUX_CLOCK_H
#define HD_OS_LINUX_CLOCK_H

#include <stdint.h>
#include <time.h>

/* Nanoseconds of one of the system's clocks; 0 when it has none. */
uint64_t hdi_linux_clock_ns(clockid_t clock);

#endif
