/* See sched.h: fibres, choices, the search.
 *
 * The search deepens: all runs without a preemption, then all with one, and so on to the bound, each depth first. A depth that does
 * not fit into half of the limit is left out, and random walks with up to the bound's preemptions use up the rest; every eighth of
 * them switches without a bound. A place in a loop offers only so many switches a run, but in those walks.
 * SPDX-License-Identifier: MIT */
#define _GNU_SOURCE
#include "sched.h"

#include <errno.h>
#include <signal.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <time.h>
#include <ucontext.h>
#include <unistd.h>

enum {
  STACK_BYTES = 256 * 1024,
  STEP_MAX = 200000,   /* a run with more goes round in circles */
  NODE_MAX = 1 << 16,
  OPTION_MAX = 12,
  WORDS = 1 << 15,     /* of the table of shared words */
  LEARN_WALKS = 2000,  /* random walks before the search, to learn what is shared */
  PLACES = 1 << 12,
  PLACE_OFFERS = 16,   /* switches that one place offers a thread in a run: long loops would take all schedules */
  BOXES = 32,
  TEXT_BYTES = 1 << 16
};

typedef enum mode { MODE_SEARCH, MODE_WALK, MODE_REPLAY } mode;

/* A choice of this run that has, or had, other options. */
typedef struct node {
  unsigned step, option, count;
  unsigned costs; /* bit i: option i costs one preemption */
  unsigned spent; /* before it */
} node;

typedef struct word {
  uintptr_t address;
  uint32_t run;    /* that the next two speak of */
  uint8_t users;   /* bit per fibre */
  bool written;
  bool shared;     /* in this or an earlier run */
} word;

/* How often a place in the code offered a switch in this run. */
typedef struct place {
  const void *address;
  uint32_t run;
  uint16_t offers[SCHED_FIBRES];
} place;

typedef struct fibre {
  ucontext_t context;
  void *stack;
  bool done, yielded, stays;
  const void *waits;
  bool timed;
} fibre;

static struct {
  const sched_model *model;
  /* the run */
  fibre fibre[SCHED_FIBRES];
  ucontext_t back, fresh;
  unsigned self;
  bool running, tracing;
  unsigned step, spent;
  void *box[BOXES];
  /* the search */
  mode mode;
  node path[NODE_MAX];
  unsigned depth, at, bound;
  unsigned taken[NODE_MAX][2], taken_count; /* step and option of what was not the default */
  unsigned long costly;                     /* choices with a costly option, in this run */
  bool learnt;                              /* a word became shared in this run */
  word words[WORDS];
  place places[PLACES];
  bool wild;                                /* a walk that switches anywhere */
  uint64_t random;
  double chance;
  /* progress */
  unsigned long runs;
  unsigned long watched;
  char text[TEXT_BYTES];
} *ex;

/* ---- failing ----------------------------------------------------------------------------------------------------- */

static const char *schedule(void) {
  size_t length = 0;
  ex->text[0] = 0;
  for (unsigned i = 0; i < ex->taken_count && length + 32 < TEXT_BYTES; i++) {
    length += (size_t)sprintf(ex->text + length, "%s%u.%u", i == 0 ? "" : ",", ex->taken[i][0], ex->taken[i][1]);
  }
  return ex->taken_count == 0 ? "-" : ex->text;
}

static _Noreturn void fail_with(const char *text) {
  printf("FAIL %s: %s\n  after %lu schedules, in thread %u at step %u\n  replay: --model %s --replay %s\n", ex->model->name, text,
         ex->runs, ex->self, ex->step, ex->model->name, schedule());
  fflush(stdout);
  _exit(1);
}

void sched_fail(const char *format, ...) {
  char text[512];
  va_list arguments;
  va_start(arguments, format);
  vsnprintf(text, sizeof text, format, arguments);
  va_end(arguments);
  fail_with(text);
}

static void on_crash(int signal) {
  fail_with(signal == SIGSEGV ? "touched memory that is not there" : "a bad instruction or address");
}

