#!/usr/bin/env python3
"""Judge coverage: read what gcovr found, strike the argued exclusions, print a table file by file.

usage: coverage_report.py FOUND.json EXCLUSIONS.toml --source DIR [--struck OUT.json]

Ends with status 1 if a line or a branch that nothing excludes was not reached, and if an exclusion is wrong: it matches no line, or
more than one, or what it excludes was reached after all. An exclusion names a file and a function, or lines by their whole text (line
numbers rot), and a reason:

    [[exclude]]
    file = "src/core/space.c"
    function = "init_reserved"            the whole function, or where the lines are looked for
    lines = ["if (a == NULL) return;"]    these lines (the unreached one of two that are equal); without it the whole function
    branches = 1                          each line is reached, and so many of its branches are not; without it the line is not
    chance = true                         may be reached or not, by the moments of threads; not an error if it is
    reason = "why no test can reach it"
"""

import json
import sys
import tomllib
from collections import namedtuple
from pathlib import Path

import click
from rich.console import Console
from rich.table import Table

KEYS = {"file", "function", "lines", "branches", "chance", "reason"}
Line = namedtuple("Line", "number text function count branches entries")


class Source:
    """One source file: its lines with code, as gcovr counted them."""

    def __init__(self, name, path, found):
        texts = path.read_text().splitlines()
        self.name = name
        self.lines = []
        self.struck = {}  # line number: branches struck from it, or None for all of the line
        by_number = {}
        for entry in found["lines"]:
            by_number.setdefault(entry["line_number"], []).append(entry)
        for number, entries in sorted(by_number.items()):
            branches = merge_branches(entries)
            count = sum(entry["count"] for entry in entries)
            function = entries[0].get("function_name", "")
            self.lines.append(Line(number, texts[number - 1].strip(), function, count, branches, entries))

    def strike(self, line, branches):
        if branches is None or self.struck.get(line.number, 0) is None:
            self.struck[line.number] = None
        else:
            self.struck[line.number] = self.struck.get(line.number, 0) + branches

    def gaps(self):
        """(line, what) of everything unreached that is not struck."""
        for line in self.lines:
            struck = self.struck.get(line.number, 0)
            unreached = line.branches.count(0)
            if struck is None:
                continue
            if line.count == 0:
                yield line, "not reached"
            elif unreached > struck:
                yield line, f"{unreached - struck} of {len(line.branches)} branches not reached"

    def figures(self):
        """Lines reached and all, branches reached and all, lines struck and branches struck."""
        lines = [line for line in self.lines if self.struck.get(line.number, 0) is not None]
        struck_branches = sum(n for n in self.struck.values() if n is not None)
        all_branches = sum(len(line.branches) for line in lines) - struck_branches
        reached = sum(len(line.branches) - line.branches.count(0) for line in lines)
        return sum(line.count > 0 for line in lines), len(lines), min(reached, all_branches), all_branches, \
            len(self.lines) - len(lines), struck_branches


def merge_branches(entries):
    """Counts by branch number: a header's line stands in the objects of several files."""
    counts = {}
    for entry in entries:
        for at, branch in enumerate(entry.get("branches", [])):
            number = branch.get("branchno", at)
            counts[number] = counts.get(number, 0) + branch["count"]
    return [counts[number] for number in sorted(counts)]


def is_in(line, function):
    return function is None or line.function == function


def wrong_keys(entry):
    unknown = set(entry) - KEYS
    if unknown:
        return f"unknown keys {sorted(unknown)}"
    if not entry.get("reason", "").strip():
        return "no reason"
    if "file" not in entry or not ("function" in entry or "lines" in entry):
        return "neither function nor lines"
    return None


def strike_function(source, entry):
    lines = [line for line in source.lines if is_in(line, entry["function"])]
    if not lines:
        yield f"there is no function {entry['function']} with code"
    if any(line.count for line in lines) and not entry.get("chance"):
        yield f"the function {entry['function']} is reached after all"
    for line in lines:
        source.strike(line, None)


