/* The allocator under test. See sut.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "sut.h"

#include <dlfcn.h>
#include <malloc.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

#include "support.h"

static struct ts_sut table;
static pthread_once_t once = PTHREAD_ONCE_INIT;

#ifdef TS_API
/* Every hd_ function is linked in. */
#define HD(name) (table.name = hd_##name)

static void fill_family(void) {
  HD(malloc), HD(calloc), HD(realloc), HD(reallocarray), HD(aligned_alloc), HD(posix_memalign), HD(free), HD(free_sized);
  HD(free_aligned_sized), HD(usable_size), HD(strdup), HD(strndup);
}
#else
/* ISO C has no conversion from void * to a function pointer; POSIX promises that the representations agree. */
static void lookup(void *entry, const char *name) {
  void *symbol = dlsym(RTLD_DEFAULT, name);
  memcpy(entry, &symbol, sizeof symbol);
}
#define HD(name) lookup(&table.name, "hd_" #name)
#define LIBC(entry, name) lookup(&table.entry, name)

static void fill_family(void) {
  LIBC(malloc, "malloc"), LIBC(calloc, "calloc"), LIBC(realloc, "realloc"), LIBC(reallocarray, "reallocarray");
  LIBC(aligned_alloc, "aligned_alloc"), LIBC(posix_memalign, "posix_memalign"), LIBC(free, "free");
  LIBC(free_sized, "free_sized"), LIBC(free_aligned_sized, "free_aligned_sized"), LIBC(usable_size, "malloc_usable_size");
  LIBC(strdup, "strdup"), LIBC(strndup, "strndup"), LIBC(memalign, "memalign"), LIBC(valloc, "valloc");
  LIBC(pvalloc, "pvalloc"), LIBC(cfree, "cfree");
}
#endif

static void fill(void) {
  fill_family();
  HD(zalloc), HD(recalloc), HD(expand), HD(aligned_zalloc), HD(aligned_realloc), HD(good_size), HD(owns);
  HD(heap_create), HD(heap_destroy), HD(heap_reset), HD(heap_malloc), HD(heap_zalloc), HD(heap_calloc), HD(heap_realloc);
  HD(heap_aligned_alloc), HD(heap_of), HD(heap_walk), HD(collect), HD(thread_idle), HD(stats_get), HD(heap_stats_get);
  HD(heap_free), HD(stats_text), HD(stats_json), HD(option_get), HD(misuse_hook_set);
}

const struct ts_sut *ts_sut(void) {
  pthread_once(&once, fill);
  return &table;
}

bool ts_is_heddle(void) {
  const struct ts_sut *sut = ts_sut();
  if (!sut->owns) return false;
  void *p = sut->malloc(64);
  bool ours = sut->owns(p);
  sut->free(p);
  return ours;
}

void ts_expect_heddle(void) {
  if (getenv("HEDDLE_TEST_EXPECT")) TS_CHECK(ts_is_heddle(), "Heddle is expected, but malloc is not Heddle's");
}
