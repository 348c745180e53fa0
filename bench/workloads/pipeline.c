/* A message pipeline of three stages over bounded queues: read makes packets of messages, transform replaces each message by a new one of
 * another size, write verifies and frees them. -t is the number of pipelines (three threads each). */
#include "queue.h"

enum { PACKET = 32 };

typedef struct {
    size_t count;
    void *message[PACKET];
} packet;

typedef struct {
    bench_queue raw, cooked;
    size_t packets, written;
    bench_rng rng;
} pipe_line;

static void *read_stage(void *argument)
{
    pipe_line *line = argument;
    for (size_t i = 0; i < line->packets; i++) {
        packet *made = malloc(sizeof *made);
        CHECK(made);
        for (made->count = 0; made->count < PACKET; made->count++)
            made->message[made->count] = head_alloc(rng_between(&line->rng, 24, 600));
        queue_put(&line->raw, made);
    }
    queue_close(&line->raw);
    return NULL;
}

static void *transform_stage(void *argument)
{
    pipe_line *line = argument;
    for (packet *given; (given = queue_take(&line->raw)) != NULL;) {
        for (size_t i = 0; i < given->count; i++) {
            size_t bytes = ((bench_head *)given->message[i])->bytes;
            head_free(given->message[i]);
            given->message[i] = head_alloc(bytes + bytes / 2 + 16);
        }
        queue_put(&line->cooked, given);
    }
    queue_close(&line->cooked);
    return NULL;
}

static void *write_stage(void *argument)
{
    pipe_line *line = argument;
    for (packet *given; (given = queue_take(&line->cooked)) != NULL; line->written++) {
        for (size_t i = 0; i < given->count; i++)
            head_free(given->message[i]);
        free(given);
    }
    return NULL;
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "pipeline");
    void *(*const stage[3])(void *) = {read_stage, transform_stage, write_stage};
    size_t packets = bench_scaled(&args, 60e3, 4);
    pipe_line *lines = calloc(args.threads, sizeof *lines);
    pthread_t *ids = calloc(3 * (size_t)args.threads, sizeof *ids);
    CHECK(lines && ids);
    double start = bench_now();
    for (unsigned t = 0; t < args.threads; t++) {
        lines[t] = (pipe_line){BENCH_QUEUE_INIT, BENCH_QUEUE_INIT, packets, 0, rng_make(args.seed, t)};
        for (int s = 0; s < 3; s++)
            CHECK(pthread_create(&ids[3 * t + (unsigned)s], NULL, stage[s], &lines[t]) == 0);
    }
    for (unsigned i = 0; i < 3 * args.threads; i++)
        CHECK(pthread_join(ids[i], NULL) == 0);
    double seconds = bench_now() - start;
    for (unsigned t = 0; t < args.threads; t++)
        CHECK(lines[t].written == packets);
    free(ids);
    free(lines);
    bench_result(&args, (double)packets * PACKET * 2 * args.threads, seconds, "");
    return 0;
}
