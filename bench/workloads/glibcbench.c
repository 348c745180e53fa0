/* The shapes of glibc's bench-malloc-simple and bench-malloc-thread. simple: allocate N blocks of one size, free them in order, for
 * several N and sizes. thread: random replacement in a table of sizes that follow an inverse power law, per thread. */
#include "common.h"

static void simple_lane(unsigned lane, void *shared)
{
    static const size_t counts[] = {25, 100, 400, 1600}, sizes[] = {16, 32, 64, 128, 256, 512, 1024, 4096};
    const bench_args *args = shared;
    size_t total = bench_scaled(args, 120e3, 1600);
    void *block[1600];
    (void)lane;
    for (size_t c = 0; c < 4; c++)
        for (size_t s = 0; s < 8; s++)
            for (size_t done = 0; done < total; done += counts[c]) {
                for (size_t i = 0; i < counts[c]; i++)
                    block[i] = stamp_alloc(sizes[s]);
                for (size_t i = 0; i < counts[c]; i++)
                    stamp_free(block[i], sizes[s]);
            }
}

static void run_simple(const bench_args *args)
{
    double seconds = bench_threads(args->threads, simple_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 120e3, 1600) * 32 * args->threads, seconds, "");
}

enum { TABLE = 1024, LOW = 4, HIGH = 32768, DRAWS = 8192 };

static void thread_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t steps = bench_scaled(args, 20e6, 100);
    bench_rng rng = rng_make(args->seed, lane);
    static _Thread_local uint16_t sizes[DRAWS];
    void **table = calloc(TABLE, sizeof *table);
    CHECK(table);
    for (int i = 0; i < DRAWS; i++) { /* probability ~ size^-1.5, as the inverse of its distribution */
        double low = 1 / sqrt((double)LOW), high = 1 / sqrt((double)HIGH), mixed = low - rng_unit(&rng) * (low - high);
        sizes[i] = (uint16_t)(1.0 / (mixed * mixed));
    }
    for (size_t i = 0; i < steps; i++) {
        uint64_t draw = rng_next(&rng);
        size_t slot = draw % TABLE;
        if (table[slot])
            head_free(table[slot]);
        table[slot] = head_alloc(sizes[(draw >> 32) % DRAWS]);
    }
    for (int i = 0; i < TABLE; i++)
        if (table[i])
            head_free(table[i]);
    free(table);
}

static void run_thread(const bench_args *args)
{
    double seconds = bench_threads(args->threads, thread_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 20e6, 100) * args->threads, seconds, "");
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"simple", run_simple}, {"thread", run_thread}};
    bench_args args = bench_parse(argc, argv, "glibcbench");
    return BENCH_MODES(&args, modes);
}
