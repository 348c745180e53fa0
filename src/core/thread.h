/* Threads: birth, death and adoption of heaps; start of the library; fork.
 *
 * A thread gets its heap at its first allocation: an orphan of an ended thread if there is one, as it is, else a new one.
 * At its end the heap goes to the orphans, those with most free memory first (decision 17). A few frees do not create a heap. Heaps of
 * threads that vanished in a fork are orphans too, unless the thread was inside the gate: those are DEAD, their blocks can still be
 * freed, but nothing walks their lists any more.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_THREAD_H
#define HD_CORE_THREAD_H

#include "core/heap.h"

/* The calling thread's heap, made if need be. NULL: the library forwards to the next allocator, or there is no memory; tell
 * them apart by hdi_thread_is_passthrough(). */
SLOW hd_heap *hdi_thread_heap(void);

/* A thread without a heap frees another one's block: nothing at first, but one that does so again and again gets a heap. */
void hdi_thread_homeless_free(void);

/* Start the library if that has not happened. */
void hdi_thread_init(void);

/* The same, and the common space also where malloc is passed through. false: there is none. */
bool hdi_thread_init_space(void);

bool hdi_thread_is_passthrough(void);

/* All heaps since the start, newest first, through next_registered. */
hd_heap *hdi_thread_first_heap(void);

/* The collector, with its lock: of heaps that were left a second ago (now: at any time) the classes let go of their pages, so that a
 * program whose threads have ended gets their memory back. The next thread finds what is in use. Returns whether some had not yet. */
bool hdi_thread_rest_orphans(bool now);

/* Whether more than one thread has a heap at the moment. */
bool hdi_thread_has_several(void);

/* A new heap, registered; NULL without memory. */
hd_heap *hdi_thread_new_heap(hd_space *space, bool explicit_heap);
/* It is no longer used; it may come back from hdi_thread_new_heap. */
void hdi_thread_retire_heap(hd_heap *heap);

#endif
