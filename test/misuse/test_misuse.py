"""One program a misuse, against the table, in both modes; and the policies.

SPDX-License-Identifier: MIT
"""
import pathlib
import re
import signal

import pytest

from table import EITHER, FINE, LIBC, NOT_FOUND, TABLE, is_report, markdown, pattern

MODES = ("default", "hardened")
GUIDE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "guide" / "misuse-reports.md"


def options(case, mode, *more):
    words = list(more)
    if mode == "hardened":
        words += ["hardened", f"hardened-sample:{1 if case.startswith('sample_') else 0}"]
    return ",".join(words) or None


def check_line(cell, text):
    lines = text.splitlines()
    assert len(lines) <= 1, f"one line expected, got: {text!r}"
    line = lines[0] if lines else ""
    assert re.fullmatch(pattern(cell), line), f"{line!r} is not {cell!r}"


def test_every_case_is_in_the_table(heddle):
    assert sorted(heddle.run(heddle.program("misuse")).out.split()) == sorted(TABLE)


def test_the_guide_shows_the_table():
    text = GUIDE.read_text()
    assert "\n".join(markdown()) in text, "docs/guide/misuse-reports.md: put the output of test/misuse/table.py there"


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("case", TABLE)
def test_case(heddle, case, mode):
    cell = TABLE[case][MODES.index(mode)]
    done = heddle.run(heddle.program("misuse"), case, options=options(case, mode))
    if cell == FINE:
        assert (done.code, done.err) == (0, "")
    elif cell == NOT_FOUND:
        assert "heddle" not in done.err
    else:
        check_line(cell, done.err)
        ends = (-signal.SIGSEGV,) if "HD-E12" in cell else (-signal.SIGABRT,) if is_report(cell) else (-signal.SIGABRT, -signal.SIGSEGV)
        assert done.code in ends
        assert "sound" not in done.out


@pytest.mark.parametrize("policy", ["report", "ignore"])
@pytest.mark.parametrize("case", [case for case in TABLE if TABLE[case][0] != NOT_FOUND])
def test_policy(heddle, case, policy):
    cell = TABLE[case][0]
    done = heddle.run(heddle.program("misuse"), case, options=f"onerror:{policy}")
    if cell in (LIBC, EITHER):
        assert cell == EITHER or done.code in (-signal.SIGABRT, -signal.SIGSEGV)
        return
    assert done.code == 0, done.err
    assert done.out.endswith("sound\n")
    if cell == FINE or policy == "ignore":
        assert done.err == ""
    else:
        check_line(cell, done.err)


#: What only hardened mode finds, and what leaves nothing behind that later calls stumble over.
HARDENED_ONLY = [case for case, (default, hardened) in TABLE.items()
                 if default == NOT_FOUND and is_report(hardened) and "HD-E12" not in hardened and "4096" not in case]


@pytest.mark.parametrize("case,policy", [(case, "report") for case in HARDENED_ONLY] + [(case, "ignore") for case in HARDENED_ONLY[::8]])
def test_hardened_policy(heddle, case, policy):
    """The program goes on after the line; a block that is found broken twice is reported twice."""
    done = heddle.run(heddle.program("misuse"), case, options=options(case, "hardened", f"onerror:{policy}"))
    assert done.code == 0, done.err
    assert done.out.endswith("sound\n")
    assert bool(done.err) == (policy == "report")
    for line in done.err.splitlines():
        assert re.search(r"\[HD-E1[013]\]$", line), line


def test_a_handler_of_the_program_is_left_alone(heddle):
    """Hardened mode takes SIGSEGV only where nobody has: a program that has set its own keeps it."""
    done = heddle.run(heddle.program("misuse"), "own_fault_handler", options="hardened,hardened-sample:0")
    assert (done.code, done.err) == (7, "the program's own\n")


def test_system_allocator_differs(heddle):
    """The harness can fail: without Heddle no case gives Heddle's line."""
    done = heddle.run(heddle.program("misuse"), "double_large", preload=False)
    assert done.code < 0
    assert "heddle" not in done.err
