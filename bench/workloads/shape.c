/* A shape of a program, drawn at random: -s is its number. How many threads, how many blocks live, of what sizes, how they die, who frees
 * them, how much of them is touched, and how many come by calloc, realloc and posix_memalign. It finds what no written workload
 * looks for; `-m tell` only says what the shape is. Each block is checked at both ends before it goes. */
#include "common.h"

enum { DRAWS = 4096, BATCH = 64, LIVE_BYTES = 48 << 20 };
enum sizes { FIXED, FEW, UNIFORM, LOGARITHMIC, POWERS, MOSTLY_SMALL, SIZES_COUNT };
enum lives { RANDOM, QUEUE, STACK, GENERATIONS, IN_ORDER, REVERSED, SHUFFLED, WAVES, LIVES_COUNT };
enum touch { ENDS, WHOLE, LINES, TOUCH_COUNT };

static const char *const sizes_name[] = {"fixed", "few", "uniform", "logarithmic", "powers", "mostly-small"};
static const char *const lives_name[] = {"random", "queue", "stack", "generations", "in-order", "reversed", "shuffled", "waves"};
static const char *const touch_name[] = {"ends", "whole", "lines"};

static struct {
    unsigned threads, phases, passed; /* passed: of 100 blocks, to the next thread */
    enum sizes sizes;
    enum lives life;
    enum touch touch;
    size_t least, most, live, some_count; /* bytes; live: blocks of each thread */
    size_t some[16];                      /* FEW: the sizes there are */
    double mean, zeroed, grown, aligned;  /* bytes; shares of 1 */
    uint64_t seed, steps;                 /* steps: of each thread */
} shape;

typedef struct {
    uint8_t *p;
    size_t bytes;
} block;

typedef struct {
    bench_rng rng;
    size_t sizes[DRAWS]; /* drawn beforehand, anew in each phase */
    block *blocks;
    block *passing; /* for the next thread, BATCH of them */
    size_t passing_count, at;
    uint64_t done;
    unsigned lane;
} worker;

static struct {
    _Alignas(64) _Atomic(block *) batch;
} inbox[MAX_THREADS];

/* ---- drawing it ---- */

/* With a chance of one in so many, a share of 0 to most. */
static double draw_share(bench_rng *rng, size_t in, double most)
{
    double share = rng_unit(rng) * most;
    return rng_below(rng, in) == 0 ? share : 0;
}

static size_t draw_size(bench_rng *rng)
{
    double low = (double)shape.least, high = (double)shape.most + 1;
    switch (shape.sizes) {
    case FIXED: return shape.least;
    case FEW: return shape.some[rng_below(rng, shape.some_count)];
    case UNIFORM: return rng_between(rng, shape.least, shape.most);
    case POWERS: return (size_t)1 << (int)(log2(rng_log(rng, low, high)) + 0.5);
    case MOSTLY_SMALL:
        if (rng_below(rng, 100) < 95)
            return shape.least + rng_below(rng, 4 * shape.least + 16);
        /* fall through */
    default: return (size_t)rng_log(rng, low, high);
    }
}

/* Nanoseconds of a step, roughly: so that every shape takes about as long. */
static double guess_cost(void)
{
    double touched = shape.touch == WHOLE ? shape.mean / 16 : shape.touch == LINES ? shape.mean / 40 : 0;
    bool cold = shape.live * shape.threads > 20000;
    return 30 + touched + shape.zeroed * shape.mean / 20 + (cold ? 60 : 0) + (shape.mean > 30000 ? shape.mean / 8 : 0);
}

static void draw_sizes(bench_rng *rng)
{
    shape.sizes = (enum sizes)rng_below(rng, SIZES_COUNT);
    shape.least = (size_t)rng_log(rng, 8, rng_below(rng, 4) == 0 ? 20000 : 256);
    double reach = rng_below(rng, 5) == 0 ? 2000 : 40;
    shape.most = shape.least + (size_t)rng_log(rng, (double)shape.least, reach * (double)shape.least);
    if (shape.most > 8 * MIB)
        shape.most = 8 * MIB;
    shape.some_count = 2 + rng_below(rng, 14);
    for (size_t i = 0; i < shape.some_count; i++)
        shape.some[i] = (size_t)rng_log(rng, (double)shape.least, (double)shape.most);
    for (size_t i = 0; i < DRAWS; i++)
        shape.mean += (double)draw_size(rng) / DRAWS;
}

