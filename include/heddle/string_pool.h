/* String pools: strings appended one behind the other, named by number, flushed from the end, interned if wanted.
 *
 * Strings are any bytes; each is stored with a 0 behind it and never moves: the pool reserves addresses for its whole limit and pays for
 * what it uses. Strings are numbered 0, 1, 2 ... as they come. A mark is the number of strings at that moment; a flush to it forgets all
 * later ones. An interning pool stores equal strings once.
 *
 *   hd_string_pool_config config = {.struct_bytes = sizeof config, .name = "names", .intern = true};
 *   hd_string_pool *names = hd_string_pool_create(&config);
 *   uint64_t font = hd_string_pool_append(names, "cmr10", 5);
 *   puts(hd_string_pool_text(names, font));
 *
 * Threads: one at a time. Every success keeps errno.
 *
 * SPDX-License-Identifier: MIT */
#ifndef HEDDLE_STRING_POOL_H
#define HEDDLE_STRING_POOL_H

#include "pool.h"

#ifdef __cplusplus
extern "C" {
#endif

typedef struct hd_string_pool hd_string_pool;

/** "No string": what append returns on failure. */
#define HD_STRING_NONE UINT64_MAX
#define HD_STRING_NONE_32 UINT32_MAX

/** A string pool's form; zero-initialise, then set what matters. */
typedef struct hd_string_pool_config {
  size_t struct_bytes;         /* sizeof(hd_string_pool_config): the caller's version of this struct */
  const char *name;            /* shown in walks, reports and events; copied (31 bytes); NULL for none */
  size_t limit_bytes;          /* most bytes of strings, each with its 0; 0: 1 GiB, or less where addresses are short: see stats */
  size_t limit_count;          /* most strings; 0: one for each 8 bytes of the limit. Interning: with extra_count at most 2^31 */
  size_t step_bytes;           /* bytes are made ready, and a growth is told, in steps of this; 0: 64 KiB */
  size_t extra_bytes;          /* slack: bytes beyond limit_bytes, see hd_pool_overflow */
  size_t extra_count;          /* slack: strings beyond limit_count */
  size_t kept_bytes;           /* memory above the last string that a flush leaves resident; 0: none */
  bool intern;                 /* store equal strings once */
  hd_pool_growth *growth;      /* may be NULL */
  hd_pool_overflow *overflow;  /* may be NULL: no slack, plain ENOMEM. event->what: "bytes" or "strings" */
  void *user;                  /* handed to both */
} hd_string_pool_config;

/** Counters, exact after every call. Fields are only ever added at the end. */
typedef struct hd_string_pool_stats {
  size_t struct_bytes;      /* set by the caller to sizeof(hd_string_pool_stats) before the call */
  size_t used;              /* bytes of strings, each with its 0 */
  size_t max;               /* most bytes ever used at once */
  size_t allocated;         /* bytes made ready: used rounded up to steps, or what kept_bytes left */
  size_t limit;             /* most bytes now: limit_bytes, and extra_bytes while the slack is open */
  size_t count;             /* strings */
  size_t count_max;         /* most strings ever held at once */
  size_t count_limit;       /* most strings now */
  size_t step, extra, kept; /* bytes, as in force */
  uint64_t append_count;    /* appends that succeeded, found ones included */
  uint64_t found_count;     /* of them, how many found an equal string (interning) */
  uint64_t growth_count;    /* steps taken */
  size_t table_slots;       /* of the table of an interning pool */
  size_t touched;           /* bytes of memory that the pool has made resident: strings, numbers, table */
} hd_string_pool_stats;

/** Create a string pool.
 *  returns  the pool; NULL with EINVAL for a bad config, ENOMEM when there is no memory
 *  cost     address space for the limits; memory costs only what is touched */
HEDDLE_API hd_string_pool *hd_string_pool_create(const hd_string_pool_config *config);

/** Give everything back. NULL is ignored. returns how many strings were still held. */
HEDDLE_API size_t hd_string_pool_destroy(hd_string_pool *pool);

/** Append a string of length bytes, which may hold any bytes and may lie in the pool itself. An interning pool that has an equal string
 *  returns that one and stores nothing.
 *  bytes    may be NULL when length is 0
 *  returns  the string's number; HD_STRING_NONE with ENOMEM (a limit, no memory) or EINVAL (NULL with a length), nothing stored
 *  cost     O(length); interning: also a hash of it, and now and then the table doubles: O(count) */
HEDDLE_API uint64_t hd_string_pool_append(hd_string_pool *pool, const void *bytes, size_t length);

/** The same with a number of 32 bits; HD_STRING_NONE_32 with EOVERFLOW, and nothing stored, when the number would not fit. */
HEDDLE_API uint32_t hd_string_pool_append_32(hd_string_pool *pool, const void *bytes, size_t length);

/** The same with the stored string's address; it stays where it is until it is flushed. NULL on failure. */
HEDDLE_API const char *hd_string_pool_append_text(hd_string_pool *pool, const void *bytes, size_t length);

/** The number of an equal string, HD_STRING_NONE if there is none. Interning pools only; others: HD_STRING_NONE with EINVAL. */
HEDDLE_API uint64_t hd_string_pool_find(hd_string_pool *pool, const void *bytes, size_t length);

/** The number of the string that starts at text, HD_STRING_NONE when text is no string of this pool. cost: O(log count). */
HEDDLE_API uint64_t hd_string_pool_index(const hd_string_pool *pool, const char *text);

/** A mark for hd_string_pool_flush: the number of strings. */
static inline uint64_t hd_string_pool_mark(const hd_string_pool *pool);

/** Forget all strings from the mark on, give their memory back but for kept_bytes, and, to mark 0, close the slack.
 *  returns  false with EINVAL when mark is above the number of strings; then nothing changes
 *  cost     O(1) and system calls where memory goes back; interning: O(bytes flushed) */
HEDDLE_API bool hd_string_pool_flush(hd_string_pool *pool, uint64_t mark);

/** The string's bytes, a 0 behind them; NULL when there is no string of this number. */
static inline const char *hd_string_pool_text(const hd_string_pool *pool, uint64_t index);

/** Its length in bytes without the 0; 0 when there is no string of this number. */
static inline size_t hd_string_pool_length(const hd_string_pool *pool, uint64_t index);

/** Fill *stats, whose struct_bytes the caller has set. returns false when stats is NULL or struct_bytes is too small. */
HEDDLE_API bool hd_string_pool_stats_get(const hd_string_pool *pool, hd_string_pool_stats *stats);

/* ---- behind the inline functions: nothing for programs ---------------------------------------------------------- */

struct hd_string_pool {
  const char *text;  /* first byte of the first string */
  size_t *ends;      /* ends[i]: offset behind string i - 1 and its 0, that is the start of string i; ends[0] == 0 */
  uint64_t count;
};

static inline uint64_t hd_string_pool_mark(const hd_string_pool *pool) { return pool->count; }

static inline const char *hd_string_pool_text(const hd_string_pool *pool, uint64_t index) {
  return index < pool->count ? pool->text + pool->ends[index] : NULL;
}

static inline size_t hd_string_pool_length(const hd_string_pool *pool, uint64_t index) {
  return index < pool->count ? pool->ends[index + 1] - pool->ends[index] - 1 : 0;
}

#ifdef __cplusplus
}
#endif
#endif
