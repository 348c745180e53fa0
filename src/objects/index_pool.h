/* Index pools, what their files share. See include/heddle/index_pool.h for what they are.
 *
 *     region:  | slot 0 | slot 1 ...  end ->          | map of slot 0, 1, ...  end ->      |
 *
 * The map is the truth: lists, bins and counters can be made anew from it (hdi_index_pool_rebuild). Every start of an object below
 * `end`, live or free, has its size in the map, so the objects tile [1, end); all other bytes of the map are 0 or digits.
 * Free objects up to HD_INDEX_EXACT_SLOTS are in the list of their size, larger ones in bins of similar size. The counts of lists
 * and bins are of all free objects of the pool; while a compaction is under way those behind its cursor are counted but not linked.
 *
 *   index_pool.c          making, taking, giving, growing
 *   index_pool_free.c     lists and bins, the rebuild
 *   index_pool_look.c     walking, counters, the check
 *   index_pool_compact.c  moving down, giving memory back
 *   index_pool_file.c     the format and its checks
 *   index_pool_posix.c    paths and descriptors
 * SPDX-License-Identifier: MIT */
#ifndef HD_OBJECTS_INDEX_POOL_H
#define HD_OBJECTS_INDEX_POOL_H

#include "base/bits.h"
#include "base/text.h"
#include "core/check.h"
#include "heddle/index_pool.h"

enum { HD_INDEX_DIGITS = 8, HD_INDEX_BINS = 26 * 8, HD_INDEX_NAME = 32, HD_INDEX_ERROR = 512 };

/* Memory of a pool: slots and map in one region. */
typedef struct hd_index_memory {
  uint8_t *region;
  size_t bytes;        /* all of it */
  size_t map_offset;   /* where the map starts, a multiple of the system page */
} hd_index_memory;

typedef struct hd_index_body {
  hd_index_pool fast;           /* what the inline functions use; first, so that a pool is its body */
  hd_index_memory memory;
  uint64_t allocated;           /* slots that may be handed out without growing */
  uint64_t limit;               /* allocated never exceeds it: size + extra */
  uint64_t size, extra;
  uint64_t initial, step, minimum, maximum, slack;
  uint64_t top;                 /* highest end there ever was */
  uint64_t touched;             /* slots below may have been written */
  uint64_t noted;               /* the region was told of those below */
  uint64_t growth_count;
  uint64_t given_merged;        /* fast.given at the last rebuild: nothing to merge while equal */
  uint64_t bin_filled[(HD_INDEX_BINS + 63) / 64];
  uint32_t bin[HD_INDEX_BINS];  /* free objects above HD_INDEX_EXACT_SLOTS */
  uint64_t large_count, large_slots;
  uint64_t cursor, dest;        /* compaction: objects below dest stand where they stay, [dest, cursor) is one gap */
  bool compacting;
  bool busy;                    /* a callback is running: nothing may be rebuilt under it */
  bool overflowed;
  hd_index_growth *growth;
  hd_index_overflow *overflow;
  void *user;
  char name[HD_INDEX_NAME];
  char error[HD_INDEX_ERROR];
} hd_index_body;

static inline hd_index_body *hdi_index_pool_body(const hd_index_pool *pool) { return (hd_index_body *)(uintptr_t)pool; }

/* ---- the map ----------------------------------------------------------------------------------------------------- */

FAST bool hdi_index_map_is_free(const uint8_t *map, uint64_t at) { return (map[at] & HD_INDEX_FREE) != 0; }

/* Size of the object, live or free, that starts at `at`; something must start there. */
static inline uint32_t hdi_index_map_slots(const uint8_t *map, uint64_t at) {
  uint32_t slots = map[at] & ~HD_INDEX_FREE & 0xffu;
  if (HD_LIKELY(slots != HD_INDEX_LARGE)) return slots;
  slots = 0;
  for (unsigned i = 0; i < HD_INDEX_DIGITS; i++) slots |= (uint32_t)(map[at + 1 + i] & 15u) << 4 * i;
  return slots;
}

static inline void hdi_index_map_mark(uint8_t *map, uint64_t at, uint32_t slots, unsigned free) {
  if (HD_LIKELY(slots <= HD_INDEX_EXACT_SLOTS)) {
    map[at] = (uint8_t)(slots | free);
    return;
  }
  map[at] = (uint8_t)(HD_INDEX_LARGE | free);
  for (unsigned i = 0; i < HD_INDEX_DIGITS; i++) map[at + 1 + i] = (uint8_t)(HD_INDEX_DIGIT | (slots >> 4 * i & 15u));
}

