#!/usr/bin/env python3
"""Free Pascal's memory managers side by side: bench.pas compiled for each, run in turn, the least of the rounds.

usage: bench/run.py [--quick] [--cpu] [--only WORKLOAD] [--rounds N] [--libraries DIRECTORY] [--peers DIRECTORY] [--images DIRECTORY]

Managers: Free Pascal's own heap; its unit cmem on the C library's malloc; cmem with mimalloc and TCMalloc preloaded, where bench/peers.sh
has fetched them; Heddle by heddlemm.pas, linked statically. Prints two tables, and writes the demo's curve as pascal-demo.svg.
"""

import argparse
import json
import os
import subprocess
import sys
import tempfile

HERE = os.path.dirname(os.path.abspath(__file__))
UNIT = os.path.dirname(HERE)
ROOT = os.path.dirname(os.path.dirname(UNIT))
sys.path.insert(0, os.path.join(ROOT, "bench", "arena"))
from svg import Canvas, Log  # noqa: E402

THREADS = (1, 2, 4, 8, 16)
WORKLOADS = ("small-up", "small-down", "growth", "strings", "objects", "fill", "sort", "wild")
PEERS = (("mimalloc3", "mimalloc"), ("gperftools", "TCMalloc"))
TENTH = ("FPC heap", "cmem")  # a tenth of the demo's work, times ten: they take seconds for it
COLORS = {"FPC heap": "#8a6d3b", "cmem": "#7d8894", "mimalloc": "#2f7ed8", "TCMalloc": "#c0504d", "Heddle": "#1a9850"}


def compiled(name, options, libraries, scratch):
    out = os.path.join(scratch, name)
    os.makedirs(out)
    places = ["-Fu" + UNIT, "-Fl" + libraries, "-FE" + out, "-FU" + out]
    command = ["fpc", "-B", "-O3", *options, *places, os.path.join(HERE, "bench.pas")]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode != 0:
        sys.exit("run.py: bench.pas does not compile:\n" + done.stdout[-1500:])
    return os.path.join(out, "bench")


def managers(libraries, peers, scratch):
    """name -> (program, library to preload)"""
    found = {
        "FPC heap": (compiled("own", [], libraries, scratch), None),
        "cmem": (compiled("cmem", ["-dCMEM"], libraries, scratch), None),
    }
    listed = os.path.join(peers, "peers.json")
    paths = {}
    if os.path.exists(listed):
        with open(listed) as file:
            paths = {peer["name"]: peer["path"] for peer in json.load(file)["peers"]}
    for key, name in PEERS:
        if os.path.exists(paths.get(key, "")):
            found[name] = (found["cmem"][0], paths[key])
        else:
            print(f"run.py: {name} is left out: no {key} in {listed}", file=sys.stderr)
    found["Heddle"] = (compiled("heddle", ["-dHEDDLE"], libraries, scratch), None)
    return found


def measure(name, manager, workload, threads, scale, word):
    program, preload = manager
    tenth = name in TENTH and workload == "demo" and scale >= 10
    scale = scale // 10 if tenth else scale
    environment = {**os.environ, "LD_PRELOAD": preload} if preload else dict(os.environ)
    done = subprocess.run([program, workload, str(threads), str(scale)], env=environment, capture_output=True, text=True)
    # The linker goes on without a library that it can't preload, and says so.
    if done.returncode != 0 or done.stderr or not done.stdout.startswith("ms "):
        sys.exit(f"run.py: {workload} on {threads} threads failed: {done.stderr.strip() or done.returncode}")
    return float(done.stdout.split()[word]) * (10 if tenth else 1)


def interleaved(found, cells, rounds, word):
    """(workload, threads) -> name -> least ms a thread. The order turns from cell to cell; the first round warms up."""
    names = list(found)
    least = {cell[:2]: {} for cell in cells}
    for turn in range(rounds + 1):
        for at, (workload, threads, scale) in enumerate(cells):
            shift = (turn + at) % len(names)
            for name in names[shift:] + names[:shift]:
                ms = measure(name, found[name], workload, threads, scale, word)
                if turn > 0:
                    row = least[workload, threads]
                    row[name] = min(ms, row.get(name, ms))
    return least


