"""The curves of a soak run as one HTML page without outside parts: resident and live bytes and the bound, a drawing for each shape."""

from __future__ import annotations

from html import escape
from pathlib import Path
from typing import Dict, List, Sequence, Tuple

import heddle
from heddle.svg import nice_ticks, number
from soak_judge import MIB, Judgement, bounds, steady_indexes
from soak_watch import Watched

WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 260, 46, 630, 24, 222
POINTS_MAX = 320
STYLE = """
svg .live { fill: var(--k2); opacity: .22; stroke: none; }
svg .bound { stroke: var(--bad); stroke-dasharray: 5 4; stroke-width: 1.4; }
svg .steady { fill: var(--good); opacity: .5; }
.cards { grid-template-columns: repeat(auto-fit, minmax(min(100%, 480px), 1fr)); }
.bad { color: var(--bad); } .good { color: var(--good); }
""" + "".join(f"svg .s{i} {{ stroke: var(--k{i}); }} .legend .i{i} {{ background: var(--k{i}); }}\n" for i in range(10))


def thinned(values: Sequence[float]) -> List[Tuple[int, float]]:
    """At most POINTS_MAX points: the lowest and the highest of each stretch, so that no peak is lost."""
    step = max(1, -(-len(values) * 2 // POINTS_MAX))
    if step == 1:
        return list(enumerate(values))
    points = []
    for at in range(0, len(values), step):
        stretch = range(at, min(at + step, len(values)))
        points += [(index, values[index]) for index in sorted({min(stretch, key=values.__getitem__), max(stretch, key=values.__getitem__)})]
    return points


class Drawing:
    """One shape: time across, MiB upwards from zero."""

    def __init__(self, seconds: float, most: float):
        self.divisor, self.unit = (3600, "hours") if seconds > 7200 else (60, "minutes") if seconds > 120 else (1, "seconds")
        self.seconds, self.ticks = seconds, nice_ticks(0, most / MIB)
        self.parts: List[str] = []
        for tick in self.ticks:
            y = self.y(tick * MIB)
            self.parts.append(f'<line x1="{LEFT}" y1="{y:.1f}" x2="{RIGHT}" y2="{y:.1f}" class="grid"/>'
                              f'<text x="{LEFT - 6}" y="{y + 4:.1f}" class="tick" text-anchor="end">{number(tick)}</text>')
        for tick in nice_ticks(0, seconds / self.divisor):
            if tick * self.divisor <= seconds:
                self.parts.append(f'<text x="{self.x(tick * self.divisor):.1f}" y="{BOTTOM + 16}" class="tick" text-anchor="middle">'
                                  f"{number(tick)}</text>")
        self.parts.append(f'<text x="4" y="12" class="axis">MiB</text><text x="{RIGHT}" y="{HEIGHT - 4}" class="axis" '
                          f'text-anchor="end">{self.unit}</text>')

    def x(self, seconds: float) -> float:
        return LEFT + seconds / self.seconds * (RIGHT - LEFT)

    def y(self, amount: float) -> float:
        return BOTTOM - amount / MIB / self.ticks[-1] * (BOTTOM - TOP)

    def path(self, times: Sequence[float], values: Sequence[float]) -> str:
        return " ".join(f"{self.x(times[index]):.1f},{self.y(value):.1f}" for index, value in thinned(values))

    def line(self, times: Sequence[float], values: Sequence[float], kind: str, title: str) -> None:
        self.parts.append(f'<polyline points="{self.path(times, values)}" class="{kind}"><title>{escape(title)}</title></polyline>')

    def area(self, times: Sequence[float], values: Sequence[float]) -> None:
        path = f"{self.x(times[0]):.1f},{BOTTOM} {self.path(times, values)} {self.x(times[-1]):.1f},{BOTTOM}"
        self.parts.append(f'<polygon points="{path}" class="live"><title>live</title></polygon>')

    def marks(self, times: Sequence[float]) -> None:
        """A green line under the samples that were judged."""
        for at in times:
            self.parts.append(f'<rect x="{self.x(at) - 1:.1f}" y="{BOTTOM + 1}" width="2" height="3" class="steady"/>')

    def text(self, label: str) -> str:
        return f'<svg viewBox="0 0 {WIDTH} {HEIGHT}" role="img" aria-label="{escape(label, quote=True)}">{"".join(self.parts)}</svg>'


def draw(shape: str, runs: Sequence[Tuple[Judgement, Watched]], colours: Dict[str, int]) -> str:
    runs = [run for run in runs if run[1].samples]
    if not runs:
        return "<p>no samples</p>"
    first = runs[0][1].samples
    times, most = [sample.seconds for sample in first], bounds(first)
    highest = max([*most, *(sample.resident for _, watched in runs for sample in watched.samples)])
    drawing = Drawing(max(watched.samples[-1].seconds for _, watched in runs), highest)
    drawing.area(times, [max(0, sample.live) for sample in first])
    drawing.line(times, most, "bound", "bound in steady state")
    for result, watched in reversed(runs):
        drawing.line([sample.seconds for sample in watched.samples], [float(sample.resident) for sample in watched.samples],
                     f"s{colours[result.allocator]}", result.allocator)
    chosen = steady_indexes(first)
    drawing.marks([times[index] for index in chosen[::max(1, len(chosen) // POINTS_MAX)]])
    return drawing.text(f"resident and live memory of {shape}")


def verdict_text(result: Judgement) -> str:
    kind, words = ("good", "kept") if result.kept else ("bad", "; ".join(result.broken))
    slope = f", slope {result.slope.value * 60 / MIB:+.2f} MiB a minute: {result.slope.verdict}" if result.slope else ""
    return (f'<p class="soft">{escape(result.allocator)}: live {result.live / MIB:.0f} MiB, RSS {result.resident / MIB:.0f} MiB, '
            f'{result.mappings} mappings{slope}. <b class="{kind}">{escape(words)}</b></p>')


def write_page(path: Path, seconds: int, runs: Sequence[Tuple[Judgement, Watched]]) -> None:
    shapes: Dict[str, List[Tuple[Judgement, Watched]]] = {}
    for run in runs:
        shapes.setdefault(run[0].shape, []).append(run)
    names = list(dict.fromkeys(result.allocator for result, _ in runs))
    colours = {name: (index + 1) % 10 for index, name in enumerate(names)}
    legend = "".join(f'<span><i class="i{colours[name]}"></i>{escape(name)}</span>' for name in names)
    cards = "".join(f'<div class="card"><h3>{escape(shape)}</h3>{draw(shape, entries, colours)}'
                    + "".join(verdict_text(result) for result, _ in entries) + "</div>" for shape, entries in shapes.items())
    style = (Path(heddle.__file__).parent / "page.css").read_text() + STYLE
    path.write_text(
        f'<!doctype html><html lang="en"><meta charset="utf-8"><meta name="viewport" content="width=device-width">'
        f"<title>Heddle: soak</title><style>{style}</style><main><h1>Soak</h1>"
        f'<p class="soft">{seconds} s each. Lines: resident bytes less those before the first block; blue area: live bytes that the '
        f"program asked for; dashed: 1.25 x live + 32 MiB, where live is the most of the last 2.5 s; green under the axis: the steady "
        f'state, which the bound is for.</p><div class="legend">{legend}</div><div class="cards">{cards}</div></main></html>\n')
