/* Burst and idle: fill, free most of it, go idle without one more call, and read what the process still holds.
 * whole-order, whole-reverse: 1 GiB (-n scales it) freed to nothing; random2, random10: 640 MB freed at random down to 2 % and to 10 %.
 * Sizes mix 16 B to 64 KiB. The workload's own tables are mapped apart from the heap. The report has the RSS from smaps_rollup 2 s and
 * 10 s after the last free, less what was there before the burst, and what the blocks that live on need: os_kib counts the 4 KiB
 * pages and unit_kib the 64 KiB pages with a live block. promise: rss2 <= unit + 16 MiB + 5 %, rss10 <= os + 16 MiB + 5 %. */
#include "common.h"
#include <sys/mman.h>

typedef struct {
    unsigned char *block;
    size_t bytes;
} item;

typedef struct {
    item *all;
    size_t count, room, bytes_each;
    uint64_t seed;
    const char *mode;
} burst_lane;

static burst_lane lanes[MAX_THREADS];
static pthread_barrier_t freed, measured;

static long rss_kib(void)
{
    char line[256];
    long kib = -1;
    int fd_line = 0;
    FILE *file = fopen("/proc/self/smaps_rollup", "r");
    CHECK(file);
    setvbuf(file, NULL, _IONBF, 0); /* no buffer from the heap that is being watched */
    while (fd_line++ < 40 && fgets(line, sizeof line, file))
        if (sscanf(line, "Rss: %ld kB", &kib) == 1)
            break;
    fclose(file);
    CHECK(kib >= 0);
    return kib;
}

static size_t pick_bytes(bench_rng *rng)
{
    uint64_t draw = rng_next(rng);
    unsigned kind = (unsigned)(draw % 100);
    size_t low = kind < 60 ? 16 : kind < 90 ? 256 : kind < 99 ? 4096 : 32768;
    size_t high = kind < 60 ? 256 : kind < 90 ? 4096 : kind < 99 ? 32768 : 65536;
    return low + (size_t)((draw >> 32) % (high - low));
}

static void check_free(item *one)
{
    stamp_check(one->block, one->bytes);
    for (size_t at = 4096; at + 1 < one->bytes; at += 4096)
        CHECK(one->block[at] == 0x77);
    free(one->block);
    one->block = NULL;
}

static void fill(burst_lane *lane, bench_rng *rng)
{
    for (size_t bytes = 0; bytes < lane->bytes_each && lane->count < lane->room; lane->count++) {
        item *one = &lane->all[lane->count];
        one->bytes = pick_bytes(rng);
        one->block = malloc(one->bytes);
        CHECK(one->block);
        for (size_t at = 4096; at + 1 < one->bytes; at += 4096)
            one->block[at] = 0x77;
        stamp_write(one->block, one->bytes);
        bytes += one->bytes;
    }
}

static void shuffle(burst_lane *lane, bench_rng *rng)
{
    for (size_t i = lane->count; i > 1; i--) {
        size_t other = rng_below(rng, i);
        item kept = lane->all[i - 1];
        lane->all[i - 1] = lane->all[other];
        lane->all[other] = kept;
    }
}

static void fill_and_free(unsigned number)
{
    burst_lane *lane = &lanes[number];
    bench_rng rng = rng_make(lane->seed, number);
    bool in_order = strcmp(lane->mode, "whole-order") == 0;
    size_t kept = 0;
    fill(lane, &rng);
    if (strncmp(lane->mode, "random", 6) == 0) {
        shuffle(lane, &rng);
        kept = lane->count * (strcmp(lane->mode, "random2") == 0 ? 2 : 10) / 100;
    }
    for (size_t i = 0, most = lane->count - kept; i < most; i++)
        check_free(&lane->all[in_order ? i : lane->count - 1 - i]);
}

/* A thread stays alive and idle while the main thread looks: the caches of parked threads count. */
static void burst_work(unsigned number, void *unused)
{
    (void)unused;
    fill_and_free(number);
    pthread_barrier_wait(&freed);
    pthread_barrier_wait(&measured);
}

