"""The figures as tables. No time stands alone: each table has the allocators' and the published scheme's beside it."""

from rich import box
from rich.table import Table

from runs import PAPER_SIZE, POOL_SIZE, SIZES

# ns: the published manager with its lock, batch-timed on one 2.5 GHz core; and what an unlocked operation may take.
BARS = {"alloc": 15.7, "point": 14.8, "release": 9.0, "unlocked": 2.0}
LOCKED, UNLOCKED = ("weaver", "shared"), ("fixed", "growing", "value")
GENERAL = ("take", "point", "give", "reset", "round")
HEADS = ("malloc / alloc", "point", "free / release", "reset", "malloc+free / point+alloc+release")


def ns(value):
    """Three significant digits."""
    if value < 9.995:
        return f"{value:.2f}"
    return f"{value:.1f}" if value < 99.95 else f"{value:,.0f}"


def state_text(state, touch):
    return {"warm": "warm", "cold": "cold (fresh memory)", "life": "whole life"}[state] + (", filled by the program" if touch else "")


def new_table(title, caption=""):
    return Table(title=title, title_justify="left", title_style="bold", caption=caption, caption_justify="left", box=box.SIMPLE_HEAD)


def batch_table(results, subjects, state, touch):
    """Least run and median run of each operation, ns; the last column against the system's malloc + free."""
    once = "reset: once, for all blocks, memory given back" if state == "cold" else ""
    table = new_table(f"{PAPER_SIZE} bytes, {state_text(state, touch)}: ns an operation, least run (median run)", once)
    table.add_column("")
    for head in HEADS:
        table.add_column(head, justify="right")
    table.add_column("against system", justify="right")
    base = round_of(results, subjects[0], state, touch)
    for subject in subjects:
        cells = []
        for general in GENERAL:
            series = results.get(subject.name, subject.operation(general), state=state, touch=touch)
            cells.append(f"{ns(series.best)} ({ns(series.median_run)})" if series else "")
        whole = round_of(results, subject, state, touch)
        if not cells[-1] and whole:
            cells[-1] = ns(whole)
        table.add_row(subject.title, *cells, f"{whole / base:.3f} x" if base and whole else "")
    return table


def round_of(results, subject, state, touch, size=PAPER_SIZE):
    """The round measured as one where it was, else the sum of its parts."""
    series = results.get(subject.name, subject.operation("round"), size, state=state, touch=touch)
    if series:
        return series.best
    names = ["take", "give"] + ([] if subject.is_heap else ["point"])
    parts = [results.get(subject.name, subject.operation(n), size, state=state, touch=touch) for n in names]
    return sum(p.best for p in parts) if all(parts) else None


def life_table(results, subjects):
    table = new_table(
        f"{PAPER_SIZE} bytes, whole life: ns a block",
        "from the first malloc to the last free, or from create to destroy, 64 MiB in a fresh process; least run (median run)",
    )
    for head in ("", "untouched", "filled by the program", "against system"):
        table.add_column(head, justify="left" if not head else "right")
    base = results.get(subjects[0].name, "life", state="life", touch=True)
    for subject in subjects:
        both = [results.get(subject.name, "life", state="life", touch=touch) for touch in (False, True)]
        table.add_row(subject.title, *(f"{ns(s.best)} ({ns(s.median_run)})" for s in both), f"{both[1].best / base.best:.3f} x")
    return table


def single_table(results, subjects, state, touch):
    """Each operation timed by itself: mean, deviation, percentiles."""
    step = results.clock("step_ns")
    table = new_table(
        f"{PAPER_SIZE} bytes, {state_text(state, touch)}: each operation by itself, ns",
        f"the counter steps by {ns(step)} ns: percentiles below that are shown as <{ns(step)}; the mean is not bound to it",
    )
    for head in ("", "operation", "mean", "deviation", "p50", "p99", "p99.9", "max"):
        table.add_column(head, justify="left" if head in ("", "operation") else "right")

    def percentile(series, share):
        value = series.quantile(share)
        return ns(value) if value >= step else f"<{ns(step)}"

    for subject in subjects:
        title = subject.title
        for general in GENERAL:
            series = results.get(subject.name, subject.operation(general), how="single", state=state, touch=touch)
            if series and series.count > 1000:
                quantiles = [percentile(series, share) for share in (0.5, 0.99, 0.999)]
                table.add_row(title, series.op, ns(series.mean), ns(series.deviation), *quantiles, ns(series.most))
                title = ""
        table.add_section()
    return table


def sweep_table(results, subjects, touch):
    table = new_table(
        f"sizes, {state_text('warm', touch)}: malloc+free or point+alloc+release, ns, least run",
        "in brackets: against the system's malloc+free of the same size",
    )
    table.add_column("")
    for size in SIZES:
        table.add_column(f"{size:,} B", justify="right")
    for subject in subjects:
        cells = []
        for size in SIZES:
            mine, base = (round_of(results, s, "warm", touch, size) for s in (subject, subjects[0]))
            cells.append(f"{ns(mine)} ({mine / base:.2f})" if mine else "")
        table.add_row(subject.title, *cells)
    return table


