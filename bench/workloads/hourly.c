/* Months in miniature: cycles of burst and idle. Each cycle is of another kind (sizes from 16 B to 2 MiB), replaces half of its blocks
 * while it runs, frees all but a sixty-fourth of its bytes, and goes idle; what it keeps lives for one to four cycles more, so that the
 * live bytes stay level. With threads each lane frees what its neighbour made, and in every third cycle a new thread does the lane's burst.
 * After each idle phase a line has the RSS and the wake-ups: voluntary context switches of every thread but the one that looks.
 * At the end it waits until the allocator's own threads have left and counts the wake-ups of one more second.
 * -m hours: 15 cycles of 3 s idle; short: of 0.5 s, and exit code 1 unless RSS was flat and the process that was left alone never woke;
 * leak: short, and loses a sixteenth of each burst, so that it must fail. The slope is taken between cycles of the same kind, one round of
 * the kinds apart. */
#include "common.h"
#include <dirent.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

enum { ROUNDS = 3, LIFETIME = 4, TASKS_MAX = 512, QUIET_WAIT_S = 20 };

typedef struct {
    const char *name;
    size_t low, high;
} burst_kind;

static const burst_kind kinds[] = {
    {"requests", 16, 512}, {"documents", 1024, 32768}, {"sessions", 64, 4096}, {"images", 65536, 2 << 20}, {"strings", 16, 128}};
enum { KINDS = sizeof kinds / sizeof *kinds, CYCLES = ROUNDS * KINDS };

typedef struct {
    unsigned char *block;
    size_t bytes;
} item;

typedef struct {
    item *all; /* the burst's blocks, then nothing of it */
    size_t count, room;
    item *kept[LIFETIME]; /* what ends 1..4 cycles from now */
    size_t kept_count[LIFETIME], kept_room;
    size_t live_bytes;
    bench_rng rng;
} lane_state;

static lane_state lanes[MAX_THREADS];
static pthread_barrier_t start_line, all_filled, all_freed;
static size_t bytes_each;
static unsigned lane_count, cycle;
static bool leaks;

