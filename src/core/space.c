/* See space.h.
 * SPDX-License-Identifier: MIT */
#include "core/space.h"

#include <string.h>

#include "core/check.h"
#include "core/counters.h"
#include "core/options.h"
#include "core/space_fixed.h"
#include "core/space_grow.h"
#include "core/space_huge.h"
#include "os/os.h"

enum {
  FIT_TRIES = 24,          /* runs looked at in a bin of many lengths */
  SPARSE_TIMES = 4,        /* a sparse run goes to a request of a quarter of it at least */
  PASS_TRIES = 8,          /* at others' memory, against threads that are at it as well */
  REFUSALS_MOST = 16,      /* runs that the system leaves us before nothing more is purged: the program may have locked some of it */
  ASIDE_MIN = 64,
  ASIDE_MAX = 4096 /* units put aside for the time of a fork */
};

hd_unit *hdi_space_find(const void *p) {
  hd_unit *unit = hdi_space_fixed_find(p); /* these first: the memory of one may be a block of ours */
  if (HD_UNLIKELY(unit != NULL)) return unit;
  size_t in_window = ((uintptr_t)p - (uintptr_t)hdi_space.base) >> HD_UNIT_SHIFT;
  bool ours = in_window < hd_load_acquire(&hdi_space.top) && !hdi_space_is_passed(&hdi_space, in_window);
  return ours ? hdi_space.units + in_window : NULL;
}

bool hdi_space_covers(const void *p) {
  size_t at = ((uintptr_t)p - (uintptr_t)hdi_space.base) >> HD_UNIT_SHIFT;
  if (hdi_space.base == NULL || at >= hdi_space.unit_count) return false;
  return at < hd_load_acquire(&hdi_space.committed) ? !hdi_space_is_passed(&hdi_space, at) : !HD_NARROW;
}

hd_space *hdi_space_of(const hd_unit *unit) {
  if (unit >= hdi_space.units && unit < hdi_space.units + hdi_space.unit_count) return &hdi_space;
  hd_space *space = hdi_space_fixed_of(unit);
  if (HD_LIKELY(space != NULL)) return space;
  HD_UNREACHABLE("a unit outside every space");
}

/* Wraps after 3,000 days; only differences count. */
uint32_t hdi_space_tick(void) { return (uint32_t)(hdi_os_now_ms() / HD_TICK_MS); }

/* ---- bins -------------------------------------------------------------------------------------------------------- */

static unsigned bin_of(size_t units) {
  if (units <= HD_EXACT_BINS) return (unsigned)units - 1;
  unsigned log = (unsigned)hd_highest_bit(units);
  unsigned bin = HD_EXACT_BINS + (log - 5) * 2 + (unsigned)((units >> (log - 1)) & 1);
  return bin < HD_BIN_COUNT ? bin : HD_BIN_COUNT - 1;
}

static hd_bins *bins_of(hd_space *space, unsigned kind) {
  if (HD_LIKELY(kind == HD_UNIT_DIRTY)) return &space->dirty;
  return kind == HD_UNIT_CLEAN ? &space->clean : &space->sparse;
}

static void mark_ends(hd_unit *first, size_t units, unsigned kind, uint32_t stamp) {
  hd_unit *last = first + units - 1;
  hd_store_owned(&first->run_units, (uint32_t)units);
  hd_store_owned(&last->run_units, (uint32_t)units);
  hd_store_owned(&first->stamp, stamp); /* it was a page's count of mail, at which somebody may still look; remote.c */
  hd_store_relaxed(&first->kind, (uint8_t)kind);
  hd_store_relaxed(&last->kind, (uint8_t)kind);
}

/* More free units, or fewer. Others only read these two, so whoever has the lock need not change them at a blow. */
static void count_free(hd_space *space, hd_bins *bins, size_t more) {
  hd_store_relaxed(&space->free_units, hd_load_relaxed(&space->free_units) + more);
  hd_store_relaxed(&bins->units, hd_load_relaxed(&bins->units) + more);
}

static void insert(hd_space *space, hd_unit *first, size_t units, unsigned kind, uint32_t stamp) {
  hd_bins *bins = bins_of(space, kind);
  unsigned bin = bin_of(units);
  mark_ends(first, units, kind, stamp);
  first->prev = NULL;
  first->next = bins->bin[bin];
  if (first->next != NULL) first->next->prev = first;
  bins->bin[bin] = first;
  hd_store_owned(&bins->filled, bins->filled | (uint64_t)1 << bin);
  count_free(space, bins, units);
}