def pools_table(results, subjects):
    table = new_table(f"{POOL_SIZE} bytes, warm: pools beside malloc, ns, least run (median run)")
    for head in ("", "malloc / take", "free / give", "the pair", "against system", "the pair, filled", "against system"):
        table.add_column(head, justify="left" if not head else "right")
    bases = [round_of(results, subjects[0], "warm", touch, POOL_SIZE) for touch in (False, True)]
    for subject in subjects:
        if subject.program == "arena":
            continue
        parts = [results.get(subject.name, subject.operation(general), POOL_SIZE) for general in ("take", "give")]
        wholes = [results.get(subject.name, subject.operation("round"), POOL_SIZE, touch=touch) for touch in (False, True)]
        cells = [f"{ns(s.best)} ({ns(s.median_run)})" for s in parts + wholes]
        ratios = [f"{whole.best / base:.3f} x" for whole, base in zip(wholes, bases)]
        table.add_row(subject.title, *cells[:3], ratios[0], cells[3], ratios[1])
    return table


def bars(results, subjects):
    """(subject, operation, bar, measured, partner's name, partner's time) for each bar."""
    known = {s.name: s for s in subjects}
    rows = [(form, op, op, BARS[op]) for form in LOCKED for op in ("alloc", "point", "release")]
    rows += [(form, op, op, BARS["unlocked"]) for form in UNLOCKED for op in ("alloc", "point", "release")]
    rows += [("pool", "take", "malloc", BARS["unlocked"]), ("pool", "give", "free", BARS["unlocked"])]
    for name, operation, other, bar in rows:
        size, partner = (POOL_SIZE, "heddle") if name == "pool" else (PAPER_SIZE, "lock")
        mine, theirs = results.get(name, operation, size), results.get(partner, other, size)
        if mine and theirs:
            yield known[name], operation, bar, mine.best, f"{known[partner].title}: {other}", theirs.best


def bars_table(results, subjects):
    """Returns the table and how many bars were missed."""
    table = new_table(
        "the bars, ns: batch-timed, warm, least run",
        "Locked: what the published manager took on one 2.5 GHz core (15.7 alloc, 14.8 point, 9.0 trash). Its scheme, a mutex around a "
        "bump pointer, is measured in the same run, so that machines can be told from code. Unlocked: 2 ns.",
    )
    for head in ("", "operation", "measured", "bar", "", "partner in this run", "partner", "ratio"):
        table.add_column(head, justify="left" if head in ("", "operation", "partner in this run") else "right")
    missed = 0
    for subject, operation, bar, measured, partner, theirs in bars(results, subjects):
        good = measured < bar
        missed += not good
        verdict = "[green]met[/green]" if good else "[red]missed[/red]"
        table.add_row(subject.title, operation, ns(measured), f"{bar:.1f}", verdict, partner, ns(theirs), f"{measured / theirs:.2f} x")
    return table, missed


def markdown(results, subjects, about):
    """The summary as a table for docs/guide/arenas.md: ns, and in brackets times the system's malloc + free."""
    heads = ["", "take", "point", "give back", "round", "round, filled", "whole life, filled"]
    lines = ["| " + " | ".join(heads) + " |", "|---" + "|---:" * (len(heads) - 1) + "|"]
    bases = [round_of(results, subjects[0], "warm", touch) for touch in (False, True)]
    life_base = results.get(subjects[0].name, "life", state="life", touch=True).best
    for subject in subjects:
        parts = [results.get(subject.name, subject.operation(general)) for general in ("take", "point", "give")]
        cells = [ns(part.best) if part else "" for part in parts]
        for touch in (False, True):
            whole = round_of(results, subject, "warm", touch)
            cells.append(f"{ns(whole)} ({whole / bases[touch]:.2f})")
        life = results.get(subject.name, "life", state="life", touch=True).best
        lines.append("| " + " | ".join([subject.title, *cells, f"{ns(life)} ({life / life_base:.2f})"]) + " |")
    lines += ["", f"{about['processor']}, least of {about['rounds']} interleaved rounds of {about['operations']:,} operations; ns."]
    return "\n".join(lines) + "\n"


def show(console, results, subjects, about):
    """Print everything; returns how many bars were missed."""
    console.print(pools_table(results, subjects))
    whole, subjects = subjects, [s for s in subjects if s.program != "pools"]
    for state in ("warm", "cold"):
        for touch in (False, True):
            console.print(batch_table(results, subjects, state, touch))
    console.print(life_table(results, subjects))
    for touch in (False, True):
        console.print(sweep_table(results, subjects, touch))
    for state, touch in (("warm", False), ("warm", True), ("cold", True)):
        console.print(single_table(results, subjects, state, touch))
    table, missed = bars_table(results, whole)
    if table.row_count:
        console.print(table)
    console.print(
        f"{about['processor']}, {about['rounds']} interleaved rounds in {about['seconds']} s. Reading the clock twice costs "
        f"{results.clock('cost_ns'):.1f} ns (deviation {results.clock('deviation_ns'):.1f}, afterwards "
        f"{results.clock('cost_after_ns'):.1f}), taken off every figure: 1/100 of it in a batch; it steps by "
        f"{results.clock('step_ns'):.1f} ns.",
        highlight=False,
    )
    return missed
