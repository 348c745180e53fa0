/* Trees and maps built and torn down. binary: many short-lived binary trees of growing depth beside one that lives on; tall: pairs of trees
 * of half a million nodes, more than caches hold, made, walked and felled again and again; map: hash maps with chained entries and string
 * keys that grow by rehashing, and are dropped whole; list: long lists whose nodes are made among temporaries of about their size, as a
 * parser makes them, walked many times and dropped. Sums and counts are verified. */
#include "common.h"

typedef struct node {
    struct node *left, *right;
} node;

static node *grow_tree(int depth)
{
    node *made = malloc(sizeof *made);
    CHECK(made);
    made->left = depth > 0 ? grow_tree(depth - 1) : NULL;
    made->right = depth > 0 ? grow_tree(depth - 1) : NULL;
    return made;
}

static size_t fell_tree(node *tree)
{
    size_t count = tree->left ? fell_tree(tree->left) + fell_tree(tree->right) : 0;
    free(tree);
    return count + 1;
}

static void binary_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t rounds = bench_scaled(args, 24, 1);
    (void)lane;
    node *lasting = grow_tree(16);
    for (size_t round = 0; round < rounds; round++)
        for (int depth = 4; depth <= 16; depth += 4)
            for (int copies = 1 << (16 - depth); copies > 0; copies--)
                CHECK(fell_tree(grow_tree(depth)) == ((size_t)2 << depth) - 1);
    CHECK(fell_tree(lasting) == ((size_t)2 << 16) - 1);
}

enum { TALL = 18 };

typedef struct branch {
    struct branch *left, *right;
    uint64_t value;
} branch;

static branch *grow_branch(uint64_t value, int depth)
{
    branch *made = malloc(sizeof *made);
    CHECK(made);
    *made = (branch){NULL, NULL, value};
    if (depth > 0) {
        made->left = grow_branch(2 * value, depth - 1);
        made->right = grow_branch(2 * value + 1, depth - 1);
    }
    return made;
}

static uint64_t walk_branch(const branch *from)
{
    return from->value + (from->left ? walk_branch(from->left) + walk_branch(from->right) : 0);
}

static void fell_branch(branch *from)
{
    if (from->left) {
        fell_branch(from->left);
        fell_branch(from->right);
    }
    free(from);
}

/* Values are 1 for the root, and number the nodes level by level. */
static void tall_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t rounds = bench_scaled(args, 5, 1);
    uint64_t nodes = ((uint64_t)2 << TALL) - 1;
    (void)lane;
    for (size_t round = 0; round < rounds; round++) {
        branch *one = grow_branch(1, TALL), *other = grow_branch(1, TALL);
        CHECK(walk_branch(one) == nodes * (nodes + 1) / 2);
        CHECK(walk_branch(other) == nodes * (nodes + 1) / 2);
        fell_branch(one);
        fell_branch(other);
    }
}

typedef struct entry {
    struct entry *next;
    uint64_t key, value;
    char *text;
} entry;

typedef struct {
    entry **bucket;
    size_t buckets, count;
} map;

static void map_add(map *m, uint64_t key, bench_rng *rng)
{
    if (m->count >= m->buckets) {
        size_t buckets = m->buckets ? m->buckets * 2 : 16;
        entry **fresh = calloc(buckets, sizeof *fresh);
        CHECK(fresh);
        for (size_t i = 0; i < m->buckets; i++)
            for (entry *e = m->bucket[i], *next; e; e = next) {
                next = e->next;
                e->next = fresh[e->key % buckets];
                fresh[e->key % buckets] = e;
            }
        free(m->bucket);
        m->bucket = fresh;
        m->buckets = buckets;
    }
    entry *made = malloc(sizeof *made);
    size_t bytes = rng_between(rng, 8, 48);
    CHECK(made);
    *made = (entry){m->bucket[key % m->buckets], key, ~key, malloc(bytes)};
    CHECK(made->text);
    snprintf(made->text, bytes, "%lx", (unsigned long)key);
    m->bucket[key % m->buckets] = made;
    m->count++;
}

static size_t map_drop(map *m)
{
    size_t dropped = 0;
    for (size_t i = 0; i < m->buckets; i++)
        for (entry *e = m->bucket[i], *next; e; e = next, dropped++) {
            next = e->next;
            CHECK(e->value == ~e->key && e->text[0]);
            free(e->text);
            free(e);
        }
    free(m->bucket);
    return dropped;
}

static void map_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t maps = bench_scaled(args, 60, 1);
    bench_rng rng = rng_make(args->seed, lane);
    for (size_t i = 0; i < maps; i++) {
        size_t entries = (size_t)100 << rng_below(&rng, 11);
        map m = {NULL, 0, 0};
        for (size_t k = 0; k < entries; k++)
            map_add(&m, rng_next(&rng), &rng);
        CHECK(map_drop(&m) == entries);
    }
}

enum { ITEMS = 100000, WALKS = 20 };

typedef struct item {
    struct item *next;
    uint64_t value[3];
} item;

static void list_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t rounds = bench_scaled(args, 12, 1);
    bench_rng rng = rng_make(args->seed, lane);
    for (size_t round = 0; round < rounds; round++) {
        item *first = NULL;
        uint64_t made = 0, found = 0;
        for (size_t i = 0; i < ITEMS; i++) {
            item *one = malloc(sizeof *one);
            CHECK(one);
            *one = (item){first, {i + round}};
            made += i + round;
            first = one;
            for (size_t words = rng_below(&rng, 4); words > 0; words--) {
                char *word = malloc(rng_between(&rng, 17, 32));
                CHECK(word);
                word[0] = word[16] = (char)words;
                CHECK(word[0] == word[16]);
                free(word);
            }
        }
        for (int walk = 0; walk < WALKS; walk++)
            for (const item *one = first; one; one = one->next)
                found += one->value[0];
        CHECK(found == made * WALKS);
        for (item *next; first; first = next) {
            next = first->next;
            free(first);
        }
    }
}

static void run_list(const bench_args *args)
{
    double seconds = bench_threads(args->threads, list_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 12, 1) * ITEMS * args->threads, seconds, "");
}

static void run_binary(const bench_args *args)
{
    double seconds = bench_threads(args->threads, binary_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 24, 1) * 4 * 131072 * args->threads, seconds, "");
}

static void run_tall(const bench_args *args)
{
    double seconds = bench_threads(args->threads, tall_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 5, 1) * 2 * ((2 << TALL) - 1) * args->threads, seconds, "");
}

static void run_map(const bench_args *args)
{
    double seconds = bench_threads(args->threads, map_lane, (void *)args);
    bench_result(args, (double)bench_scaled(args, 60, 1) * args->threads, seconds, "");
}

int main(int argc, char **argv)
{
    static const bench_mode modes[] = {{"binary", run_binary}, {"tall", run_tall}, {"map", run_map}, {"list", run_list}};
    bench_args args = bench_parse(argc, argv, "tree");
    return BENCH_MODES(&args, modes);
}