/* Take a free run out of its bin and unmark its ends. */
static void detach(hd_space *space, hd_unit *first) {
  unsigned kind = hd_load_relaxed(&first->kind);
  HD_ASSERT(kind == HD_UNIT_DIRTY || kind == HD_UNIT_CLEAN || kind == HD_UNIT_SPARSE);
  hd_bins *bins = bins_of(space, kind);
  size_t units = first->run_units;
  unsigned bin = bin_of(units);
  if (first->next != NULL) first->next->prev = first->prev;
  if (first->prev != NULL) first->prev->next = first->next;
  else bins->bin[bin] = first->next;
  if (bins->bin[bin] == NULL) hd_store_owned(&bins->filled, bins->filled & ~((uint64_t)1 << bin));
  hd_store_relaxed(&first->kind, HD_UNIT_NONE);
  hd_store_relaxed(&first[units - 1].kind, HD_UNIT_NONE);
  count_free(space, bins, 0 - units);
}

/* The smallest run that fits among the first few of a bin; the lower address where two are equal. */
static hd_unit *best_in(const hd_space *space, hd_unit *run, size_t units, size_t align_units, size_t tries) {
  hd_unit *best = NULL;
  for (; run != NULL && tries > 0; run = run->next, tries--) {
    if (run->run_units < units + hdi_space_misfit(space, run, align_units)) continue;
    if (best == NULL || run->run_units < best->run_units || (run->run_units == best->run_units && run < best)) best = run;
  }
  return best;
}

static hd_unit *best_fit(const hd_space *space, const hd_bins *bins, size_t units, size_t align_units, size_t tries) {
  uint64_t candidates = bins->filled & ~hd_low_mask(bin_of(units));
  while (candidates != 0) {
    unsigned bin = (unsigned)hd_lowest_bit(candidates);
    hd_unit *run = best_in(space, bins->bin[bin], units, align_units, tries);
    if (run != NULL) return run;
    candidates &= candidates - 1;
  }
  return NULL;
}

/* ---- units from the top ------------------------------------------------------------------------------------------------- */

/* Units from the top; lock-free, so that it also serves while a fork holds the lock. The skipped units in front of an aligned
 * run are returned in *skipped. */
static hd_unit *take_top(hd_space *space, size_t units, size_t align_units, size_t *skipped, hd_claim *grown) {
  size_t top = hd_load_acquire(&space->top);
  *grown = HD_CLAIM_REFUSED;
  for (;;) {
    size_t skip = hdi_space_misfit(space, space->units + top, align_units);
    if (units > space->unit_count - top || skip > space->unit_count - top - units) return NULL;
    *grown = hdi_space_grow(space, top + skip + units);
    if (*grown != HD_CLAIM_DONE) return NULL;
    if (hd_swap_if(&space->top, &top, top + skip + units)) {
      *skipped = skip;
      return space->units + top + skip;
    }
  }
}

/* A page of one unit is filled at once, or soon. */
static hd_touch touch_of(size_t units) { return units == 1 ? HD_TOUCH_SURE : HD_TOUCH_LIKELY; }

/* Fresh units, wherever they are. */
static hd_unit *take_unasked(hd_space *space, size_t units, size_t align_units, size_t *skipped) {
  hd_claim grown;
  hd_unit *first = take_top(space, units, align_units, skipped, &grown);
  for (int tries = 0; grown == HD_CLAIM_TAKEN && tries < PASS_TRIES; tries++) {
    if (!hdi_space_pass(space, units + align_units - 1)) break;
    first = take_top(space, units, align_units, skipped, &grown);
  }
  return first;
}

/* The same, and huge pages are asked for where they pay. */
static hd_unit *take_fresh(hd_space *space, size_t units, size_t align_units, hd_touch touch, size_t *skipped) {
  hd_unit *first = take_unasked(space, units, align_units, skipped);
  if (first == NULL) return NULL;
  size_t at = (size_t)(first - space->units);
  hdi_space_huge_enter(space, at - *skipped, at + units, hd_load_relaxed(&space->committed), touch);
  return first;
}

/* ---- giving and taking ------------------------------------------------------------------------------------------- */

/* Put a run into the bins, merged with free neighbours of its kind. The merged run is as old as the mean of its parts, so that
 * small late additions do not keep a large old run from the purger. Returns the merged run. */
