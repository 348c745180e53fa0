/* Batches in the manner of SmartHeap's sh6 and sh8: a window of blocks of 1 to 1,000 bytes is filled, and then parts of it are freed
 * in an order that differs from the order of allocation. sh6: each thread on its own; sh8: blocks are freed by the next thread, but for
 * those that are left when it has ended (fetched= says how many it has freed). */
#include "common.h"

#include <sched.h>

enum { WINDOW = 8192, LARGEST = 1000, PARTS = 16 };

/* Batches of a PARTS-th of a window, waiting to be freed by the lane that it is for. */
typedef struct {
    pthread_mutex_t lock;
    void **batch[PARTS];
    size_t first, count, fetched;
    bool closed; /* that lane has ended */
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

enum put { PUT, FULL, CLOSED };

static enum put put(mailbox *box, void **batch)
{
    pthread_mutex_lock(&box->lock);
    enum put done = box->closed ? CLOSED : box->count == PARTS ? FULL : PUT;
    if (done == PUT)
        box->batch[(box->first + box->count++) % PARTS] = batch;
    pthread_mutex_unlock(&box->lock);
    return done;
}

/* Frees the batch that has waited longest; false: there is none. */
static bool free_waiting(mailbox *box, size_t count)
{
    void **batch = NULL;
    pthread_mutex_lock(&box->lock);
    if (box->count > 0) {
        batch = box->batch[box->first];
        box->first = (box->first + 1) % PARTS;
        box->count--;
        box->fetched++;
    }
    pthread_mutex_unlock(&box->lock);
    if (batch)
        free_batch(batch, count);
    return batch;
}

/* A neighbour that is behind is waited for. Its own neighbour may be as well, so nobody waits who has something to free. */
static void dispose(unsigned lane, void **batch, size_t count)
{
    enum put done = cross ? FULL : CLOSED;
    while (done == FULL && (done = put(&mail[(lane + 1) % global_args->threads], batch)) == FULL)
        if (!free_waiting(&mail[lane], count))
            sched_yield();
    if (done == CLOSED)
        free_batch(batch, count);
    else
        free_waiting(&mail[lane], count);
}

static void close_mail(mailbox *box, size_t count)
{
    pthread_mutex_lock(&box->lock);
    box->closed = true;
    pthread_mutex_unlock(&box->lock);
    while (free_waiting(box, count))
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
    close_mail(&mail[lane], part_count);
}

static void run_mode(const bench_args *args)
{
    global_args = args;
    cross = strcmp(args->mode, "sh8") == 0;
    for (unsigned i = 0; i < args->threads; i++)
        mail[i] = (mailbox){.lock = PTHREAD_MUTEX_INITIALIZER};
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
