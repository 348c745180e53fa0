/* Heaps: the front end of one thread, or of everybody who was given a handle.
 *
 * A heap holds a slot for each size class: the free blocks of one group of 64, as bits. malloc takes the lowest bit; that is
 * the whole fast path. Behind each slot stands the class's current page and the list of its partly used pages. Heaps are
 * never unmapped: a thread's heap outlives it and is adopted by a later thread as it is, with all its pages,
 * or with those that are in use (decision 38).
 *
 * Who may touch a heap: its thread, inside the heap's gate whenever it does more than take a bit or free a block; or a
 * collector that has stopped the heap (gate.h). An explicit heap is used under its lock by whoever calls; if it has one user it is
 * used like a thread's, and the lock guards only its list and count of runs, which any thread's free of a large block changes.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_HEAP_H
#define HD_CORE_HEAP_H

#include "base/atomic.h"
#include "core/lock.h"
#include "core/shelf.h"
#include "core/sizeclass.h"
#include "core/space.h"
#include "core/unit.h"

/* What a small class without a page takes of another one before it gets a page: so many times 128 bytes, a system page full, or so many
 * shorter blocks. */
enum { HD_HOSTED_MOST = 32 };

enum { HD_REMOTE_TABLE = 64, HD_NAME_BYTES = 32, HD_CACHE_RUN = 16, HD_LONE_MOST = 2 };

/* Units that a heap's cache of runs takes: at first, and where threads meet at the space. */
enum { HD_CACHE_UNITS = 16, HD_CACHE_UNITS_MOST = 64 };

/* The group that a class takes blocks from. Bit i of its word stands for block i; what it has is free in the byte map. What the owner
 * frees of the group comes back there, as in any other group (decision 33). */
typedef struct hd_slot {
  uint64_t word_at;       /* where the group's word lies, from here; 0: nowhere, and it reads as empty */
  size_t block_bytes;
  uint8_t *blocks;        /* block 0 of the group */
  hd_block_state *map;    /* its byte */
} hd_slot;

/* The word that malloc takes from. */
FAST uint64_t *hdi_slot_word_at(hd_slot *slot, uint64_t word_at) { return (uint64_t *)((uintptr_t)slot + (uintptr_t)word_at); }

FAST uint64_t *hdi_slot_word(hd_slot *slot) { return hdi_slot_word_at(slot, slot->word_at); }

FAST uint64_t hdi_slot_bits(hd_slot *slot) { return *hdi_slot_word(slot); }

FAST void hdi_slot_set(hd_slot *slot, const uint64_t *word) {
  hd_store_owned(&slot->word_at, (uint64_t)((uintptr_t)word - (uintptr_t)slot));
}

typedef struct hd_cached {
  uint8_t *block;
  hd_block_state *state; /* its byte */
} hd_cached;

/* How many blocks a magazine takes: at first up to 8 and up to 64 KiB, at least one; as its class proves to need, up to 128 and 2 MiB,
 * until it is given back. */
enum { HD_MAGAZINE_FIRST = 8, HD_MAGAZINE_FIRST_BYTES = 64 * 1024, HD_MAGAZINE_MOST = 128, HD_MAGAZINE_MOST_BYTES = 2048 * 1024 };

/* Blocks of a medium class that the heap's thread freed just now, for its next malloc. Their bytes say CACHED, and they stay counted in
 * their pages' credit. Everything happens inside the gate. */
typedef struct hd_magazine {
  _Alignas(32) hd_cached *top; /* where the next one goes */
  hd_cached *first;            /* where top is when there are none; in the store, with the class's first page */
  hd_cached *end;              /* where top is when it is full */
  uint32_t room;               /* blocks that there is memory for, which may be more */
} hd_magazine;

