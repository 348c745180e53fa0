/* Giving memory back: the collector, and the helper that runs it in the background.
 *
 * Free runs go back when they have been free for the option `purge-delay`. Every quarter of a second, as long as something
 * changes, the helper also announces what other threads have counted but not told, takes in their mail, releases pages that
 * became empty that way, and gives back the system pages inside partly used pages that have been left alone for some
 * seconds. When nothing has changed for a while it ends; the next free in a slow path starts it again. A program whose heap
 * never passes 10 MiB never has a helper.
 *
 * It stops one heap at a time, and only those from which there is something to be had (decision 40).
 *
 * A thread that would touch new memory does one part of this by itself, without waiting for the helper: hdi_purge_fetch.
 *
 * The helper is a bare kernel thread (os.h): no thread-local storage, no C library. It owns no heap and frees nothing.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_PURGE_H
#define HD_CORE_PURGE_H

#include "core/heap.h"

enum { HD_PURGE_MIN_UNITS = 160 /* a smaller heap is left alone */ };

extern HD_HIDDEN atomic_uint hdi_purge_running;

__attribute__((noinline)) void hdi_purge_start(void); /* not SLOW: most programs come to the jump to it */

/* Make the system ready to stop other threads: at the library's start, because with one thread that takes no time, later milliseconds. */
void hdi_purge_prepare(void);

/* Something was freed in a slow path. */
static inline void hdi_purge_note(void) {
  if (HD_LIKELY(hd_load_relaxed(&hdi_purge_running) != 0)) return;
  if (hd_load_relaxed(&hdi_space.top) >= HD_PURGE_MIN_UNITS) hdi_purge_start();
}

/* Collect now, in the calling thread; keep_bytes of free runs may stay. Bytes given back. */
size_t hdi_purge_collect(size_t keep_bytes);

/* A run is needed, and nothing but new memory is left for it: first take in pages that other threads have emptied and whose owners have not
 * looked. The caller is inside its heap's gate. */
SLOW void hdi_purge_fetch(hd_heap *self);

/* How long the helper waits before it looks at so many units again: longer in heaps of more than 64 GiB. */
unsigned hdi_purge_pause_ms(size_t units);

void hdi_purge_fork(hd_fork_step step);

#endif
