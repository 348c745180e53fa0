/* False sharing after Hoard's cache-thrash and cache-scratch: each thread writes its own 8-byte block many times. thrash: blocks come
 * from the thread itself; scratch: the first block of each thread was made by the main thread, side by side, and is freed by its user:
 * an allocator that gives that memory back to the wrong thread makes two threads share a line. */
#include "common.h"

enum { BYTES = 8, WRITES = 1000 };
static void *first[MAX_THREADS];
static const bench_args *global_args;

static void run_lane(unsigned lane, void *shared)
{
    (void)shared;
    size_t rounds = bench_scaled(global_args, 600e3, 4);
    if (first[lane])
        free(first[lane]);
    for (size_t round = 0; round < rounds; round++) {
        volatile unsigned char *block = malloc(BYTES);
        CHECK(block);
        for (int i = 0; i < BYTES; i++)
            block[i] = (unsigned char)(lane + (unsigned)i);
        for (int i = 0; i < WRITES; i++)
            block[i % BYTES]++;
        unsigned char expected = (unsigned char)(lane + WRITES / BYTES);
        CHECK(block[0] == expected && block[BYTES - 1] == (unsigned char)(expected + BYTES - 1));
        free((void *)block);
    }
}

static void run_mode(const bench_args *args)
{
    global_args = args;
    for (unsigned i = 0; i < args->threads; i++)
        first[i] = strcmp(args->mode, "scratch") == 0 ? malloc(BYTES) : NULL;
    double seconds = bench_threads(args->threads, run_lane, NULL);
    bench_result(args, (double)bench_scaled(args, 600e3, 4) * args->threads, seconds, "");
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"thrash", run_mode}, {"scratch", run_mode}};
    bench_args args = bench_parse(argc, argv, "cache");
    return BENCH_MODES(&args, modes);
}