static hd_unit *merge_in(hd_space *space, hd_unit *first, size_t units, unsigned kind, uint32_t stamp) {
  size_t at = (size_t)(first - space->units);
  if (at > 0 && hd_load_relaxed(&first[-1].kind) == kind) {
    hd_unit *left = first - first[-1].run_units;
    size_t left_units = left->run_units;
    int64_t younger = (int32_t)(stamp - left->stamp);
    stamp = left->stamp + (uint32_t)(younger * (int64_t)units / (int64_t)(units + left_units));
    detach(space, left);
    first = left;
    units += left_units;
  }
  if (first + units < space->units + hd_load_relaxed(&space->top)) {
    hd_unit *right = first + units;
    if (hd_load_relaxed(&right->kind) == kind) {
      size_t right_units = right->run_units;
      int64_t younger = (int32_t)(stamp - right->stamp);
      stamp = right->stamp + (uint32_t)(younger * (int64_t)units / (int64_t)(units + right_units));
      detach(space, right);
      units += right_units;
    }
  }
  insert(space, first, units, kind, stamp);
  return first;
}

static hd_unit *give_locked(hd_space *space, hd_unit *first, size_t units, bool dirty, uint32_t stamp) {
  return merge_in(space, first, units, dirty ? HD_UNIT_DIRTY : HD_UNIT_CLEAN, stamp);
}

/* Without the lock. */
void hdi_space_defer(hd_space *space, hd_unit *first, size_t units, uint32_t stamp) {
  hd_store_owned(&first->run_units, (uint32_t)units);
  hd_store_owned(&first->stamp, stamp);
  hdi_unit_push(&space->deferred, first);
}

/* Runs that were freed while somebody else had the lock. */
static void take_in_deferred(hd_space *space) {
  if (HD_LIKELY(hd_load_relaxed(&space->deferred) == NULL)) return;
  hd_unit *run = hd_exchange(&space->deferred, NULL);
  while (run != NULL) {
    hd_unit *next = run->next;
    give_locked(space, run, run->run_units, true, run->stamp);
    run = next;
  }
}

/* Sparse runs are as good as others where nothing else is left. */
static SLOW void take_in_sparse(hd_space *space) {
  hd_unit *run;
  while ((run = best_fit(space, &space->sparse, 1, 1, 1)) != NULL) {
    detach(space, run);
    give_locked(space, run, run->run_units, true, run->stamp);
  }
}

/* Take `units` behind the first `skip` of a free run out of it; what is left at its ends stays free. */
static hd_unit *carve(hd_space *space, hd_unit *run, size_t skip, size_t units) {
  unsigned kind = hd_load_relaxed(&run->kind);
  size_t run_units = run->run_units;
  uint32_t stamp = run->stamp;
  hd_unit *first = run + skip;
  detach(space, run);
  if (skip > 0) insert(space, run, skip, kind, stamp);
  if (run_units > skip + units) insert(space, first + units, run_units - skip - units, kind, stamp);
  return first;
}

static size_t end_of(const hd_space *space, const hd_unit *run) { return (size_t)(run - space->units) + run->run_units; }

/* A dirty run; else as many clean units as are wanted, or enough where no run has so many. The first unit says how many it has. *end: where
 * the clean memory ends that it is from; 0: it is dirty, or there is none. */
static hd_unit *take_free(hd_space *space, size_t units, size_t align_units, size_t wanted, size_t tries, size_t *end) {
  *end = 0;
  hd_unit *run = best_fit(space, &space->dirty, units, align_units, tries);
  if (run == NULL) {
    if (wanted > 0) run = best_fit(space, &space->clean, wanted, align_units, tries);
    if (run == NULL && wanted > units) run = best_fit(space, &space->clean, units, align_units, tries);
    if (run == NULL) return NULL;
    *end = end_of(space, run);
    units = hd_min(run->run_units, wanted);
  }
  run = carve(space, run, hdi_space_misfit(space, run, align_units), units);
  hd_store_owned(&run->run_units, (uint32_t)units);
  return run;
}

/* A small space is full: what is left at its top joins the free run below, if there is one. */
static void absorb_top(hd_space *space) {
  if (!space->fixed) return;
  size_t top = hd_exchange(&space->top, space->unit_count);
  if (top == space->unit_count) return;
  give_locked(space, space->units + top, space->unit_count - top, true, hdi_space_tick());
}

