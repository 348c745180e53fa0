/* See purge.h.
 * SPDX-License-Identifier: MIT */
#include "core/purge.h"

#include "core/check.h"
#include "core/counters.h"
#include "core/gate.h"
#include "core/hardened.h"
#include "core/options.h"
#include "core/page.h"
#include "core/parcel.h"
#include "core/region.h"
#include "core/remote.h"
#include "core/store.h"
#include "core/thread.h"
#include "os/os.h"

enum {
  ROUND_MS = 250,
  UNITS_A_MS = 4096,        /* looked at in 31 us: a round takes no more than 3 % of a core */
  QUIET_SOON_ROUNDS = 2,   /* pages that classes keep current, pages of several units, pages of explicit heaps */
  QUIET_ROUNDS = 16,        /* the free system pages of any other page */
  IDLE_ROUNDS = 40,         /* without any change: the helper ends */
  BATCH = 128,              /* pages handled while their heap is stopped, */
  LISTED = 1024,            /* of so many that are due */
  SIGHTS = 8192,            /* units that the collector gets ready to look at, at a time */
  RETRY_TICKS = 8,
  FETCH_MOST = 64,          /* pages taken in while others wait, */
  FETCH_LOOKS = 1024,       /* pages looked at for that */
  FETCH_LEAST = 8,          /* pages that are worth it, */
  FETCH_SHARE = 64,         /* if they are a 64th of those looked at; */
  FETCH_PAUSE = 31          /* else up to so many runs are taken without another try, or a quarter of the pages looked at */
};

/* What the collector last saw of a unit, to know which pages rest, and which have nothing to give since it looked. Its own memory: no race
 * with the owners. */
typedef struct sight {
  uint32_t signature;
  uint16_t rounds; /* since it changed */
  uint16_t swept;  /* it was to be handled at this signature; whether it was says the page */
} sight;

atomic_uint hdi_purge_running;

static struct {
  hd_lock lock;        /* one collector at a time */
  atomic_uint alive;   /* the helper's thread exists; cleared by the kernel */
  atomic_bool was_refused; /* by the system, */
  _Atomic uint32_t refused; /* the last time at this tick: of a clock that may have begun with the process */
  void *stack;
  sight *sights; /* reserved for all units there may be, and usable for so many */
  size_t sight_units;
  size_t left; /* units that waited to be purged at the last look */
  bool barrier_ready;
  uint32_t fetch_pause;
  _Atomic uint32_t fetch_wait; /* runs to be taken until the next try */
} purge;

/* ---- holding heaps ----------------------------------------------------------------------------------------------- */

static bool is_walkable(hd_heap *heap) { return hd_load_acquire(&heap->life) != HD_HEAP_DEAD; }

static bool can_hold(void) {
  if (!purge.barrier_ready) purge.barrier_ready = hdi_os_heavy_barrier_init();
  return purge.barrier_ready;
}

void hdi_purge_prepare(void) { (void)can_hold(); }

static bool hold_by_lock(hd_heap *heap) {
  if (!hdi_lock_try(&heap->lock)) return false;
  if (is_walkable(heap) && hdi_heap_is_locked(heap)) return true;
  hdi_lock_drop(&heap->lock); /* it was destroyed meanwhile, and may be a thread's by now */
  return false;
}

static bool holds_blocks(hd_heap *heap) {
  if (hdi_parcel_has_any(heap)) return true;
  for (unsigned i = 0; i < HD_MEDIUM_CLASSES; i++) {
    if (hd_peek(&heap->magazine[i].top) != hd_peek(&heap->magazine[i].first)) return true;
  }
  return false;
}

/* Whether anything that came back to a heap is not where others may take it from. */
static bool keeps_any(hd_heap *heap) {
  bool units = hd_peek(&heap->cached_units) != 0 || hd_peek(&heap->row_units) != 0;
  return units || holds_blocks(heap) || hdi_remote_has_mail(heap) || hdi_shelf_has_any(&heap->shelf);
}

/* Whether it is a thread's heap, or of one user. */
static bool has_gate(hd_heap *heap) { return is_walkable(heap) && !hdi_heap_is_locked(heap); }

/* After the barrier. Before its gate was shut the heap may have been another's, or nobody's. */
static bool is_stopped(hd_heap *heap, int tries) { return hdi_gate_settle(heap, tries) && has_gate(heap); }

static bool hold_by_gate(hd_heap *heap) {
  hdi_gate_raise(heap);
  if (hdi_gate_barrier() && is_stopped(heap, HD_GATE_TRIES)) return true;
  hdi_gate_open(heap);
  return false;
}