def strike_lines(source, entry):
    wanted = entry.get("branches")
    for text in entry["lines"]:
        lines = [line for line in source.lines if line.text == text and is_in(line, entry.get("function"))]
        if len(lines) > 1 and wanted is None and "function" in entry:
            lines = [line for line in lines if line.count == 0][:1] or lines[:1]  # the same line twice: the one that is not reached
        if len(lines) != 1:
            yield f"{len(lines)} lines are '{text}'"
            continue
        line = lines[0]
        if wanted is None and line.count and not entry.get("chance"):
            yield f"reached after all: '{text}'"
        elif wanted is not None and line.branches.count(0) < wanted and not entry.get("chance"):
            yield f"{line.branches.count(0)} branches are unreached, not {wanted}: '{text}'"
        unreached = line.branches.count(0) if wanted is None else min(wanted, line.branches.count(0))
        source.strike(line, None if wanted is None and line.count == 0 else unreached)


def strike_all(sources, entries):
    """Apply the exclusions; what is wrong with them, as sentences."""
    for entry in entries:
        where = entry.get("file", "?")
        wrong = wrong_keys(entry)
        source = next((source for source in sources if source.name == where), None)
        if wrong is None and source is None:
            wrong = "no such file with code"
        if wrong is not None:
            yield f"{where}: {wrong}"
            continue
        for wrong in (strike_lines if "lines" in entry else strike_function)(source, entry):
            yield f"{where}: {wrong}"


def share(part, whole):
    return "-" if whole == 0 else f"{part}/{whole}" + ("" if part == whole else f" {100 * part / whole:.1f} %")


def print_table(console, sources):
    table = Table("file", "lines", "branches", "excluded lines", "excluded branches")
    totals = [0] * 6
    for source in sources:
        figures = source.figures()
        totals = [total + figure for total, figure in zip(totals, figures)]
        add_row(table, source.name, figures)
    table.add_section()
    add_row(table, "all", totals)
    console.print(table)


def add_row(table, name, figures):
    reached, lines, taken, branches, struck_lines, struck_branches = figures
    table.add_row(name, share(reached, lines), share(taken, branches), str(struck_lines or ""), str(struck_branches or ""))


def mark_struck(sources):
    """Tell gcovr's own report what is excluded. Of a line's branches those that were not reached."""
    for source in sources:
        for line in source.lines:
            struck = source.struck.get(line.number, 0)
            for entry in line.entries if struck != 0 else ():
                if struck is None:
                    entry["gcovr/excluded"] = True
                for branch in entry.get("branches", []):
                    if struck is None or branch["count"] == 0:
                        branch["gcovr/excluded"] = True


@click.command()
@click.argument("found", type=click.Path(exists=True, path_type=Path))
@click.argument("exclusions", type=click.Path(exists=True, path_type=Path))
@click.option("--source", required=True, type=click.Path(exists=True, path_type=Path), help="The tree that FOUND's paths are below.")
@click.option("--struck", type=click.Path(path_type=Path), help="FOUND with the exclusions marked, for gcovr's HTML.")
def main(found, exclusions, source, struck):
    """Judge coverage; see the top of this file."""
    console = Console(width=None if sys.stdout.isatty() else 132)
    data = json.loads(found.read_text())
    sources = [Source(entry["file"], source / entry["file"], entry) for entry in data["files"]]
    sources.sort(key=lambda one: one.name)
    if not any(one.lines for one in sources):
        raise click.ClickException("no line of code was found")
    wrong = list(strike_all(sources, tomllib.loads(exclusions.read_text()).get("exclude", [])))
    print_table(console, sources)
    gaps = [(one, line, what) for one in sources for line, what in one.gaps()]
    for one, line, what in gaps:
        print(f"{one.name}:{line.number}: {what}: {line.text}")
    for sentence in wrong:
        print(f"exclusion wrong: {sentence}")
    if struck:
        mark_struck(sources)
        struck.write_text(json.dumps(data))
    print(f"coverage: {len(gaps)} lines with a gap, {len(wrong)} wrong exclusions")
    sys.exit(1 if gaps or wrong else 0)


if __name__ == "__main__":
    main()
