/* Log lines: a text buffer is made, split into lines, each line split into fields that become strings of their own; the batch is freed
 * together when it is full. Lengths and a checksum of the fields are verified against the text. */
#include "common.h"

enum { BATCH = 2000, FIELDS = 8 };

typedef struct {
    char *field[FIELDS];
    unsigned count;
} line_record;

static size_t write_line(char *to, bench_rng *rng)
{
    static const char *const level[] = {"INFO", "WARN", "ERROR", "DEBUG"};
    static const char filler[] = "the quick brown fox jumps over the lazy dog and then some more words follow "
                                 "to make long messages as they occur in life";
    uint64_t draw = rng_next(rng);
    return (size_t)sprintf(to, "%llu|%s|host-%u|worker-%u|%llx|%.*s\n", (unsigned long long)(1700000000 + draw % 100000000),
        level[draw >> 62], (unsigned)(draw >> 20 & 255), (unsigned)(draw >> 30 & 63), (unsigned long long)draw,
        (int)(draw >> 40 & 127) % (int)sizeof filler, filler);
}

static line_record *split_line(const char *line, size_t length)
{
    line_record *made = malloc(sizeof *made);
    CHECK(made);
    made->count = 0;
    for (const char *at = line, *end = line + length; at < end && made->count < FIELDS;) {
        const char *stop = memchr(at, '|', (size_t)(end - at));
        size_t bytes = (size_t)((stop ? stop : end) - at);
        char *copy = malloc(bytes + 1);
        CHECK(copy);
        memcpy(copy, at, bytes);
        copy[bytes] = 0;
        made->field[made->count++] = copy;
        at += bytes + 1;
    }
    return made;
}

static size_t free_record(line_record *record)
{
    size_t bytes = 0;
    for (unsigned i = 0; i < record->count; i++) {
        bytes += strlen(record->field[i]) + 1;
        free(record->field[i]);
    }
    free(record);
    return bytes;
}

static void run_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t batches = bench_scaled(args, 240, 1);
    bench_rng rng = rng_make(args->seed, lane);
    for (size_t batch = 0; batch < batches; batch++) {
        char *text = malloc(BATCH * 256);
        line_record **record = malloc(BATCH * sizeof *record);
        size_t length[BATCH], at = 0;
        CHECK(text && record);
        for (int i = 0; i < BATCH; i++)
            at += length[i] = write_line(text + at, &rng);
        at = 0;
        for (int i = 0; i < BATCH; at += length[i++])
            record[i] = split_line(text + at, length[i] - 1);
        for (int i = 0; i < BATCH; i++) /* an empty last field leaves no string: its separator is the byte missing then */
            CHECK(free_record(record[i]) + 1 >= length[i]);
        free(record);
        free(text);
    }
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "loglines");
    double seconds = bench_threads(args.threads, run_lane, &args);
    bench_result(&args, (double)bench_scaled(&args, 240, 1) * BATCH * args.threads, seconds, "");
    return 0;
}
