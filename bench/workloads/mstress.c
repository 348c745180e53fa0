/* The shape of mimalloc's stress test: threads build up retained blocks while they make and drop transient ones, swap some through
 * shared slots, and end; the next wave of threads starts with what is left in the shared slots. Sizes: mostly small, a few big. */
#include "common.h"

enum { WAVES = 12, SHARED_SLOTS = 1000, RETAIN_ONE_IN = 4 };

static _Atomic(void *) shared_slot[SHARED_SLOTS];
static size_t steps;
static uint64_t seed;
static unsigned wave;

static size_t pick_bytes(bench_rng *rng)
{
    size_t words = (size_t)1 << rng_below(rng, 5); /* 1..16 words, then now and then far more */
    if (rng_below(rng, 100) == 0)
        words *= 100;
    if (rng_below(rng, 1000) == 0)
        words *= 10;
    return 8 * (words + rng_below(rng, words + 1));
}

static void run_lane(unsigned lane, void *unused)
{
    (void)unused;
    bench_rng rng = rng_make(seed + wave, lane);
    size_t room = steps / RETAIN_ONE_IN + 1, transient_room = 64, transients = 0, kept = 0;
    void **retained = calloc(room, sizeof *retained);
    void *transient[64];
    CHECK(retained);
    for (size_t i = 0; i < steps; i++) {
        size_t choice = rng_below(&rng, 100);
        if (transients < transient_room && choice < 60)
            transient[transients++] = head_alloc(pick_bytes(&rng));
        else if (transients > 0)
            head_free(transient[--transients]);
        if (kept < room && choice % RETAIN_ONE_IN == 0)
            retained[kept++] = head_alloc(pick_bytes(&rng));
        else if (kept > 0 && choice < 40) {
            size_t slot = rng_below(&rng, kept);
            head_free(retained[slot]);
            retained[slot] = retained[--kept];
        }
        if (kept > 0 && choice < 25) { /* swap one block with the world */
            size_t slot = rng_below(&rng, kept);
            void *other = atomic_exchange(&shared_slot[rng_below(&rng, SHARED_SLOTS)], retained[slot]);
            retained[slot] = other ? other : retained[--kept];
        }
    }
    while (transients > 0)
        head_free(transient[--transients]);
    while (kept > 0)
        head_free(retained[--kept]);
    free(retained);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "mstress");
    double seconds = 0;
    seed = args.seed;
    steps = bench_scaled(&args, 1e6, 100);
    for (wave = 0; wave < WAVES; wave++) {
        seconds += bench_threads(args.threads, run_lane, NULL);
        for (size_t slot = wave % 2; slot < SHARED_SLOTS; slot += 2) { /* the main thread frees half of what waits there */
            void *left = atomic_exchange(&shared_slot[slot], NULL);
            if (left)
                head_free(left);
        }
    }
    for (size_t slot = 0; slot < SHARED_SLOTS; slot++)
        if (shared_slot[slot])
            head_free(shared_slot[slot]);
    bench_result(&args, (double)steps * WAVES * args.threads, seconds, "");
    return 0;
}