bool hdi_space_allows(const hd_space *space, size_t units) {
  uint64_t limit = (uint64_t)hd_load_owned(&hdi_options.limit);
  if (HD_LIKELY(limit == 0)) return true;
  return space != &hdi_space || hdi_space_used(space) + units <= limit >> HD_UNIT_SHIFT;
}

/* ---- while a fork holds the lock ---------------------------------------------------------------------------------------- */

static size_t aside_count(uint64_t aside) { return (size_t)(aside & UINT32_MAX) >> 1; }

/* One of the longest free runs: the first of the highest bin. */
static hd_unit *take_longest(hd_space *space, bool *zeroed) {
  uint64_t dirty = space->dirty.filled, clean = space->clean.filled;
  if ((dirty | clean) == 0) return NULL;
  *zeroed = clean > dirty;
  hd_unit *run = *zeroed ? space->clean.bin[hd_highest_bit(clean)] : space->dirty.bin[hd_highest_bit(dirty)];
  detach(space, run);
  return run;
}

/* By the thread that forks, with the lock: put a run aside for those who will not get it. Otherwise a program that goes on while it forks
 * would take new addresses at every fork. */
static void put_aside(void) {
  hd_space *space = &hdi_space;
  take_in_deferred(space);
  size_t need = hd_exchange(&space->fork_need, 0);
  size_t units = space->aside_units - space->aside_units / 32;
  if (need != 0) units = hd_min(hd_max(hd_max(4 * need, units), ASIDE_MIN), ASIDE_MAX);
  if (units < ASIDE_MIN) units = 0; /* what is changed here is copied for the child, so a program that waits for its forks pays nothing */
  space->aside_units = units;
  if (units == 0 || hd_load_owned(&hdi_options.limit) != 0) return;
  size_t end = 0;
  hd_unit *first = take_free(space, units, 1, units, FIT_TRIES, &end);
  bool zeroed = end != 0;
  if (first == NULL) {
    first = take_longest(space, &zeroed);
    if (first == NULL) return;
    units = first->run_units;
  }
  space->aside_stamp = first->stamp;
  hd_store_release(&space->aside, (uint64_t)(first - space->units) << 32 | units << 1 | zeroed);
}

/* By the same thread, once it is over. */
static void put_back(void) {
  uint64_t aside = hd_exchange(&hdi_space.aside, 0);
  if (aside_count(aside) == 0) return;
  give_locked(&hdi_space, hdi_space.units + (aside >> 32), aside_count(aside), (aside & 1) == 0, hdi_space.aside_stamp);
}

/* By the others. */
static hd_unit *take_aside(hd_space *space, size_t units, bool *zeroed) {
  uint64_t aside = hd_load_acquire(&space->aside);
  for (;;) {
    if (aside_count(aside) < units) return NULL;
    *zeroed = (aside & 1) != 0;
    if (hd_swap_if(&space->aside, &aside, aside + ((uint64_t)units << 32) - (units << 1))) return space->units + (aside >> 32);
  }
}

/* One of the runs that were freed meanwhile, or a part of one. The list is taken whole, so that nobody else sees it half changed. */
static hd_unit *take_deferred(hd_space *space, size_t units) {
  if (hd_load_relaxed(&space->deferred) == NULL) return NULL;
  hd_unit *list = hd_exchange(&space->deferred, NULL);
  hd_unit *before = NULL, *run = list;
  for (int tries = 0; run != NULL && run->run_units < units; tries++) {
    before = run;
    run = tries < FIT_TRIES ? run->next : NULL;
  }
  if (run != NULL && before != NULL) before->next = run->next;
  else if (run != NULL) list = run->next;
  if (run != NULL && run->run_units > units) hdi_space_defer(space, run + units, run->run_units - units, run->stamp);
  hd_unit *none = NULL;
  if (list == NULL || hd_swap_if(&space->deferred, &none, list)) return run;
  while (list != NULL) { /* others came meanwhile */
    hd_unit *next = list->next;
    hdi_space_defer(space, list, list->run_units, list->stamp);
    list = next;
  }
  return run;
}

/* Without the lock. */
static SLOW hd_unit *take_during_fork(hd_space *space, size_t units, size_t align_units, bool *zeroed) {
  size_t skipped = 0;
  *zeroed = false;
  hd_unit *first = align_units == 1 ? take_deferred(space, units) : NULL;
  if (first != NULL) return first;
  hd_add(&space->fork_need, units + align_units - 1);
  if (align_units == 1) first = take_aside(space, units, zeroed);
  if (first != NULL) return first;
  *zeroed = !space->fixed;
  first = take_fresh(space, units, align_units, touch_of(units), &skipped);
  if (skipped > 0) hdi_space_defer(space, first - skipped, skipped, hdi_space_tick());
  return first;
}

