/* Shared by every workload: arguments, time, random numbers, stamps, threads, and the one RESULT line.
 *
 * A workload takes `-t threads -n scale -s seed`, calls plain malloc and free (so that any preloaded library is the one
 * measured), stamps what it stores, verifies the stamp before it frees, and aborts on a mismatch. Scale 1 is meant to take
 * about 0.3 to 1 second on one core. The last thing printed is
 *     RESULT name threads ops seconds peak_rss_kib [key=value ...]
 * Header only, so that each workload is one file that links to nothing but -lpthread and -lm. C, and C++ as well. */
#ifndef HEDDLE_BENCH_COMMON_H
#define HEDDLE_BENCH_COMMON_H

#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <math.h>
#include <pthread.h>
#include <stdarg.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <time.h>
#include <unistd.h>

#ifdef __cplusplus
#define _Noreturn [[noreturn]]
#endif

#define KIB ((size_t)1 << 10)
#define MIB ((size_t)1 << 20)
#define MAX_THREADS 256

typedef struct {
    const char *name;
    unsigned threads;
    double scale;
    uint64_t seed;
    const char *mode; /* -m, NULL when not given: workloads with several shapes name them */
} bench_args;

_Noreturn static inline void bench_die(const char *form, ...)
{
    va_list list;
    va_start(list, form);
    fputs("workload: ", stderr);
    vfprintf(stderr, form, list);
    fputc('\n', stderr);
    va_end(list);
    abort();
}

#define CHECK(condition) ((condition) ? (void)0 : bench_die("%s:%d: %s", __FILE__, __LINE__, #condition))

_Noreturn static inline void bench_usage(const char *name, const char *problem)
{
    fprintf(stderr, "%s: %s\nusage: %s [-t threads 1..%d] [-n scale > 0] [-s seed] [-m mode]\n", name, problem, name, MAX_THREADS);
    exit(2);
}

static inline bench_args bench_parse(int argc, char **argv, const char *name)
{
    bench_args args = {name, 1, 1.0, 42, NULL};
    int option;
    while ((option = getopt(argc, argv, "t:n:s:m:")) != -1) {
        char *end = NULL;
        if (option == 't')
            args.threads = (unsigned)strtoul(optarg, &end, 10);
        else if (option == 'n')
            args.scale = strtod(optarg, &end);
        else if (option == 's')
            args.seed = strtoull(optarg, &end, 0);
        else if (option == 'm')
            args.mode = optarg;
        else
            bench_usage(name, "unknown option");
        if (end && (*end || end == optarg))
            bench_usage(name, "not a number");
    }
    if (optind != argc)
        bench_usage(name, "takes options only");
    if (args.threads < 1 || args.threads > MAX_THREADS || !(args.scale > 0 && args.scale <= 1e6))
        bench_usage(name, "threads or scale out of range");
    return args;
}

/* A count for scale 1, scaled, and at least `least`. */
static inline size_t bench_scaled(const bench_args *args, double count, size_t least)
{
    double scaled = count * args->scale;
    return scaled < (double)least ? least : (size_t)scaled;
}

static inline double bench_now(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec * 1e-9;
}

static inline long bench_peak_rss_kib(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return usage.ru_maxrss;
}

/* Prints the RESULT line; `extra` is "" or key=value words. */
static inline void bench_result(const bench_args *args, double ops, double seconds, const char *extra)
{
    printf("RESULT %s %u %.0f %.6f %ld%s%s\n", args->name, args->threads, ops, seconds, bench_peak_rss_kib(), *extra ? " " : "", extra);
    fflush(stdout);
}

/* Of a workload that draws what it does: whether it was only asked what that is. */
static inline bool bench_tells(const bench_args *args, const char *words)
{
    if (!args->mode)
        return false;
    if (strcmp(args->mode, "tell") != 0)
        bench_usage(args->name, "its one mode is tell");
    puts(words);
    return true;
}

/* ---- random numbers: splitmix64, one state per thread ---- */
typedef struct {
    uint64_t state;
} bench_rng;

static inline bench_rng rng_make(uint64_t seed, unsigned lane)
{
    return (bench_rng){(seed ^ 0x6a09e667f3bcc909u) + 0x9e3779b97f4a7c15u * ((uint64_t)lane * 977 + 1)};
}

static inline uint64_t rng_next(bench_rng *rng)
{
    uint64_t mixed = rng->state += 0x9e3779b97f4a7c15u;
    mixed = (mixed ^ (mixed >> 30)) * 0xbf58476d1ce4e5b9u;
    mixed = (mixed ^ (mixed >> 27)) * 0x94d049bb133111ebu;
    return mixed ^ (mixed >> 31);
}

/* Uniform in 0..bound-1; bound below 2^32. */
static inline size_t rng_below(bench_rng *rng, size_t bound)
{
    return (size_t)(((rng_next(rng) >> 32) * (uint64_t)bound) >> 32);
}

static inline size_t rng_between(bench_rng *rng, size_t low, size_t high)
{
    return low + rng_below(rng, high - low + 1);
}

static inline double rng_unit(bench_rng *rng)
{
    return (double)(rng_next(rng) >> 11) * 0x1p-53;
}

