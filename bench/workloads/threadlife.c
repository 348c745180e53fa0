/* Thread birth and death: create a thread that makes 32 blocks of mixed sizes, frees them, and exits; join it; again. With -t more than
 * one, that many such threads live at the same time. extra: microseconds per thread. */
#include "common.h"

enum { BLOCKS = 32 };

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

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "threadlife");
    size_t rounds = bench_scaled(&args, 10e3, 10);
    pthread_t id[MAX_THREADS];
    char extra[64];
    double start = bench_now();
    for (size_t round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < args.threads; i++)
            CHECK(pthread_create(&id[i], NULL, short_life_main, NULL) == 0);
        for (unsigned i = 0; i < args.threads; i++)
            CHECK(pthread_join(id[i], NULL) == 0);
    }
    double seconds = bench_now() - start;
    snprintf(extra, sizeof extra, "us_per_thread=%.3f", seconds * 1e6 / (double)(rounds * args.threads));
    bench_result(&args, (double)(rounds * args.threads), seconds, extra);
    return 0;
}
