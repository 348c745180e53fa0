/* A server that forks: a parent with 60 MB in small blocks, a fifth of them freed here and there, makes children one after the other, and
 * each works on what it has from it. -m requests: 2,000 blocks live, taken and freed 100,000 times, and nothing of its parent's is touched;
 * replace: one of 30 of its parent's blocks is freed, and another one taken; frees: a tenth is freed. What a child writes to is copied for
 * it. extra: the system pages that a child has for itself in the end and did not have at first, in KiB, as a mean. */
#include "common.h"
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

enum { BLOCKS = 600000, LIVE = 2000, REQUESTS = 100000, ONE_OF = 30 };

typedef struct {
    void *p;
    uint32_t bytes;
} block;

static block all[BLOCKS];

/* As likely below 32 bytes as between 256 and 512. */
static size_t draw_size(bench_rng *rng)
{
    return 16 + rng_below(rng, (size_t)16 << rng_below(rng, 6));
}

static void take(block *one, bench_rng *rng)
{
    one->bytes = (uint32_t)draw_size(rng);
    one->p = stamp_alloc(one->bytes);
}

static void drop(block *one)
{
    if (one->p)
        stamp_free(one->p, one->bytes);
    one->p = NULL;
}

static void handle_requests(bench_rng *rng)
{
    static block live[LIVE];
    for (size_t i = 0; i < REQUESTS; i++) {
        block *one = &live[rng_below(rng, LIVE)];
        drop(one);
        take(one, rng);
    }
}

static void replace_some(bench_rng *rng)
{
    for (size_t i = 0; i < BLOCKS / ONE_OF; i++) {
        block *one = &all[rng_below(rng, BLOCKS)];
        drop(one);
        take(one, rng);
    }
}

static void free_some(bench_rng *rng)
{
    for (size_t i = 0; i < BLOCKS; i++)
        if (rng_below(rng, 10) == 0)
            drop(&all[i]);
}

/* Bytes in pages that are this process's own. Without malloc, which would write to some. */
static size_t own_kib(void)
{
    static char text[8192];
    size_t length = 0;
    int file = open("/proc/self/smaps_rollup", O_RDONLY);
    CHECK(file >= 0);
    for (ssize_t got = 1; got > 0; length += (size_t)got) {
        got = read(file, text + length, sizeof text - 1 - length);
        CHECK(got >= 0);
    }
    close(file);
    text[length] = 0;
    const char *line = strstr(text, "Private_Dirty:");
    CHECK(line);
    return strtoul(line + sizeof "Private_Dirty:" - 1, NULL, 10);
}

static void run_child(const bench_args *args, bench_rng rng, size_t *more_kib)
{
    size_t before = own_kib();
    if (strcmp(args->mode, "requests") == 0)
        handle_requests(&rng);
    else if (strcmp(args->mode, "replace") == 0)
        replace_some(&rng);
    else
        free_some(&rng);
    *more_kib += own_kib() - before;
    _exit(0);
}

static void run_parent(const bench_args *args)
{
    size_t children = bench_scaled(args, 20, 1);
    bench_rng rng = rng_make(args->seed, 0);
    size_t *more_kib = mmap(NULL, sizeof *more_kib, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    CHECK(more_kib != MAP_FAILED);
    for (size_t i = 0; i < BLOCKS; i++)
        take(&all[i], &rng);
    for (size_t i = 0; i < BLOCKS; i++)
        if (rng_below(&rng, 5) == 0)
            drop(&all[i]);
    double start = bench_now();
    for (size_t i = 0; i < children; i++) {
        int status = 0;
        pid_t child = fork();
        CHECK(child >= 0);
        if (child == 0)
            run_child(args, rng_make(args->seed, (unsigned)i + 1), more_kib);
        CHECK(waitpid(child, &status, 0) == child && status == 0);
    }
    double seconds = bench_now() - start;
    for (size_t i = 0; i < BLOCKS; i++)
        drop(&all[i]);
    char extra[64];
    snprintf(extra, sizeof extra, "own_kib=%zu", *more_kib / children);
    munmap(more_kib, sizeof *more_kib);
    bench_result(args, (double)children, seconds, extra);
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"requests", run_parent}, {"replace", run_parent}, {"frees", run_parent}};
    bench_args args = bench_parse(argc, argv, "prefork");
    return BENCH_MODES(&args, modes);
}
