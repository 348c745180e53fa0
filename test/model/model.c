/* The model test: a driver of all operations against a shadow heap, with the supervisor that shrinks a failure.
 *
 *   model [-n operations] [-s seed] [-t threads] [--race] [--only i,j,k] [--canary kind] [--shrink-seconds n] [--self-test]
 *   model --play file     the operations that stand in a file, one a line
 *   model --save file     write the operations of the other options into a file, and run nothing
 *
 * The worker runs in a process of its own, so that a crash is a finding like any other. After a failure in serial mode the
 * supervisor removes operations as long as the same kind of failure remains (delta debugging), and prints the line that replays
 * what is left. --self-test lets each canary strike and wants each one found, as its kind, and shrunk.
 *
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../support/support.h"
#include "run.h"

#define OP_COUNT 2000000
#define CANARY_OP_COUNT 20000
#define SHOWN_MAX 100
/* Runs that fail beyond this index are reported but not shrunk: the list would not fit. */
#define LIST_MAX ((uint64_t)64 << 20)

static char **program;
static int record_fd = -1;
static struct record *record;
static unsigned shrink_seconds = 60;

static void open_record(uint64_t op_count) {
  size_t bytes = sizeof *record + 4 * (size_t)(op_count < LIST_MAX ? op_count : LIST_MAX) + 4096;
  if (record_fd >= 0) close(record_fd);
  record_fd = memfd_create("model", 0);
  TS_CHECK(record_fd >= 0 && ftruncate(record_fd, (off_t)bytes) == 0, "memfd: %d", errno);
  record = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, record_fd, 0);
  TS_CHECK(record != MAP_FAILED, "mmap of the record: %d", errno);
}

/* ---- one run ---------------------------------------------------------------------------------------------------- */

/* Run the plan in a fresh process. True when it found something; record->kind then says what. */
static bool fails(const struct plan *plan) {
  char seed[32], count[32], threads[16], fd[16], bytes[16];
  snprintf(seed, sizeof seed, "%" PRIu64, plan->seed);
  snprintf(count, sizeof count, "%" PRIu64, plan->op_count);
  snprintf(threads, sizeof threads, "%d", plan->thread_count);
  snprintf(fd, sizeof fd, "%d", record_fd);
  snprintf(bytes, sizeof bytes, "%d", plan->canary);
  char *argv[16] = {program[0], "--worker", fd, "-s", seed, "-n", count, "-t", threads, "--strike", bytes};
  size_t argc = 11;
  if (plan->racing) argv[argc++] = "--race";
  if (plan->play) argv[argc++] = "--play", argv[argc++] = (char *)(uintptr_t)plan->play;
  record->kind[0] = record->message[0] = 0;
  pid_t child = fork();
  TS_CHECK(child >= 0, "fork: %d", errno);
  if (child == 0) {
    execv("/proc/self/exe", argv);
    _exit(127);
  }
  int status;
  while (waitpid(child, &status, 0) < 0 && errno == EINTR) {
  }
  TS_CHECK(!WIFEXITED(status) || WEXITSTATUS(status) != 127, "the worker could not be started");
  if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return false;
  if (!record->kind[0]) {
    snprintf(record->kind, sizeof record->kind, "%s", WIFSIGNALED(status) ? "crash" : "exit");
    snprintf(record->message, sizeof record->message, "%s %d", WIFSIGNALED(status) ? "ended by signal" : "ended with status",
             WIFSIGNALED(status) ? WTERMSIG(status) : WEXITSTATUS(status));
  }
  return true;
}

