/* See heap.h: refilling slots and the life of pages.
 * SPDX-License-Identifier: MIT */
#include "core/heap.h"

#include <string.h>

#include "core/check.h"
#include "core/claim.h"
#include "core/inherit.h"
#include "core/options.h"
#include "core/page.h"
#include "core/purge.h"
#include "core/remote.h"
#include "core/store.h"

enum {
  LENDERS = 4, /* classes that are asked for a block: they reach up to one and a half times the size */
  HOSTED_PART = 128, /* bytes, in which is counted what a class without pages takes of its host */
  SPILLS = 4,  /* times that a magazine was too small before it grows */
  REST_UNITS = 64, /* units taken in short runs before the heap once more gives up what rests in it, */
  REST_SOON = 16,  /* and after a time when that was as many units or more */
  MANY_UNITS = 64, /* units in pages from which on a heap looks for what rests in idle classes, and has rows, */
  LOOKS = 3,       /* so many of them for each new page */
  BULK_UNITS = HD_CACHE_UNITS / 2, /* units that go to the space, or come from there, at once, */
  BULK_RUN = BULK_UNITS / 2, /* in runs of so many and fewer */
  CROWDED = 128,   /* times that somebody had the space's lock before the cache takes twice as much */
  PAUSE_MOST = 31, /* claims without a try at the same group: three after one that failed, seven after the next, up to this; */
  PAUSE_LEAST = 1, /* where that starts, a power of two less one as well */
  WAITS_FROM = 32, /* blocks of a page whose blocks never handed out may have to wait */
  AHEAD_LEAST = 4, /* units for the next pages of a heap beside others, */
  AHEAD_MOST = 32, /* and where it has as many already, or takes several for one page */
  TURN_BYTES = 8 * 1024, /* of blocks that malloc and free take turns at, */
  TURN_BLOCKS = 8, /* but so many of longer ones, */
  TURN_LEAST = 4,  /* and so many in any case */
  ROW_SHARE = 16,  /* a class takes a sixteenth of its pages side by side, */
  ROW_MOST = 16,   /* so many at most (1 MiB), */
  ROW_FROM = 32,   /* if it has so many */
  LOOK_FREES = 64, /* frees of a page from one look at their order to the next, in a heap larger than the caches: */
  LOOK_BLOCKS = 16, /* so many blocks on either side say in which direction they go, */
  LOOK_LEAST = 6,  /* if so many more of them are free on one side; */
  FETCH_BYTES = 512, /* what is fetched then lies so far ahead, */
  FETCH_BLOCKS = 4 /* or so many blocks */
};

/* In the first 16 classes every multiple of 16, to 512 of 32, to 1,024 of 64, to 2,048 of 128: as hdi_sizeclass_of. */
#define SIZES(above, to, class_index) [(above) + 1 ...(to)] = (uint16_t)offsetof(hd_heap, class[class_index])
#define FINE(i) SIZES(((i) - 1) * 16, (i) * 16, i)
#define BELOW_512(i) SIZES(256 + ((i) - 1) * 32, 256 + (i) * 32, HD_FINE_CLASSES + (i))
#define BELOW_1024(i) SIZES(512 + ((i) - 1) * 64, 512 + (i) * 64, HD_FINE_CLASSES + 8 + (i))
#define BELOW_2048(i) SIZES(1024 + ((i) - 1) * 128, 1024 + (i) * 128, HD_FINE_CLASSES + 16 + (i))
#define EIGHT(of, i) of((i) + 1), of((i) + 2), of((i) + 3), of((i) + 4), of((i) + 5), of((i) + 6), of((i) + 7), of((i) + 8)

HD_LOADER_DATA uint16_t hdi_heap_slot_at[HD_SMALL_MAX + 1] = {
    (uint16_t)offsetof(hd_heap, class[1]), EIGHT(FINE, 0), EIGHT(FINE, 8), EIGHT(BELOW_512, 0), EIGHT(BELOW_1024, 0), EIGHT(BELOW_2048, 0)};

HD_LATER_DATA hd_heap hdi_heap_empty;
atomic_bool hdi_heap_several;
__thread hd_heap *hdi_heap_self __attribute__((tls_model("initial-exec"))) = &hdi_heap_empty;
__thread hd_heap *hdi_heap_hidden __attribute__((tls_model("initial-exec"))) = &hdi_heap_empty;

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static hd_unit *run_at(const hd_heap *heap, uint32_t index) { return heap->space->units + index - 1; }

static void list_run(hd_heap *heap, hd_unit *first) {
  uint32_t index = (uint32_t)(first - heap->space->units) + 1;
  first->run_prev = 0;
  first->run_next = heap->runs;
  if (heap->runs != 0) run_at(heap, heap->runs)->run_prev = index;
  heap->runs = index;
}

static void unlist_run(hd_heap *heap, hd_unit *first) {
  if (first->run_next != 0) run_at(heap, first->run_next)->run_prev = first->run_prev;
  if (first->run_prev != 0) run_at(heap, first->run_prev)->run_next = first->run_next;
  else heap->runs = first->run_next;
}

