"""Small charts as inline SVG. Colours are CSS classes, so that one page serves light and dark.

The drawings are 360 units wide, so that their text stays readable on a phone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from html import escape
from typing import List, Optional, Sequence, Tuple

WIDTH = 360
CHARACTER_WIDTH = 6.6


@dataclass(frozen=True)
class Bar:
    label: str
    value: float
    low: Optional[float]
    high: Optional[float]
    text: str
    colour: int


@dataclass(frozen=True)
class Series:
    """Points of one allocator; `marker` is its median point in a scatter."""

    label: str
    points: Sequence[Tuple[float, float]]
    colour: int
    marker: Optional[Tuple[float, float]] = None


@dataclass(frozen=True)
class Axis:
    """One axis: its title with the unit, and the divisor from base units."""

    title: str
    divisor: float = 1.0


def nice_ticks(low: float, high: float, wanted: int = 5) -> List[float]:
    """Round numbers from at or below `low` to at or above `high`."""
    if not (math.isfinite(low) and math.isfinite(high)) or high < low:
        raise ValueError("bad range")
    if high == low:
        high = low + (abs(low) or 1.0)
    raw = (high - low) / max(1, wanted - 1)
    power = 10.0 ** math.floor(math.log10(raw))
    step = next(factor * power for factor in (1, 2, 2.5, 5, 10) if factor * power >= raw * 0.999)
    first, last = math.floor(low / step + 1e-9), math.ceil(high / step - 1e-9)
    return [index * step for index in range(first, last + 1)]


def number(value: float) -> str:
    return f"{value:.4g}" if abs(value) < 1e4 else f"{value:.0f}"


def _text(x: float, y: float, content: str, kind: str = "", anchor: str = "start") -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}">{escape(content)}</text>'


def _line(x1: float, y1: float, x2: float, y2: float, kind: str) -> str:
    return f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" class="{kind}"/>'


def _drawing(height: float, label: str, parts: Sequence[str]) -> str:
    return (f'<svg viewBox="0 0 {WIDTH} {height:.0f}" role="img" aria-label="{escape(label, quote=True)}">'
            + "".join(parts) + "</svg>")


def bars(label: str, entries: Sequence[Bar]) -> str:
    """Horizontal bars from zero with interval whiskers, shortest label column that fits."""
    row, bar_height = 30, 16
    left = 12 + CHARACTER_WIDTH * max(len(entry.label) for entry in entries)
    right = 14 + CHARACTER_WIDTH * max(len(entry.text) for entry in entries)
    longest = max(max(entry.value, _finite(entry.high)) for entry in entries) or 1.0
    scale = (WIDTH - left - right) / longest
    parts = []
    for index, entry in enumerate(entries):
        top = index * row + 7
        middle = top + bar_height / 2
        end = left + entry.value * scale
        parts.append(_text(left - 8, middle + 4, entry.label, "label", "end"))
        parts.append(f'<rect x="{left:.1f}" y="{top}" width="{max(1.0, end - left):.1f}" height="{bar_height}" rx="3" '
                     f'class="c{entry.colour}"><title>{escape(entry.label)}: {escape(entry.text)}</title></rect>')
        if entry.low is not None and entry.high is not None:
            low, high = left + max(0.0, entry.low) * scale, left + _finite(entry.high) * scale
            parts += [_line(low, middle, high, middle, "whisker"), _line(low, middle - 4, low, middle + 4, "whisker"),
                      _line(high, middle - 4, high, middle + 4, "whisker")]
            end = max(end, high)
        parts.append(_text(end + 8, middle + 4, entry.text, "value"))
    return _drawing(len(entries) * row + 4, label, parts)


def _finite(value: Optional[float]) -> float:
    return value if value is not None and math.isfinite(value) else 0.0


class _Frame:
    """A plot area with ticks, and the mapping from values to it."""

    def __init__(self, points: Sequence[Tuple[float, float]], x_axis: Axis, y_axis: Axis, whole_x: bool, height: int):
        self.x_axis, self.y_axis, self.height = x_axis, y_axis, height
        xs = [x / x_axis.divisor for x, _ in points]
        ys = [y / y_axis.divisor for _, y in points]
        self.x_ticks = self._rounds(xs) if whole_x else nice_ticks(*self._padded(xs))
        self.y_ticks = nice_ticks(*self._padded(ys))
        self.left = 16 + CHARACTER_WIDTH * max(len(number(tick)) for tick in self.y_ticks)
        self.right, self.top, self.bottom = WIDTH - 16, 26, height - 40

    @staticmethod
    def _padded(values: Sequence[float]) -> Tuple[float, float]:
        low, high = min(values), max(values)
        pad = (high - low) * 0.06 or abs(high) * 0.05 or 1.0
        return max(0.0, low - pad), high + pad

    @staticmethod
    def _rounds(values: Sequence[float]) -> List[float]:
        first, last = int(min(values)), int(max(values))
        step = max(1, math.ceil((last - first) / 8))
        return [float(tick) for tick in range(first, max(last, first + 1) + step, step)]

    def x(self, value: float) -> float:
        low, high = self.x_ticks[0], self.x_ticks[-1]
        return self.left + (value / self.x_axis.divisor - low) / (high - low) * (self.right - self.left)

    def y(self, value: float) -> float:
        low, high = self.y_ticks[0], self.y_ticks[-1]
        return self.bottom - (value / self.y_axis.divisor - low) / (high - low) * (self.bottom - self.top)

    def drawn(self) -> List[str]:
        parts = []
        for tick in self.x_ticks:
            at = self.x(tick * self.x_axis.divisor)
            parts += [_line(at, self.top, at, self.bottom, "grid"),
                      _text(at, self.bottom + 16, number(tick), "tick", "middle")]
        for tick in self.y_ticks:
            at = self.y(tick * self.y_axis.divisor)
            parts += [_line(self.left, at, self.right, at, "grid"),
                      _text(self.left - 6, at + 4, number(tick), "tick", "end")]
        parts.append(_text((self.left + self.right) / 2, self.height - 6, self.x_axis.title, "axis", "middle"))
        parts.append(_text(4, 14, self.y_axis.title, "axis"))
        return parts


def scatter(label: str, series: Sequence[Series], x_axis: Axis, y_axis: Axis) -> str:
    """Every run a faint dot, every median a labelled one."""
    frame = _Frame([point for entry in series for point in entry.points], x_axis, y_axis, False, 320)
    parts = frame.drawn()
    for entry in series:
        for x, y in entry.points:
            parts.append(f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="3" class="c{entry.colour} faint"/>')
    taken: List[Tuple[float, float]] = []
    for entry in series:
        if entry.marker is None:
            continue
        x, y = frame.x(entry.marker[0]), frame.y(entry.marker[1])
        parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="6" class="c{entry.colour} ring">'
                     f"<title>{escape(entry.label)}</title></circle>")
        near_edge = x + 12 + len(entry.label) * CHARACTER_WIDTH > WIDTH - 2
        at = _free_height(taken, x, y + 4, frame)
        parts.append(_text(x - 10 if near_edge else x + 10, at, entry.label, "label", "end" if near_edge else "start"))
    return _drawing(frame.height, label, parts)


def _free_height(taken: List[Tuple[float, float]], x: float, y: float, frame: _Frame) -> float:
    """The nearest height at which a label does not cover another one."""
    for shift in (0, -13, 13, -26, 26, -39, 39):
        at = y + shift
        inside = frame.top < at < frame.bottom
        if inside and all(abs(at - other) >= 12 or abs(x - other_x) > 90 for other_x, other in taken):
            taken.append((x, at))
            return at
    taken.append((x, y))
    return y


def lines(label: str, series: Sequence[Series], x_axis: Axis, y_axis: Axis) -> str:
    """One line an allocator over the rounds."""
    frame = _Frame([point for entry in series for point in entry.points], x_axis, y_axis, True, 240)
    parts = frame.drawn()
    for entry in series:
        path = " ".join(f"{frame.x(x):.1f},{frame.y(y):.1f}" for x, y in entry.points)
        parts.append(f'<polyline points="{path}" class="s{entry.colour}">'
                     f"<title>{escape(entry.label)}</title></polyline>")
        for x, y in entry.points:
            parts.append(f'<circle cx="{frame.x(x):.1f}" cy="{frame.y(y):.1f}" r="2.6" class="c{entry.colour}">'
                         f"<title>{escape(entry.label)}, round {x:.0f}</title></circle>")
    return _drawing(frame.height, label, parts)
