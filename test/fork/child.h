/* Children of fork for the tests of fork: each has five seconds, and its end is checked; threads that allocate meanwhile.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_FORK_CHILD_H
#define TEST_FORK_CHILD_H

#include <stdbool.h>
#include <sys/types.h>

#define CHILD_SECONDS 5

/** In a child: it is killed by SIGALRM when it takes longer than CHILD_SECONDS. */
void child_limit(void);
/** Wait for a child; it must have ended with status 0. */
void child_await(pid_t pid);
/** fork, body(argument) in the child, wait. */
void child_run(void (*body)(void *), void *argument);

/** Start up to 16 threads that allocate and free until busy_stop. */
void busy_start(int threads);
void busy_stop(void);

/** Allocate blocks of many sizes, see that they keep their content, free them. */
void use_memory(unsigned salt);
/** The same in a new thread. */
void use_memory_in_thread(unsigned salt);

#endif
