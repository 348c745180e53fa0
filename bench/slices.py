#!/usr/bin/env python3
"""Preload libraries side by side in loops measured inside: slices.py A.so B.so... -- replace-16-1024-5000 lifo-16-256-1000...

For each loop (workloads/slices.c says what they are) and each library, in interleaved rounds: nanoseconds an operation in the fastest tenth
of the slices (the best round's) and in the middle one (the median of the rounds). The first library's as they are, the others' as ratios to
it, and peak memory as well. A library may be the word `system`.
"""

import argparse
import os
import random
import statistics
import subprocess
import sys
from pathlib import Path

from ab import BENCH, build, library, stop


def run(command, preload):
    """Tenth and middle in ns, and KiB."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    if preload:
        env["LD_PRELOAD"] = preload
    done = subprocess.run(command, capture_output=True, text=True, env=env)
    if done.returncode:
        stop(f"{' '.join(command)} under {preload or 'the system allocator'}: {done.stderr.strip() or done.returncode}")
    words = done.stdout.split()
    extra = dict(word.split("=", 1) for word in words[6:])
    return float(extra["ns"]), float(extra["median"]), int(words[5])


def figures(samples):
    tenths, middles, kib = zip(*samples)
    return min(tenths), statistics.median(middles), statistics.median(kib)


def main():
    words = sys.argv[1:]
    split = words.index("--") if "--" in words else len(words)
    usage = "slices.py A.so B.so... [-r rounds] [-n seconds] [-t threads] -- loop..."
    parser = argparse.ArgumentParser(usage=usage, description=__doc__.splitlines()[0])
    parser.add_argument("libraries", nargs="+")
    parser.add_argument("-r", "--rounds", type=int, default=7, help="default 7")
    parser.add_argument("-n", "--seconds", type=float, default=0.06, help="of each run (default 0.06)")
    parser.add_argument("-t", "--threads", type=int, default=1)
    parser.add_argument("--bin", default=str(BENCH.parent / "build/bench"), help="where bench/build.sh puts the workloads")
    options = parser.parse_args(words[:split])
    loops = words[split + 1 :]
    if not loops:
        stop("no loop after --")
    build(options.bin)
    preloads = [library(word) for word in options.libraries]
    names = [Path(word).name.removesuffix(".so")[:14] for word in options.libraries]
    print(f"{'':26}{names[0]:>16}" + "".join(f"{name:>19}" for name in names[1:]))
    for loop in loops:
        command = [f"{options.bin}/slices", "-m", loop, "-n", str(options.seconds), "-t", str(options.threads)]
        samples = [[] for _ in preloads]
        for _ in range(options.rounds):
            for side in random.sample(range(len(preloads)), len(preloads)):
                samples[side].append(run(command, preloads[side]))
        first, *others = [figures(side) for side in samples]
        line = f"{loop:26}{first[0]:8.1f}{first[1]:8.1f}"
        for other in others:
            line += "    " + "".join(f"{ours / base:5.2f}" for ours, base in zip(other, first))
        print(line, flush=True)


if __name__ == "__main__":
    main()
