/* Heddle's arenas and the scheme of the published manager, measured as meter.h says. One form a process (-f).
 *
 *   warm  batch   100 points, 100 releases, 100 allocs, 100 triples of point + alloc + release, 32 resets of arenas in use
 *   warm  single  the same one by one: point, alloc, release; a triple; an alloc and a reset; the paper's loop
 *   cold          points and allocs until 64 MiB of fresh arena are used, then the releases, then one reset of all
 *   life          create, alloc them all, destroy, in one reading
 * A release must lead back to the same place, blocks must keep their content, and nothing may be left at the end: else status 3. */
#include "arena.h"
#include "forms.h"

enum { RESETS = 32 };

typedef struct {
    meter_series alloc, point, release, reset, triple, life;
} arena_series;

typedef struct {
    const meter_options *options;
    const meter_clock *clock;
    arena_series *series;
    size_t bytes;
    void *arena;
    void *spare[RESETS]; /* for resets in a batch */
    void **blocks;
    void *first; /* where the first block after a point lies: every release leads back to it */
} arena_run;

METER_INLINE void *take(const arena_form *form, void *arena, size_t bytes, size_t i, bool touch)
{
    void *p = form->alloc(arena, bytes);
    if (__builtin_expect(!p, 0))
        meter_die(1, "%s: no room for %zu bytes", form->name, bytes);
    return meter_fill(p, bytes, i, touch);
}

METER_INLINE void mark(const arena_form *form, void *arena, size_t depth)
{
    if (__builtin_expect(!form->point(arena, depth), 0))
        meter_die(1, "%s: no room for a point", form->name);
}

METER_INLINE void *triple(const arena_form *form, void *arena, size_t bytes, size_t i, bool touch)
{
    mark(form, arena, 0);
    void *p = take(form, arena, bytes, i, touch);
    form->release(arena, 0);
    return p;
}

static void expect_same(const arena_run *run, const arena_form *form, const void *p)
{
    METER_CHECK(p == run->first || form->chunked, "%s: after a release the next block is at %p, not at %p", form->name, p, run->first);
}

/* ---- warm ---- */

METER_INLINE void time_nested_points(const arena_run *run, const arena_form *form)
{
    uint64_t start = meter_start();
    for (size_t i = 0; i < METER_BATCH; i++)
        mark(form, run->arena, i);
    meter_note(&run->series->point, run->clock, meter_stop() - start, METER_BATCH);
    start = meter_start();
    for (size_t i = METER_BATCH; i-- > 0;)
        form->release(run->arena, i);
    meter_note(&run->series->release, run->clock, meter_stop() - start, METER_BATCH);
}

METER_INLINE void time_resets(const arena_run *run, const arena_form *form)
{
    for (size_t i = 0; i < RESETS; i++)
        take(form, run->spare[i], run->bytes, i, run->options->touch);
    uint64_t start = meter_start();
    for (size_t i = 0; i < RESETS; i++)
        form->reset(run->spare[i]);
    meter_note(&run->series->reset, run->clock, meter_stop() - start, RESETS);
}

METER_INLINE void time_batch(const arena_run *run, const arena_form *form, bool verify)
{
    bool touch = run->options->touch;
    void **blocks = run->blocks;
    time_nested_points(run, form);
    mark(form, run->arena, 0);
    uint64_t start = meter_start();
    for (size_t i = 0; i < METER_BATCH; i++)
        blocks[i] = take(form, run->arena, run->bytes, i, touch);
    meter_note(&run->series->alloc, run->clock, meter_stop() - start, METER_BATCH);
    expect_same(run, form, blocks[0]);
    if (verify)
        meter_verify(run->options, blocks, METER_BATCH, run->bytes);
    form->release(run->arena, 0);
    start = meter_start();
    for (size_t i = 0; i < METER_BATCH; i++)
        blocks[i] = triple(form, run->arena, run->bytes, i, touch);
    meter_note(&run->series->triple, run->clock, meter_stop() - start, METER_BATCH);
    for (size_t i = 0; i < METER_BATCH; i++)
        expect_same(run, form, blocks[i]);
    time_resets(run, form);
}

