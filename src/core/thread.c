/* See thread.h.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "core/thread.h"

#include <pthread.h>
#include <string.h>

#include "core/check.h"
#include "core/gate.h"
#include "core/hardened.h"
#include "core/inherit.h"
#include "core/options.h"
#include "core/page.h"
#include "core/parcel.h"
#include "core/purge.h"
#include "core/remote.h"
#include "core/report.h"
#include "core/space_grow.h"
#include "core/store.h"
#include "os/next.h"
#include "os/os.h"

enum {
  FREES_WITHOUT_HEAP = 64,
  RANK_LOOKS = 16, /* orphans that one that is left may stand behind */
  REST_ROUNDS = 4  /* of the helper's, a second, in which the next thread finds a heap as it was left */
};

/* While BUSY the bits above say which thread is at it: a call from inside the start must not wait for itself, and in the child of a
 * fork that thread is not there. */
enum start_state { START_NONE, START_BUSY, START_DONE, START_PASSTHROUGH };
enum { START_THREAD_SHIFT = 2, START_MASK = (1 << START_THREAD_SHIFT) - 1 };

static atomic_uint start_state;
static pthread_key_t exit_key;
static bool exit_key_made;
static unsigned process; /* this one, but not a child of vfork that runs in its memory */

static _Atomic(hd_heap *) registered;

static struct {
  hd_lock lock;
  hd_heap *orphans, *last_orphan; /* adopted from the front */
  hd_heap *retired; /* explicit heaps that were destroyed */
  _Atomic(hd_heap *) orphans_in_fork, retired_in_fork; /* where both are, and come to, while a fork holds the lock */
} pool;

/* Some thread has no exit handler: its heap must be looked for. */
static atomic_bool unseen;

/* Set once this thread's exit handler has run: its heap may have to be found again by hdi_os_thread_alive. */
static __thread uint8_t thread_ended __attribute__((tls_model("initial-exec")));

/* ---- start ------------------------------------------------------------------------------------------------------- */

static void thread_exit(void *value);
static void fork_prepare(void);
static void fork_parent(void);
SLOW static void fork_child(void);

static bool wants_passthrough(void) {
  if (hdi_options.passthrough != HD_PASSTHROUGH_AUTO) return hdi_options.passthrough == HD_PASSTHROUGH_ON;
  return hdi_next_is_watched();
}

static bool start_space(void) {
  static bool made;
  if (!made && !hdi_space_init()) return false;
  made = true;
  size_t store_bytes = 0, first_bytes = 0;
  void *store_range = hdi_space_store_range(&store_bytes, &first_bytes);
  return hdi_store_init(store_range, store_bytes, first_bytes);
}

/* A system that gives nothing now may give something to the next call. */
static unsigned start(void) {
  static bool informed;
  if (!informed) {
    hdi_os_init();
    hdi_options_init();
    informed = true;
  }
  if (wants_passthrough()) return START_PASSTHROUGH;
  if (!start_space()) return START_NONE;
  hdi_purge_prepare();
  if (hdi_options.hardened) hdi_hardened_start();
  exit_key_made = pthread_key_create(&exit_key, thread_exit) == 0;
  return START_DONE;
}

/* pthread_atfork is a piece of the C library that is linked in at a library's end, where nobody else goes, and calls this. */
#ifdef __GLIBC__
extern int __register_atfork(void (*prepare)(void), void (*parent)(void), void (*child)(void), void *library);
extern void *__dso_handle __attribute__((visibility("hidden")));
static void add_fork_handlers(void) { __register_atfork(fork_prepare, fork_parent, fork_child, &__dso_handle); }
#else
static void add_fork_handlers(void) { pthread_atfork(fork_prepare, fork_parent, fork_child); }
#endif

/* Before there can be threads of which one forks while another takes its first block: when the library is loaded. Unless a call comes
 * earlier, from a constructor or from the loader: then right after the start, because the handlers' list may take memory. */
static __attribute__((constructor(101))) void watch_forks(void) {
  static atomic_uint watched;
  if (hd_exchange(&watched, 1u) == 0) add_fork_handlers();
}

