/* Batches in the manner of SmartHeap's sh6 and sh8: a window of blocks of 1 to 1,000 bytes is filled, and then parts of it are freed
 * in an order that differs from the order of allocation. sh6: each thread on its own; sh8: blocks are freed by the next thread
 * (fetched= says what share of the batches were). */
#include "queue.h"

#include <sched.h>

enum { WINDOW = 8192, LARGEST = 1000, PARTS = 16 };

/* Batches of a PARTS-th of a window, PARTS at most, waiting to be freed by the lane that it is for. */
typedef struct {
    bench_queue waiting;
    size_t fetched;
} mailbox;

static mailbox mail[MAX_THREADS];
static const bench_args *global_args;
static bool cross;

static size_t pick_bytes(bench_rng *rng)
{
    size_t most = rng_below(rng, 10) < 9 ? 100 : LARGEST; /* nine of ten are small */
    return rng_between(rng, 1, most);
}

static void free_batch(void **batch, size_t count)
{
    for (size_t i = 0; i < count; i += 2)
        head_free(batch[i]);
    for (size_t i = count | 1; i-- > 1;)
        if (i % 2 == 1 && i < count)
            head_free(batch[i]);
    free(batch);
}

static bool free_fetched(mailbox *box, void **batch, size_t count)
{
    if (!batch)
        return false;
    box->fetched++;
    free_batch(batch, count);
    return true;
}

static bool free_waiting(mailbox *box, size_t count)
{
    return free_fetched(box, queue_try_take(&box->waiting), count);
}

static mailbox *next_to(unsigned lane)
{
    return &mail[(lane + 1) % global_args->threads];
}

/* A neighbour that is behind is waited for. Its own neighbour may be as well, so nobody waits who has something to free. */
static void dispose(unsigned lane, void **batch, size_t count)
{
    if (!cross) {
        free_batch(batch, count);
        return;
    }
    while (!queue_try_put(&next_to(lane)->waiting, batch, PARTS))
        if (!free_waiting(&mail[lane], count))
            sched_yield();
    free_waiting(&mail[lane], count);
}

/* The neighbour gets no more from this lane, which frees what is still to come to itself. */
static void end_lane(unsigned lane, size_t count)
{
    queue_close(&next_to(lane)->waiting);
    while (free_fetched(&mail[lane], queue_take(&mail[lane].waiting), count))
        ;
}

static void run_lane(unsigned lane, void *shared)
{
    (void)shared;
    size_t rounds = bench_scaled(global_args, 12e3, PARTS), part_count = WINDOW / PARTS;
    bench_rng rng = rng_make(global_args->seed, lane);
    void **part[PARTS] = {NULL};
    for (size_t round = 0; round < rounds; round++) {
        size_t slot = round % PARTS == 0 ? rng_below(&rng, PARTS) : round % PARTS;
        if (part[slot])
            dispose(lane, part[slot], part_count);
        part[slot] = malloc(part_count * sizeof(void *));
        CHECK(part[slot]);
        for (size_t i = 0; i < part_count; i++)
            part[slot][i] = head_alloc(pick_bytes(&rng));
    }
    for (int i = 0; i < PARTS; i++)
        if (part[i])
            dispose(lane, part[i], part_count);
    if (cross)
        end_lane(lane, part_count);
}

static void run_mode(const bench_args *args)
{
    global_args = args;
    cross = strcmp(args->mode, "sh8") == 0;
    for (unsigned i = 0; i < args->threads; i++)
        mail[i] = (mailbox){.waiting = BENCH_QUEUE_INIT};
    double seconds = bench_threads(args->threads, run_lane, NULL);
    size_t fetched = 0, batches = bench_scaled(args, 12e3, PARTS) * args->threads;
    for (unsigned i = 0; i < args->threads; i++)
        fetched += mail[i].fetched;
    char words[40] = "";
    if (cross)
        snprintf(words, sizeof words, "fetched=%.2f", (double)fetched / (double)batches);
    bench_result(args, (double)batches * (WINDOW / PARTS), seconds, words);
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"sh6", run_mode}, {"sh8", run_mode}};
    bench_args args = bench_parse(argc, argv, "shbench");
    return BENCH_MODES(&args, modes);
}
