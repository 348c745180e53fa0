/* Thread birth and death: create a thread that makes 32 blocks of mixed sizes, frees them, and exits; join it; again. With -t more than
 * one, that many such threads live at the same time. `-m together`: two hundred times as many live at the same time, each with a few
 * blocks of many sizes, until the last one has its own; what counts is their memory. extra: microseconds per thread. */
#include "common.h"

enum { BLOCKS = 32, TOGETHER = 200, FEW = 40 };

static void short_life(unsigned lane, void *shared)
{
    static const size_t sizes[] = {16, 40, 64, 100, 256, 520, 1024, 3000};
    void *block[BLOCKS];
    (void)lane, (void)shared;
    for (int i = 0; i < BLOCKS; i++)
        block[i] = stamp_alloc(sizes[i % 8]);
    for (int i = 0; i < BLOCKS; i++)
        stamp_free(block[i], sizes[i % 8]);
}

static void *short_life_main(void *argument)
{
    short_life(0, argument);
    return NULL;
}

static pthread_barrier_t all_here;

static size_t few_bytes(size_t thread, size_t i)
{
    return 16 + (thread + i * 37) % 500;
}

static void *with_few_main(void *argument)
{
    size_t thread = (size_t)(uintptr_t)argument;
    void *block[FEW];
    for (size_t i = 0; i < FEW; i++)
        block[i] = stamp_alloc(few_bytes(thread, i));
    pthread_barrier_wait(&all_here);
    for (size_t i = 0; i < FEW; i++)
        stamp_free(block[i], few_bytes(thread, i));
    return NULL;
}

static void tell(const bench_args *args, size_t threads, double seconds)
{
    char extra[64];
    snprintf(extra, sizeof extra, "us_per_thread=%.3f", seconds * 1e6 / (double)threads);
    bench_result(args, (double)threads, seconds, extra);
}

static int run_together(bench_args *args)
{
    size_t rounds = bench_scaled(args, 10, 1), threads = (size_t)TOGETHER * args->threads;
    pthread_t *id = malloc(threads * sizeof *id);
    pthread_attr_t small;
    CHECK(id && pthread_attr_init(&small) == 0 && pthread_attr_setstacksize(&small, 64 << 10) == 0);
    args->name = "threadlife/together";
    double start = bench_now();
    for (size_t round = 0; round < rounds; round++) {
        CHECK(pthread_barrier_init(&all_here, NULL, (unsigned)threads) == 0);
        for (size_t i = 0; i < threads; i++)
            CHECK(pthread_create(&id[i], &small, with_few_main, (void *)(uintptr_t)i) == 0);
        for (size_t i = 0; i < threads; i++)
            CHECK(pthread_join(id[i], NULL) == 0);
        CHECK(pthread_barrier_destroy(&all_here) == 0);
    }
    tell(args, rounds * threads, bench_now() - start);
    free(id);
    return 0;
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "threadlife");
    size_t rounds = bench_scaled(&args, 10e3, 10);
    pthread_t id[MAX_THREADS];
    if (args.mode) {
        if (strcmp(args.mode, "together") != 0)
            bench_usage(args.name, "its one mode is together");
        return run_together(&args);
    }
    double start = bench_now();
    for (size_t round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < args.threads; i++)
            CHECK(pthread_create(&id[i], NULL, short_life_main, NULL) == 0);
        for (unsigned i = 0; i < args.threads; i++)
            CHECK(pthread_join(id[i], NULL) == 0);
    }
    tell(&args, rounds * args.threads, bench_now() - start);
    return 0;
}
