"""Drawing with SVG: colors, round ticks, logarithmic axes, and a picture that is a file of its own."""

import html
import math

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


def text(value):
    return html.escape(str(value), quote=True)


def colors_of(names):
    return {n: COLORS[i % len(COLORS)] for i, n in enumerate(names)}


def picture(width, height, inside, label):
    """A drawing as a file of its own: brings its colors, light and dark."""
    style = (
        "text{fill:#1b1f24;font:12px system-ui,sans-serif}.soft{fill:#667}.axis{stroke:#d9dde3}.ring{stroke:#fff;stroke-width:1.5}"
        "@media(prefers-color-scheme:dark){text{fill:#e6e9ee}.soft{fill:#9aa4b2}.axis{stroke:#3a424c}.ring{stroke:#0d1117}}"
    )
    head = f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" role="img"'
    return f'{head} aria-label="{text(label)}"><style>{style}</style>{inside}</svg>\n'


def ticks(low, high):
    """Round values between low and high on a log axis: the coarsest set that gives four, and never more than eight."""
    inside = []
    for mantissas in ((1,), (1, 3), (1, 2, 5), (1, 1.5, 2, 3, 5, 7), (1, 1.2, 1.5, 2, 2.5, 3, 4, 5, 6, 7, 8, 9)):
        inside = [m * 10**e for e in range(-6, 10) for m in mantissas if low <= m * 10**e <= high]
        if len(inside) >= 4:
            break
    return inside[:: max(1, math.ceil(len(inside) / 8))]


class LogAxes:
    """Maps values to a box, both axes logarithmic, and draws the frame."""

    def __init__(self, xs, ys, width, height, log_floor=1.08, left=56):
        self.width, self.height = width, height
        self.left, self.right, self.top, self.bottom = left, width - 20, 20, height - 44
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

    def verticals(self, label, x_ticks=None, at_top=False):
        out = []
        for tick in x_ticks or ticks(*self.x_range):
            out.append(
                f'<line class="axis" x1="{self.x(tick):.1f}" x2="{self.x(tick):.1f}" y1="{self.top}" y2="{self.bottom}"/>'
                f'<text class="soft" x="{self.x(tick):.1f}" y="{self.bottom + 15}" text-anchor="middle">{tick:g}</text>'
            )
            if at_top:
                out.append(f'<text class="soft" x="{self.x(tick):.1f}" y="{self.top - 6}" text-anchor="middle">{tick:g}</text>')
        return "".join(out) + f'<text x="{self.right}" y="{self.height - 8}" text-anchor="end">{text(label)}</text>'

    def frame(self, x_name, y_name, x_ticks=None):
        out = [self.verticals(x_name, x_ticks)]
        for tick in ticks(*self.y_range):
            out.append(
                f'<line class="axis" x1="{self.left}" x2="{self.right}" y1="{self.y(tick):.1f}" y2="{self.y(tick):.1f}"/>'
                f'<text class="soft" x="{self.left - 6}" y="{self.y(tick) + 4:.1f}" text-anchor="end">{tick:g}</text>'
            )
        return "".join(out) + f'<text x="4" y="{self.top - 8}">{text(y_name)}</text>'


def legend(names, colors, top, width, left=34):
    """Colors and names in lines below a drawing; returns the text and how far down it goes."""
    out, at, y = [], left, top
    for name in names:
        room = 30 + 7.2 * len(name)
        if at + room > width:
            at, y = left, y + 18
        swatch = f'<rect x="{at:.0f}" y="{y - 9}" width="10" height="10" rx="2" fill="{colors[name]}"/>'
        out.append(f'{swatch}<text x="{at + 14:.0f}" y="{y}">{text(name)}</text>')
        at += room
    return "".join(out), y


LETTER, LINE = 7.2, 14  # what a letter and a line of text take, about


def overlap(one, other):
    """The area that two boxes (left, top, right, bottom) have in common."""
    width = min(one[2], other[2]) - max(one[0], other[0])
    height = min(one[3], other[3]) - max(one[1], other[1])
    return max(width, 0) * max(height, 0)


def crowding(box, frame, taken):
    """How much of a box lies outside of the frame, and on what is taken."""
    return round(overlap(box, box) - overlap(box, frame) + sum(overlap(box, other) for other in taken))


def label_spots(spots, frame, radius=9):
    """Where the names of spots (name, x, y) stand: for each x, y and text-anchor. Beside its spot, or below or above it, where it covers
    least of the other spots and of the names before it, and where least of it lies outside of the frame's box."""
    taken = [(x - radius, y - radius, x + radius, y + radius) for _, x, y in spots]
    placed = {}
    for name, x, y in spots:
        wide = LETTER * len(name)
        before = {"start": 0, "end": wide, "middle": wide / 2}  # how much of a name stands left of its x
        places = [(x + 13, y + 4, "start"), (x - 13, y + 4, "end"), (x, y + 23, "middle"), (x, y - 13, "middle")]
        boxes = {(at, base, how): (at - before[how], base - LINE + 3, at - before[how] + wide, base + 3) for at, base, how in places}
        costs = {place: crowding(box, frame, taken) for place, box in boxes.items()}
        placed[name] = min(costs, key=costs.get)
        taken.append(boxes[placed[name]])
    return placed
