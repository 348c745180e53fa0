"""The command line of bench/run.py: choose rows and allocators, run interleaved rounds, report."""

import datetime
import fnmatch
import json
import os
import subprocess
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import page, suite, tables
from .figures import Results
from .measure import BASELINE, ROOT, SUBJECT, BenchError, Runner, find_allocators

QUICK_BUDGET_S = 165
QUICK_SKIPS = ("jemalloc-deb", "mimalloc-deb")  # older builds of peers that are there anyway


def split_words(value):
    return [word for word in (value or "").split(",") if word]


def choose_rows(quick, scale, only, workloads, real):
    """Rows by kind, then by name: --only takes exact or glob row names, --workloads takes families."""
    rows = suite.workload_rows(scale * (0.1 if quick else 1.0), quick)
    if real:
        rows += [r for r in suite.real_rows() if r.quick or not quick]
    if workloads:
        wanted = split_words(workloads)
        rows = [r for r in rows if any(fnmatch.fnmatch(r.family, w) or r.family.split("/")[0] == w for w in wanted)]
    if only:
        rows = [r for r in rows if any(fnmatch.fnmatch(r.name, w) for w in split_words(only))]
    if not rows:
        raise BenchError("no row has such a name; --list shows them")
    return rows


def install_programs(console):
    packages = sorted({r.package for r in suite.real_rows()})
    if os.geteuid() != 0:
        raise BenchError("--install needs root: apt-get install " + " ".join(packages))
    console.print("installing " + " ".join(packages))
    done = subprocess.run(
        ["apt-get", "-o", "DPkg::Lock::Timeout=300", "install", "-y", "-q", *packages],
        capture_output=True,
        text=True,
        env=dict(os.environ, DEBIAN_FRONTEND="noninteractive"),
    )
    if done.returncode:
        raise BenchError("apt-get failed: " + (done.stderr.strip().splitlines() or ["no message"])[-1])


class Rounds:
    """Interleaved rounds: within a round every row runs under every allocator, and the order turns by one each time."""

    def __init__(self, runner, results, rows, allocators, console):
        self.runner, self.results, self.rows, self.allocators, self.console = runner, results, rows, allocators, console
        self.broken = set()

    def one(self, row, allocator, keep):
        if (row.name, allocator.name) in self.broken:
            return
        try:
            sample = self.runner.run(row, allocator)
        except (RuntimeError, OSError, subprocess.SubprocessError) as problem:
            self.broken.add((row.name, allocator.name))
            self.results.failures.append(str(problem))
            self.results.samples[row.name][allocator.name].clear()
            self.console.print(f"[red]failed:[/red] {problem}", highlight=False)
            return
        if keep:
            self.results.add(row, allocator, sample)

    def play(self, rounds, warm_up, budget_s=None, title="rounds"):
        """Returns the number of whole rounds done: a budget ends the run between rounds, never within one."""
        start, total = time.monotonic(), (rounds + warm_up) * len(self.rows) * len(self.allocators)
        bar = Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            MofNCompleteColumn(),
            TimeElapsedColumn(),
            TextColumn("ETA"),
            TimeRemainingColumn(elapsed_when_finished=False),
            console=self.console,
            transient=True,
        )
        with bar:
            task = bar.add_task(title, total=total)
            for turn in range(rounds + warm_up):
                turn_start = time.monotonic()
                for number, row in enumerate(self.rows):
                    shift = (turn + number) % len(self.allocators)
                    for allocator in self.allocators[shift:] + self.allocators[:shift]:
                        bar.update(task, description=f"{title} {turn + 1}/{rounds + warm_up}  {row.name} · {allocator.name}")
                        self.one(row, allocator, keep=turn >= warm_up)
                        bar.advance(task)
                took = time.monotonic() - turn_start
                if budget_s and turn + 1 < rounds + warm_up and time.monotonic() - start + took > budget_s:
                    return turn + 1 - warm_up
        return rounds


