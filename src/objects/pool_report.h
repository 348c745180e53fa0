/* What pools, string pools and tables of handles share: names, misuse reports, and the telling of growth and overflow.
 * Threads: any. Above: the objects. Below: core/report.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_OBJECTS_POOL_REPORT_H
#define HD_OBJECTS_POOL_REPORT_H

#include "base/bits.h"
#include "heddle/pool.h"

enum { HD_OBJECT_NAME_BYTES = 32 };

/* Copy a name, cut to what fits; NULL gives "". */
void hdi_pool_report_name(char to[HD_OBJECT_NAME_BYTES], const char *name);

/* value rounded up to a multiple of step, but no more than most, which is not less than value. */
static inline size_t hdi_pool_report_steps(size_t value, size_t step, size_t most) {
  size_t over = value % step, more = over == 0 ? 0 : step - over;
  return more > most - value ? most : value + more;
}

/* "heddle: <what> 0x<value><how> '<name>' [HD-E08]", then what the option `onerror` says. Returns only where that is not abort. */
SLOW void hdi_pool_report_misuse(const char *what, uint64_t value, const char *how, const char *name);

/* The slack of an object: whose turn it is to be told of an overflow, and whether what lies beyond the limit may be used. */
typedef struct hd_pool_alarm {
  hd_pool_growth *growth;
  hd_pool_overflow *overflow;
  void *user;
  _Atomic unsigned ringing; /* the overflow callback runs; a word, because some machines exchange nothing smaller */
  _Atomic bool open;      /* the slack may be used */
} hd_pool_alarm;

/* Call the overflow callback; its yes opens the slack. false: there is none, or it runs already. */
SLOW bool hdi_pool_report_overflow(hd_pool_alarm *alarm, const hd_pool_event *event);

#endif