/* For an explicit heap, within its limit. */
static SLOW hd_unit *take_listed(hd_heap *heap, size_t units, size_t align_units, bool *zeroed) {
  if (heap->one_user) hdi_lock_take(&heap->lock);
  bool allowed = heap->limit_units == 0 || units <= heap->limit_units - heap->held_units;
  hd_unit *first = allowed ? hdi_space_take(heap->space, units, align_units, zeroed) : NULL;
  if (first != NULL) {
    heap->held_units += units;
    list_run(heap, first);
  }
  if (heap->one_user) hdi_lock_drop(&heap->lock);
  return first;
}

/* For another use than it had. */
static hd_unit *take_cached(hd_heap *heap, size_t units) {
  hd_unit *first = hdi_heap_take_cached(heap, units);
  hd_store_relaxed(&first->kind, HD_UNIT_NONE);
  return first;
}

/* A thread that has given many runs at once takes as many so: it works in waves, and would have the lock of the space for every one. */
static SLOW bool fetch_runs(hd_heap *heap, size_t units) {
  size_t most = hd_min(hd_min(BULK_UNITS, heap->given), heap->cache_room - heap->cached_units);
  if (units > BULK_RUN || most < units) return false;
  hd_unit *run = hdi_space_take_runs(heap->space, units, most / units);
  if (run == NULL) {
    heap->given = 0;
    return false;
  }
  for (hd_unit *next; run != NULL; run = next) {
    next = run->next;
    hdi_heap_keep_run(heap, run, units);
    heap->given -= (uint32_t)units;
  }
  return true;
}

/* The cache is full. Of its runs of this length those that were freed first go to the space, and this one takes their place. false: it has
 * not so many of them. */
static SLOW bool spill_runs(hd_heap *heap, hd_unit *first, size_t units) {
  hd_unit *last = units <= BULK_RUN ? heap->cached[units] : NULL;
  for (size_t kept = 2 * units; kept < BULK_UNITS && last != NULL; kept += units) last = last->next;
  if (last == NULL || last->next == NULL) return false;
  hd_unit *list = last->next;
  last->next = NULL;
  uint32_t count = 0;
  for (hd_unit *run = list; run != NULL; run = run->next, count += (uint32_t)units) hd_store_relaxed(&run->kind, HD_UNIT_NONE);
  hd_store_owned(&heap->cached_units, heap->cached_units - count);
  heap->given += count;
  hdi_space_give_runs(heap->space, list);
  hdi_heap_keep_run(heap, first, units);
  return true;
}

/* The cache is full, and others are at the space: threads that free and take longer runs all the time would wait for each other there.
 * After a while of that a heap keeps more of its own. false: there is no room for this run even so. */
static SLOW bool widen_cache(hd_heap *heap, size_t units) {
  if (heap->cache_room >= HD_CACHE_UNITS_MOST || !hdi_lock_is_taken(&heap->space->lock)) return false;
  if (++heap->crowded % CROWDED != 0) return false;
  hd_store_owned(&heap->cache_room, heap->cache_room * 2);
  return hdi_heap_has_room(heap, units);
}

void hdi_heap_give_run(hd_heap *heap, hd_unit *first, size_t units, bool dirty) {
  if (heap->one_user) {
    hdi_lock_take(&heap->lock);
    heap->held_units -= units;
    unlist_run(heap, first);
    hdi_lock_drop(&heap->lock);
  } else if (heap->explicit_heap) {
    heap->held_units -= units;
    unlist_run(heap, first);
  } else if (dirty && (hdi_heap_has_room(heap, units) || widen_cache(heap, units))) {
    hdi_heap_keep_run(heap, first, units);
    return;
  } else if (dirty && spill_runs(heap, first, units)) {
    return;
  }
  hdi_space_give(heap->space, first, units, dirty);
}

void hdi_heap_give_all(hd_heap *heap) {
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    hd_store_owned(&heap->class[i].slot.word_at, 0);
    heap->class[i].page = heap->class[i].first = NULL;
    heap->class[i].page_count = 0;
  }
  heap->page_units = 0;
  hd_store_relaxed(&heap->inbox, NULL);
  while (heap->runs != 0) {
    hd_unit *first = run_at(heap, heap->runs);
    size_t units = first->run_units;
    if (hd_load_relaxed(&first->kind) == HD_UNIT_PAGE) {
      for (uint32_t i = 0; i < first->capacity; i++) hd_store_relaxed(&first->map[i], HD_BLOCK_FREE);
      hdi_page_clear(heap, first);
    } else {
      hd_store_relaxed(&first->live, 0u);
      hd_store_relaxed(&first->owner, (uintptr_t)0);
      hd_store_relaxed(&first->kind, HD_UNIT_NONE);
    }
    hdi_heap_give_run(heap, first, units, true);
  }
}

/* ---- lists of partly used pages ---------------------------------------------------------------------------------- */

/* The first one's prev is the last one. */
static void link_page(hd_class *class, hd_unit *page, bool last) {
  hd_unit *first = class->first;
  page->prev = first != NULL ? first->prev : page;
  page->next = last ? NULL : first;
  if (last && first != NULL) page->prev->next = page;
  else class->first = page;
  if (first != NULL) first->prev = page;
}

