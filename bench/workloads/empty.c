/* The empty program: what an allocator costs before the first useful thing is done. One small block, checked. */
#include "common.h"

int main(int argc, char **argv)
{
    bench_args args = bench_parse(argc, argv, "empty");
    double start = bench_now();
    stamp_free(stamp_alloc(64), 64);
    bench_result(&args, 1, bench_now() - start, "");
    return 0;
}
