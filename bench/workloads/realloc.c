/* Growing and cutting by realloc. many: thousands of small vectors that grow by half, in turn, and are dropped at random; touched: one
 * buffer that grows by 1.5 x to 256 MiB and is written as it grows; untouched: the same without a write; append: a hundred texts to which
 * words and lines are added in turn, each exactly as long as what it holds; shrink: buffers of 64 KiB to 8 MiB, filled in part, cut to
 * that and kept for a while. What was kept is verified. */
#include "common.h"

static void many_lane(unsigned lane, void *shared)
{
    enum { VECTORS = 4096, FIRST = 4, MOST = 8192 };
    const bench_args *args = shared;
    size_t steps = bench_scaled(args, 12e6, 100);
    bench_rng rng = rng_make(args->seed, lane);
    struct vector {
        uint32_t *item;
        uint32_t used, room, most;
    } *all = calloc(VECTORS, sizeof *all);
    CHECK(all);
    for (size_t i = 0; i < steps; i++) {
        uint64_t draw = rng_next(&rng);
        struct vector *v = &all[draw % VECTORS];
        if (v->used == v->room) {
            if (v->room >= v->most) {
                for (uint32_t k = 0; k < v->used; k += v->used / 4 + 1)
                    CHECK(v->item[k] == k * 2654435761u);
                free(v->item);
                *v = (struct vector){NULL, 0, 0, (uint32_t)(FIRST << (draw >> 60)) % MOST + FIRST};
            }
            v->room = v->room ? v->room + v->room / 2 : FIRST;
            v->item = realloc(v->item, v->room * sizeof *v->item);
            CHECK(v->item);
        }
        for (int k = 0; k < 4 && v->used < v->room; k++, v->used++)
            v->item[v->used] = v->used * 2654435761u;
    }
    for (size_t i = 0; i < VECTORS; i++)
        free(all[i].item);
    free(all);
}

static void run_many(const bench_args *args)
{
    double seconds = bench_threads(args->threads, many_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 12e6, 100) * args->threads, seconds, "");
}

static void append_lane(unsigned lane, void *shared)
{
    enum { TEXTS = 100, PIECE = 64 };
    const bench_args *args = shared;
    size_t steps = bench_scaled(args, 6e6, 100);
    bench_rng rng = rng_make(args->seed, lane);
    struct text {
        unsigned char *at;
        size_t bytes, most;
    } *all = calloc(TEXTS, sizeof *all);
    CHECK(all);
    for (size_t i = 0; i < steps; i++) {
        uint64_t draw = rng_next(&rng);
        struct text *t = &all[draw % TEXTS];
        size_t more = (draw >> 32) % PIECE + 1;
        if (t->bytes + more > t->most) {
            for (size_t k = 0; k < t->bytes; k += t->bytes / 8 + 1)
                CHECK(t->at[k] == (unsigned char)(k * 31));
            free(t->at);
            *t = (struct text){NULL, 0, PIECE + ((draw >> 40) % 1024 << (draw >> 61))};
        }
        t->at = realloc(t->at, t->bytes + more);
        CHECK(t->at);
        for (size_t k = t->bytes; k < t->bytes + more; k++)
            t->at[k] = (unsigned char)(k * 31);
        t->bytes += more;
    }
    for (size_t i = 0; i < TEXTS; i++)
        free(all[i].at);
    free(all);
}

static void run_append(const bench_args *args)
{
    double seconds = bench_threads(args->threads, append_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 6e6, 100) * args->threads, seconds, "");
}

static void shrink_lane(unsigned lane, void *shared)
{
    enum { KEPT = 30 };
    const bench_args *args = shared;
    size_t steps = bench_scaled(args, 6e3, 10);
    bench_rng rng = rng_make(args->seed, lane);
    struct part {
        unsigned char *at;
        size_t bytes;
    } all[KEPT] = {{NULL, 0}};
    for (size_t i = 0; i < steps; i++) {
        uint64_t draw = rng_next(&rng);
        struct part *p = &all[draw % KEPT];
        size_t most = (size_t)64 * 1024 << (draw >> 32) % 8;
        size_t bytes = 1 + (draw >> 40) % (most / (draw >> 61 == 0 ? 1 : 8));
        unsigned char *buffer = malloc(most);
        CHECK(buffer);
        memset(buffer, (int)i, bytes);
        if (p->at)
            CHECK(p->at[0] == p->at[p->bytes - 1]);
        free(p->at);
        p->at = realloc(buffer, bytes);
        p->bytes = bytes;
        CHECK(p->at && p->at[0] == (unsigned char)i);
    }
    for (size_t i = 0; i < KEPT; i++)
        free(all[i].at);
}

static void run_shrink(const bench_args *args)
{
    double seconds = bench_threads(args->threads, shrink_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 6e3, 10) * args->threads, seconds, "");
}

static void grow_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    bool touched = strcmp(args->mode, "touched") == 0;
    size_t rounds = bench_scaled(args, touched ? 2 : 100, 1);
    for (size_t round = 0; round < rounds; round++) {
        unsigned char *buffer = NULL;
        size_t bytes = 0, next = 4096;
        for (; bytes < 256 * MIB; bytes = next, next = next + next / 2 > 256 * MIB ? 256 * MIB : next + next / 2) {
            buffer = realloc(buffer, next);
            CHECK(buffer);
            if (!touched)
                continue;
            if (bytes)
                CHECK(buffer[0] == (unsigned char)lane && buffer[bytes - 1] == (unsigned char)lane);
            memset(buffer + bytes, (int)lane, next - bytes);
        }
        for (size_t at = 0; touched && at < bytes; at += MIB)
            CHECK(buffer[at] == (unsigned char)lane);
        free(buffer);
    }
}

static void run_grow(const bench_args *args)
{
    bool touched = strcmp(args->mode, "touched") == 0;
    double seconds = bench_threads(args->threads, grow_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, touched ? 2 : 100, 1) * args->threads, seconds, "");
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"many", run_many}, {"append", run_append}, {"shrink", run_shrink},
                                       {"touched", run_grow}, {"untouched", run_grow}};
    bench_args args = bench_parse(argc, argv, "realloc");
    return BENCH_MODES(&args, modes);
}
