/* The race driver: `race [SHAPE...] [-s SEED] [-t THREADS] [-x SCALE]` runs shapes, all of them if none is named; `race --list` names them.
 *
 * Shown: with many threads in every role, each block's content stays what its holder wrote, and, built with ThreadSanitizer, nothing is
 * read or written without being ordered by the library: a free by one thread comes before the next owner's use of that memory.
 * The shape `canary` hands blocks over without any order and must be reported: it is the proof that such a thing would be seen.
 * SPDX-License-Identifier: MIT */
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "race.h"

enum { LIMIT_SECONDS = 120, CANARY_BLOCKS = 200 };

static const struct shape {
  const char *name;
  race_shape *run;
} shapes[] = {
    {"crossfree", race_crossfree}, {"birth", race_birth},           {"pipeline", race_pipeline},   {"resizing", race_resizing},
    {"crowd", race_crowd},         {"heaps", race_heaps},           {"one_user", race_one_user},   {"own_memory", race_own_memory},
    {"arenas", race_arenas},       {"pools", race_pools},           {"collect", race_collect},     {"look", race_look},
    {"mail", race_mail},           {"waves", race_waves},           {"forks", race_forks},         {"returns", race_returns},
    {"canary", race_canary},
};

enum { SHAPES = sizeof shapes / sizeof shapes[0], LISTED = SHAPES - 1 /* the canary is run by name only */ };

/* ---- threads --------------------------------------------------------------------------------------------------------- */

typedef struct start {
  race_thread self;
  race_body *body;
  pthread_barrier_t *together;
  pthread_t thread;
} start;

static void *run_body(void *argument) {
  start *own = argument;
  if (own->together != NULL) pthread_barrier_wait(own->together);
  own->body(&own->self);
  return NULL;
}

static void begin(start *own, const race_plan *plan, unsigned index, uint64_t salt, race_body *body) {
  own->self = (race_thread){plan, index, {ts_hash(plan->seed ^ salt, index)}};
  own->body = body;
  TS_CHECK(pthread_create(&own->thread, NULL, run_body, own) == 0, "a thread");
}

void race_run(const race_plan *plan, unsigned threads, race_body *body) {
  static start starts[RACE_THREADS_MAX];
  pthread_barrier_t together;
  pthread_barrier_init(&together, NULL, threads);
  for (unsigned i = 0; i < threads; i++) {
    starts[i].together = &together;
    begin(&starts[i], plan, i, 0, body);
  }
  for (unsigned i = 0; i < threads; i++) pthread_join(starts[i].thread, NULL);
  pthread_barrier_destroy(&together);
}

void race_run_one(const race_plan *plan, unsigned index, uint64_t salt, race_body *body) {
  start own = {.together = NULL};
  begin(&own, plan, index, salt, body);
  pthread_join(own.thread, NULL);
}

/* ---- the canary ------------------------------------------------------------------------------------------------------ */

static race_block *careless[CANARY_BLOCKS];

/* A block's content is written by one thread and read by the next, and nothing orders the two. */
static void hand_over_carelessly(race_thread *self) {
  for (int i = 0; i < CANARY_BLOCKS; i++) {
    race_block *block = __atomic_exchange_n(&careless[i], NULL, __ATOMIC_RELAXED);
    if (block == NULL) __atomic_store_n(&careless[i], race_make(&self->rng), __ATOMIC_RELAXED);
    else race_drop(block);
  }
}

void race_canary(const race_plan *plan) {
  race_run(plan, plan->threads, hand_over_carelessly);
  for (int i = 0; i < CANARY_BLOCKS; i++) race_drop(careless[i]);
}

/* ---- the program ----------------------------------------------------------------------------------------------------- */

static void out_of_time(int signal) {
  (void)signal;
  ts_fail(__FILE__, __LINE__, "in time", "no end after %d seconds a scale", LIMIT_SECONDS);
}

static void run_shape(const struct shape *shape, const race_plan *plan, const char *program) {
  snprintf(ts_replay, sizeof ts_replay, "%s %s -s %llu -t %u -x %u", program, shape->name, (unsigned long long)plan->seed, plan->threads,
           plan->scale);
  uint64_t from = ts_now_ms();
  race_delay_seed(plan->seed);
  alarm(LIMIT_SECONDS * plan->scale);
  shape->run(plan);
  alarm(0);
  ts_print(1, "%-11s %6llu ms\n", shape->name, (unsigned long long)(ts_now_ms() - from));
}

static const struct shape *find_shape(const char *name) {
  for (unsigned i = 0; i < SHAPES; i++) {
    if (strcmp(shapes[i].name, name) == 0) return &shapes[i];
  }
  ts_print(2, "race: no shape '%s'; race --list names them\n", name);
  _exit(2);
}

int main(int argc, char **argv) {
  if (ts_flag(argc, argv, "--list")) {
    for (unsigned i = 0; i < LISTED; i++) ts_print(1, "%s\n", shapes[i].name);
    return 0;
  }
  const char *seed = ts_option_text(argc, argv, "-s");
  race_plan plan = {
      .seed = seed != NULL ? ts_option(argc, argv, "-s", 0) : ts_seed(),
      .threads = (unsigned)ts_option(argc, argv, "-t", 4),
      .scale = (unsigned)ts_option(argc, argv, "-x", 1),
  };
  TS_CHECK(plan.threads >= 2 && plan.threads <= RACE_THREADS_MAX && plan.scale >= 1, "2 to %d threads", RACE_THREADS_MAX);
  signal(SIGALRM, out_of_time);
  bool named = false;
  for (int i = 1; i < argc; i++) {
    if (argv[i][0] == '-') i++; /* an option and its value */
    else run_shape(find_shape(argv[i]), &plan, argv[0]), named = true;
  }
  for (unsigned i = 0; i < LISTED && !named; i++) run_shape(&shapes[i], &plan, argv[0]);
  return 0;
}
