/* malloc and free of whatever allocator the process has (LD_PRELOAD), measured as meter.h says.
 *
 *   warm  batch   100 mallocs, 100 frees, 100 pairs, clock read around each hundred
 *   warm  single  malloc, free, and a pair, clock read around each: the paper's loop
 *   cold          as many mallocs as fit into 64 MiB, none given back before the last, then as many frees
 *   life          all of that in one reading: what a block costs from malloc to free, fresh memory included */
#include "meter.h"

typedef struct {
    meter_series take, give, pair;
} heap_series;

static void **blocks;

METER_INLINE void *take(size_t bytes, size_t i, bool touch)
{
    void *p = malloc(bytes);
    if (__builtin_expect(!p, 0))
        meter_die(1, "malloc(%zu) gave NULL", bytes);
    return meter_fill(p, bytes, i, touch);
}

static void time_batch(const meter_options *options, const meter_clock *clock, size_t bytes, heap_series *series, bool verify)
{
    bool touch = options->touch;
    uint64_t start = meter_start();
    for (size_t i = 0; i < METER_BATCH; i++)
        blocks[i] = take(bytes, i, touch);
    meter_note(&series->take, clock, meter_stop() - start, METER_BATCH);
    if (verify)
        meter_verify(options, blocks, METER_BATCH, bytes);
    start = meter_start();
    for (size_t i = 0; i < METER_BATCH; i++)
        free(blocks[i]);
    meter_note(&series->give, clock, meter_stop() - start, METER_BATCH);
    start = meter_start();
    for (size_t i = 0; i < METER_BATCH; i++)
        free(take(bytes, i, touch));
    meter_note(&series->pair, clock, meter_stop() - start, METER_BATCH);
}

static void time_single(const meter_options *options, const meter_clock *clock, size_t bytes, heap_series *series, size_t i, bool verify)
{
    bool touch = options->touch;
    uint64_t start = meter_start();
    void *p = take(bytes, i, touch);
    uint64_t ticks = meter_stop() - start;
    meter_note(&series->take, clock, ticks, 1);
    blocks[0] = p;
    if (verify && !touch) /* a filled block has its byte by the round's number: only looked at in batches */
        meter_verify(options, blocks, 1, bytes);
    start = meter_start();
    free(p);
    ticks = meter_stop() - start;
    meter_note(&series->give, clock, ticks, 1);
    start = meter_start();
    free(take(bytes, i, touch));
    ticks = meter_stop() - start;
    meter_note(&series->pair, clock, ticks, 1);
}

static void run_warm(const meter_options *options, const meter_clock *clock, size_t bytes, heap_series *series)
{
    size_t rounds = meter_rounds(options, bytes), unit = options->single ? 1 : METER_BATCH;
    heap_series unheard = {0}; /* the first twentieth makes the memory warm and goes uncounted, but is looked at */
    /* One block behind the others stays, as in a program: else glibc returns the top of its heap to the system after each batch. */
    for (size_t i = 0; i < METER_BATCH; i++)
        blocks[i] = take(bytes, i, true);
    void *behind = take(bytes, 0, true);
    for (size_t i = 0; i < METER_BATCH; i++)
        free(blocks[i]);
    for (size_t i = 0; i < rounds / 20 + unit; i += unit)
        options->single ? time_single(options, clock, bytes, &unheard, i, true) : time_batch(options, clock, bytes, &unheard, true);
    for (size_t i = 0; i < rounds; i += unit)
        options->single ? time_single(options, clock, bytes, series, i, false)
                        : time_batch(options, clock, bytes, series, options->touch);
    free(behind);
}

static void run_cold(const meter_options *options, const meter_clock *clock, size_t bytes, heap_series *series)
{
    size_t rounds = meter_rounds(options, bytes), unit = options->single ? 1 : METER_BATCH;
    bool touch = options->touch;
    for (size_t from = 0; from < rounds; from += unit) {
        uint64_t start = meter_start();
        for (size_t i = from; i < from + unit; i++)
            blocks[i] = take(bytes, i, touch);
        uint64_t ticks = meter_stop() - start;
        meter_note(&series->take, clock, ticks, (unsigned)unit);
    }
    if (touch || options->spoil)
        meter_verify(options, blocks, rounds, bytes);
    for (size_t from = 0; from < rounds; from += unit) {
        uint64_t start = meter_start();
        for (size_t i = from; i < from + unit; i++)
            free(blocks[i]);
        uint64_t ticks = meter_stop() - start;
        meter_note(&series->give, clock, ticks, (unsigned)unit);
    }
}

static void run_life(const meter_options *options, const meter_clock *clock, size_t bytes, meter_series *series)
{
    size_t rounds = meter_rounds(options, bytes);
    uint64_t start = meter_start();
    for (size_t i = 0; i < rounds; i++)
        blocks[i] = take(bytes, i, options->touch);
    for (size_t i = 0; i < rounds; i++)
        free(blocks[i]);
    meter_note(series, clock, meter_stop() - start, (unsigned)rounds);
}

int main(int argc, char **argv)
{
    meter_options options = meter_parse(argc, argv, "w:s:tb:n:x");
    blocks = meter_list(&options);
    free(meter_keep(malloc(1))); /* the allocator's own start is no round's cost */
    meter_clock clock = meter_clock_measure();
    for (unsigned i = 0; i < options.size_count; i++) {
        size_t bytes = options.sizes[i];
        unsigned each = options.single ? 1 : METER_BATCH;
        heap_series series = {meter_series_new(), meter_series_new(), meter_series_new()};
        if (options.life)
            run_life(&options, &clock, bytes, &series.pair);
        else
            (options.cold ? run_cold : run_warm)(&options, &clock, bytes, &series);
        meter_print(&options, "malloc", bytes, each, &series.take);
        meter_print(&options, "free", bytes, each, &series.give);
        meter_print(&options, options.life ? "life" : "malloc+free", bytes, each, &series.pair);
    }
    meter_finish(&clock);
    return 0;
}
