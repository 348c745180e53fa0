/* See pool_report.h.
 * SPDX-License-Identifier: MIT */
#include "objects/pool_report.h"

#include "base/atomic.h"
#include "base/text.h"
#include "core/report.h"

void hdi_pool_report_name(char to[HD_OBJECT_NAME_BYTES], const char *name) {
  size_t length = 0;
  for (; name != NULL && name[length] != 0 && length < HD_OBJECT_NAME_BYTES - 1; length++) to[length] = name[length];
  to[length] = 0;
}

void hdi_pool_report_misuse(const char *what, uint64_t value, const char *how, const char *name) {
  char buffer[256];
  hd_text text;
  hdi_text_start(&text, buffer, sizeof buffer);
  hdi_text_put(&text, "heddle: ");
  hdi_text_put(&text, what);
  hdi_text_put(&text, " ");
  hdi_text_hex(&text, value);
  hdi_text_put(&text, how);
  hdi_text_put(&text, " '");
  hdi_text_put(&text, name);
  hdi_text_put(&text, "'");
  hdi_report_finish(&text, (const void *)(uintptr_t)value, "HD-E08");
}

bool hdi_pool_report_overflow(hd_pool_alarm *alarm, const hd_pool_event *event) {
  if (alarm->overflow == NULL || hd_exchange(&alarm->ringing, 1u) != 0) return false;
  if (alarm->overflow(event, alarm->user)) hd_store_relaxed(&alarm->open, true);
  hd_store_release(&alarm->ringing, 0u);
  return true;
}
