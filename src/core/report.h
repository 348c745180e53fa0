/* Reports of misuse: one line on stderr, then what the option `onerror` says.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_REPORT_H
#define HD_CORE_REPORT_H

#include "base/text.h"
#include "core/unit.h"
#include "heddle.h"

/* End a line of a report with its code, write it, tell the program's hook, and do what `onerror` says. p: the address that was misused,
 * or the handle or index as one. Returns only where the policy is not abort. */
SLOW void hdi_report_finish(hd_text *text, const void *p, const char *code);

/* "an arena" and so on, for reports. */
const char *hdi_area_kind_text(hd_area_kind kind);

/* Say what is wrong with giving p to the function `verb` ("free", "realloc", ...). p lies in Heddle's memory and is no live
 * block. unit: its table entry, NULL where there is none yet. Returns only where the policy is not abort. */
SLOW void hdi_report_misuse(const char *verb, const void *p, hd_unit *unit);

/* Hardened mode. A live block, given to the function `verb`, was written behind its end; asked: the bytes asked for, SIZE_MAX when nothing
 * tells. A freed block was written to, at byte `at`. A sized free says another `what` than is known. */
SLOW void hdi_report_overflow(const char *verb, const void *p, const hd_unit *unit, size_t asked);
SLOW void hdi_report_written(const void *p, const hd_unit *unit, size_t at);
SLOW void hdi_report_size(const void *p, const hd_unit *unit, const char *what, size_t said, size_t asked);

/* An access to this address ended in a fault: say which block it missed, if it was one on a run of its own. Goes on. May run in a signal
 * handler. */
SLOW void hdi_report_fault(const void *address);

/* p belongs to no memory that Heddle knows, and no other allocator is there to ask. */
SLOW void hdi_report_foreign(const char *verb, const void *p);

/* p is no block of the heap it was given with. */
SLOW void hdi_report_other_heap(const char *verb, const void *p);

/* A warning about options and surroundings; goes on. */
SLOW void hdi_report_warning(const char *text, const char *detail);

#endif
