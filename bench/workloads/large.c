/* Large blocks. malloc-large: 20 live buffers of 5 to 25 MiB replaced at random, each page touched; blocks, frames and buffers: the same
 * with other lengths, and small blocks that come and go between them. image: an image pipeline that keeps six buffers of 64 KiB to 72 MiB
 * alive, written whole by one stage and read by the next. */
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

enum { SLOTS_MAX = 100, SMALL_SLOTS = 1000 };

typedef struct large_shape {
    const bench_args *args;
    size_t steps, slots, least, most;
    size_t small; /* small blocks replaced between two large ones */
} large_shape;

static void replace_small(unsigned char **small, size_t count, bench_rng *rng)
{
    for (size_t i = 0; i < count; i++) {
        size_t slot = rng_below(rng, SMALL_SLOTS);
        free(small[slot]);
        small[slot] = malloc(rng_between(rng, 16, 4096));
        CHECK(small[slot]);
        small[slot][0] = 1;
    }
}

static void large_lane(unsigned lane, void *shared)
{
    const large_shape *shape = shared;
    bench_rng rng = rng_make(shape->args->seed, lane);
    unsigned char *block[SLOTS_MAX] = {NULL}, *small[SMALL_SLOTS] = {NULL};
    size_t bytes[SLOTS_MAX] = {0};
    for (size_t i = 0; i < shape->steps; i++) {
        size_t slot = rng_below(&rng, shape->slots);
        if (block[slot]) {
            check_pages(block[slot], bytes[slot], (unsigned char)slot);
            free(block[slot]);
        }
        bytes[slot] = rng_between(&rng, shape->least, shape->most);
        block[slot] = malloc(bytes[slot]);
        CHECK(block[slot]);
        touch_pages(block[slot], bytes[slot], (unsigned char)slot);
        replace_small(small, shape->small, &rng);
    }
    for (size_t slot = 0; slot < shape->slots; slot++)
        if (block[slot]) {
            check_pages(block[slot], bytes[slot], (unsigned char)slot);
            free(block[slot]);
        }
    for (size_t slot = 0; slot < SMALL_SLOTS; slot++)
        free(small[slot]);
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

static void run_replacing(const bench_args *args, large_shape shape)
{
    shape.args = args;
    shape.steps = bench_scaled(args, (double)shape.steps, 4);
    double seconds = bench_threads(args->threads, large_lane, &shape);
    bench_result(args, (double)shape.steps * args->threads, seconds, "");
}

static void run_large(const bench_args *args)
{
    run_replacing(args, (large_shape){.steps = 250, .slots = 20, .least = 5 * MIB, .most = 25 * MIB});
}

static void run_blocks(const bench_args *args)
{
    run_replacing(args, (large_shape){.steps = 1000, .slots = 32, .least = 4 * MIB, .most = 8 * MIB, .small = 200});
}

static void run_frames(const bench_args *args)
{
    run_replacing(args, (large_shape){.steps = 2000, .slots = 40, .least = 2500 * KIB, .most = 2600 * KIB, .small = 200});
}

static void run_buffers(const bench_args *args)
{
    run_replacing(args, (large_shape){.steps = 6000, .slots = 100, .least = 65 * KIB, .most = 3000 * KIB, .small = 200});
}

static void run_image(const bench_args *args)
{
    double seconds = bench_threads(args->threads, image_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 600, 8) * args->threads, seconds, "");
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {
        {"malloc-large", run_large}, {"blocks", run_blocks}, {"frames", run_frames}, {"buffers", run_buffers}, {"image", run_image}};
    bench_args args = bench_parse(argc, argv, "large");
    return BENCH_MODES(&args, modes);
}
