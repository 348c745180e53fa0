/* What others free in the pages of a thread that waits is used before memory grows: a producer makes 96 MiB and waits, another thread frees
 * them and makes as much. Also when it frees but one block of sixteen, in pages that nobody can have then: nothing grows by more than
 * what is asked for.
 * SPDX-License-Identifier: MIT */
#include <linux/membarrier.h>
#include <pthread.h>
#include <semaphore.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "../support/support.h"
#include "heddle.h"

enum { MIB = 1024 * 1024, BYTES = 512, COUNT = 96 * MIB / BYTES, SHARE = 16 };

static char *blocks[COUNT], *more[COUNT];
static sem_t made, over;

static void fill(char **list) {
  for (int i = 0; i < COUNT; i++) {
    list[i] = hd_malloc(BYTES);
    TS_CHECK(list[i] != NULL, "block %d", i);
    list[i][0] = 1;
  }
}

static void *produce(void *unused) {
  fill(blocks);
  sem_post(&made);
  sem_wait(&over);
  return unused;
}

/* How much the process grows by when 96 MiB are made of what another thread made and this one freed; of each so many blocks one is kept. */
static size_t grow(int keep) {
  pthread_t thread;
  TS_CHECK(pthread_create(&thread, NULL, produce, NULL) == 0, "a thread");
  sem_wait(&made);
  for (int i = 0; i < COUNT; i++) {
    if (keep == 0 || i % keep != 0) hd_free(blocks[i]);
  }
  size_t before = ts_rss();
  fill(more);
  size_t after = ts_rss();
  for (int i = 0; i < COUNT; i++) {
    hd_free(more[i]);
    if (keep != 0 && i % keep == 0) hd_free(blocks[i]);
  }
  sem_post(&over);
  pthread_join(thread, NULL);
  ts_print(1, "one block of %d kept: %zu MiB more\n", keep, after > before ? (after - before) / MIB : 0);
  return after > before ? after - before : 0;
}

/* Whether the system lets a thread stop the others. */
static bool can_stop_others(void) {
  long commands = syscall(SYS_membarrier, MEMBARRIER_CMD_QUERY, 0);
  return commands > 0 && (commands & MEMBARRIER_CMD_PRIVATE_EXPEDITED) != 0;
}

int main(void) {
  TS_CHECK(hd_option_set("purge", "off") == HD_OK, "the option"); /* or the helper takes them in, with time */
  sem_init(&made, 0, 0);
  sem_init(&over, 0, 0);
  size_t whole = grow(0);
  TS_CHECK(whole < 12 * MIB || !can_stop_others(), "%zu bytes more, though all pages were free", whole);
  size_t part = grow(SHARE);
  TS_CHECK(part < 112 * MIB, "%zu bytes more for 96 MiB", part);
  return 0;
}
