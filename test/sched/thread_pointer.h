/* Included in front of every core file: all fibres share one real thread, so the core's question who it is goes to the scheduler.
 * SPDX-License-Identifier: MIT */
#ifndef SCHED_THREAD_POINTER_H
#define SCHED_THREAD_POINTER_H

void *sched_thread_pointer(void);
#define __builtin_thread_pointer() sched_thread_pointer()

#define HD_SCHED 1 /* base/atomic.h asks for it */

#endif
