/* Work in waves: a lane makes all that it needs for one piece of work, 8 MiB in blocks of one span of sizes, and drops it as a whole
 * before the next piece: in the order in which it was made, in reverse, or in random order. What lanes give back and take again is
 * more than allocators keep for a thread. */
#include "common.h"

enum { WAVE_BYTES = 8 << 20, SPANS = 4, ORDERS = 3 };

static const size_t span_low[SPANS] = {64, 2000, 200, 9000}, span_high[SPANS] = {400, 6000, 1200, 28000};

typedef struct {
    void *p;
    size_t bytes;
} block;

static void swap(block *one, block *other)
{
    block kept = *one;
    *one = *other;
    *other = kept;
}

static void drop(block *blocks, size_t count, size_t order, bench_rng *rng)
{
    if (order == 1)
        for (size_t i = 0; i < count / 2; i++)
            swap(blocks + i, blocks + count - 1 - i);
    else if (order == 2)
        for (size_t i = count; i > 1; i--)
            swap(blocks + i - 1, blocks + rng_below(rng, i));
    for (size_t i = 0; i < count; i++)
        stamp_free(blocks[i].p, blocks[i].bytes);
}

static void run_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t waves = bench_scaled(args, 240, 1), most = WAVE_BYTES / span_low[0] + 1;
    bench_rng rng = rng_make(args->seed, lane);
    block *blocks = malloc(most * sizeof *blocks);
    CHECK(blocks);
    for (size_t wave = 0; wave < waves; wave++) {
        size_t count = 0, span = wave % SPANS;
        for (size_t bytes = 0; bytes < WAVE_BYTES; bytes += blocks[count++].bytes) {
            blocks[count].bytes = rng_between(&rng, span_low[span], span_high[span]);
            blocks[count].p = stamp_alloc(blocks[count].bytes);
        }
        drop(blocks, count, wave % ORDERS, &rng);
    }
    free(blocks);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "waves");
    double seconds = bench_threads(args.threads, run_lane, &args);
    bench_result(&args, (double)bench_scaled(&args, 240, 1) * args.threads, seconds, "");
    return 0;
}
