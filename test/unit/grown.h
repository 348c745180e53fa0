/* For tests of what huge pages do in a process that is not small any more.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_UNIT_GROWN_H
#define TEST_UNIT_GROWN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "core/space_huge.h"

/* The library looks for it again after so many questions at most. */
enum { GROWN_PAUSES = 31 };

/* Fill a block of 32 MiB or more, until the library has seen that the process has grown; false: it has not. */
static inline bool fill_until_grown(uint8_t *p, size_t bytes) {
  memset(p, 1, bytes);
  for (int i = 0; i < GROWN_PAUSES; i++) hdi_space_huge_is_little();
  return hdi_space_huge_is_little();
}

#endif
