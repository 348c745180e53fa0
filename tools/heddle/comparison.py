"""A comparison: the interleaved rounds, and what can be said about them."""

from __future__ import annotations

import shlex
import signal
from dataclasses import dataclass, field
from typing import Callable, Dict, List, Optional, Sequence, Tuple

from . import stats
from .allocators import Allocator
from .libraries import loader_accepts
from .measure import Plan, Run, run_once


@dataclass(frozen=True)
class Metric:
    """One measured quantity; less is better in all of them."""

    key: str
    title: str
    unit: str       # "s", "B" or "count"
    best_word: str  # for the summary: "least CPU time"
    read: Callable[[Run], Optional[float]]


METRICS: Tuple[Metric, ...] = (
    Metric("wall", "wall time", "s", "least wall time", lambda run: run.wall_s),
    Metric("cpu", "CPU time", "s", "least CPU time", lambda run: run.cpu_s),
    Metric("peak", "peak RSS", "B", "lowest peak RSS", lambda run: run.peak_bytes),
    Metric("faults", "page faults", "count", "fewest page faults", lambda run: float(run.faults)),
    Metric("idle", "RSS after idle", "B", "lowest RSS after idle", lambda run: run.idle_bytes),
)


@dataclass
class Comparison:
    """All runs of one program. Runs of warm-up rounds are checked and then left out of the figures."""

    title: str
    plan: Plan
    allocators: List[Allocator]
    baseline: str
    rounds: int = 0
    warmup: int = 0
    runs: List[Run] = field(default_factory=list)
    warmup_runs: List[Run] = field(default_factory=list)
    dropped: Dict[str, str] = field(default_factory=dict)   # allocator -> why it was not run to the end
    unseen: List[str] = field(default_factory=list)         # allocators of which nobody knows that they were loaded
    idle_reason: str = ""                                   # why RSS after idle was not measured

    @property
    def command(self) -> str:
        return shlex.join([self.plan.target.name, *self.plan.arguments])

    @property
    def names(self) -> List[str]:
        return [allocator.name for allocator in self.allocators]

    def runs_of(self, name: str) -> List[Run]:
        return [run for run in self.runs if run.allocator == name]

    def values(self, name: str, metric: Metric) -> Dict[int, float]:
        """Round -> value; empty for an allocator that was dropped."""
        if name in self.dropped:
            return {}
        pairs = ((run.round, metric.read(run)) for run in self.runs_of(name))
        return {number: float(value) for number, value in pairs if value is not None}

    def estimate(self, name: str, metric: Metric) -> Optional[stats.Estimate]:
        values = self.values(name, metric)
        return stats.estimate(list(values.values())) if values else None

    def ratio(self, name: str, metric: Metric, base: Optional[str] = None) -> Optional[stats.Estimate]:
        """Ratios to another allocator (the baseline if none is named), paired by round."""
        values, others = self.values(name, metric), self.values(base or self.baseline, metric)
        rounds = sorted(set(values) & set(others))
        return stats.ratio_estimate([values[r] for r in rounds], [others[r] for r in rounds])

    def ranking(self, metric: Metric) -> "Ranking":
        estimates = {name: self.estimate(name, metric) for name in self.names}
        present = sorted((e.median, name) for name, e in estimates.items() if e is not None)
        if len(present) < 2:
            return Ranking(None, [])
        best = present[0][1]
        # The intersection of "less than each other one" needs no correction for the number of comparisons.
        level = [name for _, name in present[1:] if stats.compare_to_one(self.ratio(best, metric, name)) >= 0]
        return Ranking(best, []) if not level else Ranking(None, [best, *level])


@dataclass(frozen=True)
class Ranking:
    """The winner with confidence, or those among which none can be named."""

    winner: Optional[str]
    level: List[str]


def rotated(items: Sequence, by: int) -> List:
    shift = by % len(items) if items else 0
    return list(items[shift:]) + list(items[:shift])


def describe_exit(run: Run) -> str:
    if run.timed_out:
        return "ran into the timeout"
    if run.exit_status < 0:
        try:
            return f"was ended by {signal.Signals(-run.exit_status).name}"
        except ValueError:
            return f"was ended by signal {-run.exit_status}"
    return f"exited with status {run.exit_status}"