/* Begin the start, or take it over from a thread that did not survive a fork. */
static void start_from(unsigned expected) {
  if (!hd_swap_if(&start_state, &expected, START_BUSY | hdi_os_thread_id() << START_THREAD_SHIFT)) return;
  process = hdi_os_process_id();
  unsigned result = start();
  hd_store_release(&start_state, result);
  hdi_os_wake(&start_state);
  if (result == START_DONE) watch_forks();
}

void hdi_thread_init(void) {
  unsigned state = hd_load_acquire(&start_state);
  if (HD_LIKELY(state >= START_DONE && (state & START_MASK) != START_BUSY)) return;
  if (state == START_NONE) start_from(START_NONE);
  while (((state = hd_load_acquire(&start_state)) & START_MASK) == START_BUSY) {
    unsigned starter = state >> START_THREAD_SHIFT;
    if (starter == hdi_os_thread_id()) return;
    if (hdi_os_thread_alive(starter)) hdi_os_wait(&start_state, state, 10);
    else start_from(state);
  }
}

/* With malloc passed through the space serves regions alone, and starts with the first of them. */
bool hdi_thread_init_space(void) {
  static atomic_bool late;
  hdi_thread_init();
  unsigned state = hd_load_acquire(&start_state);
  if (HD_LIKELY(state != START_PASSTHROUGH)) return state == START_DONE;
  if (hd_load_acquire(&late)) return true;
  hdi_lock_take(&pool.lock);
  if (!hd_load_relaxed(&late) && start_space()) hd_store_release(&late, true);
  hdi_lock_drop(&pool.lock);
  return hd_load_acquire(&late);
}

bool hdi_thread_is_passthrough(void) { return hd_load_acquire(&start_state) == START_PASSTHROUGH; }

/* ---- heaps ------------------------------------------------------------------------------------------------------- */

/* Lists for the time of a fork, linked by next_orphan. Whoever takes from one takes it whole, so that nobody else sees it half changed. */
static void add_in_fork(_Atomic(hd_heap *) *list, hd_heap *heaps) {
  hd_heap *none = NULL;
  if (heaps == NULL || hd_swap_if(list, &none, heaps)) return;
  while (heaps != NULL) { /* others came meanwhile */
    hd_heap *next = heaps->next_orphan;
    heaps->next_orphan = hd_load_relaxed(list);
    while (!hd_swap_if(list, &heaps->next_orphan, heaps)) {
    }
    heaps = next;
  }
}

static hd_heap *take_in_fork(_Atomic(hd_heap *) *list) {
  hd_heap *heap = hd_exchange(list, NULL);
  if (heap == NULL) return NULL;
  add_in_fork(list, heap->next_orphan);
  heap->next_orphan = NULL;
  return heap;
}

hd_heap *hdi_thread_first_heap(void) { return hd_load_acquire(&registered); }

bool hdi_thread_has_several(void) {
  unsigned count = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL && count < 2; heap = heap->next_registered) {
    count += !hd_peek(&heap->explicit_heap) && hd_load_relaxed(&heap->life) == HD_HEAP_USED;
  }
  return count > 1;
}

static hd_heap *take_retired(void) {
  hd_heap *heap = NULL;
  if (HD_UNLIKELY(!hdi_lock_take_unless_fork(&pool.lock))) return take_in_fork(&pool.retired_in_fork);
  if (pool.retired == NULL) pool.retired = hd_exchange(&pool.retired_in_fork, NULL);
  if (pool.retired != NULL) {
    heap = pool.retired;
    pool.retired = heap->next_orphan;
    heap->next_orphan = NULL;
  }
  hdi_lock_drop(&pool.lock);
  return heap;
}

/* Memory for a heap that is never given back. The first one shares a system page with the library's other variables: a small process
 * has no other. In hardened mode its address says nothing of others, nor others of it. */
