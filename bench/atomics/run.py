#!/usr/bin/env python3
"""Scaling past the cores of this machine: atomic operations and cache lines that change hands, per operation, by number of threads.

Time on two cores says nothing of sixty-four. What decides there is how often threads lock the bus for a line and how often they write a
line that another core owns; both can be counted anywhere. Two counts, each the difference of a run and one of twice the work:
  locked   instructions with a lock prefix (and exchanges with memory) that the allocator executed, by callgrind: any allocator
  rmw, lines   Heddle built with every store counted (watch.c): atomic operations, and stores to a line another thread wrote last
An operation is the workload's own: a replaced block (larson), a block handed over (xmalloc), a step (mstress), a message (pipeline),
an update (kv), a request of about ten blocks (server). --check exits 1 if one of Heddle's counts grows from two threads to the most.
"""

import argparse
import json
import statistics
import sys
import tempfile
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import counters  # noqa: E402
import plot  # noqa: E402
from heddle_bench.measure import OLDER, ROOT, SUBJECT, BenchError, build_workloads, find_allocators  # noqa: E402

# Operations of a callgrind run and of an instrumented one, all threads together, in units of -n for one thread.
WORK = {
    "larson": (0.006, 0.06),
    "xmalloc": (0.01, 0.05),
    "mstress": (0.01, 0.1),
    "pipeline": (0.02, 0.1),
    "kv": (0.01, 0.1),
    "server": (0.01, 0.1),
}
THREADS = (1, 2, 4, 8)
# Growth that --check forgives: scheduling differs from run to run, and a free by another thread writes its block, a line of its own.
ALLOWED_FACTOR, ALLOWED_MORE = 1.5, {"locked instructions": 0.3, "rmw": 0.3, "lines": 1.3}


def note(text):
    if sys.stderr.isatty():
        print(f"\r\033[K{text[:110]}", end="", file=sys.stderr, flush=True)


def commands(bin_dir, workload, threads, work):
    """The same run with its work once and twice."""
    program = str(bin_dir / workload)
    return [[program, "-t", str(threads), "-n", f"{n * work / threads:.6g}"] for n in (1, 2)]


def count_locked(bin_dir, workload, threads, allocator, tmp):
    small, large = (counters.by_callgrind(c, allocator, tmp) for c in commands(bin_dir, workload, threads, WORK[workload][0]))
    return counters.per_operation(small, large)


def count_watched(bin_dir, workload, threads, library, tmp, rounds):
    """Medians, as real races differ from run to run."""
    pair = commands(bin_dir, workload, threads, WORK[workload][1])
    found = [counters.per_operation(*(counters.by_watching(c, library, tmp) for c in pair)) for _ in range(rounds)]
    return {k: statistics.median(f[k] for f in found) for k in found[0]}


def measure(options, bin_dir, found, tmp):
    locked, watched = {}, {}
    failures = [f"{a.name}: n/a, it {counters.WITHOUT_VALGRIND[a.name]}" for a in found if a.name in counters.WITHOUT_VALGRIND]
    if not options.no_watch:
        library = Path(options.out) / "libheddle-watched.so"
        counters.build_watched(library)
    for workload in options.workloads:
        for threads in options.threads:
            key = f"{workload} t{threads}"
            note(f"atomics: {key}")
            if not options.no_watch:
                try:
                    watched[key] = count_watched(bin_dir, workload, threads, library, tmp, options.rounds)
                except counters.CountError as problem:
                    failures.append(f"{key} under the instrumented build: {problem}")
            for allocator in found:
                if allocator.name in counters.WITHOUT_VALGRIND:
                    continue
                note(f"atomics: {key} {allocator.name}")
                try:
                    locked[key, allocator.name] = count_locked(bin_dir, workload, threads, allocator, tmp)["allocator"]
                except counters.CountError as problem:
                    failures.append(f"{key} under {allocator.name}: {problem}")
    note("")
    return locked, watched, failures


# ---- reports ------------------------------------------------------------------------------------------------------------


def cell(value):
    return "n/a" if value is None else f"{max(value, 0):.3f}"


def tables(options, found, locked, watched):
    """[(title, heads, rows of text)], the form that both the terminal and Markdown print."""
    keys = [f"{w} t{t}" for w in options.workloads for t in options.threads]
    out = []
    if found:
        rows = [[key] + [cell(locked.get((key, a.name))) for a in found] for key in keys]
        out.append(("locked instructions per operation (callgrind)", ["workload"] + [a.name for a in found], rows))
    if watched:
        rows = [[key] + [cell(watched.get(key, {}).get(what)) for what in ("rmw", "lines", "stores")] for key in keys]
        heads = ["workload", "atomic operations", "lines from another thread", "all stores"]
        out.append((f"{SUBJECT}'s instrumented build, per operation", heads, rows))
    return out


