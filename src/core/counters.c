/* See counters.h.
 * SPDX-License-Identifier: MIT */
#include "core/counters.h"

hd_counters hdi_counters;
