#!/usr/bin/env python3
"""Instructions per malloc/free pair by callgrind, per allocator, as a table.

Each cell is the difference of a run with 2N pairs and one with N, divided by N, so that start-up falls out; the loop around the calls
is a part of it and the same for all. Needs valgrind. Heddle runs with HEDDLE=passthrough:off, or it would step aside under valgrind.
"""

import os
import re
import subprocess
import sys
import tempfile
from pathlib import Path

try:
    import click
    from rich.console import Console
    from rich.table import Table

    from heddle_bench.measure import ROOT, BenchError, Runner, find_allocators
except ModuleNotFoundError as problem:
    sys.exit(f"instructions.py: needs {problem.name}: python3 -m pip install -r bench/requirements.txt")

SIZES = (16, 64, 1024, 2000, 32768, 307200)
SHAPES = ("pair", "batch", "random")
WITHOUT_VALGRIND = {"snmalloc": "reserves more address space than valgrind gives"}


def count(program, mode, pairs, allocator, tmp):
    """Instructions of one run as callgrind counts them; None when it does not run there."""
    env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
    env["HEDDLE"] = "passthrough:off"
    command = [
        "valgrind",
        "--tool=callgrind",
        f"--callgrind-out-file={tmp}/out",
        "--trace-children=no",
        str(program),
        "-m",
        mode,
        "-n",
        str(pairs),
    ]
    if allocator.path:  # valgrind itself is spared the library: it goes to the client alone
        env["LD_PRELOAD"] = allocator.path
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=env, timeout=120)
    except subprocess.TimeoutExpired:
        return None
    found = re.search(r"Collected : (\d+)", done.stderr)
    return int(found.group(1)) if found and done.returncode == 0 and "RESULT " in done.stdout else None


def per_pair(program, mode, pairs, allocator, tmp):
    one, two = (count(program, mode, n, allocator, tmp) for n in (pairs, 2 * pairs))
    return None if one is None or two is None else (two - one) / pairs


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--pairs", type=click.IntRange(1000), default=20000, show_default=True, help="N, rounded up to hundreds.")
@click.option("--sizes", default=",".join(map(str, SIZES)), show_default=True)
@click.option("--shapes", default=",".join(SHAPES), show_default=True)
@click.option("--allocators", help="Names with commas (at least two).")
@click.option("--heddle", "heddle_path", default=str(ROOT / "build/libheddle.so"))
@click.option("--peers", "peers_json", default=str(ROOT / "build/peers/peers.json"))
@click.option("--json", "json_path", metavar="FILE")
def main(pairs, sizes, shapes, allocators, heddle_path, peers_json, json_path):
    """Instructions per malloc/free pair, per allocator."""
    console = Console(width=None if sys.stdout.isatty() else 130)
    pairs = -(-pairs // 100) * 100
    try:
        columns = [f"{shape}-{int(size)}" for shape in shapes.split(",") for size in sizes.split(",")]
        found, remarks = find_allocators(heddle_path, peers_json, allocators.split(",") if allocators else None)
        runner = Runner(ROOT / "build/bench")
    except (BenchError, ValueError) as problem:
        sys.exit(f"instructions.py: {problem}")
    if subprocess.run(["sh", "-c", "command -v valgrind"], capture_output=True).returncode:
        sys.exit("instructions.py: valgrind is not installed")
    for remark in remarks:
        console.print(f"[yellow]note:[/yellow] {remark}", highlight=False)
    cells = {}
    try:
        with tempfile.TemporaryDirectory() as tmp, console.status("callgrind") as status:
            for allocator in found:
                for column in columns:
                    status.update(f"callgrind: {allocator.name} {column}")
                    skip = allocator.name in WITHOUT_VALGRIND
                    cells[allocator.name, column] = (
                        None if skip else per_pair(runner.bin / "steps", column, pairs, allocator, tmp)
                    )
    finally:
        runner.close()
    show(console, found, columns, cells, shapes.split(","))
    if json_path:
        import json

        Path(json_path).write_text(json.dumps({a.name: {c: cells[a.name, c] for c in columns} for a in found}, indent=1) + "\n")


def show(console, found, columns, cells, shapes):
    for shape in shapes:
        mine = [c for c in columns if c.startswith(shape + "-")]
        table = Table(title=f"instructions per malloc/free, {shape}", title_justify="left", min_width=44)
        table.add_column("allocator")
        for column in mine:
            table.add_column(column.split("-")[1] + " B", justify="right")
        for allocator in found:
            values = [cells[allocator.name, c] for c in mine]
            table.add_row(
                allocator.name,
                *["n/a" if v is None else f"{v:.1f}" for v in values],
                style="bold" if allocator.name == "heddle" else "",
            )
        console.print(table)
    for name, why in WITHOUT_VALGRIND.items():
        if name in {a.name for a in found}:
            console.print(f"{name}: n/a, {why}", highlight=False)


if __name__ == "__main__":
    main()