/* Every two seconds of work: a run that does not end without a step is caught here. */
static void on_clock(int signal) {
  (void)signal;
  if (ex->watched == ex->runs) fail_with("stuck: nothing happened for two seconds");
  ex->watched = ex->runs;
}

/* ---- choices ----------------------------------------------------------------------------------------------------- */

static uint64_t next_random(void) {
  ex->random ^= ex->random << 13;
  ex->random ^= ex->random >> 7;
  ex->random ^= ex->random << 17;
  return ex->random * 0x2545f4914f6cdd1du;
}

static unsigned cheap_options(unsigned count, unsigned costs) {
  unsigned cheap = 0;
  for (unsigned i = 0; i < count; i++) cheap += (costs >> i & 1) == 0;
  return cheap;
}

static unsigned choose_walk(unsigned count, unsigned costs) {
  unsigned cheap = cheap_options(count, costs);
  bool may_pay = cheap < count && ex->spent < ex->bound;
  if (may_pay && (double)(next_random() >> 11) * 0x1p-53 < ex->chance) return (unsigned)(next_random() % count);
  unsigned option = (unsigned)(next_random() % cheap);
  for (unsigned i = 0; i < count; i++) {
    if ((costs >> i & 1) == 0 && option-- == 0) return i;
  }
  return 0;
}

static unsigned choose_search(unsigned count, unsigned costs) {
  if (ex->at < ex->depth) {
    if (ex->path[ex->at].step != ex->step) return 0;
    return ex->path[ex->at++].option;
  }
  if (ex->spent >= ex->bound && cheap_options(count, costs) == 1) return 0;
  if (ex->depth == NODE_MAX) sched_fail("a run has too many choices");
  ex->path[ex->depth++] = (node){ex->step, 0, count, costs, ex->spent};
  ex->at = ex->depth;
  return 0;
}

static unsigned choose_replay(void) {
  if (ex->at < ex->depth && ex->path[ex->at].step == ex->step) return ex->path[ex->at++].option;
  return 0;
}

/* One of count options, the first of which is free. The caller has counted a step, whether or not there is a choice. */
static unsigned choose(unsigned count, unsigned costs) {
  if (count < 2) return 0;
  if (costs != 0) ex->costly++;
  unsigned option = 0;
  switch (ex->mode) {
    case MODE_SEARCH: option = choose_search(count, costs); break;
    case MODE_WALK: option = choose_walk(count, costs); break;
    case MODE_REPLAY: option = choose_replay(); break;
  }
  if (option >= count) sched_fail("the schedule does not fit the model");
  ex->spent += costs >> option & 1;
  if (option != 0 && ex->taken_count < NODE_MAX) {
    ex->taken[ex->taken_count][0] = ex->step;
    ex->taken[ex->taken_count++][1] = option;
  }
  return option;
}

unsigned sched_pick(unsigned count) { return ex->running ? (ex->step++, choose(count, 0)) : 0; }

/* ---- fibres ------------------------------------------------------------------------------------------------------ */

unsigned sched_self(void) { return ex == NULL ? 0 : ex->self; } /* NULL: a constructor runs */
bool sched_running(void) { return ex->running; }

/* Where a replay stands: the function and line of an address, by addr2line if the machine has it. */
static void print_place(const void *place) {
  char command[128], line[256];
  snprintf(command, sizeof command, "addr2line -fse /proc/%d/exe %p 2>/dev/null", (int)getpid(), (void *)((uintptr_t)place - 1));
  FILE *output = popen(command, "r");
  bool known = output != NULL && fgets(line, sizeof line, output) != NULL;
  if (known) {
    line[strcspn(line, "\n")] = 0;
    printf(", in %s", line);
    if (fgets(line, sizeof line, output) != NULL) printf(" (%.*s)", (int)strcspn(line, " \n"), line);
  } else {
    printf(", at %p", place);
  }
  if (output != NULL) pclose(output);
}

/* In a replay: what the current thread does otherwise than go on. */
static void trace(const char *what, unsigned other, const void *place) {
  if (!ex->tracing) return;
  printf("  step %5u: thread %u %s %u", ex->step, ex->self, what, other);
  if (place != NULL) print_place(place);
  printf("\n");
}

