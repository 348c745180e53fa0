"""One run of a program under one allocator, and everything measured on it.

CPU time and faults come from the kernel's account at wait4. Peak memory is the larger of ru_maxrss (exact, of the
largest single process) and the highest sum over the process tree that sampling saw. Nothing is read at exit that the
program could feel, and the sampler slows down where one look at the tree is expensive.
"""

from __future__ import annotations

import hashlib
import os
import select
import signal
import tempfile
import time
from dataclasses import dataclass
from typing import BinaryIO, Dict, List, Optional

from . import launch, proc
from .allocators import Allocator
from .idle import IdleGate
from .libraries import preload_value
from .target import Target

SAMPLE_SECONDS = 0.020
EARLY_SAMPLE_SECONDS = 0.001
EARLY_SECONDS = 0.050
SAMPLER_SHARE = 0.02           # at most this part of a core for reading /proc
QUIET_WINDOW_SECONDS = 0.5     # "CPU use stopped": below QUIET_SHARE of a core for this long
QUIET_SHARE = 0.03
TERM_GRACE_SECONDS = 5.0
STDERR_TAIL_BYTES = 2000


@dataclass
class Plan:
    """How to run: the same for every allocator."""

    target: Target
    arguments: List[str]
    environment: Dict[str, str]
    timeout_s: Optional[float] = None
    idle_s: Optional[float] = None
    server: bool = False
    stdin_path: str = os.devnull
    hash_output: bool = False
    shim: Optional[str] = None
    scratch: str = "/tmp"


@dataclass
class Run:
    """What one run gave. None where a figure could not be had."""

    allocator: str
    round: int
    wall_s: float = 0.0
    user_s: float = 0.0
    system_s: float = 0.0
    peak_bytes: Optional[int] = None
    minor_faults: int = 0
    major_faults: int = 0
    idle_bytes: Optional[int] = None
    exit_status: int = 0        # as in Python: negative is the signal that ended it
    timed_out: bool = False
    loaded: Optional[bool] = None
    processes: int = 1
    left_behind: int = 0
    output_sha256: Optional[str] = None
    stderr_tail: str = ""

    @property
    def cpu_s(self) -> float:
        return self.user_s + self.system_s

    @property
    def faults(self) -> int:
        return self.minor_faults + self.major_faults


class Watch:
    """Follows a running program: samples its tree, sees the allocator in its maps, notices when it rests."""

    def __init__(self, child: launch.Child, plan: Plan, library: Optional[str]):
        self.pid = child.pid
        self._started = child.started
        self._library = os.path.realpath(library) if library else None
        launcher = launch.indirect_launcher()
        self._launcher = os.path.realpath(launcher) if launcher else ""
        self.loaded: Optional[bool] = None
        self.tree_peak = 0
        self.high_water = 0
        self.processes = 1
        self._quiet_since: Optional[float] = None
        self._quiet_ticks = 0

    def sample(self) -> None:
        executable = proc.executable(self.pid)
        if not executable or executable == self._launcher:
            return
        pids = proc.tree(self.pid)
        self.processes = max(self.processes, len(pids))
        self.tree_peak = max(self.tree_peak, sum(map(proc.rss_bytes, pids)))
        self.high_water = max(self.high_water, proc.status_bytes(self.pid, "VmHWM"))
        if self._library and not self.loaded:
            seen = proc.maps_library(self.pid, self._library)
            self.loaded = seen if seen is not None else self.loaded

    def rests(self, now: float) -> bool:
        """Whether the tree has used next to no CPU for the whole of the window just gone."""
        ticks = proc.cpu_ticks(proc.tree(self.pid))
        limit = QUIET_SHARE * QUIET_WINDOW_SECONDS * proc.TICKS_PER_SECOND
        if self._quiet_since is None or abs(ticks - self._quiet_ticks) > limit:
            self._quiet_since, self._quiet_ticks = now, ticks
            return False
        return now - self._quiet_since >= QUIET_WINDOW_SECONDS

    @property
    def quiet_since(self) -> float:
        return self._quiet_since if self._quiet_since is not None else self._started


class _Waiter:
    """Waits for the end of a child without missing it: a pidfd where there is one, else polling."""

    def __init__(self, pid: int, extra_fd: Optional[int]):
        self.pid = pid
        self._extra_fd = extra_fd
        self._poller = select.poll()
        try:
            self._pidfd = os.pidfd_open(pid)
            self._poller.register(self._pidfd, select.POLLIN)
        except (OSError, AttributeError):
            self._pidfd = -1
        if extra_fd is not None:
            self._poller.register(extra_fd, select.POLLIN)

    def ended(self, seconds: float) -> bool:
        """Wait up to `seconds`, or until the extra descriptor speaks; whether the child has ended."""
        if self._pidfd < 0:
            time.sleep(min(seconds, 0.001))
            state = proc.stat_fields(self.pid)
            return state is None or state[0] == "Z"
        events = self._poller.poll(max(0.0, seconds) * 1000)
        return any(fd == self._pidfd for fd, _ in events)

    def ignore_extra(self) -> None:
        if self._extra_fd is not None:
            self._poller.unregister(self._extra_fd)
            self._extra_fd = None

    def close(self) -> None:
        if self._pidfd >= 0:
            os.close(self._pidfd)


