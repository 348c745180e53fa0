/* See large.h.
 * SPDX-License-Identifier: MIT */
#include "core/large.h"

#include <string.h>

#include "core/check.h"
#include "core/counters.h"
#include "core/options.h"
#include "core/space_huge.h"
#include "os/os.h"

enum {
  MOVE_MIN = 256 * 1024,     /* below this a copy is cheaper than changing page tables */
  RECYCLE_UNITS = 16,        /* blocks from 1 MiB on are filled with recycled pages, */
  PIECE_UNITS = 4,           /* in pieces from 256 KiB on: a shorter move costs more than its faults */
  MOVES_MAX = 256,           /* of those, in the life of a process: a fork copies all that they leave (decision 5) */
  TAIL_MIN_UNITS = 4,        /* of the last huge page of a run at least that much must be used: small pages are cheaper for less, */
  TAIL_FULL_UNITS = 24,      /* or that much in a small process; */
  TAIL_SHARE = 3,            /* and what is unused must be at most a third of the block */
  HEAD_SHARE = 16,           /* in a small process the first huge page of a run may be at most so much of the block, */
  TABLE_UNITS = 320,         /* and tables up to 20 MiB have none: of one that is touched here and there they would bring all of it */
  FILLED_SHARE = 4,          /* where a quarter at its end is resident, or 2 MiB, a run was filled */
  ACROSS_SHARE = 4,          /* a run that begins in dirty memory has a quarter there */
  GIVE_BACK_UNITS = 16,      /* a block that shrinks gives up a quarter, or so much, and an eighth at least */
  PLENTY_UNITS = 256,
  SPARSE_UNITS = 9,          /* a run of more than 512 KiB, of which little was touched, stays whole for the next block; */
  SPARSE_LOOK = 15,          /* whether it is one is asked of one in sixteen while the answers are the same; */
  SPARSE_SHARE = 4,          /* and of those that are free a quarter may be resident */
  COPY_MAX = 4 * 1024 * 1024 /* up to this a copy into resident memory is cheaper than the faults it saves */
};

static size_t units_for(size_t bytes) { return (bytes + HD_UNIT_BYTES - 1) >> HD_UNIT_SHIFT; }

/* Whole huge pages, where there will be some: what lies in front of the first one and behind the last would be faulted in by small pages,
 * again for each block that takes another one's pages over. */
static size_t whole_units(size_t units) { return hd_round_up(units, hdi_space_huge_grain(&hdi_space, units)); }

/* What was found of the long runs that were freed last. */
static struct {
  atomic_bool found;          /* the last one asked about was sparse */
  atomic_uint pause, wait;    /* so many are taken for the same without a look, and so many still */
} sparse;

static size_t units_in_use(void) {
  size_t top = hd_load_relaxed(&hdi_space.top);
  size_t unused = hd_load_relaxed(&hdi_space.free_units);
  return top > unused ? top - unused : 0; /* two looks: they need not match */
}

/* Ask for huge pages in a run that is clean from unit `from` on, and of which `used` units may be touched. filled: the program has filled
 * the block so far. Of other buffers often only the beginning is ever touched, or a few places, and in a small process huge pages for those
 * would be most of its memory: there the first one has to be little of the block and the last one nearly all used, and none is touched here
 * to see what it costs, unless it is the first. */
SLOW static void want_huge(hd_space *space, hd_unit *first, size_t from, size_t used, hd_touch touch, bool filled) {
  size_t units = first->run_units, last = used % HD_HUGE_UNITS;
  bool is_long = HD_HUGE_UNITS * HEAD_SHARE <= used, in_doubt = !is_long || (last >= TAIL_MIN_UNITS && last < TAIL_FULL_UNITS);
  bool little = filled || (in_doubt && hdi_space_huge_is_little());
  bool head = little || is_long;
  bool tail = last >= (little ? TAIL_MIN_UNITS : TAIL_FULL_UNITS) && units - used <= used / TAIL_SHARE;
  size_t start = head ? from : hd_max(from, HD_HUGE_UNITS);
  hdi_space_want_huge(space, first + start, (tail ? units : used) - start, head ? touch : HD_TOUCH_PERHAPS);
}

