/* The clock and the figures of the arena benchmark; heap.c and arena.c measure with it.
 *
 * Two ways. "batch" reads the clock around a batch of operations, so that its cost is shared by all of them. "single" reads it
 * around each operation, fenced, so that nothing of the operation lies outside and nothing else inside. From both the clock's own
 * cost is taken off: the mean of reading it twice with nothing between, measured in the same process before the first operation,
 * and again after the last to see that it held. A counter that steps by 10 ns cannot tell 2 ns from 8 in one reading; means stay
 * exact (they are sums of signed differences), and the program says what the step is.
 *
 * One JSON object a line goes to stdout. Times are in ticks there; the head line says how long a tick is. */
#ifndef HEDDLE_BENCH_METER_H
#define HEDDLE_BENCH_METER_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <stdarg.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#define METER_INLINE static inline __attribute__((always_inline))

static inline _Noreturn void meter_die(int status, const char *form, ...)
{
    va_list list;
    va_start(list, form);
    fflush(stdout);
    vfprintf(stderr, form, list);
    fputc('\n', stderr);
    va_end(list);
    exit(status);
}

/* Content or order is wrong: what this benchmark is a test of. */
#define METER_CHECK(condition, ...) ((condition) ? (void)0 : meter_die(3, "wrong: " __VA_ARGS__))

/* ---- the clock ---- */
METER_INLINE uint64_t meter_start(void)
{
#if defined(__x86_64__)
    uint32_t low, high;
    __asm__ volatile("lfence\n\trdtsc\n\tlfence" : "=a"(low), "=d"(high)::"memory");
    return ((uint64_t)high << 32) | low;
#elif defined(__aarch64__)
    uint64_t ticks;
    __asm__ volatile("isb\n\tmrs %0, cntvct_el0\n\tisb" : "=r"(ticks)::"memory");
    return ticks;
#else
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * 1000000000u + (uint64_t)now.tv_nsec;
#endif
}

METER_INLINE uint64_t meter_stop(void)
{
#if defined(__x86_64__)
    uint32_t low, high, processor; /* rdtscp waits for everything before it; the fence keeps later work behind it */
    __asm__ volatile("rdtscp\n\tlfence" : "=a"(low), "=d"(high), "=c"(processor)::"memory");
    return ((uint64_t)high << 32) | low;
#else
    return meter_start();
#endif
}

