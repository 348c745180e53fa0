/* See cases.h.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "cases.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"

enum { SKIPPED = 77, LIMIT_S = 10 };

void cases_skip(const char *why) {
  ts_print(2, "%s", why);
  _exit(SKIPPED);
}

/* ---- judging ---------------------------------------------------------------------------------------------------- */

enum verdict { PASSED, SKIPPED_HERE, FAILED };

static const char *fault_of(const struct test_case *item, const struct ts_outcome *outcome) {
  bool by_signal = item->status > 128; /* as a shell would say it */
  if (outcome->timed_out) return "hung";
  if (by_signal ? !ts_signalled(outcome, item->status - 128) : !ts_exited(outcome, item->status)) return "wrong status";
  if (item->report == NULL && outcome->error[0] != 0) return "wrote to stderr";
  if (item->report != NULL && strstr(outcome->error, item->report) == NULL) return "lacks its report";
  return NULL;
}

static enum verdict judge(const struct test_case *item, int out) {
  struct ts_outcome outcome;
  char *argv[] = {"/proc/self/exe", "--in", (char *)item->name, NULL};
  uint64_t start = ts_now_ms();
  ts_exec_run(argv, item->extra_env, item->limit_s ? item->limit_s : LIMIT_S, &outcome);
  unsigned long long took = ts_now_ms() - start;
  if (ts_exited(&outcome, SKIPPED)) {
    ts_print(out, "%-36s skipped: %s\n", item->name, outcome.error);
    return SKIPPED_HERE;
  }
  const char *fault = fault_of(item, &outcome);
  if (fault == NULL) ts_print(out, "%-36s ok %6llu ms\n", item->name, took);
  else ts_print(out, "%-36s FAIL: %s, status 0x%x, %llu ms\n%s", item->name, fault, outcome.status, took, outcome.error);
  return fault == NULL ? PASSED : FAILED;
}

/* ---- the canaries ----------------------------------------------------------------------------------------------- */

static void hang(void) { pause(); }
static void crash(void) { kill(getpid(), SIGSEGV); }
static void end_wrongly(void) { _exit(3); }
static void speak(void) { ts_print(2, "a word\n"); }
static void fail_check(void) { TS_CHECK(1 + 1 == 3, "arithmetic"); }
static void end_well(void) {}

static const struct test_case planted[] = {
    {.name = "planted-hang", .run = hang, .limit_s = 1},
    {.name = "planted-crash", .run = crash},
    {.name = "planted-status", .run = end_wrongly},
    {.name = "planted-word", .run = speak},
    {.name = "planted-check", .run = fail_check},
    {.name = "planted-wrong-expectation", .run = end_well, .status = 1},
    {.name = "planted-missing-report", .run = end_well, .report = "heddle:"},
};
enum { PLANTED = sizeof planted / sizeof *planted };
static const struct test_case sound = {.name = "planted-nothing", .run = end_well};

static int self_test(const char *title) {
  int missed = judge(&sound, 1) != PASSED;
  for (size_t i = 0; i < PLANTED; i++) missed += judge(&planted[i], 1) != FAILED;
  ts_print(1, "%s: %d planted failures, %d missed\n", title, (int)PLANTED, missed);
  return missed != 0;
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static const struct test_case *find(const char *name, const struct test_case *cases, size_t count) {
  for (size_t i = 0; i < count; i++)
    if (strcmp(cases[i].name, name) == 0) return &cases[i];
  for (size_t i = 0; i < PLANTED; i++)
    if (strcmp(planted[i].name, name) == 0) return &planted[i];
  if (strcmp(sound.name, name) == 0) return &sound;
  ts_print(2, "no case '%s'\n", name);
  _exit(2);
}

int cases_main(int argc, char **argv, const char *title, const struct test_case *cases, size_t count) {
  size_t failed = 0, skipped = 0, run = 0;
  if (argc == 3 && strcmp(argv[1], "--in") == 0) {
    find(argv[2], cases, count)->run();
    return 0;
  }
  if (argc == 2 && strcmp(argv[1], "--self-test") == 0) return self_test(title);
  for (size_t i = 0; i < (argc > 1 ? (size_t)argc - 1 : count); i++, run++) {
    enum verdict verdict = judge(argc > 1 ? find(argv[i + 1], cases, count) : &cases[i], 1);
    failed += verdict == FAILED;
    skipped += verdict == SKIPPED_HERE;
  }
  ts_print(1, "%s: %zu cases, %zu failed, %zu skipped\n", title, run, failed, skipped);
  return failed != 0;
}