/* Stop one heap, if it will stop; `held` says how. self: the caller's own heap, whose gate the caller has passed, or NULL; it is the
 * caller's whatever the system can do.
 *
 * One at a time: where more threads are at work than there are processors, the collector may itself have to wait for one while it has a
 * heap, and all that it stopped would wait with it (decision 40). */
static bool hold(hd_heap *heap, const hd_heap *self) {
  unsigned held = HD_HOLD_NOT;
  if (heap == self) held = HD_HOLD_OWN;
  else if (!can_hold() || !is_walkable(heap)) return false;
  else if (hdi_heap_is_locked(heap)) held = hold_by_lock(heap) ? HD_HOLD_LOCK : HD_HOLD_NOT;
  else held = hold_by_gate(heap) ? HD_HOLD_GATE : HD_HOLD_NOT;
  heap->held = (uint8_t)held;
  return held != HD_HOLD_NOT;
}

static void let_go(hd_heap *heap) {
  unsigned held = heap->held;
  heap->held = HD_HOLD_NOT;
  if (held == HD_HOLD_LOCK) hdi_lock_drop(&heap->lock);
  else if (held == HD_HOLD_GATE) hdi_gate_open(heap);
}

/* Do it to every heap with a gate that needs it. The answer of `needs` may be old at once. */
static void settle_each(const hd_heap *self, bool (*needs)(hd_heap *), void (*settle)(hd_heap *)) {
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (!has_gate(heap) || !needs(heap) || !hold(heap, self)) continue;
    settle(heap);
    let_go(heap);
  }
}

static void drain_and_drop(hd_heap *heap) {
  size_t looks = SIZE_MAX;
  hdi_parcel_look(heap);
  if (heap->held == HD_HOLD_OWN) hdi_remote_drain(heap);
  else hdi_remote_drain_idle(heap, SIZE_MAX, &looks);
  hdi_heap_drop_cache(heap);
}

/* Counts that are announced nowhere yet, mail, and what is cached. All tables and parcels first: they fill the inboxes. One copy of it for
 * its callers: there is no room for three where it lies (heddle.ld). */
static __attribute__((noinline)) void settle_all(const hd_heap *self) {
  settle_each(self, hdi_remote_holds_counts, hdi_remote_flush);
  settle_each(self, keeps_any, drain_and_drop);
}

/* ---- pages ------------------------------------------------------------------------------------------------------- */

static bool is_page_head(hd_unit *unit) { return hd_load_acquire(&unit->kind) == HD_UNIT_PAGE && hd_peek(&unit->head) == unit; }

/* Changes whenever a block of the page is freed, and known to be. That any was claimed says the page. */
static uint32_t signature_of(hd_unit *page) {
  uint32_t state = hd_peek(&page->state);
  return (hd_peek(&page->credit) * 0x9e3779b1u) ^ hd_load_relaxed(&page->remote_count) ^ state << 24 ^ 0x40000000u;
}

/* Where the owner takes from the slot's word, and sets bits in it, at any time, all of the group is its own. */
static void purge_inside(hd_heap *heap, hd_unit *page) {
  uint64_t claimed = UINT64_MAX;
  hd_store_owned(&page->swept, true);
  if (heap->own_space) return;
  bool freely = heap->held == HD_HOLD_GATE && hdi_page_frees_freely(page);
  if (!freely) claimed = __atomic_load_n(hdi_slot_word(&heap->class[page->class_index].slot), __ATOMIC_ACQUIRE);
  hdi_page_purge_free(page, claimed);
}

/* Handle one page that has rested, its heap held. */
static void tidy_page(hd_heap *heap, hd_unit *page) {
  if (heap->held == HD_HOLD_GATE && !hdi_remote_is_idle(heap, page)) {
    purge_inside(heap, page);
    return;
  }
  bool current = page->state == HD_PAGE_CURRENT;
  uint32_t remote = hdi_remote_take(page);
  if (remote > 0) hdi_heap_credit_remote(heap, page, remote); /* it may be released now, unless it is current */
  if (current && hdi_heap_unclaim_medium(heap, page)) return;
  if (remote == 0) purge_inside(heap, page);
}

/* The same of a page that is being swept, and that others may take over afterwards. One of which nothing is in use has been told of, and
 * goes back with the mail. */
static void tidy_loose(hd_heap *heap, hd_unit *page) {
  purge_inside(heap, page);
  hdi_remote_sweep_end(heap, page);
}

