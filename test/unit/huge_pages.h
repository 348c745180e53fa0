/* For tests of huge pages: whether there are any, and how a process grows out of being small.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_UNIT_HUGE_PAGES_H
#define TEST_UNIT_HUGE_PAGES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/options.h"
#include "core/space_huge.h"
#include "os/os.h"

/* Whether the library asks for huge pages here. */
static inline bool may_be_huge(void) {
  return hdi_os.huge_bytes == (size_t)HD_HUGE_UNITS << HD_UNIT_SHIFT && hdi_options.thp == HD_THP_AUTO;
}

/* The library looks for it again after so many questions at most. */
enum { GROWN_PAUSES = 31 };

/* Fill a block of 32 MiB or more, until the library has seen that the process has grown; false: it has not. */
static inline bool fill_until_grown(uint8_t *p, size_t bytes) {
  memset(p, 1, bytes);
  for (int i = 0; i < GROWN_PAUSES; i++) hdi_space_huge_is_little();
  return hdi_space_huge_is_little();
}

#endif
