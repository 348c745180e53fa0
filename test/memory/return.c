/* The promise about memory: 2 s after the last free, RSS is at most the 64 KiB pages that still hold a live block, plus 16 MiB
 * and 5 %; after 10 s of idleness at most the OS pages that hold one, plus 16 MiB and 5 %. Nothing is called in between: the
 * threads sleep in the kernel.
 *
 *   return [--mb megabytes] [--shape name] [-s seed]
 *
 * What is compared: RSS as /proc/self/smaps_rollup gives it, less the RSS of the process just before the burst. The base is taken
 * after the bookkeeping has been touched and the threads run, so it holds the program's text, stacks and tables of pointers, and
 * nothing of the burst. The pages that hold live blocks are counted from the blocks' addresses, exactly.
 *
 * Without --shape all shapes run at once, each in a process of its own.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"
#include "../support/sut.h"

#define MIB ((size_t)1 << 20)
#define UNIT_BYTES ((size_t)64 << 10)
#define ALLOWANCE (16 * MIB)
#define THREAD_MAX 4

enum order { IN_ORDER, REVERSE, RANDOM };
/* Who frees: the thread that allocated, another thread, or another thread while the allocating ones sleep for ever. */
enum freer { SELF, OTHER, OTHER_PARKED };

struct shape {
  const char *name;
  enum order order;
  unsigned kept_percent;
  enum freer freer;
  int threads;
  size_t small, large; /* block sizes are drawn from this range */
};

static const struct shape shapes[] = {
    {"whole-in-order", IN_ORDER, 0, SELF, 1, 16, 1024},
    {"whole-reverse", REVERSE, 0, SELF, 1, 16, 1024},
    {"random-2-percent", RANDOM, 2, SELF, 1, 16, 1024},
    {"random-10-percent", RANDOM, 10, SELF, 1, 16, 1024},
    {"random-2-percent-2-threads", RANDOM, 2, SELF, 2, 16, 2048},
    {"by-another-thread", RANDOM, 2, OTHER, 2, 16, 1024},
    {"owners-parked-whole", IN_ORDER, 0, OTHER_PARKED, 2, 16, 1024},
    {"owners-parked-2-percent", RANDOM, 2, OTHER_PARKED, 2, 16, 1024},
    {"medium-2-percent", RANDOM, 2, SELF, 1, 1024, 56 * 1024},
    {"large-10-percent", RANDOM, 10, SELF, 1, 64 * 1024, 4 << 20},
    {"large-parked", REVERSE, 0, OTHER_PARKED, 2, 64 * 1024, 4 << 20},
};
#define SHAPE_COUNT (sizeof shapes / sizeof *shapes)

static const struct ts_sut *sut;
static const struct shape *shape;
static size_t burst_bytes, slots;
static uint64_t seed;

static struct part {
  pthread_t thread;
  void **block;
  uint32_t *size, *order;
  size_t count;
} parts[THREAD_MAX];
static pthread_barrier_t ready, allocated, freed, finished;

static void *table(size_t bytes) {
  void *p = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
  TS_CHECK(p != MAP_FAILED, "mmap: %d", errno);
  return p;
}

/* ---- the burst -------------------------------------------------------------------------------------------------- */

static void allocate(struct part *part, uint64_t number) {
  struct ts_rng rng = {ts_hash(seed, number)};
  for (size_t total = 0; part->count < slots && total < burst_bytes / (size_t)shape->threads; part->count++) {
    /* Small sizes more often, as programs have it: the square of a uniform number. */
    uint64_t span = shape->large - shape->small, r = ts_below(&rng, 65536);
    size_t bytes = shape->small + (size_t)(span * r / 65536 * r / 65536);
    unsigned char *p = sut->malloc(bytes);
    TS_CHECK(p != NULL, "malloc(%zu) failed", bytes);
    memset(p, 1, bytes);
    part->block[part->count] = p;
    part->size[part->count] = (uint32_t)bytes;
    total += bytes;
  }
}

static void release(struct part *part, uint64_t number) {
  struct ts_rng rng = {ts_hash(seed ^ 0xf4ee, number)};
  size_t n = part->count;
  for (size_t i = 0; i < n; i++) part->order[i] = (uint32_t)(shape->order == REVERSE ? n - 1 - i : i);
  for (size_t i = n; shape->order == RANDOM && i > 1; i--) {
    size_t j = ts_below(&rng, i);
    uint32_t swap = part->order[i - 1];
    part->order[i - 1] = part->order[j];
    part->order[j] = swap;
  }
  for (size_t i = 0; i < n; i++) {
    uint32_t at = part->order[i];
    if (ts_below(&rng, 100) < shape->kept_percent) continue;
    sut->free(part->block[at]);
    part->block[at] = NULL;
  }
}

static void *work(void *argument) {
  struct part *part = argument;
  uint64_t number = (uint64_t)(part - parts);
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&ready); /* the base has been measured */
  allocate(part, number);
  pthread_barrier_wait(&allocated);
  if (shape->freer == SELF) release(part, number);
  pthread_barrier_wait(&freed);
  pthread_barrier_wait(&finished); /* sleeps in a futex while the promise is measured */
  return NULL;
}

/* ---- measuring -------------------------------------------------------------------------------------------------- */

static unsigned char *mark;
static uintptr_t mark_low;
static size_t mark_bytes;