/* ---- taking ------------------------------------------------------------------------------------------------------------- */

/* Clean units are handed out. */
static void enter(const hd_space *space, const hd_unit *first, size_t units, size_t end) {
  size_t at = (size_t)(first - space->units);
  hdi_space_huge_enter(space, at, at + units, end, touch_of(units));
}

/* Memory that was free before: see take_free. What the system is asked comes after the lock (decision 40). false: a fork has that. */
static __attribute__((noinline)) bool take_used(hd_space *space, size_t units, size_t align_units, size_t wanted, hd_unit **first,
                                                size_t *end) {
  if (HD_UNLIKELY(!hdi_lock_take_unless_fork(&space->lock))) return false;
  take_in_deferred(space);
  *first = take_free(space, units, align_units, wanted, FIT_TRIES, end);
  hdi_lock_drop(&space->lock);
  return true;
}

/* The same where there is nothing else: by a look at every run, also at those that are kept for others. */
static SLOW bool take_last(hd_space *space, size_t units, size_t align_units, hd_unit **first, bool *zeroed) {
  size_t end = 0;
  if (!hdi_lock_take_unless_fork(&space->lock)) return false;
  take_in_deferred(space);
  absorb_top(space);
  take_in_sparse(space);
  *first = take_free(space, units, align_units, units, SIZE_MAX, &end);
  hdi_lock_drop(&space->lock);
  *zeroed = end != 0;
  return true;
}

static hd_unit *take_new(hd_space *space, size_t units, size_t align_units, hd_touch touch, bool *zeroed) {
  size_t skipped = 0;
  hd_unit *first = take_fresh(space, units, align_units, touch, &skipped);
  *zeroed = !space->fixed;
  if (skipped > 0) hdi_space_give(space, first - skipped, skipped, space->fixed);
  return first;
}

hd_unit *hdi_space_take(hd_space *space, size_t units, size_t align_units, bool *zeroed) {
  HD_ASSERT(units > 0 && hd_is_power_of_2(align_units));
  hd_unit *first = NULL;
  size_t end = 0;
  if (HD_UNLIKELY(!hdi_space_allows(space, units))) return NULL;
  bool done = take_used(space, units, align_units, units, &first, &end);
  *zeroed = end != 0;
  if (HD_UNLIKELY(end != 0)) enter(space, first, units, end);
  if (done && first == NULL) first = take_new(space, units, align_units, touch_of(units), zeroed);
  if (HD_UNLIKELY(done && first == NULL)) done = take_last(space, units, align_units, &first, zeroed);
  if (HD_UNLIKELY(!done)) first = take_during_fork(space, units, align_units, zeroed);
  if (first != NULL) hd_store_owned(&first->run_units, (uint32_t)units);
  return first;
}

/* ---- side by side ---------------------------------------------------------------------------------------------------------- */

/* At the top it ends where a huge page may end, so that what tells whether the next one is asked for is in use by then. */
SLOW hd_unit *hdi_space_take_row(hd_space *space, size_t units, bool *zeroed) {
  hd_unit *first = NULL;
  size_t end = 0, skipped = 0;
  if (!take_used(space, units, 1, units, &first, &end)) return NULL;
  *zeroed = first == NULL || end != 0;
  if (first == NULL) {
    units = hd_min(units, HD_HUGE_UNITS - hd_load_relaxed(&space->top) % HD_HUGE_UNITS);
    first = take_fresh(space, units, 1, HD_TOUCH_SURE, &skipped);
  } else if (end != 0) {
    size_t at = (size_t)(first - space->units);
    hdi_space_huge_enter(space, at, at + units, end, HD_TOUCH_SURE);
  }
  if (first != NULL) hd_store_owned(&first->run_units, (uint32_t)units);
  return first;
}

/* What is still there goes back, unless it goes on in what comes. */
static void add_ahead(hd_space *space, hd_ahead *ahead, hd_unit *first, size_t end) {
  bool goes_on = ahead->units > 0 && first == ahead->first + ahead->units;
  if (!goes_on) {
    hdi_space_give_ahead(space, ahead);
    ahead->first = first;
  }
  ahead->units += first->run_units;
  ahead->end = (uint32_t)end;
}

