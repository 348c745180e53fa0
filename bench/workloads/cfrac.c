/* In the manner of cfrac: a continued fraction worked out in big numbers, every intermediate result a fresh small block that dies
 * young. Numerators h(i) = a(i) h(i-1) + h(i-2) of sqrt(n) are folded back by a modulus so that they stay a few words long;
 * the same recurrence in machine words modulo a prime checks each result. */
#include "common.h"

typedef struct {
    uint32_t used; /* words in use, the lowest first */
    uint32_t word[];
} big;

static const uint64_t prime = 4294967291u; /* 2^32 - 5 */
enum { MOST_WORDS = 12 };

static big *big_make(uint32_t used)
{
    big *made = malloc(sizeof(big) + (size_t)used * sizeof(uint32_t));
    CHECK(made);
    made->used = used;
    return made;
}

static big *big_trim(big *number)
{
    while (number->used > 1 && number->word[number->used - 1] == 0)
        number->used--;
    return number;
}

static big *big_from(uint32_t value)
{
    big *made = big_make(1);
    made->word[0] = value;
    return made;
}

static big *big_times(const big *a, uint32_t factor)
{
    big *made = big_make(a->used + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < a->used; i++, carry >>= 32) {
        carry += (uint64_t)a->word[i] * factor;
        made->word[i] = (uint32_t)carry;
    }
    made->word[a->used] = (uint32_t)carry;
    return big_trim(made);
}

static big *big_plus(const big *a, const big *b)
{
    const big *longer = a->used >= b->used ? a : b, *shorter = longer == a ? b : a;
    big *made = big_make(longer->used + 1);
    uint64_t carry = 0;
    for (uint32_t i = 0; i < longer->used; i++, carry >>= 32) {
        carry += (uint64_t)longer->word[i] + (i < shorter->used ? shorter->word[i] : 0);
        made->word[i] = (uint32_t)carry;
    }
    made->word[longer->used] = (uint32_t)carry;
    return big_trim(made);
}

static uint32_t big_modulo(const big *a, uint64_t divisor)
{
    uint64_t rest = 0;
    for (uint32_t i = a->used; i-- > 0;)
        rest = ((rest << 32) | a->word[i]) % divisor;
    return (uint32_t)rest;
}

static void run_lane(unsigned lane, void *shared)
{
    const bench_args *args = shared;
    size_t terms = bench_scaled(args, 8e6, 100);
    bench_rng rng = rng_make(args->seed, lane);
    uint64_t radicand = 1000003 + 2 * rng_below(&rng, 1000000), root = 1;
    while ((root + 1) * (root + 1) <= radicand)
        root++;
    if (root * root == radicand)
        radicand++, root += (root + 1) * (root + 1) == radicand;
    uint64_t m = 0, d = 1, a = root, before = 1, now = root % prime;
    big *h1 = big_from(1), *h = big_from((uint32_t)root);
    for (size_t i = 0; i < terms; i++) {
        m = d * a - m;
        d = (radicand - m * m) / d;
        a = (root + m) / d;
        big *product = big_times(h, (uint32_t)a), *sum = big_plus(product, h1);
        uint64_t next = (a * now + before) % prime;
        CHECK(big_modulo(sum, prime) == next);
        free(product);
        free(h1);
        h1 = h, h = sum, before = now, now = next;
        if (h->used > MOST_WORDS) { /* start over from the residues: short numbers again */
            free(h), free(h1);
            h = big_from((uint32_t)now), h1 = big_from((uint32_t)before);
        }
    }
    free(h), free(h1);
}

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "cfrac");
    double seconds = bench_threads(args.threads, run_lane, &args);
    bench_result(&args, (double)bench_scaled(&args, 8e6, 100) * 2 * args.threads, seconds, "");
    return 0;
}