static void unlink_page(hd_class *class, hd_unit *page) {
  hd_unit *behind = page->next != NULL ? page->next : class->first;
  behind->prev = page->prev;
  if (class->first == page) class->first = page->next;
  else page->prev->next = page->next;
}

/* ---- the life of a page ------------------------------------------------------------------------------------------ */

void hdi_heap_release(hd_heap *heap, hd_unit *page) {
  size_t units = page->run_units;
  hdi_page_clear(heap, page);
  heap->class[page->class_index].page_count--;
  heap->page_units -= (uint32_t)units;
  hdi_heap_give_run(heap, page, units, true);
}

/* Once for all: it is long where the processor is not known to have an instruction for it. */
static __attribute__((noinline)) uint32_t count_bits(uint64_t bits) { return hd_bit_count(bits); }

/* Of the LOOK_BLOCKS blocks on either side of one, how many more have been freed by the owner, and not taken since, behind it than before
 * it. Where the page ends nothing is left to free. */
static inline int free_behind(const hd_unit *page, uint32_t index) {
  const uint64_t *word = &page->words[index / 64];
  uint32_t at = index % 64, last = (uint32_t)page->capacity - 1;
  uint64_t here = *word, before = UINT64_MAX, behind = UINT64_MAX;
  if (index >= 64) before = word[-1];
  if (index / 64 < last / 64) behind = word[1];
  else here |= (UINT64_MAX - 1) << last % 64;
  uint64_t above = (here >> at >> 1 | behind << (63 - at)) & hd_low_mask(LOOK_BLOCKS);
  uint64_t below = (here << (63 - at) << 1 | before >> at) >> (64 - LOOK_BLOCKS);
  return (int)count_bits(above << LOOK_BLOCKS | (below ^ hd_low_mask(LOOK_BLOCKS))) - LOOK_BLOCKS;
}

SLOW void hdi_heap_look_ahead(hd_unit *page, uint64_t index) {
  if (!hdi_page_is_plain(page) || index >= page->capacity) return;
  int more = free_behind(page, (uint32_t)index);
  ptrdiff_t far = (ptrdiff_t)hd_max(FETCH_BLOCKS * page->block_bytes, FETCH_BYTES);
  page->fetch_at = HD_FETCH_NOTHING;
  if (more >= LOOK_LEAST) page->fetch_at = -far;
  if (more <= -LOOK_LEAST) page->fetch_at = far;
}

/* Something must be done after so many frees of a page of which so many blocks are in use. */
static __attribute__((noinline)) void set_credit(const hd_heap *heap, hd_unit *page, uint32_t used, uint32_t credit) {
  if (hdi_heap_minds_order(heap, page) && hdi_page_is_plain(page)) credit = (uint32_t)hd_min(credit, LOOK_FREES);
  hd_store_owned(&page->credit, credit);
  page->rest = (uint16_t)(used - credit);
}

/* First in the list, whoever freed: pages near to full fill up again, and those that wait behind them run empty and go back. Last are those
 * with blocks that were never handed out. */
void hdi_heap_make_partial(hd_heap *heap, hd_unit *page, uint32_t used) {
  hd_class *class = &heap->class[page->class_index];
  set_credit(heap, page, used, used);
  hd_store_owned(&page->state, HD_PAGE_PARTIAL);
  link_page(class, page, page->fresh < page->capacity);
}

/* Frees until an eighth of a page is free, of which so many blocks are in use. */
static uint32_t frees_until_enough(const hd_unit *page, uint32_t used) {
  uint32_t unused = used < page->capacity ? (uint32_t)page->capacity - used : 0;
  uint32_t eighth = (uint32_t)page->capacity / 8;
  return eighth > unused ? eighth - unused : 0;
}

/* A page without enough free blocks leaves the slot. It comes back when an eighth of it is free, unless another heap has taken it over by
 * then. */
static void make_full(const hd_heap *heap, hd_unit *page, uint32_t used) {
  uint32_t credit = hd_min(hd_max(frees_until_enough(page, used), 1), used);
  hd_store_owned(&page->state, HD_PAGE_FULL);
  set_credit(heap, page, used, credit);
  if (!hdi_page_is_plain(page)) return;
  page->fetch_at = HD_FETCH_NOTHING;
  hdi_remote_let_loose(page);
}

/* The same for one that is FULL already, or no longer: with so many blocks in use. */
static __attribute__((noinline)) void settle_full(hd_heap *heap, hd_unit *page, uint32_t used) {
  uint32_t credit = hd_min(frees_until_enough(page, used), used);
  if (credit == 0) hdi_heap_make_partial(heap, page, used);
  else set_credit(heap, page, used, credit);
}

