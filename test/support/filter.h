/* Filters of system calls, as service managers and careful programs put them up.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_FILTER_H
#define TEST_FILTER_H

#include <stdbool.h>
#include <stddef.h>

/** What ends the process from now on: each of these calls, or every other one. */
enum ts_filter { TS_FILTER_FORBID, TS_FILTER_ALLOW };

struct sock_filter;

/** Put up a filter of the caller's own rules. false: the system has no filters. */
bool ts_filter_rules(struct sock_filter *rules, unsigned short count);

/** Put up a filter for the calling thread and those that it starts. At most 200 calls. false: the system has no filters. */
bool ts_filter_calls(enum ts_filter what, const long *calls, size_t count);

/** From now on the call is refused with EINVAL where that argument, counted from 0, has the value: to an older system it says nothing. */
bool ts_filter_value(long call, unsigned argument, unsigned value);

#endif
