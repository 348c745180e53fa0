/* The next allocator in the process: where foreign pointers go, and everything in passthrough mode.
 * How to find it is the system's matter; one file per system, as for os.h. A function that is not there is NULL.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OS_NEXT_H
#define HD_OS_NEXT_H

#include <stdbool.h>
#include <stddef.h>

typedef struct hd_next {
  void *(*malloc)(size_t);
  void (*free)(void *);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void *(*memalign)(size_t, size_t);
  size_t (*usable)(void *);
} hd_next;

/* The table, resolved at the first call. */
const hd_next *hdi_next_get(void);

/* Whether valgrind or a sanitizer runs this program. */
bool hdi_next_is_watched(void);

#endif
