/* The scheme of the published manager in our own words, and two broken variants of it: see arena.h. In a file of its own, so that calls
 * of it are calls, as those of the published library are. */
#include "arena.h"

#include <pthread.h>
#include <sys/mman.h>

typedef struct lock_mark {
    struct lock_mark *before;
    char *left;
} lock_mark;

typedef struct {
    pthread_mutex_t lock;
    char *left, *end;
    lock_mark *last;
    size_t mapped;
} lock_arena;

static char *round_up(char *p)
{
    return (char *)(((uintptr_t)p + ARENA_ALIGNMENT - 1) & ~(uintptr_t)(ARENA_ALIGNMENT - 1));
}

void *lock_create(size_t bytes)
{
    size_t mapped = bytes + sizeof(lock_arena) + ARENA_ALIGNMENT;
    lock_arena *arena = mmap(NULL, mapped, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (arena == MAP_FAILED)
        return NULL;
    pthread_mutex_init(&arena->lock, NULL);
    arena->mapped = mapped;
    arena->left = round_up((char *)(arena + 1));
    arena->end = (char *)arena + mapped;
    return arena;
}

bool lock_destroy(void *p)
{
    lock_arena *arena = p;
    bool empty = !arena->last && arena->left == round_up((char *)(arena + 1));
    munmap(arena, arena->mapped);
    return empty;
}

static void *bump(lock_arena *arena, size_t taken, size_t bytes)
{
    char *p = NULL;
    pthread_mutex_lock(&arena->lock);
    if ((size_t)(arena->end - arena->left) >= bytes) {
        p = arena->left;
        arena->left = round_up(p + taken);
    }
    pthread_mutex_unlock(&arena->lock);
    return p;
}

void *lock_alloc(void *arena, size_t bytes)
{
    return bump(arena, bytes, bytes);
}

/* Broken: the next block begins inside this one (at 16 bytes: is this one). */
void *lock_alloc_short(void *arena, size_t bytes)
{
    return bump(arena, bytes - ARENA_ALIGNMENT, bytes);
}

bool lock_point(void *p, size_t depth)
{
    (void)depth;
    lock_arena *arena = p;
    bool room = false;
    pthread_mutex_lock(&arena->lock);
    if ((size_t)(arena->end - arena->left) >= sizeof(lock_mark)) {
        lock_mark *mark = (lock_mark *)arena->left;
        *mark = (lock_mark){arena->last, arena->left};
        arena->last = mark;
        arena->left = round_up((char *)(mark + 1));
        room = true;
    }
    pthread_mutex_unlock(&arena->lock);
    return room;
}

static void restore(lock_arena *arena, size_t kept)
{
    pthread_mutex_lock(&arena->lock);
    if (arena->last) {
        arena->left = arena->last->left + kept;
        arena->last = arena->last->before;
    } else
        arena->left = round_up((char *)(arena + 1));
    pthread_mutex_unlock(&arena->lock);
}

void lock_release(void *arena, size_t depth)
{
    (void)depth;
    restore(arena, 0);
}

/* Broken: every point keeps 16 bytes for good. */
void lock_release_late(void *arena, size_t depth)
{
    (void)depth;
    restore(arena, ARENA_ALIGNMENT);
}

void lock_reset(void *p)
{
    lock_arena *arena = p;
    pthread_mutex_lock(&arena->lock);
    arena->last = NULL;
    arena->left = round_up((char *)(arena + 1));
    pthread_mutex_unlock(&arena->lock);
}