static void switch_to(unsigned next) {
  unsigned from = ex->self;
  if (next == from) return;
  ex->fibre[from].stays = false;
  ex->fibre[from].yielded = false;
  ex->self = next;
  state_switch_thread(from, next);
  swapcontext(&ex->fibre[from].context, &ex->fibre[next].context);
}

static bool is_ready(unsigned i) { return !ex->fibre[i].done && ex->fibre[i].waits == NULL; }

/* The other fibres that can go on. */
static unsigned list_others(unsigned *list) {
  unsigned count = 0;
  for (unsigned i = 0; i < SCHED_FIBRES; i++) {
    if (i != ex->self && is_ready(i)) list[count++] = i;
  }
  return count;
}

/* The current fibre cannot go on: somebody else, or the end of the run. */
static void leave_fibre(void) {
  ex->step++;
  unsigned others[SCHED_FIBRES];
  unsigned count = list_others(others);
  if (count == 0) { /* time passes: who only waits for a while wakes up */
    for (unsigned i = 0; i < SCHED_FIBRES; i++) {
      fibre *f = &ex->fibre[i];
      if (f->done || !f->timed || f->waits == NULL) continue;
      f->waits = NULL;
      others[count++] = i;
    }
  }
  if (count == 0) {
    for (unsigned i = 0; i < SCHED_FIBRES; i++) {
      if (!ex->fibre[i].done) sched_fail("deadlock: thread %u waits and nobody can wake it", i);
    }
    swapcontext(&ex->fibre[ex->self].context, &ex->back);
    return;
  }
  unsigned next = others[choose(count, 0)];
  trace("waits or ends; next is thread", next, NULL);
  switch_to(next);
}

void sched_wait(const void *address, bool timed) {
  if (!ex->running) sched_fail("a wait without anybody who could end it");
  fibre *self = &ex->fibre[ex->self];
  self->waits = address;
  self->timed = timed;
  leave_fibre();
}

void sched_wake(const void *address) {
  for (unsigned i = 0; i < SCHED_FIBRES; i++) {
    if (ex->fibre[i].waits == address) ex->fibre[i].waits = NULL;
  }
}

/* Others first; to stay counts as a preemption, and then goes for all yields of a row. */
void sched_yield_now(void) {
  ex->step++;
  if (!ex->running || ex->fibre[ex->self].stays) return;
  unsigned others[SCHED_FIBRES];
  unsigned count = list_others(others);
  if (count == 0) return;
  unsigned option = choose(count + 1, 1u << count);
  if (option == count) {
    ex->fibre[ex->self].stays = true;
    trace("does not yield to thread", others[0], NULL);
  } else {
    trace("yields to thread", others[option], NULL);
    switch_to(others[option]);
  }
}

void sched_others_vanish(void) {
  for (unsigned i = 0; i < SCHED_FIBRES; i++) {
    if (i == ex->self) continue;
    hooks_flush(i);
    ex->fibre[i].done = true;
    ex->fibre[i].waits = NULL;
  }
}

void sched_send(unsigned box, void *p) {
  hooks_flush(ex->self);
  ex->box[box] = p;
  sched_wake(&ex->box[box]);
}

void *sched_receive(unsigned box) {
  while (ex->box[box] == NULL) sched_wait(&ex->box[box], false);
  return ex->box[box];
}

void sched_as(unsigned identity) {
  if (ex->running) sched_fail("sched_as is for setup and check");
  state_switch_thread(ex->self, identity);
  ex->self = identity;
}

static void fibre_main(void) {
  ex->model->fibre[ex->self]();
  hooks_flush(ex->self);
  ex->fibre[ex->self].done = true;
  leave_fibre();
}

/* ---- accesses ---------------------------------------------------------------------------------------------------- */

