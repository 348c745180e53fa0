"""glibc's own tests, from Debian's source package, built outside of its tree with its support files, unmodified."""

from __future__ import annotations

import os
import shutil
import subprocess
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional, Tuple

FOLDERS = ("malloc", "support", "include", "sysdeps", "nptl", "posix", "stdlib", "stdio-common", "libio", "misc", "dirent", "string")
# What is taken from each folder: all that is about malloc, and elsewhere what leans on it or forks.
CHOSEN = (
    ("malloc", ("tst-*.c", "mallocbug.c")),
    ("nptl", ("tst-fork*.c", "tst-basic*.c", "tst-key*.c", "tst-popen*.c", "tst-tsd*.c", "tst-exit*.c", "tst-detach*.c", "tst-stack*.c",
              "tst-create*.c", "tst-cancel[1-9].c")),
    ("sysdeps/pthread", ("tst-fork*.c", "tst-atfork*.c", "tst-basic*.c", "tst-key*.c", "tst-popen*.c", "tst-tsd*.c", "tst-exit*.c",
                         "tst-detach*.c", "tst-stack*.c", "tst-create*.c", "tst-cancel[1-9].c", "tst-mallocfork*.c", "tst-cnd-*.c")),
    ("posix", ("tst-fork*.c", "tst-vfork*.c", "tst-spawn*.c", "tst-regex*.c", "bug-regex*.c", "tst-glob*.c", "bug-glob*.c", "wordexp-tst.c",
               "tst-wordexp*.c", "tst-fnmatch*.c")),
    ("stdio-common", ("tst-*printf*.c", "bug*.c", "tst-popen*.c", "tst-fmemopen*.c", "tst-getline*.c", "tst-put-error.c", "tst-obprintf.c",
                      "tst-sscanf*.c", "scanf*.c", "tst-vfprintf*.c", "tst-perror.c", "tst-long-dbl*.c")),
    ("libio", ("tst-memstream*.c", "tst-wmemstream*.c", "bug-memstream*.c", "bug-wmemstream*.c", "tst-fopen*.c", "tst-freopen*.c",
               "tst-asprintf*.c", "tst-vasprintf*.c", "tst-getdelim.c", "bug-*.c", "tst-mmap*.c")),
    ("stdlib", ("tst-setenv*.c", "tst-environ.c", "tst-putenv*.c", "test-canon*.c", "tst-realpath*.c", "tst-qsort*.c", "tst-bsearch.c",
                "tst-tls-atexit.c", "tst-at*exit*.c", "tst-strtod*.c", "tst-random*.c", "tst-quick_exit.c", "tst-cxa*.c")),
    ("misc", ("tst-tsearch.c", "tst-hsearch.c", "tst-search*.c", "tst-error*.c", "bug-hsearch*.c")),
    ("dirent", ("tst-scandir*.c", "tst-fdopendir*.c", "opendir-tst1.c", "bug-readdir*.c")),
    ("string", ("tst-strdup*.c", "bug-strcoll*.c", "bug-strncat*.c", "tst-strtok*.c", "test-strdup*.c")),
)
# As malloc/Makefile has them.
ENVIRONMENTS: Dict[str, Dict[str, str]] = {
    "tst-malloc-check": {"MALLOC_CHECK_": "3"},
    "tst-malloc-usable": {"MALLOC_CHECK_": "3"},
    "tst-malloc-usable-tunables": {"GLIBC_TUNABLES": "glibc.malloc.check=3"},
    "tst-mxfast": {"GLIBC_TUNABLES": "glibc.malloc.tcache_count=0:glibc.malloc.mxfast=0"},
}
# In the control these two have glibc's debugging allocator, as in glibc's own run: without it they fail there as well.
CONTROL_PRELOAD = {name: "libc_malloc_debug.so.0" for name in ("tst-malloc-check", "tst-malloc-usable", "tst-malloc-usable-tunables")}
PATHS = ("SRCDIR", "OBJDIR", "INSTDIR", "LIBDIR", "BINDIR", "SBINDIR", "ROOTSBINDIR", "COMPLOCALEDIR", "SYSCONFDIR", "SLIBDIR")
SHIMS = ("array_length", "libc-diag", "libc-pointer-arith", "intprops", "scratch_buffer", "file_change_detection", "allocate_once")
# Parts of support/ that are for glibc's own build, for containers or for name services.
SUPPORT_LEFT_OUT = ("tst-", "test-run", "shell", "true-", "echo-", "links-", "test-driver", "support_format")
SUPPORT_WORDS = ("resolv", "dns", "namespace", "container", "-root", "_nss")


