/* Memory that the program asks for and does not touch stays cheap, also behind memory that it has filled. Blocks are filled at first, so
 * that huge pages are asked for what comes next; of the later ones a quarter is ever written, and soon they lie in small pages again.
 * Before that, while the process is small, so do long buffers of which the beginning is written, and no huge page is spent on what is left.
 * And a block as long as the machine's memory costs nothing, also when a collector has looked over it.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>

#include "../support/support.h"
#include "heddle.h"

enum { MIB = 1024 * 1024, FILLED = 24 * MIB, LATER = 160 * MIB, BOUND = 80 * MIB };

static size_t take(size_t bytes, size_t total, size_t written) {
  size_t resident = 0;
  for (size_t done = 0; done < total; done += bytes) {
    char *p = hd_malloc(bytes);
    TS_CHECK(p != NULL, "%zu bytes", bytes);
    memset(p, 1, written);
    resident += ts_resident(p, bytes);
  }
  return resident;
}

/* As a program that compresses takes them: long enough for anything that may come. */
static void fill_buffers(void) {
  enum { KIB = 1024, SPARE = 256 * KIB };
  const struct {
    size_t bytes, written;
  } buffers[] = {{20480 * KIB, 588 * KIB}, {4112 * KIB, 160 * KIB}, {12787 * KIB, 12452 * KIB}};
  char *p[3] = {NULL};
  size_t resident = 0, written = 0;
  for (int i = 0; i < 3; i++) TS_CHECK((p[i] = hd_malloc(buffers[i].bytes)) != NULL, "%zu bytes", buffers[i].bytes);
  for (int i = 0; i < 3; i++) {
    memset(p[i], 1, buffers[i].written);
    written += buffers[i].written;
  }
  for (int i = 0; i < 3; i++) resident += ts_resident(p[i], buffers[i].bytes);
  ts_print(1, "long buffers of which %zu KiB are written: %zu KiB resident\n", written / KIB, resident / KIB);
  TS_CHECK(resident <= written + SPARE, "%zu KiB resident, %zu written", resident / KIB, written / KIB);
  for (int i = 0; i < 3; i++) hd_free(p[i]);
}

/* Of its tables a page here and there. Returns the table: freed, it would be in the others' way. */
static char *fill_table(void) {
  enum { BYTES = 16 * MIB, PAGE = 4096, EVERY = 16 * PAGE };
  char *p = hd_calloc(BYTES, 1);
  TS_CHECK(p != NULL, "%d bytes", BYTES);
  for (size_t at = 0; at < BYTES; at += EVERY) p[at] = 1;
  size_t resident = ts_resident(p, BYTES);
  ts_print(1, "a table of %d MiB, a page of sixteen written: %zu KiB resident\n", BYTES / MIB, resident / 1024);
  TS_CHECK(resident <= BYTES / 4, "%zu KiB resident of %d, a sixteenth written", resident / 1024, BYTES / 1024);
  return p;
}

static void touch_nothing(void) {
  const size_t bytes = sizeof(size_t) > 4 ? (size_t)16 << 30 : (size_t)256 << 20;
  hd_free(hd_malloc(1));
  hd_collect(0);
  size_t before = ts_rss();
  void *p = hd_malloc(bytes);
  if (p == NULL) { /* where nothing may be promised that is not there */
    ts_print(1, "the system refuses a block of %zu MiB\n", bytes / MIB);
    return;
  }
  hd_collect(0);
  size_t now = ts_rss();
  ts_print(1, "a block of %zu MiB: %zu KiB\n", bytes / MIB, (now - before) / 1024);
  TS_CHECK(now < before + MIB, "%zu bytes for a block of %zu that is not touched", now - before, bytes);
  hd_free(p);
}

int main(void) {
  const size_t lengths[] = {32768, 100000, 1500000};
  char *table = fill_table();
  fill_buffers();
  hd_free(table);
  for (int i = 0; i < 3; i++) {
    size_t bytes = lengths[i];
    if (bytes / 4 < ts_os_page()) continue; /* written means resident there */
    take(bytes, FILLED, bytes);
    size_t resident = take(bytes, LATER, bytes / 4);
    ts_print(1, "blocks of %zu bytes, %d MiB written: %zu MiB resident\n", bytes, LATER / 4 / MIB, resident / MIB);
    TS_CHECK(resident < BOUND, "blocks of %zu bytes: %zu MiB resident, %d expected at most", bytes, resident / MIB, BOUND / MIB);
  }
  touch_nothing();
  return 0;
}
