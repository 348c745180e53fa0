/* See hardened.h: blocks on runs of their own, between guards.
 *
 *     | guard | ... block | guard ...      |     the run, from its start to its end
 *             ^ pages      ^ end, against the rear guard but for the block's alignment
 *
 * A run that nobody has is closed: no part of it can be touched, and opening its middle is all that the next block costs. Short runs come
 * from a reserve, closed from the start, which lies apart from pages: guards between them would keep huge pages away. A short one that
 * is freed is cleared and closed with its memory, which the next block finds resident; a longer one without.
 *
 * The block starts in the run's first unit, whose entry stands for it: kind LARGE, block_bytes the bytes asked for. Where alignment or
 * large system pages leave no room for it the front guard is missing. The kernel allows a process some 65,000 mappings, and each
 * block between guards takes two: beyond a number of them blocks have no guards, only a pattern behind the end.
 * SPDX-License-Identifier: MIT */
#include "core/check.h"
#include "core/counters.h"
#include "core/gate.h"
#include "core/hardened.h"
#include "core/options.h"
#include "core/purge.h"
#include "core/report.h"
#include "core/space_huge.h"
#include "core/thread.h"
#include "os/os.h"

enum {
  RUNS_MAX = 8192,              /* guarded runs in the process, in use or in quarantine */
  SAMPLES_MAX = 1024,           /* of these, small blocks in use */
  QUARANTINE_UNITS = 1024,      /* 64 MiB of address space; one larger run may be there alone */
  FRONT_PAGE_MAX = 16 * 1024,   /* with larger system pages a front guard would fill the first unit */
  PURGE_MIN = 4 * 1024 * 1024,  /* as in alloc.c: from here on clearing means exchanging */
  SPARE_UNITS = 64,
  RESERVE_UNITS = sizeof(void *) > 4 ? 256 : 32,
  RESERVE_RUN = 4,              /* the longest run that comes from it */
  KEEP_BYTES = 128 * 1024,      /* blocks up to this keep their memory when they are freed, and are copied when they grow, */
  KEEP_UNITS = 32,              /* in runs of so many units a thread */
  MOVES_MAX = 8192              /* of blocks that grow; each leaves the kernel two more ranges */
};

/* What is kept in the first unit's `state`. */
enum { REAR = 1, FRONT = 2, SAMPLE = 4, CLOSED = 8, KEPT = 16 /* closed, with memory that is clear */, WIDE = 32 /* more is open */ };

static atomic_uint guarded_runs, samples;

/* Runs that can't be opened at present, by their `next`; whoever takes one takes them all. */
static _Atomic(hd_unit *) aside;

/* Where the process's reserve starts, as table index << 16, and its units. Without a lock, and whole at any moment of a fork. */
static _Atomic uint64_t reserve;

typedef struct plan {
  size_t start;       /* of the block, from the run's start */
  size_t front;       /* of the pages it may touch */
  size_t end;         /* of these: the rear guard follows */
  size_t units, align_units;
} plan;

static plan plan_block(size_t alignment, size_t bytes, bool guarded) {
  size_t page = hdi_os.page_bytes;
  size_t front = guarded && page <= FRONT_PAGE_MAX ? page : 0;
  size_t asked = hd_max(bytes, 1);
  plan made = {0, 0, 0, 0, 1};
  if (alignment >= HD_UNIT_BYTES) {
    made.align_units = alignment >> HD_UNIT_SHIFT;
    made.end = hd_round_up(asked, page);
  } else if (alignment > page) {
    made.front = made.start = front == 0 ? 0 : alignment;
    made.end = made.start + hd_round_up(asked, page);
  } else {
    size_t room = hd_round_up(asked, alignment);
    made.front = front;
    made.end = front + hd_round_up(room, page);
    made.start = made.end - room;
  }
  made.units = (made.end + page + HD_UNIT_BYTES - 1) >> HD_UNIT_SHIFT;
  return made;
}

/* ---- guards ------------------------------------------------------------------------------------------------------ */

