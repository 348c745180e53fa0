"""Tables on the terminal and in Markdown. Every figure stands beside its interleaved partners."""

import re

from rich.table import Table
from rich.text import Text

from .figures import MEANS
from .measure import CONTROL


MARKDOWN_ROWS = 10


def seconds(value):
    return "-" if value is None else f"{value * 1e3:.1f} ms" if value < 1 else f"{value:.2f} s"


def mib(value):
    return "-" if value is None else f"{value / 1024:.1f}"


def times(value):
    return "-" if value is None else f"{value:.2f}"


def colored(value, good=1.0, bad=1.05):
    style = "" if value is None else "green" if value <= good else "red" if value > bad else "yellow"
    return Text(times(value), style=style)


def figure(results, row, name, what):
    """The least of a row's figures, with its unit."""
    value = results.least(row.name, name, what)
    return seconds(value) if what == "cpu" else "-" if value is None else f"{value:.2f} {results.unit_of(row.name)}"


def short_version(version):
    """Without what only a bug report needs: the hash of a commit."""
    return re.sub(r"[+-][^ )]*[0-9a-f]{7,}", "", version)


def ratio_cell(results, row, name, what):
    return colored(results.ratio(row.name, name, results.baseline, what))


def row_table(results, row):
    what = results.time_of(row.name)
    table = Table(title=row.name, title_justify="left", title_style="bold")
    columns = [
        "allocator",
        "CPU min",
        "median",
        f"/{results.baseline}",
        "wall",
        "peak MiB",
        "median",
        f"/{results.baseline}",
        "faults",
    ]
    if what == "figure":
        columns += ["figure", f"/{results.baseline}"]
    for name in columns:
        table.add_column(name, justify="left" if name == "allocator" else "right")
    order = sorted(results.allocators, key=lambda n: results.least(row.name, n, what) or float("inf"))
    for name in order:
        if not results.samples[row.name][name]:
            table.add_row(name, "failed")
            continue
        cells = [
            name,
            seconds(results.least(row.name, name, "cpu")),
            seconds(results.median(row.name, name, "cpu")),
            ratio_cell(results, row, name, "cpu"),
            seconds(results.least(row.name, name, "wall")),
            mib(results.least(row.name, name, "rss_kib")),
            mib(results.median(row.name, name, "rss_kib")),
            ratio_cell(results, row, name, "rss_kib"),
            str(results.least(row.name, name, "faults")),
        ]
        if what == "figure":
            cells += [figure(results, row, name, what), ratio_cell(results, row, name, "figure")]
        table.add_row(*cells, style="bold" if name == results.subject else "")
    return table


def summary_cells(results, row):
    what, base, subject = results.time_of(row.name), results.baseline, results.subject
    to_best, best = results.against_best(row.name, what)
    rss_to_best, rss_best = results.against_best(row.name, "rss_kib")
    cells = [
        row.name,
        figure(results, row, subject, what),
        times(results.ratio(row.name, subject, base, what)),
        times(to_best),
        best or "-",
        mib(results.least(row.name, subject, "rss_kib")),
        times(results.ratio(row.name, subject, base, "rss_kib")),
        times(rss_to_best),
        rss_best or "-",
    ]
    if CONTROL in results.allocators:
        cells += [times(results.ratio(row.name, CONTROL, subject, of)) for of in (what, "rss_kib")]
    return cells


def summary_heads(results):
    base = results.baseline
    copy = ["copy: time", "peak"] if CONTROL in results.allocators else []
    return ["workload", "time", f"/{base}", "/best", "best", "peak MiB", f"/{base}", "/best", "smallest", *copy]


def summary_table(results):
    table = Table(title=f"{results.subject}, worst rows first", title_justify="left", title_style="bold")
    for i, name in enumerate(summary_heads(results)):
        table.add_column(name, justify="left" if i in (0, 4, 8) else "right")
    for row in results.worst_first():
        cells = summary_cells(results, row)
        for i in (2, 3, 6, 7):
            cells[i] = colored(None if cells[i] == "-" else float(cells[i]))
        table.add_row(*cells)
    return table


def shape_lines(results, most=12):
    """What the worst of the random shapes are."""
    lines = []
    for row in [row for row in results.worst_first() if row.family in ("shape", "longshape")][:most]:
        runs = results.samples[row.name].get(results.subject)
        if runs:
            lines.append(f"{row.name}: " + runs[0].extra.get("shape", "").replace(",", ", ").replace("_", " "))
    return lines


def geomean_rows(results, *but):
    """Of all allocators, but for these."""
    names = [name for name in results.allocators if name not in but]
    return sorted(map(results.means_of, names), key=lambda m: m.cpu or float("inf"))


def geomean_table(results):
    table = Table(
        title=f"Geometric means against {results.baseline} (minimum of the rounds, and median)", title_justify="left", title_style="bold"
    )
    for i, name in enumerate(["allocator", "version", "CPU", "rows", "peak RSS", "rows", "CPU, median", "RSS, median"]):
        table.add_column(name, justify="left" if i < 2 else "right")
    for m in geomean_rows(results):
        cells = [times(m.cpu), str(m.cpu_rows), times(m.rss), str(m.rss_rows), times(m.median_cpu), times(m.median_rss)]
        table.add_row(m.name, short_version(m.version)[:48], *cells, style="bold" if m.name == results.subject else "")
    return table


