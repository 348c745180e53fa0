/* Heddle's pools beside malloc: takes, gives and pairs, batch-timed as meter.h says. One form a process (-f); warm only. */
#include "meter.h"

#include <heddle/handle.h>
#include <heddle/index_pool.h>
#include <heddle/pool.h>

/* What a pool hands out is named by a number: an address, an index or a handle. 0 is none. */
typedef struct {
    const char *name;
    void *(*create)(size_t bytes);
    uint64_t (*take)(void *pool, size_t bytes);
    void *(*at)(void *pool, uint64_t item);
    void (*give)(void *pool, uint64_t item);
    size_t (*destroy)(void *pool); /* items left */
} pool_form;

/* ---- pools ---- */
static void *create_pool(size_t bytes, bool shared)
{
    hd_pool_config config = {.struct_bytes = sizeof config, .name = "bench", .item_bytes = bytes, .alignment = 16, .shared = shared};
    return hd_pool_create(&config);
}

static void *own_create(size_t bytes)
{
    return create_pool(bytes, false);
}

static void *shared_create(size_t bytes)
{
    return create_pool(bytes, true);
}

METER_INLINE uint64_t pool_take(void *pool, size_t bytes)
{
    (void)bytes;
    return (uint64_t)(uintptr_t)hd_pool_take(pool);
}

METER_INLINE void *pool_at(void *pool, uint64_t item)
{
    (void)pool;
    return (void *)(uintptr_t)item;
}

METER_INLINE void pool_give(void *pool, uint64_t item)
{
    hd_pool_give(pool, (void *)(uintptr_t)item);
}

static size_t pool_destroy(void *pool)
{
    return hd_pool_destroy(pool);
}

/* ---- index pools: slots of 16 bytes ---- */
enum { SLOT_BYTES = 16 };

static void *index_create(size_t bytes)
{
    (void)bytes;
    hd_index_config config = {.struct_bytes = sizeof config, .name = "bench", .slot_bytes = SLOT_BYTES, .maximum = 1 << 24};
    return hd_index_pool_create(&config);
}

METER_INLINE uint64_t index_take(void *pool, size_t bytes)
{
    return hd_index_pool_take(pool, (uint32_t)((bytes + SLOT_BYTES - 1) / SLOT_BYTES));
}

METER_INLINE void *index_at(void *pool, uint64_t item)
{
    return hd_index_pool_at(pool, (uint32_t)item);
}

METER_INLINE void index_give(void *pool, uint64_t item)
{
    hd_index_pool_give(pool, (uint32_t)item);
}

static size_t index_destroy(void *pool)
{
    hd_index_stats stats = {.struct_bytes = sizeof stats};
    METER_CHECK(hd_index_pool_stats_get(pool, &stats), "no statistics of the index pool");
    hd_index_pool_destroy(pool);
    return (size_t)stats.used_count;
}

/* ---- handles ---- */
static void *handle_create(size_t bytes)
{
    (void)bytes;
    return hd_handles_create(&(hd_handles_config){.struct_bytes = sizeof(hd_handles_config), .name = "bench"});
}

METER_INLINE uint64_t handle_take(void *pool, size_t bytes)
{
    return hd_handles_alloc(pool, bytes);
}

METER_INLINE void *handle_at(void *pool, uint64_t item)
{
    return hd_handles_get(pool, item);
}

METER_INLINE void handle_give(void *pool, uint64_t item)
{
    hd_handles_free(pool, item);
}

static size_t handle_destroy(void *pool)
{
    return hd_handles_destroy(pool);
}

static const pool_form form_pool = {"pool", own_create, pool_take, pool_at, pool_give, pool_destroy};
static const pool_form form_shared = {"shared-pool", shared_create, pool_take, pool_at, pool_give, pool_destroy};
static const pool_form form_index = {"index-pool", index_create, index_take, index_at, index_give, index_destroy};
static const pool_form form_handle = {"handles", handle_create, handle_take, handle_at, handle_give, handle_destroy};

/* ---- the loops ---- */
typedef struct {
    meter_series take, give, pair;
} pool_series;

METER_INLINE uint64_t take(const pool_form *form, void *pool, size_t bytes, size_t i, bool touch)
{
    uint64_t item = form->take(pool, bytes);
    if (__builtin_expect(!item, 0))
        meter_die(1, "%s: no item of %zu bytes", form->name, bytes);
    if (touch)
        meter_fill(form->at(pool, item), bytes, i, true);
    __asm__ volatile("" : "+r"(item)::"memory");
    return item;
}

METER_INLINE void run_form(const meter_options *options, const meter_clock *clock, size_t bytes, pool_series *series, const pool_form *form)
{
    static uint64_t items[METER_BATCH];
    static void *blocks[METER_BATCH];
    size_t batches = meter_rounds(options, bytes) / METER_BATCH, unheard = batches / 20 + 1;
    pool_series none = {0};
    void *pool = form->create(bytes);
    if (!pool)
        meter_die(1, "%s: no pool for %zu bytes", form->name, bytes);
    for (size_t batch = 0; batch < unheard + batches; batch++) {
        pool_series *heard = batch < unheard ? &none : series;
        uint64_t start = meter_start();
        for (size_t i = 0; i < METER_BATCH; i++)
            items[i] = take(form, pool, bytes, i, options->touch);
        meter_note(&heard->take, clock, meter_stop() - start, METER_BATCH);
        for (size_t i = 0; i < METER_BATCH; i++)
            blocks[i] = form->at(pool, items[i]);
        if (batch < unheard || options->touch)
            meter_verify(options, blocks, METER_BATCH, bytes);
        start = meter_start();
        for (size_t i = 0; i < METER_BATCH; i++)
            form->give(pool, items[i]);
        meter_note(&heard->give, clock, meter_stop() - start, METER_BATCH);
        start = meter_start();
        for (size_t i = 0; i < METER_BATCH; i++)
            form->give(pool, take(form, pool, bytes, i, options->touch));
        meter_note(&heard->pair, clock, meter_stop() - start, METER_BATCH);
    }
    size_t left = form->destroy(pool);
    METER_CHECK(left == 0, "%s: %zu items left at the end", form->name, left);
}

int main(int argc, char **argv)
{
    meter_options options = meter_parse(argc, argv, "f:w:s:tb:n:x");
    if (options.single || options.cold || options.life)
        meter_usage(argv[0], "pools are measured in batches, warm");
    meter_clock clock = meter_clock_measure();
    const char *form = options.form ? options.form : "";
    for (unsigned i = 0; i < options.size_count; i++) {
        size_t bytes = options.sizes[i];
        pool_series series = {meter_series_new(), meter_series_new(), meter_series_new()};
        if (!strcmp(form, form_pool.name))
            run_form(&options, &clock, bytes, &series, &form_pool);
        else if (!strcmp(form, form_shared.name))
            run_form(&options, &clock, bytes, &series, &form_shared);
        else if (!strcmp(form, form_index.name))
            run_form(&options, &clock, bytes, &series, &form_index);
        else if (!strcmp(form, form_handle.name))
            run_form(&options, &clock, bytes, &series, &form_handle);
        else
            meter_die(2, "%s: -f takes one of: pool shared-pool index-pool handles", argv[0]);
        meter_print(&options, "take", bytes, METER_BATCH, &series.take);
        meter_print(&options, "give", bytes, METER_BATCH, &series.give);
        meter_print(&options, "take+give", bytes, METER_BATCH, &series.pair);
    }
    meter_finish(&clock);
    return 0;
}
