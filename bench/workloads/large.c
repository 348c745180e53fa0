/* Large blocks. malloc-large: 20 live buffers of 5 to 25 MiB replaced at random, each page touched; blocks, frames and buffers: the same
 * with other lengths, and small blocks that come and go between them. begun and ends: 16 of 3 to 20 MiB of
 * which the first twentieth is written, or the first and the last byte. image: an image pipeline that keeps six buffers of 64 KiB to 72 MiB
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
    size_t share; /* the first of so many parts is written; 0: all */
    bool ends;    /* the last byte as well, and of the first part one byte */
} large_shape;

static size_t written_of(const large_shape *shape, size_t bytes)
{
    size_t part = shape->share ? bytes / shape->share : bytes;
    return shape->ends || part == 0 ? 1 : part;
}

static void write_block(const large_shape *shape, unsigned char *block, size_t bytes, unsigned char mark)
{
    touch_pages(block, written_of(shape, bytes), mark);
    if (shape->ends)
        block[bytes - 1] = mark;
}

static void drop_block(const large_shape *shape, unsigned char *block, size_t bytes, unsigned char mark)
{
    check_pages(block, written_of(shape, bytes), mark);
    CHECK(!shape->ends || block[bytes - 1] == mark);
    free(block);
}

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
        if (block[slot])
            drop_block(shape, block[slot], bytes[slot], (unsigned char)slot);
        bytes[slot] = rng_between(&rng, shape->least, shape->most);
        block[slot] = malloc(bytes[slot]);
        CHECK(block[slot]);
        write_block(shape, block[slot], bytes[slot], (unsigned char)slot);
        replace_small(small, shape->small, &rng);
    }
    for (size_t slot = 0; slot < shape->slots; slot++)
        if (block[slot])
            drop_block(shape, block[slot], bytes[slot], (unsigned char)slot);
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

static void run_begun(const bench_args *args)
{
    run_replacing(args, (large_shape){.steps = 8000, .slots = 16, .least = 3 * MIB, .most = 20 * MIB, .share = 20});
}

static void run_ends(const bench_args *args)
{
    run_replacing(args, (large_shape){.steps = 60000, .slots = 16, .least = 3 * MIB, .most = 20 * MIB, .ends = true});
}

static void run_image(const bench_args *args)
{
    double seconds = bench_threads(args->threads, image_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 600, 8) * args->threads, seconds, "");
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {
        {"malloc-large", run_large}, {"blocks", run_blocks}, {"frames", run_frames}, {"buffers", run_buffers},
        {"begun", run_begun},        {"ends", run_ends},     {"image", run_image}};
    bench_args args = bench_parse(argc, argv, "large");
    return BENCH_MODES(&args, modes);
}
