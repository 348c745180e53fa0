"""Figures and verdicts in words, shared by the terminal, JSON and HTML reports."""

from __future__ import annotations

import math
from typing import List, Optional

from .comparison import METRICS, Comparison, Metric
from .stats import Estimate, compare_to_one

NO_DIFFERENCE = "no difference shown"
NOT_AVAILABLE = "n/a"


def scale_for(unit: str, magnitude: float):
    """(divisor, suffix) so that numbers of about this magnitude read well."""
    if unit == "s":
        steps = ((1.0, " s"), (1e-3, " ms"), (1e-6, " µs"))
    elif unit == "B":
        steps = ((2.0 ** 30, " GiB"), (2.0 ** 20, " MiB"), (2.0 ** 10, " KiB"), (1.0, " B"))
    else:
        steps = ((1e9, " G"), (1e6, " M"), (1e3, " k"), (1.0, ""))
    for divisor, suffix in steps:
        if abs(magnitude) >= divisor * 0.9995:
            return divisor, suffix
    return steps[-1]


def short_number(value: float) -> str:
    """Three significant digits, without an exponent."""
    if not math.isfinite(value):
        return "∞"
    if value == 0 or abs(value) >= 100:
        return f"{value:.0f}"
    return f"{value:.1f}" if abs(value) >= 10 else f"{value:.2f}"


def quantity(value: float, unit: str) -> str:
    divisor, suffix = scale_for(unit, value)
    return short_number(value / divisor) + suffix


def interval(estimate: Estimate, unit: str) -> str:
    """`low–high` in the unit of the median; empty without an interval."""
    if not estimate.has_interval:
        return ""
    divisor, _ = scale_for(unit, estimate.median)
    return f"{short_number(estimate.low / divisor)}–{short_number(estimate.high / divisor)}"


def ratio_text(ratio: Estimate) -> str:
    if not ratio.has_interval:
        return f"{ratio.median:.2f}×"
    # A bound that is not 1 must not be printed as 1.00: the verdict would contradict it.
    digits = 2
    while digits < 4 and any(value != 1 and round(value, digits) == 1 for value in (ratio.low, ratio.high)):
        digits += 1
    high = f"{ratio.high:.{digits}f}" if ratio.high < 1000 else "∞"
    return f"{ratio.median:.{digits}f}× ({ratio.low:.{digits}f}–{high})"


def verdict(ratio: Optional[Estimate]) -> str:
    if ratio is None:
        return NOT_AVAILABLE
    if not ratio.has_interval:
        return "one round, no confidence"
    return {-1: "less", 0: NO_DIFFERENCE, 1: "more"}[compare_to_one(ratio)]


def metrics_of(comparison: Comparison) -> List[Metric]:
    """The metrics that were measured at all."""
    return [metric for metric in METRICS if any(comparison.values(name, metric) for name in comparison.names)]


def summary(comparison: Comparison) -> List[str]:
    """One sentence a metric: a winner where there is one with confidence, else who cannot be told apart."""
    if len([name for name in comparison.names if name not in comparison.dropped]) < 2:
        return ["Fewer than two allocators ran to the end, so there is nothing to compare."]
    if comparison.rounds < 2:
        return ["One round shows nothing with confidence; use --rounds 5 or more."]
    sentences = []
    for metric in metrics_of(comparison):
        ranking = comparison.ranking(metric)
        if ranking.winner is not None:
            sentences.append(_winner_sentence(comparison, metric, ranking.winner))
        elif ranking.level:
            word = metric.best_word[0].upper() + metric.best_word[1:]
            sentences.append(f"{word}: no winner shown; {' and '.join(_listed(ranking.level))} "
                             f"are not told apart by {comparison.rounds} rounds.")
    return sentences


def _listed(names: List[str]) -> List[str]:
    return names if len(names) < 3 else [", ".join(names[:-1]), names[-1]]


def _winner_sentence(comparison: Comparison, metric: Metric, winner: str) -> str:
    word = metric.best_word[0].upper() + metric.best_word[1:]
    if winner == comparison.baseline:
        others = [n for n in comparison.names if n != winner and comparison.ratio(n, metric)]
        closest = min(others, key=lambda name: comparison.ratio(name, metric).median)
        return f"{word}: {winner}; the next, {closest}, needs {ratio_text(comparison.ratio(closest, metric))} of it."
    return f"{word}: {winner}, {ratio_text(comparison.ratio(winner, metric))} of {comparison.baseline}."