def failures_of_check(results, text):
    """--check CPU,RSS,ROW: what is worse than allowed. A '-' leaves one out; one number alone is the worst row."""
    parts = text.split(",")
    parts = ["-", "-", parts[0]] if len(parts) == 1 else parts
    if len(parts) != 3:
        raise BenchError("--check takes one number or three: CPU,RSS,ROW")
    try:
        cpu, rss, worst = [None if p == "-" else float(p) for p in parts]
    except ValueError:
        raise BenchError(f"--check: not a number in '{text}'") from None
    if results.subject not in results.allocators:
        raise BenchError(f"--check: {results.subject} was not among the allocators")
    lost = []
    for limit, what, name in ((cpu, "cpu", "CPU"), (rss, "rss_kib", "RSS")):
        mean = results.geomean(results.subject, what)[0]
        if limit is not None and (mean is None or mean > limit):
            lost.append(f"geometric mean of {name}: {tables.times(mean)}, allowed {limit}")
    for row in results.worst_first():
        ratio, best = results.against_best(row.name, results.time_of(row.name))
        if worst is not None and ratio is not None and ratio > worst:
            lost.append(f"{row.name}: {ratio:.2f} x {best}, allowed {worst}")
    lost += [f for f in results.failures if f" under {results.subject}:" in f]
    return lost


def write(path, text, console):
    Path(path).parent.mkdir(parents=True, exist_ok=True)
    Path(path).write_text(text)
    console.print(f"wrote {path}", highlight=False)


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--quick", is_flag=True, help="Fewer rows, less work; ends within 3 minutes.")
@click.option("--rounds", type=click.IntRange(1, 1000), help="Measured rounds (default 5, quick: as many of 3 as fit).")
@click.option("--scale", type=click.FloatRange(0.001, 100), default=1.0, show_default=True, help="Work per run.")
@click.option("--only", metavar="ROWS", help="Row names with commas; * is a wildcard: 'larson t2,pairs/*'.")
@click.option("--workloads", metavar="FAMILIES", help="Families with commas: larson,pairs/spsc,redis.")
@click.option("--allocators", metavar="NAMES", help="Allocators with commas (at least two).")
@click.option("--real/--no-real", default=True, show_default=True, help="Rows of real programs, where installed.")
@click.option("--idle", is_flag=True, help="Also the memory-returned table (about 12 s for each allocator and burst).")
@click.option("--scaling", is_flag=True, help="Also 1, 2, 4, 8 and 16 threads, for the scaling curves.")
@click.option("--install", is_flag=True, help="Install the real programs with apt-get first.")
@click.option("--details", is_flag=True, help="A table per row with every allocator, too.")
@click.option("--heddle", "heddle_path", default=str(ROOT / "build/libheddle.so"), help="Heddle's library.")
@click.option("--peers", "peers_json", default=str(ROOT / "build/peers/peers.json"), help="Made by bench/peers.sh.")
@click.option("--out", "out_dir", default=str(ROOT / "build/bench"), help="Where the workloads are built.")
@click.option("--baseline", default=BASELINE, show_default=True, help="Ratios are against this one.")
@click.option("--subject", default=SUBJECT, show_default=True, help="The one that the summary is about.")
@click.option("--json", "json_path", metavar="FILE", help="Write every sample and the means.")
@click.option("--html", "html_path", metavar="FILE", help="Write one page with plots.")
@click.option("--markdown", "markdown_path", metavar="FILE", help="Write the tables for a README.")
@click.option("--check", metavar="LIMITS", help="Exit 1 if worse: ROW, or CPU,RSS,ROW ('-' leaves one out).")
@click.option("--list", "list_only", is_flag=True, help="Show the rows and the allocators.")
def main(**options):
    """Run workloads interleaved under every allocator, and compare."""
    console = Console(width=None if sys.stdout.isatty() else 150)
    try:
        sys.exit(bench(console, **options))
    except BenchError as problem:
        console.print(f"[red]bench:[/red] {problem}", highlight=False)
        sys.exit(2)
    except KeyboardInterrupt:
        console.print("stopped")
        sys.exit(130)


