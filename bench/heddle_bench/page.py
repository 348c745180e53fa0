"""One self-contained HTML page: time against memory as a scatter, bars for each row, scaling curves. SVG made here, no script."""

import html
import math

from .tables import geomean_rows, seconds, times

COLORS = [
    "#d1495b",
    "#2e86ab",
    "#3b8f5a",
    "#b07d12",
    "#7a52a8",
    "#1b9aaa",
    "#a0522d",
    "#6b7a8f",
    "#c0568f",
    "#558b2f",
    "#8d6e63",
    "#5c6bc0",
]
STYLE = """
:root{--paper:#fff;--ink:#1b1f24;--soft:#667;--line:#d9dde3;--card:#f6f7f9}
@media(prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e6e9ee;--soft:#9aa4b2;--line:#303740;--card:#1b2026}}
body{background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.2rem}p{color:var(--soft);max-width:70ch}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}
svg .axis{stroke:var(--line);stroke-width:1}
table{border-collapse:collapse;font-size:13px}td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
td:first-child,th:first-child{text-align:left}.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(320px,1fr));gap:12px}
.card{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:8px 10px}.card h3{font-size:.9rem;margin:.1rem 0 .4rem}
.key span{display:inline-block;margin-right:1rem;white-space:nowrap}
.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
"""


def text(value):
    return html.escape(str(value), quote=True)


def ticks(low, high):
    """Round values between low and high on a log axis."""
    steps = [m * 10**e for e in range(-6, 10) for m in (1, 1.5, 2, 3, 5, 7)]
    inside = [s for s in steps if low <= s <= high]
    return inside[:: max(1, math.ceil(len(inside) / 6))]


class LogAxes:
    """Maps values to a box, both axes logarithmic, and draws the frame."""

    def __init__(self, xs, ys, width, height, log_floor=1.08):
        self.width, self.height = width, height
        self.left, self.right, self.top, self.bottom = 56, width - 20, 14, height - 40
        self.x_range = (min(xs) / log_floor, max(xs) * log_floor)
        self.y_range = (min(ys) / log_floor, max(ys) * log_floor)

    def x(self, value):
        return self.left + (self.right - self.left) * math.log(value / self.x_range[0]) / math.log(
            self.x_range[1] / self.x_range[0]
        )

    def y(self, value):
        return self.bottom - (self.bottom - self.top) * math.log(value / self.y_range[0]) / math.log(
            self.y_range[1] / self.y_range[0]
        )

    def frame(self, x_name, y_name, x_ticks=None):
        out = []
        for tick in x_ticks or ticks(*self.x_range):
            out.append(
                f'<line class="axis" x1="{self.x(tick):.1f}" x2="{self.x(tick):.1f}" y1="{self.top}" y2="{self.bottom}"/>'
                f'<text class="soft" x="{self.x(tick):.1f}" y="{self.bottom + 15}" text-anchor="middle">{tick:g}</text>'
            )
        for tick in ticks(*self.y_range):
            out.append(
                f'<line class="axis" x1="{self.left}" x2="{self.right}" y1="{self.y(tick):.1f}" y2="{self.y(tick):.1f}"/>'
                f'<text class="soft" x="{self.left - 6}" y="{self.y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
            )
        out.append(
            f'<text x="{self.right}" y="{self.height - 6}" text-anchor="end">{text(x_name)}</text>'
            f'<text x="4" y="{self.top - 3}">{text(y_name)}</text>'
        )
        return "".join(out)


def spread(labels, gap=14):
    """Move label heights apart so that none cover each other; takes and returns (y, item) pairs."""
    placed, last = [], -1e9
    for y, item in sorted(labels, key=lambda pair: pair[0]):
        last = max(y, last + gap)
        placed.append((last, item))
    return placed


def scatter(results, colors):
    points = [(n, cpu, rss) for n, _, cpu, _, rss, _ in geomean_rows(results) if cpu and rss]
    if len(points) < 2:
        return "<p>Too few rows for a scatter.</p>"
    axes = LogAxes([p[1] for p in points], [p[2] for p in points], 760, 420, 1.1)
    marks = "".join(
        f'<circle cx="{axes.x(c):.1f}" cy="{axes.y(r):.1f}" r="{8 if n == results.subject else 6}" fill="{colors[n]}"/>'
        for n, c, r in points
    )
    for y, (n, c) in spread([(axes.y(r), (n, c)) for n, c, r in points]):
        flip = axes.x(c) > axes.right - 110
        at = axes.x(c) + (-12 if flip else 12)
        weight = ' font-weight="bold"' if n == results.subject else ""
        marks += f'<text x="{at:.1f}" y="{y + 4:.1f}" text-anchor="{"end" if flip else "start"}"{weight}>{text(n)}</text>'
    frame = axes.frame("CPU time (lower is faster)", "peak RSS (lower is smaller)")
    return f'<svg viewBox="0 0 760 420" width="760" role="img" aria-label="CPU against RSS">{frame}{marks}</svg>'


