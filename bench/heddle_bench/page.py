"""One self-contained HTML page: time against memory as a scatter, bars for each row, scaling curves. SVG made here, no script."""

from .draw import LogAxes, colors_of, label_spots, legend, picture, text
from .measure import CONTROL
from .tables import families_of, figure, geomean_rows, mib, short_version, times

STYLE = """
:root{--paper:#fff;--ink:#1b1f24;--soft:#667;--line:#d9dde3;--card:#f6f7f9}
@media(prefers-color-scheme:dark){:root{--paper:#14171b;--ink:#e6e9ee;--soft:#9aa4b2;--line:#303740;--card:#1b2026}}
body{background:var(--paper);color:var(--ink);font:15px/1.45 system-ui,sans-serif;max-width:1080px;margin:2rem auto;padding:0 1rem}
h1{font-size:1.6rem;margin-bottom:.2rem}h2{font-size:1.15rem;margin-top:2.2rem}p{color:var(--soft);max-width:90ch}
svg{max-width:100%;height:auto}svg text{fill:var(--ink);font:12px system-ui,sans-serif}svg .soft{fill:var(--soft)}
svg .axis{stroke:var(--line);stroke-width:1}svg .ring{stroke:var(--paper);stroke-width:1.5}
.wide{overflow-x:auto}.wide svg{min-width:700px}table{border-collapse:collapse;font-size:13px}
td,th{padding:.2rem .6rem;text-align:right;border-bottom:1px solid var(--line)}
td:first-child,th:first-child,td.words,th.words{text-align:left}tr.subject{font-weight:600}
.cards{display:grid;grid-template-columns:repeat(auto-fill,minmax(min(320px,100%),1fr));gap:12px}
.cards.broad{grid-template-columns:repeat(auto-fill,minmax(min(440px,100%),1fr))}
.card{background:var(--card);border:1px solid var(--line);border-radius:6px;padding:8px 10px}.card h3{font-size:.9rem;margin:.1rem 0 .4rem}
.card h3 span{font-weight:400;color:var(--soft);float:right}
.key span{display:inline-block;margin-right:1rem;white-space:nowrap}
.key i{display:inline-block;width:.8em;height:.8em;border-radius:2px;margin-right:.35em}
"""
STRIP_MOST = 8.0  # ratios above it are drawn at the edge


def weight(is_subject):
    return ' style="font-weight:600"' if is_subject else ""


def draw_scatter(results, colors, width=1040, height=460):
    """The geometric means, without the subject's copy, which would lie on it; None when there are too few."""
    points = [(m.name, m.cpu, m.rss) for m in geomean_rows(results, CONTROL) if m.cpu and m.rss]
    if len(points) < 2:
        return None
    axes = LogAxes([p[1] for p in points], [p[2] for p in points], width, height, 1.1)
    marks = "".join(
        f'<circle class="ring" cx="{axes.x(c):.1f}" cy="{axes.y(r):.1f}" r="{9 if n == results.subject else 6}" fill="{colors[n]}"/>'
        for n, c, r in points
    )
    spots = [(n, axes.x(c), axes.y(r)) for n, c, r in points]
    for n, (x, y, anchor) in label_spots(spots, (axes.left, axes.top, axes.right, axes.bottom)).items():
        marks += f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}"{weight(n == results.subject)}>{text(n)}</text>'
    base = results.baseline
    return axes.frame(f"CPU time, {base} = 1 (left is faster)", f"peak RSS, {base} = 1 (low is smaller)") + marks, width, height


def row_spots(results, row):
    """Each allocator's time over that of the row's best peer, the subject last so that it lies on top."""
    what, best = results.time_of(row.name), results.best_peer(row.name, results.time_of(row.name))
    names = sorted(results.allocators, key=lambda n: n == results.subject)
    spots = [(n, results.ratio(row.name, n, best, what)) for n in names] if best else []
    return [(n, r) for n, r in spots if r]