static hd_heap *take_heap(void) {
  static HD_HEAP_DATA hd_heap first;
  static atomic_uint taken;
  if (!hdi_hardened_is_on() && hd_exchange(&taken, 1u) == 0) return &first;
  return hdi_store_take(sizeof(hd_heap));
}

/* The number of the process if another library's fork handler has started this thread before ours ran in the child: it did not vanish. */
static unsigned child_id(void) { return HD_UNLIKELY(hdi_lock_is_new_child()) ? hdi_os_process_id() : 0; }

static bool is_of_new_child(const hd_heap *heap) { return hd_load_relaxed(&heap->child) == process; }

hd_heap *hdi_thread_new_heap(hd_space *space, bool explicit_heap) {
  hd_heap *heap = take_retired();
  if (heap != NULL) {
    hd_store_owned(&heap->explicit_heap, explicit_heap);
  } else {
    heap = take_heap();
    if (heap == NULL) return NULL;
    heap->explicit_heap = explicit_heap; /* before a collector can see it */
    hd_store_relaxed(&heap->life, (uint32_t)HD_HEAP_DEAD);
    heap->next_registered = hd_load_relaxed(&registered);
    while (!hd_swap_if(&registered, &heap->next_registered, heap)) {
    }
  }
  heap->space = space;
  hd_store_owned(&heap->cache_room, HD_CACHE_UNITS);
  hd_store_relaxed(&heap->child, child_id());
  hd_store_release(&heap->life, (uint32_t)HD_HEAP_USED);
  return heap;
}

void hdi_thread_retire_heap(hd_heap *heap) {
  hd_store_release(&heap->life, (uint32_t)HD_HEAP_DEAD);
  memset((void *)heap->class, 0, sizeof heap->class);
  for (unsigned i = 0; i < HD_REMOTE_TABLE; i++) hd_store_owned(&heap->remote[i].page, NULL);
  hd_store_owned(&heap->explicit_heap, false);
  hd_store_owned(&heap->one_user, false);
  hd_store_owned(&heap->own_space, false);
  heap->runs = heap->claims = 0;
  memset(heap->cached, 0, sizeof heap->cached);
  hd_store_owned(&heap->cached_units, 0);
  heap->name[0] = 0;
  if (HD_LIKELY(hdi_lock_take_unless_fork(&pool.lock))) {
    heap->next_orphan = pool.retired;
    pool.retired = heap;
    hdi_lock_drop(&pool.lock);
    return;
  }
  heap->next_orphan = NULL;
  add_in_fork(&pool.retired_in_fork, heap);
}

/* A heap that no exit handler could give to the orphans, and whose thread is gone now. The caller holds the lock. A child of vfork
 * does not see its parent's threads. */
static hd_heap *find_abandoned(void) {
  if (hdi_os_process_id() != process) return NULL;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    unsigned late = hd_load_relaxed(&heap->late_thread);
    if (late == 0 || hd_load_relaxed(&heap->life) != HD_HEAP_USED || hdi_os_thread_alive(late)) continue;
    (void)hd_load_acquire(&heap->busy); /* pairs with the last hdi_gate_leave of the thread that is gone */
    return heap;
  }
  return NULL;
}

static unsigned late_id(void) { return thread_ended ? hdi_os_thread_id() : 0; }

/* The orphans of a fork's time, where there are no others. The caller holds the lock. */
static void gather(void) {
  if (HD_LIKELY(hd_load_relaxed(&pool.orphans_in_fork) == NULL)) return;
  hd_heap *first = hd_exchange(&pool.orphans_in_fork, NULL), *last = first;
  if (first == NULL) return;
  while (last->next_orphan != NULL) last = last->next_orphan;
  pool.orphans = first;
  pool.last_orphan = last;
}

static hd_heap *use_orphan(hd_heap *heap) {
  if (heap == NULL) return NULL;
  heap->rested = 0;
  hd_store_relaxed(&heap->late_thread, late_id());
  hd_store_relaxed(&heap->child, child_id());
  hd_store_release(&heap->life, (uint32_t)HD_HEAP_USED);
  return heap;
}

