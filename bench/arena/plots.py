"""The plots of a run: densities as ridges, the tail, and the sweep of sizes."""

from runs import PAPER_SIZE, SIZES
from svg import Canvas, Log, short

# (colour, dash) by subject: mid tones that stand out on white and on black, dashes for those who do not see colours.
LOOKS = {
    "system": ("#7d8894", ""),
    "mimalloc": ("#d98324", ""),
    "heddle": ("#3a86c8", ""),
    "fixed": ("#2fa35c", ""),
    "growing": ("#2fa35c", "5 3"),
    "value": ("#2fa35c", "2 3"),
    "shared": ("#9561c9", ""),
    "weaver": ("#d15594", ""),
    "lock": ("#a89321", "5 3"),
}
# (file, what, how, state, touched, title)
DENSITIES = (
    ("arena-take", "take", "batch", "warm", False, "Taking 5 KiB: malloc or alloc"),
    ("arena-give", "give", "batch", "warm", False, "Giving back: free or release"),
    ("arena-round", "round", "batch", "warm", False, "One round: malloc + free, or point + alloc + release"),
    ("arena-round-filled", "round", "batch", "warm", True, "One round, the block filled by the program"),
    ("arena-take-cold", "take", "single", "cold", True, "Taking 5 KiB of fresh memory and filling it"),
)
ROW = 50


def share_text(value):
    return f"{value * 100:.3g} %"


def size_text(value):
    return f"{value / 1024:.3g} KiB" if value >= 1024 else f"{value:.0f} B"


def reading_text(series, about):
    ways = {"batch": f"each value is the mean of {series.each} operations in a row", "single": "each value is one operation"}
    states = {"warm": "memory used before", "cold": "memory never used before"}
    return f"{ways[series.how]}, {states[series.state]}; {series.count:,} values; {about['processor']}"


def thinned(points):
    """Without the points inside level stretches."""
    inner = [b for a, b, c in zip(points, points[1:], points[2:]) if not a[1] == b[1] == c[1]]
    return [points[0], *inner, points[-1]]


def write_density(results, subjects, about, what, how, state, touch, title):
    rows = [(s, results.get(s.name, s.operation(what), how=how, state=state, touch=touch)) for s in subjects]
    rows = [(s, series) for s, series in rows if series]
    if not rows:
        return None
    low = max(0.1, 0.6 * min(series.quantile(0.005) for _, series in rows))
    high = 1.5 * max(series.quantile(0.995) for _, series in rows)
    width, left, right, top = 860, 226, 722, 84
    bottom = top + ROW * len(rows) + 6
    picture = Canvas(
        width,
        bottom + 72,
        title,
        [reading_text(rows[0][1], about)],
        "; ".join(f"{s.title}: median {short(series.quantile(0.5))}, p99 {short(series.quantile(0.99))}" for s, series in rows),
    )
    scale = Log(low, high, left, right)
    picture.x_axis(scale, top - 6, bottom, "time of one operation (logarithmic)", short)
    picture.label(right + 14, top - 14, "median · peak", "soft small")
    for number, (subject, series) in enumerate(rows):
        base = top + ROW * (number + 1)
        curve = series.density(low, high)
        peak = max(height for _, height in curve) or 1.0
        color, dash = LOOKS[subject.name]
        points = thinned([(round(scale(value), 1), round(base - (ROW - 10) * height / peak, 1)) for value, height in curve])
        picture.area([(left, base), *points, (right, base)], color)
        picture.line(points, color, dash)
        picture.label(left - 12, base - 15, subject.title, "ink", "end")
        picture.label(left - 12, base - 1, series.op, "soft small", "end")
        picture.label(right + 14, base - 15, short(series.quantile(0.5)))
        picture.label(right + 14, base - 1, f"{peak:.3g} a decade", "soft small")
    note = "Height: probability density a decade, each curve scaled to its own peak, which stands at the right."
    picture.label(left, bottom + 60, note, "soft small")
    return picture.render()