class Missing(Exception):
    """The suite can't be had here."""


@dataclass
class Suite:
    programs: List[Path] = field(default_factory=list)
    unbuilt: List[str] = field(default_factory=list)


def run_or_miss(command: List[str], cwd: Path, what: str) -> None:
    with open(cwd / "fetch.log", "ab") as log:
        try:
            status = subprocess.run(command, cwd=cwd, stdin=subprocess.DEVNULL, stdout=log, stderr=log, timeout=600).returncode
        except (OSError, subprocess.TimeoutExpired) as error:
            raise Missing(f"{what}: {error}") from error
    if status != 0:
        raise Missing(f"{what}: status {status}, see {cwd}/fetch.log")


def source_lists() -> str:
    """The machine's package sources, as sources of source packages."""
    text = ""
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*"))]:
        if path.suffix == ".sources":
            text += path.read_text().replace("Types: deb\n", "Types: deb-src\n") + "\n"
    return text


def one_line_lists() -> str:
    lines: List[str] = []
    for path in [Path("/etc/apt/sources.list"), *sorted(Path("/etc/apt/sources.list.d").glob("*.list"))]:
        if path.exists():
            lines += [line.replace("deb ", "deb-src ", 1) for line in path.read_text().splitlines() if line.startswith("deb ")]
    return "\n".join(lines) + "\n"


def fetch(work: Path) -> Path:
    """The unpacked source. Everything of apt's that this needs lives below work: the machine's own lists stay as they are."""
    found = sorted(work.glob("glibc-*/malloc"))
    if found:
        return found[0].parent
    if not shutil.which("apt-get"):
        raise Missing("there is no apt-get here")
    for folder in ("lists/partial", "cache/archives/partial", "parts"):
        (work / folder).mkdir(parents=True, exist_ok=True)
    (work / "parts" / "source.sources").write_text(source_lists())
    (work / "parts" / "source.list").write_text(one_line_lists())
    options = ["-o=Dir::Etc::sourcelist=/dev/null", f"-o=Dir::Etc::sourceparts={work}/parts", f"-o=Dir::State::lists={work}/lists",
               f"-o=Dir::Cache={work}/cache", "-o=APT::Sandbox::User=root"]
    run_or_miss(["apt-get", *options, "update"], work, "apt-get update of source packages")
    run_or_miss(["apt-get", *options, "source", "--download-only", "glibc"], work, "apt-get source glibc")
    archives = sorted(work.glob("glibc_*.orig.tar.xz"))
    if not archives:
        raise Missing("apt-get source brought no archive of glibc")
    wanted = [f"*/{folder}/*" for folder in FOLDERS] + ["*/test-skeleton.c"]
    run_or_miss(["tar", "-xJf", str(archives[0]), "--wildcards", *wanted], work, "unpacking glibc")
    return sorted(work.glob("glibc-*/malloc"))[0].parent


def make_shims(source: Path, work: Path) -> Path:
    """The few internal headers that the support files need, without the rest of include/, which is for glibc's own build."""
    shim = work / "shim"
    shim.mkdir(exist_ok=True)
    headers = [source / "include" / f"{name}.h" for name in SHIMS] + list((source / "sysdeps" / "generic").glob("malloc-*.h"))
    for header in headers + [source / "sysdeps" / "x86_64" / "stackinfo.h"]:
        if header.exists():
            shutil.copy(header, shim)
    (shim / "libc-config.h").write_text("")
    return shim


