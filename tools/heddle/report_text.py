"""The report in the terminal."""

from __future__ import annotations

import os
from typing import List

from rich.console import Console
from rich.markup import escape
from rich.table import Table
from rich.text import Text

from . import wording
from .comparison import Comparison, Metric, warnings
from .stats import compare_to_one

STYLES = {-1: "green", 0: "dim", 1: "red"}
WIDE_COLUMN = 20
NAME_COLUMN = 14


def make_console(stderr: bool = False) -> Console:
    """A console; where the output is no terminal the width is fixed, so that files and pipes get whole tables."""
    console = Console(stderr=stderr, highlight=False)
    if console.is_terminal or os.environ.get("COLUMNS"):
        return console
    return Console(stderr=stderr, highlight=False, width=130)


def _figure(comparison: Comparison, name: str, metric: Metric) -> Text:
    estimate = comparison.estimate(name, metric)
    if estimate is None:
        return Text(wording.NOT_AVAILABLE, style="dim")
    text = Text(wording.quantity(estimate.median, metric.unit), style="bold")
    between = wording.interval(estimate, metric.unit)
    return text.append(f" {between}", style="not bold dim") if between else text


def _ratio(comparison: Comparison, name: str, metric: Metric) -> Text:
    if name == comparison.baseline:
        return Text("baseline", style="dim")
    ratio = comparison.ratio(name, metric)
    direction = compare_to_one(ratio)
    if ratio is None or not ratio.has_interval or direction == 0:
        return Text(wording.verdict(ratio), style="dim")
    return Text(wording.ratio_text(ratio), style=STYLES[direction])


def _wide_table(comparison: Comparison, metrics: List[Metric]) -> Table:
    table = Table(show_edge=False, pad_edge=False, show_lines=False, row_styles=["", ""])
    table.add_column("allocator", style="bold", no_wrap=True)
    for metric in metrics:
        table.add_column(metric.title, justify="right", no_wrap=True)
    for name in comparison.names:
        cells = []
        for metric in metrics:
            if name in comparison.dropped:
                cells.append(Text("left out" if metric is metrics[0] else "", style="red"))
            else:
                cells.append(_figure(comparison, name, metric).append("\n").append(_ratio(comparison, name, metric)))
        table.add_row(name, *cells)
    return table


def _narrow_table(comparison: Comparison, metric: Metric) -> Table:
    table = Table(title=metric.title, title_justify="left", show_edge=False, pad_edge=False)
    table.add_column("allocator", style="bold")
    table.add_column("median, interval", justify="right")
    table.add_column(f"of {comparison.baseline}", justify="right")
    for name in comparison.names:
        if name in comparison.dropped:
            table.add_row(name, Text("left out", style="red"), "")
        else:
            table.add_row(name, _figure(comparison, name, metric), _ratio(comparison, name, metric))
    return table


def print_comparison(console: Console, comparison: Comparison) -> None:
    metrics = wording.metrics_of(comparison)
    console.print()
    console.print(f"[bold]{escape(comparison.title)}[/]")
    rounds = f"{comparison.rounds} round{'s' if comparison.rounds != 1 else ''}, interleaved"
    console.print(f"[dim]{rounds}; medians with 95 % intervals, ratios to {comparison.baseline} paired by round[/]")
    if metrics:
        if console.width >= NAME_COLUMN + WIDE_COLUMN * len(metrics):
            console.print(_wide_table(comparison, metrics))
        else:
            for metric in metrics:
                console.print(_narrow_table(comparison, metric))
    for sentence in wording.summary(comparison):
        console.print(Text(sentence))
    for line in warnings(comparison):
        console.print(Text(f"note: {line}", style="yellow"))
