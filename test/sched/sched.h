/* The schedule explorer: runs a small program of up to three threads, a model, under every order of its memory accesses
 * that a bound allows.
 *
 * The core and the models are compiled with -fsanitize=thread, but linked with hooks.c instead of the sanitizer's run time: the
 * compiler then tells us of every access, plain or atomic, before it happens. Threads are fibres on one real thread, so
 * nothing happens at once, and each access to a word that two fibres use is a place where another fibre may go on. Which
 * words those are is learned while running. Beyond switching, a store may be delayed in the fibre's store buffer until a
 * read-modify-write, a later store, or a barrier: that is what a plain store and load do on real processors.
 *
 * A choice is numbered by the count of steps before it, so the list of the choices that were not the default, "step.option",
 * replays a run. Each run starts from the same snapshot of all memory that the core writes.
 * SPDX-License-Identifier: MIT */
#ifndef SCHED_SCHED_H
#define SCHED_SCHED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { SCHED_FIBRES = 3, SCHED_CHECKER = 3 /* the identity of setup and check */ };

typedef struct sched_model {
  const char *name, *about;
  void (*setup)(void);                /* before the snapshot; no switching */
  void (*fibre[SCHED_FIBRES])(void);  /* NULL: fewer fibres */
  void (*check)(void);                /* after every run; no switching */
} sched_model;

extern const sched_model *const sched_models[]; /* models.c; ends with NULL */

/* The run is wrong: prints the message and the schedule, ends the process with 1. */
_Noreturn void sched_fail(const char *format, ...) __attribute__((format(printf, 1, 2)));
#define SCHED_CHECK(condition) ((condition) ? (void)0 : sched_fail("%s:%d: %s", __FILE__, __LINE__, #condition))

/* A choice of the model's own between 0..count-1, all explored. */
unsigned sched_pick(unsigned count);

/* Fibres hand over pointers; receive sleeps until there is one. Works as a release and an acquire. */
void sched_send(unsigned box, void *p);
void *sched_receive(unsigned box);

/* The other fibres are gone for good, as in the child of a fork. */
void sched_others_vanish(void);

/* Which thread this is: a fibre's number, or SCHED_CHECKER. */
unsigned sched_self(void);
/* In setup and check only: be another thread from here on. */
void sched_as(unsigned identity);

/* ---- for hooks.c and os_sched.c ---------------------------------------------------------------------------------- */

/* Before an access. true: the word is shared, so the order matters. */
bool sched_access(const void *address, bool is_write, const void *place);
/* Whether a store should stay in the store buffer for now. shared: what sched_access said of it. */
bool sched_delays(bool shared);
/* A call of the system whose moment matters. */
void sched_system_call(void);
/* Sleep until sched_wake of the word; timed: also when nothing else can go on. */
void sched_wait(const void *word, bool timed);
void sched_wake(const void *word);
void sched_yield_now(void);
bool sched_running(void);

/* hooks.c: the store buffers. */
void hooks_reset(void);
void hooks_flush(unsigned fibre);
void hooks_flush_all(void);
bool hooks_pending(unsigned fibre);

/* state.c: memory that a run changes, saved and put back. */
void state_init(void);
void state_track(void *start, size_t bytes); /* before state_save */
void state_save(void);
void state_restore(void);
bool state_is_tracked(const void *address);
/* The calling thread's own variables, by identity. */
void state_switch_thread(unsigned from, unsigned to);

/* shadow.c: block memory is in no snapshot; mark the live blocks of setup again. */
void shadow_begin(void);

/* os_sched.c */
void os_sched_thread_ends(void); /* runs the thread-exit handlers */
void os_sched_thread_gone(void); /* from here on no such thread exists; the fibre's last call */
void os_sched_fork_prepare(void);
void os_sched_fork_parent(void);
void os_sched_fork_child(void);

#endif
