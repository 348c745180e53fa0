"""The report as one self-contained page, made from the data of the JSON report."""

from __future__ import annotations

import os
from html import escape
from typing import Any, Dict, List, Optional

from . import svg, wording
from .comparison import METRICS, Metric
from .libraries import PACKAGE_DIRECTORY
from .stats import Estimate

# The first two keep their colours in every report: grey for the system, the accent for Heddle.
FIXED_COLOURS = {"system": 0, "heddle": 1}
COLOUR_COUNT = 10
RUN_KEYS = {"wall": "wall_s", "peak": "peak_rss_bytes", "idle": "idle_rss_bytes"}


def _style() -> str:
    with open(os.path.join(PACKAGE_DIRECTORY, "page.css"), encoding="utf-8") as file:
        text = file.read()
    rules = [f".c{k} {{ fill: var(--k{k}); background: var(--k{k}); }} .s{k} {{ stroke: var(--k{k}); }}"
             for k in range(COLOUR_COUNT)]
    return text + "\n".join(rules)


def colours(data: Dict[str, Any]) -> Dict[str, int]:
    """A colour number for each allocator, the same in all parts of the page."""
    result, following = {}, 2
    for comparison in data["comparisons"]:
        for entry in comparison["allocators"]:
            name = entry["name"]
            if name in result:
                continue
            if name in FIXED_COLOURS:
                result[name] = FIXED_COLOURS[name]
            else:
                result[name] = following
                following = following + 1 if following + 1 < COLOUR_COUNT else 2
    return result


def _estimate(value: Optional[Dict[str, Any]]) -> Optional[Estimate]:
    if value is None:
        return None
    high = value["high"]
    if high is None and value["low"] is not None:
        high = float("inf")
    return Estimate(value["median"], value["low"], high, value["count"])


def _present(comparison: Dict[str, Any]) -> List[Metric]:
    return [metric for metric in METRICS
            if any(entry["figures"][metric.key]["estimate"] for entry in comparison["allocators"])]


def _cell(figure: Dict[str, Any], metric: Metric) -> str:
    estimate, ratio = _estimate(figure["estimate"]), _estimate(figure["ratio"])
    if estimate is None:
        return "<td>n/a</td>"
    parts = [escape(wording.quantity(estimate.median, metric.unit))]
    between = wording.interval(estimate, metric.unit)
    if between:
        parts.append(f"<span>{escape(between)}</span>")
    verdict = figure["verdict"]
    text = wording.ratio_text(ratio) if verdict in ("less", "more") and ratio else verdict
    parts.append(f'<span class="{verdict if verdict in ("less", "more") else ""}">{escape(text)}</span>')
    return "<td>" + "".join(parts) + "</td>"


def _table(comparison: Dict[str, Any]) -> str:
    metrics = _present(comparison)
    head = "".join(f"<th>{escape(metric.title)}</th>" for metric in metrics)
    rows = []
    for entry in comparison["allocators"]:
        version = f"<span>{escape(entry['version'])}</span>" if entry["version"] else ""
        name = f"<td><b>{escape(entry['name'])}</b>{version}</td>"
        if entry["dropped"]:
            rows.append(f'<tr>{name}<td colspan="{max(1, len(metrics))}">left out</td></tr>')
        else:
            rows.append("<tr>" + name + "".join(_cell(entry["figures"][m.key], m) for m in metrics) + "</tr>")
    return (f'<div class="scroll"><table><thead><tr><th>allocator</th>{head}</tr></thead>'
            f'<tbody>{"".join(rows)}</tbody></table></div>')


def _run_value(run: Dict[str, Any], metric: Metric) -> Optional[float]:
    if metric.key == "cpu":
        return run["user_s"] + run["system_s"]
    if metric.key == "faults":
        return run["minor_faults"] + run["major_faults"]
    return run[RUN_KEYS[metric.key]]


def _axis(metric: Metric, values: List[float]) -> svg.Axis:
    divisor, suffix = wording.scale_for(metric.unit, max(values))
    return svg.Axis(f"{metric.title}, {suffix.strip()}" if suffix.strip() else metric.title, divisor)


def _kept(comparison: Dict[str, Any]) -> List[Dict[str, Any]]:
    return [entry for entry in comparison["allocators"] if not entry["dropped"]]


