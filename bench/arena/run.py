#!/usr/bin/env python3
"""Arenas beside malloc, as the paper of the published manager measured them, done with an honest clock: run.py --help."""

import datetime
import json
import os
import platform
import sys
import time
from pathlib import Path

import figures
import runs

try:
    import click
    import plots
    import tables
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
except ModuleNotFoundError as problem:
    if problem.name not in ("click", "rich"):
        raise
    sys.exit(f"run.py: needs {problem.name}: python3 -m pip install -r bench/requirements.txt")


QUICK_BUDGET_S = 32


def processor():
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), platform.machine())
    except OSError:
        return platform.machine()


def measure_all(console, out, subjects, ways, rounds, budget_s):
    """The results, and how many rounds there were."""
    results = figures.Results()
    columns = [TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn(), TimeRemainingColumn()]
    with Progress(*columns, console=console, transient=True) as bar:
        task = bar.add_task("", total=rounds * sum(way.suits(subject) for way in ways for subject in subjects))

        def step(text):
            bar.update(task, description=text, advance=1)

        done = runs.play(out, subjects, ways, rounds, budget_s, results, step)
    return results, done


def write(console, path, text):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    console.print(f"wrote {path}", highlight=False)


def save(console, options, results, subjects, about):
    if options["json_path"]:
        whole = dict(about, bars=tables.BARS, **results.to_json())
        write(console, options["json_path"], json.dumps(whole, indent=1) + "\n")
    shown = [s for s in subjects if s.program != "pools"]
    if options["markdown_path"]:
        write(console, options["markdown_path"], tables.markdown(results, shown, about))
    if options["svg_dir"]:
        for path in plots.write_all(Path(options["svg_dir"]), results, shown, about):
            console.print(f"wrote {path}", highlight=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Fewer rounds; ends within 40 seconds.")
@click.option("--rounds", type=click.IntRange(1, 1000), help="Interleaved rounds (default 15, quick 5).")
@click.option("--only", metavar="NAMES", help="Subjects with commas (at least two): system,heddle,fixed.")
@click.option("--heddle", default=str(runs.ROOT / "build/libheddle.so"), help="Heddle's library; libheddle.a lies beside it.")
@click.option("--peers", default=str(runs.ROOT / "build/peers/peers.json"), help="Made by bench/peers.sh.")
@click.option("--out", default=str(runs.ROOT / "build/bench/arena"), help="Where the programs are built.")
@click.option("--json", "json_path", metavar="FILE", help="Write all figures.")
@click.option("--svg", "svg_dir", metavar="DIR", help="Write the plots, arena-*.svg.")
@click.option("--markdown", "markdown_path", metavar="FILE", help="Write the summary for a document.")
@click.option("--check", is_flag=True, help="Exit 1 when a bar is missed.")
def main(**options):
    """Measure malloc and free beside alloc, point, release and reset, warm and cold, touched and not."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    try:
        sys.exit(bench(console, options))
    except runs.BenchError as problem:
        console.print(f"[red]bench:[/red] {problem}", highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("stopped")
        sys.exit(130)


def bench(console, options):
    subjects, remarks = runs.find_subjects(options["heddle"], options["peers"])
    if options["only"]:
        wanted = [w for w in options["only"].split(",") if w]
        unknown = set(wanted) - {s.name for s in subjects}
        if unknown:
            raise runs.BenchError(f"no subject {', '.join(sorted(unknown))}; there are {', '.join(s.name for s in subjects)}")
        subjects = [s for s in subjects if s.name in wanted]
    if len(subjects) < 2 or not subjects[0].is_heap:
        raise runs.BenchError("a figure without a partner is no figure: take at least two, and one of the heaps among them")
    for remark in remarks:
        console.print(f"[yellow]note:[/yellow] {remark}", highlight=False)
    out = Path(options["out"]).resolve()
    runs.build(out, options["heddle"])
    rounds = options["rounds"] or (5 if options["quick"] else 15)
    ways, start = runs.scenarios(options["quick"]), time.monotonic()
    about = {
        "processor": processor(),
        "cores": os.cpu_count(),
        "date": datetime.date.today().isoformat(),
        "operations": ways[0].rounds,
        "subjects": {s.name: s.title for s in subjects},
    }
    results, about["rounds"] = measure_all(console, out, subjects, ways, rounds, QUICK_BUDGET_S if options["quick"] else None)
    about["seconds"] = round(time.monotonic() - start, 1)
    missed = tables.show(console, results, subjects, about)
    save(console, options, results, subjects, about)
    return 1 if missed and options["check"] else 0


if __name__ == "__main__":
    main()
