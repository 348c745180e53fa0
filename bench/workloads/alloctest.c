/* Pareto replacement after alloc-test: slot and size both follow an 80/20 law: most replacements hit few slots, most blocks are small
 * and a few are large. The fill is touched once at both ends; each replacement verifies the block that goes. */
#include "common.h"

enum { SLOTS = 1 << 15, LOW = 16, HIGH = 32768, DRAWS = 1 << 16 };

/* Bounded Pareto draws of shape 1.16 (the 80/20 law), made beforehand so that pow() is not what is timed. */
static uint16_t *make_sizes(bench_rng *rng)
{
    uint16_t *sizes = malloc(DRAWS * sizeof *sizes);
    CHECK(sizes);
    for (size_t i = 0; i < DRAWS; i++) {
        double bytes = LOW * pow(1.0 - rng_unit(rng), -1.0 / 1.16);
        sizes[i] = (uint16_t)(bytes > HIGH ? HIGH : bytes);
    }
    return sizes;
}

static void run_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t steps = bench_scaled(args, 16e6, 100);
    bench_rng rng = rng_make(args->seed, lane);
    uint16_t *sizes = make_sizes(&rng);
    void **slot = calloc(SLOTS, sizeof *slot);
    CHECK(slot);
    for (size_t i = 0; i < steps; i++) {
        uint64_t draw = rng_next(&rng);
        size_t where = draw % SLOTS;
        if (draw >> 60 < 13) /* 13 in 16 draws go to a fifth of the slots */
            where /= 5;
        if (slot[where]) {
            head_free(slot[where]);
            slot[where] = NULL;
        } else
            slot[where] = head_alloc(sizes[(draw >> 24) % DRAWS]);
    }
    for (size_t i = 0; i < SLOTS; i++)
        if (slot[i])
            head_free(slot[i]);
    free(slot);
    free(sizes);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "alloctest");
    double seconds = bench_threads(args.threads, run_lane, &args);
    bench_result(&args, (double)bench_scaled(&args, 16e6, 100) * args.threads, seconds, "");
    return 0;
}