static int work(const struct plan *plan, int fd) {
  record_fd = fd;
  off_t bytes = lseek(fd, 0, SEEK_END);
  record = mmap(NULL, (size_t)bytes, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
  TS_CHECK(record != MAP_FAILED, "mmap of the record: %d", errno);
  ts_expect_heddle();
  run_worker(plan, record);
  return 0;
}

/* ---- shrinking -------------------------------------------------------------------------------------------------- */

/* Does the list without [from, to) still fail in the same way? If so it becomes the list. */
static bool try_without(const struct plan *plan, const char *kind, uint32_t *saved, uint32_t from, uint32_t to) {
  uint32_t count = record->list_count;
  memcpy(saved, record->list, 4 * (size_t)count);
  memmove(record->list + from, record->list + to, 4 * (size_t)(count - to));
  record->list_count = count - (to - from);
  if (fails(plan) && strcmp(record->kind, kind) == 0) return true;
  memcpy(record->list, saved, 4 * (size_t)count);
  record->list_count = count;
  return false;
}

/* Leaves the smallest list found in the record, and its message. */
static void shrink(const struct plan *plan) {
  char kind[sizeof record->kind];
  snprintf(kind, sizeof kind, "%s", record->kind);
  uint32_t count = (uint32_t)record->index + 1;
  record->listed = 1;
  record->list_count = count;
  for (uint32_t i = 0; i < count; i++) record->list[i] = i;
  uint32_t *saved = mmap(NULL, 4 * (size_t)count, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TS_CHECK(saved != MAP_FAILED, "mmap for shrinking: %d", errno);
  uint64_t end = ts_now_ms() + (uint64_t)shrink_seconds * 1000;
  for (uint32_t chunk = count; chunk > 0; chunk /= 2)
    for (uint32_t at = 0; at < record->list_count && ts_now_ms() < end;) {
      uint32_t to = at + chunk < record->list_count ? at + chunk : record->list_count;
      if (to - at == record->list_count || !try_without(plan, kind, saved, at, to)) at = to;
    }
  munmap(saved, 4 * (size_t)count);
  if (!fails(plan)) ts_print(2, "the shrunk list does not fail again: the failure is not deterministic\n");
}

static void print_replay(const struct plan *plan) {
  const char *options = getenv("HEDDLE");
  ts_print(2, "replay: %s%s%s%s -s %" PRIu64 " -n %" PRIu64 " -t %d%s%s%s", options ? "HEDDLE=" : "", options ? options : "",
           options ? " " : "", program[0], plan->seed, plan->op_count, plan->thread_count,
           plan->racing ? " --race" : "", plan->canary ? " --canary " : "", plan->canary ? canary_name[plan->canary] : "");
  if (plan->play) ts_print(2, " --play %s", plan->play);
  if (record->listed && record->list_count <= SHOWN_MAX)
    for (uint32_t i = 0; i < record->list_count; i++) ts_print(2, "%s%" PRIu32, i ? "," : " --only ", record->list[i]);
  ts_print(2, "\n");
}

static int report(const struct plan *plan) {
  ts_print(2, "FAIL %s: %s (operation %" PRIu64 ")\n", record->kind, record->message, record->index);
  print_replay(plan);
  if (plan->racing || record->listed || record->index >= LIST_MAX || shrink_seconds == 0) return 1;
  shrink(plan);
  ts_print(2, "shrunk to %" PRIu32 " operations: %s: %s\n", record->list_count, record->kind, record->message);
  print_replay(plan);
  return 1;
}

/* ---- the driver's own test -------------------------------------------------------------------------------------- */

static int self_test(struct plan plan) {
  plan.op_count = CANARY_OP_COUNT;
  bool extras = ts_sut()->stats_get != NULL;
  if (fails(&plan)) return report(&plan);
  for (int canary = 1; canary < CANARY_COUNT; canary++) {
    if (canary == CANARY_STATS && !extras) continue;
    plan.canary = (enum canary)canary;
    record->listed = 0;
    TS_CHECK(fails(&plan), "canary %s was not noticed", canary_name[canary]);
    TS_CHECK(strcmp(record->kind, canary_name[canary]) == 0, "canary %s was taken for %s: %s", canary_name[canary], record->kind,
             record->message);
    /* Which operation the fault strikes depends on what ran before, so a few dozen operations may remain. */
    uint64_t index = record->index;
    record->index = index < plan.op_count ? index : plan.op_count - 1;
    shrink_seconds = 5;
    shrink(&plan);
    TS_CHECK(record->list_count <= 64, "canary %s was shrunk to %" PRIu32 " operations only", canary_name[canary], record->list_count);
    ts_print(1, "canary %-8s found at operation %" PRIu64 ", shrunk to %" PRIu32 "\n", canary_name[canary], index, record->list_count);
  }
  return 0;
}

/* ---- lists of operations ------------------------------------------------------------------------------------------ */

static void save_list(const struct plan *plan, const char *path) {
  FILE *file = fopen(path, "w");
  TS_CHECK(file != NULL, "can't write %s: %d", path, errno);
  uint64_t count = record->listed ? record->list_count : plan->op_count;
  for (uint64_t i = 0; i < count; i++) {
    char line[256];
    uint64_t index = record->listed ? record->list[i] : i;
    struct op op = plan->list ? plan->list[index] : op_choose(plan->seed, index);
    op_write_text(&op, line, sizeof line);
    fprintf(file, "%s\n", line);
  }
  TS_CHECK(fclose(file) == 0, "can't write %s: %d", path, errno);
}

/* The memory is the system's: the allocator under test should see the operations and nothing else. */
static void read_list(struct plan *plan) {
  char line[256];
  FILE *file = fopen(plan->play, "r");
  TS_CHECK(file != NULL, "can't read %s: %d", plan->play, errno);
  uint64_t count = 0;
  while (fgets(line, sizeof line, file)) count++;
  rewind(file);
  struct op *list = mmap(NULL, (size_t)(count + 1) * sizeof *list, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  TS_CHECK(list != MAP_FAILED, "mmap of the operations: %d", errno);
  for (uint64_t i = 0; i < count; i++)
    TS_CHECK(fgets(line, sizeof line, file) && op_read_text(line, &list[i]), "%s: line %" PRIu64 " is no operation", plan->play, i + 1);
  fclose(file);
  plan->list = list;
  plan->op_count = count;
}

/* ---- the program ------------------------------------------------------------------------------------------------ */

static void read_only_list(const char *text) {
  record->listed = 1;
  for (record->list_count = 0; *text;) {
    char *end;
    unsigned long long index = strtoull(text, &end, 10);
    TS_CHECK(end != text && (*end == 0 || *end == ','), "--only wants numbers with commas, got '%s'", text);
    record->list[record->list_count++] = (uint32_t)index;
    text = *end ? end + 1 : end;
  }
}

static enum canary read_canary(int argc, char **argv) {
  const char *name = ts_option_text(argc, argv, "--canary");
  if (!name) return (enum canary)ts_option(argc, argv, "--strike", 0);
  for (int c = 1; c < CANARY_COUNT; c++)
    if (strcmp(name, canary_name[c]) == 0) return (enum canary)c;
  ts_print(2, "model: no canary '%s'\n", name);
  exit(2);
}

int main(int argc, char **argv) {
  program = argv;
  bool worker = ts_flag(argc, argv, "--worker");
  struct plan plan = {.op_count = ts_option(argc, argv, "-n", OP_COUNT), .thread_count = (int)ts_option(argc, argv, "-t", 3)};
  plan.racing = ts_flag(argc, argv, "--race");
  plan.canary = read_canary(argc, argv);
  plan.seed = ts_option_text(argc, argv, "-s") ? ts_option(argc, argv, "-s", 0) : ts_seed();
  shrink_seconds = (unsigned)ts_option(argc, argv, "--shrink-seconds", 60);
  TS_CHECK(plan.thread_count >= 1 && plan.thread_count <= 64, "-t wants 1 to 64 threads");
  plan.play = ts_option_text(argc, argv, "--play");
  if (plan.play) read_list(&plan);
  if (worker) return work(&plan, (int)ts_option(argc, argv, "--worker", 0));
  ts_expect_heddle();
  open_record(plan.op_count);
  if (ts_option_text(argc, argv, "--only")) read_only_list(ts_option_text(argc, argv, "--only"));
  const char *save = ts_option_text(argc, argv, "--save");
  if (save) return save_list(&plan, save), 0;
  if (ts_flag(argc, argv, "--self-test")) return self_test(plan);
  uint64_t start = ts_now_ms();
  if (fails(&plan)) return report(&plan);
  ts_print(1, "model (%s): %" PRIu64 " operations, %d threads%s, seed %" PRIu64 ", %" PRIu64 " ms: no mismatch\n", TS_FLAVOUR,
           plan.op_count, plan.thread_count, plan.racing ? " racing" : "", plan.seed, ts_now_ms() - start);
  return 0;
}
