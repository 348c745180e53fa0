"""`heddle allocators` and `heddle doctor`."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import tempfile
from dataclasses import dataclass
from typing import Dict, List, Optional, Tuple

import click
from rich.table import Table
from rich.text import Text

from . import report_text
from .allocators import HEDDLE, find_allocators, missing_allocators, version_of
from .errors import EXIT_DIFFERENT, EXIT_UNUSABLE, HeddleError
from .libraries import find_heddle, preload_value, read_library
from .options import with_settings
from .shared_options import PROGRAM_SETTINGS, program_arguments
from .target import Target, resolve_target

BINDING = re.compile(r"binding file (\S+) \[\d+\] to (\S+) \[\d+\]: \w+ symbol `(malloc|free|realloc)'")


@click.command()
@click.option("--allocator", "extra", metavar="NAME=PATH", multiple=True, help="One more library to list (repeatable).")
@click.option("--library", metavar="PATH", help="Heddle's library, instead of searching for libheddle.so.1.")
def allocators(extra, library):
    """List the allocators found, and how to get the missing ones."""
    console = report_text.make_console()
    found = find_allocators(extra, library)
    table = Table(show_edge=False, pad_edge=False)
    for column in ("name", "what", "version", "path"):
        table.add_column(column, overflow="fold", style="bold" if column == "name" else "")
    for entry in found.values():
        table.add_row(entry.name, entry.title, version_of(entry) or "unknown", entry.path or "(nothing preloaded)")
    console.print(table)
    if HEDDLE not in found:
        console.print("not found: heddle: build it with `make`, or set HEDDLE_LIBRARY=path", style="yellow")
    for known in missing_allocators(found):
        how = f"apt-get install {known.debian}" if known.debian else f"pip install {known.pypi}"
        console.print(f"not found: {known.name} ({known.title}): {how}", style="yellow")


@dataclass
class Bindings:
    """To which files the loader bound malloc, free and realloc: file bound to -> files that call it."""

    targets: Dict[str, List[str]]

    def all_to(self, library: str) -> bool:
        real = os.path.realpath(library)
        return bool(self.targets) and all(os.path.realpath(path) == real for path in self.targets)


def parse_bindings(text: str, library: str) -> Bindings:
    """Read the loader's LD_DEBUG=bindings report. Calls inside an allocator, and the loader's own, do not count."""
    real = os.path.realpath(library)
    targets: Dict[str, List[str]] = {}
    found = BINDING.findall(text)
    # A position-dependent program that takes malloc's address owns a stub of that name, to which everybody is bound;
    # the stub itself goes where the program's own calls go.
    stub = {(source, symbol): destination for source, destination, symbol in found
            if source != destination and os.path.realpath(source) != real}
    for source, destination, symbol in found:
        destination = stub.get((destination, symbol), destination)
        own_call = os.path.realpath(source) == real
        if own_call or os.path.basename(source).startswith(("ld-linux", "ld64", "ld.so")):
            continue
        callers = targets.setdefault(destination, [])
        if source not in callers:
            callers.append(source)
    return Bindings(targets)


def observe(target: Target, arguments: Tuple[str, ...], library: str, seconds: float) -> Tuple[Bindings, str, bool]:
    """Run the program with the preload; returns the bindings, the loader's complaints, and whether it ran on."""
    environment = with_settings(dict(os.environ), [])
    environment["LD_PRELOAD"] = preload_value(library, environment)
    with tempfile.TemporaryDirectory(prefix="heddle-") as scratch:
        environment.update(LD_DEBUG="bindings", LD_DEBUG_OUTPUT=os.path.join(scratch, "ld"))
        try:
            child = subprocess.Popen([target.path, *arguments], env=environment, stdin=subprocess.DEVNULL,
                                     stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, start_new_session=True)
        except OSError as error:
            raise HeddleError(f"{target.path}: cannot be started ({error.strerror})", EXIT_UNUSABLE) from None
        ran_on = False
        try:
            _, complaints = child.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            ran_on = True
            os.killpg(child.pid, signal.SIGKILL)
            _, complaints = child.communicate()
        # Only the program itself: its children have files of their own.
        report = ""
        path = os.path.join(scratch, f"ld.{child.pid}")
        if os.path.exists(path):
            with open(path, errors="replace") as file:
                report = file.read()
    lines = [line for line in complaints.decode(errors="replace").splitlines() if "LD_PRELOAD" in line]
    return parse_bindings(report, library), "; ".join(lines), ran_on


