#!/bin/bash
# Compile every workload: bench/build.sh OUTDIR   (CC and CFLAGS from the environment are used)
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 OUTDIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
compile() {   # the compiler must not see through malloc and free, or whole pairs vanish
    ${CC:-cc} -std=gnu11 ${CFLAGS:--O2} -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free \
        -Wall -Wextra -o "$2" "$1" -lpthread -lm
}
for source in "$here"/workloads/*.c; do
    out=$1/$(basename "$source" .c)
    stale=no
    for input in "$source" "$here"/workloads/*.h "$0"; do [ "$out" -nt "$input" ] || stale=yes; done
    [ $stale = no ] || compile "$source" "$out"
done
if [ ! "$1/launch" -nt "$here/launch.c" ]; then
    ${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -static -o "$1/launch" "$here/launch.c"
fi