static hd_heap *adopt(void) {
  static uint8_t turns; /* looking costs a system call a heap: now and then, unless threads are known to end unseen */
  if (HD_UNLIKELY(!hdi_lock_take_unless_fork(&pool.lock))) {
    return hdi_lock_is_new_child() ? NULL : use_orphan(take_in_fork(&pool.orphans_in_fork)); /* the child's may have to be mended */
  }
  if (pool.orphans == NULL) gather();
  hd_heap *heap = pool.orphans;
  if (heap != NULL) {
    pool.orphans = heap->next_orphan;
    heap->next_orphan = NULL;
  } else if (turns++ % 8 == 0 || hd_load_relaxed(&unseen)) {
    heap = find_abandoned();
  }
  use_orphan(heap);
  hdi_lock_drop(&pool.lock);
  return heap;
}

static hd_heap *make_heap(void) {
  static atomic_uint made;
  if (hd_exchange(&made, 1u) != 0) hd_store_relaxed(&hdi_heap_several, true);
  hd_heap *heap = hdi_thread_new_heap(&hdi_space, false);
  if (heap != NULL && hdi_hardened_is_on() && !hdi_hardened_attach(heap)) {
    hdi_thread_retire_heap(heap);
    heap = NULL;
  }
  if (heap == NULL) return NULL;
  hd_store_relaxed(&heap->late_thread, late_id());
  return heap;
}

hd_heap *hdi_thread_heap(void) {
  hdi_thread_init();
  if (hd_load_acquire(&start_state) != START_DONE) return NULL;
  hd_heap *heap = hdi_heap_mine();
  if (!hdi_heap_is_empty(heap)) return heap;
  heap = adopt();
  if (heap == NULL) heap = make_heap();
  if (heap == NULL) return NULL;
  if (hdi_hardened_is_on()) hdi_heap_hidden = heap;
  else hdi_heap_self = heap;
  bool handled = exit_key_made && pthread_setspecific(exit_key, heap) == 0;
  /* In a child of vfork the number would not be the thread's own. */
  if (!handled && hdi_os_process_id() == process) {
    hd_store_relaxed(&heap->late_thread, hdi_os_thread_id());
    hd_store_relaxed(&unseen, true);
  }
  return heap;
}

void hdi_thread_homeless_free(void) {
  static __thread uint8_t count __attribute__((tls_model("initial-exec")));
  if (++count == FREES_WITHOUT_HEAP && !thread_ended) hdi_thread_heap();
}

/* Touched bytes of a page that are free, as far as its owner knows. Blocks that others freed, and that it has claimed again before they
 * told, count as used twice. */
static size_t spare_bytes(const hd_unit *page) {
  size_t touched = page->fresh, used = hdi_page_used(page);
  return touched > used ? (touched - used) * page->block_bytes : 0;
}

/* How much the next thread finds in a heap before it touches new memory: one more than its logarithm to base 2. 0: the heap has more
 * pages than classes. The caller is inside the heap's gate, or alone. */
static void rank(hd_heap *heap) {
  int64_t pages = -(int64_t)hd_load_relaxed(&heap->lost_units);
  size_t spare = 1;
  for (unsigned i = 1; i < HD_CLASS_COUNT; i++) {
    const hd_class *class = &heap->class[i];
    pages += class->page_count;
    if (pages > HD_CLASS_COUNT) break;
    if (class->page != NULL) spare += spare_bytes(class->page);
    for (const hd_unit *page = class->first; page != NULL; page = page->next) spare += spare_bytes(page);
  }
  heap->rank = pages > HD_CLASS_COUNT ? 0 : (uint8_t)(1 + hd_highest_bit(spare));
}

/* The one with most to give is the next one to be adopted, and of those with as much, the one that was left last: it is warm. Small ones in
 * front would grow, beside others that lie idle. One with more pages than classes waits for its turn behind all: what others free in its
 * pages is of use only to its next thread, and heaps passed over for ever would be memory lost. The caller holds the lock. */
