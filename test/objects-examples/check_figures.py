"""The figures of bench/arena against plain arithmetic: percentiles, densities and tails from the histogram; then the histogram of a real
run against its exact sums, and the plots as XML.    usage: check_figures.py BENCH_DIRECTORY HEAP_PROGRAM"""

import json
import math
import random
import subprocess
import sys
import tempfile
import xml.etree.ElementTree
from pathlib import Path

sys.path.insert(0, sys.argv[1])
import figures  # noqa: E402
import plots  # noqa: E402
import runs  # noqa: E402

SEED = 20_261


def cell_of(fine):
    """What meter.h's meter_cell does."""
    if fine < figures.SUB:
        return fine
    octave = fine.bit_length() - 8
    return (octave + 1) * figures.SUB + (fine >> octave) % figures.SUB


def record_of(values):
    cells = {}
    for value in values:
        cell = cell_of(int(value * figures.FINE + 0.5))
        cells[cell] = cells.get(cell, 0) + 1
    sums = {"sum": sum(values), "sum_squares": sum(v * v for v in values), "most": max(values)}
    return {"each": 100, "count": len(values), "cells": sorted(map(list, cells.items())), **sums}


def near(found, wanted, share, what):
    assert abs(found - wanted) <= share * abs(wanted), f"{what}: {found} instead of {wanted} (seed {SEED})"


def check_cells():
    for fine in [*range(2000), *(2**k + d for k in range(11, 50) for d in (-1, 0, 1))]:
        low, high = figures.cell_edges(cell_of(fine))
        assert low * figures.FINE <= fine < high * figures.FINE, f"{fine} is not in its cell"


def check_series():
    rng = random.Random(SEED)
    values = sorted(rng.lognormvariate(3, 0.5) for _ in range(50_000))
    series = figures.Series("a", "alloc", 5120, "batch", "warm", False)
    for part in (values[::2], values[1::2]):
        series.add(record_of(part), 2.0)
    for share in (0.5, 0.99, 0.999):
        near(series.quantile(share), 2 * values[int(share * len(values))], 0.01, f"quantile {share}")
    near(series.mean, 2 * sum(values) / len(values), 1e-9, "mean")
    near(series.deviation, 2 * math.sqrt(sum((v - series.mean / 2) ** 2 for v in values) / len(values)), 1e-6, "deviation")
    near(series.best, 2 * sum(values[:47_500]) / 47_500, 0.01, "trimmed mean of a run")
    near(sum(height for _, height in series.density(1, 1000)) * 3 / 480, 1, 1e-6, "area under the density")
    slower = next(share for value, share in series.tail() if value >= 2 * values[45_000])
    near(slower, 0.1, 0.02, "share of the slowest tenth")
    return series


def check_program(heap):
    for how in ("batch", "single"):
        done = subprocess.run([heap, "-w", how, "-s", "cold", "-n", "2000"], capture_output=True, text=True, check=True)
        for record in map(json.loads, done.stdout.splitlines()):
            if record["kind"] == "series":
                assert sum(count for _, count in record["cells"]) == record["count"], "readings are missing"
                from_cells = sum(figures.middle(cell) * count for cell, count in record["cells"])
                # Readings below the clock's own cost are negative in the sum and 0 in the histogram.
                allowed = 0.02 * record["sum"] + (30 * record["count"] if how == "single" else 0)
                assert abs(from_cells - record["sum"]) <= allowed, f"{record['op']}, {how}: {from_cells}, not {record['sum']}"


def check_plots(series):
    results, subjects = figures.Results(), [runs.Subject("system", "system <&>", "heap"), runs.Subject("fixed", "arena", "arena", "fixed")]
    for subject in subjects:
        for way in runs.scenarios(True):
            for size in way.sizes:
                for op in ("take", "give", "round"):
                    key = (subject.name, subject.operation(op), size, way.how, way.state, way.touch)
                    results.series[key] = series
    with tempfile.TemporaryDirectory() as directory:
        paths = list(plots.write_all(Path(directory), results, subjects, {"processor": "a & b", "rounds": 1}))
        assert len(paths) == len(plots.DENSITIES) + 2, f"only {len(paths)} plots"
        for path in paths:
            words = "".join(xml.etree.ElementTree.parse(path).getroot().itertext())
            assert "system <&>" in words and "logarithmic" in words and "nan" not in path.read_text(), path.name


check_cells()
check_plots(check_series())
check_program(sys.argv[2])
print("check_figures: ok")