def draw_strip(results, colors, width=1040, step=17):
    """A line for each row, a spot for each allocator: how much slower than the row's best peer."""
    rows = [(row, row_spots(results, row)) for row in results.worst_first()]
    rows = [(row, spots) for row, spots in rows if spots]
    values = [min(r, STRIP_MOST) for _, spots in rows for _, r in spots]
    if not values:
        return None
    height = step * len(rows) + 64
    axes = LogAxes(values + [1.0, 2.0], [1, 2], width, height, 1.05, left=170)
    grid = [t for t in (0.1, 0.2, 0.3, 0.5, 0.7, 1, 1.5, 2, 3, 5, STRIP_MOST) if axes.x_range[0] <= t <= axes.x_range[1]]
    out = [axes.verticals("time over the best peer's", grid, at_top=True)]
    for i, (row, spots) in enumerate(rows):
        y = axes.top + step * (i + 0.5)
        out.append(f'<text class="soft" x="{axes.left - 8}" y="{y + 4:.1f}" text-anchor="end">{text(row.name)}</text>')
        for n, r in spots:
            shape = 'class="ring" r="6.5"' if n == results.subject else 'r="3.5" opacity=".75"'
            spot = f'<circle cx="{axes.x(min(r, STRIP_MOST)):.1f}" cy="{y:.1f}" fill="{colors[n]}" {shape}>'
            out.append(f"{spot}<title>{text(n)} {r:.2f}</title></circle>")
    return "".join(out), width, height


def bars(results, row, what, colors):
    pairs = sorted((results.least(row.name, n, what), n) for n in results.allocators if results.samples[row.name][n])
    if not pairs or pairs[-1][0] == 0:
        return ""
    out = []
    for i, (value, name) in enumerate(pairs):
        y, width = i * 17, 130 * value / pairs[-1][0]
        words = f"{mib(value)} MiB" if what == "rss_kib" else figure(results, row, name, what)
        out.append(
            f'<text x="88" y="{y + 12}" text-anchor="end"{weight(name == results.subject)}>{text(name)}</text>'
            f'<rect x="93" y="{y + 2}" width="{max(width, 1):.1f}" height="12" rx="2" fill="{colors[name]}"/>'
            f'<text class="soft" x="{97 + width:.1f}" y="{y + 12}">{words}</text>'
        )
    height = 17 * len(pairs) + 2
    return f'<svg viewBox="0 0 300 {height}" width="300" role="img" aria-label="{text(row.name)} {what}">{"".join(out)}</svg>'


def draw_curves(results, members, colors, width=480, height=300):
    """Wall time against threads, each allocator a line; every thread does the same amount of work."""
    lines = {
        n: [(r.threads, results.least(r.name, n, "wall")) for r in members if results.samples[r.name][n]] for n in results.allocators
    }
    lines = {n: points for n, points in lines.items() if len(points) > 1}
    values = [v for points in lines.values() for _, v in points]
    if not values:
        return None
    threads = sorted({t for points in lines.values() for t, _ in points})
    axes = LogAxes(threads, values, width, height)
    drawn = [axes.frame("threads", "seconds", threads)]
    for n in sorted(lines, key=lambda n: n == results.subject):
        way = " ".join(f"{axes.x(t):.1f},{axes.y(v):.1f}" for t, v in lines[n])
        thick = 3.5 if n == results.subject else 1.6
        line = f'<polyline fill="none" stroke="{colors[n]}" stroke-width="{thick}" points="{way}">'
        drawn.append(f"{line}<title>{text(n)}</title></polyline>")
    return "".join(drawn), width, height


def inline(drawing, label):
    inside, width, height = drawing
    return f'<svg viewBox="0 0 {width} {height}" width="{width}" role="img" aria-label="{text(label)}">{inside}</svg>'


def wide(inside):
    """What a narrow window may scroll sideways."""
    return f'<div class="wide">{inside}</div>'


def means(results):
    rows = ""
    for m in geomean_rows(results):
        cells = [times(m.cpu), m.cpu_rows, times(m.rss), m.rss_rows, times(m.median_cpu), times(m.median_rss)]
        words = f'<td>{text(m.name)}</td><td class="words">{text(short_version(m.version))}</td>'
        rows += f"<tr{' class=subject' if m.name == results.subject else ''}>{words}{''.join(f'<td>{cell}</td>' for cell in cells)}</tr>"
    columns = ["CPU", "rows", "peak RSS", "rows", "CPU, median", "RSS, median"]
    heads = f'<tr><th>allocator</th><th class="words">version</th>{"".join(f"<th>{c}</th>" for c in columns)}</tr>'
    return wide(f"<table>{heads}{rows}</table>")


