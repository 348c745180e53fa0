/* One loop, measured inside: thousands of operations are a slice, and what counts is the time that an operation takes in the fastest tenth
 * of the slices and in the middle one. A neighbour who uses the machine's caches for a moment spoils some slices, not the figure.
 *
 * -m SHAPE-LOW-HIGH-COUNT[-TOUCH], blocks of LOW to HIGH bytes, each thread its own COUNT of them:
 *   lifo, fifo, random   made, then freed newest first, oldest first, in an order drawn once
 *   stay                 made and freed in order, but one in ten lives on for a while
 *   replace, queue       one at random, or the oldest, is freed and another one made; calloc: at random, by calloc
 *   grow, grow16         a block grows from LOW to HIGH bytes by realloc, by half of its size or by 16 bytes
 * TOUCH: 0 the first byte is written, 1 the last one as well, 2 all of them. -n: seconds. */
#include "common.h"

enum { COUNT_MOST = 1 << 18, SLICES = 1 << 17, STEPS = 5000, LONG_STEPS = 100, LONG = 100000, KEPT = 1000 };

typedef struct {
    size_t shape; /* its place among `shapes` */
    size_t low, high, count, touch;
    double seconds;
    uint32_t *order;
    pthread_barrier_t start;
} slices_plan;

typedef struct {
    slices_plan *plan;
    void **block, *kept[KEPT];
    bench_rng rng;
    size_t oldest, slices;
    double *ns; /* of an operation, by slice */
} slices_lane;

static slices_lane lanes[MAX_THREADS];

static void *make(slices_lane *lane, bool zeroed)
{
    const slices_plan *plan = lane->plan;
    size_t bytes = rng_between(&lane->rng, plan->low, plan->high);
    char *block = zeroed ? calloc(1, bytes) : malloc(bytes);
    CHECK(block && (!zeroed || (block[0] == 0 && block[bytes - 1] == 0)));
    if (plan->touch == 2)
        memset(block, 1, bytes);
    *(volatile char *)block = 1;
    if (plan->touch == 1)
        *(volatile char *)(block + bytes - 1) = 1;
    return block;
}

static size_t make_all(slices_lane *lane)
{
    for (size_t i = 0; i < lane->plan->count; i++)
        lane->block[i] = make(lane, false);
    return lane->plan->count;
}

static size_t lifo(slices_lane *lane)
{
    for (size_t i = make_all(lane); i > 0; i--)
        free(lane->block[i - 1]);
    return lane->plan->count;
}

static size_t fifo(slices_lane *lane)
{
    size_t count = make_all(lane);
    for (size_t i = 0; i < count; i++)
        free(lane->block[i]);
    return count;
}

static size_t shuffled(slices_lane *lane)
{
    size_t count = make_all(lane);
    for (size_t i = 0; i < count; i++)
        free(lane->block[lane->plan->order[i]]);
    return count;
}

static size_t stay(slices_lane *lane)
{
    size_t count = make_all(lane);
    for (size_t i = 0; i < count; i++) {
        size_t which = rng_below(&lane->rng, 10 * KEPT);
        void *old = lane->block[i];
        if (which < KEPT) {
            old = lane->kept[which];
            lane->kept[which] = lane->block[i];
        }
        free(old);
    }
    return count;
}

static size_t exchange(slices_lane *lane, bool in_order, bool zeroed)
{
    size_t count = lane->plan->count, steps = lane->plan->high >= LONG ? LONG_STEPS : STEPS;
    for (size_t i = 0; i < steps; i++) {
        size_t where = in_order ? lane->oldest++ % count : rng_below(&lane->rng, count);
        free(lane->block[where]);
        lane->block[where] = make(lane, zeroed);
    }
    return steps;
}

static size_t replace(slices_lane *lane)
{
    return exchange(lane, false, false);
}

static size_t queue(slices_lane *lane)
{
    return exchange(lane, true, false);
}

static size_t zeroed(slices_lane *lane)
{
    return exchange(lane, false, true);
}