static void draw_shape(const bench_args *args)
{
    static const unsigned threads[] = {1, 1, 1, 2, 2, 4, 8};
    bench_rng rng = rng_make(args->seed, 0);
    shape.seed = args->seed;
    shape.threads = threads[rng_below(&rng, sizeof threads / sizeof *threads)];
    draw_sizes(&rng);
    shape.life = (enum lives)rng_below(&rng, LIVES_COUNT);
    shape.touch = (enum touch)rng_below(&rng, TOUCH_COUNT);
    double live = rng_log(&rng, 4, 300000);
    if (live * shape.mean > LIVE_BYTES)
        live = LIVE_BYTES / shape.mean + 1;
    shape.live = (size_t)live / shape.threads + 2;
    shape.zeroed = draw_share(&rng, 4, 1);
    shape.grown = draw_share(&rng, 4, 0.5);
    shape.aligned = draw_share(&rng, 8, 0.3);
    unsigned passed = (unsigned)rng_below(&rng, 101);
    shape.passed = shape.threads > 1 && rng_below(&rng, 2) == 0 ? passed : 0;
    shape.phases = rng_below(&rng, 3) == 0 ? 1 : 4;
    shape.steps = (uint64_t)(80e6 * args->scale / guess_cost()) / shape.threads + 1;
}

static void tell_shape(char *words, size_t room)
{
    int used = snprintf(words, room, "shape=t%u,%s,%s,%zu-%zu_B,%zu_live,%.0f_B_mean,touch-%s", shape.threads, sizes_name[shape.sizes],
                        lives_name[shape.life], shape.least, shape.most, shape.live * shape.threads, shape.mean, touch_name[shape.touch]);
    snprintf(words + used, room - (size_t)used, ",calloc-%.2f,realloc-%.2f,aligned-%.2f,passed-%u%%,phases-%u", shape.zeroed, shape.grown,
             shape.aligned, shape.passed, shape.phases);
}

/* ---- steps ---- */

static void *take(size_t bytes, double chance)
{
    void *p = NULL;
    if (chance < shape.zeroed)
        return calloc(1, bytes);
    if (chance < shape.aligned)
        return posix_memalign(&p, 64, bytes) == 0 ? p : NULL;
    return malloc(bytes);
}

static void put(worker *own, block *at)
{
    uint64_t draw = rng_next(&own->rng);
    size_t bytes = own->sizes[draw % DRAWS];
    uint8_t *p = take(bytes, (double)(draw >> 12 & 1023) / 1024);
    CHECK(p);
    if (shape.touch == WHOLE)
        memset(p, (uint8_t)bytes, bytes);
    for (size_t i = 0; shape.touch == LINES && i < bytes; i += 64)
        p[i] = (uint8_t)bytes;
    p[0] = p[bytes - 1] = (uint8_t)bytes;
    *at = (block){p, bytes};
    own->done++;
}

static void drop(block *at)
{
    if (!at->p)
        return;
    CHECK(at->p[0] == (uint8_t)at->bytes && at->p[at->bytes - 1] == (uint8_t)at->bytes);
    free(at->p);
    at->p = NULL;
}

static void drop_batch(block *batch, size_t count)
{
    for (size_t i = 0; batch && i < count; i++)
        drop(batch + i);
    free(batch);
}

/* To the next thread, by batches; what it has not fetched comes back to be freed here. */
static void pass(worker *own, block *at)
{
    if (!own->passing) {
        own->passing = malloc(BATCH * sizeof *own->passing);
        CHECK(own->passing);
    }
    own->passing[own->passing_count++] = *at;
    at->p = NULL;
    if (own->passing_count < BATCH)
        return;
    drop_batch(atomic_exchange(&inbox[(own->lane + 1) % shape.threads].batch, own->passing), BATCH);
    drop_batch(atomic_exchange(&inbox[own->lane].batch, NULL), BATCH);
    own->passing = NULL;
    own->passing_count = 0;
}