static bool guard(uint8_t *from, size_t bytes, bool on) {
  hdi_counters_os_call(on ? 2 : 1);
  return hdi_os_guard(from, bytes, on);
}

static bool count_in(atomic_uint *count, unsigned most) {
  if (hd_add(count, 1u) < most) return true;
  hd_sub(count, 1u);
  return false;
}

static uint8_t *start_of(const hd_unit *first) { return hdi_space_address(&hdi_space, first); }
static size_t bytes_of(const hd_unit *first) { return (size_t)first->run_units << HD_UNIT_SHIFT; }

/* Put the guards around what the plan leaves open. What the system refuses is done without. */
static uint8_t set_guards(hd_unit *first, const plan *made) {
  uint8_t *start = start_of(first);
  uint8_t have = 0;
  if (guard(start + made->end, bytes_of(first) - made->end, true)) have |= REAR;
  if (made->front > 0 && have != 0 && guard(start, made->front, true)) have |= FRONT;
  return have;
}

/* Open what the plan needs of a closed run. */
static bool open_run(hd_unit *first, const plan *made) {
  if (!guard(start_of(first) + made->front, made->end - made->front, false)) return false;
  first->state = made->front > 0 ? REAR | FRONT : REAR;
  return true;
}

/* The length of what is open of a run with a block, and where it starts. */
static size_t open_part(const hd_unit *first, size_t *from) {
  uintptr_t start = hd_round_down((uintptr_t)first->base, hdi_os.page_bytes);
  *from = start - (uintptr_t)start_of(first);
  return hd_round_up((uintptr_t)first->base + hd_max(first->block_bytes, 1), hdi_os.page_bytes) - start;
}