/* One class: its slot, which is all that malloc reads, and its pages. A cache line. */
typedef struct hd_class {
  _Alignas(64) hd_slot slot;
  hd_unit *page;          /* CURRENT, or NULL */
  hd_unit *first;         /* PARTIAL */
  uint32_t page_count;    /* pages of the class, in any state, and those that others have taken over */
  uint16_t since;         /* the heap's claims when busy was last found out: its low half */
  uint8_t step;           /* virgin blocks to claim next time; 0 until there is a page */
  uint8_t claims;         /* times that the slot was empty */
  uint8_t pause;          /* claims until the same group is tried again, */
  uint8_t last_pause;     /* and how many there were after the last try */
  union {
    uint8_t spills;       /* medium. Odd: its magazine was full, and not empty since; twice the times that both happened */
    uint8_t hosted;       /* small: what it took of its host, having no page, in 128 bytes */
  };
  bool zeroes;            /* calloc has asked for its blocks */
  bool zeroed;            /* the blocks in the slot read as zero */
  bool busy : 1;          /* at least one of eight claims of the heap is for this class */
  bool told : 1;          /* other threads have told of frees of its blocks, and may have freed more */
  bool shared : 1;        /* they have told of some at any time: its pages' bytes say more than their words */
  uint8_t seen;           /* claims when the heap last looked whether it may give up what rests here */
  uint8_t turn;           /* blocks that were put apart for malloc; 0: none are, and it takes what was freed last (decision 34) */
} hd_class;

/* In place of a turn: the class's pages are its parent process's as well, and nothing was claimed since the fork; inherit.h. */
enum { HD_TURN_INHERITED = UINT8_MAX };

_Static_assert(sizeof(hd_class) == 64, "a claim touches one line of its heap");

/* Frees of other heaps' blocks, counted by page and not yet announced. */
typedef struct hd_remote_entry {
  hd_unit *page;
  uint32_t left;  /* frees until they are announced */
  uint32_t limit; /* where left started */
} hd_remote_entry;

/* Blocks of medium classes of another heap, freed by this one's thread; parcel.h. */
enum { HD_PARCEL_BLOCKS = 29, HD_PARCEL_SLOTS = 8, HD_PARCELS = 16 };

typedef struct hd_parcel {
  _Alignas(64) _Atomic(struct hd_heap *) owner; /* whose they are, until it has taken them in; then NULL */
  struct hd_parcel *next;                       /* in the owner's list */
  uint32_t count;
  int32_t room; /* bytes that it still takes while it is being filled; 0 or less: it is on its way, or back */
  uint8_t *block[HD_PARCEL_BLOCKS];
} hd_parcel;

/* Units side by side that a class's next pages will be made of, one unit each, by their index in the space's table; decision 45. */
typedef struct hd_row {
  uint32_t at;
  uint16_t units;
  bool zeroed;
} hd_row;

/* Of an orphan whose classes have let go of their pages. */
enum { HD_AT_REST = UINT8_MAX };

enum hd_heap_life { HD_HEAP_USED, HD_HEAP_ORPHAN, HD_HEAP_DEAD /* its thread vanished in a fork */ };

/* How a collector has a heap. Its own: anything may be done. By the lock: the same, everybody else waits. By the gate: the owner
 * may still free its blocks, and take what a small class's slot holds. */
enum hd_heap_hold { HD_HOLD_NOT, HD_HOLD_GATE, HD_HOLD_LOCK, HD_HOLD_OWN };

struct hd_heap {
  hd_space *space;
  bool explicit_heap;             /* made by hd_heap_create */
  bool one_user;                  /* explicit, but used like a thread's heap: by its gate, not under the lock */
  bool own_space;                 /* lives in the caller's memory */
  uint8_t looked_at;              /* the class that it looked at last for what rests there */
  uint8_t turner;                 /* the class of which a page ran out of credit last while it was CURRENT */
  uint8_t lone;                   /* blocks of whole system pages that had runs of their own, at most HD_LONE_MOST; alloc.c */
  uint32_t runs;                  /* explicit: list of all its runs, as table index + 1 */
  size_t held_units, limit_units; /* explicit: units held, and the most allowed (0: no limit) */
  hd_lock lock;                   /* explicit: taken by every call; with one user: for its runs alone */
  hd_unit *cached[HD_CACHE_RUN + 1]; /* runs freed just now, still dirty, by length: lists through next */
  uint32_t cached_units;          /* units in them, */
  uint32_t cache_room;            /* and the most there may be; 0: it keeps none */
  uint32_t crowded;               /* times that a run was too many for it while somebody had the space's lock */
  uint32_t claims;                /* times that a slot was empty */
  uint32_t given;                 /* units given to the space several runs at once, and not taken so since */
  uint32_t taken;                 /* units taken in runs of up to HD_CACHE_RUN since it gave up what rested in it */
  hd_shelf shelf;                 /* maps and words of pages */

