/* Assertions. HD_ASSERT runs in debug builds; HD_UNREACHABLE and the checks of report.h stay in all.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_CHECK_H
#define HD_CORE_CHECK_H

#include "base/bits.h"

/* One line with code HD-E06, then abort: Heddle's own data is broken. */
_Noreturn SLOW void hdi_check_failed(const char *what, const char *file, int line);

#define HD_UNREACHABLE(what) hdi_check_failed((what), __FILE__, __LINE__)

#ifdef HD_DEBUG
#define HD_ASSERT(condition) (HD_LIKELY(condition) ? (void)0 : hdi_check_failed(#condition, __FILE__, __LINE__))
#else
#define HD_ASSERT(condition) ((void)sizeof(!(condition)))
#endif

#endif
