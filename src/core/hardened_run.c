/* See hardened.h: blocks on runs of their own, between guards.
 *
 *     | guard | ... block | guard ...      |     the run, from its start to its end
 *             ^ pages      ^ end, against the rear guard but for the block's alignment
 *
 * The block starts in the run's first unit, whose entry stands for it: kind LARGE, block_bytes the bytes asked for. Where alignment or
 * large system pages leave no room for it the front guard is missing. The kernel allows a process some 65,000 mappings, and each
 * block between guards takes two: beyond a number of them blocks have no guards, only a pattern behind the end.
 * SPDX-License-Identifier: MIT */
#include "core/check.h"
#include "core/counters.h"
#include "core/gate.h"
#include "core/hardened.h"
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
  HUGE_UNITS = 64,              /* as in large.c */
  PURGE_MIN = 4 * 1024 * 1024,  /* as in alloc.c: from here on clearing means exchanging */
  SPARE_UNITS = 64
};

/* What is kept in the first unit's `state`. */
enum { REAR = 1, FRONT = 2, SAMPLE = 4, WHOLE = 8 /* no part of the run can be touched */ };

static atomic_uint guarded_runs, samples;

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

/* ---- runs -------------------------------------------------------------------------------------------------------- */

/* The run is the space's again. One that can't be opened any more is lost: that is address space, but no memory. */
static void give_back(hd_unit *first) {
  if (first->state & (REAR | FRONT | WHOLE)) {
    hd_sub(&guarded_runs, 1u);
    if (!guard(start_of(first), bytes_of(first), false)) return;
  }
  bool clean = (first->state & WHOLE) != 0 || hdi_os_purge(start_of(first), bytes_of(first));
  first->state = 0;
  hd_store_relaxed(&first->owner, (uintptr_t)0);
  hd_store_release(&first->kind, HD_UNIT_NONE);
  hdi_space_give(&hdi_space, first, first->run_units, !clean);
  hdi_purge_note();
}

/* A run of the thread's own that is guarded all over: opening its middle is all there is to do. */
static hd_unit *take_spare(hd_hardened *own, const plan *made) {
  if (made->align_units != 1) return NULL;
  for (uint32_t i = 0; i < own->spare_count; i++) {
    hd_unit *first = own->spare[i];
    if (first->run_units != made->units) continue;
    if (!guard(start_of(first) + made->front, made->end - made->front, false)) return NULL;
    own->spare[i] = own->spare[--own->spare_count];
    first->state = made->front > 0 ? REAR | FRONT : REAR;
    return first;
  }
  return NULL;
}

static hd_unit *take_run(hd_heap *heap, const plan *made, bool guarded, bool *zeroed) {
  hdi_gate_enter(heap);
  hd_unit *first = hdi_heap_take_run(heap, made->units, made->align_units, zeroed);
  hdi_gate_leave(heap);
  if (first == NULL) return NULL;
  if (*zeroed && made->units >= HUGE_UNITS) hdi_space_want_huge(&hdi_space, first, made->units);
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
  first->shift = 0;
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
  if (own->spare_count == HD_QUARANTINE_SPARES) give_back(own->spare[--own->spare_count]);
  if (first->run_units <= SPARE_UNITS) own->spare[own->spare_count++] = first;
  else give_back(first);
}

static void quarantine(hd_hardened *own, hd_unit *first) {
  while (own->run_count == HD_QUARANTINE_RUNS || (own->run_count > 0 && own->run_units + first->run_units > QUARANTINE_UNITS)) {
    leave_quarantine(own);
  }
  own->run[(own->run_first + own->run_count) % HD_QUARANTINE_RUNS] = first;
  own->run_count++;
  own->run_units += first->run_units;
}

void hdi_hardened_run_flush(hd_heap *heap) {
  hd_hardened *own = heap->hardened;
  while (own->run_count > 0) leave_quarantine(own);
  while (own->spare_count > 0) give_back(own->spare[--own->spare_count]);
}

/* ---- free, look, resize ------------------------------------------------------------------------------------------ */

bool hdi_hardened_run_is_whole(const hd_unit *first) { return hdi_seal_holds_behind(first->base, first->block_bytes, room_behind(first)); }

void hdi_hardened_run_free(void *p, hd_unit *first) {
  if (first->base != p || !hd_swap_byte_if(&first->live, 1, 0)) {
    hdi_report_misuse("free", p, first);
    return;
  }
  if (!hdi_hardened_run_is_whole(first)) hdi_report_overflow("free", p, first, HD_SEAL_BROKEN);
  if (first->state & SAMPLE) hd_sub(&samples, 1u);
  first->state &= (uint8_t)~SAMPLE;
  bool closed = first->state != 0 && guard(start_of(first), bytes_of(first), true);
  if (closed) first->state |= WHOLE;
  hd_heap *heap = hdi_heap_hidden;
  if (closed && !hdi_heap_is_empty(heap)) quarantine(heap->hardened, first);
  else give_back(first);
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
    if (!guard(start_of(first) + from, hd_max(end, old_end) - from, end < old_end)) return false;
  }
  first->block_bytes = bytes;
  hdi_seal_set_behind(first->base, bytes, room_behind(first));
  return true;
}
