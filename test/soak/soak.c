/* The soak test's program: one shape of use, for as long as asked, its live bytes on a page that the runner (`run`) maps.
 *
 *   soak --list
 *   soak --shape name --seconds most --status file [--mib live] [--fault leak|hoard|maps] [-s seed]
 *
 * The faults are the runner's canaries. leak: one block in a hundred is never freed. hoard: one in ten is kept, until as much is
 * kept as is live. maps: one mapping more for each twentieth block.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "soak.h"

#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

size_t soak_bytes;

static const struct ts_sut *sut;
static struct soak_status *status;
static struct soak_lane lanes[SOAK_LANES];
static atomic_bool stopped;
static enum { NO_FAULT, LEAK, HOARD, MAPS } fault;
static _Atomic size_t hoarded;

enum { TOUCH_STEP = 4096, MAPS_MAX = 30000 };

/* ---- blocks ------------------------------------------------------------------------------------------------------ */

static unsigned char stamp_of(const void *p, size_t bytes) {
  return (unsigned char)(((uintptr_t)p >> 4) * 31 + bytes);
}

void soak_stamp(void *p, size_t bytes) {
  unsigned char *at = p;
  for (size_t i = 0; i + 1 < bytes; i += TOUCH_STEP) at[i] = 1;
  at[bytes - 1] = stamp_of(p, bytes);
}

void soak_check(const void *p, size_t bytes) {
  const unsigned char *at = p;
  TS_CHECK(at[bytes - 1] == stamp_of(p, bytes), "block %p of %zu bytes was overwritten", p, bytes);
}

void soak_count(struct soak_lane *lane, int64_t bytes, uint64_t calls) {
  /* Each lane has one writer, so plain stores would do; the runner only reads. */
  struct soak_figures *figures = lane->figures;
  atomic_store_explicit(&figures->live, atomic_load_explicit(&figures->live, memory_order_relaxed) + bytes, memory_order_relaxed);
  atomic_store_explicit(&figures->calls, atomic_load_explicit(&figures->calls, memory_order_relaxed) + calls, memory_order_relaxed);
}

void *soak_take(struct soak_lane *lane, size_t bytes) {
  uint64_t way = ts_below(&lane->rng, 16);
  void *p;
  if (way == 0) {
    p = sut->calloc(1, bytes);
  } else if (way == 1 && bytes >= 256) {
    p = sut->aligned_alloc(64, (bytes + 63) / 64 * 64);
  } else {
    p = sut->malloc(bytes);
  }
  TS_CHECK(p != NULL, "no memory for %zu bytes", bytes);
  TS_CHECK(((uintptr_t)p & 15) == 0, "block %p is not aligned to 16", p);
  soak_stamp(p, bytes);
  soak_count(lane, (int64_t)bytes, 1);
  return p;
}

static bool is_kept_by_fault(struct soak_lane *lane, size_t bytes) {
  uint64_t number = ++lane->releases;
  if (fault == LEAK) return number % 100 == 0;
  if (fault == HOARD && number % 10 == 0 && atomic_load_explicit(&hoarded, memory_order_relaxed) < soak_bytes) {
    atomic_fetch_add_explicit(&hoarded, bytes, memory_order_relaxed);
    return true;
  }
  if (fault == MAPS && number % 20 == 0 && number < MAPS_MAX * 20) {
    int protection = number / 20 % 2 ? PROT_READ : PROT_NONE; /* neighbours that the kernel can't join */
    TS_CHECK(mmap(NULL, 4096, protection, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0) != MAP_FAILED, "mmap: %d", errno);
  }
  return false;
}

void soak_give(struct soak_lane *lane, void *p, size_t bytes) {
  soak_check(p, bytes);
  soak_count(lane, -(int64_t)bytes, 1);
  if (fault != NO_FAULT && is_kept_by_fault(lane, bytes)) return;
  sut->free(p);
}