def as_text(table):
    title, heads, rows = table
    widths = [max(len(line[i]) for line in [heads] + rows) for i in range(len(heads))]
    lines = [title] + ["  ".join(c.ljust(w) if i == 0 else c.rjust(w) for i, (c, w) in enumerate(zip(r, widths))) for r in [heads] + rows]
    return "\n".join(lines)


def as_markdown(table):
    title, heads, rows = table
    lines = [f"{title}:", "", "| " + " | ".join(heads) + " |", "|---" + "|--:" * (len(heads) - 1) + "|"]
    return "\n".join(lines + ["| " + " | ".join(row) + " |" for row in rows]) + "\n"


def grown(options, locked, watched):
    """Counts of the subject that are higher with the most threads than with two by more than what --check forgives."""
    few, most = min(t for t in options.threads if t > 1), max(options.threads)
    lost = []
    for workload in options.workloads:
        low, high = f"{workload} t{few}", f"{workload} t{most}"
        pairs = [("locked instructions", locked.get((low, SUBJECT)), locked.get((high, SUBJECT)))]
        pairs += [(what, watched.get(low, {}).get(what), watched.get(high, {}).get(what)) for what in ("rmw", "lines")]
        for what, before, after in pairs:
            if before is not None and after is not None and after > max(before, 0) * ALLOWED_FACTOR + ALLOWED_MORE[what]:
                lost.append(f"{workload}: {what} per operation grew from {before:.3f} at {few} threads to {after:.3f} at {most}")
    return lost


def write(path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    print(f"wrote {path}")


def save(options, found, locked, watched, failures):
    if options.json:
        by_allocator = {a.name: {k: v for (k, name), v in locked.items() if name == a.name} for a in found}
        data = {"locked": by_allocator, "instrumented": watched, "failures": failures, "versions": {a.name: a.version for a in found}}
        write(options.json, json.dumps(data, indent=1) + "\n")
    if options.markdown:
        write(options.markdown, "\n".join(as_markdown(t) for t in tables(options, found, locked, watched)))
    if options.svg:
        write(options.svg, plot.curves(options.workloads, options.threads, [a.name for a in found], locked))


# ---- the command --------------------------------------------------------------------------------------------------------


def parse():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workloads", default=",".join(WORK), help="names with commas")
    parser.add_argument("--threads", default=",".join(map(str, THREADS)), help="numbers with commas")
    parser.add_argument("--allocators", help="names with commas; none: the instrumented build alone; else all but second builds of a peer")
    parser.add_argument("--quick", action="store_true", help="1, 2 and 8 threads, and three peers")
    parser.add_argument("--rounds", type=int, default=3, help="of the instrumented build; the median counts (default 3)")
    parser.add_argument("--no-watch", action="store_true", help="without the instrumented build")
    parser.add_argument("--heddle", default=str(ROOT / "build/libheddle.so"))
    parser.add_argument("--peers", default=str(ROOT / "build/peers/peers.json"))
    parser.add_argument("--out", default=str(ROOT / "build/bench"), help="where the workloads and the instrumented build go")
    parser.add_argument("--check", action="store_true", help="exit 1 if a count of Heddle's grows with threads")
    for form in ("json", "markdown", "svg"):
        parser.add_argument(f"--{form}", metavar="FILE")
    options = parser.parse_args()
    options.workloads = options.workloads.split(",")
    unknown = set(options.workloads) - set(WORK)
    if unknown:
        parser.error(f"no workload {', '.join(sorted(unknown))}; there are {', '.join(WORK)}")
    try:
        options.threads = sorted({int(t) for t in ("1,2,8" if options.quick else options.threads).split(",")})
    except ValueError:
        parser.error(f"not numbers: {options.threads}")
    if options.threads[0] < 1 or options.threads[-1] > 256 or options.rounds < 1:
        parser.error("threads are 1 to 256, rounds at least 1")
    if options.check and sum(t > 1 for t in options.threads) < 2:
        parser.error("--check compares two numbers of threads above one")
    return options


def choose(options):
    if options.allocators == "none":
        return []
    quick = [SUBJECT, "system", "mimalloc3", "jemalloc"] if options.quick else None
    found = find_allocators(options.heddle, options.peers, options.allocators.split(",") if options.allocators else quick)[0]
    return [a for a in found if options.allocators or a.name not in OLDER]


def main():
    options = parse()
    try:
        found = choose(options)
        bin_dir = build_workloads(options.out)
        with tempfile.TemporaryDirectory() as tmp:
            locked, watched, failures = measure(options, bin_dir, found, tmp)
    except (BenchError, counters.CountError) as problem:
        sys.exit(f"atomics: {problem}")
    print("\n\n".join(as_text(t) for t in tables(options, found, locked, watched)))
    for failure in failures:
        print(f"note: {failure}")
    save(options, found, locked, watched, failures)
    lost = grown(options, locked, watched) if options.check else []
    for line in lost:
        print(f"check: {line}")
    sys.exit(1 if lost or not (locked or watched) else 0)


if __name__ == "__main__":
    main()