/* Note who uses a word; true when its order matters: two fibres used it in one run, and one wrote. */
static bool is_shared(uintptr_t address, bool is_write) {
  uint64_t hash = address * 0x9e3779b97f4a7c15u;
  for (size_t i = hash >> 49;; i = (i + 1) % WORDS) {
    word *w = &ex->words[i];
    if (w->address == 0) w->address = address;
    if (w->address != address) continue;
    if (w->shared) return true;
    if (w->run != (uint32_t)ex->runs) {
      w->run = (uint32_t)ex->runs;
      w->users = 0;
      w->written = false;
    }
    w->users |= (uint8_t)(1u << ex->self);
    w->written |= is_write;
    if (!w->written || (w->users & (w->users - 1)) == 0) return false;
    w->shared = ex->learnt = true;
    return true;
  }
}

/* A replay knows nothing of what is shared, but its next choice. */
static bool is_replayed(void) { return ex->mode == MODE_REPLAY && ex->at < ex->depth && ex->path[ex->at].step <= ex->step + 1; }

/* Here another thread may go on, or another thread's stores arrive. */
static void offer_switch(const void *place) {
  unsigned others[SCHED_FIBRES], flush[SCHED_FIBRES], flushes = 0;
  unsigned ready = list_others(others);
  for (unsigned i = 0; i < SCHED_FIBRES; i++) {
    if (i != ex->self && hooks_pending(i)) flush[flushes++] = i;
  }
  unsigned option = choose(1 + ready + flushes, ((1u << (ready + flushes)) - 1) << 1);
  if (option > ready) {
    trace("sees the stores of thread", flush[option - 1 - ready], place);
    hooks_flush(flush[option - 1 - ready]);
  } else if (option > 0) {
    trace("is preempted by thread", others[option - 1], place);
    switch_to(others[option - 1]);
  }
}

/* Whether a place in a loop has offered enough. */
static bool is_worn(const void *address) {
  if (ex->wild || ex->mode == MODE_REPLAY) return false;
  for (size_t i = (uintptr_t)address * 0x9e3779b97f4a7c15u >> 52;; i = (i + 1) % PLACES) {
    place *p = &ex->places[i];
    if (p->address == NULL) p->address = address;
    if (p->address != address) continue;
    if (p->run != (uint32_t)ex->runs) memset(p->offers, 0, sizeof p->offers);
    p->run = (uint32_t)ex->runs;
    return ++p->offers[ex->self] > PLACE_OFFERS;
  }
}

bool sched_access(const void *address, bool is_write, const void *place) {
  if (ex == NULL || !ex->running) return false;
  if (++ex->step > STEP_MAX) sched_fail("livelock: the run does not end");
  if (!state_is_tracked(address)) return false;
  if (!is_shared((uintptr_t)address, is_write) && !is_replayed()) return false;
  if (is_worn(place)) return false;
  offer_switch(place);
  return true;
}

void sched_system_call(void) {
  if (!ex->running) return;
  ex->step++;
  offer_switch(__builtin_return_address(0));
}

bool sched_delays(bool shared) {
  ex->step++;
  if (!shared) return false;
  bool delays = choose(2, 2) == 1;
  if (delays) trace("keeps a store in the buffer of thread", ex->self, NULL);
  return delays;
}

/* ---- runs -------------------------------------------------------------------------------------------------------- */

static void run_once(void) {
  state_restore();
  hooks_reset();
  shadow_begin();
  memset(ex->box, 0, sizeof ex->box);
  ex->step = ex->spent = ex->taken_count = ex->at = 0;
  ex->costly = 0;
  ex->learnt = false;
  for (unsigned i = 0; i < SCHED_FIBRES; i++) {
    fibre *f = &ex->fibre[i];
    f->done = ex->model->fibre[i] == NULL;
    f->waits = NULL;
    f->timed = f->stays = false;
    f->context = ex->fresh;
    f->context.uc_stack.ss_sp = f->stack;
    f->context.uc_stack.ss_size = STACK_BYTES;
    f->context.uc_link = NULL;
    makecontext(&f->context, fibre_main, 0);
  }
  unsigned others[SCHED_FIBRES];
  ex->running = true;
  unsigned first = others[choose(list_others(others), 0)];
  state_switch_thread(ex->self, first);
  ex->self = first;
  swapcontext(&ex->back, &ex->fibre[first].context);
  ex->running = false;
  sched_as(SCHED_CHECKER);
  ex->model->check();
  sched_as(SCHED_CHECKER);
  ex->runs++;
}

