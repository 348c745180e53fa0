/* A buffer that grows by realloc where it stands gets huge pages from 4 MiB on, where the system has them: few faults, and no more
 * memory than it fills. */
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "heddle.h"
#include "../support/support.h"

enum { MIB = 1 << 20, MOST = 128 * MIB, MANY_FAULTS = 9, TRIES = 8, PAUSE_US = 300 * 1000 };

static long faults(void) {
  struct rusage usage;
  getrusage(RUSAGE_SELF, &usage);
  return usage.ru_minflt;
}

/* Such of 2 MiB, as they are where a page has 4 KiB. */
static int huge_pages_on_request(void) {
  char text[64] = "";
  if (ts_os_page() != 4096) return 0;
  FILE *file = fopen("/sys/kernel/mm/transparent_hugepage/enabled", "r");
  if (file == NULL) return 0;
  size_t got = fread(text, 1, sizeof text - 1, file);
  fclose(file);
  return got > 0 && (strstr(text, "[madvise]") != NULL || strstr(text, "[always]") != NULL);
}

/* A process of its own each time. Where a huge page was dear to get at the first look, small ones take the place of all this (decision 25);
 * that is this machine's doing, and passes. */
static int grow(void) {
  size_t resident = ts_rss();
  long before = faults();
  unsigned char *buffer = NULL;
  size_t bytes = 0;
  for (size_t next = 4096; bytes < MOST; next += next / 2) {
    if (next > MOST) next = MOST;
    buffer = hd_realloc(buffer, next);
    TS_CHECK(buffer != NULL, "no %zu bytes", next);
    memset(buffer + bytes, 0x5a, next - bytes);
    bytes = next;
  }
  long count = faults() - before;
  size_t grown = ts_rss() - resident;
  printf("growth: %ld faults, %zu MiB for %d MiB\n", count, grown / MIB, MOST / MIB);
  fflush(stdout);
  for (size_t at = 0; at < bytes; at += 4096) TS_CHECK(buffer[at] == 0x5a, "%ld faults, %zu bytes more", count, grown);
  TS_CHECK(grown <= MOST + 16 * (size_t)MIB, "%ld faults, %zu bytes more", count, grown);
  hd_free(buffer);
  /* 4 KiB at a time it would be 32,768; the first 4 MiB and what was touched of a huge page before it was asked for come that way. */
  return huge_pages_on_request() && count >= 8000 ? MANY_FAULTS : 0;
}

int main(void) {
  int status = 0;
  for (int tries = 0; tries < TRIES; tries++) {
    pid_t child = fork();
    TS_CHECK(child >= 0, "no process");
    if (child == 0) _exit(grow());
    TS_CHECK(waitpid(child, &status, 0) == child, "no status");
    if (!WIFEXITED(status) || WEXITSTATUS(status) != MANY_FAULTS) break;
    usleep(PAUSE_US);
  }
  TS_CHECK(status == 0, "status 0x%x; %d: too many faults, each time", status, MANY_FAULTS);
  return 0;
}
