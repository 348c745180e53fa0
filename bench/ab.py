#!/usr/bin/env python3
"""Two preload libraries, one command, interleaved: ab.py A.so B.so -- command args...

Prints minimum and median of CPU, wall and peak RSS of both and the ratio B / A. A or B may be the word `system`.
A RESULT line of the workload adds its own figure (ns= or us_per_thread=, else seconds per operation).
"""

import argparse
import os
import statistics
import subprocess
import sys
import tempfile
from pathlib import Path

BENCH = Path(__file__).resolve().parent


def stop(message):
    sys.exit(f"{Path(sys.argv[0]).name}: {message}")


def library(word):
    if word == "system":
        return ""
    if not Path(word).is_file():
        stop(f"no file {word}")
    return str(Path(word).resolve())


def build(folder):
    built = subprocess.run(["bash", str(BENCH / "build.sh"), folder], capture_output=True, text=True)
    if built.returncode:
        stop("bench/build.sh failed: " + built.stderr.strip())


def figure_of(text):
    """The workload's own number, in ns, or None."""
    words = next((line.split() for line in text.splitlines() if line.startswith("RESULT ")), None)
    if not words:
        return None
    extra = dict(w.split("=", 1) for w in words[6:])
    if "ns" in extra:
        return float(extra["ns"])
    if "us_per_thread" in extra:
        return float(extra["us_per_thread"]) * 1e3
    return float(words[4]) / max(float(words[3]), 1) * 1e9


def run(launch, report, preload, command):
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    done = subprocess.run(
        [launch, report, "300", preload, "--", *command], capture_output=True, text=True, errors="replace", env=env
    )
    code, user, system, wall, rss, faults, _ = Path(report).read_text().split() if Path(report).exists() else ["?"] * 7
    if code != "0":
        stop(
            f"exit code {code} under {preload or 'the system allocator'}: {(done.stderr.strip().splitlines() or ['no message'])[-1]}"
        )
    values = {
        "CPU ms": (float(user) + float(system)) * 1e3,
        "wall ms": float(wall) * 1e3,
        "RSS MiB": int(rss) / 1024,
        "faults": int(faults),
    }
    own = figure_of(done.stdout)
    if own is not None:
        values["ns/op"] = own
    return values


def main():
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    parser = argparse.ArgumentParser(usage="ab.py A.so B.so [-r rounds] -- command args...", description=__doc__.splitlines()[0])
    parser.add_argument("a")
    parser.add_argument("b")
    parser.add_argument("-r", "--rounds", type=int, default=12, help="at least 10 (default 12)")
    parser.add_argument("--bin", default=str(BENCH.parent / "build/bench"), help="where bench/build.sh puts the workloads")
    options = parser.parse_args(words[:split])
    command = words[split + 1 :]
    if not command:
        stop("no command after --")
    if options.rounds < 10:
        stop("fewer than 10 rounds say little")
    build(options.bin)
    if (Path(options.bin) / command[0]).is_file():
        command[0] = str(Path(options.bin).resolve() / command[0])
    sides = [library(options.a), library(options.b)]
    samples = [[], []]
    with tempfile.TemporaryDirectory() as tmp:
        for turn in range(options.rounds + 1):  # the first is a warm-up
            for side in ((0, 1), (1, 0))[turn % 2]:
                values = run(str(Path(options.bin) / "launch"), f"{tmp}/report", sides[side], command)
                if turn:
                    samples[side].append(values)
    print(f"{'':9} {'A min':>10} {'A median':>10} {'B min':>10} {'B median':>10} {'B/A min':>8} {'B/A med':>8}")
    for what in samples[0][0]:
        a, b = ([s[what] for s in side] for side in samples)
        cells = (min(a), statistics.median(a), min(b), statistics.median(b))
        ratios = (cells[2] / cells[0] if cells[0] else float("nan"), cells[3] / cells[1] if cells[1] else float("nan"))
        print(f"{what:9} {cells[0]:10.3f} {cells[1]:10.3f} {cells[2]:10.3f} {cells[3]:10.3f} {ratios[0]:8.3f} {ratios[1]:8.3f}")


if __name__ == "__main__":
    main()