/* Handle those of some pages that are a heap's, no more than a batch of them at a time, and take them from the list. Returns how many are
 * left. */
static size_t tidy_some(hd_unit **pages, size_t count, hd_heap *heap, hd_heap *self) {
  bool held = hold(heap, self);
  size_t left = 0, done = 0;
  for (size_t i = 0; i < count; i++) {
    hd_unit *page = pages[i];
    if (hdi_heap_owner(page) != heap || done == BATCH) {
      pages[left++] = page;
      continue;
    }
    done++;
    if (!held || !is_page_head(page)) continue;
    if (hdi_remote_sweep_begin(heap, page)) tidy_loose(heap, page);
    else if (hdi_remote_is_settled(heap, page)) tidy_page(heap, page);
  }
  if (held) let_go(heap);
  return left;
}

static void tidy_listed(hd_unit **pages, size_t count, hd_heap *self) {
  while (count > 0) {
    hd_heap *heap = hdi_heap_owner(pages[count - 1]);
    if (heap == NULL) count--;
    else count = tidy_some(pages, count, heap, self);
  }
}

/* Whether a page has rested for long enough to be handled by the helper. */
static bool has_rested(hd_unit *page, sight *seen, bool *changed) {
  if (seen->rounds < UINT16_MAX) seen->rounds++;
  bool current = hd_peek(&page->state) == HD_PAGE_CURRENT;
  uintptr_t owner = hd_load_relaxed(&page->owner);
  bool explicit_heap = (owner & (HD_OWNER_EXPLICIT | HD_OWNER_HARDENED)) == HD_OWNER_EXPLICIT;
  bool soon = current || explicit_heap || hd_peek(&page->run_units) > 1;
  if (seen->rounds >= (soon ? QUIET_SOON_ROUNDS : QUIET_ROUNDS)) return true;
  *changed = true; /* not yet, but the helper must live to see it */
  return false;
}

/* Whether this unit is a page that should be handled now. now: without waiting for it to rest. One of which nothing was freed or claimed
 * since it was handled has nothing more to give, so that a program may collect as often as it likes. */
static bool is_due(hd_unit *unit, sight *seen, bool now, bool *changed) {
  if (!is_page_head(unit)) {
    seen->signature = 0;
    return false;
  }
  uint32_t signature = signature_of(unit);
  bool claimed = seen->swept && !hd_peek(&unit->swept); /* or nobody could stop its owner */
  if (signature != seen->signature || claimed) {
    *seen = (sight){signature, 0, now};
    *changed = true;
    return now;
  }
  if (hdi_remote_counted(unit) != 0) return true;
  if (seen->swept) return false;
  if (!now && !has_rested(unit, seen, changed)) return false;
  seen->swept = true;
  return true;
}

/* Whether this is where a free run begins, and not where it ends: both look alike. */
static bool is_first(hd_unit *unit, unsigned kind, size_t units, size_t left) {
  hd_unit *last = unit + units - 1;
  return units <= left && hd_load_relaxed(&last->kind) == kind && hd_peek(&last->run_units) == units;
}

/* Units from one that is looked at to the next that may be a page: what a run has inside is passed over. left: units below the top. Of runs
 * that change meanwhile pages may be passed over that have just come, until the next time. */
static size_t step_from(hd_unit *unit, size_t left) {
  unsigned kind = hd_load_acquire(&unit->kind);
  size_t units = hd_max(hd_peek(&unit->run_units), 1);
  switch (kind) {
    case HD_UNIT_PAGE:
      return hd_peek(&unit->head) == unit ? units : 1;
    case HD_UNIT_LARGE:
    case HD_UNIT_REGION:
      return units;
    case HD_UNIT_CLEAN:
    case HD_UNIT_DIRTY:
    case HD_UNIT_SPARSE:
      return is_first(unit, kind, units, left) ? units : 1;
    default:
      return 1;
  }
}

/* Have sights for the units below an end, and for more than twice as many as before: what is usable counts where memory is promised to all
 * processes together. Returns for how many of them there are. */
static size_t make_sights(size_t end) {
  if (purge.sights != NULL && end <= purge.sight_units) return end;
  size_t most = hdi_space.unit_count, units = hd_min(hd_round_up(hd_max(end, 2 * purge.sight_units) + 1, SIGHTS), most);
  if (purge.sights == NULL) purge.sights = hdi_os_reserve(hd_round_up(most * sizeof(sight), HD_UNIT_BYTES), HD_UNIT_BYTES, false);
  size_t bytes = hd_round_up(units * sizeof(sight), hdi_os.page_bytes);
  if (purge.sights == NULL || !hdi_os_commit(purge.sights, bytes)) return purge.sight_units;
  hdi_os_huge(purge.sights, bytes, false); /* little of it is ever touched */
  purge.sight_units = units;
  return end;
}