/* The next path of the depth-first search; false at its end. */
static bool next_path(void) {
  while (ex->depth > 0) {
    node *last = &ex->path[ex->depth - 1];
    while (++last->option < last->count) {
      if (last->spent + (last->costs >> last->option & 1) <= ex->bound) return true;
    }
    ex->depth--;
  }
  return false;
}

/* All schedules with at most bound preemptions. Counts those with exactly so many; -1: more than limit, or a word turned out to be
 * shared on the way, so that choices were missed. */
static long search(unsigned bound, unsigned long limit) {
  ex->mode = MODE_SEARCH;
  ex->bound = bound;
  ex->depth = 0;
  long exact = 0;
  unsigned long runs = 0;
  do {
    if (++runs > limit) return -1;
    run_once();
    if (ex->learnt) { /* choices before this one were missed: from the start */
      exact = 0;
      ex->depth = 0;
      continue;
    }
    exact += ex->spent == bound;
    if (!next_path()) return exact;
  } while (true);
}

static void walk(unsigned bound, unsigned long count) {
  ex->mode = MODE_WALK;
  double mean = 50;
  for (unsigned long i = 0; i < count; i++) {
    bool wild = i % 8 == 7; /* now and then much more */
    ex->wild = wild;
    ex->bound = wild ? UINT32_MAX : 1 + (unsigned)(next_random() % bound);
    ex->chance = wild ? 0.05 : (double)ex->bound / mean;
    run_once();
    mean = 0.99 * mean + 0.01 * (double)(ex->costly + 1);
  }
  ex->wild = false;
}

static void explore(unsigned bound, unsigned long limit, uint64_t seed) {
  struct timespec start, end;
  clock_gettime(CLOCK_MONOTONIC, &start);
  ex->random = seed;
  walk(bound, LEARN_WALKS);
  unsigned long distinct = 0, walks = 0;
  unsigned whole = 0;
  for (; whole <= bound; whole++) {
    /* A depth costs some twenty to fifty times the one before: half of the limit decides whether it is worth its time. */
    long exact = search(whole, limit / 2);
    if (exact < 0) break;
    distinct += (unsigned long)exact;
  }
  if (whole <= bound) {
    walks = limit > distinct ? limit - distinct : 0;
    walk(bound, walks);
  }
  clock_gettime(CLOCK_MONOTONIC, &end);
  unsigned shared = 0;
  for (unsigned i = 0; i < WORDS; i++) shared += ex->words[i].shared;
  printf("ok   %-16s %7lu schedules with all of up to %d preemptions, %7lu random ones with up to %u; %u shared words, %.1f s\n",
         ex->model->name, distinct, (int)whole - 1, walks, bound, shared,
         (double)(end.tv_sec - start.tv_sec) + 1e-9 * (double)(end.tv_nsec - start.tv_nsec));
}

/* ---- the command ------------------------------------------------------------------------------------------------- */

static void replay(const char *text) {
  ex->mode = MODE_REPLAY;
  ex->tracing = true;
  if (strcmp(text, "-") != 0) {
    for (const char *p = text; *p != 0; p += *p == ',') {
      char *end = NULL;
      unsigned long step = strtoul(p, &end, 10);
      unsigned long option = *end == '.' ? strtoul(end + 1, &end, 10) : OPTION_MAX;
      if (option >= OPTION_MAX || (*end != ',' && *end != 0) || ex->depth == NODE_MAX) {
        fprintf(stderr, "sched: bad schedule near \"%s\": want step.option,step.option...\n", p);
        exit(2);
      }
      ex->path[ex->depth++] = (node){(unsigned)step, (unsigned)option, 0, 0, 0};
      p = end;
    }
  }
  run_once();
  if (ex->at != ex->depth) sched_fail("the schedule does not fit the model");
  printf("ok   %s: the schedule passes\n", ex->model->name);
}

static void *map(size_t bytes) {
  void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (memory == MAP_FAILED) {
    perror("sched: mmap");
    exit(2);
  }
  return memory;
}

