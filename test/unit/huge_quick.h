/* For tests in which huge pages are always quick, and no program is fast: what they cost is huge_cost.c's matter, how fast one is that of
 * huge_fast.c. Linked with both functions wrapped.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_UNIT_HUGE_QUICK_H
#define TEST_UNIT_HUGE_QUICK_H

#include <stddef.h>
#include <stdint.h>

uint64_t __wrap_hdi_os_touch(void *address, size_t bytes);
uint64_t __wrap_hdi_os_touch(void *address, size_t bytes) {
  (void)address, (void)bytes;
  return 0;
}

uint64_t __wrap_hdi_os_spent_ns(void);
uint64_t __wrap_hdi_os_spent_ns(void) { return 0; }

#endif
