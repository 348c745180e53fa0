"""The allocators that a program can be compared under: which exist, where they are, how to get the others."""

from __future__ import annotations

import importlib.metadata
import os
import re
import site
import subprocess
import sys
import sysconfig
from dataclasses import dataclass
from typing import Dict, List, Optional, Sequence, Tuple

from .errors import HeddleError
from .libraries import check_preloadable, find_heddle, find_in_system

SYSTEM = "system"
HEDDLE = "heddle"


@dataclass(frozen=True)
class Known:
    """An allocator that we know how to find. `files` are tried in order."""

    name: str
    title: str
    files: Tuple[str, ...]
    debian: str = ""
    pypi: str = ""


@dataclass(frozen=True)
class Allocator:
    """An allocator to run under; `path` is None for the one the program has anyway."""

    name: str
    title: str
    path: Optional[str]


KNOWN: Tuple[Known, ...] = (
    Known("jemalloc", "jemalloc", ("libjemalloc.so.2",), debian="libjemalloc2"),
    Known("tcmalloc", "TCMalloc of gperftools", ("libtcmalloc_minimal.so.4", "libtcmalloc.so.4"),
          debian="libtcmalloc-minimal4"),
    Known("tbb", "oneTBB malloc", ("libtbbmalloc_proxy.so.2",), debian="libtbbmalloc2"),
    Known("mimalloc2", "mimalloc 2", ("libmimalloc.so.2", "libmimalloc.so.2.0"), debian="libmimalloc2.0"),
    Known("mimalloc3", "mimalloc 3", ("libmimalloc.so.3",), pypi="cmeel-mimalloc"),
    Known("snmalloc", "snmalloc", ("libsnmallocshim.so",)),
    Known("rpmalloc", "rpmalloc", ("librpmallocwrap.so", "librpmalloc.so")),
)
NAME_PATTERN = re.compile(r"[A-Za-z0-9][A-Za-z0-9._+-]*\Z")


def python_library_directories() -> List[str]:
    """Where packages of PyPI put shared libraries (the cmeel packages have a prefix of their own)."""
    roots = [sysconfig.get_paths()["purelib"], sysconfig.get_paths()["platlib"], site.getusersitepackages()]
    roots += [path for path in sys.path if path.endswith(("site-packages", "dist-packages"))]
    unique = list(dict.fromkeys(roots))
    return [os.path.join(root, "cmeel.prefix", "lib") for root in unique]


def _find_known(known: Known) -> Optional[str]:
    for name in known.files:
        for directory in python_library_directories() if known.pypi else ():
            path = os.path.join(directory, name)
            if os.path.isfile(path):
                return path
        found = find_in_system(name)
        if found:
            return found
    return None


def parse_extra(text: str) -> Allocator:
    """An allocator from `NAME=path`. Raises HeddleError."""
    name, separator, path = text.partition("=")
    if not separator or not path or not NAME_PATTERN.match(name):
        raise HeddleError(f"--allocator {text!r}: write NAME=path, for example mine=/opt/lib/libmine.so", 2)
    if name == SYSTEM:
        raise HeddleError("--allocator: the name 'system' stands for the program's own allocator", 2)
    return Allocator(name, name, check_preloadable(path, f"--allocator {name}"))


def find_allocators(extra: Sequence[str] = (), heddle: Optional[str] = None) -> Dict[str, Allocator]:
    """All allocators found, by name: system and Heddle first, then the known ones, then the user's own."""
    found = {SYSTEM: Allocator(SYSTEM, "the program's own", None)}
    own = find_heddle(heddle)
    if own:
        found[HEDDLE] = Allocator(HEDDLE, "Heddle", own)
    for known in KNOWN:
        path = _find_known(known)
        if path:
            found[known.name] = Allocator(known.name, known.title, path)
    for text in extra:
        allocator = parse_extra(text)
        found[allocator.name] = allocator
    return found


def missing_allocators(found: Dict[str, Allocator]) -> List[Known]:
    """Known allocators that are not here and that a package would bring."""
    return [known for known in KNOWN if known.name not in found and (known.debian or known.pypi)]


def select(found: Dict[str, Allocator], only: Optional[str], baseline: str) -> List[Allocator]:
    """The allocators to compare, the baseline among them. Raises HeddleError for an unknown name."""
    names = list(found)
    if only is not None:
        names = [name.strip() for name in only.split(",") if name.strip()]
        if not names:
            raise HeddleError("--only: name at least one allocator", 2)
    for name in names + [baseline]:
        if name not in found:
            raise HeddleError(f"no allocator {name!r} here; found: {', '.join(found)} (see `heddle allocators`)", 2)
    if baseline not in names:
        names.insert(0, baseline)
    return [found[name] for name in dict.fromkeys(names)]


def _command_output(command: Sequence[str], environment: Optional[Dict[str, str]] = None) -> str:
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=20, env=environment)
    except (OSError, subprocess.TimeoutExpired):
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


def _debian_version(path: str) -> str:
    for candidate in dict.fromkeys((os.path.realpath(path), path)):
        owner = _command_output(["dpkg-query", "-S", candidate])
        if owner:
            package = owner.split(": ", 1)[0].split(",")[0]
            return _command_output(["dpkg-query", "-W", "-f", "${Version}", package])
    return ""


def version_of(allocator: Allocator) -> str:
    """The version as the package manager that brought the library tells it; empty if unknown."""
    if allocator.path is None:
        try:
            return " ".join(os.confstr("CS_GNU_LIBC_VERSION").split())
        except (OSError, ValueError, AttributeError):
            return "libc"
    if allocator.name == HEDDLE:
        return heddle_version(allocator.path)
    known = next((entry for entry in KNOWN if entry.name == allocator.name), None)
    if known and known.pypi and "cmeel.prefix" in allocator.path:
        try:
            return importlib.metadata.version(known.pypi)
        except importlib.metadata.PackageNotFoundError:
            return ""
    return _debian_version(allocator.path)


def heddle_version(path: str) -> str:
    """The library's own answer, asked in a process of its own so that it never gets into ours."""
    program = ("import ctypes; ask = ctypes.CDLL(None).hd_version_text; ask.restype = ctypes.c_char_p; "
               "print(ask().decode())")
    environment = {**os.environ, "LD_PRELOAD": path}
    environment.pop("HEDDLE", None)
    return _command_output([sys.executable, "-c", program], environment)
