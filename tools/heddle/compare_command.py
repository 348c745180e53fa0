"""`heddle compare`, and the parts of it that `heddle demo` shares."""

from __future__ import annotations

import os
import sys
import tempfile
from contextlib import contextmanager
from typing import Callable, Iterator, List, Optional, Sequence

import click
from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

from . import report_html, report_json, report_text
from .allocators import HEDDLE, Allocator, find_allocators, select
from .comparison import Comparison, results_differ, run_rounds, settle_unseen
from .errors import EXIT_DIFFERENT, EXIT_UNUSABLE, HeddleError
from .idle import build_shim
from .libraries import read_library
from .measure import Plan
from .options import parse_setting, with_settings
from .shared_options import PROGRAM_SETTINGS, choice_options, heddle_options, program_arguments, report_options
from .target import Target, resolve_target


@contextmanager
def progress_bar(total: int) -> Iterator[Callable[[str, str], None]]:
    """A bar on standard error while it is a terminal. Yields tick(title, allocator), called before each run."""
    console = Console(stderr=True)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    # Refreshed by us between runs: a drawing thread would take CPU from what is being measured.
    with Progress(*columns, console=console, transient=True, disable=not console.is_terminal,
                  auto_refresh=False) as progress:
        task = progress.add_task("starting", total=total)
        started = False

        def tick(title: str, name: str) -> None:
            nonlocal started
            progress.update(task, advance=1 if started else 0, description=f"{title} on {name}")
            progress.refresh()
            started = True

        yield tick


def usable_allocators(chosen: Sequence[Allocator], target: Target, console: Console) -> List[Allocator]:
    """Those whose library has the program's architecture; says which have not."""
    usable = []
    for allocator in chosen:
        if allocator.path is not None:
            elf = read_library(allocator.path, allocator.name)
            if not elf.fits(target.elf):
                console.print(f"note: {allocator.name} is {elf.architecture}, the program {target.elf.architecture}; "
                              "left out", style="yellow")
                continue
        usable.append(allocator)
    return usable


def check_writable(*paths: Optional[str]) -> None:
    """A report that cannot be written is an error before minutes of measuring, not after."""
    for path in paths:
        if not path or path == "-":
            continue
        directory = os.path.dirname(os.path.abspath(path))
        if not os.path.isdir(directory):
            raise HeddleError(f"{path}: there is no directory {directory}", 2)
        if not os.access(path if os.path.exists(path) else directory, os.W_OK):
            raise HeddleError(f"{path}: cannot be written", 2)


def write_reports(comparisons: List[Comparison], json_path: Optional[str], html_path: Optional[str]) -> None:
    if not json_path and not html_path:
        return
    data = report_json.report(comparisons)
    if json_path == "-":
        sys.stdout.write(report_json.to_text(data))
    elif json_path:
        _write(json_path, report_json.to_text(data))
    if html_path:
        _write(html_path, report_html.page(data))


def _write(path: str, text: str) -> None:
    try:
        with open(path, "w", encoding="utf-8") as file:
            file.write(text)
    except OSError as error:
        raise HeddleError(f"{path}: cannot be written ({error.strerror})") from None


def prepare_idle(plan: Plan) -> str:
    """Build the exit shim if the plan needs it. Returns why there is no idle figure, or an empty string."""
    if plan.idle_s is None or plan.server:
        return ""
    plan.shim, reason = build_shim(plan.scratch)
    if plan.shim is not None and not read_library(plan.shim, "the idle shim").fits(plan.target.elf):
        plan.shim, reason = None, f"the compiler here does not build for {plan.target.elf.architecture}"
    return reason


def note_missing_idle(comparison: Comparison) -> None:
    """A program can end past the shim; then say so instead of leaving the column out without a word."""
    if comparison.plan.idle_s is None or comparison.idle_reason:
        return
    if not any(run.idle_bytes for run in comparison.runs):
        comparison.idle_reason = ("the program ended before it rested" if comparison.plan.server
                                  else "the program ended without passing through exit (a signal or a raw system call)")


