/* The arenas that arena.c measures, each as one row of functions. They are inlined into the loops (a constant row, an
 * always_inline loop), as a program's own calls would be. */
#ifndef HEDDLE_BENCH_ARENA_H
#define HEDDLE_BENCH_ARENA_H

#include "meter.h"

enum { ARENA_ALIGNMENT = 16 };

typedef struct {
    const char *name;
    void *(*create)(size_t bytes);              /* room for at least bytes */
    bool (*destroy)(void *arena);               /* true when nothing was left in it */
    void *(*alloc)(void *arena, size_t bytes);
    bool (*point)(void *arena, size_t depth);   /* a memory point; depth: points there are */
    void (*release)(void *arena, size_t depth); /* back to the last point, which goes; depth: points that are left */
    void (*reset)(void *arena);                 /* empty, no point left */
    bool chunked;                               /* a block that starts a chunk may start another one the next time */
} arena_form;

/* How the published manager works, from its description: a mutex around a bump pointer and a chain of points in the arena. It is
 * what turns its published figures into this machine's. Two broken ones prove that the checks can fail. */
void *lock_create(size_t bytes);
bool lock_destroy(void *arena);
void *lock_alloc(void *arena, size_t bytes);
bool lock_point(void *arena, size_t depth);
void lock_release(void *arena, size_t depth);
void lock_reset(void *arena);
void *lock_alloc_short(void *arena, size_t bytes);
void lock_release_late(void *arena, size_t depth);

#endif
