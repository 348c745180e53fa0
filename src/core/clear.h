/* Long zeroed blocks on memory that was used before.
 *
 * To clear what is resident takes a fifth of what its page faults would, of small pages a fifteenth. What is not resident shall not become
 * so, but is exchanged for fresh memory: it may have been swapped out, so it need not read as zero, and an array that is filled from its
 * start, or a table of which little is used, takes no more memory the next time than it did the last (decisions 16 and 52).
 * Who may call: whoever has the block, any thread. Above: alloc.c. Below: os.h.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_CLEAR_H
#define HD_CORE_CLEAR_H

#include <stddef.h>
#include <stdint.h>

/* Let many whole system pages read as zero. */
void hdi_clear_old(uint8_t *p, size_t bytes);

#endif
