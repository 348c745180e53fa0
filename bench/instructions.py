#!/usr/bin/env python3
"""Instructions per malloc/free pair, per allocator, in one table: by callgrind, or by single steps where callgrind cannot run.

Each cell is the difference of a run with 2N pairs and one with N, divided by N, so that start-up falls out; the loop around the calls
is a part of it and the same for all. Needs valgrind. Heddle runs with HEDDLE=passthrough:off, or it would step aside under valgrind.
"""

import json
import os
import re
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import click
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    from heddle_bench.measure import BENCH, OLDER, ROOT, SUBJECT, BenchError, build_workloads, find_allocators
except ModuleNotFoundError as problem:
    sys.exit(f"instructions.py: needs {problem.name}: python3 -m pip install -r bench/requirements.txt")

SIZES = (16, 64, 1024, 2000, 32768, 307200)
SHAPES = ("pair", "batch", "random")
LOOPS = {"pair": "do_pairs", "batch": "do_batches", "random": "do_random"}  # the functions of steps.c that are counted
WITHOUT_VALGRIND = {"snmalloc": "reserves more address space than valgrind gives"}
STEPPED_PAIRS = 200  # a single step takes some 20 us
QUICK_SIZES, QUICK_PAIRS = "64,2000,307200", 1000


class Callgrind:
    """Instructions of a whole run."""

    def __init__(self, program, tmp):
        if not shutil.which("valgrind"):
            raise BenchError("valgrind is not installed")
        self.start = ["valgrind", "--tool=callgrind", f"--callgrind-out-file={tmp}/out", str(program)]

    def count(self, mode, pairs, allocator):
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"} | {"HEDDLE": "passthrough:off"}
        if allocator.path:  # valgrind itself is spared the library: it goes to the client alone
            env["LD_PRELOAD"] = allocator.path
        return collected(self.start + ["-m", mode, "-n", str(pairs)], env, r"Collected : (\d+)")


class Stepper:
    """Instructions of the loop alone; Linux on x86-64."""

    def __init__(self, program, tmp):
        self.program, self.tool = str(program), f"{tmp}/stepper"
        built = subprocess.run(["cc", "-std=gnu11", "-O2", "-o", self.tool, str(BENCH / "atomics/stepper.c")], capture_output=True)
        header = subprocess.run(["readelf", "-h", self.program], capture_output=True, text=True).stdout
        names = subprocess.run(["nm", self.program], capture_output=True, text=True).stdout
        entry = re.search(r"Entry point address:\s+0x([0-9a-f]+)", header)
        self.entry = entry.group(1) if entry else None
        self.offsets = {name: at for at, name in re.findall(r"^([0-9a-f]+) t (do_\w+)", names, re.M)}
        self.works = built.returncode == 0 and entry is not None

    def count(self, mode, pairs, allocator):
        offset = self.offsets.get(LOOPS[mode.split("-")[0]])
        if not self.works or offset is None:
            return None
        command = [self.tool, offset, self.entry, allocator.path, "--", self.program, "-m", mode, "-n", str(pairs)]
        return collected(command, {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}, r"STEPS (\d+)")