/* Count distinct pages of page_bytes that hold a byte of a live block, through a bitmap over the whole span. */
static size_t live_pages(size_t page_bytes) {
  memset(mark, 0, mark_bytes);
  size_t total = 0;
  for (int t = 0; t < shape->threads; t++)
    for (size_t i = 0; i < parts[t].count; i++) {
      if (!parts[t].block[i]) continue;
      uintptr_t from = (uintptr_t)parts[t].block[i] / page_bytes, to = ((uintptr_t)parts[t].block[i] + parts[t].size[i] - 1) / page_bytes;
      for (uintptr_t page = from; page <= to; page++) {
        uintptr_t bit = page - mark_low / page_bytes;
        if (!(mark[bit / 8] & (1u << bit % 8))) mark[bit / 8] |= (unsigned char)(1u << bit % 8), total++;
      }
    }
  return total * page_bytes;
}

/* The bitmap's memory must not count: it is made after the last measurement. */
static void open_marks(void) {
  uintptr_t low = UINTPTR_MAX, high = 0;
  for (int t = 0; t < shape->threads; t++)
    for (size_t i = 0; i < parts[t].count; i++) {
      uintptr_t at = (uintptr_t)parts[t].block[i];
      if (!at) continue;
      if (at < low) low = at;
      if (at + parts[t].size[i] > high) high = at + parts[t].size[i];
    }
  mark_low = low > high ? 0 : low & ~(UNIT_BYTES - 1);
  size_t span = low > high ? UNIT_BYTES : high - mark_low;
  TS_CHECK(span < (uint64_t)1 << 44, "live blocks are spread over %zu bytes", span);
  mark_bytes = span / ts_os_page() / 8 + 64;
  mark = mmap(NULL, mark_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  TS_CHECK(mark != MAP_FAILED, "mmap of the bitmap: %d", errno);
}

static bool judge(const char *when, size_t rss, size_t base, size_t pages) {
  size_t held = rss > base ? rss - base : 0, limit = pages + ALLOWANCE + pages / 20;
  bool good = held <= limit;
  ts_print(good ? 1 : 2, "%s %-27s %s: RSS %6.1f MiB over base %5.1f, live pages %6.1f, limit %6.1f MiB\n", good ? "ok  " : "FAIL",
           shape->name, when, (double)held / (double)MIB, (double)base / (double)MIB, (double)pages / (double)MIB,
           (double)limit / (double)MIB);
  return good;
}

static int run_shape(void) {
  size_t average = shape->small + (shape->large - shape->small) / 3;
  slots = burst_bytes / (size_t)shape->threads / average * 5 / 4 + 64;
  pthread_barrier_t *all[] = {&ready, &allocated, &freed, &finished};
  for (int i = 0; i < 4; i++) pthread_barrier_init(all[i], NULL, (unsigned)shape->threads + 1);
  for (int t = 0; t < shape->threads; t++) {
    parts[t].block = table(slots * sizeof(void *));
    parts[t].size = table(slots * 4);
    parts[t].order = table(slots * 4);
    TS_CHECK(pthread_create(&parts[t].thread, NULL, work, &parts[t]) == 0, "pthread_create");
  }
  pthread_barrier_wait(&ready);
  size_t base = ts_rss();
  pthread_barrier_wait(&ready);
  pthread_barrier_wait(&allocated);
  size_t top = ts_rss();
  TS_CHECK(top - base > burst_bytes / 2, "the burst holds %zu bytes only", top - base);
  for (int t = 0; t < shape->threads && shape->freer != SELF; t++) release(&parts[t], (uint64_t)t);
  pthread_barrier_wait(&freed);
  ts_sleep_ms(2000);
  size_t soon = ts_rss();
  ts_sleep_ms(8000);
  size_t later = ts_rss();
  open_marks();
  bool good = judge(" 2 s", soon, base, live_pages(UNIT_BYTES));
  good &= judge("10 s", later, base, live_pages(ts_os_page()));
  pthread_barrier_wait(&finished);
  for (int t = 0; t < shape->threads; t++) pthread_join(parts[t].thread, NULL);
  return good ? 0 : 1;
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static int run_all(char **argv, const char *mb) {
  pid_t child[SHAPE_COUNT];
  char text[32];
  snprintf(text, sizeof text, "%llu", (unsigned long long)seed);
  for (size_t s = 0; s < SHAPE_COUNT; s++) {
    child[s] = fork();
    TS_CHECK(child[s] >= 0, "fork: %d", errno);
    if (child[s] != 0) continue;
    execl("/proc/self/exe", argv[0], "--mb", mb, "-s", text, "--shape", shapes[s].name, (char *)NULL);
    _exit(127);
  }
  int bad = 0;
  for (size_t s = 0; s < SHAPE_COUNT; s++) {
    int status = 0;
    waitpid(child[s], &status, 0);
    if (status == 0) continue;
    bad++;
    ts_print(2, "FAIL %s: status 0x%x; replay: %s --mb %s -s %s --shape %s\n", shapes[s].name, status, argv[0], mb, text, shapes[s].name);
  }
  ts_print(bad ? 2 : 1, "return: %d of %zu shapes broke the promise\n", bad, SHAPE_COUNT);
  return bad ? 1 : 0;
}

int main(int argc, char **argv) {
  const char *mb = ts_option_text(argc, argv, "--mb"), *name = ts_option_text(argc, argv, "--shape");
  burst_bytes = (size_t)ts_option(argc, argv, "--mb", 200) * MIB;
  seed = ts_option_text(argc, argv, "-s") ? ts_option(argc, argv, "-s", 0) : ts_seed();
  ts_expect_heddle();
  sut = ts_sut();
  if (!name) return run_all(argv, mb ? mb : "200");
  for (size_t s = 0; s < SHAPE_COUNT; s++)
    if (strcmp(shapes[s].name, name) == 0) shape = &shapes[s];
  TS_CHECK(shape != NULL, "no shape '%s'", name);
  return run_shape();
}