static void end_of(worker *own, block *at)
{
    if (at->p && shape.passed > 0 && rng_below(&own->rng, 100) < shape.passed)
        pass(own, at);
    else
        drop(at);
}

static void grow(worker *own, block *at)
{
    uint8_t first = at->p[0];
    size_t bytes = at->bytes + at->bytes / 2 + 8;
    at->p = realloc(at->p, bytes);
    CHECK(at->p && at->p[0] == first);
    at->p[0] = at->p[bytes - 1] = (uint8_t)bytes;
    at->bytes = bytes;
    own->done++;
}

static size_t next_place(worker *own)
{
    if (shape.life == QUEUE)
        return own->at++ % shape.live;
    bool young = shape.life == GENERATIONS && rng_below(&own->rng, 16) != 0;
    return rng_below(&own->rng, young ? shape.live / 16 + 1 : shape.live);
}

static void replace(worker *own, uint64_t end)
{
    while (own->done < end) {
        block *at = own->blocks + next_place(own);
        if (shape.grown > 0 && at->p && at->bytes < 4 * shape.most && rng_unit(&own->rng) < shape.grown) {
            grow(own, at);
        } else {
            end_of(own, at);
            put(own, at);
        }
    }
}

static void stack(worker *own, uint64_t end)
{
    for (size_t depth = 0; own->done < end;) {
        if (depth > 0 && (depth == shape.live || rng_below(&own->rng, 2) == 0)) {
            drop(own->blocks + --depth);
        } else {
            drop(own->blocks + depth);
            put(own, own->blocks + depth++);
        }
    }
}

/* Up to some height, down to some other one. */
static void waves(worker *own, uint64_t end)
{
    while (own->done < end) {
        size_t top = rng_between(&own->rng, shape.live / 4 + 1, shape.live), keep = rng_below(&own->rng, top);
        for (size_t i = 0; i < top && own->done < end; i++)
            if (!own->blocks[i].p)
                put(own, own->blocks + i);
        for (size_t i = top; i-- > keep;)
            drop(own->blocks + i);
    }
}

static void shuffle(worker *own)
{
    for (size_t i = shape.live; i > 1; i--) {
        size_t other = rng_below(&own->rng, i);
        block kept = own->blocks[other];
        own->blocks[other] = own->blocks[i - 1];
        own->blocks[i - 1] = kept;
    }
}

static void batches(worker *own, uint64_t end)
{
    while (own->done < end) {
        for (size_t i = 0; i < shape.live; i++) {
            drop(own->blocks + i);
            put(own, own->blocks + i);
        }
        if (shape.life == SHUFFLED)
            shuffle(own);
        for (size_t i = 0; i < shape.live; i++)
            end_of(own, own->blocks + (shape.life == REVERSED ? shape.live - 1 - i : i));
    }
}

static void run_lane(unsigned lane, void *unused)
{
    worker own = {.rng = rng_make(shape.seed, lane + 1), .blocks = calloc(shape.live, sizeof(block)), .lane = lane};
    (void)unused;
    CHECK(own.blocks);
    for (unsigned phase = 1; phase <= shape.phases; phase++) {
        uint64_t end = shape.steps * phase / shape.phases;
        for (size_t i = 0; i < DRAWS; i++)
            own.sizes[i] = draw_size(&own.rng);
        if (shape.life == STACK)
            stack(&own, end);
        else if (shape.life == WAVES)
            waves(&own, end);
        else if (shape.life == RANDOM || shape.life == QUEUE || shape.life == GENERATIONS)
            replace(&own, end);
        else
            batches(&own, end);
    }
    for (size_t i = 0; i < shape.live; i++)
        drop(own.blocks + i);
    drop_batch(own.passing, own.passing_count);
    free(own.blocks);
}

int main(int argc, char **argv)
{
    char words[256];
    bench_args args = bench_parse(argc, argv, "shape");
    draw_shape(&args);
    tell_shape(words, sizeof words);
    if (bench_tells(&args, words))
        return 0;
    args.threads = shape.threads;
    double seconds = bench_threads(shape.threads, run_lane, NULL);
    for (unsigned i = 0; i < shape.threads; i++)
        drop_batch(inbox[i].batch, BATCH);
    bench_result(&args, (double)shape.steps * shape.threads, seconds, words);
    return 0;
}