/* Whether there was any page to handle. */
static bool tidy_pages(bool now, hd_heap *self, bool *changed) {
  static HD_LATER_DATA hd_unit *listed[LISTED];
  size_t count = 0;
  bool any = false;
  size_t top = make_sights(hd_load_acquire(&hdi_space.top));
  for (size_t at = 0, step; at < top; at += step) {
    hd_unit *unit = hdi_space.units + at;
    step = step_from(unit, top - at); /* now: a page that is handled may be free afterwards, and the end of a longer run */
    if (!is_due(unit, &purge.sights[at], now, changed)) continue;
    any = true;
    listed[count++] = unit;
    if (count < LISTED) continue;
    tidy_listed(listed, count, self);
    count = 0;
  }
  tidy_listed(listed, count, self);
  return any;
}

/* ---- the helper -------------------------------------------------------------------------------------------------- */

/* Whether blocks stand in magazines, or are on their way to their owners. They change no page, so that nothing else tells of them. The
 * answer may be old at once. */
static bool any_holds_blocks(void) {
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (is_walkable(heap) && holds_blocks(heap)) return true;
  }
  return false;
}

/* Whether memory waits to be purged: more or less of it than at the last look, or any that the system would take. What the program has
 * locked it would not. */
static bool waits_for_purge(void) {
  size_t left = hdi_space_to_purge(&hdi_space), before = purge.left;
  purge.left = left;
  return left != before || (left != 0 && !hd_load_relaxed(&hdi_space.refuses));
}

/* One look, or the last one, when all that is free goes back, since the program may do nothing more. true: something is going on, come
 * again. */
static bool one_round(bool last) {
  bool changed = false;
  if (!hdi_lock_take_unless_fork(&purge.lock)) return true;
  changed = hdi_thread_rest_orphans(last);
  tidy_pages(last, NULL, &changed);
  if (changed || any_holds_blocks()) settle_all(NULL);
  uint32_t delay = last ? 0 : (uint32_t)(hd_load_owned(&hdi_options.purge_delay) / HD_TICK_MS);
  if (hd_load_owned(&hdi_options.purge)) hdi_space_purge(&hdi_space, hdi_space_tick() - delay, SIZE_MAX);
  if (hd_load_owned(&hdi_options.purge)) hdi_store_purge();
  hdi_region_open_shut();
  hdi_hardened_run_retry();
  changed = changed || waits_for_purge();
  hdi_lock_drop(&purge.lock);
  return changed && hd_load_owned(&hdi_options.purge);
}

unsigned hdi_purge_pause_ms(size_t units) { return (unsigned)hd_max(ROUND_MS, units / UNITS_A_MS); }

static void helper_main(void) {
  static atomic_uint nap;
  unsigned quiet = 0;
  while (quiet < IDLE_ROUNDS) {
    hdi_os_wait(&nap, 0, hdi_purge_pause_ms(hd_load_relaxed(&hdi_space.top)));
    bool last = hdi_os_helper_outranks(), changed = one_round(last);
    quiet = last ? IDLE_ROUNDS : changed ? 0 : quiet + 1;
  }
  hd_store_release(&hdi_purge_running, 0u);
}

static bool start_helper(void) {
  if (hd_load_acquire(&purge.alive) != 0) return false; /* the last helper is still on its way out */
  if (purge.stack == NULL) {
    void *stack = hdi_os_reserve(HD_LOCK_HELPER_STACK, HD_UNIT_BYTES, false);
    if (stack != NULL && hdi_os_commit(stack, HD_LOCK_HELPER_STACK)) purge.stack = stack;
    else if (stack != NULL) hdi_os_unreserve(stack, HD_LOCK_HELPER_STACK);
    hd_store_relaxed(&hdi_lock_helper_stack, (uintptr_t)purge.stack);
  }
  return purge.stack != NULL && hdi_os_helper_start(helper_main, purge.stack, HD_LOCK_HELPER_STACK, &purge.alive);
}

/* A system that refuses the thread is not asked again at once. */
void hdi_purge_start(void) {
  unsigned expected = 0;
  uint32_t now = hdi_space_tick();
  bool just_refused = hd_load_relaxed(&purge.was_refused) && now - hd_load_relaxed(&purge.refused) < RETRY_TICKS;
  if (!hd_load_owned(&hdi_options.purge) || just_refused) return;
  if (!hd_swap_if(&hdi_purge_running, &expected, 1u)) return;
  if (start_helper()) return;
  hd_store_relaxed(&purge.refused, now);
  hd_store_relaxed(&purge.was_refused, true);
  hd_store_release(&hdi_purge_running, 0u);
}