  _Alignas(64) atomic_uint busy;  /* gate.h */
  atomic_uint stopped;
  uint8_t held;                   /* enum hd_heap_hold; collector only */
  bool far;                       /* its free blocks are not in the caches: claim.h */
  uint8_t rank;                   /* an orphan's place among the others; thread.c */
  uint8_t rested;                 /* rounds of the helper's that it has been an orphan, or HD_AT_REST */
  _Atomic uint32_t life;          /* enum hd_heap_life */
  _Atomic unsigned late_thread;   /* the kernel's number of its thread if no exit handler will give it to the orphans; else 0 */
  _Atomic unsigned child;         /* the process, if its thread took it in a new child, before our fork handler; else 0 */
  struct hd_heap *next_registered; /* all heaps, since the start; thread.c */
  struct hd_heap *next_orphan;
  struct hd_hardened *hardened;   /* what hardened mode keeps for it; NULL otherwise */
  uint32_t page_units;            /* units in its pages, and in those that others have taken over: */
  _Atomic uint32_t lost_units;    /* so many of them */
  uint32_t parcels_open;          /* parcels that are being filled */

  _Alignas(64) _Atomic(hd_unit *) inbox; /* pages with enough remote frees; remote.c */
  _Atomic(hd_parcel *) arrived;   /* parcels with blocks of its pages */
  hd_ahead ahead;                 /* where its next pages come from, if there are several threads */
  uint32_t row_units;             /* units in its classes' rows */
  hd_unit *inherited;             /* in a child of a fork: the pages that it leaves to its parent, or NULL; inherit.h */

  /* What small classes need of these is still on the first system page; all but the parcels is on the first two. */
  _Alignas(64) hd_class class[HD_CLASS_COUNT];
  hd_magazine magazine[HD_MEDIUM_CLASSES];
  hd_remote_entry remote[HD_REMOTE_TABLE];
  uint8_t parcel_of[HD_PARCEL_SLOTS];   /* the parcel that was begun last for an owner of this slot */
  char name[HD_NAME_BYTES];             /* explicit */
  hd_row row[HD_ONE_UNIT_CLASSES + 1];
  hd_parcel parcel[HD_PARCELS];
};

_Static_assert(sizeof(void *) < 8 || offsetof(struct hd_heap, class) + (HD_SMALL_CLASSES + 1) * sizeof(hd_class) <= 4096,
               "a thread without larger blocks touches one system page of its heap");
_Static_assert(sizeof(void *) < 8 || offsetof(struct hd_heap, parcel) <= 8192, "and no thread more than two without parcels");

typedef struct hd_heap hd_heap;

/* The calling thread's heap; until it has one, an empty heap that is never written. In hardened mode it stays the empty one, so that every
 * call takes the slow way, and the thread's heap is the hidden one. */
extern HD_HIDDEN __thread hd_heap *hdi_heap_self __attribute__((tls_model("initial-exec")));
extern HD_HIDDEN __thread hd_heap *hdi_heap_hidden __attribute__((tls_model("initial-exec")));
extern HD_HIDDEN hd_heap hdi_heap_empty;

/* Whether there has been more than one thread's heap at a time. */
extern HD_HIDDEN atomic_bool hdi_heap_several;

/* The heap of an owner word, without its low bits. */
FAST hd_heap *hdi_heap_of_word(uintptr_t word) { return (hd_heap *)(word & ~(uintptr_t)HD_OWNER_BITS); }

/* The heap that owns a unit; NULL for free units and for large blocks of no explicit heap. */
FAST hd_heap *hdi_heap_owner(hd_unit *unit) { return hdi_heap_of_word(hd_load_acquire(&unit->owner)); }

/* The same, but NULL unless it is an explicit heap. */
FAST hd_heap *hdi_heap_explicit_owner(hd_unit *unit) {
  hd_heap *heap = hdi_heap_owner(unit);
  return heap != NULL && hd_load_owned(&heap->explicit_heap) ? heap : NULL;
}

