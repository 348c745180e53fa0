/* A pattern of few long blocks, drawn at random: -s is its number. One to twelve blocks of 64 KiB to 64 MiB in each of one or two threads,
 * by malloc, calloc and growth; filled whole, from the start, here and there or at both ends; replaced at random, dropped together or as a
 * stack. The steps are as many as fill a share of so many bytes. `-m tell` only says what the pattern is. */
#include "common.h"

enum { LIVE_MOST = 12, LIVE_BYTES = 300 << 20, OS_PAGE = 4096, STEP_COST = 64 << 10, SMALL_SLOTS = 64 };
enum filling { WHOLE, FRONT, SPREAD, ENDS };
enum lives { RANDOM, ROUNDS, STACK, LIVES_COUNT };

static const char *const filling_name[] = {"whole", "front", "spread", "ends"};
static const char *const lives_name[] = {"random", "rounds", "stack"};

static struct {
    unsigned threads, small; /* small: small blocks replaced between two long ones */
    enum filling filling;
    enum lives life;
    size_t live, least, most;     /* blocks of each thread; bytes */
    double part, zeroed, grown;   /* shares of 1: part: what is filled of a block */
    bool probes;                  /* the last byte is read first */
    uint64_t seed;
    double bytes;                 /* that each thread fills */
} pattern;

typedef struct {
    uint8_t *p;
    size_t bytes;
} block;

typedef struct {
    bench_rng rng;
    block blocks[LIVE_MOST];
    char *small[SMALL_SLOTS];
    double filled;
    size_t steps;
} worker;

static _Atomic size_t all_steps;

/* ---- drawing it ---- */

static double draw_share(bench_rng *rng)
{
    double some = rng_unit(rng);
    size_t kind = rng_below(rng, 4);
    return kind == 0 ? 1 : kind == 1 ? some : 0;
}

static void draw_pattern(const bench_args *args)
{
    static const enum filling fillings[] = {WHOLE, WHOLE, WHOLE, FRONT, FRONT, SPREAD, SPREAD, ENDS};
    bench_rng rng = rng_make(args->seed, 0);
    pattern.seed = args->seed;
    pattern.threads = rng_below(&rng, 4) == 0 ? 2 : 1;
    pattern.life = (enum lives)rng_below(&rng, LIVES_COUNT);
    pattern.least = (size_t)rng_log(&rng, 64 * KIB, 8 * MIB);
    pattern.most = (size_t)((double)pattern.least * (rng_below(&rng, 4) == 0 ? 1 : rng_log(&rng, 1, 8)));
    pattern.live = (size_t)rng_log(&rng, 1, LIVE_MOST + 1);
    while (pattern.live > 1 && pattern.live * pattern.most > LIVE_BYTES)
        pattern.live /= 2;
    pattern.filling = fillings[rng_below(&rng, sizeof fillings / sizeof *fillings)];
    pattern.part = rng_log(&rng, 0.02, 0.8);
    pattern.zeroed = draw_share(&rng);
    pattern.grown = rng_below(&rng, 4) == 0 ? rng_unit(&rng) : 0;
    pattern.probes = rng_below(&rng, 2) == 0;
    pattern.small = rng_below(&rng, 3) == 0 ? 50 : 0;
    pattern.bytes = 1000.0 * MIB * args->scale / pattern.threads;
}

static void tell_pattern(char *words, size_t room)
{
    snprintf(words, room, "shape=t%u,%zu_live,%s,%zu-%zu_KiB,%s,part-%.2f,calloc-%.2f,grown-%.2f,probes-%d,small-%u", pattern.threads,
             pattern.live, lives_name[pattern.life], pattern.least / KIB, pattern.most / KIB, filling_name[pattern.filling], pattern.part,
             pattern.zeroed, pattern.grown, pattern.probes, pattern.small);
}

/* ---- steps ---- */

static size_t front_bytes(size_t bytes)
{
    return pattern.filling == WHOLE ? bytes : (size_t)((double)bytes * pattern.part);
}

/* Write both ends of what is written, where drop looks. */
static void mark(uint8_t *p, size_t bytes)
{
    if (pattern.filling != SPREAD)
        p[0] = p[(pattern.filling == ENDS ? bytes : front_bytes(bytes)) - 1] = (uint8_t)bytes;
}