/* Whether a block that reads as zero may be a table of a small process. */
static bool is_small_table(size_t used) { return used <= TABLE_UNITS && !hdi_space_huge_is_little(); }

/* The last long runs for malloc and for calloc whose ends have small pages, which tell what the program does with such blocks: units of the
 * space, and how many of them were asked for. */
static struct {
  _Atomic size_t at, units;
} last_plain[2];

static void note_plain(const hd_space *space, const hd_unit *first, size_t used, bool wants_zero) {
  if (hdi_space_is_huge(hdi_space_address(space, first + used - 1))) return;
  hd_store_relaxed(&last_plain[wants_zero].at, (size_t)(first - space->units));
  hd_store_relaxed(&last_plain[wants_zero].units, used);
}

/* Whether the program has filled the last such run, as its end tells, but for its last unit, of which less may have been used. What is
 * there may be another block's by now, or nobody's; and another thread may note its own meanwhile. */
static SLOW bool is_last_filled(const hd_space *space, bool wants_zero) {
  size_t at = hd_load_relaxed(&last_plain[wants_zero].at), units = hd_load_relaxed(&last_plain[wants_zero].units);
  size_t bytes = hd_min(units / FILLED_SHARE, HD_HUGE_UNITS) << HD_UNIT_SHIFT;
  return units != 0 && hdi_os_resident_in(space->base + ((at + units - 1) << HD_UNIT_SHIFT) - bytes, bytes) == bytes;
}

/* Fill a clean run with pages that lie in dirty pieces too short for it, so that no page is faulted in a second time while others
 * wait for the purger. Huge pages move whole; smaller pieces of them stay where they are, and a short run that ends in huge pages
 * gets those: a move into it would leave small pages on both sides. Each move leaves the kernel two more ranges to remember and each
 * fork to copy, so a process makes a few hundred of them. Returns the units filled. */
SLOW static size_t recycle(hd_unit *first, size_t units) {
  static atomic_uint moves;
  uint8_t *start = hdi_space_address(&hdi_space, first);
  uint8_t *end = start + (units << HD_UNIT_SHIFT);
  size_t step = units >= HD_HUGE_RUN_UNITS ? HD_HUGE_UNITS : 1;
  size_t least = hd_max(step, PIECE_UNITS);
  size_t filled = 0;
  if (!hdi_os.can_move || (step == 1 && hdi_space_is_huge(end - 1))) return 0;
  uint8_t *to = (uint8_t *)hd_round_up((uintptr_t)start, step << HD_UNIT_SHIFT);
  while (to < end && hd_load_relaxed(&moves) < MOVES_MAX) {
    size_t most = hd_round_down((size_t)(end - to) >> HD_UNIT_SHIFT, step);
    hd_unit *piece = most < least ? NULL : hdi_space_take_piece(least, most, step);
    if (piece == NULL) break;
    uint8_t *from = hdi_space_address(&hdi_space, piece);
    size_t piece_units = piece->run_units;
    hd_add(&moves, 1u);
    hdi_counters_os_call(1);
    bool whole = step > 1 || !hdi_space_is_huge(from);
    bool moved = whole && hdi_os_move(from, to, piece_units << HD_UNIT_SHIFT);
    hdi_space_give(&hdi_space, piece, piece_units, !moved);
    if (!moved) break;
    hdi_counters_moved(piece_units << HD_UNIT_SHIFT);
    to += piece_units << HD_UNIT_SHIFT;
    filled += piece_units;
  }
  return filled;
}

/* Fresh memory is about to become resident. If more free memory is resident than the program may well want back (16 MiB and an eighth of
 * what is in use), as much of it goes at once: programs that replace large blocks fast would otherwise hold all that they free
 * within the delay. */
static void trade(size_t units) {
  size_t dirty = hd_load_relaxed(&hdi_space.dirty.units) + hd_load_relaxed(&hdi_space.sparse.units) / SPARSE_SHARE;
  size_t plenty = PLENTY_UNITS + units_in_use() / 8;
  if (HD_LIKELY(dirty <= plenty) || !hd_load_owned(&hdi_options.purge)) return;
  hdi_space_purge(&hdi_space, hdi_space_tick(), hd_min(units, dirty - plenty));
}