void *soak_resize(struct soak_lane *lane, void *p, size_t old_bytes, size_t bytes) {
  soak_check(p, old_bytes);
  unsigned char first = *(unsigned char *)p;
  unsigned char *moved = sut->realloc(p, bytes);
  TS_CHECK(moved != NULL, "no memory for %zu bytes", bytes);
  TS_CHECK(*moved == first, "realloc from %zu to %zu bytes lost the first byte", old_bytes, bytes);
  /* What lies beyond the old end is new: touch it as soak_take would. */
  for (size_t i = old_bytes / TOUCH_STEP * TOUCH_STEP + TOUCH_STEP; i + 1 < bytes; i += TOUCH_STEP) moved[i] = 1;
  moved[bytes - 1] = stamp_of(moved, bytes);
  soak_count(lane, (int64_t)bytes - (int64_t)old_bytes, 1);
  return moved;
}

void soak_make(struct soak_lane *lane, struct soak_block *block, size_t bytes) {
  block->p = soak_take(lane, bytes);
  block->bytes = bytes;
}

void soak_drop(struct soak_lane *lane, struct soak_block *block) {
  if (block->p != NULL) soak_give(lane, block->p, block->bytes);
  block->p = NULL;
}

/* ---- tables ------------------------------------------------------------------------------------------------------ */

void *soak_map(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  TS_CHECK(p != MAP_FAILED, "mmap: %d", errno);
  return p;
}

void soak_table_prepare(struct soak_table *table, size_t room) {
  table->slots = soak_map(room * sizeof *table->slots);
  table->room = room;
  table->count = 0;
}

void soak_table_fill(struct soak_lane *lane, struct soak_table *table, size_t bytes, size_t low, size_t high) {
  for (size_t held = 0; held < bytes; held += table->slots[table->count++].bytes) {
    TS_CHECK(table->count < table->room, "a table of %zu slots is too small for %zu bytes", table->room, bytes);
    soak_make(lane, &table->slots[table->count], soak_size(lane, low, high));
  }
}

void soak_table_replace(struct soak_lane *lane, struct soak_table *table, size_t at, size_t low, size_t high) {
  soak_drop(lane, &table->slots[at]);
  soak_make(lane, &table->slots[at], soak_size(lane, low, high));
}

void soak_table_churn(struct soak_lane *lane, struct soak_table *table, size_t times, size_t low, size_t high) {
  for (; times > 0; times--) soak_table_replace(lane, table, ts_below(&lane->rng, table->count), low, high);
}

void soak_table_empty(struct soak_lane *lane, struct soak_table *table) {
  while (table->count > 0) soak_drop(lane, &table->slots[--table->count]);
}

/* ---- the run ----------------------------------------------------------------------------------------------------- */

struct soak_lane *soak_lane(unsigned number) {
  TS_CHECK(number < SOAK_LANES, "lane %u", number);
  return &lanes[number];
}

size_t soak_size(struct soak_lane *lane, size_t low, size_t high) {
  size_t doublings = 1;
  while (low << doublings < high) doublings++;
  size_t from = low << ts_below(&lane->rng, doublings);
  size_t to = from * 2 < high ? from * 2 : high;
  return from + ts_below(&lane->rng, to - from + 1);
}

bool soak_running(void) { return !atomic_load_explicit(&stopped, memory_order_relaxed); }

void soak_cycle(void) { atomic_fetch_add_explicit(&status->cycles, 1, memory_order_relaxed); }

void soak_steady(bool steady) {
  uint64_t said = atomic_load_explicit(&status->steady, memory_order_relaxed);
  atomic_store_explicit(&status->steady, said + ((said & 1) != steady), memory_order_relaxed);
}

void soak_pause(unsigned ms) {
  for (uint64_t end = ts_now_ms() + ms, now; soak_running() && (now = ts_now_ms()) < end;)
    ts_sleep_ms(end - now < 50 ? (unsigned)(end - now) : 50);
}

void soak_forked(void) {
  static struct soak_status mine;
  for (unsigned i = 0; i < SOAK_LANES; i++) lanes[i].figures = &mine.lanes[i];
}

