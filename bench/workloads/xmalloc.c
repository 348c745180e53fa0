/* Lever and Boreham's producer and consumer test: some threads only allocate, others only free, batch by batch through a queue.
 * With one thread the same thread does both. */
#include "queue.h"

enum { BATCH = 512 };
static const uint16_t sizes[] = {16, 24, 32, 48, 64, 72, 96, 128, 160, 200, 256, 320, 400, 512, 768, 1024};

typedef struct {
    void *block[BATCH];
} batch;

static bench_queue queue = BENCH_QUEUE_INIT;
static unsigned producers, open_producers;
static size_t batches_each, batches_freed;
static uint64_t seed;
static pthread_mutex_t tally_lock = PTHREAD_MUTEX_INITIALIZER;

static batch *make_batch(bench_rng *rng)
{
    batch *made = malloc(sizeof *made);
    CHECK(made);
    for (int i = 0; i < BATCH; i++)
        made->block[i] = head_alloc(sizes[rng_below(rng, sizeof sizes / sizeof *sizes)]);
    return made;
}

static void free_batch(batch *given)
{
    for (int i = 0; i < BATCH; i++)
        head_free(given->block[i]);
    free(given);
}

static void produce(unsigned lane)
{
    bench_rng rng = rng_make(seed, lane);
    for (size_t i = 0; i < batches_each; i++)
        queue_put(&queue, make_batch(&rng));
    pthread_mutex_lock(&tally_lock);
    bool last = --open_producers == 0;
    pthread_mutex_unlock(&tally_lock);
    if (last)
        queue_close(&queue);
}

static void consume(void)
{
    size_t freed = 0;
    for (batch *given; (given = queue_take(&queue)) != NULL; freed++)
        free_batch(given);
    pthread_mutex_lock(&tally_lock);
    batches_freed += freed;
    pthread_mutex_unlock(&tally_lock);
}

static void run_lane(unsigned lane, void *shared)
{
    (void)shared;
    if (lane < producers)
        produce(lane);
    else
        consume();
}

static void run_alone(unsigned lane, void *shared)
{
    (void)shared;
    bench_rng rng = rng_make(seed, lane);
    for (size_t i = 0; i < batches_each; i += 8) {
        for (int k = 0; k < 8; k++)
            queue_put(&queue, make_batch(&rng));
        for (int k = 0; k < 8; k++, batches_freed++)
            free_batch(queue_take(&queue));
    }
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "xmalloc");
    seed = args.seed;
    producers = open_producers = args.threads > 1 ? args.threads / 2 : 1;
    batches_each = (bench_scaled(&args, 12e3, 8) + 7) / 8 * 8;
    double seconds = bench_threads(args.threads, args.threads == 1 ? run_alone : run_lane, NULL);
    CHECK(batches_freed == batches_each * producers);
    bench_result(&args, (double)batches_freed * BATCH, seconds, "");
    return 0;
}