SLOW hd_unit *hdi_space_take_page(hd_space *space, size_t units, hd_ahead *ahead, size_t at_once, bool *zeroed) {
  size_t lacks = ahead->units >= units ? 0 : at_once, end = 0, skipped = 0;
  hd_unit *first = NULL;
  if (lacks > 0 && hd_load_owned(&hdi_options.limit) != 0) return hdi_space_take(space, units, 1, zeroed);
  bool look = lacks > 0 || hdi_space_has_dirty(space, units) || hd_load_relaxed(&space->deferred) != NULL;
  bool done = !look || take_used(space, units, 1, lacks, &first, &end);
  *zeroed = first == NULL || end != 0;
  if (!*zeroed) return first;
  if (lacks > 0) {
    if (first == NULL && done) {
      first = take_unasked(space, lacks, 1, &skipped);
      if (first != NULL) hd_store_owned(&first->run_units, (uint32_t)lacks);
      end = hd_load_relaxed(&space->committed);
    }
    if (first == NULL) return hdi_space_take(space, units, 1, zeroed);
    add_ahead(space, ahead, first, end);
  }
  first = ahead->first;
  ahead->first += units;
  ahead->units -= (uint32_t)units;
  enter(space, first, units, ahead->end);
  hd_store_owned(&first->run_units, (uint32_t)units);
  return first;
}

/* Free units right behind others, where there are so many: a free run's or the top's. Returns where memory of their kind ends; 0: there are
 * none. */
static size_t take_behind(hd_space *space, hd_unit *next, size_t more, bool *zeroed) {
  size_t top = hd_load_relaxed(&space->top);
  size_t at = (size_t)(next - space->units);
  if (at == top) {
    bool done =
        space->unit_count - top >= more && hdi_space_grow(space, top + more) == HD_CLAIM_DONE && hd_swap_if(&space->top, &top, top + more);
    *zeroed = !space->fixed;
    return done ? hd_load_relaxed(&space->committed) : 0;
  }
  unsigned kind = hd_load_relaxed(&next->kind);
  bool enough = (kind == HD_UNIT_DIRTY || kind == HD_UNIT_CLEAN) && next->run_units >= more;
  if (!enough) return 0;
  size_t end = end_of(space, next);
  carve(space, next, 0, more);
  *zeroed = kind == HD_UNIT_CLEAN;
  return end;
}

/* false: a fork has the lock. */
static bool take_kind(hd_space *space, size_t units, size_t align_units, unsigned kind, hd_unit **first) {
  if (!hdi_lock_take_unless_fork(&space->lock)) return false;
  take_in_deferred(space);
  hd_unit *run = best_fit(space, bins_of(space, kind), units, align_units, FIT_TRIES);
  if (run != NULL) {
    *first = carve(space, run, hdi_space_misfit(space, run, align_units), units);
    hd_store_owned(&(*first)->run_units, (uint32_t)units);
  }
  hdi_lock_drop(&space->lock);
  return true;
}

hd_unit *hdi_space_take_clean(hd_space *space, size_t units, size_t align_units) {
  hd_unit *first = NULL;
  bool zeroed = false;
  if (!take_kind(space, units, align_units, HD_UNIT_CLEAN, &first) || first != NULL) return first;
  first = take_new(space, units, align_units, HD_TOUCH_PERHAPS, &zeroed); /* pages are moved there */
  if (first != NULL) hd_store_owned(&first->run_units, (uint32_t)units);
  return first;
}

static hd_unit *take_again(hd_space *space, size_t units, unsigned kind) {
  hd_unit *first = NULL;
  take_kind(space, units, 1, kind, &first);
  return first;
}

hd_unit *hdi_space_take_clean_again(hd_space *space, size_t units) { return take_again(space, units, HD_UNIT_CLEAN); }
hd_unit *hdi_space_take_dirty(hd_space *space, size_t units) { return take_again(space, units, HD_UNIT_DIRTY); }

hd_unit *hdi_space_take_sparse(hd_space *space, size_t units, size_t align_units) {
  if (hd_load_relaxed(&space->sparse.units) < units || !hdi_lock_take_unless_fork(&space->lock)) return NULL;
  hd_unit *run = best_fit(space, &space->sparse, units, align_units, FIT_TRIES);
  if (run != NULL && (run->run_units / SPARSE_TIMES > units || hdi_space_misfit(space, run, align_units) != 0)) run = NULL;
  if (run != NULL) detach(space, run);
  hdi_lock_drop(&space->lock);
  return run;
}