def bars(results, row, what, colors):
    pairs = sorted((results.least(row.name, n, what), n) for n in results.allocators if results.samples[row.name][n])
    if not pairs or pairs[-1][0] == 0:
        return ""
    form = (lambda v: f"{v / 1024:.1f} MiB") if what == "rss_kib" else seconds if what == "cpu" else (lambda v: f"{v:.2f}")
    out = []
    for i, (value, name) in enumerate(pairs):
        y, width = i * 17, 130 * value / pairs[-1][0]
        weight = ' font-weight="bold"' if name == results.subject else ""
        out.append(
            f'<text x="88" y="{y + 12}" text-anchor="end"{weight}>{text(name)}</text>'
            f'<rect x="93" y="{y + 2}" width="{max(width, 1):.1f}" height="12" '
            f'rx="2" fill="{colors[name]}"/><text class="soft" x="{97 + width:.1f}" y="{y + 12}">{form(value)}</text>'
        )
    height = 17 * len(pairs) + 2
    return f'<svg viewBox="0 0 300 {height}" width="300" role="img" aria-label="{text(row.name)} {what}">{"".join(out)}</svg>'


def curves(results, rows, colors):
    """Wall time against threads, each allocator a line; every thread does the same amount of work."""
    families = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    cards = []
    for family, members in families.items():
        lines = {
            n: [(r.threads, results.least(r.name, n, "wall")) for r in members if results.samples[r.name][n]]
            for n in results.allocators
        }
        lines = {n: points for n, points in lines.items() if len(points) > 1}
        values = [v for points in lines.values() for _, v in points]
        if not values:
            continue
        threads = sorted({t for points in lines.values() for t, _ in points})
        axes = LogAxes(threads, values, 480, 300)
        drawn = "".join(
            f'<polyline fill="none" stroke="{colors[n]}" stroke-width="{3.5 if n == results.subject else 1.6}" points="'
            + " ".join(f"{axes.x(t):.1f},{axes.y(v):.1f}" for t, v in points)
            + f'"><title>{text(n)}</title></polyline>'
            for n, points in lines.items()
        )
        cards.append(
            f'<div class="card"><h3>{text(family)}</h3><svg viewBox="0 0 480 300" width="480">'
            f"{axes.frame('threads', 'seconds', threads)}{drawn}</svg></div>"
        )
    return "".join(cards)


def means(results):
    rows = "".join(
        f"<tr><td>{text(n)}</td><td>{text(v)}</td><td>{times(cpu)}</td><td>{k}</td><td>{times(rss)}</td><td>{m}</td></tr>"
        for n, v, cpu, k, rss, m in geomean_rows(results)
    )
    return (
        f"<table><tr><th>allocator</th><th>version</th><th>CPU</th><th>rows</th><th>peak RSS</th><th>rows</th></tr>{rows}</table>"
    )


def render(results, scaling, scaling_rows, rounds, when):
    colors = {n: COLORS[i % len(COLORS)] for i, n in enumerate(sorted(results.allocators, key=lambda n: n != results.subject))}
    key = (
        '<p class="key">'
        + "".join(f'<span><i style="background:{colors[n]}"></i>{text(n)}</span>' for n in results.allocators)
        + "</p>"
    )
    cards = "".join(
        f'<div class="card"><h3>{text(row.name)}</h3>{bars(results, row, results.time_of(row.name), colors)}<br>'
        f"{bars(results, row, 'rss_kib', colors)}</div>"
        for row in results.worst_first()
    )
    curve_part = (
        f"<h2>Scaling</h2><p>Each thread does the same work: a flat line is perfect up to the number of cores.</p>{key}<div class='cards' "
        f"style='grid-template-columns:repeat(auto-fill,minmax(440px,1fr))'>{curves(scaling, scaling_rows, colors)}</div>"
        if scaling_rows
        else ""
    )
    failed = "".join(f"<li>{text(f)}</li>" for f in results.failures)
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Heddle: allocators side by side</title><style>{STYLE}</style><h1>Allocators side by side</h1>
<p>{text(when)}. {len(results.rows)} rows, {rounds} interleaved rounds, the minimum of each.
Ratios are against {text(results.baseline)}.</p>
<h2>Time against memory</h2><p>Geometric means over all rows; both axes logarithmic, the lower left corner is best.</p>
{scatter(results, colors)}{means(results)}
{curve_part}<h2>Row by row</h2>
<p>Above: time (ns or us per operation where the workload measures one, else CPU). Below: peak RSS.</p>{key}
<div class="cards">{cards}</div>
{f"<h2>Failed runs</h2><ul>{failed}</ul>" if failed else ""}</html>
"""