/* How many KiB of pages of `page` bytes hold a live block: marks them in a bit map over the span of the live addresses. */
static size_t live_page_kib(unsigned threads, size_t page)
{
    uintptr_t low = UINTPTR_MAX, high = 0;
    size_t pages = 0;
    for (unsigned t = 0; t < threads; t++)
        for (size_t i = 0; i < lanes[t].count; i++)
            if (lanes[t].all[i].block) {
                uintptr_t start = (uintptr_t)lanes[t].all[i].block, end = start + lanes[t].all[i].bytes - 1;
                low = start / page < low ? start / page : low;
                high = end / page > high ? end / page : high;
            }
    if (high == 0)
        return 0;
    size_t map_bytes = (high - low) / 8 + 1;
    unsigned char *map = mmap(NULL, map_bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    CHECK(map != MAP_FAILED);
    for (unsigned t = 0; t < threads; t++)
        for (size_t i = 0; i < lanes[t].count; i++)
            if (lanes[t].all[i].block) {
                uintptr_t at = (uintptr_t)lanes[t].all[i].block / page - low;
                uintptr_t end = ((uintptr_t)lanes[t].all[i].block + lanes[t].all[i].bytes - 1) / page - low;
                for (; at <= end; at++) {
                    pages += !(map[at / 8] >> (at % 8) & 1);
                    map[at / 8] |= (unsigned char)(1u << (at % 8));
                }
            }
    munmap(map, map_bytes);
    return pages * (page / KIB);
}

static double sleep_until(double when)
{
    double left = when - bench_now();
    struct timespec pause = {(time_t)left, (long)((left - (double)(time_t)left) * 1e9)};
    if (left > 0)
        nanosleep(&pause, NULL);
    return bench_now();
}

static double cpu_seconds(void)
{
    struct rusage usage;
    getrusage(RUSAGE_SELF, &usage);
    return (double)(usage.ru_utime.tv_sec + usage.ru_stime.tv_sec) + (double)(usage.ru_utime.tv_usec + usage.ru_stime.tv_usec) * 1e-6;
}

static void report(const bench_args *args, size_t blocks, double seconds, double end, long before, long full)
{
    long rss2, rss10, os_kib, unit_kib;
    double cpu = cpu_seconds();
    char extra[400];
    sleep_until(end + 2);
    rss2 = rss_kib() - before;
    sleep_until(end + 10);
    rss10 = rss_kib() - before;
    cpu = cpu_seconds() - cpu;
    os_kib = (long)live_page_kib(args->threads, 4096);
    unit_kib = (long)live_page_kib(args->threads, 65536);
    long most2 = unit_kib + unit_kib / 20 + 16384, most10 = os_kib + os_kib / 20 + 16384;
    snprintf(extra, sizeof extra,
        "full_kib=%ld rss2_kib=%ld unit_kib=%ld rss10_kib=%ld os_kib=%ld promise2=%s promise10=%s idle_cpu_ms=%.1f",
        full - before, rss2, unit_kib, rss10, os_kib, rss2 <= most2 ? "kept" : "broken", rss10 <= most10 ? "kept" : "broken", cpu * 1e3);
    bench_result(args, (double)blocks, seconds, extra);
}

/* The tables are mapped and touched before `before` is read, so that only the heap's pages count after it. */
static void prepare(const bench_args *args, size_t bytes_each)
{
    for (unsigned t = 0; t < args->threads; t++) {
        lanes[t] = (burst_lane){NULL, 0, bytes_each / 400 + 64, bytes_each, args->seed, args->mode};
        lanes[t].all = mmap(NULL, lanes[t].room * sizeof(item), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
        CHECK(lanes[t].all != MAP_FAILED);
    }
}

static void run_mode(const bench_args *args)
{
    bool whole = strncmp(args->mode, "whole", 5) == 0, threaded = args->threads > 1;
    size_t bytes_each = bench_scaled(args, (double)(whole ? 1024 * MIB : 610 * MIB), MIB) / args->threads, blocks = 0;
    pthread_t ids[MAX_THREADS];
    bench_lane work[MAX_THREADS];
    prepare(args, bytes_each);
    long before = rss_kib(), full;
    double start = bench_now(), end;
    if (threaded) {
        pthread_barrier_init(&freed, NULL, args->threads + 1);
        pthread_barrier_init(&measured, NULL, args->threads + 1);
        for (unsigned t = 0; t < args->threads; t++) {
            work[t] = (bench_lane){burst_work, NULL, t};
            CHECK(pthread_create(&ids[t], NULL, bench_lane_main, &work[t]) == 0);
        }
        pthread_barrier_wait(&freed);
    } else
        fill_and_free(0);
    end = bench_now();
    full = bench_peak_rss_kib();
    for (unsigned t = 0; t < args->threads; t++)
        blocks += lanes[t].count;
    report(args, blocks, end - start, end, before, full);
    if (threaded) {
        pthread_barrier_wait(&measured);
        for (unsigned t = 0; t < args->threads; t++)
            CHECK(pthread_join(ids[t], NULL) == 0);
    }
    for (unsigned t = 0; t < args->threads; t++) {
        for (size_t i = 0; i < lanes[t].count; i++)
            if (lanes[t].all[i].block)
                check_free(&lanes[t].all[i]);
        munmap(lanes[t].all, lanes[t].room * sizeof(item));
    }
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {
        {"whole-order", run_mode}, {"whole-reverse", run_mode}, {"random2", run_mode}, {"random10", run_mode}};
    bench_args args = bench_parse(argc, argv, "burst");
    return BENCH_MODES(&args, modes);
}
