"""The table at the end, and the words for what went wrong.

SPDX-License-Identifier: MIT
"""
from rich.table import Table

STYLES = {"equal": "green", "skipped": "yellow"}


def differences(control, ours):
    """Sentences: which parts of two results are not the same."""
    found = []
    for name in sorted(control.keys() | ours.keys()):
        left, right = control.get(name), ours.get(name)
        if left != right:
            found.append(f"{name}: {short(left)} with the system's malloc, {short(right)} here")
    return found


def short(value, most=160):
    text = repr(value)
    return text if len(text) <= most else f"{text[: most // 2]} ... {text[-most // 2 :]}"


def judged(control, ours):
    """(verdict, sentence) of a run beside its control."""
    if ours["verdict"] != "done":
        kind, _, rest = ours["verdict"].partition(": ")
        return kind, rest
    different = differences(control["result"], ours["result"])
    return ("differs", "; ".join(different[:8])) if different else ("equal", "")


def mib(run):
    return f"{run['peak_kib'] / 1024:,.0f}"


def table_of(rows):
    """rows: dictionaries with program, options, verdict, why, control and ours (runs, or None where there was none)."""
    table = Table(title="Real programs on the system's malloc and on Heddle")
    for title, side in (("program", "left"), ("HEDDLE", "left"), ("result", "left"), ("wall s", "right"), ("Heddle", "right"),
                        ("peak MiB", "right"), ("Heddle", "right"), ("proofs", "right"), ("left", "left")):
        table.add_column(title, justify=side, no_wrap=title in ("program", "HEDDLE"))
    for row in rows:
        control, ours = row["control"], row["ours"]
        style = STYLES.get(row["verdict"], "bold red")
        figures = ["", "", "", "", "", ""]
        if control and "wall" in control:
            figures[0], figures[2] = f"{control['wall']:.1f}", mib(control)
        if ours and "wall" in ours:
            figures[1], figures[3], figures[4] = f"{ours['wall']:.1f}", mib(ours), str(ours["proofs"])
            figures[5] = " ".join(ours["left"])
        table.add_row(row["program"], row["options"] or "-", f"[{style}]{row['verdict']}[/]", *figures)
    return table