def _scatter(comparison: Dict[str, Any], colour: Dict[str, int], time: Metric, memory: Metric) -> str:
    series = []
    for entry in _kept(comparison):
        pairs = [(_run_value(run, time), _run_value(run, memory)) for run in comparison["runs"]
                 if run["allocator"] == entry["name"]]
        points = [(x, y) for x, y in pairs if x is not None and y is not None]
        centre = [entry["figures"][metric.key]["estimate"] for metric in (time, memory)]
        if points and all(centre):
            series.append(svg.Series(entry["name"], points, colour[entry["name"]],
                                     (centre[0]["median"], centre[1]["median"])))
    if not series:
        return ""
    axes = [_axis(metric, [point[index] for entry in series for point in entry.points])
            for index, metric in enumerate((time, memory))]
    title = f"{time.title} against {memory.title}"
    return _card(f"{title} (lower left is better)", svg.scatter(title, series, *axes))


def _bars(comparison: Dict[str, Any], colour: Dict[str, int], metric: Metric) -> str:
    entries = []
    for entry in _kept(comparison):
        estimate = _estimate(entry["figures"][metric.key]["estimate"])
        if estimate:
            entries.append(svg.Bar(entry["name"], estimate.median, estimate.low, estimate.high,
                                   wording.quantity(estimate.median, metric.unit), colour[entry["name"]]))
    return _card(f"{metric.title}, median with 95 % interval", svg.bars(metric.title, entries)) if entries else ""


def _rounds(comparison: Dict[str, Any], colour: Dict[str, int], metric: Metric) -> str:
    series = []
    for entry in _kept(comparison):
        points = [(run["round"] + 1, _run_value(run, metric)) for run in comparison["runs"]
                  if run["allocator"] == entry["name"] and _run_value(run, metric) is not None]
        if len(points) > 1:
            series.append(svg.Series(entry["name"], points, colour[entry["name"]]))
    if not series:
        return ""
    axis = _axis(metric, [y for entry in series for _, y in entry.points])
    return _card(f"{metric.title} by round", svg.lines(metric.title, series, svg.Axis("round"), axis))


def _card(title: str, drawing: str) -> str:
    return f'<section class="card"><h3>{escape(title[0].upper() + title[1:])}</h3>{drawing}</section>'


def _legend(comparison: Dict[str, Any], colour: Dict[str, int]) -> str:
    items = (f'<span><i class="c{colour[entry["name"]]}"></i>{escape(entry["name"])}</span>'
             for entry in comparison["allocators"])
    return f'<div class="legend">{"".join(items)}</div>'


def _section(comparison: Dict[str, Any], colour: Dict[str, int]) -> str:
    by_key = {metric.key: metric for metric in METRICS}
    present = _present(comparison)
    cards = []
    if by_key["cpu"] in present and by_key["peak"] in present:
        cards.append(_scatter(comparison, colour, by_key["cpu"], by_key["peak"]))
    cards += [_bars(comparison, colour, metric) for metric in present]
    cards += [_rounds(comparison, colour, metric) for metric in present if metric.key in ("wall", "cpu")]
    notes = "".join(f"<p>{escape(line)}</p>" for line in comparison["warnings"])
    sentences = "".join(f"<li>{escape(line)}</li>" for line in comparison["summary"])
    return "".join((
        f"<h2>{escape(comparison['title'])}</h2>",
        f'<p class="soft">{comparison["rounds"]} rounds, interleaved, after {comparison["warmup"]} not counted; '
        f'ratios to {escape(comparison["baseline"])}, paired by round.</p>',
        f"<ul>{sentences}</ul>",
        f'<div class="notes">{notes}</div>' if notes else "",
        _table(comparison), _legend(comparison, colour),
        f'<div class="cards">{"".join(cards)}</div>',
    ))


def page(data: Dict[str, Any]) -> str:
    """The whole page. `data` is what report_json.report gives."""
    colour = colours(data)
    machine = data["machine"]
    where = (f"{machine['processor']}, {machine['cores']} cores, "
             f"{wording.quantity(machine['memory_bytes'], 'B')} memory, {machine['system']}, Linux {machine['kernel']}")
    body = "".join(_section(comparison, colour) for comparison in data["comparisons"])
    return f"""<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>Allocators compared</title>
<style>{_style()}</style>
</head>
<body>
<main>
<h1>Allocators compared</h1>
<p class="soft">{escape(data['date'])} · {escape(where)} · heddle {escape(data['tool']['version'])}</p>
<p class="soft">Less is better everywhere. A difference is named only where the 95 % interval of its ratio excludes 1
and it is more than half a percent.</p>
{body}
</main>
</body>
</html>
"""
