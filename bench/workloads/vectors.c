/* Growing vectors: tables of rows are filled by push-back (doubling), each row a vector of its own that ends between 4 and 64 Ki items;
 * a table is summed up and dropped before the next. Small and middle reallocs up to 512 KiB. */
#include "common.h"

typedef struct {
    uint64_t *item;
    size_t used, room;
} vector;

static void push(vector *v, uint64_t value)
{
    if (v->used == v->room) {
        v->room = v->room ? v->room * 2 : 2;
        v->item = realloc(v->item, v->room * sizeof *v->item);
        CHECK(v->item);
    }
    v->item[v->used++] = value;
}

static void run_lane(unsigned lane, void *shared)
{
    enum { ROWS = 64 };
    const bench_args *args = shared;
    size_t tables = bench_scaled(args, 240, 1);
    bench_rng rng = rng_make(args->seed, lane);
    for (size_t table = 0; table < tables; table++) {
        vector row[ROWS] = {{NULL, 0, 0}};
        size_t goal[ROWS], open = ROWS;
        uint64_t pushed = 0, summed = 0;
        for (int r = 0; r < ROWS; r++)
            goal[r] = ((size_t)4 << rng_below(&rng, 14)) + rng_below(&rng, 3);
        while (open > 0) /* rows grow in turn, so that no one can always grow in place */
            for (int r = 0; r < ROWS; r++)
                for (int burst = 0; burst < 16 && row[r].used < goal[r]; burst++) {
                    push(&row[r], row[r].used ^ (uint64_t)r);
                    pushed += row[r].used ^ 1u;
                    open -= row[r].used == goal[r];
                }
        for (int r = 0; r < ROWS; r++) {
            for (size_t i = 0; i < row[r].used; i++) {
                CHECK(row[r].item[i] == (i ^ (uint64_t)r));
                summed += (i + 1) ^ 1u;
            }
            free(row[r].item);
        }
        CHECK(pushed == summed);
    }
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "vectors");
    double seconds = bench_threads(args.threads, run_lane, &args);
    bench_result(&args, (double)bench_scaled(&args, 240, 1) * 64 * args.threads, seconds, "");
    return 0;
}
