/* Huge pages in the common space: asked for where a program has filled the memory below, or where the owner of a long run knows that it
 * will be filled; and taken back where memory is purged piece by piece, until all of it has been.
 * Threads: any. Above: space.c, space_grow.c, large.c, purge.c. Below: os.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_SPACE_HUGE_H
#define HD_CORE_SPACE_HUGE_H

#include "core/space.h"

/* Runs from 4 MiB on are taken for dense; shorter ones only with all that is around them. */
enum { HD_HUGE_UNITS = 32 /* a huge page */, HD_HUGE_RUN_UNITS = 64 };

/* How sure it is that memory will be touched: its owner may never do so; it is likely; or it happens at once. */
typedef enum hd_touch { HD_TOUCH_PERHAPS, HD_TOUCH_LIKELY, HD_TOUCH_SURE } hd_touch;

/* In the child of a fork: what it has from its parent does not make it large. */
void hdi_space_huge_fork_child(void);

/* Units [have, next) of a space have been claimed. Some systems give larger pages unasked: they shall wait to be asked where those are of
 * 2 MiB, and in any case in what a small program has. */
void hdi_space_huge_step(const hd_space *space, size_t have, size_t next);

/* Units [from, to) of clean memory, which goes on until end, are handed out. Not with the space's lock: to look at what a huge page costs
 * may take milliseconds. */
void hdi_space_huge_enter(const hd_space *space, size_t from, size_t to, size_t end, hd_touch touch);

/* What a run of so many units should start at a multiple of, and be a multiple of, so that huge pages fill it; 1: there won't be any. */
size_t hdi_space_huge_grain(const hd_space *space, size_t units);

/* Whether a run of a space gets huge pages because the library sees that they pay; not where the system or an option decides. */
bool hdi_space_asks_huge(const hd_space *space);

/* Whether a huge page that stays half empty would be little of what the process has. In a small one it may be most of it. */
bool hdi_space_huge_is_little(void);

/* The run, clean memory, will be touched in most places if it is at all: ask for huge pages inside it, unless they are dear. */
void hdi_space_want_huge(hd_space *space, const hd_unit *first, size_t units, hd_touch touch);

/* No more huge pages in [address, address+bytes), which nobody uses: its blocks are as they were before anybody asked. */
void hdi_space_leave_huge(const uint8_t *address, size_t bytes);

/* Whether huge pages were asked for where this memory lies. */
bool hdi_space_is_huge(const uint8_t *address);

/* [address, address+bytes) is about to be purged. If it is less than a huge page its surroundings stay: no huge pages there any more, or
 * the system would fill the gap again. If it is much, whoever gets it next has to show anew that he fills it. */
void hdi_space_before_purge(const uint8_t *address, size_t bytes);

/* All of a run is free and clean: nothing is left there of what was purged piece by piece, so huge pages may be asked for once more where
 * they were taken back. With the space's lock. */
void hdi_space_huge_again(const hd_space *space, const hd_unit *run);

#endif
