/* For tests of what happens in a class's pages, in which the first blocks do not lie: neither those of a small class, nor a heap's first of
 * whole system pages.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_UNIT_PAGES_H
#define TEST_UNIT_PAGES_H

#include "core/thread.h"

/* From here on all small blocks of the calling thread lie in pages of their class, */
static inline void own_pages(void) {
  for (unsigned i = 1; i <= HD_SMALL_CLASSES; i++) hdi_thread_heap()->class[i].hosted = HD_HOSTED_MOST;
}

/* and all medium ones too. */
static inline void only_pages(void) {
  own_pages();
  hdi_thread_heap()->lone = HD_LONE_MOST;
}

#endif