def compiler(source: Path, shim: Path) -> List[str]:
    defines = [f'-D{name}_PATH="/usr"' for name in PATHS] + [
        '-DOBJDIR_ELF_LDSO_PATH="/lib64/ld-linux-x86-64.so.2"', "-DTIMEOUTFACTOR=1", "-DMODULE_NAME=testsuite", "-include", "limits.h",
        "-Dattribute_hidden=", "-Dlibc_hidden_proto(x)=", "-Dlibc_hidden_def(x)=",
        "-D__attribute_optimization_barrier__=__attribute__((noinline,noclone))"]
    return ["gcc", "-std=gnu11", "-O1", "-g", "-fno-builtin", "-w", "-D_GNU_SOURCE", "-D_FILE_OFFSET_BITS=64", *defines,
            f"-I{shim}", f"-I{source}", f"-I{source}/malloc", f"-I{source}/support"]


def compiles(command: List[str], log: Path) -> bool:
    with open(log, "w") as file:
        return subprocess.run(command, stdin=subprocess.DEVNULL, stdout=file, stderr=file).returncode == 0


def is_support(path: Path) -> bool:
    return not path.stem.startswith(SUPPORT_LEFT_OUT) and not any(word in path.stem for word in SUPPORT_WORDS)


def build_support(source: Path, work: Path, compile_: List[str], jobs: int) -> Path:
    objects, library = work / "objects", work / "support.a"
    if library.exists():
        return library
    objects.mkdir(exist_ok=True)
    files = [path for path in sorted((source / "support").glob("*.c")) if is_support(path)]
    files += sorted((source / "malloc").glob("scratch_buffer_*.c"))

    def one(path: Path) -> Optional[Path]:
        made = objects / f"{path.stem}.o"
        return made if compiles([*compile_, "-c", str(path), "-o", str(made)], work / "log" / f"{path.stem}.txt") else None
    with ThreadPoolExecutor(jobs) as pool:
        made = [str(path) for path in pool.map(one, files) if path]
    run_or_miss(["ar", "rcs", str(library), *made], work, "the support library")
    return library


def chosen_sources(source: Path, folders: Tuple[str, ...]) -> List[Path]:
    found: Dict[str, Path] = {}
    for folder, patterns in CHOSEN:
        if folders and folder not in folders:
            continue
        for pattern in patterns:
            for path in sorted((source / folder).glob(pattern)):
                if not path.stem.endswith(("mod", "-static", "mod1", "mod2", "mod3")):
                    found.setdefault(path.stem, path)
    return list(found.values())


def build(work: Path, left_out: Dict[str, str], jobs: int, folders: Tuple[str, ...] = ()) -> Suite:
    """Fetch and build what is not there yet."""
    source = fetch(work)
    for name in ("log", "programs"):
        (work / name).mkdir(exist_ok=True)
    compile_ = compiler(source, make_shims(source, work))
    library = build_support(source, work, compile_, jobs)
    suite = Suite()

    def one(path: Path) -> Tuple[Path, bool]:
        program = work / "programs" / path.stem
        command = [*compile_, f"-I{path.parent}", str(path), "-o", str(program), str(library), "-lpthread", "-ldl", "-lrt", "-lm"]
        # glibc links each test against its own build, which has symbols that no installed one exports; few tests ever call them.
        return program, program.exists() or compiles([*command, "-Wl,--unresolved-symbols=ignore-all"], work / "log" / f"{path.stem}.txt")
    wanted = [path for path in chosen_sources(source, folders) if path.stem not in left_out]
    with ThreadPoolExecutor(jobs) as pool:
        for program, built in pool.map(one, wanted):
            if built:
                suite.programs.append(program)
            else:
                suite.unbuilt.append(program.name)
    if not suite.programs:
        raise Missing(f"none of glibc's tests could be built, see {work}/log")
    return suite


def environment(name: str) -> Dict[str, str]:
    return {**os.environ, **ENVIRONMENTS.get(name, {})}