def bench(console, **o):
    wanted = split_words(o["allocators"])
    allocators, remarks = find_allocators(o["heddle_path"], o["peers_json"], wanted)
    if o["quick"] and not wanted:
        allocators = [a for a in allocators if a.name not in QUICK_SKIPS]
    names = [a.name for a in allocators]
    baseline = o["baseline"] if o["baseline"] in names else "system" if "system" in names else names[0]
    rows = choose_rows(o["quick"], o["scale"], o["only"], o["workloads"], o["real"])
    if o["list_only"]:
        for row in rows:
            console.print(row.name, highlight=False)
        for a in allocators:
            console.print(f"[bold]{a.name}[/bold]  {a.version}", highlight=False)
        return 0
    if o["install"]:
        install_programs(console)
    for remark in remarks:
        console.print(f"[yellow]note:[/yellow] {remark}", highlight=False)
    runner = Runner(o["out_dir"])
    try:
        return measure_and_report(console, runner, rows, allocators, baseline, o)
    finally:
        runner.close()


def measure_and_report(console, runner, rows, allocators, baseline, o):
    for row in rows:
        if runner.lacking(row):
            console.print(f"[yellow]note:[/yellow] row {row.name} left out: {runner.lacking(row)}", highlight=False)
    rows = [row for row in rows if not runner.lacking(row)]
    if not rows:
        raise BenchError("nothing left to run")
    results = Results(rows, allocators, baseline, o["subject"])
    rounds = o["rounds"] or (3 if o["quick"] else 5)
    started = datetime.datetime.now().isoformat(" ", "minutes")
    play = Rounds(runner, results, rows, allocators, console)
    done = play.play(rounds, 0 if o["quick"] else 1, QUICK_BUDGET_S if o["quick"] else None)
    scaling_rows = [r for r in suite.scaling_rows(o["scale"]) if o["scaling"]]
    scaling = Results(scaling_rows, allocators, baseline, o["subject"])
    if scaling_rows:
        Rounds(runner, scaling, scaling_rows, allocators, console).play(min(rounds, 3), 0, title="scaling")
    idle_rows = suite.idle_rows() if o["idle"] else []
    idle = Results(idle_rows, allocators, baseline, o["subject"])
    if idle_rows:
        Rounds(runner, idle, idle_rows, allocators, console).play(1, 0, title="idle")
    has_subject = o["subject"] in results.allocators
    for row in results.worst_first() if o["details"] or not has_subject else []:
        console.print(tables.row_table(results, row))
    if idle_rows:
        console.print(tables.idle_table(idle, idle_rows))
    if has_subject:
        console.print(tables.summary_table(results))
    console.print(tables.geomean_table(results))
    console.print(f"{done} rounds of {len(rows)} rows, {len(results.failures)} failures, baseline {baseline}", highlight=False)
    save(console, results, scaling, scaling_rows, idle, done, started, o)
    lost = failures_of_check(results, o["check"]) if o["check"] else []
    for line in lost:
        console.print(f"[red]check:[/red] {line}", highlight=False)
    return 1 if lost else 0


def save(console, results, scaling, scaling_rows, idle, rounds, started, o):
    if o["json_path"]:
        data = dict(
            results.to_json(),
            rounds=rounds,
            started=started,
            scaling=scaling.to_json()["rows"],
            idle=idle.to_json()["rows"],
            failures=results.failures + scaling.failures + idle.failures,
        )
        write(o["json_path"], json.dumps(data, indent=1) + "\n", console)
    if o["html_path"]:
        write(o["html_path"], page.render(results, scaling, scaling_rows, rounds, started), console)
    if o["markdown_path"]:
        how = "make bench" + (" ARGS=--quick" if o["quick"] else "")
        write(o["markdown_path"], tables.markdown(results, rounds, how), console)
