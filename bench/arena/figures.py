"""From the programs' readings to figures: means over runs, percentiles, densities. The histogram is meter.h's."""

import math
import statistics
from dataclasses import dataclass, field

FINE = 64  # a cell of the histogram is 1/64 of a tick: METER_FINE
TRIMMED = 0.95
SUB = 1 << 7  # cells a doubling: 1 << METER_SUB_BITS


def cell_edges(index):
    """The range of a cell, in ticks."""
    if index < SUB:
        return (index - 0.5) / FINE, (index + 0.5) / FINE
    octave, sub = index // SUB - 1, index % SUB
    low = (SUB + sub) << octave
    return low / FINE, (low + (1 << octave)) / FINE


def middle(cell):
    low, high = cell_edges(cell)
    return max(0.0, (low + high) / 2)


def trimmed_mean(cells):
    """The mean of all but the slowest twentieth of the readings, in ticks: [[cell, readings], ...] ascending."""
    room = TRIMMED * sum(count for _, count in cells)
    total, kept = 0.0, 0.0
    for cell, count in cells:
        taken = min(count, room - kept)
        total, kept = total + taken * middle(cell), kept + taken
    return total / kept


@dataclass
class Series:
    """One operation of one subject: all its runs."""

    subject: str
    op: str
    size: int
    how: str
    state: str
    touch: bool
    each: int = 1  # operations a reading
    means: list = field(default_factory=list)  # ns, one a run; of warm batches all but the slowest twentieth
    count: int = 0
    sum: float = 0.0
    squares: float = 0.0
    most: float = -math.inf
    cells: dict = field(default_factory=dict)  # cell: readings
    tick_ns: float = 1.0

    def add(self, record, tick_ns):
        self.each, self.tick_ns = record["each"], tick_ns
        # The slowest of the warm batches are those that something else interrupted. Cold ones have costs of their own there.
        usual = self.how == "batch" and self.state == "warm"
        self.means.append((trimmed_mean(record["cells"]) if usual else record["sum"] / record["count"]) * tick_ns)
        self.count += record["count"]
        self.sum += record["sum"] * tick_ns
        self.squares += record["sum_squares"] * tick_ns * tick_ns
        self.most = max(self.most, record["most"] * tick_ns)
        for index, count in record["cells"]:
            self.cells[index] = self.cells.get(index, 0) + count

    @property
    def mean(self):
        return self.sum / self.count

    @property
    def deviation(self):
        return math.sqrt(max(0.0, self.squares / self.count - self.mean**2))

    @property
    def best(self):
        """The least mean of a run: what disturbed the others had no hand in it."""
        return min(self.means)

    @property
    def median_run(self):
        return statistics.median(self.means)

    def quantile(self, share):
        """The value that `share` of the readings do not pass, in ns; the middle of its cell."""
        wanted, seen = share * self.count, 0
        for index in sorted(self.cells):
            seen += self.cells[index]
            if seen >= wanted:
                return middle(index) * self.tick_ns
        return self.most

    def points(self):
        """(ns, share of the readings), ascending."""
        for index in sorted(self.cells):
            yield middle(index) * self.tick_ns, self.cells[index] / self.count

    def density(self, low, high, steps=480, width=0.012):
        """[(ns, density a decade)] between low and high: a Gaussian kernel of `width` decades over the histogram."""
        start, span = math.log10(low), math.log10(high) - math.log10(low)
        heights = [0.0] * (steps + 1)
        reach = max(1, int(4 * width / span * steps))
        for value, share in self.points():
            at = (math.log10(max(value, low)) - start) / span * steps
            near = range(max(0, int(at) - reach), min(steps, int(at) + reach + 1) + 1)
            kernel = {i: math.exp(-0.5 * ((i - at) * span / steps / width) ** 2) for i in near}
            total = sum(kernel.values())
            for i, weight in kernel.items():
                heights[i] += share * weight / total * steps / span
        return [(10 ** (start + span * i / steps), height) for i, height in enumerate(heights)]

    def tail(self):
        """[(ns, share of the readings that are slower)]."""
        left = 1.0
        for value, share in self.points():
            left -= share
            yield value, max(left, 0.0)

    def to_json(self):
        known = ("subject", "op", "size", "how", "state", "touch", "each", "count")
        figures = {name: getattr(self, name) for name in known}
        figures.update(mean_ns=self.mean, deviation_ns=self.deviation, least_run_ns=self.best, median_run_ns=self.median_run)
        figures.update(p50_ns=self.quantile(0.5), p99_ns=self.quantile(0.99), p999_ns=self.quantile(0.999), max_ns=self.most)
        return dict(figures, runs_ns=self.means)


class Results:
    """All series of a run, by subject, operation, size and way of measuring; and what the clock was like."""

    def __init__(self):
        self.series, self.clocks = {}, []

    def add(self, subject, records):
        clock = next(r for r in records if r["kind"] == "clock")
        self.clocks.append(clock)
        for record in records:
            if record["kind"] == "series":
                key = (subject, record["op"], record["bytes"], record["how"], record["state"], record["touch"])
                self.series.setdefault(key, Series(*key)).add(record, clock["tick_ns"])

    def get(self, subject, op, size=5120, how="batch", state="warm", touch=False):
        return self.series.get((subject, op, size, how, state, touch))

    def clock(self, name):
        return statistics.median(c[name] for c in self.clocks)

    def to_json(self):
        names = ("tick_ns", "cost_ns", "cost_after_ns", "deviation_ns", "step_ns")
        return {"clock": {n: self.clock(n) for n in names}, "series": [s.to_json() for s in self.series.values()]}
