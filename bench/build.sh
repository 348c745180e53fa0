#!/bin/bash
# Compile every workload: bench/build.sh OUTDIR   (CC, CXX, CFLAGS and CXXFLAGS from the environment are used)
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 OUTDIR" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
mkdir -p "$1"
compile() {   # the compiler must not see through malloc and free, or whole pairs vanish
    case $1 in
        *.cpp) language="${CXX:-c++} -std=c++17 ${CXXFLAGS:--O2}" ;;
        *) language="${CC:-cc} -std=gnu11 ${CFLAGS:--O2}" ;;
    esac
    $language -fno-builtin-malloc -fno-builtin-calloc -fno-builtin-realloc -fno-builtin-free -Wall -Wextra -o "$2" "$1" -lpthread -lm
}
for source in "$here"/workloads/*.c "$here"/workloads/*.cpp; do
    out=$1/$(basename "${source%.*}")
    stale=no
    for input in "$source" "$here"/workloads/*.h "$0"; do [ "$out" -nt "$input" ] || stale=yes; done
    [ $stale = no ] || compile "$source" "$out"
done
if [ ! "$1/launch" -nt "$here/launch.c" ]; then
    ${CC:-cc} -std=gnu11 -O2 -Wall -Wextra -static -o "$1/launch" "$here/launch.c"
fi
