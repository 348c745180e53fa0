#!/bin/bash
# Build Heddle with every store and atomic counted: bench/atomics/watch.sh OUT.so   (see watch.c; CC from the environment is used)
# A shared library for LD_PRELOAD; nothing in src/ is changed for it. Run it with HEDDLE=passthrough:off HEDDLE_WATCH=file.
set -euo pipefail
[ $# = 1 ] || { echo "usage: $0 OUT.so" >&2; exit 2; }
here=$(cd "$(dirname "$0")" && pwd)
src=$here/../../src
system=$(uname -s | tr '[:upper:]' '[:lower:]')
sources=("$src"/base/*.c "$src/os/os_$system.c" "$src/os/${system}"_*.c "$src"/core/*.c "$src"/objects/*.c "$src"/override/*.c)
stale=no
while read -r input; do [ "$1" -nt "$input" ] || stale=yes; done < <(find "$src" "$here" "$here/../../include" -type f -name '*.*')
[ $stale = yes ] || exit 0
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
objects=()
for source in "${sources[@]}"; do
    [ -f "$source" ] || continue
    object=$work/${#objects[@]}.o
    ${CC:-cc} -std=gnu11 -O2 -fPIC -fno-builtin -fvisibility=hidden -ftls-model=initial-exec -fno-lto -fexceptions \
        -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -I"$src" -I"$here/../../include" -c -o "$object" "$source"
    objects+=("$object")
done
${CC:-cc} -std=gnu11 -O2 -fPIC -ftls-model=initial-exec -Wall -Wextra -c -o "$work/watch.o" "$here/watch.c"
# The counters first: a count that cannot be trusted is worse than none.
${CC:-cc} -std=gnu11 -O2 -fsanitize=thread --param=tsan-instrument-func-entry-exit=0 -c -o "$work/selftest.o" "$here/selftest.c"
${CC:-cc} -o "$work/selftest" "$work/selftest.o" "$work/watch.o" -lpthread
"$work/selftest"
mkdir -p "$(dirname "$1")"
${CC:-cc} -shared -o "$work/out.so" "${objects[@]}" "$work/watch.o" -Wl,-z,nodelete -Wl,-z,now -Wl,-z,defs \
    -Wl,--version-script="$src/heddle.map" -ldl -lpthread
mv "$work/out.so" "$1"
