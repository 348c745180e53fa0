"""Watches the processes below this one: their memory, and whether the library is mapped in them.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import re
import signal
import threading
import time
from dataclasses import dataclass

PROC = pathlib.Path("/proc")
EVERY = 0.04  # seconds between two looks
SETTLED = 4  # looks after which a process without the library counts as one that never had it


@dataclass
class Seen:
    """A process, as long as it ran one executable."""

    exe: str
    looks: int = 0
    mapped: bool = False
    peak_kib: int = 0


def status_of(pid):
    """(parent, state, start time) of a process, or None when it is gone."""
    try:
        text = (PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return None
    fields = text[text.rindex(")") + 2 :].split()
    return int(fields[1]), fields[0], int(fields[19])


def descendants(root):
    """pid -> (state, start time) of every process below root."""
    every = {int(name): status for name in os.listdir(PROC) if name.isdigit() and (status := status_of(name))}
    found, level = {}, {root}
    while level:
        level = {pid for pid, (parent, _, _) in every.items() if parent in level}
        found |= {pid: every[pid][1:] for pid in level}
    return found


def end_all_below(root, patience=3.0):
    """End what is left of a run: asked first, then killed. Returns the names of those that had to be ended."""
    names = []
    for number, wait in ((signal.SIGTERM, patience), (signal.SIGKILL, 5.0)):
        until = time.monotonic() + wait
        asked = set()
        while left := {pid for pid, (state, _) in descendants(root).items() if state != "Z"}:
            for pid in left - asked:
                names.append(executable(pid))
                try:
                    os.kill(pid, number)
                except ProcessLookupError:
                    pass
            asked |= left
            if time.monotonic() > until:
                break
            reap()
            time.sleep(0.02)
    reap()
    return sorted({name for name in names if name})


def reap():
    """Collect children that nobody waits for (orphans come to the subreaper)."""
    try:
        while os.waitpid(-1, os.WNOHANG)[0]:
            pass
    except ChildProcessError:
        pass


def executable(pid):
    try:
        return os.path.basename(os.readlink(PROC / str(pid) / "exe")).removesuffix(" (deleted)")
    except OSError:
        return ""


def words_of(pid):
    try:
        return (PROC / str(pid) / "cmdline").read_bytes()
    except OSError:
        return b""


class Watch(threading.Thread):
    """Looks at everything below this process until stopped."""

    def __init__(self, library):
        super().__init__(daemon=True)
        self.preload, self.seen, self.stopping = str(library) if library else "libheddle.so", {}, threading.Event()
        self.own_words = words_of("self")

    def run(self):
        while not self.stopping.wait(EVERY):
            for pid, (state, started) in descendants(os.getpid()).items():
                if state != "Z":
                    self.look(pid, started)

    def look(self, pid, started):
        exe = executable(pid)
        if not exe or words_of(pid) == self.own_words:  # between fork and exec it is still a copy of this process
            return
        seen = self.seen.setdefault((pid, started, exe), Seen(exe))
        try:
            if not seen.mapped and self.preload in (PROC / str(pid) / "maps").read_text(errors="replace"):
                seen.mapped = True
            peak = re.search(r"^VmHWM:\s+(\d+)", (PROC / str(pid) / "status").read_text(errors="replace"), re.M)
        except OSError:
            return
        if peak is None:  # a process that is leaving has no memory any more
            return
        seen.looks += 1
        seen.peak_kib = max(seen.peak_kib, int(peak[1]))

    def stop(self):
        self.stopping.set()
        self.join()

    def peak_kib(self):
        """The most that one process of the run had resident."""
        return max((seen.peak_kib for seen in self.seen.values()), default=0)

    def mapped(self):
        return {seen.exe for seen in self.seen.values() if seen.mapped}

    def without(self):
        return {seen.exe for seen in self.seen.values() if not seen.mapped and seen.looks >= SETTLED}