def families_of(rows):
    families = {}
    for row in rows:
        families.setdefault(row.family, []).append(row)
    return families


def scaling_table(results):
    """Wall time with one thread, and with more against it. Each thread does the same work: up to the cores 1 is perfect."""
    threads = sorted({row.threads for row in results.rows})
    table = Table(title="Scaling: wall time against that of one thread", title_justify="left", title_style="bold")
    for i, name in enumerate(["workload", "allocator", "1 thread"] + [f"{n} threads" for n in threads[1:]]):
        table.add_column(name, justify="left" if i < 2 else "right")
    for family, members in families_of(results.rows).items():
        for name in results.allocators:
            wall = {row.threads: results.least(row.name, name, "wall") for row in members}
            alone = wall.get(1)
            cells = [times(wall[n] / alone if alone and wall.get(n) else None) for n in threads[1:]]
            table.add_row(family, name, seconds(alone), *cells, style="bold" if name == results.subject else "")
        table.add_section()
    return table


def idle_table(results, rows):
    table = Table(
        title="Memory returned (MiB above the start; idle after the last free)", title_justify="left", title_style="bold"
    )
    for i, name in enumerate(
        [
            "burst",
            "allocator",
            "full",
            "after 2 s",
            "64 KiB pages live",
            "kept?",
            "after 10 s",
            "OS pages live",
            "kept?",
            "idle CPU ms",
        ]
    ):
        table.add_column(name, justify="left" if i < 2 else "right")
    for row in rows:
        for name in results.allocators:
            for sample in results.samples[row.name][name]:
                e = sample.extra
                cells = [mib(int(e[k])) for k in ("full_kib", "rss2_kib", "unit_kib")] + [e["promise2"]]
                cells += [mib(int(e[k])) for k in ("rss10_kib", "os_kib")] + [e["promise10"], e["idle_cpu_ms"]]
                table.add_row(row.name.removeprefix("burst/"), name, *cells, style="bold" if name == results.subject else "")
        table.add_section()
    return table


def hourly_table(results, rows):
    table = Table(title="Months in miniature: 15 cycles of burst and idle", title_justify="left", title_style="bold")
    heads = ["cycles", "allocator", "busy s", "RSS MiB, 2nd round", "3rd round", "KiB a cycle", "flat?", "wake-ups an idle phase"]
    for i, name in enumerate(heads + ["asleep after s", "wake-ups then", "quiet?"]):
        table.add_column(name, justify="left" if i < 2 else "right")
    for row in rows:
        for name in results.allocators:
            for sample in results.samples[row.name][name]:
                e = sample.extra
                cells = [e["seconds"][:5], mib(int(e["first_kib"])), mib(int(e["last_kib"])), e["slope_kib"], e["flat"], e["idle_wakes"]]
                cells += ["never" if e["quiet_after_s"] == "-1.0" else e["quiet_after_s"], e["quiet_wakes"], e["quiet"]]
                table.add_row(f"t{row.threads}", name, *cells, style="bold" if name == results.subject else "")
        table.add_section()
    return table


def bold(words, yes):
    return f"**{words}**" if yes else words


def markdown(results, rounds, how):
    """The section that a README carries: means, then the rows that lose most."""
    means = geomean_rows(results, CONTROL)
    best = {w: min((getattr(m, w) for m in means if getattr(m, w) is not None), default=None) for w in MEANS}
    lines = [
        f"Geometric means against {results.baseline} over {len(results.rows)} rows, by the minimum and by the median of {rounds} "
        f"interleaved rounds{f', {len(results.failures)} failures' if results.failures else ''}. To reproduce: `{how}`.",
        "",
        "| allocator | version | CPU | peak RSS | CPU, median | RSS, median |",
        "|---|---|---|---|---|---|",
    ]
    for m in means:
        cells = [bold(times(getattr(m, w)), getattr(m, w) == best[w]) for w in MEANS]
        lines.append("| " + " | ".join([bold(m.name, m.name == results.subject), short_version(m.version), *cells]) + " |")
    if CONTROL in results.allocators:
        copy = results.means_of(CONTROL)
        lines += ["", f"A copy of {results.subject} in the same rounds: {', '.join(times(getattr(copy, w)) for w in MEANS)}."]
    if results.subject in results.allocators:
        heads = summary_heads(results)
        lines += ["", f"The {min(MARKDOWN_ROWS, len(results.rows))} worst rows of {results.subject} against the best peer of each:", ""]
        lines += ["| " + " | ".join(heads) + " |", "|---" * len(heads) + "|"]
        lines += ["| " + " | ".join(summary_cells(results, row)) + " |" for row in results.worst_first()[:MARKDOWN_ROWS]]
    lines += [""] * bool(results.failures) + [f"- failed: {failure}" for failure in results.failures]
    return "\n".join(lines) + "\n"
