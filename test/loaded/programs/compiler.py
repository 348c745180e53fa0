"""gcc and g++: objects, archives and programs byte for byte equal; in the long form a build of Lua from Debian's source.

SPDX-License-Identifier: MIT
"""
import shutil

from harness.debian import fetch_source
from harness.place import HERE, digest
from harness.program import Failed, Program

LEVELS = (("-O0", "-g"), ("-O2",), ("-O3", "-g", "-flto=2", "-ffat-lto-objects", "-frandom-seed=7"))
SOURCE = HERE.parent.parent / "src"


def made(folder, *patterns):
    paths = [path for pattern in patterns for path in sorted(folder.rglob(pattern)) if path.is_file()]
    found = {str(path.relative_to(folder)): digest(path) for path in paths}
    if not found:
        raise Failed(f"nothing was made: {', '.join(patterns)}")
    return found


def run_objects(place):
    shutil.copy(place.input / "program.c", place.folder)
    shutil.copy(place.input / "templates.cpp", place.folder)
    for number, words in enumerate(LEVELS):
        place.run("gcc", *words, "-c", "program.c", "-o", f"program{number}.o")
    place.run("gcc", "-O2", "-flto=2", "-frandom-seed=7", "program2.o", "-o", "program.exe")
    deep = ("-O2", "-DDEEP") if place.scale >= 1 else ("-O1",)
    place.run("g++", *deep, "-g", "-std=c++17", "-c", "templates.cpp", "-o", "templates.o")
    place.run("g++", "templates.o", "-o", "templates.exe")
    for name in ("heap", "page"):
        place.run("gcc", "-std=c11", "-O2", "-g", "-I", SOURCE, "-I", SOURCE.parent / "include", "-S", SOURCE / "core" / f"{name}.c",
                  "-o", f"{name}.s")
    return made(place.folder, "*.o", "*.s", "*.exe") | {"answers": place.run("./program.exe").out + place.run("./templates.exe").out}


def prepare_lua(place):
    """Lua as its authors publish it: Debian's changes to the makefile want libtool."""
    fetch_source("lua5.4", place.shared)
    (place.shared / "made").mkdir(exist_ok=True)
    for path in place.shared.glob("lua5.4_*.orig.tar.*z"):
        place.run("tar", "-xf", path, "-C", place.shared / "made")


def run_lua(place):
    source = next(place.shared.glob("made/*/src"), None)
    if source is None:
        raise Failed("the source package of lua5.4 holds no src/")
    for words in (("-O2", "-g"), ("-O3", "-flto=2", "-ffat-lto-objects", "-frandom-seed=7")):
        folder = place.folder / words[0][1:]
        shutil.copytree(source, folder)
        # One job: the order of an archive's members, and so its bytes, is the makefile's.
        flags = " ".join(words)
        place.run("make", "-C", folder, "-j2", "CC=gcc -std=gnu99", "AR=ar rcD", "RANLIB=ranlib -D", f"MYCFLAGS={flags} -DLUA_USE_LINUX",
                  "MYLIBS=-Wl,-E -ldl", f"MYLDFLAGS={flags}", "a", "lua", "luac")
    results = made(place.folder, "*.o", "*.a", "lua", "luac")
    return results | {"answer": place.run(place.folder / "O3" / "lua", place.input / "tables.lua", "1").out}


PROGRAMS = [
    Program("gcc", "gcc, g++, ld, LTO: objects and programs byte-equal", run_objects, {"gcc": "gcc", "g++": "g++"}, mapped=("cc1",),
            short=True),
    Program("gcc-lua", "gcc and make build Lua twice: objects, archives, programs byte-equal", run_lua,
            {"gcc": "gcc", "make": "make", "dpkg-source": "dpkg-dev"}, prepare=prepare_lua, mapped=("cc1", "lto1")),
]