/* Whether it is used under its lock, and not by the gate. */
FAST bool hdi_heap_is_locked(const hd_heap *heap) { return hd_load_owned(&heap->explicit_heap) && !hd_load_owned(&heap->one_user); }

FAST bool hdi_heap_is_empty(const hd_heap *heap) { return heap == &hdi_heap_empty; }

/* Units in a heap's pages. */
FAST uint32_t hdi_heap_page_units(const hd_heap *heap) { return heap->page_units - hd_load_relaxed(&heap->lost_units); }

/* The calling thread's heap in either mode, or the empty one. */
FAST hd_heap *hdi_heap_mine(void) {
  hd_heap *heap = hdi_heap_self;
  return HD_LIKELY(!hdi_heap_is_empty(heap)) ? heap : hdi_heap_hidden;
}

/* Where in a heap the slot for each small size lies. It lies among what the loader writes to, so that malloc reads no page of constants. */
extern HD_HIDDEN uint16_t hdi_heap_slot_at[HD_SMALL_MAX + 1];

/* Fill the slot of a class with free blocks. The caller is inside the gate (or has the lock). false: no memory. */
bool hdi_heap_refill(hd_heap *heap, hd_class *class);

/* A class of somewhat larger blocks that can do without one which has been handed out before, when this one would have to take a block that
 * never was: a class that is needed now and then keeps no memory of its own. Classes above HD_SMALL_MAX. The class itself: there
 * is none. */
unsigned hdi_heap_lender(hd_heap *heap, unsigned class_index);

/* Whose blocks serve the next request of a small class that has no page: those of the next power of two, until there have been some. So a
 * thread that needs a few blocks of each size touches few pages (decision 50). They lie at every alignment that the class's own do. The
 * class itself: it gets a page. So it is with the hosts themselves, and in explicit heaps. */
unsigned hdi_heap_host(hd_heap *heap, unsigned class_index);

/* What hosts gave is forgotten: its next thread, which needs a few blocks of each size as well, is served as the first one was; and so is
 * the same one after it was idle. */
void hdi_heap_host_anew(hd_heap *heap);

/* Put a page that an event concerns into its right state: after its credit ran out, or after remote frees were taken in. */
void hdi_heap_settle(hd_heap *heap, hd_unit *page);

/* Whether the order in which a page's blocks are freed matters, if the heap is a thread's: where it is larger than the caches, for pages of
 * a good many blocks. Of long ones few lines are read, and looks would come too often. */
enum { HD_ORDER_BLOCKS = 128 };
static inline bool hdi_heap_minds_order(const hd_heap *heap, const hd_unit *page) { return heap->far && page->capacity >= HD_ORDER_BLOCKS; }

/* See in which direction the program goes through a page while it frees, if in any, by a block that it has just freed: what it comes to
 * soon is fetched from now on (decision 43). Nothing is seen in other heaps' pages, and by a block that the page does not have: it has
 * become another one since. */
SLOW void hdi_heap_look_ahead(hd_unit *page, uint64_t index);

/* remote frees of page became known: count blocks fewer in use. */
void hdi_heap_credit_remote(hd_heap *heap, hd_unit *page, uint32_t count);

/* Take the claimed blocks of a CURRENT page back from its slot, so that nothing keeps the page; it becomes PARTIAL or is released. By the
 * heap's own thread, or nobody may be in it. */
void hdi_heap_unclaim(hd_heap *heap, hd_unit *page);

/* The same by a collector: only for classes above HD_SMALL_MAX, whose blocks are taken inside the gate. false: not such a page. */
bool hdi_heap_unclaim_medium(hd_heap *heap, hd_unit *page);

/* A page in no list, with so many blocks in use, becomes PARTIAL: one of its class's list. */
void hdi_heap_make_partial(hd_heap *heap, hd_unit *page, uint32_t used);

/* Take a run of so many units out of the cache, which has one. What was a large block still says so, but that the program holds it. */
static inline hd_unit *hdi_heap_take_cached(hd_heap *heap, size_t units) {
  hd_unit *first = heap->cached[units];
  hd_store_owned(&heap->cached[units], first->next);
  hd_store_owned(&heap->cached_units, heap->cached_units - (uint32_t)units);
  return first;
}

