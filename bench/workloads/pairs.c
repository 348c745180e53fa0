/* Single operations, in ns, one mode each. pair-SIZE: malloc and free of one size; lifo100: 100 mallocs, then 100 frees, newest first;
 * fifo, random: 256 k blocks made, then freed in order or at random (only the frees are in `ns`, the mallocs in `alloc_ns`);
 * batch: 10,000 blocks of 16 to 1,024 B made and freed in order, over and over, looked at once in 16 rounds;
 * replace: random replacement among 100 k live blocks of 16 to 527 B; spsc, spsc-held: one producer and one consumer over a ring of 4,096
 * (held: the consumer keeps 1,024 and frees at random); pingpong-D: two threads bounce D blocks, each frees what the other made;
 * queue-SIZE: each thread has a queue of 2.3 MiB of blocks, made while the others make theirs, and replaces its oldest one; only the ends
 * of a block are written. */
#include "common.h"
#include <sched.h>

static size_t pair_bytes(const char *mode)
{
    return strtoul(strchr(mode, '-') + 1, NULL, 10);
}

static void report(const bench_args *args, double ops, double seconds, const char *more)
{
    char extra[128];
    snprintf(extra, sizeof extra, "ns=%.3f%s", seconds * 1e9 / ops, more);
    bench_result(args, ops, seconds, extra);
}

static void pair_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t bytes = pair_bytes(args->mode), rounds = bench_scaled(args, 40e6, 1000);
    (void)lane;
    for (size_t i = 0; i < rounds; i++) {
        uint64_t *block = malloc(bytes);
        __asm__ volatile("" : "+r"(block) : : "memory");
        CHECK(block);
        *block = i;
        __asm__ volatile("" : : : "memory");
        if (*block != i)
            bench_die("a block lost its word");
        free(block);
    }
}

static void run_pair(const bench_args *args)
{
    double seconds = bench_threads(args->threads, pair_lane, (void *)args);
    report(args, (double)bench_scaled(args, 40e6, 1000), seconds, "");
}

static void lifo_lane(unsigned lane, void *shared)
{
    enum { DEPTH = 100 };
    const bench_args *args = shared;
    size_t rounds = bench_scaled(args, 400e3, 10);
    void *block[DEPTH];
    (void)lane;
    for (size_t i = 0; i < rounds; i++) {
        for (int k = 0; k < DEPTH; k++)
            block[k] = stamp_alloc(64);
        for (int k = DEPTH; k-- > 0;)
            stamp_free(block[k], 64);
    }
}

static void run_lifo(const bench_args *args)
{
    double seconds = bench_threads(args->threads, lifo_lane, (void *)args);
    report(args, (double)bench_scaled(args, 400e3, 10) * 100, seconds, "");
}

typedef struct {
    const bench_args *args;
    double alloc_seconds[MAX_THREADS], free_seconds[MAX_THREADS];
} order_job;

static void order_lane(unsigned lane, void *shared)
{
    enum { COUNT = 1 << 18 };
    order_job *job = shared;
    size_t rounds = bench_scaled(job->args, 12, 1);
    bool shuffled = strcmp(job->args->mode, "random") == 0;
    bench_rng rng = rng_make(job->args->seed, lane);
    void **block = malloc(COUNT * sizeof *block);
    CHECK(block);
    for (size_t round = 0; round < rounds; round++) {
        double start = bench_now();
        for (size_t i = 0; i < COUNT; i++) {
            block[i] = malloc(64);
            CHECK(block[i]);
            *(uint64_t *)block[i] = (uint64_t)(uintptr_t)block[i] + round;
        }
        job->alloc_seconds[lane] += bench_now() - start;
        for (size_t i = 0; i < COUNT; i++) /* read here: the frees are timed without our own misses */
            CHECK(*(uint64_t *)block[i] == (uint64_t)(uintptr_t)block[i] + round);
        for (size_t i = COUNT; shuffled && i > 1; i--) {
            size_t other = rng_below(&rng, i);
            void *kept = block[i - 1];
            block[i - 1] = block[other];
            block[other] = kept;
        }
        start = bench_now();
        for (size_t i = 0; i < COUNT; i++)
            free(block[i]);
        job->free_seconds[lane] += bench_now() - start;
    }
    free(block);
}

