"""Run one shape of the soak program and look at it from outside: resident bytes, mappings, live bytes as the program counts them."""

from __future__ import annotations

import mmap
import os
import struct
import subprocess
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from typing import Dict, List, Optional

# The layout of struct soak_status in soak.h.
HEAD = struct.Struct("<4Q")
LANE = struct.Struct("<qQ")
LANES, FIRST_LANE, LANE_BYTES, STATUS_BYTES = 16, 64, 64, 4096
RUNNING, ENDING = 1, 2
START_SECONDS, END_SECONDS, STARVED_FACTOR = 60, 60, 6


@dataclass(frozen=True)
class Allocator:
    name: str
    preload: Optional[Path]  # None: the system's own


@dataclass(frozen=True)
class Sample:
    seconds: float
    live: int
    resident: int  # less what was resident before the first block
    mappings: int
    cycles: int
    steady: bool  # now and since the sample before


@dataclass
class Watched:
    """What was seen of one shape."""

    shape: str
    allocator: str
    command: str
    samples: List[Sample] = field(default_factory=list)
    calls: int = 0
    failure: str = ""


class Status:
    """The page that the program writes."""

    def __init__(self, path: str):
        with open(path, "r+b") as file:
            self.page = mmap.mmap(file.fileno(), STATUS_BYTES)

    def head(self):
        """State, base bytes, cycles, how often the shape began or ceased to be steady: odd while it is."""
        return HEAD.unpack_from(self.page, 0)

    def end(self) -> None:
        struct.pack_into("<Q", self.page, 0, ENDING)

    def lanes(self):
        return [LANE.unpack_from(self.page, FIRST_LANE + LANE_BYTES * lane) for lane in range(LANES)]

    def live(self) -> int:
        return sum(live for live, _ in self.lanes())

    def calls(self) -> int:
        return sum(calls for _, calls in self.lanes())


def resident_bytes(pid: int) -> int:
    with open(f"/proc/{pid}/smaps_rollup") as file:
        for line in file:
            if line.startswith("Rss:"):
                return int(line.split()[1]) * 1024
    raise OSError("no figure for Rss")


def mapping_count(pid: int) -> int:
    with open(f"/proc/{pid}/maps", "rb") as file:
        return file.read().count(b"\n")


def environment_for(allocator: Allocator) -> Dict[str, str]:
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD" and not key.startswith("HEDDLE_TEST")}
    if allocator.preload:
        environment["LD_PRELOAD"] = str(allocator.preload)
    if allocator.name == "heddle":
        environment["HEDDLE_TEST_EXPECT"] = "1"
    return environment


def sample_until_end(child: subprocess.Popen, status: Status, watched: Watched, seconds: float, interval: float) -> None:
    """For the seconds, and longer where a busy machine let us look at less than a third of the times we meant to."""
    started = time.monotonic()
    enough = seconds / interval / 3
    said = 0
    while child.poll() is None:
        state, base, cycles, _ = status.head()
        passed = time.monotonic() - started
        if state == ENDING or passed > seconds * STARVED_FACTOR or (passed > seconds and len(watched.samples) >= enough):
            status.end()
            return
        if state == RUNNING:
            before = status.live()
            try:
                resident, mappings = resident_bytes(child.pid), mapping_count(child.pid)
            except OSError:
                return  # it has just ended
            last, said = said, status.head()[3]
            if status.head()[0] != RUNNING:
                return
            # The program did not stand still meanwhile: more live bytes are the bound that it may claim.
            watched.samples.append(Sample(time.monotonic() - started, max(before, status.live()), max(0, resident - base), mappings,
                                          cycles, said % 2 == 1 and said == last))
            watched.calls = status.calls()
        elif time.monotonic() - started > START_SECONDS:
            watched.failure = f"not running after {START_SECONDS} s"
            return
        time.sleep(interval)


def wait_for(child: subprocess.Popen, watched: Watched, seconds: float) -> None:
    try:
        status = child.wait(timeout=seconds)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
        watched.failure = watched.failure or f"still running {seconds:.0f} s after its end: hung"
        return
    if status != 0:
        watched.failure = f"ended with status {status}"


def watch(program: Path, shape: str, allocator: Allocator, seconds: int, mebibytes: int, seed: int, fault: str = "") -> Watched:
    """Run the shape to its end."""
    interval = min(0.25, max(0.05, seconds / 400))
    most = seconds * STARVED_FACTOR + START_SECONDS
    arguments = [str(program), "--shape", shape, "--seconds", str(most), "--mib", str(mebibytes), "-s", str(seed)]
    if fault:
        arguments += ["--fault", fault]
    preload = f"LD_PRELOAD={allocator.preload} " if allocator.preload else ""
    watched = Watched(shape, allocator.name, preload + " ".join(arguments) + " --status FILE")
    with tempfile.TemporaryDirectory(prefix="soak-") as folder, open(os.path.join(folder, "error"), "w+") as error:
        page = os.path.join(folder, "status")
        with open(page, "wb") as file:
            file.write(bytes(STATUS_BYTES))
        status = Status(page)
        child = subprocess.Popen(arguments + ["--status", page], env=environment_for(allocator), stdin=subprocess.DEVNULL,
                                 stdout=subprocess.DEVNULL, stderr=error)
        try:
            sample_until_end(child, status, watched, seconds, interval)
            wait_for(child, watched, END_SECONDS)
        finally:
            if child.poll() is None:
                child.kill()
                child.wait()
        error.seek(0)
        message = error.read(2000).strip()
    if watched.failure and message:
        watched.failure += ": " + message
    return watched
