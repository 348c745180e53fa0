#!/bin/bash
# Get the peer allocators that Heddle is measured against, as shared libraries for LD_PRELOAD.
#   usage: bench/peers.sh [DIR]        DIR defaults to build/peers and is meant to be git-ignored
# Debian's packages are linked, others are built from the sources that their packages carry. Writes DIR/peers.json
# and prints a table. What is there already is not made again (remove DIR to start over). A peer that cannot be had is
# named with its reason, both in the table and in peers.json; the exit code is 0 as long as one peer works.
set -uo pipefail
root=$(cd "$(dirname "$0")/.." && pwd)
dir=${1:-$root/build/peers}
mkdir -p "$dir/src" "$dir/log" || exit 1
dir=$(cd "$dir" && pwd)
records=$dir/records.tsv
: >"$records"
jobs=2

have() { command -v "$1" >/dev/null 2>&1; }
record() { printf '%s\t%s\t%s\t%s\n' "$1" "$2" "$3" "$4" >>"$records"; }   # name path version problem
lacks() { record "$1" "" "" "$2"; }

# A library counts as a peer only when a program runs under it and its malloc is the one that the program gets.
works() {
    local lib=$1
    LD_PRELOAD=$lib python3 - "$lib" >/dev/null 2>"$dir/log/probe.txt" <<'PY'
import ctypes, os, sys
class Info(ctypes.Structure):
    _fields_ = [("fname", ctypes.c_char_p), ("fbase", ctypes.c_void_p), ("sname", ctypes.c_char_p), ("saddr", ctypes.c_void_p)]
me = ctypes.CDLL(None)
info = Info()
me.dladdr.argtypes = [ctypes.c_void_p, ctypes.POINTER(Info)]
address = ctypes.cast(me.malloc, ctypes.c_void_p)
assert me.dladdr(address, ctypes.byref(info)), "dladdr failed"
owner = os.path.realpath(info.fname.decode())
assert owner == os.path.realpath(sys.argv[1]), "malloc belongs to " + owner
PY
}

keep() {   # keep NAME LIB VERSION: record a peer if it works
    if works "$2"; then record "$1" "$2" "$3" ""; else lacks "$1" "does not take over malloc: $(tail -1 "$dir/log/probe.txt")"; fi
}

debian_peer() {   # debian_peer NAME PACKAGE SONAME
    local name=$1 package=$2 soname=$3 path version
    if ! dpkg-query -W -f '${Status}' "$package" 2>/dev/null | grep -q 'install ok installed'; then
        if [ "$(id -u)" != 0 ]; then
            lacks "$name" "package $package is not installed (run as root, or apt-get install $package)"; return
        fi
        if ! DEBIAN_FRONTEND=noninteractive apt-get -o DPkg::Lock::Timeout=300 install -y "$package" >"$dir/log/$package.txt" 2>&1; then
            lacks "$name" "apt-get install $package failed (log/$package.txt)"; return
        fi
    fi
    path=$(dpkg -L "$package" | grep "/$soname\$" | head -1)
    [ -n "$path" ] || { lacks "$name" "$soname is not in package $package"; return; }
    version=$(dpkg-query -W -f '${Version}' "$package")
    ln -sfn "$(readlink -f "$path")" "$dir/$name.so"
    keep "$name" "$dir/$name.so" "$version (Debian)"
}

wheel_peer() {   # wheel_peer NAME PYPI_PACKAGE VERSION
    local name=$1 package=$2 version=$3 lib=$dir/$1.so tmp=$dir/src/wheel
    if [ ! -s "$lib" ]; then
        rm -rf "$tmp"; mkdir -p "$tmp"
        python3 -m pip download -q --no-deps -d "$tmp" "$package==$version" >"$dir/log/$name.txt" 2>&1 ||
            { lacks "$name" "pip download $package==$version failed (log/$name.txt)"; return; }
        python3 - "$tmp" "$lib" 2>>"$dir/log/$name.txt" <<'PY' || { lacks "$name" "no shared library in the wheel"; return; }
import glob, os, sys, zipfile
wheel, = glob.glob(os.path.join(sys.argv[1], "*.whl"))
with zipfile.ZipFile(wheel) as z:
    member = sorted((m for m in z.namelist() if "/lib/lib" in m and ".so" in m), key=len)[0]
    with open(sys.argv[2] + ".part", "wb") as out:
        out.write(z.read(member))
os.rename(sys.argv[2] + ".part", sys.argv[2])
PY
    fi
    keep "$name" "$lib" "$version"
}

vendor_crates() {   # fetch the crates' sources once, through cargo, into src/crates/vendor
    local at=$dir/src/crates crate
    [ -d "$at/vendor/tikv-jemalloc-sys" ] && return 0
    have cargo || return 1
    mkdir -p "$at"
    {
        printf '[package]\nname = "peers"\nversion = "0.0.0"\nedition = "2021"\n[lib]\npath = "lib.rs"\n[dependencies]\n'
        for crate in snmalloc-sys rpmalloc-sys libmimalloc-sys tikv-jemalloc-sys; do printf '%s = "*"\n' $crate; done
    } >"$at/Cargo.toml"
    : >"$at/lib.rs"
    (cd "$at" && rm -rf vendor && cargo vendor -q vendor) >"$dir/log/crates.txt" 2>&1
}

