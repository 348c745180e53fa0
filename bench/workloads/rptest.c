/* The shape of rpmalloc's benchmark: each thread keeps a table of blocks of 16 to 16,000 bytes whose sizes fall off linearly; each
 * loop frees a few random blocks, allocates as many, and passes some on to a neighbour through a shared stack, who frees them. */
#include "common.h"

enum { TABLE = 2500, PER_LOOP = 40, PASS_EVERY = 5, MOST_WAITING = 16, LOW = 16, HIGH = 16000 };

typedef struct parcel {
    struct parcel *next;
    size_t count;
    void *block[PER_LOOP];
} parcel;

static _Atomic(parcel *) inbox[MAX_THREADS];
static _Atomic int waiting[MAX_THREADS]; /* parcels in each inbox: bounds the memory when a neighbour is slow or done */
static size_t loops;
static unsigned lane_count;
static uint64_t seed;

static size_t pick_bytes(bench_rng *rng)
{
    size_t a = rng_between(rng, LOW, HIGH), b = rng_between(rng, LOW, HIGH);
    return a < b ? a : b; /* the smaller of two uniform draws falls off linearly */
}

static void drain_inbox(unsigned lane)
{
    parcel *chain = atomic_exchange(&inbox[lane], NULL);
    while (chain) {
        parcel *next = chain->next;
        for (size_t i = 0; i < chain->count; i++)
            head_free(chain->block[i]);
        free(chain);
        atomic_fetch_sub(&waiting[lane], 1);
        chain = next;
    }
}

static void pass_on(unsigned lane, bench_rng *rng)
{
    parcel *sent = malloc(sizeof *sent);
    CHECK(sent);
    for (sent->count = 0; sent->count < PER_LOOP; sent->count++)
        sent->block[sent->count] = head_alloc(pick_bytes(rng));
    unsigned neighbour = (lane + 1) % lane_count;
    if (atomic_fetch_add(&waiting[neighbour], 1) >= MOST_WAITING) /* back to ourselves, who will free it in a moment */
        atomic_fetch_sub(&waiting[neighbour], 1), neighbour = lane, atomic_fetch_add(&waiting[lane], 1);
    _Atomic(parcel *) *to = &inbox[neighbour];
    sent->next = atomic_load(to);
    while (!atomic_compare_exchange_weak(to, &sent->next, sent))
        ;
}

static void run_lane(unsigned lane, void *shared)
{
    (void)shared;
    bench_rng rng = rng_make(seed, lane);
    void **table = calloc(TABLE, sizeof *table);
    CHECK(table);
    for (size_t loop = 0; loop < loops; loop++) {
        for (int i = 0; i < PER_LOOP; i++) {
            size_t slot = rng_below(&rng, TABLE);
            if (table[slot])
                head_free(table[slot]);
            table[slot] = head_alloc(pick_bytes(&rng));
        }
        if (loop % PASS_EVERY == 0)
            pass_on(lane, &rng);
        drain_inbox(lane);
    }
    for (size_t slot = 0; slot < TABLE; slot++)
        if (table[slot])
            head_free(table[slot]);
    free(table);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "rptest");
    loops = bench_scaled(&args, 60e3, 10);
    lane_count = args.threads;
    seed = args.seed;
    double seconds = bench_threads(args.threads, run_lane, NULL);
    for (unsigned lane = 0; lane < args.threads; lane++)
        drain_inbox(lane);
    bench_result(&args, (double)loops * PER_LOOP * (1.0 + 1.0 / PASS_EVERY) * args.threads, seconds, "");
    return 0;
}
