/* Processes that a server forks, each for some requests, share what they do not write to. A child that takes blocks, frees blocks that its
 * parent made and takes others in their place leaves its parent's memory shared: what it takes lies together, and a free writes nothing
 * into the block. Counted are the system pages that its parent had blocks in and a child has for itself, which are copies.
 * SPDX-License-Identifier: MIT */
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/sut.h"
#include "../support/support.h"

enum { BLOCKS = 100000, MOST_BYTES = 512, ALIVE = 2000, REQUESTS = 50000, REPLACED = 2000, TOLERATED = 32, MOST_PAGES = 65536 };

static char *block[BLOCKS];
static uint8_t *low, *high; /* around all of them */
static bool has_block[MOST_PAGES]; /* by system page from low on */
static struct ts_rng rng;

static char *take(void) {
  size_t bytes = 16 + ts_below(&rng, MOST_BYTES - 16);
  char *p = ts_sut()->malloc(bytes);
  TS_CHECK(p != NULL, "no memory");
  return memset(p, 1, bytes);
}

static size_t page_of(const void *p) { return (uintptr_t)p / ts_os_page() - (uintptr_t)low / ts_os_page(); }

static void note_blocks(void) {
  TS_CHECK(page_of(high + MOST_BYTES) < MOST_PAGES, "blocks too far apart");
  for (size_t i = 0; i < BLOCKS; i++) has_block[page_of(block[i])] = true;
}

/* System pages in which they begin that no other process has. Beside them are some that its parent had for blocks to come. */
static size_t copied(void) {
  size_t count = 0;
  uint8_t *first = low - (uintptr_t)low % ts_os_page();
  for (size_t from = 0, to; from < MOST_PAGES; from = to + 1) {
    for (to = from; to < MOST_PAGES && has_block[to]; to++) {
    }
    if (to > from) count += ts_own_pages(first + from * ts_os_page(), (to - from) * ts_os_page());
  }
  return count;
}

static void handle_requests(void) {
  static char *alive[ALIVE];
  for (size_t i = 0; i < REQUESTS; i++) {
    char **one = &alive[ts_below(&rng, ALIVE)];
    ts_sut()->free(*one);
    *one = take();
  }
}

static void free_much(void) {
  for (size_t i = 0; i < BLOCKS; i += 2) ts_sut()->free(block[i]);
}

static void replace_some(void) {
  for (size_t i = 0; i < REPLACED; i++) {
    char **one = &block[ts_below(&rng, BLOCKS)];
    ts_sut()->free(*one);
    *one = take();
  }
}

static void run_child(const char *name, void (*work)(void)) {
  int status = 0;
  pid_t child = fork();
  TS_CHECK(child >= 0, "fork");
  if (child == 0) {
    size_t before = copied();
    work();
    size_t after = copied();
    ts_print(1, "%s: %zu pages copied, %zu before\n", name, after, before);
    _exit(after <= before + TOLERATED ? 0 : 1);
  }
  TS_CHECK(waitpid(child, &status, 0) == child && status == 0, "%s: more than %d pages copied", name, TOLERATED);
}

int main(void) {
  rng.state = 1;
  low = high = (uint8_t *)take();
  for (size_t i = 0; i < BLOCKS; i++) {
    uint8_t *p = (uint8_t *)(block[i] = take());
    if (p < low) low = p;
    if (p > high) high = p;
  }
  note_blocks();
  for (size_t i = 0; i < BLOCKS; i++) {
    if (ts_below(&rng, 5) != 0) continue;
    ts_sut()->free(block[i]);
    block[i] = NULL;
  }
  run_child("requests", handle_requests);
  run_child("frees", free_much);
  run_child("replacements", replace_some);
  return 0;
}