void hdi_heap_settle(hd_heap *heap, hd_unit *page) {
  hd_class *class = &heap->class[page->class_index];
  if (page->credit != 0) return;
  switch (page->state) {
    case HD_PAGE_CURRENT:
      hd_store_owned(&page->credit, HD_CREDIT_CURRENT);
      page->counted = (uint16_t)page->capacity;
      break;
    case HD_PAGE_FULL:
      settle_full(heap, page, page->rest);
      if (page->credit == 0) hdi_heap_settle(heap, page);
      break;
    case HD_PAGE_PARTIAL:
      set_credit(heap, page, page->rest, page->rest);
      if (page->credit != 0) break;
      if (hdi_remote_is_queued(page)) break; /* the drain comes back to it */
      unlink_page(class, page);
      hdi_heap_release(heap, page);
      break;
    default:
      HD_UNREACHABLE("a page in no state");
  }
}

/* What the slot holds is in the page's words as well, but for what the word apart has. */
static void empty_slot(hd_class *class, hd_unit *page) {
  if (page->apart != 0) hd_store_owned(&page->words[page->group], page->words[page->group] | page->apart);
  hd_store_owned(&page->apart, 0);
  class->turn = 0;
  hd_store_owned(&class->slot.word_at, 0);
}

void hdi_heap_unclaim(hd_heap *heap, hd_unit *page) {
  hd_class *class = &heap->class[page->class_index];
  empty_slot(class, page);
  class->page = NULL;
  hdi_heap_make_partial(heap, page, hdi_page_used(page));
  hdi_heap_settle(heap, page);
}

bool hdi_heap_unclaim_medium(hd_heap *heap, hd_unit *page) {
  if (page->class_index <= HD_SMALL_CLASSES || heap->class[page->class_index].page != page) return false;
  hdi_heap_unclaim(heap, page);
  return true;
}

void hdi_heap_credit_remote(hd_heap *heap, hd_unit *page, uint32_t count) {
  uint32_t used = hdi_page_used(page);
  heap->class[page->class_index].told = heap->class[page->class_index].shared = true;
  if (HD_UNLIKELY(count > used)) HD_UNREACHABLE("more blocks freed than were live: concurrent double frees");
  if (page->state == HD_PAGE_CURRENT) {
    hd_store_owned(&page->held, page->held - count);
  } else if (page->state == HD_PAGE_FULL) {
    settle_full(heap, page, used - count);
  } else {
    set_credit(heap, page, used - count, used - count);
  }
  hdi_heap_settle(heap, page);
}

uint64_t hdi_claim_again(hd_unit *page, hd_class *class) {
  uint32_t group = page->group;
  HD_ASSERT(page->fresh > group * 64); /* a page becomes CURRENT to be claimed from at once */
  if (class->pause != 0) {
    class->pause--;
    return 0;
  }
  uint32_t touched = (uint32_t)hd_min(page->fresh - group * 64, 64);
  uint64_t bits = hdi_claim_look(page, class, group);
  uint32_t count = count_bits(bits);
  if (count * 4 < touched) {
    if (HD_LIKELY(page->capacity > 64)) class->pause = class->last_pause = (uint8_t)((class->last_pause * 2 + 1) & PAUSE_MOST);
    if (page->capacity > 64 || count * FEW_BLOCKS_SHARE < touched) return 0;
  }
  class->last_pause = PAUSE_LEAST;
  hdi_claim_group_of(page, class, group);
  return bits;
}

/* A turn of larger blocks is shorter, so that all of it stays in the first cache. */
static uint32_t turn_blocks(const hd_unit *page) { return (uint32_t)hd_max(TURN_BYTES >> hd_highest_bit(page->block_bytes), TURN_BLOCKS); }

static uint64_t put_apart(hd_unit *page, hd_class *class, uint32_t count) {
  uint64_t *word = &page->words[page->group];
  uint64_t bits = *word, lowest = bits & -bits;
  uint32_t most = turn_blocks(page);
  if (most < 64) bits &= (lowest << most) - lowest;
  hd_store_owned(word, *word & ~bits);
  hd_store_owned(&page->apart, bits);
  hdi_slot_set(&class->slot, &page->apart);
  class->turn = (uint8_t)hd_min(count, most);
  return bits;
}

/* The more blocks there are in a turn, the seldomer one waits for the other: add so many that nobody has had, if the group has them.
 * Returns how many it has. */
static uint32_t widen_turn(hd_unit *page, uint32_t most) {
  return page->fresh / 64 == page->group ? hdi_claim_open(page, most, &page->words[page->group]) : 0;
}

void hdi_claim_take_turns(hd_heap *heap, hd_unit *page) {
  hd_class *class = &heap->class[page->class_index];
  bool alone = heap->turner == page->class_index; /* it ran out twice, and no other class's page did meanwhile */
  heap->turner = page->class_index;
  if (!alone || class->shared || !hdi_page_is_plain(page)) return;
  HD_ASSERT(class->page == page && page->group != HD_NO_GROUP); /* as in hdi_claim_again */
  if (hdi_slot_word(&class->slot) != &page->words[page->group]) return;
  uint32_t count = count_bits(page->words[page->group]), most = turn_blocks(page);
  if (count < most) count += widen_turn(page, most - count);
  if (count >= TURN_LEAST) put_apart(page, class, count);
}