/* For a run that no dirty one is long enough for: what is left behind a block that gave up its end, and clean units behind that. So blocks
 * that are taken long, filled and cut to what they hold come to lie side by side, and nothing is moved or faulted in twice. */
static SLOW hd_unit *take_across(hd_heap *heap, size_t units) {
  bool kept = units <= HD_CACHE_RUN && (heap->cached[units] != NULL || heap->given > 0);
  bool dense = units <= HD_EXACT_BINS && hdi_space_has_dirty(&hdi_space, units);
  size_t dirty = 0;
  hd_unit *first = kept || dense ? NULL : hdi_space_take_across(&hdi_space, units, units / ACROSS_SHARE, &dirty);
  if (first != NULL) trade(units - dirty);
  return first;
}

/* A run for a block of which as little may be touched as of the one before it. */
static SLOW hd_unit *take_sparse(const hd_heap *heap, size_t units, size_t align_units, bool wants_zero) {
  bool may = !wants_zero && !heap->explicit_heap && hd_load_owned(&hdi_options.limit) == 0;
  return may ? hdi_space_take_sparse(&hdi_space, units, align_units) : NULL;
}

static hd_unit *take_run(hd_heap *heap, size_t units, size_t align_units, bool wants_zero, bool *zeroed) {
  size_t grain = heap->explicit_heap ? 1 : hdi_space_huge_grain(&hdi_space, units);
  *zeroed = false;
  hd_unit *first = units < SPARSE_UNITS ? NULL : take_sparse(heap, units, align_units, wants_zero);
  if (first == NULL && grain > 1) first = hdi_heap_take_run(heap, hd_round_up(units, grain), hd_max(align_units, grain), zeroed);
  bool plain = first == NULL && grain == 1 && align_units == 1 && units >= ACROSS_SHARE && !wants_zero && !heap->explicit_heap;
  if (plain && hd_load_relaxed(&hdi_space.dirty.units) >= units / ACROSS_SHARE) first = take_across(heap, units);
  return first != NULL ? first : hdi_heap_take_run(heap, units, align_units, zeroed);
}

void *hdi_large_alloc(hd_heap *heap, size_t bytes, size_t alignment, bool wants_zero, bool *zeroed) {
  size_t used = units_for(hd_max(bytes, 1));
  hd_unit *first = take_run(heap, used, hd_max(alignment >> HD_UNIT_SHIFT, 1), wants_zero, zeroed);
  if (first == NULL) return NULL;
  size_t units = first->run_units;
  bool recycles = !wants_zero && units >= RECYCLE_UNITS && hd_load_relaxed(&hdi_space.dirty.units) >= units / 4;
  if (*zeroed && used >= HD_HUGE_RUN_UNITS && hdi_space_asks_huge(heap->space)) {
    bool filled = is_last_filled(heap->space, wants_zero);
    hd_touch touch = wants_zero || recycles ? HD_TOUCH_PERHAPS : HD_TOUCH_LIKELY;
    if (filled || !wants_zero || !is_small_table(used)) want_huge(heap->space, first, 0, used, touch, filled);
    note_plain(heap->space, first, used, wants_zero);
  }
  if (*zeroed && recycles) {
    size_t filled = recycle(first, units);
    if (filled > 0) *zeroed = false;
    if (filled < units) trade(units - filled);
  } else if (*zeroed && !wants_zero) {
    trade(units);
  }
  hd_store_owned(&first->plain, wants_zero);
  return hdi_large_make(heap, first, bytes);
}

/* The space of an explicit heap's block is the heap's; all others live in the common one. */
static hd_space *space_of(hd_unit *first) {
  hd_heap *heap = hdi_heap_owner(first);
  return heap == NULL ? &hdi_space : heap->space;
}

static void give(hd_heap *heap, hd_unit *first, size_t units, bool dirty) {
  hd_store_relaxed(&first->owner, (uintptr_t)0);
  hd_store_relaxed(&first->kind, HD_UNIT_NONE);
  if (heap == NULL) hdi_space_give(&hdi_space, first, units, dirty);
  else hdi_heap_give_run(heap, first, units, dirty);
}

