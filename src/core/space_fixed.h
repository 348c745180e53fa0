/* Spaces in memory that a caller gives: made there, table and all, and found from any pointer in them.
 * Threads: any, without a lock. Above: space.c, api.c.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_SPACE_FIXED_H
#define HD_CORE_SPACE_FIXED_H

#include "core/space.h"

/* Make a space in memory that the caller gives; the table comes first. false when it is too small. */
bool hdi_space_init_fixed(hd_space *space, void *memory, size_t bytes, size_t header_bytes);

/* Let hdi_space_find see a fixed space; and forget it. false: too many of them. */
bool hdi_space_publish(hd_space *space);
void hdi_space_retract(hd_space *space);

/* The unit of a fixed space that holds p, and the fixed space whose table a unit stands in; NULL: there is none. */
hd_unit *hdi_space_fixed_find(const void *p);
hd_space *hdi_space_fixed_of(const hd_unit *unit);

#endif
