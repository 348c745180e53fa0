/* A program of cases, each run in a process of its own and judged from outside: it must end with status 0 within its limit and
 * write nothing to stderr.
 *
 *   PROGRAM               every case; a line for each, status 1 if any failed
 *   PROGRAM NAME...       these cases, each in its own process
 *   PROGRAM --in NAME     one case in this process, as the runner starts it
 *   PROGRAM --self-test   planted failures (a hang, a crash, a wrong status, a word on stderr, a failed check): all must be reported
 *
 * A case that can't run here calls cases_skip.
 *
 * SPDX-License-Identifier: MIT */
#ifndef TEST_LIFE_CASES_H
#define TEST_LIFE_CASES_H

#include <stddef.h>

struct test_case {
  const char *name;
  void (*run)(void);
  int status;            /* how its process must end; 0 by default */
  unsigned limit_s;      /* 0: 10 seconds */
  char *const *extra_env; /* NULL-terminated "KEY=value" list, or NULL */
  const char *report;    /* what stderr must contain; NULL: stderr must stay empty */
};

/** main() of such a program. */
int cases_main(int argc, char **argv, const char *title, const struct test_case *cases, size_t count);

/** End this case: it does not apply here, and why. */
_Noreturn void cases_skip(const char *why);

#endif