/* Whether little of a run is resident, as its middle tells. Where huge pages lie that is always asked: a filled one would lose them. */
static bool is_sparse(const hd_unit *first, bool *looked) {
  const uint8_t *middle = hdi_space_address(&hdi_space, first + first->run_units / 2);
  unsigned wait = hd_load_relaxed(&sparse.wait);
  bool found = hd_load_relaxed(&sparse.found);
  *looked = wait == 0 || (found && hdi_space_is_huge(middle));
  if (!*looked) {
    hd_store_relaxed(&sparse.wait, wait - 1);
    return found;
  }
  size_t end = 0;
  hdi_os_resident_until(middle, HD_UNIT_BYTES, &end);
  bool is = end == 0;
  unsigned pause = is == found ? (unsigned)hd_min(2 * hd_load_relaxed(&sparse.pause) + 1, SPARSE_LOOK) : 0;
  hd_store_relaxed(&sparse.found, is);
  hd_store_relaxed(&sparse.pause, pause);
  hd_store_relaxed(&sparse.wait, pause);
  return is;
}

/* What is resident behind the middle of a sparse run are blocks' ends, each time in another place: it goes back now and then. With huge
 * pages one such end would bring two megabytes. */
static void thin_out(hd_unit *first, size_t units) {
  size_t half = units / 2;
  hdi_space_leave_huge(hdi_space_address(&hdi_space, first), units << HD_UNIT_SHIFT);
  if (!hd_load_owned(&hdi_options.purge)) return;
  hdi_counters_os_call(1);
  hdi_os_purge(hdi_space_address(&hdi_space, first + half), (units - half) << HD_UNIT_SHIFT);
}

/* Programs have buffers for whatever may come, and fill the beginning of most. If what such a block leaves were cut, the next ones would
 * begin elsewhere in it, and in the end all of it would be resident. Tables from calloc don't need it: what is not resident of one is
 * exchanged (decision 16); and a block that has grown is filled, or the next one will grow where it was. Whether the run has
 * been given back. */
static SLOW bool give_sparse(const hd_heap *heap, hd_unit *first) {
  bool looked = false;
  if ((heap != NULL && heap->explicit_heap) || first->plain || hd_load_owned(&hdi_options.limit) != 0) return false;
  if (!is_sparse(first, &looked)) return false;
  size_t units = first->run_units;
  if (looked) thin_out(first, units);
  hd_store_relaxed(&first->kind, HD_UNIT_NONE);
  hdi_space_give_sparse(&hdi_space, first);
  return true;
}

void hdi_large_free(hd_heap *heap, hd_unit *first) {
  size_t units = first->run_units;
  if (units >= SPARSE_UNITS && give_sparse(heap, first)) return;
  give(heap, first, units, true);
}

/* Units of an explicit heap's block change where it stands: keep its account. */
static bool charge(hd_unit *first, size_t more) {
  hd_heap *heap = hdi_heap_owner(first);
  if (heap == NULL) return true;
  if (heap->limit_units != 0 && more > heap->limit_units - heap->held_units) return false;
  heap->held_units += more;
  return true;
}

static void refund(hd_unit *first, size_t units) {
  hd_heap *heap = hdi_heap_owner(first);
  if (heap != NULL) heap->held_units -= units;
}

static bool extend(hd_unit *first, size_t more, bool *zeroed) {
  if (!charge(first, more)) return false;
  if (hdi_space_extend(space_of(first), first, first->run_units, more, zeroed)) return true;
  refund(first, more);
  return false;
}

/* A block has grown by clean memory from unit `from` on. If it was filled, as its middle tells, that will be as well. */
static void want_more_huge(hd_unit *first, size_t from, size_t used, size_t old_bytes) {
  hd_space *space = space_of(first);
  if (used < HD_HUGE_RUN_UNITS || !hdi_space_asks_huge(space)) return;
  const uint8_t *middle = first->base + hd_round_down(old_bytes / 2, hdi_os.page_bytes);
  bool filled = hdi_os_resident_in(middle, hdi_os.page_bytes) > 0;
  want_huge(space, first, from, used, filled ? HD_TOUCH_LIKELY : HD_TOUCH_PERHAPS, filled);
}