/* Between two sizes, as likely in one doubling as in the next. */
static inline double rng_log(bench_rng *rng, double low, double high)
{
    return exp(log(low) + rng_unit(rng) * (log(high) - log(low)));
}

/* ---- stamped blocks: the size and a key in the first word, a byte of it at the end ---- */
static inline uint64_t stamp_of(const void *block, size_t bytes)
{
    return ((uint64_t)(uintptr_t)block * 0x9e3779b97f4a7c15u) ^ ((uint64_t)bytes << 20) ^ 0x5bd1e995u;
}

static inline void stamp_write(void *block, size_t bytes)
{
    uint64_t stamp = stamp_of(block, bytes);
    if (bytes >= 8)
        memcpy(block, &stamp, 8);
    if (bytes)
        ((unsigned char *)block)[bytes - 1] = (unsigned char)(stamp >> 56);
}

static inline void stamp_check(const void *block, size_t bytes)
{
    uint64_t stamp = stamp_of(block, bytes), found = stamp;
    if (bytes >= 9) /* at 8 bytes the last byte of the word is the end byte itself, which has the same value */
        memcpy(&found, block, 8);
    if (found != stamp || (bytes && ((const unsigned char *)block)[bytes - 1] != (unsigned char)(stamp >> 56)))
        bench_die("block %p of %zu bytes was overwritten", block, bytes);
}

static inline void *stamp_alloc(size_t bytes)
{
    void *block = malloc(bytes);
    if (!block)
        bench_die("malloc(%zu) failed", bytes);
    stamp_write(block, bytes);
    return block;
}

static inline void stamp_free(void *block, size_t bytes)
{
    stamp_check(block, bytes);
    free(block);
}

/* A block that knows its own size, for the many shapes that pass blocks around: two words, then payload. */
typedef struct {
    size_t bytes;
    uint64_t stamp;
} bench_head;

static inline void *head_alloc(size_t bytes)
{
    bench_head *head;
    if (bytes < sizeof *head)
        bytes = sizeof *head;
    head = (bench_head *)malloc(bytes);
    if (!head)
        bench_die("malloc(%zu) failed", bytes);
    head->bytes = bytes;
    head->stamp = stamp_of(head, bytes);
    if (bytes > sizeof *head)
        ((unsigned char *)head)[bytes - 1] = (unsigned char)bytes;
    return head;
}

static inline void head_free(void *block)
{
    bench_head *head = (bench_head *)block;
    if (head->stamp != stamp_of(head, head->bytes))
        bench_die("block %p lost its stamp", block);
    if (head->bytes > sizeof *head && ((unsigned char *)head)[head->bytes - 1] != (unsigned char)head->bytes)
        bench_die("block %p lost its last byte", block);
    free(head);
}

/* ---- threads: run one function on N threads, each with its number, and join ---- */
typedef struct {
    void (*work)(unsigned lane, void *shared);
    void *shared;
    unsigned lane;
} bench_lane;

static inline void *bench_lane_main(void *argument)
{
    bench_lane *lane = (bench_lane *)argument;
    lane->work(lane->lane, lane->shared);
    return NULL;
}

/* With one thread the work runs on the main thread, so that the process stays single-threaded. Returns the seconds. */
static inline double bench_threads(unsigned threads, void (*work)(unsigned, void *), void *shared)
{
    pthread_t ids[MAX_THREADS];
    bench_lane lanes[MAX_THREADS];
    double start = bench_now();
    if (threads == 1) {
        work(0, shared);
        return bench_now() - start;
    }
    for (unsigned lane = 0; lane < threads; lane++) {
        lanes[lane] = (bench_lane){work, shared, lane};
        CHECK(pthread_create(&ids[lane], NULL, bench_lane_main, &lanes[lane]) == 0);
    }
    for (unsigned lane = 0; lane < threads; lane++)
        CHECK(pthread_join(ids[lane], NULL) == 0);
    return bench_now() - start;
}

/* ---- workloads with several shapes: -m names one, without -m each runs in turn ---- */
typedef struct {
    const char *mode;
    void (*run)(const bench_args *args); /* args->name is "workload/mode" there */
} bench_mode;

static inline int bench_modes(const bench_args *args, const bench_mode *modes, size_t count)
{
    char name[96];
    bool found = false;
    for (size_t i = 0; i < count; i++) {
        bench_args one = *args;
        if (args->mode && strcmp(args->mode, modes[i].mode) != 0)
            continue;
        snprintf(name, sizeof name, "%s/%s", args->name, modes[i].mode);
        one.name = name;
        one.mode = modes[i].mode;
        modes[i].run(&one);
        found = true;
    }
    if (!found) {
        fprintf(stderr, "%s: no mode '%s'; there are:", args->name, args->mode);
        for (size_t i = 0; i < count; i++)
            fprintf(stderr, " %s", modes[i].mode);
        fputc('\n', stderr);
        return 2;
    }
    return 0;
}

#define BENCH_MODES(args, modes) bench_modes(args, modes, sizeof(modes) / sizeof *(modes))

#endif