METER_INLINE void time_single(const arena_run *run, const arena_form *form, size_t i, bool verify)
{
    bool touch = run->options->touch;
    uint64_t start = meter_start();
    mark(form, run->arena, 0);
    uint64_t ticks = meter_stop() - start;
    meter_note(&run->series->point, run->clock, ticks, 1);
    start = meter_start();
    void *p = take(form, run->arena, run->bytes, i, touch);
    ticks = meter_stop() - start;
    meter_note(&run->series->alloc, run->clock, ticks, 1);
    expect_same(run, form, p);
    run->blocks[0] = p;
    if (verify && !touch) /* a filled block has its byte by the round's number: only looked at in batches */
        meter_verify(run->options, run->blocks, 1, run->bytes);
    start = meter_start();
    form->release(run->arena, 0);
    ticks = meter_stop() - start;
    meter_note(&run->series->release, run->clock, ticks, 1);
    start = meter_start();
    p = triple(form, run->arena, run->bytes, i, touch);
    ticks = meter_stop() - start;
    meter_note(&run->series->triple, run->clock, ticks, 1);
    expect_same(run, form, p);
    take(form, run->spare[0], run->bytes, i, touch);
    start = meter_start();
    form->reset(run->spare[0]);
    ticks = meter_stop() - start;
    meter_note(&run->series->reset, run->clock, ticks, 1);
}

METER_INLINE void run_warm(arena_run *run, const arena_form *form)
{
    size_t rounds = meter_rounds(run->options, run->bytes), unit = run->options->single ? 1 : METER_BATCH;
    arena_series unheard = {0}, *series = run->series;
    mark(form, run->arena, 0);
    run->first = take(form, run->arena, run->bytes, 0, true);
    form->release(run->arena, 0);
    for (int heard = 0; heard < 2; heard++) { /* the first twentieth makes the memory warm and goes uncounted, but is looked at */
        run->series = heard ? series : &unheard;
        for (size_t i = 0; i < (heard ? rounds : rounds / 20 + unit); i += unit)
            run->options->single ? time_single(run, form, i, !heard) : time_batch(run, form, !heard || run->options->touch);
    }
}

/* ---- cold, life ---- */

METER_INLINE void run_cold(arena_run *run, const arena_form *form)
{
    size_t rounds = meter_rounds(run->options, run->bytes);
    unsigned unit = run->options->single ? 1 : METER_BATCH;
    bool touch = run->options->touch;
    void **blocks = run->blocks;
    for (size_t from = 0; from < rounds; from += unit) {
        uint64_t start = meter_start();
        for (size_t i = from; i < from + unit; i++)
            mark(form, run->arena, i);
        uint64_t ticks = meter_stop() - start;
        meter_note(&run->series->point, run->clock, ticks, unit);
        start = meter_start();
        for (size_t i = from; i < from + unit; i++)
            blocks[i] = take(form, run->arena, run->bytes, i, touch);
        ticks = meter_stop() - start;
        meter_note(&run->series->alloc, run->clock, ticks, unit);
    }
    if (touch || run->options->spoil)
        meter_verify(run->options, blocks, rounds, run->bytes);
    for (size_t left = rounds; left > 0; left -= unit) {
        uint64_t start = meter_start();
        for (size_t i = left; i-- > left - unit;)
            form->release(run->arena, i);
        uint64_t ticks = meter_stop() - start;
        meter_note(&run->series->release, run->clock, ticks, unit);
    }
    for (size_t i = 0; i < rounds; i++)
        take(form, run->arena, run->bytes, i, touch);
    uint64_t start = meter_start();
    form->reset(run->arena);
    meter_note(&run->series->reset, run->clock, meter_stop() - start, 1);
}

