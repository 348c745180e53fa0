/* In the manner of espresso: sets of cubes (short bit vectors) are copied, intersected, and thinned out by containment, so that small
 * blocks of a few sizes, pointer arrays that grow, and a few long-lived covers mix. Each cube carries the count of its bits. */
#include "common.h"

typedef struct {
    uint32_t words, bits;
    uint32_t word[];
} cube;

typedef struct {
    size_t used, room;
    cube **item;
} cover;

static uint32_t count_bits(const cube *c)
{
    uint32_t bits = 0;
    for (uint32_t i = 0; i < c->words; i++)
        bits += (uint32_t)__builtin_popcount(c->word[i]);
    return bits;
}

static cube *cube_make(uint32_t words)
{
    cube *made = malloc(sizeof(cube) + words * sizeof(uint32_t));
    CHECK(made);
    made->words = words;
    return made;
}

static void cube_free(cube *c)
{
    CHECK(count_bits(c) == c->bits);
    free(c);
}

static cube *cube_random(bench_rng *rng, uint32_t words)
{
    cube *made = cube_make(words);
    for (uint32_t i = 0; i < words; i++)
        made->word[i] = (uint32_t)(rng_next(rng) | rng_next(rng));
    made->bits = count_bits(made);
    return made;
}

static cube *cube_and(const cube *a, const cube *b)
{
    cube *made = cube_make(a->words);
    for (uint32_t i = 0; i < a->words; i++)
        made->word[i] = a->word[i] & b->word[i];
    made->bits = count_bits(made);
    return made;
}

static bool cube_within(const cube *a, const cube *b)
{
    for (uint32_t i = 0; i < a->words; i++)
        if (a->word[i] & ~b->word[i])
            return false;
    return true;
}

static cover *cover_make(void)
{
    cover *made = calloc(1, sizeof *made);
    CHECK(made);
    return made;
}

static void cover_add(cover *set, cube *c)
{
    if (set->used == set->room) {
        set->room = set->room ? set->room + set->room / 2 : 4;
        set->item = realloc(set->item, set->room * sizeof *set->item);
        CHECK(set->item);
    }
    set->item[set->used++] = c;
}

static void cover_free(cover *set)
{
    for (size_t i = 0; i < set->used; i++)
        cube_free(set->item[i]);
    free(set->item);
    free(set);
}

/* Pairwise intersections of two covers, without the nearly empty and without those that lie within the one before. */
static cover *cover_meet(const cover *a, const cover *b)
{
    cover *made = cover_make();
    for (size_t i = 0; i < a->used; i++)
        for (size_t k = 0; k < b->used; k++) {
            cube *met = cube_and(a->item[i], b->item[k]);
            if (met->bits < met->words * 4 || (made->used && cube_within(met, made->item[made->used - 1])))
                cube_free(met);
            else
                cover_add(made, met);
        }
    return made;
}

static void run_lane(unsigned lane, void *shared)
{
    enum { KEPT = 64 };
    const bench_args *args = shared;
    size_t rounds = bench_scaled(args, 100e3, 4);
    bench_rng rng = rng_make(args->seed, lane);
    cover *kept[KEPT] = {NULL};
    for (size_t round = 0; round < rounds; round++) {
        uint32_t words = (uint32_t)rng_between(&rng, 2, 10);
        cover *a = cover_make(), *b = cover_make();
        for (size_t i = rng_between(&rng, 2, 12); i-- > 0;)
            cover_add(a, cube_random(&rng, words));
        for (size_t i = rng_between(&rng, 2, 12); i-- > 0;)
            cover_add(b, cube_random(&rng, words));
        cover *met = cover_meet(a, b);
        size_t slot = rng_below(&rng, KEPT);
        cover_free(a);
        cover_free(b);
        if (kept[slot])
            cover_free(kept[slot]);
        kept[slot] = met;
    }
    for (size_t slot = 0; slot < KEPT; slot++)
        if (kept[slot])
            cover_free(kept[slot]);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "espresso");
    double seconds = bench_threads(args.threads, run_lane, &args);
    bench_result(&args, (double)bench_scaled(&args, 100e3, 4) * args.threads, seconds, "");
    return 0;
}
