"""The command line of bench/run.py: choose rows and allocators, run interleaved rounds, report."""

import datetime
import fnmatch
import json
import os
import random
import subprocess
import sys
import time
from pathlib import Path

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from . import page, suite, tables
from .figures import Results, Run
from .measure import BASELINE, CONTROL, CONTROL_IS, OLDER, ROOT, SUBJECT, BenchError, Runner, find_allocators, with_control
from .suite import Row

QUICK_BUDGET_S = 165


def split_words(value):
    return [word for word in (value or "").split(",") if word]


def choose_rows(quick, scale, only, workloads, real):
    """Rows by kind, then by name: --only takes exact or glob row names, --workloads takes families."""
    rows = suite.workload_rows(scale * (0.1 if quick else 1.0), quick)
    if real:
        rows += [r for r in suite.real_rows() if r.quick or not quick]
    if workloads:
        rows = matching(rows, split_words(workloads), lambda r: (r.family, r.family.split("/")[0]))
    rows = matching(rows, split_words(only), lambda r: (r.name,)) if only else rows
    if not rows:
        raise BenchError("no row has such a name; --list shows them")
    return rows


def matching(rows, wanted, names_of):
    """The rows that one of the wanted names means. A name that means none is an error, not a row less."""
    found = {w: [r for r in rows if any(fnmatch.fnmatch(n, w) for n in names_of(r))] for w in wanted}
    unknown = [w for w, meant in found.items() if not meant]
    if unknown:
        raise BenchError(f"no row is called {', '.join(unknown)}; --list shows them")
    return [r for r in rows if any(r in meant for meant in found.values())]


def choose_shapes(text, scale):
    kind, numbers = ("longshape", text[5:]) if text.startswith("long:") else ("shape", text)
    first, dash, last = numbers.partition("-")
    if not first.isdigit() or (dash and not last.isdigit()) or int(last or first) < int(first):
        raise BenchError(f"--shapes '{text}': a number, or FIRST-LAST, with long: in front for patterns of long blocks")
    return suite.shape_rows(kind, int(first), int(last or first), scale)


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


def order_of(allocators, row_name, turn):
    """The allocators in an order of this row and round: what ran before decides how much the system pays for the next one's huge pages."""
    return random.Random(f"{row_name} {turn}").sample(allocators, len(allocators))


class Rounds:
    """Interleaved rounds: within a round every row runs under every allocator, in an order drawn anew each time."""

    def __init__(self, runner, results, rows, allocators, console):
        self.runner, self.results, self.rows, self.allocators, self.console = runner, results, rows, allocators, console
        self.broken = set()

    def one(self, row, allocator, keep):
        if (row.name, allocator.name) in self.broken:
            return
        try:
            sample = self.runner.run(row, allocator)
        except (RuntimeError, OSError, ValueError, IndexError, subprocess.SubprocessError) as problem:
            self.broken.add((row.name, allocator.name))
            said = str(problem) if row.name in str(problem) else f"{row.name} under {allocator.name}: {problem}"
            self.results.failures.append(said)
            self.results.samples[row.name][allocator.name].clear()
            self.console.print(f"[red]failed:[/red] {said}", highlight=False)
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
                for row in self.rows:
                    for allocator in order_of(self.allocators, row.name, turn):
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
@click.option("--shapes", metavar="FIRST-LAST", help="Random shapes by number, in place of the rows (long:1-60: of few long blocks).")
@click.option("--allocators", metavar="NAMES", help="Allocators with commas (at least two).")
@click.option("--real/--no-real", default=True, show_default=True, help="Rows of real programs, where installed.")
@click.option("--idle", is_flag=True, help="Also memory returned and months in miniature (4 minutes for each allocator).")
@click.option("--scaling", is_flag=True, help="Also 1, 2, 4, 8 and 16 threads, for the scaling curves.")
@click.option("--install", is_flag=True, help="Install the real programs with apt-get first.")
@click.option("--control", is_flag=True, help="Also a copy of Heddle's library: what it differs by is chance.")
@click.option("--details", is_flag=True, help="A table per row with every allocator, too.")
@click.option("--heddle", "heddle_path", default=str(ROOT / "build/libheddle.so"), help="Heddle's library.")
@click.option("--peers", "peers_json", default=str(ROOT / "build/peers/peers.json"), help="Made by bench/peers.sh.")
@click.option("--out", "out_dir", default=str(ROOT / "build/bench"), help="Where the workloads are built.")
@click.option("--baseline", default=BASELINE, show_default=True, help="Ratios are against this one.")
@click.option("--subject", default=SUBJECT, show_default=True, help="The one that the summary is about.")
@click.option("--json", "json_path", metavar="FILE", help="Write every sample and the means.")
@click.option("--html", "html_path", metavar="FILE", help="Write one page with plots.")
@click.option("--markdown", "markdown_path", metavar="FILE", help="Write the tables for a README.")
@click.option("--images", "images_dir", metavar="DIR", help="Write the page's main plots as SVG files.")
@click.option("--from", "from_json", metavar="FILE", help="Run nothing: report what an earlier --json wrote.")
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
    if o["from_json"]:
        return report(console, earlier(o["from_json"]), o)
    wanted = split_words(o["allocators"])
    allocators, remarks = find_allocators(o["heddle_path"], o["peers_json"], wanted)
    if o["quick"] and not wanted:
        allocators = [a for a in allocators if a.name not in OLDER]
    if o["shapes"]:
        rows = choose_shapes(o["shapes"], o["scale"])
    else:
        rows = choose_rows(o["quick"], o["scale"], o["only"], o["workloads"], o["real"])
    if o["list_only"]:
        for row in rows:
            console.print(row.name, highlight=False)
        for a in allocators:
            console.print(f"[bold]{a.name}[/bold]  {a.version}", highlight=False)
        if o["control"]:
            console.print(f"[bold]{CONTROL}[/bold]  {CONTROL_IS}", highlight=False)
        return 0
    if o["install"]:
        install_programs(console)
    for remark in remarks:
        console.print(f"[yellow]note:[/yellow] {remark}", highlight=False)
    runner = Runner(o["out_dir"])
    try:
        allocators = with_control(allocators, runner.tmp) if o["control"] else allocators
        return report(console, measure(console, runner, rows, allocators, o), o)
    finally:
        runner.close()