METER_INLINE void *create(const arena_form *form, size_t room)
{
    void *arena = form->create(room);
    if (!arena)
        meter_die(1, "%s: no arena of %zu bytes", form->name, room);
    return arena;
}

METER_INLINE void run_life(arena_run *run, const arena_form *form, size_t room)
{
    size_t rounds = meter_rounds(run->options, run->bytes);
    uint64_t start = meter_start();
    void *arena = create(form, room);
    for (size_t i = 0; i < rounds; i++)
        run->blocks[i] = take(form, arena, run->bytes, i, run->options->touch);
    form->destroy(arena);
    meter_note(&run->series->life, run->clock, meter_stop() - start, (unsigned)rounds);
}

/* ---- one form, one size ---- */

METER_INLINE void run_form(arena_run *run, const arena_form *form)
{
    size_t blocks = run->options->cold || run->options->life ? meter_rounds(run->options, run->bytes) : METER_BATCH;
    size_t each = (run->bytes + ARENA_ALIGNMENT - 1) & ~(size_t)(ARENA_ALIGNMENT - 1), point = 64;
    size_t room = blocks * (each + point) + (64 << 10);
    if (run->options->life) {
        run_life(run, form, room);
        return;
    }
    run->arena = create(form, room);
    for (size_t i = 0; i < RESETS; i++)
        run->spare[i] = create(form, each + point);
    run->options->cold ? run_cold(run, form) : run_warm(run, form);
    METER_CHECK(form->destroy(run->arena), "%s: something was left in the arena at the end", form->name);
    for (size_t i = 0; i < RESETS; i++)
        METER_CHECK(form->destroy(run->spare[i]), "%s: something was left in an arena after a reset", form->name);
}

#define RUN_FORM(form) \
    static void run_##form(arena_run *run) \
    { \
        run_form(run, &form_##form); \
    }
ARENA_FORMS(RUN_FORM)

static const struct {
    const arena_form *form;
    void (*run)(arena_run *run);
} forms[] = {
#define ROW(form) {&form_##form, run_##form},
    ARENA_FORMS(ROW)
};

static void (*find_form(const meter_options *options))(arena_run *)
{
    for (size_t i = 0; options->form && i < sizeof forms / sizeof *forms; i++)
        if (!strcmp(forms[i].form->name, options->form))
            return forms[i].run;
    fprintf(stderr, "%s: -f takes one of:", options->program);
    for (size_t i = 0; i < sizeof forms / sizeof *forms; i++)
        fprintf(stderr, " %s", forms[i].form->name);
    meter_die(2, "%s", "");
}

int main(int argc, char **argv)
{
    meter_options options = meter_parse(argc, argv, "f:w:s:tb:n:x");
    void (*measure)(arena_run *) = find_form(&options);
    meter_clock clock = meter_clock_measure();
    void **blocks = meter_list(&options);
    memset(kept_marks, 1, sizeof kept_marks);
    for (unsigned i = 0; i < options.size_count; i++) {
        size_t bytes = options.sizes[i];
        unsigned each = options.single ? 1 : METER_BATCH;
        arena_series series = {meter_series_new(), meter_series_new(), meter_series_new(),
                               meter_series_new(), meter_series_new(), meter_series_new()};
        arena_run run = {.options = &options, .clock = &clock, .series = &series, .bytes = bytes, .blocks = blocks};
        measure(&run);
        meter_print(&options, "alloc", bytes, each, &series.alloc);
        meter_print(&options, "point", bytes, each, &series.point);
        meter_print(&options, "release", bytes, each, &series.release);
        meter_print(&options, "reset", bytes, options.single || options.cold ? 1 : RESETS, &series.reset);
        meter_print(&options, "point+alloc+release", bytes, each, &series.triple);
        meter_print(&options, "life", bytes, each, &series.life);
    }
    meter_finish(&clock);
    return 0;
}
