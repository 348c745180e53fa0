#!/usr/bin/env python3
"""Measure the log search under every allocator found, and draw what came out.

usage: figures.py BUILD [--rounds N] [--lines N] [--passes N] [--allocator NAME=PATH ...] [--only NAMES] [--svg DIRECTORY] [--json FILE]

BUILD is the directory with the programs logsearch and logsearch_count. A round runs every row (how lines are converted) under every
allocator once, so that what disturbs the machine disturbs all of them; each figure is the least of all rounds. The table and the plots
show ratios to the straightforward program on the system's allocator, of CPU time: it is what allocation costs, and steadier than the
clock where others use the machine. All runs must find the same lines.
"""

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from html import escape
from pathlib import Path

ROWS = [
    ("line", "qt", "Qt, per line"),
    ("block", "qt", "Qt, per block"),
    ("line", "plain", "plain, per line"),
    ("block", "plain", "plain, per block"),
    ("arena", "plain", "plain, per line, an arena per block"),
    ("mark", "plain", "plain, per line, arena with a point per line"),
]
SYSTEM = "system"
# Names of libraries that Debian's packages, and mimalloc's own, install.
LIBRARIES = [
    ("heddle", "libheddle.so.1"),
    ("mimalloc 3", "libmimalloc.so.3"),
    ("mimalloc 2", "libmimalloc.so.2"),
    ("mimalloc 2", "libmimalloc.so.2.0"),
    ("jemalloc", "libjemalloc.so.2"),
    ("gperftools", "libtcmalloc_minimal.so.4"),
    ("oneTBB", "libtbbmalloc_proxy.so.2"),
]
COLOURS = ["#7a8694", "#d1495b", "#2e86ab", "#84bcda", "#e9a23b", "#5b8e4b", "#8d6fb8", "#b0785a", "#3aa6a0", "#c77fb0"]
REPORT = re.compile(r"wall ([\d.]+) s, cpu ([\d.]+) s, ([\d.]+) MB/s, peak ([\d.]+) MB")
STYLE = (
    ".paper{fill:#fff}.ink{fill:#1c2128}.soft{fill:#5c6773}.grid{stroke:#dde2e8}.one{stroke:#5c6773;stroke-dasharray:3 3}"
    "text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}.title{font-size:16px;font-weight:600}"
    ".group{font-weight:600}@media(prefers-color-scheme:dark){.paper{fill:#14181d}.ink{fill:#e6eaf0}.soft{fill:#9aa6b3}"
    ".grid{stroke:#2a313a}}"
)


# ---- measuring --------------------------------------------------------------------------------------------------------




def find_allocators(extra, only):
    found = {SYSTEM: ""}
    for name, library in LIBRARIES:
        # In a process of its own: an allocator that is loaded into this one would stay.
        probe = f"import ctypes; ctypes.CDLL({library!r})"
        if name not in found and subprocess.run([sys.executable, "-c", probe], stderr=subprocess.DEVNULL).returncode == 0:
            found[name] = library
    for text in extra:
        name, separator, path = text.partition("=")
        if not separator or not os.path.exists(path):
            sys.exit(f"figures.py: --allocator {text}: write NAME=PATH of a library that exists")
        found[name] = os.path.abspath(path)
    if only:
        names = only.split(",")
        unknown = [name for name in names if name not in found]
        if unknown:
            sys.exit(f"figures.py: not found here: {', '.join(unknown)}; found: {', '.join(found)}")
        found = {name: path for name, path in found.items() if name in names or name == SYSTEM}
    # The two that it is about come first.
    return {name: found[name] for name in sorted(found, key=lambda name: (name != SYSTEM, name != "heddle"))}


def run(program, log, how, strings, passes, library=""):
    environment = {key: value for key, value in os.environ.items() if key != "LD_PRELOAD"}
    if library:
        environment["LD_PRELOAD"] = library
    command = [str(program), "search", str(log), "--how", how, "--strings", strings, "--passes", str(passes), "--time"]
    done = subprocess.run(command, env=environment, capture_output=True, text=True)
    if done.returncode != 0 or "cannot be preloaded" in done.stderr:
        sys.exit(f"figures.py: {' '.join(command)} with '{library}' ended in {done.returncode}: {done.stderr.strip()}")
    return done


def count(build, log, rows):
    """Allocations a line of each row, exact."""
    counts = {}
    for how, strings, _ in rows:
        done = run(build / "logsearch_count", log, how, strings, 1)
        counts[how, strings] = float(re.search(r"a line ([\d.]+)", done.stderr)[1])
    return counts


def measure(build, log, rows, allocators, rounds, passes):
    """{(how, strings): {allocator: {wall, cpu, peak}}}, each the least of all rounds."""
    best = {row[:2]: {name: {} for name in allocators} for row in rows}
    answers = set()
    for number in range(rounds):
        for how, strings, _ in rows:
            for name, library in allocators.items():
                done = run(build / "logsearch", log, how, strings, passes, library)
                answers.add(done.stdout)
                wall, cpu, _, peak = (float(figure) for figure in REPORT.search(done.stderr).groups())
                kept = best[how, strings][name]
                for key, value in (("wall", wall), ("cpu", cpu), ("peak", peak)):
                    kept[key] = min(value, kept.get(key, value))
        if sys.stderr.isatty():
            print(f"\rround {number + 1} of {rounds}", end="" if number + 1 < rounds else "\n", file=sys.stderr)
    if len(answers) != 1:
        sys.exit(f"figures.py: not all runs found the same: {sorted(answers)}")
    return best