hd_unit *hdi_space_take_piece(size_t least, size_t most, size_t step) {
  hd_space *space = &hdi_space;
  hd_unit *first = NULL;
  if (!hdi_lock_take_unless_fork(&space->lock)) return NULL;
  take_in_deferred(space);
  uint64_t filled = space->dirty.filled;
  hd_unit *run = filled == 0 ? NULL : space->dirty.bin[hd_highest_bit(filled)];
  size_t skip = run == NULL ? 0 : hdi_space_misfit(space, run, step);
  if (run != NULL && run->run_units >= least + skip) {
    size_t units = hd_round_down(hd_min(run->run_units - skip, most), step);
    first = carve(space, run, skip, units);
    hd_store_owned(&first->run_units, (uint32_t)units);
  }
  hdi_lock_drop(&space->lock);
  return first;
}

/* The longest first. What is free behind a dirty run is clean, or it would be part of the run. */
hd_unit *hdi_space_take_across(hd_space *space, size_t units, size_t least, size_t *dirty) {
  hd_unit *first = NULL;
  bool zeroed = false;
  size_t end = 0;
  if (!hdi_space_allows(space, units) || !hdi_lock_take_unless_fork(&space->lock)) return NULL;
  take_in_deferred(space);
  uint64_t filled = best_fit(space, &space->dirty, units, 1, FIT_TRIES) == NULL ? space->dirty.filled : 0;
  for (unsigned tries = FIT_TRIES; filled != 0 && tries > 0 && first == NULL; filled &= ~((uint64_t)1 << hd_highest_bit(filled))) {
    hd_unit *run = space->dirty.bin[hd_highest_bit(filled)];
    for (; run != NULL && tries > 0 && first == NULL; run = run->next, tries--) {
      *dirty = run->run_units;
      HD_ASSERT(*dirty < units); /* what best_fit did not find among as many is not here either */
      end = *dirty >= least ? take_behind(space, run + *dirty, units - *dirty, &zeroed) : 0;
      if (end != 0) first = run;
    }
  }
  if (first != NULL) detach(space, first);
  hdi_lock_drop(&space->lock);
  if (first == NULL) return NULL;
  size_t at = (size_t)(first - space->units);
  hdi_space_huge_enter(space, at + *dirty, at + units, end, HD_TOUCH_PERHAPS);
  hd_store_owned(&first->run_units, (uint32_t)units);
  return first;
}

/* The free runs that fit best, each cut into as many as are wanted of it. The list begins with the last of them, so that whoever keeps one
 * after the other on top takes them in ascending order (decision 43). */
hd_unit *hdi_space_take_runs(hd_space *space, size_t units, size_t most) {
  hd_unit *list = NULL, *run = NULL;
  if (!hdi_space_allows(space, units * most) || !hdi_lock_take_unless_fork(&space->lock)) return NULL;
  take_in_deferred(space);
  while (most > 0 && (run = best_fit(space, &space->dirty, units, 1, FIT_TRIES)) != NULL) {
    size_t count = hd_min(run->run_units / units, most);
    run = carve(space, run, 0, count * units);
    for (size_t i = 0; i < count; i++) {
      hd_unit *one = run + i * units;
      hd_store_owned(&one->run_units, (uint32_t)units);
      one->next = list;
      list = one;
    }
    most -= count;
  }
  hdi_lock_drop(&space->lock);
  return list;
}

/* Before memory is given: nobody waits for the lock to give dirty memory. While others have it the run is listed, and the next one with the
 * lock takes it in. */
static bool try_to_give(hd_space *space, bool dirty) {
  if (HD_UNLIKELY(!hdi_lock_try(&space->lock)) && (dirty || !hdi_lock_wait_unless_fork(&space->lock))) return false;
  take_in_deferred(space);
  return true;
}

void hdi_space_give_runs(hd_space *space, hd_unit *first) {
  uint32_t stamp = hdi_space_tick();
  bool locked = try_to_give(space, true);
  for (hd_unit *next; first != NULL; first = next) {
    next = first->next;
    if (HD_LIKELY(locked)) give_locked(space, first, first->run_units, true, stamp);
    else hdi_space_defer(space, first, first->run_units, stamp);
  }
  if (HD_LIKELY(locked)) hdi_lock_drop(&space->lock);
}

