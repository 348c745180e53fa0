/* Large blocks. malloc-large: 20 live buffers of 5 to 25 MiB replaced at random, each page touched. image: an image pipeline that keeps
 * six buffers of 64 KiB to 72 MiB alive, written whole by one stage and read by the next. */
#include "common.h"

static void touch_pages(unsigned char *block, size_t bytes, unsigned char mark)
{
    for (size_t at = 0; at < bytes; at += 4096)
        block[at] = mark;
    block[bytes - 1] = mark;
}

static void check_pages(const unsigned char *block, size_t bytes, unsigned char mark)
{
    for (size_t at = 0; at < bytes; at += 4096)
        CHECK(block[at] == mark);
    CHECK(block[bytes - 1] == mark);
}

static void large_lane(unsigned lane, void *shared)
{
    enum { SLOTS = 20 };
    const bench_args *args = shared;
    size_t steps = bench_scaled(args, 250, 4);
    bench_rng rng = rng_make(args->seed, lane);
    unsigned char *block[SLOTS] = {NULL};
    size_t bytes[SLOTS] = {0};
    for (size_t i = 0; i < steps; i++) {
        size_t slot = rng_below(&rng, SLOTS);
        if (block[slot]) {
            check_pages(block[slot], bytes[slot], (unsigned char)slot);
            free(block[slot]);
        }
        bytes[slot] = rng_between(&rng, 5 * MIB, 25 * MIB);
        block[slot] = malloc(bytes[slot]);
        CHECK(block[slot]);
        touch_pages(block[slot], bytes[slot], (unsigned char)slot);
    }
    for (size_t slot = 0; slot < SLOTS; slot++)
        if (block[slot]) {
            check_pages(block[slot], bytes[slot], (unsigned char)slot);
            free(block[slot]);
        }
}

static void image_lane(unsigned lane, void *shared)
{
    enum { ALIVE = 6 };
    static const size_t steps_of[] = {64 * KIB, 256 * KIB, MIB, 3 * MIB, 8 * MIB, 18 * MIB, 36 * MIB, 72 * MIB};
    static const unsigned weight[] = {8, 8, 8, 6, 4, 2, 1, 1}; /* out of 38: small images are the many */
    const bench_args *args = shared;
    size_t frames = bench_scaled(args, 600, 8);
    bench_rng rng = rng_make(args->seed, lane);
    uint64_t *stage[ALIVE] = {NULL};
    size_t words[ALIVE] = {0};
    for (size_t frame = 0; frame < frames; frame++) {
        size_t slot = frame % ALIVE, previous = (frame + ALIVE - 1) % ALIVE, draw = rng_below(&rng, 38), kind = 0;
        while (draw >= weight[kind])
            draw -= weight[kind++];
        if (stage[slot]) {
            CHECK(stage[slot][0] == stage[slot][words[slot] - 1]);
            free(stage[slot]);
        }
        words[slot] = (steps_of[kind] - rng_below(&rng, steps_of[kind] / 8)) / 8;
        stage[slot] = malloc(words[slot] * 8);
        CHECK(stage[slot]);
        for (size_t i = 0; i < words[slot]; i++)
            stage[slot][i] = frame ^ (stage[previous] ? stage[previous][i % 512 % words[previous]] : 0);
        stage[slot][0] = stage[slot][words[slot] - 1] = frame;
    }
    for (size_t slot = 0; slot < ALIVE; slot++)
        free(stage[slot]);
}

static void run_large(const bench_args *args)
{
    double seconds = bench_threads(args->threads, large_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 250, 4) * args->threads, seconds, "");
}

static void run_image(const bench_args *args)
{
    double seconds = bench_threads(args->threads, image_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 600, 8) * args->threads, seconds, "");
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"malloc-large", run_large}, {"image", run_image}};
    bench_args args = bench_parse(argc, argv, "large");
    return BENCH_MODES(&args, modes);
}