static void fill(worker *own, uint8_t *p, size_t bytes)
{
    size_t pages = bytes / OS_PAGE, count = (size_t)((double)pages * pattern.part) + 1;
    if (pattern.filling == WHOLE || pattern.filling == FRONT)
        memset(p, 1, front_bytes(bytes));
    for (size_t i = 0; pattern.filling == SPREAD && i < count; i++)
        p[rng_below(&own->rng, pages) * OS_PAGE] = 1;
    own->filled += (double)(pattern.filling == ENDS ? 0 : front_bytes(bytes)) + STEP_COST;
}

static void take(worker *own, block *at, size_t bytes)
{
    bool zeroed = rng_unit(&own->rng) < pattern.zeroed;
    *at = (block){zeroed ? calloc(1, bytes) : malloc(bytes), bytes};
    CHECK(at->p);
    if (pattern.probes)
        CHECK(*(volatile uint8_t *)(at->p + bytes - 1) == 0 || !zeroed);
    CHECK(!zeroed || at->p[rng_below(&own->rng, bytes)] == 0);
    fill(own, at->p, bytes);
    mark(at->p, bytes);
}

/* A block that becomes as long by halves of itself, all of it written but where only ends are. */
static void grow(worker *own, block *at, size_t bytes)
{
    *at = (block){malloc(bytes / 16 + 64), bytes};
    CHECK(at->p);
    memset(at->p, 1, bytes / 16 + 64);
    for (size_t have = bytes / 16 + 64; have < bytes;) {
        size_t next = have + have / 2 < bytes ? have + have / 2 : bytes;
        at->p = realloc(at->p, next);
        CHECK(at->p && at->p[have / 2] == 1);
        if (pattern.filling == ENDS)
            at->p[next - 1] = at->p[next / 2] = 1;
        else
            memset(at->p + have, 1, next - have);
        have = next;
    }
    own->filled += 2.0 * (double)bytes;
    mark(at->p, bytes);
}

static void drop(block *at)
{
    if (at->p && pattern.filling != SPREAD) {
        size_t end = pattern.filling == ENDS ? at->bytes : front_bytes(at->bytes);
        CHECK(at->p[0] == (uint8_t)at->bytes && at->p[end - 1] == (uint8_t)at->bytes);
    }
    free(at->p);
    *at = (block){NULL, 0};
}

static void replace_small(worker *own)
{
    for (unsigned i = 0; i < pattern.small; i++) {
        char **slot = &own->small[rng_below(&own->rng, SMALL_SLOTS)];
        free(*slot);
        *slot = malloc(rng_between(&own->rng, 16, 2000));
        CHECK(*slot);
        **slot = 1;
    }
}

static void put(worker *own, block *at)
{
    size_t bytes = (size_t)rng_log(&own->rng, (double)pattern.least, (double)pattern.most + 1);
    drop(at);
    if (rng_unit(&own->rng) < pattern.grown)
        grow(own, at, bytes);
    else
        take(own, at, bytes);
    replace_small(own);
    own->steps++;
}

static void drop_all(worker *own)
{
    for (size_t i = 0; i < pattern.live; i++)
        drop(own->blocks + (pattern.life == STACK ? pattern.live - 1 - i : i));
}

static void run_lane(unsigned lane, void *unused)
{
    worker own = {.rng = rng_make(pattern.seed, lane + 1)};
    (void)unused;
    while (own.filled < pattern.bytes) {
        if (pattern.life == RANDOM) {
            put(&own, own.blocks + rng_below(&own.rng, pattern.live));
            continue;
        }
        for (size_t i = 0; i < pattern.live && own.filled < pattern.bytes; i++)
            put(&own, own.blocks + i);
        drop_all(&own);
    }
    drop_all(&own);
    for (size_t i = 0; i < SMALL_SLOTS; i++)
        free(own.small[i]);
    atomic_fetch_add(&all_steps, own.steps);
}

int main(int argc, char **argv)
{
    char words[256];
    bench_args args = bench_parse(argc, argv, "longshape");
    draw_pattern(&args);
    tell_pattern(words, sizeof words);
    if (bench_tells(&args, words))
        return 0;
    args.threads = pattern.threads;
    double seconds = bench_threads(pattern.threads, run_lane, NULL);
    bench_result(&args, (double)all_steps, seconds, words);
    return 0;
}
