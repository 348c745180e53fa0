"""`heddle demo`: a comparison on real programs, in under two minutes."""

from __future__ import annotations

import os
import shutil
import tempfile
import time
from typing import List, Optional

import click

from . import report_text
from .allocators import HEDDLE, SYSTEM, Allocator, find_allocators, missing_allocators, select
from .compare_command import (
    check_writable,
    note_missing_idle,
    prepare_idle,
    progress_bar,
    usable_allocators,
    write_reports,
)
from .comparison import Comparison, results_differ, run_round, settle_unseen
from .demo import WORKLOADS, Workload
from .errors import EXIT_DIFFERENT, EXIT_NOT_FOUND, EXIT_UNUSABLE, HeddleError
from .install import install_debian, install_python
from .measure import Plan
from .options import parse_setting, with_settings
from .shared_options import choice_options, heddle_options, report_options
from .target import resolve_target

MINIMUM_ROUNDS = 3
RUN_TIMEOUT_S = 120.0


def program_of(workload: Workload) -> Optional[str]:
    return next((path for path in map(shutil.which, workload.programs) if path), None)


def install_missing(workloads: List[Workload], extra) -> None:
    """Bring programs and allocators that are not here."""
    wanted = [workload.debian for workload in workloads if program_of(workload) is None]
    missing = missing_allocators(find_allocators(extra))
    install_debian(wanted + [known.debian for known in missing if known.debian])
    install_python([known.pypi for known in missing if known.pypi])


def check_programs(workloads: List[Workload]) -> None:
    absent = [workload for workload in workloads if program_of(workload) is None]
    if absent:
        names = ", ".join(workload.programs[0] for workload in absent)
        packages = " ".join(workload.debian for workload in absent)
        raise HeddleError(f"{names}: not found; run `apt-get install {packages}`, or `heddle demo --install`",
                          EXIT_NOT_FOUND)


def chosen_workloads(names: Optional[str]) -> List[Workload]:
    if names is None:
        return list(WORKLOADS)
    known = {workload.name: workload for workload in WORKLOADS}
    picked = [name.strip() for name in names.split(",") if name.strip()]
    for name in picked:
        if name not in known:
            raise HeddleError(f"--workloads: no workload {name!r}; there are {', '.join(known)}", 2)
    if not picked:
        raise HeddleError("--workloads: name at least one workload", 2)
    return [known[name] for name in dict.fromkeys(picked)]


def make_comparison(workload: Workload, chosen: List[Allocator], baseline: str, environment, scratch: str,
                    idle: Optional[float], console) -> Comparison:
    target = resolve_target(program_of(workload))
    usable = usable_allocators(chosen, target, console)
    if baseline not in [allocator.name for allocator in usable]:
        raise HeddleError(f"the baseline {baseline} cannot be loaded into {target.path}", EXIT_UNUSABLE)
    arguments = list(workload.arguments) + ([] if workload.on_stdin else [workload.path])
    plan = Plan(target, arguments, environment, RUN_TIMEOUT_S, idle, False,
                workload.path if workload.on_stdin else os.devnull, True, None, scratch)
    comparison = Comparison(workload.title, plan, usable, baseline)
    comparison.idle_reason = prepare_idle(plan)
    return comparison


def rounds_within(budget_s: float, round_s: float, wanted: int) -> int:
    """As many rounds as the time allows, but never fewer than say anything."""
    fitting = int(budget_s / round_s) if round_s > 0 else wanted
    return max(min(wanted, fitting), min(wanted, MINIMUM_ROUNDS))


def run_all(comparisons: List[Comparison], wanted: int, budget_s: float, console) -> None:
    """Warm up, see how fast the machine is, then as many rounds as fit; a round goes over all programs."""
    total = sum(len(comparison.allocators) for comparison in comparisons)
    begin = time.monotonic()
    with progress_bar(total) as tick:
        for comparison in comparisons:
            run_round(comparison, 0, True, lambda name, c=comparison: tick(f"warming up: {c.title}", name))
    round_s = time.monotonic() - begin
    rounds = rounds_within(budget_s - round_s, round_s, wanted)
    if rounds < wanted:
        console.print(f"note: {rounds} rounds instead of {wanted}, to stay within {budget_s:.0f} s "
                      f"(one takes {round_s:.0f} s here)", style="yellow")
    with progress_bar(total * rounds) as tick:
        for number in range(rounds):
            for comparison in comparisons:
                if comparison.baseline not in comparison.dropped:
                    run_round(comparison, number, False, lambda name, c=comparison: tick(c.title, name))


@click.command(context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100})
@click.option("--rounds", type=click.IntRange(1, 1000), default=6, show_default=True,
              help="Measured rounds (fewer on a slow machine, see --budget).")
@click.option("--budget", type=click.FloatRange(1), default=110.0, show_default=True, metavar="SECONDS",
              help="Take fewer rounds, but at least 3, where they would take longer than this.")
@click.option("--idle", type=click.FloatRange(0), metavar="SECONDS",
              help="Also measure RSS that long after the work, at the program's exit (needs a C compiler).")
@click.option("--workloads", metavar="NAMES", help="Only some of: lua, python, sqlite.")
@click.option("--install", "do_install", is_flag=True,
              help="Install missing programs and allocators by apt-get and pip, printing each command first.")
@choice_options
@heddle_options
@report_options
def demo(rounds, budget, idle, workloads, do_install, extra, only, baseline, library, settings, json_path, html_path):
    """Compare the allocators on a real workload: Lua, Python and SQLite at work on tables, strings and objects.

    The scripts check their own results, so an allocator that breaks a program shows.
    Exit status: 0; 1 if a program behaved otherwise under some allocator; 127 if a program is missing.
    """
    console = report_text.make_console(stderr=json_path == "-")
    check_writable(json_path, html_path)
    picked = chosen_workloads(workloads)
    if do_install:
        install_missing(picked, extra)
    check_programs(picked)
    found = find_allocators(extra, library)
    chosen = select(found, only, baseline)
    if only is None:
        if HEDDLE not in found:
            console.print("note: libheddle.so.1 was not found, so Heddle is not among them", style="yellow")
        absent = ", ".join(known.name for known in missing_allocators(found))
        if absent:
            console.print(f"note: not found: {absent} (see `heddle allocators`, or use --install)", style="yellow")
    console.print(f"Comparing {', '.join(entry.name for entry in chosen)} on "
                  f"{', '.join(workload.programs[0] for workload in picked)}.")
    environment = with_settings(dict(os.environ), [parse_setting(text) for text in settings])
    with tempfile.TemporaryDirectory(prefix="heddle-") as scratch:
        comparisons = [make_comparison(workload, chosen, baseline, environment, scratch, idle, console)
                       for workload in picked]
        run_all(comparisons, rounds, budget, console)
    for comparison in comparisons:
        settle_unseen(comparison)
        note_missing_idle(comparison)
        report_text.print_comparison(console, comparison)
        _check_own_results(comparison)
    write_reports(comparisons, json_path, html_path)
    return EXIT_DIFFERENT if any(map(results_differ, comparisons)) else 0


def _check_own_results(comparison: Comparison) -> None:
    """A script that fails under the system's own allocator makes every figure worthless."""
    base = [run for run in comparison.warmup_runs if run.allocator == comparison.baseline]
    if comparison.baseline == SYSTEM and any(run.exit_status != 0 for run in base):
        tail = base[0].stderr_tail.splitlines()[-1:] or ["no message"]
        raise HeddleError(f"{comparison.title}: the script failed under the system allocator: {tail[0]}")