void soak_start(void *(*body)(void *), void *argument, unsigned long *thread) {
  int rc = pthread_create(thread, NULL, body, argument);
  TS_CHECK(rc == 0, "pthread_create: %d", rc);
}

void soak_join(unsigned long thread) { TS_CHECK(pthread_join(thread, NULL) == 0, "pthread_join"); }

static void *drive(void *shape) {
  ((const struct soak_shape *)shape)->run();
  return NULL;
}

/* ---- the command line -------------------------------------------------------------------------------------------- */

static const struct soak_shape *const lists[] = {soak_churn_shapes, soak_thread_shapes, soak_data_shapes, soak_object_shapes};

static const struct soak_shape *find_shape(const char *name) {
  for (size_t i = 0; i < sizeof lists / sizeof *lists; i++)
    for (const struct soak_shape *shape = lists[i]; shape->name; shape++)
      if (name == NULL) {
        printf("%s\t%s\n", shape->name, shape->what);
      } else if (strcmp(shape->name, name) == 0) {
        return shape;
      }
  return NULL;
}

static void map_status(const char *path) {
  _Static_assert(sizeof(struct soak_figures) == 64 && sizeof(struct soak_status) <= SOAK_STATUS_BYTES, "the runner's layout");
  int file = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
  TS_CHECK(file >= 0 && ftruncate(file, SOAK_STATUS_BYTES) == 0, "%s: %d", path, errno);
  status = mmap(NULL, SOAK_STATUS_BYTES, PROT_READ | PROT_WRITE, MAP_SHARED, file, 0);
  TS_CHECK(status != MAP_FAILED, "mmap: %d", errno);
  close(file);
}

static void choose_fault(const char *name) {
  static const char *const names[] = {"", "leak", "hoard", "maps"};
  for (unsigned i = 0; name && i < sizeof names / sizeof *names; i++)
    if (strcmp(names[i], name) == 0) fault = i;
  TS_CHECK(name == NULL || fault != NO_FAULT, "--fault %s: it is one of leak, hoard, maps", name);
}

int main(int argc, char **argv) {
  if (ts_flag(argc, argv, "--list")) {
    find_shape(NULL);
    return 0;
  }
  const char *name = ts_option_text(argc, argv, "--shape"), *path = ts_option_text(argc, argv, "--status");
  TS_CHECK(name && path, "usage: soak --shape name --seconds n --status file");
  const struct soak_shape *shape = find_shape(name);
  TS_CHECK(shape != NULL, "there is no shape %s", name);
  uint64_t seed = ts_option(argc, argv, "-s", 1), seconds = ts_option(argc, argv, "--seconds", 10);
  soak_bytes = ts_option(argc, argv, "--mib", 96) * MIB;
  snprintf(ts_replay, sizeof ts_replay, "soak --shape %s --seconds %lu --mib %zu --status FILE -s %lu", name, (unsigned long)seconds,
           soak_bytes / MIB, (unsigned long)seed);
  choose_fault(ts_option_text(argc, argv, "--fault"));
  map_status(path);
  sut = ts_sut();
  ts_expect_heddle();
  for (unsigned i = 0; i < SOAK_LANES; i++) {
    lanes[i].rng.state = ts_hash(seed, i);
    lanes[i].figures = &status->lanes[i];
  }
  shape->prepare();
  status->base_bytes = ts_rss();
  atomic_store(&status->steady, 1);
  atomic_store(&status->state, 1);
  unsigned long driver;
  soak_start(drive, (void *)(uintptr_t)shape, &driver);
  /* The runner says when it has seen enough; the figures end there. */
  for (uint64_t end = ts_now_ms() + seconds * 1000; ts_now_ms() < end && atomic_load(&status->state) == 1;) ts_sleep_ms(20);
  atomic_store(&status->state, 2);
  atomic_store(&stopped, true);
  soak_join(driver);
  return 0;
}
