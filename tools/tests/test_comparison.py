"""Verdicts, first on figures made up for the purpose, so that chance plays no part."""

import json
from html.parser import HTMLParser

import pytest

from heddle import report_html, report_json, svg, wording
from heddle.allocators import Allocator
from heddle.comparison import METRICS, Comparison, results_differ, rotated, warnings
from heddle.measure import Plan, Run
from heddle.target import resolve_target

NOISE = [1.00, 1.01, 0.99, 1.02, 0.98, 1.00, 1.01, 0.99]


def comparison_of(levels, rounds=8, **changes):
    """`levels`: name -> CPU seconds; each round drifts by the same factor for all."""
    plan = Plan(resolve_target("true"), ["<a&b>"], {})
    names = list(levels)
    result = Comparison("title <b>", plan, [Allocator(name, name, None) for name in names], names[0], rounds, 1)
    for number in range(rounds):
        for index, name in enumerate(names):
            value = levels[name] * NOISE[(number * (index + 1) + 3 * index) % len(NOISE)] * (1 + 0.2 * (number % 3))
            run = Run(name, number, value, value * 0.9, value * 0.1, int(value * 1e8), int(value * 1000), 0)
            for key, change in changes.get(name, {}).items():
                setattr(run, key, change)
            result.runs.append(run)
    return result


CPU = METRICS[1]


def test_a_winner_is_named_only_with_confidence():
    clear = comparison_of({"system": 1.0, "fast": 0.8, "slow": 1.3})
    assert clear.ranking(CPU).winner == "fast"
    assert any("Least CPU time: fast, 0.8" in line for line in wording.summary(clear))
    close = comparison_of({"system": 1.0, "one": 0.8, "two": 0.801})
    assert close.ranking(CPU).winner is None and set(close.ranking(CPU).level) == {"one", "two"}
    assert any("no winner shown" in line for line in wording.summary(close))


def test_equal_ones_show_no_difference():
    same = comparison_of({"system": 1.0, "other": 1.001})
    assert wording.verdict(same.ratio("other", CPU)) == wording.NO_DIFFERENCE


def test_one_round_concludes_nothing():
    single = comparison_of({"system": 1.0, "fast": 0.2}, rounds=1)
    assert single.ranking(CPU).winner is None
    assert wording.verdict(single.ratio("fast", CPU)) == "one round, no confidence"
    assert "One round" in wording.summary(single)[0]


def test_dropped_allocators_have_no_figures_and_cannot_win():
    broken = comparison_of({"system": 1.0, "fast": 0.5, "other": 2.0})
    broken.dropped["fast"] = "crashed"
    assert broken.estimate("fast", CPU) is None and broken.ranking(CPU).winner == "system"
    assert results_differ(broken) and any(line.startswith("fast: crashed") for line in warnings(broken))


def test_differing_output_is_reported():
    changed = comparison_of({"system": 1.0, "other": 1.0}, system={"output_sha256": "a"}, other={"output_sha256": "b"})
    assert results_differ(changed) and any("standard output differs" in line for line in warnings(changed))
    unstable = comparison_of({"system": 1.0, "other": 1.0}, other={"output_sha256": "b"})
    for run in unstable.runs_of("system"):
        run.output_sha256 = f"x{run.round}"
    assert not results_differ(unstable) and any("says nothing" in line for line in warnings(unstable))


def test_a_printed_bound_never_contradicts_its_verdict():
    assert wording.ratio_text(report_html.Estimate(0.9, 0.8, 0.998, 6)) == "0.900× (0.800–0.998)"
    assert wording.ratio_text(report_html.Estimate(0.9, 0.8, 0.9, 6)) == "0.90× (0.80–0.90)"


def test_rounds_start_with_another_one_each():
    assert [rotated("abc", by) for by in range(4)] == [list("abc"), list("bca"), list("cab"), list("abc")]
    assert rotated([], 3) == []


@pytest.mark.parametrize("value, unit, text", [
    (0.0123, "s", "12.3 ms"), (2.0, "s", "2.00 s"), (5e-7, "s", "0.50 µs"), (1536, "B", "1.50 KiB"), (0, "B", "0 B"),
    (3 << 30, "B", "3.00 GiB"), (999, "count", "999"), (12345, "count", "12.3 k"),
])
def test_quantities(value, unit, text):
    assert wording.quantity(value, unit) == text


def test_json_has_the_promised_form():
    data = json.loads(report_json.to_text(report_json.report([comparison_of({"system": 1.0, "fast": 0.8})])))
    assert data["schema"] == "heddle-compare/1" and data["confidence"] == 0.95
    (comparison,) = data["comparisons"]
    assert comparison["command"] == ["true", "<a&b>"] and len(comparison["runs"]) == 16
    fast = comparison["allocators"][1]
    assert set(fast["figures"]) == {"wall", "cpu", "peak", "faults", "idle"}
    assert fast["figures"]["cpu"]["verdict"] == "less"
    assert fast["figures"]["cpu"]["ratio"]["high"] < 1
    assert fast["figures"]["idle"]["estimate"] is None
    assert comparison["allocators"][0]["figures"]["cpu"]["verdict"] == "baseline"


class Checker(HTMLParser):
    """Balanced tags, and nothing that a browser would fetch."""

    VOID = {"meta", "br"}

    def __init__(self):
        super().__init__()
        self.open, self.seen, self.fetched = [], [], []

    def handle_starttag(self, tag, attributes):
        self.seen.append(tag)
        self.fetched += [value for key, value in attributes if key in ("src", "href", "xlink:href")]
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attributes):
        self.seen.append(tag)

    def handle_endtag(self, tag):
        assert self.open and self.open.pop() == tag, f"unexpected </{tag}>"


@pytest.mark.parametrize("rounds", [1, 2, 8])
def test_the_page_is_whole_and_fetches_nothing(rounds):
    data = report_json.report([comparison_of({"system": 1.0, "heddle": 0.9, "<x>": 1.1}, rounds)])
    text = report_html.page(json.loads(report_json.to_text(data)))
    checker = Checker()
    checker.feed(text)
    assert not checker.open and not checker.fetched
    assert "url(" not in text and "@import" not in text and "<script" not in text
    assert "<x>" not in text and "title <b>" not in text and "title &lt;b&gt;" in text
    # A scatter and four bars; lines by round need two rounds.
    assert checker.seen.count("svg") == (5 if rounds == 1 else 7)


def test_ticks_cover_the_range():
    for low, high in ((0, 1), (3.2, 3.3), (0, 123456), (5, 5), (0, 0)):
        ticks = svg.nice_ticks(low, high)
        assert ticks[0] <= low and ticks[-1] >= high and 2 <= len(ticks) <= 9