static void *map_table(size_t bytes)
{
    void *table = mmap(NULL, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    CHECK(table != MAP_FAILED);
    return table;
}

/* ---- one burst ---- */

static item make_item(lane_state *lane, const burst_kind *kind)
{
    item one = {NULL, 0};
    size_t span = kind->high - kind->low, draw = rng_below(&lane->rng, 65536);
    one.bytes = kind->low + span * draw / 65536 * draw / 65536; /* small ones are the many */
    one.block = stamp_alloc(one.bytes);
    for (size_t at = 4096; at + 1 < one.bytes; at += 4096)
        one.block[at] = 0x5a;
    return one;
}

static void drop_item(item *one)
{
    for (size_t at = 4096; at + 1 < one->bytes; at += 4096)
        CHECK(one->block[at] == 0x5a);
    stamp_free(one->block, one->bytes);
    one->block = NULL;
}

static void fill(lane_state *lane)
{
    const burst_kind *kind = &kinds[cycle % KINDS];
    size_t bytes = 0;
    for (lane->count = 0; bytes < bytes_each && lane->count < lane->room; lane->count++) {
        lane->all[lane->count] = make_item(lane, kind);
        bytes += lane->all[lane->count].bytes;
    }
    for (size_t i = lane->count / 2; i-- > 0;) {
        item *one = &lane->all[rng_below(&lane->rng, lane->count)];
        drop_item(one);
        *one = make_item(lane, kind);
    }
}

/* Ends what was kept until now, and keeps a sixty-fourth of this burst for a while. */
static void settle(lane_state *lane)
{
    unsigned now = cycle % LIFETIME;
    for (size_t i = 0; i < lane->kept_count[now]; i++) {
        lane->live_bytes -= lane->kept[now][i].bytes;
        if (!leaks)
            drop_item(&lane->kept[now][i]);
    }
    lane->kept_count[now] = 0;
    for (size_t bytes = 0; bytes < bytes_each / (leaks ? 16 : 64);) {
        item *one = &lane->all[rng_below(&lane->rng, lane->count)];
        unsigned until = (now + 1 + (unsigned)rng_below(&lane->rng, LIFETIME)) % LIFETIME;
        if (!one->block || lane->kept_count[until] == lane->kept_room)
            continue;
        bytes += one->bytes;
        lane->live_bytes += one->bytes;
        lane->kept[until][lane->kept_count[until]++] = *one;
        one->block = NULL;
    }
}

static void *fill_and_settle(void *lane)
{
    fill(lane);
    settle(lane);
    return NULL;
}

static void burst(unsigned number)
{
    lane_state *mine = &lanes[number], *other = &lanes[(number + 1) % lane_count];
    if (lane_count > 1 && cycle % 3 == 2) {
        pthread_t id;
        CHECK(pthread_create(&id, NULL, fill_and_settle, mine) == 0);
        CHECK(pthread_join(id, NULL) == 0);
    } else
        fill_and_settle(mine);
    if (lane_count > 1)
        pthread_barrier_wait(&all_filled);
    for (size_t i = 0; i < other->count; i++)
        if (other->all[i].block)
            drop_item(&other->all[i]);
}

static void *run_lane(void *number)
{
    for (unsigned done = 0; done < CYCLES; done++) {
        pthread_barrier_wait(&start_line);
        burst((unsigned)(uintptr_t)number);
        pthread_barrier_wait(&all_freed);
    }
    pthread_barrier_wait(&start_line); /* alive until the last look */
    return NULL;
}

/* ---- watching, without one call of the allocator ---- */

static size_t read_file(const char *path, char *text, size_t room)
{
    int file = open(path, O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? 0 : read(file, text, room - 1);
    if (file >= 0)
        close(file);
    text[length > 0 ? length : 0] = 0;
    return length > 0 ? (size_t)length : 0;
}

static long number_after(const char *text, const char *word)
{
    const char *found = strstr(text, word);
    return found ? strtol(found + strlen(word), NULL, 10) : -1;
}

static long rss_kib(void)
{
    char text[4096];
    CHECK(read_file("/proc/self/smaps_rollup", text, sizeof text));
    return number_after(text, "\nRss:");
}

typedef struct {
    size_t count;
    long id[TASKS_MAX], switches[TASKS_MAX];
} task_list;

static void look_at(task_list *tasks, const char *name)
{
    char path[64], text[4096];
    long id = strtol(name, NULL, 10);
    if (id <= 0 || id == getpid())
        return; /* the main thread is the one that looks */
    snprintf(path, sizeof path, "/proc/self/task/%ld/status", id);
    if (!read_file(path, text, sizeof text))
        return; /* it has just ended */
    CHECK(tasks->count < TASKS_MAX);
    tasks->id[tasks->count] = id;
    tasks->switches[tasks->count++] = number_after(text, "\nvoluntary_ctxt_switches:");
}

static void list_tasks(task_list *tasks)
{
    _Alignas(8) char entries[8192];
    int dir = open("/proc/self/task", O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    CHECK(dir >= 0);
    tasks->count = 0;
    for (long bytes; (bytes = syscall(SYS_getdents64, dir, entries, sizeof entries)) > 0;)
        for (long at = 0; at < bytes; at += ((struct dirent64 *)(void *)(entries + at))->d_reclen)
            look_at(tasks, ((struct dirent64 *)(void *)(entries + at))->d_name);
    close(dir);
}

/* Voluntary switches between two lists; a thread that came counts all of its own, one that went counts one. */
static long wakes_between(const task_list *before, const task_list *after)
{
    long wakes = 0;
    size_t stayed = 0;
    for (size_t i = 0; i < after->count; i++) {
        size_t k = 0;
        while (k < before->count && before->id[k] != after->id[i])
            k++;
        stayed += k < before->count;
        wakes += after->switches[i] - (k < before->count ? before->switches[k] : 0);
    }
    return wakes + (long)(before->count - stayed);
}

static void sleep_ms(unsigned ms)
{
    struct timespec left = {ms / 1000, (long)(ms % 1000) * 1000000};
    while (nanosleep(&left, &left) != 0)
        ;
}

static task_list tasks_before, tasks_after;

static long idle_wakes(unsigned ms)
{
    list_tasks(&tasks_before);
    sleep_ms(ms);
    list_tasks(&tasks_after);
    return wakes_between(&tasks_before, &tasks_after);
}

/* Waits until only the lanes are left; returns the seconds, or -1 when a thread of the allocator stays for good. */
static double wait_until_quiet(size_t own)
{
    double start = bench_now(), now = start;
    do {
        list_tasks(&tasks_before);
        now = bench_now();
        if (tasks_before.count == own)
            return now - start;
        sleep_ms(100);
    } while (now - start < QUIET_WAIT_S);
    return -1;
}

/* ---- the run ---- */

typedef struct {
    long rss[CYCLES], live[CYCLES], wakes, quiet_wakes;
    double busy, quiet_after;
} record;

/* KiB a cycle that RSS less the live bytes has grown by, from the first round but one to the last. */
static double slope_of(const record *seen)
{
    double grown = 0;
    for (unsigned i = CYCLES - KINDS; i < CYCLES; i++)
        grown += (double)(seen->rss[i] - seen->live[i]) - (double)(seen->rss[i - KINDS] - seen->live[i - KINDS]);
    return grown / KINDS / KINDS;
}

static void one_cycle(record *seen, long base, unsigned idle_ms)
{
    size_t live = 0;
    double start = bench_now();
    if (lane_count > 1) {
        pthread_barrier_wait(&start_line);
        pthread_barrier_wait(&all_freed);
    } else
        burst(0);
    double took = bench_now() - start;
    for (unsigned t = 0; t < lane_count; t++)
        live += lanes[t].live_bytes;
    sleep_ms(20); /* the lanes have come to rest */
    long wakes = idle_wakes(idle_ms);
    seen->busy += took;
    seen->wakes += wakes;
    seen->live[cycle] = (long)(live / KIB);
    seen->rss[cycle] = rss_kib() - base;
    printf("cycle %2u %-9s busy %.3f s, then live %6ld KiB, RSS %6ld KiB, %ld wake-ups\n", cycle, kinds[cycle % KINDS].name, took,
        seen->live[cycle], seen->rss[cycle], wakes);
}

static void prepare(const bench_args *args)
{
    lane_count = args->threads;
    bytes_each = bench_scaled(args, 96.0 * MIB, 4 * MIB) / lane_count;
    for (unsigned t = 0; t < lane_count; t++) {
        lanes[t].rng = rng_make(args->seed, t);
        lanes[t].room = bytes_each / 32;
        lanes[t].all = map_table(lanes[t].room * sizeof(item));
        lanes[t].kept_room = lanes[t].room / 32 + 16;
        for (int k = 0; k < LIFETIME; k++)
            lanes[t].kept[k] = map_table(lanes[t].kept_room * sizeof(item));
    }
}

static void finish(pthread_t *ids)
{
    if (lane_count > 1) {
        pthread_barrier_wait(&start_line);
        for (unsigned t = 0; t < lane_count; t++)
            CHECK(pthread_join(ids[t], NULL) == 0);
    }
    for (unsigned t = 0; t < lane_count; t++)
        for (int k = 0; k < LIFETIME; k++)
            for (size_t i = 0; i < lanes[t].kept_count[k]; i++)
                drop_item(&lanes[t].kept[k][i]);
}

static record run_cycles(const bench_args *args, unsigned idle_ms)
{
    static char buffer[BUFSIZ]; /* stdio must not take one from the heap that is being watched */
    static record seen;
    pthread_t ids[MAX_THREADS];
    setvbuf(stdout, buffer, _IOLBF, sizeof buffer);
    prepare(args);
    if (lane_count > 1) {
        pthread_barrier_init(&start_line, NULL, lane_count + 1);
        pthread_barrier_init(&all_freed, NULL, lane_count + 1);
        pthread_barrier_init(&all_filled, NULL, lane_count);
        for (unsigned t = 0; t < lane_count; t++)
            CHECK(pthread_create(&ids[t], NULL, run_lane, (void *)(uintptr_t)t) == 0);
    }
    long base = rss_kib();
    for (cycle = 0; cycle < CYCLES; cycle++)
        one_cycle(&seen, base, idle_ms);
    if (!leaks) {
        seen.quiet_after = wait_until_quiet(lane_count > 1 ? lane_count : 0);
        seen.quiet_wakes = idle_wakes(1000);
    }
    finish(ids);
    return seen;
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "hourly");
    const char *mode = args.mode ? args.mode : "hours";
    bool judges = strcmp(mode, "hours") != 0;
    char name[32], extra[300];
    leaks = strcmp(mode, "leak") == 0;
    if (judges && !leaks && strcmp(mode, "short") != 0)
        bench_usage("hourly", "mode is hours, short or leak");
    snprintf(name, sizeof name, "hourly/%s", mode);
    args.name = name;
    record seen = run_cycles(&args, judges ? 500 : 3000);
    double slope = slope_of(&seen);
    long first = seen.rss[CYCLES - 2 * KINDS], last = seen.rss[CYCLES - KINDS]; /* the same kind, a round apart */
    bool flat = slope <= (double)first / 100 + 256, quiet = seen.quiet_wakes == 0 && seen.quiet_after >= 0;
    snprintf(extra, sizeof extra,
        "cycles=%u first_kib=%ld last_kib=%ld slope_kib=%.1f flat=%s idle_wakes=%.1f quiet_after_s=%.1f quiet_wakes=%ld quiet=%s", CYCLES,
        first, last, slope, flat ? "kept" : "broken", (double)seen.wakes / CYCLES, seen.quiet_after, seen.quiet_wakes,
        quiet ? "kept" : "broken");
    bench_result(&args, CYCLES, seen.busy, extra);
    return judges && !(flat && quiet) ? 1 : 0;
}