uint64_t hdi_claim_turn(hd_heap *heap, hd_class *class) {
  if (class->turn == HD_TURN_INHERITED) return hdi_inherit_leave(heap, class);
  hd_unit *page = class->page;
  uint64_t bits = hdi_slot_bits(&class->slot);
  if (bits != 0) return bits;
  bool goes_on = !class->shared && heap->turner == page->class_index;
  uint32_t count = count_bits(page->words[page->group]);
  if (goes_on && count >= TURN_LEAST && count * 2 >= class->turn) return put_apart(page, class, count);
  class->turn = 0;
  hdi_claim_group_of(page, class, page->group);
  return page->words[page->group];
}

__attribute__((noinline)) bool hdi_claim_from(hd_unit *page, hd_class *class, uint32_t from) {
  return hdi_claim_find(page, class, from, true) != 0;
}

/* Whether a page's blocks that were never handed out wait, because the class has a page without such blocks in its list, which ends with
 * those that have some (decision 32). Pages of fewer than 32 blocks run empty more often than they fill up, so theirs don't wait; nor do
 * those of a page that was just made. */
static inline bool is_waiting(const hd_unit *page, const hd_class *class) {
  const hd_unit *next = class->first;
  return page->fresh > 0 && page->capacity >= WAITS_FROM && next != NULL && next->fresh == next->capacity;
}

__attribute__((noinline)) bool hdi_claim_step(hd_unit *page, hd_class *class) {
  if (is_waiting(page, class)) return false;
  uint32_t group = page->fresh / 64;
  /* Memory of earlier owners is resident, or part of it is: to walk through all of it is worth fewer claims where there are many. */
  uint32_t step = page->zeroed || !class->busy ? class->step : 64;
  bool apart = page->zeroed && (class->zeroes || !hdi_page_is_plain(page));
  uint64_t *word = apart ? &page->apart : &page->words[group];
  hdi_claim_open(page, step, word);
  hdi_claim_group_by(page, class, group, word);
  class->zeroed = apart;
  if (class->busy && class->step < 64 && class->step * page->block_bytes < HD_STEP_BYTES_MAX) class->step *= 2;
  return true;
}

static bool claim(hd_class *class) {
  hd_unit *page = class->page;
  uint32_t remote = hdi_remote_take(page);
  if (remote != 0) class->told = class->shared = true;
  hd_store_owned(&page->held, page->held - remote);
  return hdi_claim_next(page, class);
}

/* Whether a page can give blocks that it has given before. Old memory that it has not come to does not count: part of it may be gone. */
static bool has_touched(const hd_unit *page) { return page->fresh > hdi_page_used(page); }

static bool can_lend(hd_heap *heap, unsigned class_index) {
  const hd_magazine *magazine = hdi_heap_magazine(heap, class_index);
  if (magazine->top != magazine->first) return true;
  hd_class *class = &heap->class[class_index];
  if (hdi_slot_bits(&class->slot) != 0) return !class->zeroed;
  hd_unit *page = class->page;
  if (page == NULL) return false;
  return hdi_claim_from(page, class, 0);
}

unsigned hdi_heap_lender(hd_heap *heap, unsigned class_index) {
  hd_class *class = &heap->class[class_index];
  if (class->busy || class->first != NULL || (class->page != NULL && has_touched(class->page))) return class_index;
  for (unsigned i = class_index + 1; i <= class_index + LENDERS && i < HD_CLASS_COUNT; i++) {
    if (!can_lend(heap, i)) continue;
    hdi_claim_count(heap, class);
    return i;
  }
  return class_index;
}

unsigned hdi_heap_host(hd_heap *heap, unsigned class_index) {
  hd_class *class = &heap->class[class_index];
  if (class->hosted >= HD_HOSTED_MOST || heap->explicit_heap) return class_index;
  unsigned shift = hd_highest_bit(hdi_sizeclass_bytes(class_index) - 1) + 1;
  class->hosted = (uint8_t)(class->hosted + hd_max(1, (1u << shift) / HOSTED_PART));
  return hdi_sizeclass_of((size_t)1 << shift);
}

void hdi_heap_host_anew(hd_heap *heap) {
  for (unsigned i = 1; i <= HD_SMALL_CLASSES; i++) heap->class[i].hosted = 0;
}

/* ---- magazines --------------------------------------------------------------------------------------------------- */

static void empty_magazine(hd_heap *heap, hd_magazine *magazine) {
  for (const hd_cached *at = magazine->top; at > magazine->first;) {
    at--;
    hd_unit *page = hdi_space_entry(at->block)->head;
    if (hdi_free_local(page, at->state)) hdi_heap_settle(heap, page);
  }
  hd_store_owned(&magazine->top, magazine->first);
}

/* Memory for so many blocks in an empty magazine. Without it the magazine keeps what it has. */
static void make_room(hd_magazine *magazine, uint32_t blocks) {
  hd_cached *cached = hdi_store_take(blocks * sizeof(hd_cached));
  if (cached == NULL) return;
  if (magazine->room != 0) {
    memset(magazine->first, 0, magazine->room * sizeof(hd_cached));
    hdi_store_give(magazine->first, magazine->room * sizeof(hd_cached));
  }
  magazine->room = blocks;
  hd_store_owned(&magazine->first, cached);
  hd_store_owned(&magazine->top, cached);
}

