/* Larson and Krishnan's server: each lane holds 1,000 blocks of 8 to 1,000 bytes and replaces random ones; every generation a
 * new thread takes over the lane's blocks from the one that ends, so that much memory is freed by another thread than its maker. */
#include "common.h"

enum { SLOTS = 1000, LOW = 8, HIGH = 1000, GENERATIONS = 10 };

typedef struct {
    void *block[SLOTS];
    size_t bytes[SLOTS];
    bench_rng rng;
    size_t replacements;
} lane_state;

static lane_state *lanes;

static void replace_one(lane_state *lane)
{
    size_t slot = rng_below(&lane->rng, SLOTS);
    if (lane->block[slot])
        stamp_free(lane->block[slot], lane->bytes[slot]);
    lane->bytes[slot] = rng_between(&lane->rng, LOW, HIGH);
    lane->block[slot] = stamp_alloc(lane->bytes[slot]);
}

static void *run_generation(void *argument)
{
    lane_state *lane = argument;
    for (size_t i = 0; i < lane->replacements; i++)
        replace_one(lane);
    return NULL;
}

static void run_lane(unsigned number, void *shared)
{
    (void)shared;
    for (int generation = 0; generation < GENERATIONS; generation++) {
        pthread_t id;
        CHECK(pthread_create(&id, NULL, run_generation, &lanes[number]) == 0);
        CHECK(pthread_join(id, NULL) == 0);
    }
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "larson");
    size_t replacements = bench_scaled(&args, 1500e3, 10);
    lanes = calloc(args.threads, sizeof *lanes);
    CHECK(lanes);
    for (unsigned i = 0; i < args.threads; i++) {
        lanes[i].rng = rng_make(args.seed, i);
        lanes[i].replacements = replacements;
        for (int slot = 0; slot < SLOTS; slot++) {
            lanes[i].bytes[slot] = rng_between(&lanes[i].rng, LOW, HIGH);
            lanes[i].block[slot] = stamp_alloc(lanes[i].bytes[slot]);
        }
    }
    double seconds = bench_threads(args.threads, run_lane, NULL);
    for (unsigned i = 0; i < args.threads; i++)
        for (int slot = 0; slot < SLOTS; slot++)
            stamp_free(lanes[i].block[slot], lanes[i].bytes[slot]);
    free(lanes);
    bench_result(&args, (double)replacements * GENERATIONS * args.threads, seconds, "");
    return 0;
}