class _Follower:
    """The loop around one running program: sampling, idle phase, timeout."""

    def __init__(self, child: launch.Child, plan: Plan, watch: Watch, gate: Optional[IdleGate], run: Run):
        self.child, self.plan, self.watch, self.gate, self.run = child, plan, watch, gate, run
        self.waiter = _Waiter(child.pid, gate.ready_fd if gate else None)
        self.idle_from: Optional[float] = None   # when the work was done
        self.idle_done = False
        self.idle_spent = 0.0
        self.stopping_since: Optional[float] = None

    def follow(self) -> float:
        """Until the program has ended; returns when that was."""
        interval = EARLY_SAMPLE_SECONDS
        try:
            while not self.waiter.ended(interval):
                begin = time.monotonic()
                self._step(begin)
                cost = time.monotonic() - begin
                early = begin - self.child.started < EARLY_SECONDS and not self.watch.loaded
                floor = EARLY_SAMPLE_SECONDS if early else SAMPLE_SECONDS
                interval = max(floor, cost / SAMPLER_SHARE if not early else 0.0)
            return time.monotonic()
        finally:
            self.waiter.close()

    def _step(self, now: float) -> None:
        self.watch.sample()
        if self.stopping_since is not None:
            if now - self.stopping_since > TERM_GRACE_SECONDS:
                launch.kill_tree(self.child.pid)
            return
        if self.plan.idle_s is not None and self.idle_from is None:
            self._look_for_rest(now)
        if self.idle_from is not None and not self.idle_done and now - self.idle_from >= self.plan.idle_s:
            self._end_idle(now)
        resting = self.idle_from is not None and not self.idle_done
        busy = now - self.child.started - (now - self.idle_from if resting else self.idle_spent)
        if self.plan.timeout_s is not None and busy > self.plan.timeout_s:
            self.run.timed_out = True
            launch.kill_tree(self.child.pid)

    def _look_for_rest(self, now: float) -> None:
        if self.gate is not None and self.gate.is_ready():
            self.waiter.ignore_extra()
            self.idle_from = now
        elif self.plan.server and self.watch.rests(now):
            self.idle_from = self.watch.quiet_since

    def _end_idle(self, now: float) -> None:
        self.run.idle_bytes = proc.resident_bytes(proc.tree(self.child.pid))
        self.idle_done, self.idle_spent = True, now - self.idle_from
        if self.plan.server:
            self.stopping_since = now
            try:
                os.kill(self.child.pid, signal.SIGTERM)
            except OSError:
                pass
        else:
            self.gate.release()


def environment_for(plan: Plan, allocator: Allocator, gate: Optional[IdleGate] = None) -> Dict[str, str]:
    environment = dict(plan.environment)
    value = preload_value(allocator.path, environment, plan.shim if gate else None)
    if value:
        environment["LD_PRELOAD"] = value
    if gate:
        environment.update(gate.environment())
    return environment


def _tail(file: BinaryIO) -> str:
    file.seek(0, os.SEEK_END)
    file.seek(max(0, file.tell() - STDERR_TAIL_BYTES))
    return file.read().decode(errors="replace").strip()


def _digest(file: BinaryIO) -> str:
    digest = hashlib.sha256()
    file.seek(0)
    for block in iter(lambda: file.read(1 << 20), b""):
        digest.update(block)
    return digest.hexdigest()


def _fill(run: Run, usage, status: int, child: launch.Child, watch: Watch) -> None:
    run.exit_status = -os.WTERMSIG(status) if os.WIFSIGNALED(status) else os.WEXITSTATUS(status)
    run.user_s, run.system_s = usage.ru_utime, usage.ru_stime
    run.minor_faults, run.major_faults = usage.ru_minflt, usage.ru_majflt
    peak = usage.ru_maxrss * proc.KIB
    if peak <= child.peak_floor_bytes:
        peak = watch.high_water
    if watch.processes > 1:
        peak = max(peak, watch.tree_peak)
    run.peak_bytes = peak or None
    run.loaded, run.processes = watch.loaded, watch.processes


def run_once(plan: Plan, allocator: Allocator, round_number: int) -> Run:
    """Run the program once and measure it. Raises HeddleError if it cannot be started."""
    run = Run(allocator.name, round_number)
    known = proc.children_of(os.getpid())
    with_shim = plan.idle_s is not None and not plan.server and plan.shim is not None
    gate = IdleGate(plan.scratch, plan.idle_s) if with_shim else None
    null = os.open(os.devnull, os.O_RDWR)
    stdin = os.open(plan.stdin_path, os.O_RDONLY)
    child = None
    with tempfile.TemporaryFile(dir=plan.scratch) as out, tempfile.TemporaryFile(dir=plan.scratch) as err:
        try:
            fds = (stdin, out.fileno() if plan.hash_output else null, err.fileno())
            child = launch.start(plan.target.path, plan.arguments, environment_for(plan, allocator, gate), fds)
            watch = Watch(child, plan, allocator.path)
            follower = _Follower(child, plan, watch, gate, run)
            ended = follower.follow()
            _, status, usage = os.wait4(child.pid, 0)
        except BaseException:
            if child is not None:
                launch.kill_tree(child.pid)
            raise
        finally:
            os.close(stdin)
            os.close(null)
            if gate:
                gate.close()
            run.left_behind = launch.end_leftovers(known)
        _fill(run, usage, status, child, watch)
        run.wall_s = ended - child.started - follower.idle_spent
        if plan.server and follower.idle_from is not None:
            # A server's work ends where its CPU use stopped; what follows is our waiting.
            run.wall_s = follower.idle_from - child.started
        run.stderr_tail = _tail(err)
        if plan.hash_output:
            run.output_sha256 = _digest(out)
    return run
