/* For tests of what happens in pages of medium classes, which a heap's first blocks of whole system pages do not lie in.
 * SPDX-License-Identifier: MIT */
#ifndef TEST_UNIT_PAGES_H
#define TEST_UNIT_PAGES_H

#include "core/thread.h"

/* From here on all medium blocks of the calling thread do. */
static inline void only_pages(void) { hdi_thread_heap()->lone = HD_LONE_MOST; }

#endif
