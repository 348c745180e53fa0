/* In the child of a fork: the free blocks between those of its parent. To write to a system page that both have copies all of it, so a
 * child that took the blocks that its parent had freed here and there would have a page of its own for nearly each. It begins with new
 * pages, and leaves its parent's as they are, if those come to 4 MiB: pages with free blocks wait in a list of the heap's. A page of which
 * the child frees an eighth is taken from like any other. Once the child has taken a quarter of what its parent had, it goes on in the old
 * pages; so it does where there is no memory for new ones.
 * Who may call: the heap's thread, inside the gate where nothing else is said. Above: thread.c, heap.c, alloc.c. Below: heap.h, store.h.
 * Decision 41.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_INHERIT_H
#define HD_CORE_INHERIT_H

#include "core/heap.h"

/* After a fork, in the child; not inside the gate. Nothing is written but the heap's own lines, for a child that calls exec next. */
void hdi_inherit_begin(hd_heap *heap);

/* At the first claim of a class since the fork: its pages leave it. Returns 0, as the bits that its slot has then. */
uint64_t hdi_inherit_leave(hd_heap *heap, hd_class *class);

/* Before a heap that has left pages takes a new one: if it has taken enough of those, it has all of them back. */
void hdi_inherit_check(hd_heap *heap);

/* The heap has all pages back that it left, and leaves no more: there is no memory for new ones. Not inside the gate. */
void hdi_inherit_end(hd_heap *heap);

#endif