def _drop_if_failed(comparison: Comparison, run: Run, reference: Optional[Run]) -> None:
    """An allocator under which the program dies otherwise than under the baseline is not run again."""
    if run.timed_out:
        comparison.dropped[run.allocator] = describe_exit(run)
    elif run.loaded is False:
        comparison.dropped[run.allocator] = "was not loaded into the program, so it measured the system allocator"
    elif reference is not None and run.exit_status != reference.exit_status:
        comparison.dropped[run.allocator] = f"the program {describe_exit(run)} ({describe_exit(reference)} " \
                                            f"under {reference.allocator})"


def run_round(comparison: Comparison, number: int, warmup: bool, tick: Callable[[str], None]) -> None:
    """Every allocator once, each round starting with another one."""
    order = [allocator for allocator in comparison.allocators if allocator.name not in comparison.dropped]
    runs = []
    for allocator in rotated(order, number):
        tick(allocator.name)
        runs.append(run_once(comparison.plan, allocator, number))
    (comparison.warmup_runs if warmup else comparison.runs).extend(runs)
    reference = next((run for run in runs if run.allocator == comparison.baseline), None)
    for run in runs:
        _drop_if_failed(comparison, run, reference if run is not reference else None)
    if not warmup:
        comparison.rounds += 1
    else:
        comparison.warmup += 1


def run_rounds(comparison: Comparison, warmup: int, rounds: int, tick: Callable[[str], None]) -> None:
    """All rounds; stops early if nothing is left to compare with."""
    for number in range(warmup):
        run_round(comparison, number, True, tick)
    for number in range(rounds):
        if comparison.baseline in comparison.dropped:
            break
        run_round(comparison, number, False, tick)


def settle_unseen(comparison: Comparison) -> None:
    """For programs too short to be looked into while they ran: the loader says whether it takes the library."""
    for allocator in comparison.allocators:
        own = [run for run in comparison.warmup_runs + comparison.runs if run.allocator == allocator.name]
        if allocator.path is None or allocator.name in comparison.dropped or any(run.loaded for run in own):
            continue
        accepted = loader_accepts(comparison.plan.target.binary, allocator.path, comparison.plan.environment)
        if accepted is False:
            comparison.dropped[allocator.name] = "the program's loader does not accept the library"
        elif accepted is None and own:
            comparison.unseen.append(allocator.name)


def warnings(comparison: Comparison) -> List[str]:
    """What a reader must know before believing the figures."""
    found = [f"{name}: {reason}; its figures are left out" for name, reason in comparison.dropped.items()]
    runs = comparison.warmup_runs + comparison.runs
    base = [run for run in runs if run.allocator == comparison.baseline]
    statuses = sorted({run.exit_status for run in base})
    server_end = comparison.plan.server and set(statuses) <= {0, -15, 143}
    if statuses not in ([0], []) and not server_end:
        found.append(f"the program itself {describe_exit(base[-1])} under {comparison.baseline}")
        if base[-1].stderr_tail:
            found.append("its last words: " + base[-1].stderr_tail.splitlines()[-1])
    found += [f"{name}: the program ended too soon to see in its memory map that the library was loaded"
              for name in comparison.unseen]
    found += output_differences(comparison, base)
    if comparison.idle_reason:
        found.append(f"RSS after idle: n/a, {comparison.idle_reason}")
    return found


def output_differences(comparison: Comparison, base: List[Run]) -> List[str]:
    digests = {run.output_sha256 for run in base}
    if digests <= {None}:
        return []
    if len(digests) > 1:
        return [f"standard output differs between runs under {comparison.baseline} itself, so it says nothing"]
    found = []
    for name in comparison.names:
        own = {run.output_sha256 for run in comparison.warmup_runs + comparison.runs if run.allocator == name}
        if own and own != digests:
            found.append(f"{name}: standard output differs from that under {comparison.baseline}")
    return found


def results_differ(comparison: Comparison) -> bool:
    """Whether the program behaved otherwise under some allocator: for the exit status of the command."""
    base = [run for run in comparison.warmup_runs + comparison.runs if run.allocator == comparison.baseline]
    differing = [line for line in output_differences(comparison, base) if "says nothing" not in line]
    return bool(comparison.dropped) or bool(differing)