def collected(command, env, pattern):
    """The number that the tool prints; None when the program does not run under it."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, timeout=120)
    except subprocess.TimeoutExpired:
        return None
    found = re.search(pattern, done.stderr)
    return int(found.group(1)) if found and done.returncode == 0 and "RESULT " in done.stdout else None


def per_pair(tool, mode, pairs, allocator):
    one, two = (tool.count(mode, n, allocator) for n in (pairs, 2 * pairs))
    return None if one is None or two is None else (two - one) / pairs


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help=f"Sizes {QUICK_SIZES}; N is {QUICK_PAIRS}; nothing that has to be stepped through.")
@click.option("--pairs", type=click.IntRange(1000), default=5000, show_default=True, help="N, rounded up to hundreds.")
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True, help="Bytes, with commas.")
@click.option("--shapes", default=",".join(SHAPES), show_default=True)
@click.option("--allocators", help="Names with commas (at least two); else all but second builds of a peer.")
@click.option("--heddle", "heddle_path", default=str(ROOT / "build/libheddle.so"))
@click.option("--peers", "peers_json", default=str(ROOT / "build/peers/peers.json"))
@click.option("--out", "out_dir", default=str(ROOT / "build/bench"), help="Where the workloads are built.")
@click.option("--json", "json_path", metavar="FILE", help="Write the figures.")
@click.option("--markdown", "markdown_path", metavar="FILE", help="Write the table for a README.")
def main(quick, pairs, sizes, shapes, allocators, heddle_path, peers_json, out_dir, json_path, markdown_path):
    """Instructions per malloc/free pair, per allocator."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    pairs = -(-(QUICK_PAIRS if quick else pairs) // 100) * 100
    try:
        rows = rows_of(shapes.split(","), (QUICK_SIZES if quick else sizes).split(","))
        found, remarks = find_allocators(heddle_path, peers_json, allocators.split(",") if allocators else None)
        if not allocators:
            found = [a for a in found if a.name not in OLDER]
        program = build_workloads(out_dir) / "steps"
        with tempfile.TemporaryDirectory() as tmp:
            cells = measure(console, rows, found, pairs, quick, Callgrind(program, tmp), Stepper(program, tmp))
    except BenchError as problem:
        sys.exit(f"instructions.py: {problem}")
    remarks += notes(found, cells)
    console.print(terminal_table(rows, found, cells))
    for remark in remarks:
        console.print(f"[yellow]note:[/yellow] {remark}", highlight=False)
    if json_path:
        Path(json_path).write_text(json.dumps({a.name: {r: cells[r, a.name] for r in rows} for a in found}, indent=1) + "\n")
    if markdown_path:
        Path(markdown_path).write_text(markdown(rows, found, cells, remarks))


def rows_of(shapes, sizes):
    if set(shapes) - set(SHAPES):
        raise BenchError(f"shapes are {', '.join(SHAPES)}")
    if not all(size.isdecimal() and int(size) > 0 for size in sizes):
        raise BenchError("sizes are numbers of bytes with commas between")
    return [f"{shape}-{size}" for shape in shapes for size in sizes]


def measure(console, rows, found, pairs, quick, callgrind, stepper):
    cells = {}
    with console.status("counting") as status:
        for allocator in found:
            stepped = allocator.name in WITHOUT_VALGRIND
            for row in rows:
                status.update(f"counting: {allocator.name} {row}")
                tool, n = (stepper, STEPPED_PAIRS) if stepped else (callgrind, pairs)
                cells[row, allocator.name] = None if stepped and quick else per_pair(tool, row, n, allocator)
    return cells


def notes(found, cells):
    """What a reader of the table must know beside it."""
    out = []
    for allocator in found:
        missing = [row for (row, name), value in cells.items() if name == allocator.name and value is None]
        why = WITHOUT_VALGRIND.get(allocator.name)
        if missing:
            out.append(f"{allocator.name}: n/a in {len(missing)} rows, " + (f"it {why}" if why else "it did not run under valgrind"))
        elif why:
            out.append(f"{allocator.name}: by single steps over {STEPPED_PAIRS} pairs, as it {why}")
    return out


def label(row):
    shape, size = row.split("-")
    return f"{shape} {int(size):,} B"


def words_of(row, found, cells):
    """A row's figures as text, and the lowest of them."""
    values = [cells[row, a.name] for a in found]
    known = [v for v in values if v is not None]
    return ["n/a" if v is None else f"{v:.1f}" for v in values], f"{min(known):.1f}" if known else None


def terminal_table(rows, found, cells):
    table = Table(title="instructions per malloc and free (lowest in green)", title_justify="left", title_style="bold")
    table.add_column("")
    for allocator in found:
        table.add_column(allocator.name, justify="right", style="bold" if allocator.name == SUBJECT else "")
    for i, row in enumerate(rows):
        words, least = words_of(row, found, cells)
        last = i + 1 < len(rows) and rows[i + 1].split("-")[0] != row.split("-")[0]
        table.add_row(label(row), *[Text(w, style="green" if w == least else "") for w in words], end_section=last)
    return table


def markdown(rows, found, cells, remarks):
    lines = ["| instructions per malloc and free | " + " | ".join(a.name for a in found) + " |", "|---" + "|--:" * len(found) + "|"]
    for row in rows:
        words, least = words_of(row, found, cells)
        lines.append(f"| {label(row)} | " + " | ".join(f"**{w}**" if w == least else w for w in words) + " |")
    return "\n".join(lines + [""] + [f"{remark}." for remark in remarks]) + "\n"


if __name__ == "__main__":
    main()
