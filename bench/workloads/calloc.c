/* calloc by size and history. small: 8 B pairs (small-malloc: the same by malloc); fresh: 8 KiB blocks that are kept until the end;
 * reused: 8 KiB blocks dirtied, freed and asked for again; big-untouched: 128 MiB never written; big-touched: written whole;
 * big-reused: a dirtied 128 MiB block was freed first, and again each time; table-front: tables of 256 KiB to 4 MiB, filled up to a
 * third, dropped, and taken again; table-spread: the same, a twentieth of their pages used here and there; table-long: tables of 4 to
 * 16 MiB, filled up to a third. Zero is verified everywhere (by sampling in big ones). */
#include "common.h"

enum { BLOCK = 8192 };

static void check_zero(const unsigned char *block, size_t bytes, size_t stride)
{
    for (size_t at = 0; at < bytes; at += stride)
        CHECK(block[at] == 0);
    CHECK(block[bytes - 1] == 0);
}

static unsigned char *zeroed(size_t bytes)
{
    unsigned char *block = calloc(1, bytes);
    CHECK(block);
    return block;
}

static size_t small_pairs(const bench_args *args)
{
    size_t rounds = bench_scaled(args, 40e6, 100);
    bool plain = strcmp(args->mode, "small-malloc") == 0;
    for (size_t i = 0; i < rounds; i++) {
        uint64_t *block = plain ? malloc(8) : calloc(1, 8);
        __asm__ volatile("" : "+r"(block) : : "memory");
        CHECK(block && (plain || *block == 0));
        *block = i;
        free(block);
    }
    return rounds;
}

static size_t fresh_blocks(const bench_args *args)
{
    size_t count = bench_scaled(args, 40e3, 10);
    unsigned char **kept = malloc(count * sizeof *kept);
    CHECK(kept);
    for (size_t i = 0; i < count; i++) {
        kept[i] = zeroed(BLOCK);
        CHECK(kept[i][i % BLOCK] == 0);
    }
    for (size_t i = 0; i < count; i++) {
        check_zero(kept[i], BLOCK, 1024);
        free(kept[i]);
    }
    free(kept);
    return count;
}

static size_t reused_blocks(const bench_args *args)
{
    size_t rounds = bench_scaled(args, 2e6, 10);
    for (size_t i = 0; i < rounds; i++) {
        unsigned char *block = zeroed(BLOCK);
        check_zero(block, BLOCK, 512);
        memset(block, 0xff, 64);
        memset(block + BLOCK - 64, 0xff, 64);
        block[i % BLOCK] = 0xff;
        free(block);
    }
    return rounds;
}

static size_t big_blocks(const bench_args *args)
{
    bool touched = strcmp(args->mode, "big-touched") == 0, reused = strcmp(args->mode, "big-reused") == 0;
    size_t bytes = 128 * MIB, rounds = bench_scaled(args, touched ? 3 : reused ? 4 : 2000, 1);
    for (size_t i = 0; i < rounds; i++) {
        if (reused) { /* someone dirtied this range before; the free of it and the calloc are what counts */
            unsigned char *dirty = malloc(bytes);
            CHECK(dirty);
            memset(dirty, 0xa5, bytes);
            free(dirty);
        }
        unsigned char *block = zeroed(bytes);
        if (touched) {
            check_zero(block, bytes, 4096);
            memset(block, 0x5a, bytes);
        } else {
            CHECK(block[i * 4099 % bytes] == 0);
            if (reused)
                check_zero(block, bytes, MIB);
        }
        free(block);
    }
    return rounds;
}

static size_t tables(const bench_args *args)
{
    enum { LEAST = 256 * 1024, LONG = 4 << 20, OS_PAGE = 4096 };
    bool spread = strcmp(args->mode, "table-spread") == 0, is_long = strcmp(args->mode, "table-long") == 0;
    size_t rounds = bench_scaled(args, is_long ? 1e3 : 6e3, 10);
    bench_rng rng = rng_make(args->seed, 0);
    for (size_t i = 0; i < rounds; i++) {
        size_t most = is_long ? 4 * LONG : LEAST << rng_between(&rng, 1, 4);
        size_t bytes = rng_between(&rng, is_long ? LONG : LEAST, most), pages = bytes / OS_PAGE;
        unsigned char *table = zeroed(bytes), mark = (unsigned char)(i % 255 + 1); /* not the one of the table before */
        for (size_t at = 0; at < pages / (spread ? 20 : 3); at++) {
            unsigned char *page = table + (spread ? rng_below(&rng, pages) : at) * OS_PAGE;
            CHECK(page[0] == page[OS_PAGE / 2] && (page[0] == 0 || (spread && page[0] == mark)));
            memset(page, mark, OS_PAGE);
        }
        CHECK(table[bytes - 1] == 0 || (spread && table[bytes - 1] == mark));
        free(table);
    }
    return rounds;
}

typedef struct {
    const bench_args *args;
    size_t (*shape)(const bench_args *);
    _Atomic size_t ops;
} calloc_job;

static void run_lane(unsigned lane, void *shared)
{
    calloc_job *job = shared;
    (void)lane;
    atomic_fetch_add(&job->ops, job->shape(job->args));
}

static void run_shape(const bench_args *args, size_t (*shape)(const bench_args *))
{
    calloc_job job = {args, shape, 0};
    double seconds = bench_threads(args->threads, run_lane, &job);
    bench_result(args, (double)job.ops, seconds, "");
}

static void run_small(const bench_args *args) { run_shape(args, small_pairs); }
static void run_fresh(const bench_args *args) { run_shape(args, fresh_blocks); }
static void run_reused(const bench_args *args) { run_shape(args, reused_blocks); }
static void run_big(const bench_args *args) { run_shape(args, big_blocks); }
static void run_tables(const bench_args *args) { run_shape(args, tables); }

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"small", run_small}, {"small-malloc", run_small}, {"fresh", run_fresh}, {"reused", run_reused},
        {"big-untouched", run_big}, {"big-touched", run_big}, {"big-reused", run_big}, {"table-front", run_tables},
        {"table-spread", run_tables}, {"table-long", run_tables}};
    bench_args args = bench_parse(argc, argv, "calloc");
    return BENCH_MODES(&args, modes);
}