/* An empty magazine shall take so many blocks, or as many as it can. */
static void limit_magazine(hd_magazine *magazine, uint32_t blocks) {
  if (blocks > magazine->room) make_room(magazine, blocks);
  magazine->end = magazine->first + hd_min(blocks, magazine->room);
}

static uint32_t magazine_blocks(unsigned class_index, uint32_t most, uint32_t most_bytes) {
  return (uint32_t)hd_max(1, hd_min(most, most_bytes / hdi_sizeclass_bytes(class_index)));
}

/* With the class's first page, so that a heap's memory is touched for the classes that it uses. */
static void open_magazine(hd_heap *heap, unsigned class_index) {
  limit_magazine(hdi_heap_magazine(heap, class_index), magazine_blocks(class_index, HD_MAGAZINE_FIRST, HD_MAGAZINE_FIRST_BYTES));
}

void hdi_heap_deepen(hd_heap *heap, unsigned class_index) {
  hd_class *class = &heap->class[class_index];
  if (++class->spills % (2 * SPILLS) != 0) return;
  hd_magazine *magazine = hdi_heap_magazine(heap, class_index);
  uint32_t most = magazine_blocks(class_index, HD_MAGAZINE_MOST, HD_MAGAZINE_MOST_BYTES);
  size_t twice = 2 * (size_t)hd_max(magazine->end - magazine->first, 1); /* 0: there was no memory for it */
  limit_magazine(magazine, (uint32_t)hd_min(twice, most));
}

/* What is left of a class's row goes back, if it may have one. */
static SLOW void drop_row(hd_heap *heap, unsigned class_index) {
  if (class_index > HD_ONE_UNIT_CLASSES || heap->row[class_index].units == 0) return;
  hd_row *row = &heap->row[class_index];
  hdi_space_give(heap->space, heap->space->units + row->at, row->units, !row->zeroed);
  hd_store_owned(&heap->row_units, heap->row_units - row->units);
  row->units = 0;
}

static SLOW void drop_rows(hd_heap *heap) {
  for (unsigned i = 1; heap->row_units > 0; i++) drop_row(heap, i);
}

void hdi_heap_drop_cache(hd_heap *heap) {
  if (HD_UNLIKELY(heap->row_units > 0)) drop_rows(heap);
  for (unsigned i = HD_SMALL_CLASSES + 1; i < HD_CLASS_COUNT; i++) {
    if (hdi_heap_magazine(heap, i)->room == 0) continue;
    empty_magazine(heap, hdi_heap_magazine(heap, i));
    open_magazine(heap, i);
  }
  hdi_heap_drop_runs(heap);
}

void hdi_heap_rest(hd_heap *heap) {
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    if (heap->class[i].page != NULL) hdi_heap_unclaim(heap, heap->class[i].page);
  }
  hdi_heap_host_anew(heap);
  hdi_heap_drop_cache(heap);
  hdi_space_give_ahead(heap->space, &heap->ahead);
}

void hdi_heap_drop_runs(hd_heap *heap) {
  hdi_shelf_clear(&heap->shelf);
  hd_store_owned(&heap->cache_room, HD_CACHE_UNITS);
  heap->given = 0;
  for (size_t units = 1; units <= HD_CACHE_RUN && heap->cached_units > 0; units++) {
    while (heap->cached[units] != NULL) hdi_space_give(heap->space, take_cached(heap, units), units, true);
  }
}

/* ---- taking runs ------------------------------------------------------------------------------------------------- */

/* Whether nothing of a CURRENT page is in use, and most of it has been. One with a few touched blocks stays: as old memory it would be
 * touched all over by the next class. Of a heap with many pages a short one that was old memory itself goes too. */
static bool is_spare(const hd_heap *heap, const hd_unit *page) {
  if (page == NULL || hdi_page_used(page) != 0) return false;
  bool was_old = !page->zeroed && page->run_units == 1 && hdi_heap_page_units(heap) >= MANY_UNITS;
  return was_old || page->fresh * 2 >= page->capacity;
}

static void give_up(hd_heap *heap, unsigned class_index) {
  if (class_index > HD_SMALL_CLASSES) empty_magazine(heap, hdi_heap_magazine(heap, class_index));
  if (is_spare(heap, heap->class[class_index].page)) hdi_heap_unclaim(heap, heap->class[class_index].page);
}

/* With each new page a heap that has many looks at a few classes in turn. Those that have claimed nothing since the last time give up what
 * rests in them, so that the next classes work in it and not beside it. */
static void give_up_idle(hd_heap *heap) {
  if (heap->inherited != NULL) hdi_inherit_check(heap);
  for (unsigned looks = 0; looks < LOOKS; looks++) {
    heap->looked_at = (uint8_t)(heap->looked_at % (HD_CLASS_COUNT - 1) + 1);
    hd_class *class = &heap->class[heap->looked_at];
    if (class->page_count > 0 && class->claims == class->seen) {
      give_up(heap, heap->looked_at);
      if (HD_UNLIKELY(heap->row_units > 0)) drop_row(heap, heap->looked_at);
    }
    class->seen = class->claims;
  }
}