def table(title, names, rows):
    lines = [f"| {title} | " + " | ".join(names) + " | Heddle / best other |", "|---" * (len(names) + 2) + "|"]
    for label, row in rows:
        best = min(ms for name, ms in row.items() if name != "Heddle")
        cells = [f"{row[name]:.1f}" for name in names]
        lines.append(f"| {label} | " + " | ".join(cells) + f" | {row['Heddle'] / best:.2f} |")
    return "\n".join(lines)


def curve(least, names, rounds, clock, path):
    values = [ms for (workload, _), row in least.items() if workload == "demo" for ms in row.values()]
    what = "; ".join(name + " " + " / ".join(f"{least['demo', t][name]:.1f}" for t in THREADS) for name in names)
    measured = f"{clock} time; {os.cpu_count()} processors; least of {rounds} rounds"
    subtitle = ["1,000 blocks taken, doubled and freed, again and again; " + measured]
    canvas = Canvas(760, 430, "Milliseconds a thread, Free Pascal 3.2.2", subtitle, "ms a thread at 1 / 2 / 4 / 8 / 16 threads: " + what)
    xs, ys = Log(1, 16, 90, 590), Log(min(values) * 0.8, max(values) * 1.2, 370, 75)
    canvas.x_axis(xs, 75, 370, "threads", lambda value: f"{value:g}")
    canvas.y_axis(ys, 90, 590, "ms a thread", lambda value: f"{value:g}")
    for name in names:
        points = [(xs(threads), ys(least["demo", threads][name])) for threads in THREADS]
        canvas.line(points, COLORS[name])
        for x, y in points:
            canvas.dot(x, y, COLORS[name])
    canvas.legend(610, 100, [(name, COLORS[name], "") for name in names])
    with open(path, "w") as file:
        file.write(canvas.render())


def main():
    parser = argparse.ArgumentParser(description="Compare Free Pascal's memory managers.")
    parser.add_argument("--quick", action="store_true", help="a tenth of the work, 2 rounds")
    parser.add_argument("--libraries", default=os.path.join(ROOT, "build"), help="where libheddle.a is (default: build)")
    parser.add_argument("--peers", default=os.path.join(ROOT, "build", "peers"), help="where peers.json is (default: build/peers)")
    parser.add_argument("--images", default=os.path.join(ROOT, "docs", "images"), help="where pascal-demo.svg goes")
    parser.add_argument("--cpu", action="store_true", help="processor time instead of elapsed time, on a machine that others use too")
    parser.add_argument("--only", help="one workload")
    parser.add_argument("--rounds", type=int, default=5)
    arguments = parser.parse_args()
    rounds, scale = (2, 10) if arguments.quick else (arguments.rounds, 40)
    if rounds < 1:
        parser.error("--rounds must be 1 or more")
    cells = [("demo", threads, 3 * scale) for threads in THREADS]
    cells += [(workload, threads, scale) for workload in WORKLOADS for threads in (1, 4)]
    cells = [cell for cell in cells if arguments.only in (None, cell[0])]
    if not cells:
        parser.error(f"--only takes demo, {', '.join(WORKLOADS)}")
    with tempfile.TemporaryDirectory() as scratch:
        found = managers(os.path.abspath(arguments.libraries), arguments.peers, scratch)
        least = interleaved(found, cells, rounds, 3 if arguments.cpu else 1)
    names = list(found)
    clock = "processor" if arguments.cpu else "elapsed"
    print(f"{clock} time, {os.cpu_count()} processors, least of {rounds} interleaved rounds")
    print(f"{' and '.join(TENTH)} did a tenth of the demo, times ten\n")
    demo = [(f"{t} threads", least["demo", t]) for t in THREADS if ("demo", t) in least]
    others = [(f"{w}, {t}", row) for (w, t), row in least.items() if w != "demo"]
    for title, rows in (("demo, ms a thread", demo), ("ms a thread", others)):
        if rows:
            print(table(title, names, rows) + "\n")
    if demo:
        print("t(2)/t(1): " + ", ".join(f"{name} {demo[1][1][name] / demo[0][1][name]:.2f}" for name in names))
        curve(least, names, rounds, clock, os.path.join(arguments.images, "pascal-demo.svg"))


if __name__ == "__main__":
    main()
