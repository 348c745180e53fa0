/* Support for the C tests: checks, random numbers with a seed that can be replayed, memory figures, children with a verdict.
 *
 * Nothing in here allocates: a test of an allocator must not disturb what it measures. Checks print one line and end the
 * process with status 1; a test sets ts_replay so that the line which repeats the failure is printed with it.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_SUPPORT_H
#define TEST_SUPPORT_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

/* ---- checks ----------------------------------------------------------------------------------------------------- */

/** End the test with one line unless cond holds. The rest is a printf format that says what was expected. */
#define TS_CHECK(cond, ...) ((cond) ? (void)0 : ts_fail(__FILE__, __LINE__, #cond, __VA_ARGS__))

/** Command line that repeats this run; printed by ts_fail. */
extern char ts_replay[512];

void ts_fail(const char *file, int line, const char *cond, const char *format, ...)
    __attribute__((noreturn, format(printf, 4, 5)));

/** printf to a file descriptor through a buffer on the stack. */
void ts_print(int fd, const char *format, ...) __attribute__((format(printf, 2, 3)));

/* ---- random numbers --------------------------------------------------------------------------------------------- */

struct ts_rng {
  uint64_t state;
};

uint64_t ts_next(struct ts_rng *rng);
/** A number in 0..bound-1; bound > 0. */
uint64_t ts_below(struct ts_rng *rng, uint64_t bound);
/** A mix of two numbers: the n-th number of the sequence that a seed names. */
uint64_t ts_hash(uint64_t a, uint64_t b);
/** The seed in environment variable HEDDLE_TEST_SEED, else one from the clock. Prints it. */
uint64_t ts_seed(void);

/* ---- command line ----------------------------------------------------------------------------------------------- */

/** Value of option name ("-n") as a number; fallback when it is not given. Ends the test when it can't be read. */
uint64_t ts_option(int argc, char **argv, const char *name, uint64_t fallback);
/** Text of option name, or NULL. */
const char *ts_option_text(int argc, char **argv, const char *name);
bool ts_flag(int argc, char **argv, const char *name);

/* ---- time and memory -------------------------------------------------------------------------------------------- */

uint64_t ts_now_ms(void);
void ts_sleep_ms(unsigned ms);
/** Resident bytes of this process: exact where there is /proc/self/smaps_rollup, from Linux 4.14 on. */
size_t ts_rss(void);
/** What /proc/self/status says of this process's memory; name: "VmSize:" and the like. */
size_t ts_status_bytes(const char *name);
/** Resident bytes of the range, from /proc/self/pagemap. */
size_t ts_resident(const void *from, size_t bytes);
/** System pages of the range that this process has and shares with no other: it has written to them. What was only read is the kernel's one
 * page of zeros, and what a fork shares is the other process's as well. */
size_t ts_own_pages(const void *from, size_t bytes);
size_t ts_os_page(void);

/* ---- reports of misuse ------------------------------------------------------------------------------------------ */

/** What ts_count_report, a hook for hd_misuse_hook_set, was told: how often, and the last code. */
extern struct ts_reports {
  int count;
  char code[16];
} ts_reports;
void ts_count_report(const void *p, const char *code);

/* ---- children --------------------------------------------------------------------------------------------------- */

struct ts_outcome {
  int status;        /* as waitpid gives it */
  bool timed_out;    /* it was killed */
  char error[4096];  /* the start of what it wrote to stderr, terminated */
};

/** Run body in a forked child for at most timeout_s seconds. */
void ts_fork_run(void (*body)(void *), void *argument, unsigned timeout_s, struct ts_outcome *outcome);
/** Run a program in place of body. extra_env: NULL-terminated "KEY=value" list added to the environment, or NULL. */
void ts_exec_run(char *const argv[], char *const extra_env[], unsigned timeout_s, struct ts_outcome *outcome);
bool ts_exited(const struct ts_outcome *outcome, int code);
bool ts_signalled(const struct ts_outcome *outcome, int signal);

#ifdef __cplusplus
}
#endif
#endif
