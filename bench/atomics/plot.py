"""Small curves of a count against the number of threads, one panel for each workload, as a picture of its own."""

import math

from heddle_bench.draw import colors_of, legend, picture, text

WIDTH, HEIGHT, ACROSS = 300, 210, 3


def nice_top(value):
    """A round number at or above value, for the upper end of a linear axis."""
    if value <= 0:
        return 1.0
    unit = 10 ** math.floor(math.log10(value))
    return next(m * unit for m in (1, 1.5, 2, 3, 4, 5, 6, 8, 10) if m * unit >= value)


def panel(workload, threads, names, colors, locked):
    lines = {n: [(t, max(locked[f"{workload} t{t}", n], 0)) for t in threads if (f"{workload} t{t}", n) in locked] for n in names}
    top = nice_top(max((v for points in lines.values() for _, v in points), default=0))
    left, right, upper, lower = 34, WIDTH - 12, 30, HEIGHT - 26

    def x(t):
        return left + (right - left) * threads.index(t) / max(len(threads) - 1, 1)

    def y(v):
        return lower - (lower - upper) * v / top

    out = [f'<text x="{left}" y="16" style="font-weight:600">{text(workload)}</text>']
    for v in (0, top / 2, top):
        out.append(f'<line class="axis" x1="{left}" x2="{right}" y1="{y(v):.1f}" y2="{y(v):.1f}"/>')
        out.append(f'<text class="soft" x="{left - 5}" y="{y(v) + 4:.1f}" text-anchor="end">{v:g}</text>')
    out += [f'<text class="soft" x="{x(t):.1f}" y="{lower + 16}" text-anchor="middle">{t}</text>' for t in threads]
    for name in reversed(names):  # the first, Heddle, on top
        points = lines[name]
        if points:
            way = " ".join(f"{x(t):.1f},{y(v):.1f}" for t, v in points)
            width = 3.5 if name == names[0] else 1.6
            line = f'<polyline fill="none" stroke="{colors[name]}" stroke-width="{width}" points="{way}">'
            out.append(f"{line}<title>{text(name)}</title></polyline>")
    return "".join(out)


def curves(workloads, threads, names, locked):
    names = [n for n in names if any(key[1] == n for key in locked)]
    colors = colors_of(names)
    parts = []
    for i, workload in enumerate(workloads):
        where = f"translate({i % ACROSS * WIDTH},{i // ACROSS * HEIGHT})"
        parts.append(f'<g transform="{where}">{panel(workload, threads, names, colors, locked)}</g>')
    rows = -(-len(workloads) // ACROSS)
    below, used = legend(names, colors, rows * HEIGHT + 16, WIDTH * ACROSS)
    return picture(WIDTH * ACROSS, used + 12, "".join(parts) + below, "Locked instructions per operation against threads")
