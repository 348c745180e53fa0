"""Starts a program so that the kernel's account of it is its own.

ru_maxrss starts, at exec, from the resident set of the process that forked: below a Python interpreter every small
program would show a peak of 14 MB or more. So a tiny program in between (`setsid --fork` of util-linux) forks it, and
as subreaper we inherit the child and its account. It gets the same environment, so it is never bigger than the program.
Without `setsid` the program is started directly, and `peak_floor_bytes` says up to where its ru_maxrss means nothing.
"""

from __future__ import annotations

import ctypes
import functools
import os
import shutil
import signal
import subprocess
import time
from dataclasses import dataclass
from typing import Dict, List, Sequence

from . import proc
from .errors import EXIT_UNUSABLE, HeddleError

PR_SET_CHILD_SUBREAPER = 36
FIND_SECONDS = 2.0


@dataclass
class Child:
    """A started program; setsid made it a leader, so what it starts can be told from it."""

    pid: int
    started: float           # time.monotonic() before anything was started
    peak_floor_bytes: int    # a peak at or below this says nothing


@functools.lru_cache(maxsize=1)
def indirect_launcher() -> str:
    """The path of a `setsid` that can fork, if we may become subreaper; else empty."""
    path = shutil.which("setsid")
    if not path:
        return ""
    try:
        done = subprocess.run([path, "--help"], capture_output=True, text=True, timeout=5)
        if "--fork" not in done.stdout:
            return ""
        libc = ctypes.CDLL(None, use_errno=True)
        return path if libc.prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0) == 0 else ""
    except (OSError, subprocess.TimeoutExpired, AttributeError):
        return ""


def _adopted_child(known: Sequence[int]) -> int:
    """Our child that setsid made a leader: the program, just handed to us by the launcher's end."""
    own = os.getpid()
    deadline = time.monotonic() + FIND_SECONDS
    while time.monotonic() < deadline:
        leaders = []
        for pid in proc.children_of(own):
            fields = proc.stat_fields(pid) if pid not in known else None
            if fields and int(fields[proc.STAT_SID]) == pid:
                leaders.append((int(fields[proc.STAT_START]), pid))
        if leaders:
            return min(leaders)[1]
        time.sleep(0.0005)
    raise HeddleError("the program was started and then could not be found in /proc", EXIT_UNUSABLE)


def start(path: str, arguments: Sequence[str], environment: Dict[str, str], fds: Sequence[int]) -> Child:
    """Start a program with standard input, output and error from `fds`. Raises HeddleError."""
    actions = [(os.POSIX_SPAWN_DUP2, fd, number) for number, fd in enumerate(fds)]
    launcher = indirect_launcher()
    try:
        if launcher:
            known = proc.children_of(os.getpid())
            started = time.monotonic()
            command = ["setsid", "--fork", path, *arguments]
            between = os.posix_spawn(launcher, command, environment, file_actions=actions)
            _, status = os.waitpid(between, 0)
            if status == 0:
                return Child(_adopted_child(known), started, 0)
            # An allocator so broken that the launcher died of it: the program itself shall show how it fails.
            end_leftovers(known)
        started = time.monotonic()
        pid = os.posix_spawn(path, [path, *arguments], environment, file_actions=actions, setsid=True)
        return Child(pid, started, proc.status_bytes(os.getpid(), "VmHWM"))
    except OSError as error:
        raise HeddleError(f"{path}: cannot be started ({error.strerror})", EXIT_UNUSABLE) from None


def kill_tree(pid: int, kind: int = signal.SIGKILL) -> None:
    for member in reversed(proc.tree(pid)):
        try:
            os.kill(member, kind)
        except OSError:
            pass


def end_leftovers(known: Sequence[int]) -> int:
    """Kill and reap what the program left behind (we inherited it as subreaper). Returns how many."""
    count = 0
    for _ in range(64):
        left: List[int] = [pid for pid in proc.children_of(os.getpid()) if pid not in known]
        if not left:
            break
        for pid in left:
            count += 1
            kill_tree(pid)
            try:
                os.waitpid(pid, 0)
            except OSError:
                pass
    return count
