/* A request server: each request makes a handful of objects (headers, body, parsed fields, response), a session table holds longer-lived
 * strings, and one response in sixteen is freed by the neighbour, as a writer thread would. */
#include "common.h"

enum { SESSIONS = 4096, FIELDS = 12, HANDED = 64 };

typedef struct {
    _Atomic(void *) slot[HANDED];
} outbox;

static outbox boxes[MAX_THREADS];
static const bench_args *run_args;

static void handle_request(bench_rng *rng, void **session, unsigned lane)
{
    void *field[FIELDS];
    size_t fields = rng_between(rng, 3, FIELDS);
    void *request = head_alloc(rng_between(rng, 200, 900)), *body = head_alloc(rng_between(rng, 64, 6000));
    for (size_t i = 0; i < fields; i++)
        field[i] = head_alloc(rng_between(rng, 16, 120));
    size_t who = rng_below(rng, SESSIONS);
    if (rng_below(rng, 4) == 0) {
        if (session[who])
            head_free(session[who]);
        session[who] = head_alloc(rng_between(rng, 32, 1500));
    }
    void *response = head_alloc(rng_between(rng, 128, 12000));
    for (size_t i = fields; i-- > 0;)
        head_free(field[i]);
    head_free(body);
    head_free(request);
    if (rng_below(rng, 16) == 0) { /* a writer elsewhere frees it; we free what others left us */
        unsigned to = (lane + 1) % run_args->threads;
        response = atomic_exchange(&boxes[to].slot[rng_below(rng, HANDED)], response);
    }
    if (response)
        head_free(response);
    response = atomic_exchange(&boxes[lane].slot[rng_below(rng, HANDED)], NULL);
    if (response)
        head_free(response);
}

static void run_lane(unsigned lane, void *shared)
{
    (void)shared;
    size_t requests = bench_scaled(run_args, 600e3, 10);
    bench_rng rng = rng_make(run_args->seed, lane);
    void **session = calloc(SESSIONS, sizeof *session);
    CHECK(session);
    for (size_t i = 0; i < requests; i++)
        handle_request(&rng, session, lane);
    for (size_t i = 0; i < SESSIONS; i++)
        if (session[i])
            head_free(session[i]);
    free(session);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "server");
    run_args = &args;
    double seconds = bench_threads(args.threads, run_lane, NULL);
    for (unsigned lane = 0; lane < args.threads; lane++)
        for (int i = 0; i < HANDED; i++)
            if (boxes[lane].slot[i])
                head_free(boxes[lane].slot[i]);
    bench_result(&args, (double)bench_scaled(&args, 600e3, 10) * args.threads, seconds, "");
    return 0;
}