static size_t grow_by(slices_lane *lane, size_t divisor)
{
    size_t ops = 0;
    while (ops < STEPS) {
        size_t bytes = lane->plan->low;
        char *block = malloc(bytes);
        CHECK(block);
        for (; bytes < lane->plan->high; ops++) {
            bytes += 16 + (divisor ? bytes / divisor : 0);
            CHECK(block = realloc(block, bytes));
            *(volatile char *)(block + bytes - 1) = 1;
        }
        free(block);
    }
    return ops;
}

static size_t grow(slices_lane *lane)
{
    return grow_by(lane, 2);
}

static size_t grow16(slices_lane *lane)
{
    return grow_by(lane, 0);
}

static const struct {
    const char *name;
    size_t (*run)(slices_lane *lane);
    bool keeps; /* its blocks live from slice to slice */
} shapes[] = {{"lifo", lifo, false}, {"fifo", fifo, false}, {"random", shuffled, false}, {"stay", stay, false}, {"replace", replace, true},
    {"queue", queue, true}, {"calloc", zeroed, true}, {"grow", grow, false}, {"grow16", grow16, false}};

enum { SHAPES = sizeof shapes / sizeof *shapes };

static void run_lane(unsigned number, void *shared)
{
    slices_plan *plan = shared;
    slices_lane *lane = &lanes[number];
    pthread_barrier_wait(&plan->start);
    if (shapes[plan->shape].keeps)
        make_all(lane);
    shapes[plan->shape].run(lane); /* the first one makes the heap grow */
    for (double end = bench_now() + plan->seconds, now = bench_now(); now < end && lane->slices < SLICES;) {
        double ops = (double)shapes[plan->shape].run(lane), then = bench_now();
        lane->ns[lane->slices++] = (then - now) * 1e9 / ops;
        now = then;
    }
}

static int by_value(const void *left, const void *right)
{
    double a = *(const double *)left, b = *(const double *)right;
    return (a > b) - (a < b);
}

static bool parse(slices_plan *plan, const char *mode)
{
    char name[16];
    int fields = sscanf(mode, "%15[a-z0-9]-%zu-%zu-%zu-%zu", name, &plan->low, &plan->high, &plan->count, &plan->touch);
    if (fields < 4)
        return false;
    while (plan->shape < SHAPES && strcmp(name, shapes[plan->shape].name) != 0)
        plan->shape++;
    bool sound = plan->low > 0 && plan->low <= plan->high && plan->count > 0 && plan->count <= COUNT_MOST && plan->touch <= 2;
    return plan->shape < SHAPES && sound;
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "slices");
    static slices_plan plan;
    if (!args.mode || !parse(&plan, args.mode))
        bench_usage("slices", "-m SHAPE-LOW-HIGH-COUNT[-TOUCH], as replace-16-1024-5000");
    plan.seconds = args.scale;
    bench_rng rng = rng_make(args.seed, MAX_THREADS);
    CHECK(plan.order = malloc(plan.count * sizeof *plan.order));
    for (size_t i = 0; i < plan.count; i++) {
        size_t other = rng_below(&rng, i + 1);
        plan.order[i] = plan.order[other];
        plan.order[other] = (uint32_t)i;
    }
    CHECK(pthread_barrier_init(&plan.start, NULL, args.threads) == 0);
    for (unsigned i = 0; i < args.threads; i++) {
        lanes[i] = (slices_lane){.plan = &plan, .rng = rng_make(args.seed, i)};
        CHECK(lanes[i].block = calloc(plan.count, sizeof(void *)));
        CHECK(lanes[i].ns = calloc(SLICES, sizeof(double)));
    }
    double seconds = bench_threads(args.threads, run_lane, &plan);
    size_t total = 0;
    for (unsigned i = 0; i < args.threads; i++)
        total += lanes[i].slices;
    double *all = malloc((total + 1) * sizeof *all);
    CHECK(all && total > 0);
    total = 0;
    for (unsigned i = 0; i < args.threads; i++) {
        memcpy(all + total, lanes[i].ns, lanes[i].slices * sizeof *all);
        total += lanes[i].slices;
    }
    qsort(all, total, sizeof *all, by_value);
    char extra[96];
    snprintf(extra, sizeof extra, "ns=%.3f median=%.3f slices=%zu", all[total / 10], all[total / 2], total);
    bench_result(&args, (double)total, seconds, extra);
    return 0;
}
