/* What the library does when it is loaded, and when the process ends: options that act on the process, and statistics.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "core/hardened.h"
#include "core/options.h"
#include "core/report.h"
#include "core/thread.h"
#include "heddle.h"
#include "os/os.h"

enum { TEXT_BYTES = 8192, FIRST_FD = 100 };

/* Take libheddle out of LD_PRELOAD, leaving other entries. The list shrinks in place, so no memory is needed. */
static void forget_preload(void) {
  char *list = getenv("LD_PRELOAD");
  if (list == NULL) return;
  char *out = list;
  for (char *at = list; *at != 0;) {
    size_t length = strcspn(at, ": ");
    bool ours = memmem(at, length, "libheddle", 9) != NULL;
    if (!ours && length > 0) {
      if (out > list) *out++ = ':';
      memmove(out, at, length);
      out += length;
    }
    at += length;
    at += *at != 0;
  }
  *out = 0;
  if (out == list) unsetenv("LD_PRELOAD");
}

static int report_fd = 2;

/* Programs such as cat close stderr before destructors run; the statistics go to a copy of it. */
__attribute__((constructor)) static void begin(void) {
  hdi_thread_init();
  if (hd_load_owned(&hdi_options.stats) != HD_STATS_OFF) {
    int copy = fcntl(2, F_DUPFD_CLOEXEC, FIRST_FD);
    if (copy >= 0) report_fd = copy;
  }
  if (!hdi_options.preload_children) forget_preload();
  if (hdi_hardened_is_on()) hdi_os_fault_hook(hdi_report_fault);
}

__attribute__((destructor)) static void end(void) {
  hdi_hardened_flush(hdi_heap_mine()); /* what is in quarantine is looked at a last time */
  if (hd_load_owned(&hdi_options.stats) == HD_STATS_OFF) return;
  char text[TEXT_BYTES];
  size_t length = hd_load_owned(&hdi_options.stats) == HD_STATS_JSON ? hd_stats_json(text, sizeof text) : hd_stats_text(text, sizeof text);
  hdi_os_write(report_fd, text, hd_min(length, sizeof text - 1));
}

extern void *malloc(size_t bytes);

HD_EXPORT bool hd_override_active(const char **reason) {
  const char *why = NULL;
  if (hdi_thread_is_passthrough()) {
    why = "passthrough is on: every call goes to the next allocator";
  } else {
    void *probe = (malloc)(1);
    if (!hd_owns(probe)) why = "another malloc stands in front of Heddle's";
    (free)(probe);
  }
  if (reason != NULL) *reason = why == NULL ? "malloc is Heddle's" : why;
  return why == NULL;
}
