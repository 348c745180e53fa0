"""From samples to figures: minimum, median, ratios, geometric means."""

import math
import statistics
from dataclasses import asdict, dataclass
from typing import NamedTuple

from .measure import CONTROL, Allocator, Sample

LEAST_CPU_S = 0.003  # below this a CPU time is mostly the clock's grain: smaller ones count as this, two such make no ratio


class Means(NamedTuple):
    """One allocator's geometric means, by the minimum of the rounds and by their median."""

    name: str
    version: str
    cpu: float | None
    cpu_rows: int
    rss: float | None
    rss_rows: int
    median_cpu: float | None
    median_rss: float | None


MEANS = ("cpu", "rss", "median_cpu", "median_rss")


class Results:
    """samples[row name][allocator name] is a list of Sample, one per round."""

    def __init__(self, rows, allocators, baseline, subject):
        self.rows, self.allocators = rows, [a.name for a in allocators]
        self.versions = {a.name: a.version for a in allocators}
        self.baseline, self.subject = baseline, subject
        self.samples = {row.name: {a.name: [] for a in allocators} for row in rows}
        self.failures = []

    def add(self, row, allocator, sample):
        self.samples[row.name][allocator.name].append(sample)

    def values(self, row, name, what):
        return [getattr(s, what) for s in self.samples[row][name]]

    def least(self, row, name, what):
        values = self.values(row, name, what)
        return min(values) if values else None

    def median(self, row, name, what):
        values = self.values(row, name, what)
        return statistics.median(values) if values else None

    def time_of(self, row):
        """The figure that a row is judged by: ns or us where the workload prints one, CPU seconds elsewhere."""
        return "figure" if any(s.figure for runs in self.samples[row].values() for s in runs) else "cpu"

    def unit_of(self, row):
        """The unit of a row's own figure."""
        return "us" if any("us_per_thread" in s.extra for runs in self.samples[row].values() for s in runs) else "ns"

    def ratio(self, row, name, other, what, middle=False):
        """By the minimum of the rounds, or by their median."""
        of = self.median if middle else self.least
        mine, theirs = of(row, name, what), of(row, other, what)
        if mine is None or theirs is None:
            return None
        if what == "cpu":
            if max(mine, theirs) < LEAST_CPU_S:
                return None
            mine, theirs = max(mine, LEAST_CPU_S), max(theirs, LEAST_CPU_S)
        if not theirs:
            return None
        return mine / theirs

    def best_peer(self, row, what):
        """The peer (neither the subject nor its copy) with the lowest minimum; None when nobody has one."""
        values = [(self.least(row, n, what), n) for n in self.allocators if n not in (self.subject, CONTROL)]
        values = [v for v in values if v[0] is not None]
        return min(values)[1] if values else None

    def against_best(self, row, what):
        best = self.best_peer(row, what)
        return (self.ratio(row, self.subject, best, what), best) if best and self.subject in self.allocators else (None, best)

    def geomean(self, name, what, middle=False):
        """Against the baseline, over the rows that both have; returns (mean or None, rows counted)."""
        ratios = [self.ratio(row.name, name, self.baseline, what, middle) for row in self.rows]
        logs = [math.log(r) for r in ratios if r]
        return (math.exp(statistics.fmean(logs)), len(logs)) if logs else (None, 0)

    def means_of(self, name):
        least = self.geomean(name, "cpu") + self.geomean(name, "rss_kib")
        middle = [self.geomean(name, what, middle=True)[0] for what in ("cpu", "rss_kib")]
        return Means(name, self.versions[name], *least, *middle)

    def worst_first(self):
        def key(row):
            ratio = self.against_best(row.name, self.time_of(row.name))[0]
            return -(ratio if ratio is not None else 0)

        return sorted(self.rows, key=key)

    @classmethod
    def from_json(cls, data, rows, samples):
        """The figures of an earlier run; of `rows` those that it has."""
        allocators = [Allocator(name, "", version) for name, version in data["versions"].items()]
        results = cls([row for row in rows if row.name in samples], allocators, data["baseline"], data["subject"])
        for row in results.rows:
            results.samples[row.name] |= {name: [Sample(**s) for s in runs] for name, runs in samples[row.name].items()}
        if samples is data["rows"]:  # the list is one for the whole run
            results.failures = list(data["failures"])
        return results

    def to_json(self):
        return {
            "baseline": self.baseline,
            "subject": self.subject,
            "versions": self.versions,
            "failures": self.failures,
            "rows": {
                row.name: {name: [vars(s) for s in runs] for name, runs in self.samples[row.name].items()} for row in self.rows
            },
            "geomeans": {m.name: {k: getattr(m, k) for k in MEANS} for m in map(self.means_of, self.allocators)},
        }


@dataclass
class Run:
    """All that one call of run.py measured."""

    results: Results = None
    scaling: Results = None
    idle: Results = None
    rounds: int = 0
    started: str = ""
    quick: bool = False

    def failures(self):
        return [f for part in (self.results, self.scaling, self.idle) for f in part.failures]

    def to_json(self):
        return self.results.to_json() | {
            "suite": [asdict(row) for part in (self.results, self.scaling, self.idle) for row in part.rows],
            "rounds": self.rounds,
            "started": self.started,
            "quick": self.quick,
            "scaling": self.scaling.to_json()["rows"],
            "idle": self.idle.to_json()["rows"],
            "failures": self.failures(),
        }