def compare_options(function):
    for option in reversed((
        click.option("--rounds", type=click.IntRange(1, 10_000), default=6, show_default=True,
                     help="Measured rounds; every round runs each allocator once."),
        click.option("--warmup", type=click.IntRange(0, 1000), default=1, show_default=True,
                     help="Rounds before them that are not counted."),
        click.option("--timeout", type=click.FloatRange(0, min_open=True), metavar="SECONDS",
                     help="End a run that takes longer, and leave its allocator out."),
        click.option("--idle", type=click.FloatRange(0), metavar="SECONDS",
                     help="Also measure RSS after that long without work: at the program's exit (needs a C compiler), "
                          "or with --server after its CPU use stops."),
        click.option("--server", is_flag=True,
                     help="The program does not end by itself: wait until its CPU use stops, idle (2 s unless --idle "
                          "says otherwise), then end it with SIGTERM."),
        click.option("--stdin", "stdin_path", type=click.Path(exists=True, dir_okay=False), default=os.devnull,
                     metavar="FILE", help="Standard input of every run (default: empty)."),
        click.option("--check-output", is_flag=True, help="Also compare what the program prints (SHA-256)."),
    )):
        function = option(function)
    return function


@click.command(context_settings=PROGRAM_SETTINGS)
@compare_options
@choice_options
@heddle_options
@report_options
@program_arguments
def compare(rounds, warmup, timeout, idle, server, stdin_path, check_output, extra, only, baseline, library, settings,
            json_path, html_path, program, arguments):
    """Run PROGRAM under every allocator found and compare them.

    Runs are interleaved (A B C, B C A, ...), so that a busy moment of the machine meets all of them. Measured are wall
    time, CPU time, peak RSS (of a process tree: the largest sum seen), page faults and, with --idle, RSS after idle.
    Where the 95 % interval of a ratio includes 1, there is "no difference shown".

    Exit status: 0; 1 if the program behaved otherwise under some allocator; 2 wrong use; 126 and 127 as `heddle run`.

    \b
    heddle compare -- ./app --batch input
    heddle compare --rounds 10 --only heddle,jemalloc --baseline jemalloc --html report.html -- ./app
    heddle compare --server --idle 5 -- redis-server --port 7000
    """
    console = report_text.make_console(stderr=json_path == "-")
    check_writable(json_path, html_path)
    target = resolve_target(program)
    chosen = usable_allocators(select(find_allocators(extra, library), only, baseline), target, console)
    if baseline not in [allocator.name for allocator in chosen]:
        raise HeddleError(f"the baseline {baseline} cannot be loaded into {target.path}", EXIT_UNUSABLE)
    if only is None and HEDDLE not in [allocator.name for allocator in chosen]:
        console.print("note: libheddle.so.1 was not found, so Heddle is not among them", style="yellow")
    environment = with_settings(dict(os.environ), [parse_setting(text) for text in settings])
    idle_s = 2.0 if server and idle is None else idle
    with tempfile.TemporaryDirectory(prefix="heddle-") as scratch:
        plan = Plan(target, list(arguments), environment, timeout, idle_s, server, stdin_path, check_output,
                    None, scratch)
        comparison = Comparison("", plan, chosen, baseline)
        comparison.title = comparison.command
        comparison.idle_reason = prepare_idle(plan)
        with progress_bar((rounds + warmup) * len(chosen)) as tick:
            title = os.path.basename(program)
            run_rounds(comparison, warmup, rounds, lambda name: tick(title, name))
    settle_unseen(comparison)
    note_missing_idle(comparison)
    report_text.print_comparison(console, comparison)
    write_reports([comparison], json_path, html_path)
    return EXIT_DIFFERENT if results_differ(comparison) else 0