def write_tail(results, subjects, about):
    """Share of the operations that take longer than a time: both axes logarithmic."""
    rows = [(s, results.get(s.name, s.operation("round"), how="single", touch=True)) for s in subjects]
    rows = [(s, series) for s, series in rows if series]
    if not rows:
        return None
    least = 1 / max(series.count for _, series in rows)
    low, high = 0.8 * min(series.quantile(0.001) for _, series in rows), 1.3 * max(series.most for _, series in rows)
    left, right, top, bottom = 90, 600, 72, 390
    picture = Canvas(
        860,
        bottom + 56,
        "How often a round takes longer",
        [f"{PAPER_SIZE // 1024} KiB, warm, filled; {reading_text(rows[0][1], about)}"],
        "; ".join(f"{s.title}: p99.9 {short(series.quantile(0.999))}, max {short(series.most)}" for s, series in rows),
    )
    x, y = Log(max(low, 1), high, left, right), Log(least, 1.0, bottom, top)
    picture.x_axis(x, top, bottom, "time of malloc + free, or of point + alloc + release (logarithmic)", short)
    picture.y_axis(y, left, right, "share of rounds that take longer", share_text)
    for subject, series in rows:
        points, before = [], 1.0
        for value, share in series.tail():
            points += [(x(value), y(max(before, least))), (x(value), y(max(share, least)))]
            before = share
        picture.line(points, *LOOKS[subject.name])
    picture.legend(right + 24, top + 10, [(s.title, *LOOKS[s.name]) for s, _ in rows])
    return picture.render()


def write_sweep(results, subjects, about):
    left, right, top, bottom = 90, 600, 72, 390
    lines = []
    for subject in subjects:
        found = [(size, results.get(subject.name, subject.operation("round"), size)) for size in SIZES]
        found = [(size, series.best) for size, series in found if series]
        if found:
            lines.append((subject, found))
    if not lines:
        return None
    times = [value for _, found in lines for _, value in found]
    picture = Canvas(
        860,
        bottom + 56,
        "A round by size",
        [f"malloc + free, or point + alloc + release; warm, batches of 100, least of {about['rounds']} runs; {about['processor']}"],
        "; ".join(f"{s.title}: {short(found[0][1])} at 16 B, {short(found[-1][1])} at 64 KiB" for s, found in lines),
    )
    x, y = Log(SIZES[0] * 0.8, SIZES[-1] * 1.25, left, right), Log(min(times) * 0.7, max(times) * 1.4, bottom, top)
    for size in SIZES:
        if size != PAPER_SIZE:
            picture.path([(x(size), top), (x(size), bottom)], "grid")
            picture.label(x(size), bottom + 17, size_text(size), "soft small", "middle")
    picture.path([(left, bottom), (right, bottom)], "axis")
    picture.label((left + right) / 2, bottom + 37, "size of the block (logarithmic)", "ink", "middle")
    picture.y_axis(y, left, right, "time of one round (logarithmic)", short)
    for subject, found in lines:
        picture.line([(x(size), y(value)) for size, value in found], *LOOKS[subject.name])
        for size, value in found:
            picture.dot(x(size), y(value), LOOKS[subject.name][0])
    picture.legend(right + 24, top + 10, [(s.title, *LOOKS[s.name]) for s, _ in lines])
    return picture.render()


def write_all(directory, results, subjects, about):
    """Write every plot that the run has figures for; yields the paths."""
    directory.mkdir(parents=True, exist_ok=True)
    pictures = {name: write_density(results, subjects, about, *rest) for name, *rest in DENSITIES}
    pictures["arena-tail"] = write_tail(results, subjects, about)
    pictures["arena-sweep"] = write_sweep(results, subjects, about)
    for name, picture in pictures.items():
        if picture:
            path = directory / f"{name}.svg"
            path.write_text(picture)
            yield path
