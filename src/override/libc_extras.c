/* The C library's functions that look at the heap or tune it, and those that stand on malloc. Numbers come from hd_stats_get.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <limits.h>
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "base/bits.h"
#include "core/thread.h"
#include "heddle.h"
#include "os/os.h"

/* Other C libraries declare none of them. */
#ifdef __GLIBC__
enum { TEXT_BYTES = 4096 };

#if !__GLIBC_PREREQ(2, 33)
struct mallinfo2 {
  size_t arena, ordblks, smblks, hblks, hblkhd, usmblks, fsmblks, uordblks, fordblks, keepcost;
};
struct mallinfo2 mallinfo2(void);
#endif

HD_EXPORT int malloc_trim(size_t pad) { return hd_collect(pad) ? 1 : 0; }

/* Nothing of the C library's tuning has a meaning here; unknown numbers are errors there too. */
HD_EXPORT int mallopt(int parameter, int value) {
  (void)value;
  return parameter <= M_MXFAST && parameter >= -8 ? 1 : 0;
}

static struct mallinfo2 collect_info(void) {
  struct mallinfo2 info;
  hd_stats stats;
  memset(&info, 0, sizeof info);
  memset(&stats, 0, sizeof stats);
  stats.struct_bytes = sizeof stats;
  if (!hd_stats_get(&stats)) return info;
  info.arena = stats.live - stats.large + stats.free_in_pages + stats.cached;
  info.ordblks = stats.page_count;
  info.hblkhd = stats.large;
  info.uordblks = stats.live - stats.large;
  info.fordblks = stats.free_in_pages + stats.cached;
  info.keepcost = stats.cached;
  return info;
}

HD_EXPORT struct mallinfo2 mallinfo2(void) { return collect_info(); }

static int clip(size_t value) { return value > INT_MAX ? INT_MAX : (int)value; }

HD_EXPORT struct mallinfo mallinfo(void) {
  struct mallinfo2 wide = collect_info();
  struct mallinfo info;
  memset(&info, 0, sizeof info);
  info.arena = clip(wide.arena);
  info.ordblks = clip(wide.ordblks);
  info.hblkhd = clip(wide.hblkhd);
  info.uordblks = clip(wide.uordblks);
  info.fordblks = clip(wide.fordblks);
  info.keepcost = clip(wide.keepcost);
  return info;
}

HD_EXPORT void malloc_stats(void) {
  char text[TEXT_BYTES];
  size_t length = hd_stats_text(text, sizeof text);
  hdi_os_write(2, text, hd_min(length, sizeof text - 1));
  /* The last line of the C library's own form, for those who look for it. */
  static const char last[] = "max mmap bytes   = 0\n";
  hdi_os_write(2, last, sizeof last - 1);
}

HD_EXPORT int malloc_info(int options, FILE *stream) {
  if (options != 0) return EINVAL;
  struct mallinfo2 info = collect_info();
  int written = fprintf(stream,
                        "<malloc version=\"1\">\n<system type=\"current\" size=\"%zu\"/>\n"
                        "<total type=\"rest\" count=\"%zu\" size=\"%zu\"/>\n"
                        "<total type=\"mmap\" size=\"%zu\"/>\n</malloc>\n",
                        info.arena + info.hblkhd, info.ordblks, info.fordblks, info.hblkhd);
  return written < 0 ? -1 : 0;
}
#endif

/* These ask for malloc and realloc by name, in a file that does not define them: a preloaded program may bring a malloc of
 * its own (browsers do), and what these return goes to that program's free. */

HD_EXPORT void *reallocarray(void *p, size_t count, size_t bytes) {
  size_t total = 0;
  if (hd_multiply(count, bytes, &total)) return realloc(p, total);
  errno = ENOMEM;
  return NULL;
}

HD_EXPORT void *__libc_reallocarray(void *p, size_t count, size_t bytes) { return reallocarray(p, count, bytes); }

HD_EXPORT char *strdup(const char *text) {
  size_t bytes = strlen(text) + 1;
  char *copy = malloc(bytes);
  return copy == NULL ? NULL : memcpy(copy, text, bytes);
}

HD_EXPORT char *strndup(const char *text, size_t max_bytes) {
  size_t length = strnlen(text, max_bytes);
  char *copy = malloc(length + 1);
  if (copy == NULL) return NULL;
  copy[length] = 0;
  return memcpy(copy, text, length);
}