def card(results, row, colors):
    ratio, best = results.against_best(row.name, results.time_of(row.name))
    beside = f"<span>{ratio:.2f} x {text(best)}</span>" if ratio else ""
    drawn = bars(results, row, results.time_of(row.name), colors) + "<br>" + bars(results, row, "rss_kib", colors)
    return f'<div class="card"><h3>{text(row.name)}{beside}</h3>{drawn}</div>'


def scaling_part(scaling, rows, colors, key):
    cards = [(family, draw_curves(scaling, members, colors)) for family, members in families_of(rows).items()]
    cards = [f'<div class="card"><h3>{text(family)}</h3>{inline(d, family)}</div>' for family, d in cards if d]
    if not cards:
        return ""
    why = "Each thread does the same work: a flat line is perfect up to the number of cores."
    return f'<h2>Scaling</h2><p>{why}</p>{key}<div class="cards broad">{"".join(cards)}</div>'


def subject_first(results):
    return sorted(results.allocators, key=lambda n: n != results.subject)


def render(results, scaling, scaling_rows, rounds, when):
    colors = colors_of(subject_first(results))
    key = "".join(f'<span><i style="background:{colors[n]}"></i>{text(n)}</span>' for n in results.allocators)
    key = f'<p class="key">{key}</p>'
    scatter, strip = draw_scatter(results, colors), draw_strip(results, colors)
    cards = "".join(card(results, row, colors) for row in results.worst_first())
    failed = "".join(f"<li>{text(f)}</li>" for f in results.failures + scaling.failures)
    return f"""<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">
<meta name="color-scheme" content="light dark">
<title>Heddle: allocators side by side</title><style>{STYLE}</style><h1>Allocators side by side</h1>
<p>{text(when)}. {len(results.rows)} rows, {rounds} interleaved rounds, the minimum of each. Ratios are against
{text(results.baseline)}.</p>
{f"<h2>Failed runs</h2><ul>{failed}</ul>" if failed else ""}
<h2>Time against memory</h2><p>Geometric means over all rows; both axes logarithmic, the lower left corner is best.</p>
{wide(inline(scatter, "CPU against RSS")) if scatter else "<p>Too few rows for a scatter.</p>"}{means(results)}
{scaling_part(scaling, scaling_rows, colors, key)}
<h2>Every row against its best peer</h2><p>1 is the fastest peer of the row; {text(results.subject)} is the large spot, left of 1 where it
is ahead of all. What is slower than {STRIP_MOST:g} times is drawn at the edge.</p>{key}{wide(inline(strip, "rows")) if strip else ""}
<h2>Row by row</h2><p>Above: time (per operation where the workload measures it, else CPU). Below: peak RSS. Worst first.</p>{key}
<div class="cards">{cards}</div></html>
"""


def pictures(results, scaling, scaling_rows):
    """File names and SVG texts for the documentation: the means, and a curve for each scaling family side by side."""
    names = subject_first(results)
    colors = colors_of(names)
    out = {}
    scatter = draw_scatter(results, colors, 760, 420)
    if scatter:
        out["bench-means.svg"] = picture(scatter[1], scatter[2], scatter[0], "Geometric means: CPU against peak RSS")
    drawn = [(family, draw_curves(scaling, members, colors, 400, 260)) for family, members in families_of(scaling_rows).items()]
    drawn = [(family, d[0]) for family, d in drawn if d]
    if drawn:
        height = 280 * -(-len(drawn) // 2)
        parts = [
            f'<g transform="translate({i % 2 * 400},{i // 2 * 280 + 16})">'
            f'<text x="200" y="2" style="font-weight:600">{text(family)}</text>{d}</g>'
            for i, (family, d) in enumerate(drawn)
        ]
        below, used = legend(names, colors, height + 24, 800)
        out["bench-scaling.svg"] = picture(800, used + 12, "".join(parts) + below, "Wall time against threads")
    return out