static void prepare(const sched_model *model) {
  ex = map(sizeof *ex);
  ex->model = model;
  ex->self = SCHED_CHECKER;
  for (unsigned i = 0; i < SCHED_FIBRES; i++) ex->fibre[i].stack = map(STACK_BYTES);
  getcontext(&ex->fresh);
  stack_t stack = {.ss_sp = map(STACK_BYTES), .ss_size = STACK_BYTES};
  sigaltstack(&stack, NULL);
  struct sigaction action = {.sa_handler = on_crash, .sa_flags = SA_ONSTACK};
  sigaction(SIGSEGV, &action, NULL);
  sigaction(SIGBUS, &action, NULL);
  sigaction(SIGILL, &action, NULL);
  action.sa_handler = on_clock;
  action.sa_flags = SA_ONSTACK | SA_RESTART;
  sigaction(SIGPROF, &action, NULL);
  struct itimerval every = {{2, 0}, {2, 0}};
  setitimer(ITIMER_PROF, &every, NULL);
  state_init();
  model->setup();
  sched_as(SCHED_CHECKER);
  state_save();
}

static const sched_model *find_model(const char *name) {
  for (unsigned i = 0; sched_models[i] != NULL; i++) {
    if (strcmp(sched_models[i]->name, name) == 0) return sched_models[i];
  }
  fprintf(stderr, "sched: no model \"%s\"; --list shows them\n", name);
  exit(2);
}

static unsigned long read_number(const char *option, const char *text) {
  char *end = NULL;
  errno = 0;
  unsigned long value = text == NULL ? 0 : strtoul(text, &end, 0);
  if (text == NULL || errno != 0 || end == text || *end != 0) {
    fprintf(stderr, "sched: %s wants a number\n", option);
    exit(2);
  }
  return value;
}

static _Noreturn void usage(void) {
  fprintf(stderr,
          "usage: sched [--list] [--model NAME] [--bound N] [--limit N] [--seed N] [--replay SCHEDULE]\n"
          "  --bound   most preemptions of a schedule (5)\n"
          "  --limit   schedules a model (120000)\n");
  exit(2);
}

int main(int argc, char **argv) {
  const sched_model *only = NULL;
  const char *schedule_text = NULL;
  unsigned long bound = 5, limit = 120000;
  uint64_t seed = (uint64_t)time(NULL) * 0x9e3779b97f4a7c15u | 1;
  for (int i = 1; i < argc; i += 2) {
    const char *value = i + 1 < argc ? argv[i + 1] : NULL;
    if (strcmp(argv[i], "--list") == 0) {
      for (unsigned m = 0; sched_models[m] != NULL; m++) printf("%-16s %s\n", sched_models[m]->name, sched_models[m]->about);
      return 0;
    }
    if (value == NULL) usage();
    if (strcmp(argv[i], "--model") == 0) only = find_model(value);
    else if (strcmp(argv[i], "--bound") == 0) bound = read_number(argv[i], value);
    else if (strcmp(argv[i], "--limit") == 0) limit = read_number(argv[i], value);
    else if (strcmp(argv[i], "--seed") == 0) seed = read_number(argv[i], value) | 1;
    else if (strcmp(argv[i], "--replay") == 0) schedule_text = value;
    else usage();
  }
  if (bound == 0 || (schedule_text != NULL && only == NULL)) usage();
  if (schedule_text == NULL) printf("seed %llu\n", (unsigned long long)seed);
  int result = 0;
  for (unsigned m = 0; sched_models[m] != NULL; m++) {
    if (only != NULL && sched_models[m] != only) continue;
    fflush(stdout);
    pid_t child = fork(); /* each model starts with an untouched core */
    if (child == 0) {
      prepare(sched_models[m]);
      if (schedule_text != NULL) replay(schedule_text);
      else explore((unsigned)bound, limit, seed);
      fflush(stdout);
      _exit(0);
    }
    int status = 1;
    if (child < 0 || waitpid(child, &status, 0) != child || status != 0) result = 1;
  }
  return result;
}
