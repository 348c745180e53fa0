/* The allocator under test as a table of functions, so that one test source serves two builds:
 *   TS_API defined   the functions hd_* of libheddle.a
 *   otherwise        the C family of the process (LD_PRELOAD chooses it), and hd_* where the process has them
 * Entries that the process does not have are NULL.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_SUT_H
#define TEST_SUT_H

#include <heddle.h>

#ifdef TS_API
#define TS_FLAVOUR "api"
#else
#define TS_FLAVOUR "process"
#endif

struct ts_sut {
  void *(*malloc)(size_t);
  void *(*calloc)(size_t, size_t);
  void *(*realloc)(void *, size_t);
  void *(*reallocarray)(void *, size_t, size_t);
  void *(*aligned_alloc)(size_t, size_t);
  int (*posix_memalign)(void **, size_t, size_t);
  void (*free)(void *);
  void (*free_sized)(void *, size_t);
  void (*free_aligned_sized)(void *, size_t, size_t);
  size_t (*usable_size)(const void *);
  char *(*strdup)(const char *);
  char *(*strndup)(const char *, size_t);
  /* only in the C family of a process */
  void *(*memalign)(size_t, size_t);
  void *(*valloc)(size_t);
  void *(*pvalloc)(size_t);
  void (*cfree)(void *);
  /* only in Heddle */
  void *(*zalloc)(size_t);
  void *(*recalloc)(void *, size_t, size_t);
  void *(*expand)(void *, size_t);
  void *(*aligned_zalloc)(size_t, size_t);
  void *(*aligned_realloc)(void *, size_t, size_t);
  size_t (*good_size)(size_t);
  bool (*owns)(const void *);
  hd_heap *(*heap_create)(const hd_heap_config *);
  void (*heap_destroy)(hd_heap *);
  void (*heap_reset)(hd_heap *);
  void *(*heap_malloc)(hd_heap *, size_t);
  void *(*heap_zalloc)(hd_heap *, size_t);
  void *(*heap_calloc)(hd_heap *, size_t, size_t);
  void *(*heap_realloc)(hd_heap *, void *, size_t);
  void *(*heap_aligned_alloc)(hd_heap *, size_t, size_t);
  void (*heap_free)(hd_heap *, void *);
  hd_heap *(*heap_of)(const void *);
  bool (*heap_walk)(hd_heap *, bool, hd_visitor *, void *);
  bool (*collect)(size_t);
  void (*thread_idle)(void);
  bool (*stats_get)(hd_stats *);
  bool (*heap_stats_get)(hd_heap *, hd_stats *);
  size_t (*stats_text)(char *, size_t);
  size_t (*stats_json)(char *, size_t);
  size_t (*option_get)(const char *, char *, size_t);
  void (*misuse_hook_set)(hd_misuse_hook *);
};

/** The table, filled at the first call. */
const struct ts_sut *ts_sut(void);

/** Whether the functions of the table are Heddle's. */
bool ts_is_heddle(void);

/** End the test unless Heddle is active, when environment variable HEDDLE_TEST_EXPECT is set (the gate sets it). */
void ts_expect_heddle(void);

#endif