crate_version() { sed -n 's/^version = "\(.*\)"/\1/p' "$dir/src/crates/vendor/$1/Cargo.toml" 2>/dev/null | head -1; }

crate_peer() {   # crate_peer NAME CRATE VERSION_COMMAND: build_NAME makes $dir/NAME.so from the crate's sources
    local name=$1 crate=$2 lib=$dir/$1.so at=$dir/src/crates/vendor/$2
    [ -d "$at" ] || { lacks "$name" "cargo could not fetch the crate $crate (log/crates.txt)"; return; }
    if [ ! -s "$lib" ] && ! "build_$name" "$at" "$lib" >"$dir/log/$name.txt" 2>&1; then
        lacks "$name" "the build of crate $crate failed (log/$name.txt)"; return
    fi
    keep "$name" "$lib" "$($3 "$at") (crate $crate $(crate_version "$crate"))"
}

build_snmalloc() {
    have cmake || return 1
    cmake -S "$1/upstream" -B "$dir/src/snmalloc" -DCMAKE_BUILD_TYPE=Release -DSNMALLOC_BUILD_TESTING=OFF \
        -DSNMALLOC_USE_CXX17=OFF && cmake --build "$dir/src/snmalloc" -j$jobs --target snmallocshim || return 1
    cp "$dir/src/snmalloc/libsnmallocshim.so" "$2"
}
version_snmalloc() { crate_version snmalloc-sys; }

build_rpmalloc() {
    gcc -std=gnu11 -O3 -DNDEBUG -D_GNU_SOURCE=1 -DENABLE_OVERRIDE=1 -DENABLE_PRELOAD=1 -fPIC -fno-builtin-malloc -shared \
        -ftls-model=initial-exec -o "$2" "$1/rpmalloc/rpmalloc/rpmalloc.c" -lpthread -ldl
}
version_rpmalloc() {   # the file's change log stops at an older release than the sources: name the commit too
    echo "1.4 line, after $(head -1 "$1/rpmalloc/CHANGELOG" | tr -d "\r")"
}

build_mimalloc2() {
    gcc -std=gnu11 -O3 -DNDEBUG -DMI_SHARED_LIB -DMI_SHARED_LIB_EXPORT -DMI_MALLOC_OVERRIDE -fPIC -fvisibility=hidden \
        -fno-builtin-malloc -ftls-model=initial-exec -Wno-error=date-time -I"$1/c_src/mimalloc/v2/include" -I"$1/c_src/mimalloc/v2/src" \
        -shared -o "$2" "$1/c_src/mimalloc/v2/src/static.c" -lpthread
}
version_mimalloc2() {
    sed -n 's/^#define MI_MALLOC_VERSION *\([0-9]\)\([0-9][0-9]\)\([0-9][0-9]\).*/\1.\2.\3/p'  \
        "$1/c_src/mimalloc/v2/include/mimalloc.h" | sed 's/\.0/./g'
}

build_jemalloc() {
    local at=$dir/src/jemalloc
    rm -rf "$at" && cp -r "$1/jemalloc" "$at" && cp "$1/configure/configure" "$at/configure" && chmod +x "$at/configure" || return 1
    (cd "$at" && ./configure --quiet --disable-cxx --disable-doc --with-version="$(version_jemalloc "$1")-0-g0" &&
        make -s -j$jobs build_lib_shared) || return 1
    cp "$at/lib/libjemalloc.so.2" "$2"
}
version_jemalloc() { crate_version tikv-jemalloc-sys | sed 's/.*+\([0-9.]*\).*/\1/'; }

wheel_peer  mimalloc3   cmeel-mimalloc 3.4.3
vendor_crates
crate_peer  mimalloc2   libmimalloc-sys version_mimalloc2
crate_peer  snmalloc    snmalloc-sys version_snmalloc
crate_peer  rpmalloc    rpmalloc-sys version_rpmalloc
crate_peer  jemalloc    tikv-jemalloc-sys version_jemalloc
debian_peer jemalloc-deb libjemalloc2 libjemalloc.so.2
debian_peer gperftools  libtcmalloc-minimal4 libtcmalloc_minimal.so.4
debian_peer tbb         libtbbmalloc2 libtbbmalloc_proxy.so.2
debian_peer mimalloc-deb libmimalloc2.0 libmimalloc.so.2.0

python3 - "$records" "$dir/peers.json" <<'PY'
import json, sys
rows = [line.rstrip("\n").split("\t") for line in open(sys.argv[1]) if line.strip()]
peers = [{"name": n, "path": p, "version": v} for n, p, v, problem in rows if not problem]
missing = [{"name": n, "problem": problem} for n, p, v, problem in rows if problem]
with open(sys.argv[2], "w") as out:
    json.dump({"peers": peers, "missing": missing}, out, indent=2)
for n, p, v, problem in rows:
    print(f"{n:13} {p or 'MISSING':50} {v or problem}")
sys.exit(0 if peers else "peers.sh: no peer could be had")
PY