static void run_order(const bench_args *args)
{
    order_job *job = calloc(1, sizeof *job);
    char more[64];
    double ops = (double)bench_scaled(args, 12, 1) * (1 << 18);
    CHECK(job);
    job->args = args;
    bench_threads(args->threads, order_lane, job);
    snprintf(more, sizeof more, " alloc_ns=%.3f", job->alloc_seconds[0] * 1e9 / ops);
    report(args, ops, job->free_seconds[0], more);
    free(job);
}

static void batch_lane(unsigned lane, void *shared)
{
    enum { COUNT = 10000, LOOK = 16 };
    const bench_args *args = shared;
    size_t rounds = bench_scaled(args, 640, LOOK);
    bench_rng rng = rng_make(args->seed, lane);
    size_t **block = malloc(COUNT * sizeof *block);
    CHECK(block);
    for (size_t round = 0; round < rounds; round++) {
        for (size_t i = 0; i < COUNT; i++) {
            block[i] = malloc(rng_between(&rng, 16, 1024));
            CHECK(block[i]);
            *block[i] = i + round;
        }
        for (size_t i = 0; round % LOOK == 0 && i < COUNT; i++)
            CHECK(*block[i] == i + round);
        for (size_t i = 0; i < COUNT; i++)
            free(block[i]);
    }
    free(block);
}

static void run_batch(const bench_args *args)
{
    double seconds = bench_threads(args->threads, batch_lane, (void *)args);
    report(args, (double)bench_scaled(args, 640, 16) * 10000, seconds, "");
}

static void replace_lane(unsigned lane, void *shared)
{
    enum { LIVE = 100000 };
    const bench_args *args = shared;
    size_t steps = bench_scaled(args, 8e6, 100);
    bench_rng rng = rng_make(args->seed, lane);
    void **slot = calloc(LIVE, sizeof *slot);
    CHECK(slot);
    for (size_t i = 0; i < LIVE; i++)
        slot[i] = head_alloc(rng_between(&rng, 16, 527));
    for (size_t i = 0; i < steps; i++) {
        size_t where = rng_below(&rng, LIVE);
        head_free(slot[where]);
        slot[where] = head_alloc(rng_between(&rng, 16, 527));
    }
    for (size_t i = 0; i < LIVE; i++)
        head_free(slot[i]);
    free(slot);
}

static void run_replace(const bench_args *args)
{
    double seconds = bench_threads(args->threads, replace_lane, (void *)args);
    report(args, (double)bench_scaled(args, 8e6, 100), seconds, "");
}

enum { RING = 4096, HELD = 1024, STEP = 64 };

typedef struct {
    _Alignas(128) _Atomic size_t written;
    _Alignas(128) _Atomic size_t read;
    _Alignas(128) void *slot[RING];
} ring;

typedef struct {
    const bench_args *args;
    size_t total;
    ring rings[2];
} ring_job;

/* Waits cost scheduler turns, not spins without end: there may be more threads than cores. */
static void wait_turn(unsigned *tries)
{
    if (++*tries > 200) {
        sched_yield();
        *tries = 0;
    }
}

static void spsc_produce(ring_job *job)
{
    ring *to = &job->rings[0];
    unsigned tries = 0;
    for (size_t done = 0; done < job->total;) {
        while (done + STEP - atomic_load_explicit(&to->read, memory_order_acquire) > RING)
            wait_turn(&tries);
        for (int i = 0; i < STEP; i++, done++)
            to->slot[done % RING] = stamp_alloc(64);
        atomic_store_explicit(&to->written, done, memory_order_release);
    }
}

static void spsc_consume(ring_job *job)
{
    ring *from = &job->rings[0];
    bool holds = strcmp(job->args->mode, "spsc-held") == 0;
    bench_rng rng = rng_make(job->args->seed, 1);
    void *held[HELD] = {NULL};
    unsigned tries = 0;
    for (size_t done = 0; done < job->total;) {
        while (atomic_load_explicit(&from->written, memory_order_acquire) == done)
            wait_turn(&tries);
        for (int i = 0; i < STEP; i++, done++) {
            void *block = from->slot[done % RING];
            if (holds) {
                size_t where = rng_below(&rng, HELD);
                void *old = held[where];
                held[where] = block;
                block = old;
            }
            if (block)
                stamp_free(block, 64);
        }
        atomic_store_explicit(&from->read, done, memory_order_release);
    }
    for (int i = 0; i < HELD; i++)
        if (held[i])
            stamp_free(held[i], 64);
}

static void spsc_lane(unsigned lane, void *shared)
{
    if (lane == 0)
        spsc_produce(shared);
    else
        spsc_consume(shared);
}