static void leave_orphan(hd_heap *heap) {
  hd_heap *before = NULL, *after = pool.orphans;
  if (heap->rank == 0) {
    before = pool.orphans == NULL ? NULL : pool.last_orphan;
    after = NULL;
  }
  for (unsigned looks = 0; after != NULL && after->rank > heap->rank && looks < RANK_LOOKS; looks++) {
    before = after;
    after = after->next_orphan;
  }
  heap->next_orphan = after;
  if (after == NULL) pool.last_orphan = heap;
  if (before == NULL) pool.orphans = heap;
  else before->next_orphan = heap;
}

static void give_orphan(hd_heap *heap) {
  bool locked = hdi_lock_take_unless_fork(&pool.lock); /* who forks may be waiting for this thread to end */
  hd_store_release(&heap->life, (uint32_t)HD_HEAP_ORPHAN);
  if (HD_LIKELY(locked)) {
    leave_orphan(heap);
    hdi_lock_drop(&pool.lock);
  } else {
    heap->next_orphan = NULL;
    add_in_fork(&pool.orphans_in_fork, heap);
  }
}

static void thread_exit(void *value) {
  hd_heap *heap = value;
  if (heap != hdi_heap_mine()) return;
  hdi_hardened_flush(heap);
  hdi_gate_enter(heap);
  hdi_remote_flush(heap);
  hdi_remote_drain(heap);
  hdi_heap_host_anew(heap);
  hdi_heap_drop_cache(heap);
  rank(heap);
  hdi_gate_leave(heap);
  thread_ended = 1;
  hdi_heap_hidden = &hdi_heap_empty;
  hdi_heap_self = &hdi_heap_empty;
  give_orphan(heap);
  hdi_purge_note();
}

/* Another round has passed. Returns whether an orphan is not at rest. */
static bool count_rounds(unsigned rounds) {
  bool any = false;
  if (!hdi_lock_take_unless_fork(&pool.lock)) return true;
  for (hd_heap *heap = pool.orphans; heap != NULL; heap = heap->next_orphan) {
    if (heap->rested == HD_AT_REST) continue;
    heap->rested = (uint8_t)hd_min(heap->rested + rounds, REST_ROUNDS);
    any = true;
  }
  hdi_lock_drop(&pool.lock);
  return any;
}

/* An orphan that shall go to rest, out of the list. */
static hd_heap *take_tired(void) {
  hd_heap *before = NULL, *heap = NULL;
  if (!hdi_lock_take_unless_fork(&pool.lock)) return NULL;
  for (heap = pool.orphans; heap != NULL && heap->rested != REST_ROUNDS; heap = heap->next_orphan) before = heap;
  if (heap != NULL) {
    hd_heap *after = heap->next_orphan;
    if (before == NULL) pool.orphans = after;
    else before->next_orphan = after;
    if (after == NULL) pool.last_orphan = before;
  }
  hdi_lock_drop(&pool.lock);
  return heap;
}

/* No fork begins meanwhile: the caller has the collector's lock, which a fork takes first. */
bool hdi_thread_rest_orphans(bool now) {
  if (hdi_hardened_is_on() || !count_rounds(now ? REST_ROUNDS : 1)) return false;
  for (hd_heap *heap; (heap = take_tired()) != NULL;) {
    hdi_gate_enter(heap);
    hdi_parcel_look(heap);
    hdi_remote_drain(heap);
    hdi_heap_rest(heap);
    rank(heap);
    heap->rested = HD_AT_REST;
    hdi_gate_leave(heap);
    give_orphan(heap);
  }
  return true;
}

/* ---- fork -------------------------------------------------------------------------------------------------------- */

/* Whether a step takes or drops a heap's lock: in the child each that a thread may hold that is not there. */
static bool takes_part(const hd_heap *heap, hd_fork_step step) {
  if (step == HD_FORK_PREPARE) return hd_load_owned(&heap->explicit_heap) && hd_load_acquire(&heap->life) == HD_HEAP_USED;
  if (step == HD_FORK_PARENT) return hdi_lock_is_mine(&heap->lock);
  return !is_of_new_child(heap);
}