# ---- showing ------------------------------------------------------------------------------------------------------------


def base_of(figures, strings, key):
    return figures["line", strings][SYSTEM][key]


def table(figures, rows, allocators, counts):
    lines = ["| | allocations a line | " + " | ".join(allocators) + " |", "|---|---:|" + "---:|" * len(allocators)]
    for how, strings, title in rows:
        cells = []
        for name in allocators:
            one = figures[how, strings][name]
            speeds = [base_of(figures, strings, key) / one[key] for key in ("cpu", "wall")]
            cells.append(f"{speeds[0]:.2f} ({speeds[1]:.2f}), {one['peak']:.0f} MB")
        lines.append(f"| {title} | {counts[how, strings]:.4f} | " + " | ".join(cells) + " |")
    return "\n".join(lines)


def draw(title, subtitle, figures, rows, allocators, value, axis):
    """A group of bars a row, a bar an allocator."""
    left, bar, gap, top, right = 150, 13, 26, 78, 620
    values = {(row[:2], name): value(row, name) for row in rows for name in allocators}
    most = max(values.values()) * 1.08
    height = top + len(rows) * (len(allocators) * bar + gap) + 30
    parts = [f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 760 {height}" width="760" height="{height}" role="img">',
             f"<title>{escape(title)}</title><style>{STYLE}</style>", f'<rect class="paper" width="760" height="{height}" rx="6"/>',
             f'<text x="20" y="28" class="ink title">{escape(title)}</text><text x="20" y="46" class="soft">{escape(subtitle)}</text>']
    y = top
    for row in rows:
        parts.append(f'<text x="20" y="{y - 6}" class="ink group">{escape(row[2])}</text>')
        for index, name in enumerate(allocators):
            share = values[row[:2], name]
            width = (right - left) * share / most
            parts.append(f'<text x="{left - 8}" y="{y + 10}" text-anchor="end" class="soft">{escape(name)}</text>'
                         f'<rect x="{left}" y="{y}" width="{width:.1f}" height="{bar - 2}" fill="{COLOURS[index % len(COLOURS)]}"/>'
                         f'<text x="{left + width + 6:.1f}" y="{y + 10}" class="ink">{axis.format(share)}</text>')
            y += bar
        y += gap
    parts.append("</svg>")
    return "\n".join(parts) + "\n"


def draw_all(directory, figures, rows, allocators):
    directory.mkdir(parents=True, exist_ok=True)
    speed = draw("Log search: speed", "CPU time of `per line` with the same strings on the system's allocator = 1; longer is faster",
                 figures, rows, allocators, lambda row, name: base_of(figures, row[1], "cpu") / figures[row[:2]][name]["cpu"], "{:.2f}")
    memory = draw("Log search: memory", "peak resident memory in MB; shorter is better", figures, rows, allocators,
                  lambda row, name: figures[row[:2]][name]["peak"], "{:.0f} MB")
    (directory / "logsearch-speed.svg").write_text(speed, encoding="utf-8")
    (directory / "logsearch-memory.svg").write_text(memory, encoding="utf-8")


def parse():
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("build", type=Path)
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--passes", type=int, default=3)
    parser.add_argument("--lines", type=int, default=1000000)
    parser.add_argument("--allocator", action="append", default=[], metavar="NAME=PATH")
    parser.add_argument("--only", metavar="NAMES")
    parser.add_argument("--svg", type=Path, metavar="DIRECTORY")
    parser.add_argument("--json", type=Path, metavar="FILE")
    return parser.parse_args()


def main():
    options = parse()
    program = options.build / "logsearch"
    if not program.exists():
        sys.exit(f"figures.py: there is no {program}; build it first")
    allocators = find_allocators(options.allocator, options.only)
    with tempfile.TemporaryDirectory() as scratch:
        log = Path(scratch) / "log"
        subprocess.run([str(program), "make", str(log), "--lines", str(options.lines)], check=True)
        if subprocess.run([str(program), "check", str(log)], stdout=subprocess.DEVNULL).returncode != 0:
            sys.exit("figures.py: `logsearch check` failed")
        with_qt = subprocess.run([str(program), "search", str(log), "--strings", "qt"], capture_output=True).returncode == 0
        rows = [row for row in ROWS if with_qt or row[1] == "plain"]
        counts = count(options.build, log, rows)
        figures = measure(options.build, log, rows, allocators, options.rounds, options.passes)
    print(table(figures, rows, allocators, counts))
    if options.svg:
        draw_all(options.svg, figures, rows, allocators)
    if options.json:
        data = [{"how": how, "strings": strings, "allocations_a_line": counts[how, strings], "allocators": figures[how, strings]}
                for how, strings, _ in rows]
        options.json.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
