/* Regions: runs of units that an object (an arena, a pool, ...) carves up by itself.
 *
 * A region is known to the unit table like a large block is: it shows in walks and statistics, and a free() of any address in
 * it is reported by the object's kind and name. What lies in it, and how much of it has been touched, only the object knows;
 * the object tells as it goes (hdi_region_note) and when it gives the region back.
 * Threads: any, a call on one region from one thread at a time. Above: objects/. Below: space.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_REGION_H
#define HD_CORE_REGION_H

#include "base/bits.h"
#include "heddle.h"

/* Start the library as far as regions and the metadata store need it. false: there is no memory. */
bool hdi_region_start(void);

/* A region of at least bytes, a multiple of 64 KiB and aligned to that. *zeroed: all of it reads as zero and costs nothing yet;
 * otherwise it is resident memory of earlier owners, cheaper to use than fresh one. name: kept, not copied, until the region is
 * given back; may be NULL. NULL with ENOMEM when there is no memory, or the size is above PTRDIFF_MAX. */
void *hdi_region_take(hd_area_kind kind, const char *name, size_t bytes, bool *zeroed);

/* The same, but always clean: address space that costs memory only where it is touched, and reads as zero. For ranges that are
 * mostly untouched. */
void *hdi_region_reserve(hd_area_kind kind, const char *name, size_t bytes);

/* Length of the region in bytes. */
size_t hdi_region_bytes(const void *region);

/* Give the region back. Untouched is the range [clean_from, clean_to) of it, in bytes from its start; none when clean_from >=
 * clean_to. */
void hdi_region_give(void *region, size_t clean_from, size_t clean_to);

/* The same for a region with guards. Where the system refuses to open them the region stays out of use, and goes back as soon as
 * hdi_region_open_shut finds the system willing: the collector calls that. */
void hdi_region_give_guarded(void *region, size_t clean_from, size_t clean_to);
void hdi_region_open_shut(void);

/* Give the system pages that lie wholly in [offset, offset + bytes) of the region back to the system; they then read as zero. Length
 * of the range that does, 0 when the system refuses; *start is its offset. */
size_t hdi_region_purge(void *region, size_t offset, size_t bytes, size_t *start);

/* Make a range of whole system pages inside the region unreachable, or reachable again (it then reads as zero). false: the system
 * refuses. */
bool hdi_region_guard(void *region, size_t offset, size_t bytes, bool on);

/* The range, clean memory, will be touched in most places: ask for huge pages inside it. Cheap when that was done before. */
void hdi_region_want_huge(void *region, size_t offset, size_t bytes);

/* How many bytes of the region have been touched, for statistics. */
void hdi_region_note(void *region, size_t touched);

#endif