def measure(console, runner, rows, allocators, o):
    for row in rows:
        if runner.lacking(row):
            console.print(f"[yellow]note:[/yellow] row {row.name} left out: {runner.lacking(row)}", highlight=False)
    rows = [row for row in rows if not runner.lacking(row)]
    if not rows:
        raise BenchError("nothing left to run")
    names = [a.name for a in allocators]
    baseline = o["baseline"] if o["baseline"] in names else "system" if "system" in names else names[0]
    rounds = o["rounds"] or (3 if o["quick"] else 5)
    run = Run(started=datetime.datetime.now().isoformat(" ", "minutes"), quick=o["quick"])

    def play(some_rows, count, warm_up, budget_s=None, title="rounds"):
        results = Results(some_rows, allocators, baseline, o["subject"])
        done = Rounds(runner, results, some_rows, allocators, console).play(count, warm_up, budget_s, title) if some_rows else 0
        return results, done

    run.results, run.rounds = play(rows, rounds, 0 if o["quick"] else 1, QUICK_BUDGET_S if o["quick"] else None)
    run.scaling, _ = play(suite.scaling_rows(o["scale"]) if o["scaling"] else [], min(rounds, 3), 0, title="scaling")
    run.idle, _ = play(suite.idle_rows() + suite.hourly_rows() if o["idle"] else [], 1, 0, title="idle")
    return run


def earlier(path):
    """A run as --json wrote it."""
    try:
        data = json.loads(Path(path).read_text())
        rows = list({r["name"]: Row.from_json(r) for r in data["suite"]}.values())  # scaling has rows of the same names
        parts = [Results.from_json(data, rows, data[part]) for part in ("rows", "scaling", "idle")]
        return Run(*parts, rounds=data["rounds"], started=data["started"], quick=data["quick"])
    except (OSError, ValueError, KeyError, TypeError) as problem:
        raise BenchError(f"{path}: not a file of --json: {problem!r}") from None


def report(console, run, o):
    results = run.results
    has_subject = results.subject in results.allocators
    for row in results.worst_first() if o["details"] or not has_subject else []:
        console.print(tables.row_table(results, row))
    bursts, hours = ([r for r in run.idle.rows if r.family.startswith(kind)] for kind in ("burst/", "hourly/"))
    if bursts:
        console.print(tables.idle_table(run.idle, bursts))
    if hours:
        console.print(tables.hourly_table(run.idle, hours))
    if run.scaling.rows:
        console.print(tables.scaling_table(run.scaling))
    if has_subject:
        console.print(tables.summary_table(results))
        for line in tables.shape_lines(results):
            console.print(line, highlight=False, soft_wrap=True)
    console.print(tables.geomean_table(results))
    failures = run.failures()
    ending = f"{run.rounds} rounds of {len(results.rows)} rows, {len(failures)} failures, baseline {results.baseline}"
    console.print(ending, highlight=False)
    for failure in failures:
        console.print(f"[red]failed:[/red] {failure}", highlight=False)
    save(console, run, o)
    lost = failures_of_check(results, o["check"]) if o["check"] else []
    for line in lost:
        console.print(f"[red]check:[/red] {line}", highlight=False)
    return 1 if lost else 0


def save(console, run, o):
    if o["json_path"]:
        write(o["json_path"], json.dumps(run.to_json(), indent=1) + "\n", console)
    if o["html_path"]:
        write(o["html_path"], page.render(run.results, run.scaling, run.scaling.rows, run.rounds, run.started), console)
    for name, drawn in page.pictures(run.results, run.scaling, run.scaling.rows).items() if o["images_dir"] else []:
        write(Path(o["images_dir"]) / name, drawn, console)
    if o["markdown_path"]:
        how = "make bench" + (" ARGS=--quick" if run.quick else "")
        write(o["markdown_path"], tables.markdown(run.results, run.rounds, how), console)