/* ---- on demand --------------------------------------------------------------------------------------------------- */

size_t hdi_purge_collect(size_t keep_bytes) {
  size_t before = hd_load_relaxed(&hdi_counters.purged_bytes);
  hd_heap *self = hdi_heap_mine();
  bool changed = false;
  if (hdi_heap_is_empty(self)) self = NULL;
  else hdi_hardened_flush(self);
  if (!hdi_lock_take_unless_fork(&purge.lock)) return 0;
  if (self != NULL) hdi_gate_enter(self);
  hdi_thread_rest_orphans(true);
  settle_all(self);
  if (tidy_pages(true, self, &changed)) settle_all(self); /* what has just been released stands in caches */
  if (self != NULL) hdi_gate_leave(self);
  hdi_region_open_shut();
  hdi_hardened_run_retry();
  size_t keep_units = keep_bytes >> HD_UNIT_SHIFT;
  size_t dirty = hdi_space_to_purge(&hdi_space);
  if (dirty > keep_units) hdi_space_purge(&hdi_space, hdi_space_tick(), dirty - keep_units);
  hdi_store_purge();
  hdi_lock_drop(&purge.lock);
  return hd_load_relaxed(&hdi_counters.purged_bytes) - before;
}

/* ---- before new memory is touched --------------------------------------------------------------------------------- */

/* Shut the gates of those who have mail, or have something to tell: with one barrier for all, as a thread waits for this. */
static bool shut_gates(const hd_heap *self) {
  if (!can_hold()) return false;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (heap == self || !has_gate(heap)) continue;
    if (!hdi_remote_has_mail(heap) && !hdi_remote_holds_counts(heap)) continue;
    hdi_gate_raise(heap);
    heap->held = HD_HOLD_GATE;
  }
  return hdi_gate_barrier();
}

/* Have them tell what they know, and let those go who have no mail, or are inside their gates. */
static void flush_shut(bool shut) {
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (heap->held != HD_HOLD_GATE) continue;
    bool stopped = shut && is_stopped(heap, 1);
    if (stopped) hdi_remote_flush(heap);
    if (!stopped || !hdi_remote_has_mail(heap)) let_go(heap);
  }
}

/* Take in the mail of the others, whose threads do something else, until there is enough. Pages taken in. What is left waits for the next
 * time, also with those who are inside their gates. */
static size_t fetch_shut(const hd_heap *self, size_t *looks) {
  size_t fetched = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (heap->held == HD_HOLD_GATE) {
      size_t count = hdi_remote_drain_idle(heap, FETCH_MOST - fetched, looks);
      if (count > 0) hdi_heap_drop_runs(heap);
      fetched += count;
      let_go(heap);
    }
    if (heap != self && is_walkable(heap) && hdi_remote_has_much(heap)) hd_store_relaxed(&hdi_remote_much, true);
  }
  return fetched;
}

void hdi_purge_fetch(hd_heap *self) {
  uint32_t wait = hd_load_relaxed(&purge.fetch_wait);
  if (wait > 0) {
    hd_store_relaxed(&purge.fetch_wait, wait - 1);
    return;
  }
  if (!hdi_lock_try(&purge.lock)) return;
  hd_store_relaxed(&hdi_remote_much, false);
  size_t looks = FETCH_LOOKS;
  hdi_remote_flush(self);
  flush_shut(shut_gates(self));
  size_t fetched = fetch_shut(self, &looks);
  size_t looked = FETCH_LOOKS - looks;
  bool worth = fetched >= hd_max(FETCH_LEAST, looked / FETCH_SHARE);
  purge.fetch_pause = worth ? 0 : (uint32_t)hd_min(2 * purge.fetch_pause + 1, FETCH_PAUSE);
  hd_store_relaxed(&purge.fetch_wait, worth ? 0 : hd_max(purge.fetch_pause, (uint32_t)looked / 4));
  hdi_lock_drop(&purge.lock);
}

SLOW void hdi_purge_fork(hd_fork_step step) {
  hdi_lock_fork(&purge.lock, step);
  if (step != HD_FORK_CHILD) return;
  hd_store_relaxed(&purge.alive, 0u);
  hd_store_relaxed(&hdi_purge_running, 0u);
}