static inline double meter_seconds(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

/* Make the compiler believe that somebody looks at the pointer and at all memory. */
METER_INLINE void *meter_keep(void *p)
{
    __asm__ volatile("" : "+r"(p)::"memory");
    return p;
}

/* ---- a series of readings of one operation ---- */

/* Cells of the histogram are in 1/64 ticks: exact below 128, then 128 a doubling, so within 0.8 %. */
enum { METER_FINE = 64, METER_SUB_BITS = 7, METER_CELLS = (64 - METER_SUB_BITS) << METER_SUB_BITS };

typedef struct {
    uint64_t count;
    double sum, sum_squares, least, most; /* ticks for one operation, the clock's cost taken off */
    uint32_t *cells;
} meter_series;

static inline unsigned meter_cell(uint64_t fine)
{
    if (fine < 1u << METER_SUB_BITS)
        return (unsigned)fine;
    unsigned octave = 63 - (unsigned)__builtin_clzll(fine) - METER_SUB_BITS; /* 0 for 128..255 */
    return ((octave + 1) << METER_SUB_BITS) + (unsigned)((fine >> octave) & ((1u << METER_SUB_BITS) - 1));
}

static inline meter_series meter_series_new(void)
{
    return (meter_series){.least = INFINITY, .most = -INFINITY, .cells = calloc(METER_CELLS, sizeof(uint32_t))};
}

typedef struct {
    uint64_t start_ticks;
    double start_s;
    double cost;      /* ticks: mean of two readings with nothing between */
    double deviation; /* ticks: standard deviation of that */
    uint64_t step;    /* ticks: all readings are multiples of this apart */
} meter_clock;

static inline uint64_t meter_gcd(uint64_t a, uint64_t b)
{
    while (b) {
        uint64_t rest = a % b;
        a = b;
        b = rest;
    }
    return a;
}

static inline meter_clock meter_clock_measure(void)
{
    enum { READINGS = 20000, INTERRUPT_TICKS = 20000 };
    meter_clock clock = {.start_ticks = meter_start(), .start_s = meter_seconds()};
    double sum = 0, squares = 0;
    unsigned count = 0;
    for (int i = 0; i < READINGS; i++) {
        uint64_t start = meter_start(), ticks = meter_stop() - start;
        if (ticks > INTERRUPT_TICKS)
            continue;
        clock.step = meter_gcd(ticks, clock.step);
        sum += (double)ticks;
        squares += (double)ticks * (double)ticks;
        count++;
    }
    if (count)
        clock.cost = sum / count;
    if (count)
        clock.deviation = sqrt(fmax(0, squares / count - clock.cost * clock.cost));
    return clock;
}

/* Note that `operations` of them took `ticks` together, as read from the clock. */
static inline void meter_note(meter_series *series, const meter_clock *clock, uint64_t ticks, unsigned operations)
{
    double each = ((double)ticks - clock->cost) / operations;
    series->count++;
    series->sum += each;
    series->sum_squares += each * each;
    series->least = fmin(series->least, each);
    series->most = fmax(series->most, each);
    if (series->cells)
        series->cells[meter_cell(each > 0 ? (uint64_t)(each * METER_FINE + 0.5) : 0)]++;
}

/* ---- options ---- */
enum { METER_BATCH = 100, METER_SIZES = 16, METER_COLD_BYTES = 64 << 20 };

typedef struct {
    const char *program;
    const char *form;                     /* -f: which arena; not for heap.c */
    bool single, cold, life, touch, spoil;
    size_t sizes[METER_SIZES];
    unsigned size_count;
    uint64_t rounds;
} meter_options;

static inline _Noreturn void meter_usage(const char *program, const char *problem)
{
    meter_die(2,
              "%s: %s\nusage: %s [-f form] [-w batch|single] [-s warm|cold|life] [-t] [-b bytes,bytes] [-n rounds] [-x]\n"
              "  -w  read the clock around %d operations, or around each       -t  the program fills every block, timed\n"
              "  -s  memory used before; fresh memory; from nothing to nothing  -x  spoil a block: the run must fail",
              program, problem, program, METER_BATCH);
}

static inline uint64_t meter_number(const char *program, const char *text, char **end, uint64_t least, uint64_t most)
{
    if (*text < '0' || *text > '9')
        meter_usage(program, "a number is missing");
    uint64_t number = strtoull(text, end, 10);
    if (number < least || number > most)
        meter_usage(program, "a number is out of range");
    return number;
}

static inline void meter_parse_sizes(meter_options *options, char *text)
{
    for (options->size_count = 0;; text++) {
        if (options->size_count == METER_SIZES)
            meter_usage(options->program, "too many sizes");
        options->sizes[options->size_count++] = meter_number(options->program, text, &text, 16, 1 << 20);
        if (!*text)
            return;
        if (*text != ',')
            meter_usage(options->program, "sizes are numbers with commas");
    }
}

static inline meter_options meter_parse(int argc, char **argv, const char *flags)
{
    meter_options options = {.program = argv[0], .sizes = {5120}, .size_count = 1, .rounds = 100000};
    int flag;
    while ((flag = getopt(argc, argv, flags)) != -1) {
        char *end = NULL;
        if (flag == 'f')
            options.form = optarg;
        else if (flag == 'w' && (!strcmp(optarg, "batch") || !strcmp(optarg, "single")))
            options.single = *optarg == 's';
        else if (flag == 's' && (!strcmp(optarg, "warm") || !strcmp(optarg, "cold") || !strcmp(optarg, "life")))
            options.cold = *optarg == 'c', options.life = *optarg == 'l';
        else if (flag == 't')
            options.touch = true;
        else if (flag == 'x')
            options.spoil = true;
        else if (flag == 'b')
            meter_parse_sizes(&options, optarg);
        else if (flag == 'n') {
            options.rounds = meter_number(argv[0], optarg, &end, METER_BATCH, 100000000);
            if (*end)
                meter_usage(argv[0], "-n takes a number");
        } else
            meter_usage(argv[0], "bad arguments");
    }
    if (optind != argc)
        meter_usage(argv[0], "too many arguments");
    return options;
}

/* Rounds for one size: whole batches; fresh memory is limited to 64 MiB. */
static inline size_t meter_rounds(const meter_options *options, size_t bytes)
{
    uint64_t rounds = options->rounds;
    if ((options->cold || options->life) && rounds > METER_COLD_BYTES / bytes)
        rounds = METER_COLD_BYTES / bytes;
    return (size_t)(rounds < METER_BATCH ? METER_BATCH : rounds / METER_BATCH * METER_BATCH);
}

/* A list of as many blocks as any of the sizes needs. It is apart from the allocator under test, and not fresh: what the loops themselves
 * use must not cost anybody anything. */
static inline void **meter_list(const meter_options *options)
{
    size_t count = METER_BATCH;
    for (unsigned i = 0; i < options->size_count && (options->cold || options->life); i++) {
        size_t rounds = meter_rounds(options, options->sizes[i]);
        count = rounds > count ? rounds : count;
    }
    void **list = mmap(NULL, count * sizeof *list, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (list == MAP_FAILED)
        meter_die(1, "no memory for a list of %zu blocks", count);
    memset(list, 1, count * sizeof *list);
    return list;
}

/* ---- blocks: filled by the program (timed where it says -t), and looked at outside the timer ---- */
static inline unsigned char meter_byte(size_t i)
{
    return (unsigned char)(i * 37 + 11);
}

METER_INLINE void *meter_fill(void *p, size_t bytes, size_t i, bool touch)
{
    if (touch)
        memset(p, meter_byte(i), bytes);
    return meter_keep(p);
}

/* All of the blocks are aligned and keep their content: fills those that were not filled yet, then looks at each byte. */
static inline void meter_verify(const meter_options *options, void **blocks, size_t count, size_t bytes)
{
    for (size_t i = 0; i < count; i++) {
        METER_CHECK(blocks[i], "block %zu of %zu bytes is NULL", i, bytes);
        METER_CHECK((uintptr_t)blocks[i] % 16 == 0, "block %p of %zu bytes is not aligned to 16", blocks[i], bytes);
        if (!options->touch)
            memset(blocks[i], meter_byte(i), bytes);
    }
    if (options->spoil)
        ((unsigned char *)blocks[count / 2])[bytes - 1] ^= 1;
    for (size_t i = 0; i < count; i++) {
        const unsigned char *block = blocks[i];
        METER_CHECK(block[0] == meter_byte(i) && !memcmp(block, block + 1, bytes - 1),
                    "block %zu of %zu at %p (%zu bytes) was overwritten", i, count, blocks[i], bytes);
    }
}

/* ---- output ---- */
static inline void meter_print(const meter_options *options, const char *op, size_t bytes, unsigned each, meter_series *series)
{
    if (!series->count) {
        free(series->cells);
        return;
    }
    printf("{\"kind\":\"series\",\"op\":\"%s\",\"bytes\":%zu,\"how\":\"%s\",\"state\":\"%s\",\"touch\":%s,\"each\":%u,\"count\":%llu,"
           "\"sum\":%.9g,\"sum_squares\":%.9g,\"least\":%.6g,\"most\":%.6g,\"cells\":[",
           op, bytes, options->single ? "single" : "batch", options->cold ? "cold" : options->life ? "life" : "warm",
           options->touch ? "true" : "false", each, (unsigned long long)series->count, series->sum, series->sum_squares,
           series->least, series->most);
    const char *comma = "";
    for (unsigned i = 0; series->cells && i < METER_CELLS; i++) {
        if (!series->cells[i])
            continue;
        printf("%s[%u,%u]", comma, i, series->cells[i]);
        comma = ",";
    }
    puts("]}");
    free(series->cells);
}

/* The last line: how long a tick is, and what the clock cost before and costs now. */
static inline void meter_finish(const meter_clock *clock)
{
    meter_clock after = meter_clock_measure();
    double tick_ns = (after.start_s - clock->start_s) * 1e9 / (double)(after.start_ticks - clock->start_ticks);
    printf("{\"kind\":\"clock\",\"tick_ns\":%.9g,\"cost_ns\":%.6g,\"cost_after_ns\":%.6g,\"deviation_ns\":%.6g,\"step_ns\":%.6g}\n",
           tick_ns, clock->cost * tick_ns, after.cost * tick_ns, clock->deviation * tick_ns, (double)clock->step * tick_ns);
    if (fflush(stdout) || ferror(stdout))
        meter_die(2, "cannot write the results");
}
#endif