/* Close a run. own: the calling thread's, or NULL. false: the run has no guards, or the system refuses. */
static bool close_run(hd_hardened *own, hd_unit *first) {
  if (first->state == 0) return false;
  size_t from;
  size_t open = open_part(first, &from);
  bool keep = own != NULL && (first->state & (FRONT | WIDE)) == FRONT; /* else old content might stand around the block */
  if (!keep || open > KEEP_BYTES || own->kept_units + first->run_units > KEEP_UNITS) {
    if (!guard(start_of(first), bytes_of(first), true)) return false;
    first->state |= CLOSED;
    return true;
  }
  memset(start_of(first) + from, 0, open);
  hdi_counters_os_call(1);
  if (!hdi_os_close(start_of(first), bytes_of(first))) return false;
  own->kept_units += first->run_units;
  first->state |= CLOSED | KEPT;
  return true;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* The system won't open a run: it waits, empty if possible, until memory is given back the next time. */
static void put_aside(hd_unit *first) {
  size_t from;
  size_t open = open_part(first, &from);
  if ((first->state & CLOSED) == 0) memset(start_of(first) + from, 0, open);
  else if ((first->state & KEPT) != 0 && guard(start_of(first), bytes_of(first), true)) first->state &= (uint8_t)~KEPT;
  hdi_unit_push(&aside, first);
}

/* The run is the space's again. own: whose memory it is that a kept run has, or NULL. */
static void give_back(hd_hardened *own, hd_unit *first) {
  if ((first->state & KEPT) != 0 && own != NULL) own->kept_units -= first->run_units;
  if (first->state != 0 && !guard(start_of(first), bytes_of(first), false)) {
    put_aside(first);
    return;
  }
  if (first->state != 0) hd_sub(&guarded_runs, 1u);
  bool empty = (first->state & (CLOSED | KEPT)) == CLOSED;
  bool clean =
      empty || hdi_os_purge(start_of(first), bytes_of(first)); /* not later: short runs come from the reserve, not from dirty ones */
  first->state = 0;
  hd_store_relaxed(&first->owner, (uintptr_t)0);
  hd_store_release(&first->kind, HD_UNIT_NONE);
  hdi_space_give(&hdi_space, first, first->run_units, !clean);
  hdi_purge_note();
}

/* A closed run of the thread's own. */
static hd_unit *take_spare(hd_hardened *own, const plan *made) {
  if (made->align_units != 1) return NULL;
  for (uint32_t i = 0; i < own->spare_count; i++) {
    hd_unit *first = own->spare[i];
    if (first->run_units != made->units) continue;
    bool kept = (first->state & KEPT) != 0;
    if (!open_run(first, made)) return NULL;
    if (kept) own->kept_units -= first->run_units;
    own->spare[i] = own->spare[--own->spare_count];
    return first;
  }
  return NULL;
}

static hd_unit *reserve_start(uint64_t word) { return hdi_space.units + (word >> 16); }
static size_t reserve_units(uint64_t word) { return word & 0xffff; }

static void give_reserve(uint64_t word) {
  hd_unit *first = reserve_start(word);
  if (reserve_units(word) == 0) return;
  hd_store_owned(&first->run_units, (uint32_t)reserve_units(word));
  first->state = REAR | CLOSED;
  hd_add(&guarded_runs, 1u);
  give_back(NULL, first);
}

void hdi_hardened_run_yield(void) { give_reserve(hd_exchange(&reserve, 0)); }

/* Put a new reserve in the place of one that is too short; *old is what stands there now. false: there is none to be had. */
static bool renew_reserve(uint64_t *old) {
  hd_unit *first = hd_load_owned(&hdi_options.limit) == 0 ? hdi_space_take_clean(&hdi_space, RESERVE_UNITS, 1) : NULL;
  if (first == NULL) return false;
  if (!guard(start_of(first), (size_t)RESERVE_UNITS << HD_UNIT_SHIFT, true)) {
    hdi_space_give(&hdi_space, first, RESERVE_UNITS, false);
    return false;
  }
  uint64_t made = (uint64_t)(first - hdi_space.units) << 16 | RESERVE_UNITS;
  uint64_t unwanted = *old;
  if (hd_swap_if(&reserve, old, made)) *old = made;
  else unwanted = made; /* another thread was faster */
  give_reserve(unwanted);
  return true;
}

/* The word alone says what is in the reserve, so it does no harm if it went away and came back while a thread looked. */
static hd_unit *take_reserved(const plan *made) {
  size_t units = made->units;
  if (made->align_units != 1 || units > RESERVE_RUN) return NULL;
  uint64_t old = hd_load_acquire(&reserve), rest = 0;
  do {
    while (reserve_units(old) < units) {
      if (!renew_reserve(&old)) return NULL;
    }
    rest = old + ((uint64_t)units << 16) - units;
  } while (!hd_swap_if(&reserve, &old, rest));
  hd_unit *first = reserve_start(old);
  hd_store_owned(&first->run_units, (uint32_t)units);
  if (open_run(first, made)) return first;
  if (!hd_swap_if(&reserve, &rest, old)) give_reserve(old - reserve_units(old) + units); /* others have taken from it meanwhile */
  return NULL;
}

static hd_unit *take_run(hd_heap *heap, const plan *made, bool guarded, bool *zeroed) {
  hd_unit *reserved = guarded ? take_reserved(made) : NULL;
  if (reserved != NULL) return reserved;
  hdi_gate_enter(heap);
  hd_unit *first = hdi_heap_take_run(heap, made->units, made->align_units, zeroed);
  hdi_gate_leave(heap);
  if (first == NULL) return NULL;
  if (*zeroed && made->units >= HD_HUGE_RUN_UNITS) hdi_space_want_huge(&hdi_space, first, made->units, HD_TOUCH_PERHAPS);
  first->state = guarded ? set_guards(first, made) : 0;
  return first;
}

/* Bytes behind the asked ones that nobody else uses and nothing guards. */
static size_t room_behind(const hd_unit *first) {
  uintptr_t end = (uintptr_t)first->base + first->block_bytes;
  if ((first->state & REAR) == 0) return (uintptr_t)start_of(first) + bytes_of(first) - end;
  return hd_round_up(end, hdi_os.page_bytes) - end;
}

static void *make(hd_unit *first, const plan *made, size_t bytes) {
  uint8_t *block = start_of(first) + made->start;
  first->base = block;
  first->inverse = 1;
  first->capacity = 1;
  first->block_bytes = bytes;
  first->head = first;
  first->class_index = 0;
  hdi_seal_set_behind(block, bytes, room_behind(first));
  hd_store_relaxed(&first->owner, (uintptr_t)(HD_OWNER_EXPLICIT | HD_OWNER_LARGE | HD_OWNER_HARDENED));
  hd_store_relaxed(&first->live, 1u);
  hd_store_release(&first->kind, HD_UNIT_LARGE);
  return block;
}

static void clear(uint8_t *from, size_t bytes) {
  if (bytes < PURGE_MIN || !hdi_os_purge(from, bytes)) memset(from, 0, bytes);
}

void *hdi_hardened_run_alloc(hd_heap *heap, size_t alignment, size_t bytes, bool zero, hd_run_reason reason) {
  bool sample = reason == HD_RUN_SAMPLE;
  if (sample && !count_in(&samples, SAMPLES_MAX)) return NULL;
  plan made = plan_block(alignment, bytes, true);
  if (reason == HD_RUN_GROWS) made.units += made.units / 4 + 1;
  bool zeroed = true;
  hd_unit *first = take_spare(heap->hardened, &made);
  if (first == NULL) {
    bool guarded = count_in(&guarded_runs, RUNS_MAX);
    if (!guarded) made = plan_block(alignment, bytes, false);
    first = take_run(heap, &made, guarded, &zeroed);
    if (guarded && (first == NULL || first->state == 0)) hd_sub(&guarded_runs, 1u);
  }
  if (first == NULL) {
    if (sample) hd_sub(&samples, 1u);
    return NULL;
  }
  if (zero && !zeroed) clear(start_of(first) + made.front, made.end - made.front);
  if (sample) first->state |= SAMPLE;
  return make(first, &made, bytes);
}

/* ---- quarantine -------------------------------------------------------------------------------------------------- */

static void leave_quarantine(hd_hardened *own) {
  hd_unit *first = own->run[own->run_first];
  own->run_first = (own->run_first + 1) % HD_QUARANTINE_RUNS;
  own->run_count--;
  own->run_units -= first->run_units;
  if (first->run_units > SPARE_UNITS) {
    give_back(own, first);
    return;
  }
  if (own->spare_count == HD_QUARANTINE_SPARES) give_back(own, own->spare[--own->spare_count]);
  own->spare[own->spare_count++] = first;
}

static void quarantine(hd_hardened *own, hd_unit *first) {
  while (own->run_count == HD_QUARANTINE_RUNS || (own->run_count > 0 && own->run_units + first->run_units > QUARANTINE_UNITS)) {
    leave_quarantine(own);
  }
  own->run[(own->run_first + own->run_count) % HD_QUARANTINE_RUNS] = first;
  own->run_count++;
  own->run_units += first->run_units;
}

/* Nobody has the block any more. own: the calling thread's, or NULL. */
static void retire(hd_hardened *own, hd_unit *first) {
  if (first->state & SAMPLE) hd_sub(&samples, 1u);
  first->state &= (uint8_t)~SAMPLE;
  if (close_run(own, first) && own != NULL) quarantine(own, first);
  else give_back(own, first);
}

void hdi_hardened_run_flush(hd_heap *heap) {
  hd_hardened *own = heap->hardened;
  while (own->run_count > 0) leave_quarantine(own);
  while (own->spare_count > 0) give_back(own, own->spare[--own->spare_count]);
  hdi_hardened_run_retry();
}

void hdi_hardened_run_retry(void) {
  if (HD_LIKELY(hd_load_relaxed(&aside) == NULL)) return;
  hd_unit *next = hd_exchange(&aside, NULL);
  while (next != NULL) {
    hd_unit *first = next;
    next = first->next;
    give_back(NULL, first);
  }
}

/* ---- free, look, resize ------------------------------------------------------------------------------------------ */

bool hdi_hardened_run_is_whole(const hd_unit *first) { return hdi_seal_holds_behind(first->base, first->block_bytes, room_behind(first)); }

void hdi_hardened_run_free(void *p, hd_unit *first) {
  if (first->base != p || !hd_swap_byte_if(&first->live, 1, 0)) {
    hdi_report_misuse("free", p, first);
    return;
  }
  if (!hdi_hardened_run_is_whole(first)) hdi_report_overflow("free", p, first, HD_SEAL_BROKEN);
  hd_heap *heap = hdi_heap_hidden;
  retire(hdi_heap_is_empty(heap) ? NULL : heap->hardened, first);
}

/* The pages that the block no longer needs become guard, those that it needs are taken from the guard while a page of it is left. */
bool hdi_hardened_run_resize(hd_unit *first, size_t bytes) {
  size_t page = hdi_os.page_bytes;
  if (bytes > first->block_bytes + room_behind(first) && (first->state & REAR) == 0) return false;
  size_t front = (size_t)(first->base - start_of(first));
  if (bytes > bytes_of(first) - front) return false;
  size_t old_end = hd_round_up(front + hd_max(first->block_bytes, 1), page);
  size_t end = hd_round_up(front + hd_max(bytes, 1), page);
  if (end > bytes_of(first) - page) return false;
  if ((first->state & REAR) != 0 && end != old_end) {
    size_t from = hd_min(end, old_end);
    size_t length = hd_max(end, old_end) - from;
    bool done = guard(start_of(first) + from, length, end < old_end);
    if (!done && end > old_end) return false;
    if (!done) {
      clear(start_of(first) + from, length);
      first->state |= WIDE;
    }
  }
  first->block_bytes = bytes;
  hdi_seal_set_behind(first->base, bytes, room_behind(first));
  return true;
}

/* ---- growing by moving pages ------------------------------------------------------------------------------------ */

/* A block that starts as far into its first page as another one, with address space behind it. */
static plan plan_like(const void *other, size_t bytes) {
  size_t page = hdi_os.page_bytes;
  size_t front = page <= FRONT_PAGE_MAX ? page : 0;
  plan made = {front + ((uintptr_t)other & (page - 1)), front, 0, 0, 1};
  made.end = hd_round_up(made.start + bytes, page);
  made.units = (made.end + page + HD_UNIT_BYTES - 1) >> HD_UNIT_SHIFT;
  made.units += made.units / 4 + 1;
  return made;
}

/* A clean run with guards. NULL: there is none to be had, or there are as many guarded ones as there may be. */
static hd_unit *take_clean(const plan *made) {
  if (!hdi_space_allows(&hdi_space, made->units) || !count_in(&guarded_runs, RUNS_MAX)) return NULL;
  hd_unit *first = hdi_space_take_clean(&hdi_space, made->units, 1);
  if (first != NULL) {
    first->state = set_guards(first, made);
    first->base = start_of(first) + made->start;
    first->block_bytes = 0; /* nothing to clear if it is not used after all */
    if (first->state != 0) return first;
    hdi_space_give(&hdi_space, first, made->units, false);
  }
  hd_sub(&guarded_runs, 1u);
  return NULL;
}

void *hdi_hardened_run_move(hd_heap *heap, hd_unit *old, size_t bytes) {
  static atomic_uint moves;
  if (!hdi_os.can_move || old->block_bytes <= KEEP_BYTES || old->state == 0 || hd_load_relaxed(&moves) >= MOVES_MAX) return NULL;
  plan made = plan_like(old->base, bytes);
  hd_unit *first = take_clean(&made);
  if (first == NULL) return NULL;
  size_t from;
  size_t open = open_part(old, &from);
  bool won = hd_swap_byte_if(&old->live, 1, 0);
  if (won) hdi_counters_os_call(1);
  if (!won || !hdi_os_move(start_of(old) + from, start_of(first) + made.front, open)) {
    if (won) hd_store_relaxed(&old->live, 1u);
    give_back(NULL, first);
    return NULL;
  }
  hd_add(&moves, 1u);
  hdi_counters_moved(open);
  if (made.units >= HD_HUGE_RUN_UNITS) hdi_space_want_huge(&hdi_space, first, made.units, HD_TOUCH_PERHAPS);
  void *p = make(first, &made, bytes);
  retire(heap->hardened, old);
  return p;
}
