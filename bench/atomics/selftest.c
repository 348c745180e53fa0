/* The counters of watch.c counted: two threads take turns, so that what must be seen is known exactly.
 * Each turn is one atomic addition to a shared word (its line comes from the other thread), one store to a word of one's own (never), and
 * one store of whose turn it is (always). Compiled like the library with watch.c; watch.sh runs it. Exit code 1 if it counted otherwise. */
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>

enum { TURNS = 1000, SLACK = 16 };

void watch_totals(unsigned long *rmw, unsigned long *stores, unsigned long *lines);

static struct {
    _Alignas(64) atomic_ulong sum;
    _Alignas(64) atomic_uint turn;
    _Alignas(64) unsigned long own[2][8];
} board;

static void *play(void *argument)
{
    unsigned me = *(unsigned *)argument;
    for (unsigned long i = 0; i < TURNS; i++) {
        while (atomic_load_explicit(&board.turn, memory_order_acquire) % 2 != me)
            sched_yield();
        atomic_fetch_add(&board.sum, 1);
        board.own[me][0] += i;
        atomic_store_explicit(&board.turn, me + 1, memory_order_release);
    }
    return NULL;
}

static int differs(const char *what, unsigned long found, unsigned long expected)
{
    if (found >= expected - SLACK && found <= expected + SLACK)
        return 0;
    fprintf(stderr, "selftest: %lu %s, not %lu\n", found, what, expected);
    return 1;
}

int main(void)
{
    unsigned number[2] = {0, 1};
    unsigned long rmw, stores, lines;
    pthread_t id[2];
    for (int i = 0; i < 2; i++)
        if (pthread_create(&id[i], NULL, play, &number[i]) != 0)
            return 2;
    for (int i = 0; i < 2; i++)
        pthread_join(id[i], NULL);
    watch_totals(&rmw, &stores, &lines);
    return differs("read-modify-writes", rmw, 2 * TURNS) + differs("stores", stores, 6 * TURNS) + differs("lines", lines, 4 * TURNS) != 0;
}
