/* The forms that arena.c knows, by name: ARENA_FORMS(X) gives X(form) for each. All use the left stack and align to 16. */
#ifndef HEDDLE_BENCH_FORMS_H
#define HEDDLE_BENCH_FORMS_H

#include "arena.h"

#include <heddle/arena.h>
#include <heddle/weaver.h>

/* ---- Heddle's arenas: fixed, growing, shared ---- */
static void *create_arena(size_t capacity_bytes, bool shared)
{
    hd_arena_config config = {.struct_bytes = sizeof config, .name = "bench", .capacity_bytes = capacity_bytes, .shared = shared};
    return hd_arena_create(&config);
}

static void *fixed_create(size_t bytes)
{
    return create_arena(bytes, false);
}

static void *growing_create(size_t bytes)
{
    (void)bytes;
    return create_arena(0, false);
}

static void *shared_create(size_t bytes)
{
    return create_arena(bytes, true);
}

static bool native_destroy(void *arena)
{
    return hd_arena_destroy(arena);
}

METER_INLINE void *native_alloc(void *arena, size_t bytes)
{
    return hd_arena_alloc(arena, bytes);
}

METER_INLINE bool native_point(void *arena, size_t depth)
{
    (void)depth;
    return hd_arena_push(arena);
}

METER_INLINE void native_release(void *arena, size_t depth)
{
    (void)depth;
    hd_arena_pop(arena);
}

METER_INLINE void native_reset(void *arena)
{
    hd_arena_reset(arena);
}

#define NATIVE(make) make, native_destroy, native_alloc, native_point, native_release, native_reset
static const arena_form form_fixed = {"fixed", NATIVE(fixed_create), false};
static const arena_form form_growing = {"growing", NATIVE(growing_create), true};
static const arena_form form_shared = {"shared", NATIVE(shared_create), false};

/* ---- points by value: the program keeps them ---- */
static hd_mark kept_marks[1 << 18];

METER_INLINE bool value_point(void *arena, size_t depth)
{
    if (depth >= sizeof kept_marks / sizeof *kept_marks)
        meter_die(2, "more than %zu points at once: take a larger size or fewer rounds", depth);
    kept_marks[depth] = hd_arena_mark(arena);
    return kept_marks[depth].point != NULL;
}

METER_INLINE void value_release(void *arena, size_t depth)
{
    METER_CHECK(hd_arena_release(arena, kept_marks[depth]), "release of point %zu was refused", depth);
}

static const arena_form form_value = {
    "value", fixed_create, native_destroy, native_alloc, value_point, value_release, native_reset, false};

/* ---- the published five ---- */
METER_INLINE void *weaver_alloc(void *arena, size_t bytes)
{
    return Walloc(arena, ARENA_ALIGNMENT, 0, bytes);
}

METER_INLINE bool weaver_point(void *arena, size_t depth)
{
    (void)depth;
    return Wmempoint(arena, ARENA_ALIGNMENT, 0);
}

METER_INLINE void weaver_trash(void *arena, size_t depth)
{
    (void)depth;
    Wtrash(arena, 0);
}

/* The five have no reset: without a point, trash empties the stack. */
static void weaver_reset_all(void *arena)
{
    Wtrash(arena, 0);
}

static const arena_form form_weaver = {
    "weaver", Wcreate_arena, Wdestroy_arena, weaver_alloc, weaver_point, weaver_trash, weaver_reset_all, false};

/* ---- the published scheme, and two that are broken ---- */
static const arena_form form_lock = {
    "lock", lock_create, lock_destroy, lock_alloc, lock_point, lock_release, lock_reset, false};
static const arena_form form_broken_short = {
    "broken-short", lock_create, lock_destroy, lock_alloc_short, lock_point, lock_release, lock_reset, false};
static const arena_form form_broken_late = {
    "broken-late", lock_create, lock_destroy, lock_alloc, lock_point, lock_release_late, lock_reset, false};

#define ARENA_FORMS(X) \
    X(fixed) X(growing) X(value) X(shared) X(weaver) X(lock) X(broken_short) X(broken_late)

#endif
