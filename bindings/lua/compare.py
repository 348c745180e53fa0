#!/usr/bin/env python3
"""Lua scripts under several allocators, interleaved: compare.py [--rounds N] [--preload NAME=LIBRARY]... HOST SCRIPT...

HOST is the program of host.c. Each round runs every allocator once; shown are the least CPU time and the least peak RSS of each, and
their ratio to the row `state`. Without --preload: glibc, and mimalloc and jemalloc where the system has them.

SPDX-License-Identifier: MIT
"""
import argparse
import ctypes.util
import os
import re
import subprocess
import sys


def arguments():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rounds", type=int, default=11)
    parser.add_argument("--preload", action="append", metavar="NAME=LIBRARY")
    parser.add_argument("host")
    parser.add_argument("scripts", nargs="+")
    return parser.parse_args()


def rows(given):
    """name, mode of the host, library to preload."""
    own = [("state", "state", ""), ("state+close", "state+close", ""), ("thread", "thread", ""), ("glibc", "plain", "")]
    if given:
        return own + [(name, "plain", library) for name, library in (item.split("=", 1) for item in given)]
    found = [(name, ctypes.util.find_library(name)) for name in ("mimalloc", "jemalloc")]
    return own + [(name, "plain", library) for name, library in found if library]


def run(host, mode, library, script):
    environment = dict(os.environ, LD_PRELOAD=library)
    done = subprocess.run([host, mode, script], env=environment, capture_output=True, text=True)
    figures = re.fullmatch(r"cpu_ms=([\d.]+) peak_mib=([\d.]+)\n", done.stdout)
    if done.returncode != 0 or not figures or "ERROR" in done.stderr:
        sys.exit(f"compare.py: {mode} {library} {script}: {done.stderr.strip() or done.stdout.strip() or done.returncode}")
    return float(figures[1]), float(figures[2])


def main():
    options = arguments()
    allocators = rows(options.preload)
    for script in options.scripts:
        best = {}
        for _ in range(options.rounds):
            for name, mode, library in allocators:
                cpu, peak = run(options.host, mode, library, script)
                before = best.get(name, (cpu, peak))
                best[name] = min(cpu, before[0]), min(peak, before[1])
        print(f"{os.path.basename(script):16} {'CPU ms':>9} {'ratio':>6} {'peak MiB':>9} {'ratio':>6}")
        for name, (cpu, peak) in best.items():
            print(f"  {name:14} {cpu:9.1f} {cpu / best['state'][0]:6.2f} {peak:9.1f} {peak / best['state'][1]:6.2f}")


main()
