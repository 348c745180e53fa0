/* Options: one table (options.def), five layers: built-in value, the program's symbol heddle_options, a file, the environment
 * (HEDDLE, then HEDDLE_KEY), and hd_option_set at run time. A bad key or value warns once and changes nothing.
 * SPDX-License-Identifier: MIT */
#ifndef HD_CORE_OPTIONS_H
#define HD_CORE_OPTIONS_H

#include <stdbool.h>
#include <stdint.h>

#include "heddle.h"

enum { HD_STATS_OFF, HD_STATS_ON, HD_STATS_JSON };
enum { HD_PASSTHROUGH_OFF, HD_PASSTHROUGH_ON, HD_PASSTHROUGH_AUTO };
enum { HD_ONERROR_ABORT, HD_ONERROR_REPORT, HD_ONERROR_IGNORE };
enum { HD_THP_AUTO, HD_THP_NEVER, HD_THP_ALWAYS };

typedef struct hd_options {
#define OPTION(field, name, type, standard, min, max, unit, late, text) int64_t field;
#include "core/options.def"
#undef OPTION
} hd_options;

extern __attribute__((visibility("hidden"))) hd_options hdi_options;

/* Read all layers but the last, over what is set already. */
void hdi_options_read(void);

/* At the start: read, and fix what can't change later; prints help and the verbose listing if they are asked for. */
void hdi_options_init(void);

#endif
