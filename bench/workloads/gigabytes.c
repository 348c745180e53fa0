/* A program that grows to gigabytes, 4 GB at scale 1, on all threads at once: each takes blocks of up to 440 kB, mostly short ones,
 * and touches all of their system pages; replaces a quarter of them at random; frees nine of ten; and takes as many again. extra: the
 * seconds that each part took. What memory costs when much of it comes from the system, whose huge pages may be dear or not (decision 25);
 * for a machine with twice as much as that. */
#include "common.h"

enum { MEAN_BYTES = 1750, SHARES = 4, KEEP_ONE_OF = 10, TOUCH = 4096 };

typedef struct {
    char *p;
    size_t bytes;
} block;

typedef struct {
    bench_rng rng;
    block *all;
    size_t count;
} lane;

static size_t draw_size(bench_rng *rng)
{
    size_t kind = rng_below(rng, 256);
    if (kind < 200)
        return rng_between(rng, 16, 255);
    if (kind < 250)
        return rng_between(rng, 256, 2047);
    return kind < 255 ? rng_between(rng, 2048, 32000) : rng_between(rng, 40000, 440000);
}

static void take(lane *own, block *one)
{
    one->bytes = draw_size(&own->rng);
    one->p = stamp_alloc(one->bytes); /* at both ends */
    for (size_t at = TOUCH; at < one->bytes - 1; at += TOUCH)
        one->p[at] = 1;
}

static void drop(block *one)
{
    if (one->p)
        stamp_free(one->p, one->bytes);
    one->p = NULL;
}

static void fill(unsigned number, void *shared)
{
    lane *own = (lane *)shared + number;
    for (size_t i = 0; i < own->count; i++)
        if (!own->all[i].p)
            take(own, &own->all[i]);
}

static void replace(unsigned number, void *shared)
{
    lane *own = (lane *)shared + number;
    for (size_t i = 0; i < own->count / SHARES; i++) {
        block *one = &own->all[rng_below(&own->rng, own->count)];
        drop(one);
        take(own, one);
    }
}

static void thin_out(unsigned number, void *shared)
{
    lane *own = (lane *)shared + number;
    for (size_t i = 0; i < own->count; i++)
        if (rng_below(&own->rng, KEEP_ONE_OF) != 0)
            drop(&own->all[i]);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "gigabytes");
    size_t count = bench_scaled(&args, 4e9 / MEAN_BYTES / args.threads, 10);
    lane lanes[MAX_THREADS];
    for (unsigned i = 0; i < args.threads; i++) {
        lanes[i] = (lane){rng_make(args.seed, i), calloc(count, sizeof(block)), count};
        CHECK(lanes[i].all);
    }
    double fills = bench_threads(args.threads, fill, lanes);
    double replaces = bench_threads(args.threads, replace, lanes);
    double thins = bench_threads(args.threads, thin_out, lanes);
    double again = bench_threads(args.threads, fill, lanes);
    for (unsigned i = 0; i < args.threads; i++) {
        for (size_t at = 0; at < count; at++)
            drop(&lanes[i].all[at]);
        free(lanes[i].all);
    }
    char extra[120];
    snprintf(extra, sizeof extra, "fill=%.3f replace=%.3f thin=%.3f again=%.3f", fills, replaces, thins, again);
    bench_result(&args, (double)count * args.threads, fills + replaces + thins + again, extra);
    return 0;
}