void hdi_space_give(hd_space *space, hd_unit *first, size_t units, bool dirty) {
  uint32_t stamp = hdi_space_tick();
  if (HD_UNLIKELY(!try_to_give(space, dirty))) {
    hdi_space_defer(space, first, units, stamp);
    return;
  }
  hd_unit *run = give_locked(space, first, units, dirty || space->fixed, stamp);
  if (!dirty && run->run_units >= HD_HUGE_UNITS) hdi_space_huge_again(space, run);
  hdi_lock_drop(&space->lock);
}

void hdi_space_give_sparse(hd_space *space, hd_unit *first) {
  uint32_t stamp = hdi_space_tick();
  if (HD_UNLIKELY(!hdi_lock_take_unless_fork(&space->lock))) { /* whoever waits loses less than the next block would */
    hdi_space_defer(space, first, first->run_units, stamp);
    return;
  }
  insert(space, first, first->run_units, HD_UNIT_SPARSE, stamp);
  hdi_lock_drop(&space->lock);
}

bool hdi_space_extend(hd_space *space, hd_unit *first, size_t units, size_t more, bool *zeroed) {
  if (!hdi_space_allows(space, more) || !hdi_lock_take_unless_fork(&space->lock)) return false;
  size_t at = (size_t)(first - space->units) + units;
  bool fresh = at == hd_load_relaxed(&space->top);
  size_t end = take_behind(space, first + units, more, zeroed);
  hdi_lock_drop(&space->lock);
  if (end != 0 && fresh) hdi_space_huge_enter(space, at, at + more, end, HD_TOUCH_PERHAPS);
  if (end != 0) hd_store_owned(&first->run_units, (uint32_t)(units + more));
  return end != 0;
}

/* ---- purging ----------------------------------------------------------------------------------------------------- */

static bool is_due(const hd_unit *run, uint32_t until) { return (int32_t)(until - run->stamp) >= 0; }

/* A run that is due, taken out of its bins, largest bins first. */
static hd_unit *next_due(hd_space *space, const hd_bins *bins, uint32_t until) {
  uint64_t filled = bins->filled;
  while (filled != 0) {
    unsigned bin = hd_highest_bit(filled);
    for (hd_unit *run = bins->bin[bin]; run != NULL; run = run->next) {
      if (!is_due(run, until)) continue;
      detach(space, run);
      return run;
    }
    filled &= ~((uint64_t)1 << bin);
  }
  return NULL;
}

/* The run belongs to nobody now, so the slow system call runs without the lock. */
static bool purge_run(hd_space *space, const hd_unit *run) {
  uint8_t *address = hdi_space_address(space, run);
  size_t bytes = (size_t)run->run_units << HD_UNIT_SHIFT;
  hdi_counters_os_call(1);
  hdi_space_before_purge(address, bytes);
  bool purged = hdi_os_purge(address, bytes);
  if (purged) hdi_counters_purged(bytes);
  hd_store_relaxed(&space->refuses, !purged);
  return purged;
}

size_t hdi_space_purge(hd_space *space, uint32_t until, size_t budget) {
  size_t purged = 0, refusals = 0;
  hd_unit *refused = NULL; /* kept until the end, or they would be the next ones again */
  while (purged < budget && refusals < REFUSALS_MOST) {
    if (!hdi_lock_take_unless_fork(&space->lock)) break;
    take_in_deferred(space);
    hd_unit *run = next_due(space, &space->dirty, until);
    if (run == NULL) run = next_due(space, &space->sparse, until);
    size_t units = run == NULL ? 0 : run->run_units;
    hdi_lock_drop(&space->lock);
    if (run == NULL) break;
    if (purge_run(space, run)) {
      hdi_space_give(space, run, units, false);
      purged += units;
    } else {
      run->next = refused;
      refused = run;
      refusals++;
    }
  }
  if (refused != NULL) hdi_space_give_runs(space, refused);
  return purged;
}

SLOW void hdi_space_fork(hd_fork_step step) {
  if (step == HD_FORK_PREPARE) hd_store_relaxed(&hdi_space.growth_freed, 0u);
  hdi_lock_fork_open(&hdi_space.lock, step, put_aside, put_back);
  if (step != HD_FORK_CHILD) return;
  hdi_space_grow_fork_child(&hdi_space);
  hdi_space_huge_fork_child();
}