static inline void hdi_index_map_clear(uint8_t *map, uint64_t at) {
  bool large = (map[at] & ~HD_INDEX_FREE & 0xffu) == HD_INDEX_LARGE;
  map[at] = 0;
  if (large) memset(map + at + 1, 0, HD_INDEX_DIGITS);
}

/* Size of the object at `at` when it is well formed and ends by `end`; else 0. For maps that nobody vouches for. (index_pool_look.c) */
uint32_t hdi_index_map_checked(const uint8_t *map, uint64_t at, uint64_t end);

/* ---- links ------------------------------------------------------------------------------------------------------- */

FAST uint32_t hdi_index_link(const hd_index_body *body, uint64_t at) {
  uint32_t next;
  memcpy(&next, body->fast.slots + at * body->fast.slot_bytes, sizeof next);
  return next;
}

FAST void hdi_index_set_link(hd_index_body *body, uint64_t at, uint32_t next) {
  memcpy(body->fast.slots + at * body->fast.slot_bytes, &next, sizeof next);
}

/* ---- index_pool_free.c -------------------------------------------------------------------------------------------- */

unsigned hdi_index_pool_bin(uint32_t slots);

/* Mark an object free and count it, without or with a link. It must not be counted as used any more. */
void hdi_index_pool_mark_free(hd_index_body *body, uint64_t at, uint32_t slots);
void hdi_index_pool_put_free(hd_index_body *body, uint64_t at, uint32_t slots);

/* A free object that is not linked is none any more: its marks and its count go. */
void hdi_index_pool_swallow(hd_index_body *body, uint64_t at);

/* Take an object of the size out of the list of that size or from a larger free object. thorough: look at all of a bin. 0 when there
 * is none, or when a list is found broken: then it has been reported and rebuilt, and the caller may try again (*again). */
uint32_t hdi_index_pool_take_free(hd_index_body *body, uint32_t slots, bool thorough, bool *again);

/* Forget all lists and counts of free objects. */
void hdi_index_pool_forget_links(hd_index_body *body);
void hdi_index_pool_forget_free(hd_index_body *body);

/* Make lists, bins and counts from the map, with neighbours merged and the end lowered. Ends a compaction. */
void hdi_index_pool_rebuild(hd_index_body *body);

/* ---- index_pool.c ------------------------------------------------------------------------------------------------- */

/* Reserve memory for a pool of this shape. false with ENOMEM. */
bool hdi_index_pool_reserve(hd_index_body *body, hd_index_memory *memory);

/* Give it back; slots below touched may have been written. */
void hdi_index_pool_release(const hd_index_body *body, const hd_index_memory *memory, uint64_t touched);

/* Bytes that slots below `touched` cost; and tell the region. */
size_t hdi_index_pool_bytes(const hd_index_body *body, uint64_t touched);
void hdi_index_pool_note(hd_index_body *body);

/* The pool may be below its limit again: the next overflow is reported again. */
void hdi_index_pool_rearm(hd_index_body *body);

/* Start a text with "index pool 'name': ". */
void hdi_index_pool_text(const hd_index_body *body, hd_text *text, char *buffer, size_t bytes);

/* One line about misuse: what, an index, more. Then what `onerror` says. */
SLOW void hdi_index_pool_report(const hd_index_body *body, const char *what, uint32_t index, const char *more);

/* ---- index_pool_file.c -------------------------------------------------------------------------------------------- */

/* Save and load as the public functions do, with the place's name for the error text. whole: nothing may follow. */
hd_index_status hdi_index_pool_save(hd_index_body *body, hd_index_writer *writer, void *user, const char *place);
hd_index_status hdi_index_pool_load(hd_index_body *body, hd_index_reader *reader, void *user, bool whole, const char *place);

/* What has to happen before a pool is written. */
hd_index_status hdi_index_pool_prepare(hd_index_body *body, const hd_index_save *how);

/* Set the error text: "index pool 'name': cannot <verb> <place>: <why>". Returns status; errno stays. */
hd_index_status hdi_index_pool_fail(hd_index_body *body, const char *verb, const char *place, hd_index_status status, const char *why);

#endif