/* Whether the cache may keep a run of so many units. The empty heap's may not. */
static inline bool hdi_heap_has_room(const hd_heap *heap, size_t units) {
  return units <= HD_CACHE_RUN && hd_load_stable(uint32_t, &heap->cached_units) + units <= hd_load_stable(uint32_t, &heap->cache_room);
}

/* Put a run of so many units, which was touched, into the cache. */
static inline void hdi_heap_keep_run(hd_heap *heap, hd_unit *first, size_t units) {
  first->next = heap->cached[units];
  hd_store_owned(&heap->cached[units], first);
  hd_store_owned(&heap->cached_units, heap->cached_units + (uint32_t)units);
}

/* Where a class's magazine lies in a heap. */
FAST size_t hdi_heap_magazine_at(size_t class_index) {
  return offsetof(hd_heap, magazine) + (class_index - HD_SMALL_CLASSES - 1) * sizeof(hd_magazine);
}

FAST hd_magazine *hdi_heap_magazine(hd_heap *heap, size_t class_index) {
  return (hd_magazine *)((uint8_t *)heap + hdi_heap_magazine_at(class_index));
}

/* The same for a page of a medium class. */
FAST hd_magazine *hdi_heap_magazine_of(hd_heap *heap, const hd_unit *page) {
  return (hd_magazine *)((uint8_t *)heap + hd_load_owned(&page->in_heap));
}

/* The class of a page of a small one. */
FAST hd_class *hdi_heap_class_of(hd_heap *heap, const hd_unit *page) {
  return (hd_class *)((uint8_t *)heap + hd_load_owned(&page->in_heap));
}

/* The block that was freed last, of a magazine that is not empty. */
FAST void *hdi_heap_take_cached_block(hd_magazine *magazine) {
  hd_cached *last = magazine->top - 1;
  hd_store_owned(&magazine->top, last);
  hd_store_relaxed(last->state, HD_BLOCK_LIVE);
  return last->block;
}

/* Put a freed block of a medium class into its magazine, from which the next malloc takes it, without a claim. A full one leaves it to its
 * page, and a page that waits in the list gets all of its blocks, so that it may run empty: false. */
FAST bool hdi_heap_keep_block(hd_heap *heap, const hd_unit *unit, uint8_t *p, hd_block_state *state) {
  hd_magazine *magazine = hdi_heap_magazine_of(heap, unit);
  hd_cached *top = magazine->top;
  if (HD_UNLIKELY(top == magazine->end || unit->head->state == HD_PAGE_PARTIAL)) return false;
  *top = (hd_cached){p, state};
  hd_store_owned(&magazine->top, top + 1);
  hd_store_relaxed(state, HD_BLOCK_CACHED);
  return true;
}

/* The magazine of a class is empty, and was full since the last time: a few times of that, and it gets room for twice as many blocks. */
void hdi_heap_deepen(hd_heap *heap, unsigned class_index);

/* Give the blocks of the magazines back to their pages, rows and cached runs to the space. The magazines are as at first. */
void hdi_heap_drop_cache(hd_heap *heap);

/* The same, and its classes let go of the pages that they take blocks from: one of which no block is in use goes to the space, as its owner
 * may want none for long. By whoever has the heap alone. */
void hdi_heap_rest(hd_heap *heap);

/* The cached runs alone, and what lies on the shelf; and the cache is as at first. */
void hdi_heap_drop_runs(hd_heap *heap);

/* Release an empty page that stands in no list. */
void hdi_heap_release(hd_heap *heap, hd_unit *page);

/* A run for the heap's pages and large blocks: counted against its limit, and listed if the heap is explicit. */
hd_unit *hdi_heap_take_run(hd_heap *heap, size_t units, size_t align_units, bool *zeroed);
void hdi_heap_give_run(hd_heap *heap, hd_unit *first, size_t units, bool dirty);

/* Free all runs of an explicit heap. The caller has its lock, or is its one user inside the gate. */
void hdi_heap_give_all(hd_heap *heap);

#endif