/* Before memory is touched that nobody had. A block in a magazine keeps its page, a claim another, and a kept run its neighbours: of a
 * program that works in waves, each with sizes of its own, that is more than what it uses. What is hot goes as well, so not at each run. */
static SLOW void give_up_rest(hd_heap *heap) {
  size_t before = hd_load_relaxed(&hdi_space.dirty.units) + heap->cached_units;
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) give_up(heap, i);
  hdi_heap_drop_runs(heap);
  bool much = hd_load_relaxed(&hdi_space.dirty.units) >= before + REST_SOON;
  heap->taken = much ? REST_UNITS - REST_SOON : 0;
}

/* A run that a thread's heap keeps, or NULL: then it has given up what it can do without. */
static hd_unit *take_kept(hd_heap *heap, size_t units, size_t align_units) {
  bool is_short = units <= HD_CACHE_RUN;
  if (is_short) {
    const hd_unit *kept = heap->cached[units];
    bool cached = kept != NULL && hdi_space_misfit(heap->space, kept, align_units) == 0;
    if (!cached && align_units == 1) cached = HD_UNLIKELY(heap->given > 0) && fetch_runs(heap, units);
    if (cached) return take_cached(heap, units);
  }
  if (!hdi_space_has_dirty(heap->space, units)) { /* nothing that was touched before is left for it */
    if (HD_UNLIKELY(heap->taken >= REST_UNITS)) give_up_rest(heap);
    if (HD_UNLIKELY(hd_load_relaxed(&hdi_remote_much)) && !hdi_space_has_dirty(heap->space, units)) hdi_purge_fetch(heap);
  }
  if (is_short) heap->taken += (uint32_t)units;
  return NULL;
}

hd_unit *hdi_heap_take_run(hd_heap *heap, size_t units, size_t align_units, bool *zeroed) {
  *zeroed = false;
  if (HD_UNLIKELY(heap->explicit_heap)) return take_listed(heap, units, align_units, zeroed); /* it keeps no runs */
  hd_unit *kept = take_kept(heap, units, align_units);
  return kept != NULL ? kept : hdi_space_take(heap->space, units, align_units, zeroed);
}

/* The same for a page. A processor that sees a program walk through the blocks of a page fetches what would come next, behind its end.
 * Where that is another thread's page, its owner waits for the line at his next store: so where there are several threads the pages of
 * each lie side by side (decision 42). */
static hd_unit *take_page_run(hd_heap *heap, size_t units, bool *zeroed) {
  if (HD_LIKELY(!hd_load_relaxed(&hdi_heap_several)) || heap->explicit_heap) return hdi_heap_take_run(heap, units, 1, zeroed);
  *zeroed = false;
  hd_unit *kept = take_kept(heap, units, 1);
  if (kept != NULL) return kept;
  size_t at_once = units > 1 ? AHEAD_MOST : hd_min(hd_max(heap->page_units, AHEAD_LEAST), AHEAD_MOST);
  return hdi_space_take_page(heap->space, units, &heap->ahead, at_once, zeroed);
}

/* A program that walks through blocks of several classes in the order in which it made them goes from page to page in each of them, and
 * what it comes to next is elsewhere each time. So a class that has many pages takes several at once that lie side by side, and uses them
 * up one after the other (decision 45). Memory that was touched before comes first: where there is none for a whole row, but for a page,
 * there is no row. */
static SLOW bool begin_row(hd_heap *heap, unsigned class_index) {
  hd_row *row = &heap->row[class_index];
  size_t units = hd_min(heap->class[class_index].page_count / ROW_SHARE, ROW_MOST);
  bool any = heap->cached_units > 0 || hdi_space_has_dirty(heap->space, 1);
  if (any && !hdi_space_has_dirty(heap->space, units)) return false;
  hd_unit *first = take_kept(heap, units, 1);
  row->zeroed = false;
  if (first == NULL) first = hdi_space_take_row(heap->space, units, &row->zeroed);
  if (first == NULL) return false;
  row->at = (uint32_t)(first - heap->space->units);
  row->units = (uint16_t)first->run_units;
  hd_store_owned(&heap->row_units, heap->row_units + first->run_units);
  return true;
}

/* NULL: the page has to come from somewhere else. Under a limit rows would count before they are needed. */
static SLOW hd_unit *take_in_row(hd_heap *heap, unsigned class_index, bool *zeroed) {
  if (class_index > HD_ONE_UNIT_CLASSES || hd_load_owned(&hdi_options.limit) != 0) return NULL;
  hd_row *row = &heap->row[class_index];
  if (row->units == 0 && !begin_row(heap, class_index)) return NULL;
  hd_unit *first = heap->space->units + row->at++;
  row->units--;
  hd_store_owned(&heap->row_units, heap->row_units - 1);
  hd_store_owned(&first->run_units, 1u);
  *zeroed = row->zeroed;
  return first;
}