/* So that the child finds explicit heaps whole too. A handler that runs later may use up the hold: see lock.c. */
static void fork_heaps(hd_fork_step step) {
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (takes_part(heap, step)) hdi_lock_fork(&heap->lock, step);
  }
}

/* What waits in the lists can be had while the lock can't. */
static void lay_open(void) {
  add_in_fork(&pool.orphans_in_fork, pool.orphans);
  add_in_fork(&pool.retired_in_fork, pool.retired);
  pool.orphans = pool.last_orphan = pool.retired = NULL;
}

/* The outermost lock first on the way in. On the way out the order does not matter: nobody waits for two. */
SLOW static void fork_step(hd_fork_step step) {
  hdi_purge_fork(step);
  fork_heaps(step);
  hdi_lock_fork_open(&pool.lock, step, lay_open, gather);
  hdi_space_fork(step);
  hdi_store_fork(step);
}

static void fork_prepare(void) {
  hdi_lock_fork_begin();
  fork_step(HD_FORK_PREPARE);
}

static void fork_parent(void) {
  fork_step(HD_FORK_PARENT);
  hdi_lock_fork_end();
}

/* The heap of a thread that is not in the child. Outside its gate the thread had left everything whole but the block it was at: one that it
 * was about to take stays counted, one that it was freeing may stay LIVE. So a new thread may go on with the heap, like with
 * that of one that ended. Inside the gate anything may be half done. */
static void fork_orphan(hd_heap *heap) {
  hdi_page_torn = true;
  hdi_hardened_forget(heap);
  if (hdi_gate_is_inside(heap)) {
    hd_store_relaxed(&heap->life, (uint32_t)HD_HEAP_DEAD);
    return;
  }
  hd_store_relaxed(&heap->life, (uint32_t)HD_HEAP_ORPHAN);
  rank(heap);
  leave_orphan(heap);
}

/* A heap that came to the orphans in the parent. Those of threads that other handlers have started in the child, and that ended, may be on
 * their way to the list. */
static bool is_parents_orphan(const hd_heap *heap) { return hd_load_relaxed(&heap->life) == HD_HEAP_ORPHAN && !is_of_new_child(heap); }

/* Whether the list has every heap that waits. */
static bool all_listed(void) {
  size_t waiting = 0, listed = 0;
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) waiting += is_parents_orphan(heap);
  for (hd_heap *heap = pool.orphans; heap != NULL; heap = heap->next_orphan) listed += is_parents_orphan(heap);
  return waiting == listed;
}

/* If a thread was about to take from the list, it is made anew. */
static void mend_orphans(void) {
  gather();
  if (all_listed()) return;
  hd_heap *heap = pool.orphans, *next = NULL;
  pool.orphans = pool.last_orphan = NULL;
  for (; heap != NULL; heap = next) {
    next = heap->next_orphan;
    if (is_of_new_child(heap)) leave_orphan(heap);
  }
  for (heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (is_parents_orphan(heap)) leave_orphan(heap);
  }
}

/* Nothing is written that need not be: each page that is would be copied. */
SLOW static void fork_child(void) {
  process = hdi_os_process_id();
  if (pool.lock.nested == 0) mend_orphans(); /* not under the hands of this thread */
  for (hd_heap *heap = hdi_thread_first_heap(); heap != NULL; heap = heap->next_registered) {
    if (hd_load_relaxed(&heap->stopped) != 0) hd_store_relaxed(&heap->stopped, 0u);
    if (heap == hdi_heap_mine()) {
      if (hd_load_relaxed(&heap->late_thread) != 0) hd_store_relaxed(&heap->late_thread, hdi_os_thread_id());
      hdi_inherit_begin(heap);
    } else if (!heap->explicit_heap && hd_load_acquire(&heap->life) == HD_HEAP_USED && !is_of_new_child(heap)) {
      fork_orphan(heap);
    }
  }
  fork_step(HD_FORK_CHILD);
  hdi_lock_fork_child();
}