/* Blocks that lose little are soon wanted at their old length again. */
static size_t least_to_give(size_t units) { return hd_max(hd_max(hd_min(units / 4, GIVE_BACK_UNITS), units / 8), 1); }

bool hdi_large_resize(hd_unit *first, size_t bytes) {
  size_t units = first->run_units;
  size_t used = units_for(bytes);
  size_t wanted = hdi_heap_owner(first) == NULL ? whole_units(used) : used;
  bool zeroed = false;
  if (used > units) {
    if (!extend(first, wanted - units, &zeroed) && (wanted == used || !extend(first, used - units, &zeroed))) return false;
    if (zeroed) want_more_huge(first, units, used, first->block_bytes);
    if (zeroed) trade(first->run_units - units);
  } else if (bytes < first->block_bytes && wanted < units && units - wanted >= least_to_give(units)) {
    hd_store_owned(&first->run_units, (uint32_t)wanted);
    refund(first, units - wanted);
    hdi_space_give(space_of(first), first + wanted, units - wanted, true);
  }
  if (bytes > first->block_bytes) hd_store_owned(&first->plain, 1);
  hd_store_owned(&first->block_bytes, hdi_large_usable(bytes));
  return true;
}

/* Copy into memory that is resident already: cheaper than the faults that moving would cost whoever gets clean memory later. */
static void *move_by_copy(hd_heap *heap, hd_unit *first, size_t bytes) {
  hd_unit *target = hdi_space_take_dirty(&hdi_space, units_for(bytes));
  if (target == NULL) return NULL;
  void *to = hdi_space_address(&hdi_space, target);
  memcpy(to, first->base, hd_min(first->block_bytes, bytes));
  hd_store_owned(&target->plain, 1);
  return hdi_large_make(heap, target, bytes);
}

static void *move_pages(hd_heap *heap, hd_unit *first, size_t bytes) {
  /* The whole run, or the content behind a block that has shrunk would stay in a run that then counts as clean. */
  size_t old_bytes = (size_t)first->run_units << HD_UNIT_SHIFT;
  size_t units = units_for(bytes);
  HD_ASSERT(units >= first->run_units);
  size_t grain = hdi_space_huge_grain(&hdi_space, units);
  size_t wide = hd_round_up(units + units / 4, grain); /* address space to grow into, not memory */
  hd_unit *target = hdi_space_allows(&hdi_space, wide - first->run_units) ? hdi_space_take_clean(&hdi_space, wide, grain) : NULL;
  if (target == NULL) target = hdi_space_take_clean(&hdi_space, units, 1);
  if (target == NULL) return NULL;
  size_t target_units = target->run_units;
  hdi_counters_os_call(1);
  if (!hdi_os_move(first->base, hdi_space_address(&hdi_space, target), old_bytes)) {
    hdi_space_give(&hdi_space, target, target_units, false);
    return NULL;
  }
  hdi_counters_moved(old_bytes);
  size_t old_units = old_bytes >> HD_UNIT_SHIFT;
  trade(units - hd_min(units, old_units));
  hd_store_owned(&target->plain, 1);
  void *moved = hdi_large_make(heap, target, bytes);
  want_more_huge(target, old_units, target_units, old_bytes); /* the block will be asked about no more as it grows there */
  return moved;
}

void *hdi_large_move(hd_heap *heap, hd_unit *first, size_t bytes) {
  bool grows = bytes > first->block_bytes;
  if (first->block_bytes < MOVE_MIN || hdi_heap_owner(first) != NULL || heap->explicit_heap) return NULL;
  if (grows && !hdi_space_allows(&hdi_space, units_for(bytes) - first->run_units)) return NULL;
  bool copied = true;
  void *to = !grows || first->block_bytes <= COPY_MAX ? move_by_copy(heap, first, bytes) : NULL;
  if (to == NULL && grows && hdi_os.can_move) {
    copied = false;
    to = move_pages(heap, first, bytes);
  }
  if (to == NULL) return NULL;
  hd_store_relaxed(&first->live, 0);
  give(NULL, first, first->run_units, copied);
  return to;
}
