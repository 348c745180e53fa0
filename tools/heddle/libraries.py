"""Where shared libraries are: Heddle's own, and those of the system."""

from __future__ import annotations

import functools
import os
import subprocess
from typing import Dict, List, Optional

from .elf import Elf, MalformedElf, read_elf
from .errors import HeddleError

SONAME = "libheddle.so.1"
FILE_NAMES = (SONAME, "libheddle.so")
PACKAGE_DIRECTORY = os.path.dirname(os.path.abspath(__file__))


def system_directories() -> List[str]:
    """Directories of shared libraries, nearest first: LD_LIBRARY_PATH, local, then the distribution's."""
    candidates = [part for part in os.environ.get("LD_LIBRARY_PATH", "").split(":") if part]
    triplet = f"{os.uname().machine}-linux-gnu"
    for prefix in ("/usr/local", "/usr", ""):
        candidates += [f"{prefix}/lib/{triplet}", f"{prefix}/lib64", f"{prefix}/lib"]
    result, seen = [], set()
    for directory in candidates:
        real = os.path.realpath(directory)
        if os.path.isdir(real) and real not in seen:
            seen.add(real)
            result.append(directory)
    return result


@functools.lru_cache(maxsize=1)
def _loader_cache() -> Dict[str, str]:
    """What `ldconfig -p` knows: file name to path. Empty where there is no ldconfig."""
    for command in ("ldconfig", "/sbin/ldconfig", "/usr/sbin/ldconfig"):
        try:
            done = subprocess.run([command, "-p"], capture_output=True, text=True, timeout=10)
        except (OSError, subprocess.TimeoutExpired):
            continue
        if done.returncode == 0:
            entries = (line.split(" => ") for line in done.stdout.splitlines() if " => " in line)
            return {left.strip().split(" ")[0]: right.strip() for left, right in entries}
    return {}


def find_in_system(file_name: str) -> Optional[str]:
    for directory in system_directories():
        path = os.path.join(directory, file_name)
        if os.path.isfile(path):
            return path
    cached = _loader_cache().get(file_name)
    return cached if cached and os.path.isfile(cached) else None


def _upward_directories(start: str) -> List[str]:
    result = [start]
    while os.path.dirname(result[-1]) != result[-1]:
        result.append(os.path.dirname(result[-1]))
    return result


def _candidates() -> List[str]:
    paths = [os.path.join(PACKAGE_DIRECTORY, sub, name) for sub in ("", "lib") for name in FILE_NAMES]
    for directory in _upward_directories(os.path.dirname(PACKAGE_DIRECTORY)):
        paths += [os.path.join(directory, "build", name) for name in FILE_NAMES]
    return paths


def check_preloadable(path: str, what: str) -> str:
    """The absolute path of a library that LD_PRELOAD can name. Raises HeddleError."""
    absolute = os.path.abspath(path)
    if not os.path.isfile(absolute):
        raise HeddleError(f"{what}: {path} is not a file")
    if any(character in absolute for character in " :\t\n"):
        raise HeddleError(f"{what}: {absolute!r} has a space or a colon, and LD_PRELOAD cannot hold such a path")
    read_library(absolute, what)
    return absolute


def read_library(path: str, what: str) -> Elf:
    """The ELF header of a library. Raises HeddleError if it is not one."""
    try:
        elf = read_elf(path)
    except (OSError, MalformedElf) as error:
        raise HeddleError(f"{what}: {path} cannot be read ({error})") from None
    if elf is None or not elf.has_dynamic:
        raise HeddleError(f"{what}: {path} is not a shared library")
    return elf


def loader_accepts(binary: str, library: str, environment: Dict[str, str]) -> Optional[bool]:
    """Ask the program's own loader, as `ldd` does, without running the program; None if it does not say."""
    asking = {**environment, "LD_PRELOAD": library, "LD_TRACE_LOADED_OBJECTS": "1"}
    try:
        done = subprocess.run([binary], env=asking, stdin=subprocess.DEVNULL, capture_output=True, timeout=10)
    except (OSError, subprocess.TimeoutExpired):
        return None
    listed = [os.fsdecode(line).strip().split(" (0x")[0] for line in done.stdout.splitlines()]
    return library in listed if listed else None


def find_heddle(explicit: Optional[str] = None) -> Optional[str]:
    """The path of Heddle's library, or None. An explicit path, or HEDDLE_LIBRARY, must exist."""
    if explicit:
        return check_preloadable(explicit, "--library")
    if os.environ.get("HEDDLE_LIBRARY"):
        return check_preloadable(os.environ["HEDDLE_LIBRARY"], "HEDDLE_LIBRARY")
    for path in _candidates():
        if os.path.isfile(path):
            return check_preloadable(path, "libheddle")
    found = find_in_system(SONAME) or find_in_system(FILE_NAMES[1])
    return check_preloadable(found, "libheddle") if found else None


def require_heddle(explicit: Optional[str] = None) -> str:
    found = find_heddle(explicit)
    if found is None:
        raise HeddleError(
            f"{SONAME} was not found: build it with `make`, install it, or name it with --library or HEDDLE_LIBRARY")
    return found


def preload_value(library: Optional[str], environment: Dict[str, str], before: Optional[str] = None) -> str:
    """LD_PRELOAD with our libraries in front of what the user had there."""
    parts = [part for part in (before, library) if part]
    parts += [part for part in environment.get("LD_PRELOAD", "").replace(":", " ").split() if part not in parts]
    return ":".join(parts)
