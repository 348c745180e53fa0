/* The program that instruction counts are taken from: a fixed number of malloc and free calls and nothing else that depends on it.
 * -m pair-BYTES, batch-BYTES (100 mallocs, then 100 frees in order), random-BYTES (100 slots freed and refilled at random). -n is the
 * number of malloc/free pairs. Run it with N and with 2N under callgrind: the difference is N pairs, without start-up. */
#include "common.h"

enum { WINDOW = 100 };

static size_t pick(const char *mode, const char *kind)
{
    size_t length = strlen(kind);
    return strncmp(mode, kind, length) == 0 && mode[length] == '-' ? strtoul(mode + length + 1, NULL, 10) : 0;
}

/* Never inlined, so that the loops around malloc and free stay the same in every build. */
static __attribute__((noinline)) void do_pairs(size_t pairs, size_t bytes)
{
    for (size_t i = 0; i < pairs; i++) {
        void *block = malloc(bytes);
        __asm__ volatile("" : : "r"(block) : "memory");
        free(block);
    }
}

static __attribute__((noinline)) void do_batches(size_t pairs, size_t bytes)
{
    void *block[WINDOW];
    for (size_t done = 0; done < pairs; done += WINDOW) {
        for (int i = 0; i < WINDOW; i++)
            block[i] = malloc(bytes);
        __asm__ volatile("" : : "r"(block) : "memory");
        for (int i = 0; i < WINDOW; i++)
            free(block[i]);
    }
}

static __attribute__((noinline)) void do_random(size_t pairs, size_t bytes, uint64_t seed)
{
    void *block[WINDOW];
    bench_rng rng = rng_make(seed, 0);
    for (int i = 0; i < WINDOW; i++)
        block[i] = malloc(bytes);
    for (size_t done = 0; done < pairs; done++) {
        size_t slot = rng_below(&rng, WINDOW);
        free(block[slot]);
        block[slot] = malloc(bytes);
        CHECK(block[slot]);
    }
    for (int i = 0; i < WINDOW; i++)
        free(block[i]);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "steps");
    const char *mode = args.mode ? args.mode : "pair-64";
    size_t pairs = ((size_t)args.scale + WINDOW - 1) / WINDOW * WINDOW, bytes;
    double start = bench_now();
    if ((bytes = pick(mode, "pair")))
        do_pairs(pairs, bytes);
    else if ((bytes = pick(mode, "batch")))
        do_batches(pairs, bytes);
    else if ((bytes = pick(mode, "random")))
        do_random(pairs, bytes, args.seed);
    else
        bench_usage("steps", "mode is pair-BYTES, batch-BYTES or random-BYTES");
    bench_result(&args, (double)pairs, bench_now() - start, "");
    return 0;
}
