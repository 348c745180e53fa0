"""Reads of /proc. A process may end between any two reads, so every function takes "gone" for an answer."""

from __future__ import annotations

import glob
import os
from typing import Dict, List, Optional

PAGE_BYTES = os.sysconf("SC_PAGE_SIZE")
TICKS_PER_SECOND = os.sysconf("SC_CLK_TCK")
KIB = 1024

# Fields of /proc/PID/stat after the command's closing parenthesis.
STAT_PARENT, STAT_SID, STAT_UTIME, STAT_STIME, STAT_START = 1, 3, 11, 12, 19


def read_text(path: str) -> Optional[str]:
    try:
        with open(path, errors="surrogateescape") as file:
            return file.read()
    except OSError:
        return None


def stat_fields(pid: int) -> Optional[List[str]]:
    text = read_text(f"/proc/{pid}/stat")
    return text.rpartition(")")[2].split() if text else None


def children(pid: int) -> List[int]:
    """Direct children, by the kernel's own lists (one per thread)."""
    found: List[int] = []
    for path in glob.glob(f"/proc/{pid}/task/*/children"):
        found += [int(word) for word in (read_text(path) or "").split()]
    return found


def children_by_scan(pid: int) -> List[int]:
    """The same for kernels without those lists: slower, it reads every process."""
    found = []
    for name in os.listdir("/proc"):
        if name.isdigit():
            fields = stat_fields(int(name))
            if fields and int(fields[STAT_PARENT]) == pid:
                found.append(int(name))
    return found


HAS_CHILDREN_LISTS = os.path.exists(f"/proc/{os.getpid()}/task/{os.getpid()}/children")


def children_of(pid: int) -> List[int]:
    return children(pid) if HAS_CHILDREN_LISTS else children_by_scan(pid)


def tree(pid: int) -> List[int]:
    """The process and its descendants."""
    found = [pid]
    for parent in found:
        found += [child for child in children_of(parent) if child not in found]
    return found


def rss_bytes(pid: int) -> int:
    text = read_text(f"/proc/{pid}/statm")
    return int(text.split()[1]) * PAGE_BYTES if text else 0


def status_bytes(pid: int, key: str) -> int:
    """A size from /proc/PID/status, such as VmHWM."""
    for line in (read_text(f"/proc/{pid}/status") or "").splitlines():
        if line.startswith(key + ":"):
            return int(line.split()[1]) * KIB
    return 0


def rollup(pid: int) -> Dict[str, int]:
    """The sums of /proc/PID/smaps_rollup in bytes; empty if it cannot be read."""
    values = {}
    for line in (read_text(f"/proc/{pid}/smaps_rollup") or "").splitlines()[1:]:
        key, _, rest = line.partition(":")
        values[key] = int(rest.split()[0]) * KIB
    return values


def resident_bytes(pids: List[int]) -> Optional[int]:
    """Exact resident bytes of some processes: smaps_rollup, or statm where that may not be read."""
    total = sum(rollup(pid).get("Rss") or rss_bytes(pid) for pid in pids)
    return total or None


def cpu_ticks(pids: List[int]) -> int:
    total = 0
    for pid in pids:
        fields = stat_fields(pid)
        if fields:
            total += int(fields[STAT_UTIME]) + int(fields[STAT_STIME])
    return total


def executable(pid: int) -> str:
    try:
        return os.readlink(f"/proc/{pid}/exe")
    except OSError:
        return ""


def maps_library(pid: int, real_path: str) -> Optional[bool]:
    """Whether a preloaded library is mapped; None while the loader is still at work, or after the end."""
    files = {line.rpartition(" ")[2] for line in (read_text(f"/proc/{pid}/maps") or "").splitlines()}
    if real_path in files:
        return True
    # Preloaded libraries are mapped before the C library, so one without the other is a definite no.
    names = map(os.path.basename, files)
    return False if any(name.startswith(("libc.so", "libc-2", "ld-musl")) for name in names) else None