static ring_job *ring_make(const bench_args *args, double total)
{
    ring_job *job = aligned_alloc(128, sizeof *job);
    CHECK(job);
    memset(job, 0, sizeof *job);
    job->args = args;
    job->total = bench_scaled(args, total, STEP) / STEP * STEP;
    return job;
}

static void run_spsc(const bench_args *args)
{
    bench_args two = *args;
    ring_job *job = ring_make(args, 20e6);
    two.threads = 2;
    double seconds = bench_threads(2, spsc_lane, job);
    report(&two, (double)job->total, seconds, "");
    free(job);
}

/* Lane 0 sends D blocks, lane 1 frees them and sends D of its own back; and so on. */
static void pingpong_lane(unsigned lane, void *shared)
{
    ring_job *job = shared;
    size_t depth = pair_bytes(job->args->mode), taken = 0, sent = 0;
    ring *to = &job->rings[lane], *from = &job->rings[1 - lane];
    unsigned tries = 0;
    for (bool sends = lane == 0; sent < job->total || taken < job->total; sends = !sends) {
        for (size_t i = 0; sends && i < depth; i++, sent++)
            to->slot[sent % RING] = stamp_alloc(64);
        if (sends) {
            atomic_store_explicit(&to->written, sent, memory_order_release);
            continue;
        }
        while (atomic_load_explicit(&from->written, memory_order_acquire) < taken + depth)
            wait_turn(&tries);
        for (size_t i = 0; i < depth; i++, taken++)
            stamp_free(from->slot[taken % RING], 64);
    }
}

static void run_pingpong(const bench_args *args)
{
    bench_args two = *args;
    size_t depth = pair_bytes(args->mode);
    ring_job *job = ring_make(args, 400e3 * (double)depth);
    job->total = job->total / depth * depth;
    two.threads = 2;
    double seconds = bench_threads(2, pingpong_lane, job);
    report(&two, (double)job->total * 2, seconds, "");
    free(job);
}

typedef struct {
    const bench_args *args;
    pthread_barrier_t turn;
    double seconds; /* of the first thread's rounds */
} queue_job;

static size_t queue_rounds(const bench_args *args)
{
    return bench_scaled(args, 10e6, 1000);
}

/* The threads' first blocks are made in turn, one each, as they would be where all grow at once. */
static void queue_lane(unsigned lane, void *shared)
{
    enum { QUEUE_BYTES = 2320 * 1024 };
    queue_job *job = shared;
    size_t bytes = pair_bytes(job->args->mode), count = QUEUE_BYTES / bytes, rounds = queue_rounds(job->args);
    void **block = malloc(count * sizeof *block);
    CHECK(block && count > 0);
    for (size_t i = 0; i < count; i++) {
        pthread_barrier_wait(&job->turn);
        block[i] = stamp_alloc(bytes);
    }
    double start = bench_now();
    for (size_t i = 0, at = 0; i < rounds; i++, at = at + 1 < count ? at + 1 : 0) {
        stamp_free(block[at], bytes);
        block[at] = stamp_alloc(bytes);
    }
    if (lane == 0)
        job->seconds = bench_now() - start;
    for (size_t i = 0; i < count; i++)
        stamp_free(block[i], bytes);
    free(block);
}

static void run_queue(const bench_args *args)
{
    queue_job job = {.args = args};
    pthread_barrier_init(&job.turn, NULL, args->threads);
    bench_threads(args->threads, queue_lane, &job);
    pthread_barrier_destroy(&job.turn);
    report(args, (double)queue_rounds(args), job.seconds, "");
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"pair-16", run_pair}, {"pair-64", run_pair}, {"pair-1024", run_pair}, {"pair-2000", run_pair},
        {"pair-32768", run_pair}, {"pair-262144", run_pair}, {"pair-1048576", run_pair}, {"lifo100", run_lifo}, {"fifo", run_order},
        {"random", run_order}, {"batch", run_batch}, {"replace", run_replace}, {"spsc", run_spsc}, {"spsc-held", run_spsc},
        {"pingpong-1", run_pingpong}, {"pingpong-2", run_pingpong}, {"pingpong-4", run_pingpong}, {"pingpong-8", run_pingpong},
        {"queue-2048", run_queue}, {"queue-16384", run_queue}};
    bench_args args = bench_parse(argc, argv, "pairs");
    return BENCH_MODES(&args, modes);
}
