/* Key-value churn: about 290 MB of string values of 16 B to 4 KiB (small ones are the many) in a table; random keys get a new value. The
 * live size is that at scale 1 or more and shrinks with a smaller scale; with threads the table is split between them. */
#include "common.h"

static const bench_args *run_args;

static size_t pick_bytes(bench_rng *rng)
{
    size_t top = (size_t)32 << rng_below(rng, 8); /* octave 32..4096, then uniform in its upper half */
    return rng_between(rng, top / 2, top);
}

static void run_lane(unsigned lane, void *shared)
{
    (void)shared;
    double live_scale = run_args->scale < 1 ? run_args->scale : 1;
    size_t keys = (size_t)(380e3 * live_scale) / run_args->threads + 16, updates = bench_scaled(run_args, 4e6, 100);
    bench_rng rng = rng_make(run_args->seed, lane);
    char **value = calloc(keys, sizeof *value);
    CHECK(value);
    for (size_t i = 0; i < keys + updates; i++) {
        size_t key = i < keys ? i : rng_below(&rng, keys);
        if (value[key])
            head_free(value[key]);
        size_t bytes = pick_bytes(&rng);
        value[key] = head_alloc(bytes);
        if (bytes > 32)
            memset(value[key] + sizeof(bench_head), (int)('a' + key % 26), bytes - 1 - sizeof(bench_head));
    }
    for (size_t key = 0; key < keys; key++)
        head_free(value[key]);
    free(value);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "kv");
    run_args = &args;
    double seconds = bench_threads(args.threads, run_lane, NULL);
    bench_result(&args, (double)bench_scaled(&args, 4e6, 100) * args.threads, seconds, "");
    return 0;
}