def diagnose(target: Target, bindings: Bindings, complaints: str, library: str) -> Tuple[bool, str]:
    """Whether the override is active, and the sentence that says why."""
    if complaints:
        return False, f"the loader did not accept the library: {complaints}"
    if bindings.all_to(library):
        count = len({caller for callers in bindings.targets.values() for caller in callers})
        return True, f"malloc, free and realloc of {count} loaded file{'s' if count != 1 else ''} go to {library}"
    if not bindings.targets:
        return False, ("no file of this program was seen to call malloc through the loader: its allocator is linked "
                       "into it, or it ended before its first call, or this is not glibc's loader")
    others = [path for path in bindings.targets if os.path.realpath(path) != os.path.realpath(library)]
    if any(os.path.realpath(path) == os.path.realpath(target.binary) for path in others):
        return False, f"{target.binary} brings its own malloc, which comes before any preloaded library"
    return False, f"some calls go elsewhere: to {', '.join(others)}"


def _environment_notes() -> List[str]:
    notes = []
    if os.environ.get("LD_PRELOAD"):
        notes.append(f"LD_PRELOAD is already set to {os.environ['LD_PRELOAD']!r}; Heddle is put in front of it")
    passthrough = re.search(r"passthrough:(\w+)", os.environ.get("HEDDLE", ""))
    if passthrough and passthrough.group(1) == "on":
        notes.append("HEDDLE has passthrough:on, so Heddle hands every call on to libc")
    return notes


@click.command(context_settings=PROGRAM_SETTINGS)
@click.option("--library", metavar="PATH", help="The library to check, instead of searching for libheddle.so.1.")
@click.option("--seconds", type=click.FloatRange(0, min_open=True), default=5.0, show_default=True,
              help="End the program after that long.")
@program_arguments
def doctor(library, seconds, program, arguments):
    """Say whether the override is active for PROGRAM, and if not, why.

    The program is really run, with its arguments, without input, and ended after --seconds.
    Exit status: 0 active, 1 not active, 126 and 127 as `heddle run`.
    """
    console = report_text.make_console()

    def say(mark: str, style: str, what: str) -> None:
        console.print(Text(mark, style=style).append(f" {what}", style="default"), soft_wrap=True)

    path: Optional[str] = find_heddle(library)
    if path is None:
        say("no ", "red", "libheddle.so.1 was not found: build it with `make`, or use --library or HEDDLE_LIBRARY")
        return EXIT_DIFFERENT
    say("ok ", "green", f"library {path}")
    target = resolve_target(program)
    say("ok ", "green", f"program {' -> '.join(target.chain)}, {target.elf.architecture}, dynamically linked")
    elf = read_library(path, "the library")
    if not elf.fits(target.elf):
        say("no ", "red", f"the library is {elf.architecture}: the loader would ignore it")
        return EXIT_DIFFERENT
    for note in _environment_notes():
        say("!  ", "yellow", note)
    bindings, complaints, ran_on = observe(target, arguments, path, seconds)
    if ran_on:
        say("!  ", "yellow", f"ended after {seconds:g} s, so what it loads later was not seen")
    active, why = diagnose(target, bindings, complaints, path)
    say("ok " if active else "no ", "green" if active else "red",
        ("override active: " if active else "override not active: ") + why)
    return 0 if active else EXIT_DIFFERENT
