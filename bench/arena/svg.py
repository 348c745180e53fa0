"""A small writer of plots as SVG: axes with units, a legend, colours that read on light and dark pages."""

import html
import math

STYLE = """
.paper{fill:#ffffff}.ink{fill:#1c2128}.soft{fill:#5c6773}
.grid{stroke:#dde2e8;stroke-width:1;fill:none}.axis{stroke:#8a949f;stroke-width:1.2;fill:none}
text{font:12px system-ui,-apple-system,'Segoe UI',Helvetica,Arial,sans-serif}
.title{font-size:16px;font-weight:600}.small{font-size:11px}
.line{fill:none;stroke-width:2;stroke-linejoin:round}.area{fill-opacity:.22;stroke:none}
@media(prefers-color-scheme:dark){.paper{fill:#14181d}.ink{fill:#e6eaf0}.soft{fill:#9aa6b3}.grid{stroke:#2a313a}.axis{stroke:#66717e}}
"""


def text(value):
    return html.escape(str(value), quote=True)


def short(value):
    """A figure with its unit, from nanoseconds."""
    for unit, scale in (("ns", 1), ("µs", 1e3), ("ms", 1e6), ("s", 1e9)):
        if value < 999.5 * scale or unit == "s":
            return f"{value / scale:.3g} {unit}"
    return ""


class Log:
    """Maps a range of values to a range of pixels, logarithmically."""

    def __init__(self, low, high, start, end):
        self.low, self.high, self.start, self.end = low, high, start, end

    def __call__(self, value):
        value = min(max(value, self.low), self.high)
        return self.start + (self.end - self.start) * math.log(value / self.low) / math.log(self.high / self.low)

    def ticks(self):
        """(value, whether it gets a label): 1, 2 and 5 of each decade where there is room, else powers of ten."""
        decades = math.log10(self.high / self.low)
        labelled = (1, 2, 5) if decades <= 4 else (1,)
        for exponent in range(math.floor(math.log10(self.low)), math.ceil(math.log10(self.high)) + 1):
            for digit in (1, 2, 5):
                value = digit * 10.0**exponent
                if self.low * 0.999 <= value <= self.high * 1.001:
                    yield value, digit in labelled


class Canvas:
    """Collects the elements of one picture."""

    def __init__(self, width, height, title, subtitle, description):
        self.width, self.height = width, height
        self.parts = [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" width="{width}" height="{height}" role="img">',
            f"<title>{text(title)}</title><desc>{text(description)}</desc><style>{STYLE}</style>",
            f'<rect class="paper" width="{width}" height="{height}" rx="6"/>',
        ]
        self.label(20, 27, title, "ink title")
        for number, line in enumerate(subtitle):
            self.label(20, 46 + 16 * number, line, "soft")

    def label(self, x, y, words, kind="ink", anchor="start", turn=None):
        turned = f' transform="rotate({turn} {x:.1f} {y:.1f})"' if turn is not None else ""
        self.parts.append(f'<text x="{x:.1f}" y="{y:.1f}" class="{kind}" text-anchor="{anchor}"{turned}>{text(words)}</text>')

    def path(self, points, kind, style=""):
        way = "M" + "L".join(f"{round(x, 1):g} {round(y, 1):g}" for x, y in points)
        self.parts.append(f'<path class="{kind}" d="{way}"{style}/>')

    def line(self, points, color, dash=""):
        dashed = f' stroke-dasharray="{dash}"' if dash else ""
        self.path(points, "line", f' stroke="{color}"{dashed}')

    def area(self, points, color):
        self.path(points, "area", f' fill="{color}"')

    def dot(self, x, y, color):
        self.parts.append(f'<circle cx="{x:.1f}" cy="{y:.1f}" r="3.2" fill="{color}"/>')

    def x_axis(self, scale, top, bottom, name, form):
        for value, labelled in scale.ticks():
            x = scale(value)
            self.path([(x, top), (x, bottom)], "grid")
            if labelled:
                self.label(x, bottom + 17, form(value), "soft small", "middle")
        self.path([(scale.start, bottom), (scale.end, bottom)], "axis")
        self.label((scale.start + scale.end) / 2, bottom + 37, name, "ink", "middle")

    def y_axis(self, scale, left, right, name, form):
        for value, labelled in scale.ticks():
            y = scale(value)
            self.path([(left, y), (right, y)], "grid")
            if labelled:
                self.label(left - 7, y + 4, form(value), "soft small", "end")
        self.path([(left, scale.start), (left, scale.end)], "axis")
        self.label(left - 48, (scale.start + scale.end) / 2, name, "ink", "middle", -90)

    def legend(self, x, y, entries):
        """entries: (name, color, dash) from top to bottom."""
        for number, (name, color, dash) in enumerate(entries):
            at = y + 18 * number
            self.line([(x, at - 4), (x + 22, at - 4)], color, dash)
            self.label(x + 29, at, name)

    def render(self):
        return "\n".join([*self.parts, "</svg>"]) + "\n"