/* What a heap of many pages does before it takes another one. A page from the class's row, or NULL: where there are several threads others
 * would need what is in rows. */
static SLOW hd_unit *next_of_many(hd_heap *heap, unsigned class_index, bool *zeroed) {
  hdi_page_ask_processor();
  give_up_idle(heap);
  if (hd_load_relaxed(&hdi_heap_several) || heap->class[class_index].page_count < ROW_FROM) return NULL;
  return take_in_row(heap, class_index, zeroed);
}

/* ---- refilling --------------------------------------------------------------------------------------------------- */

/* Units for a page that may have as many as `most`. Old memory is resident as a whole, so the first page of a class takes as little of it
 * as will do; if it lies in shorter runs only, one of them is a shorter page for any, where at most a third of it is left over. */
static __attribute__((noinline)) unsigned fit_page(hd_heap *heap, size_t block_bytes, unsigned most, bool few) {
  for (unsigned i = 0; i < most; i++) {
    unsigned units = few ? i + 1 : most - i;
    size_t bytes = (size_t)units << HD_UNIT_SHIFT;
    bool is_there = heap->cached[units] != NULL || hdi_space_has_dirty(heap->space, units);
    if (is_there && bytes % block_bytes <= bytes / 3) return units;
  }
  return most;
}

static __attribute__((noinline)) hd_unit *new_page(hd_heap *heap, unsigned class_index) {
  hd_class *class = &heap->class[class_index];
  uint32_t block_bytes = hdi_sizeclass_bytes(class_index);
  unsigned units = hdi_sizeclass_units(block_bytes);
  bool plain = !heap->explicit_heap && heap->hardened == NULL;
  if (units > 1 && plain) units = fit_page(heap, block_bytes, units, class->page_count == 0 && !class->busy);
  bool zeroed = false;
  hd_unit *page = NULL;
  if (HD_UNLIKELY(hdi_heap_page_units(heap) >= MANY_UNITS) && !heap->explicit_heap) page = next_of_many(heap, class_index, &zeroed);
  if (page == NULL) page = take_page_run(heap, units, &zeroed);
  if (page == NULL) return NULL;
  if (!hdi_page_init(heap, page, class_index, units, zeroed)) {
    hdi_heap_give_run(heap, page, units, !zeroed);
    return NULL;
  }
  bool first = class->page_count++ == 0;
  heap->page_units += units;
  if (class->step == 0) class->step = (uint8_t)hd_max(1, hd_min(64, HD_STEP_BYTES / block_bytes));
  if (first && plain && class_index > HD_SMALL_CLASSES) open_magazine(heap, class_index);
  return page;
}

/* A CURRENT page of which nothing can be claimed is used up. Or it still has blocks that were never handed out: if it is not all in use, as
 * far as the owner knows, nothing but its having to wait has kept the claim from those. */
static void leave_page(hd_heap *heap, hd_class *class, hd_unit *page, uint32_t used) {
  class->page = NULL;
  empty_slot(class, page);
  if (used < page->capacity && page->fresh < page->capacity) hdi_heap_make_partial(heap, page, used);
  else make_full(heap, page, used);
}

/* Claim of the CURRENT page, first what has been handed out before; or, if it is used up, of the first of the partly used ones, which takes
 * its place. What most refills come to, where no other thread has told of anything. false: nothing is claimed, and there may be more to see
 * to. */
static bool claim_alone(hd_heap *heap, hd_class *class) {
  hd_unit *page = class->page, *next = class->first;
  if (page == NULL || hdi_page_has_news(page)) return false;
  if (class->told && hdi_claim_again(page, class) != 0) return true;
  if (hdi_claim_from(page, class, hdi_page_next_group(page))) return true;
  uint32_t count = UINT32_MAX;
  if (hdi_claim_again_pays(page, class, &count)) return hdi_claim_from(page, class, 0);
  if (class->told) return false;
  if (hdi_claim_virgin(page, class)) return true;
  if (next == NULL || hdi_page_has_news(next)) return false;
  if (hdi_remote_has_mail(heap) || hd_load_relaxed(&heap->arrived) != NULL) return false;
  if (count == UINT32_MAX) count = hdi_page_count_words(page);
  leave_page(heap, class, page, page->held - count);
  unlink_page(class, next);
  hdi_claim_begin(next, class);
  return hdi_claim_from(next, class, 0);
}

bool hdi_heap_refill(hd_heap *heap, hd_class *class) {
  if (claim_alone(heap, class)) return true;
  if (class->page != NULL) {
    if (HD_LIKELY(claim(class))) return true;
    leave_page(heap, class, class->page, hdi_page_used(class->page));
  }
  hdi_remote_drain(heap);
  while (class->first != NULL) {
    hd_unit *page = class->first;
    unlink_page(class, page);
    hdi_claim_begin(page, class);
    if (claim(class)) return true;
    leave_page(heap, class, page, hdi_page_used(page));
  }
  hd_unit *page = new_page(heap, (unsigned)(class - heap->class));
  if (page == NULL) return false;
  hdi_claim_begin(page, class);
  return claim(class);
}
