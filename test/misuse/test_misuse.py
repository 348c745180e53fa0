"""One program a misuse, against the table; and the policies.

SPDX-License-Identifier: MIT
"""
import re
import signal

import pytest

from table import EITHER, FOREIGN, TABLE


def check_line(pattern, text):
    lines = text.splitlines()
    assert len(lines) == 1, f"exactly one line expected, got: {text!r}"
    assert re.fullmatch(pattern, lines[0]), f"{lines[0]!r} does not match {pattern!r}"


def test_every_case_is_in_the_table(heddle):
    assert sorted(heddle.run(heddle.program("misuse")).out.split()) == sorted(TABLE)


@pytest.mark.parametrize("case", TABLE)
def test_default(heddle, case):
    done = heddle.run(heddle.program("misuse"), case)
    if TABLE[case] is None:
        assert (done.code, done.err) == (0, "")
        return
    check_line(TABLE[case], done.err)
    assert done.code == -signal.SIGABRT
    assert "sound" not in done.out


@pytest.mark.parametrize("policy", ["report", "ignore"])
@pytest.mark.parametrize("case", TABLE)
def test_policy(heddle, case, policy):
    done = heddle.run(heddle.program("misuse"), case, options=f"onerror:{policy}")
    if case in EITHER:
        assert done.code in (0, -signal.SIGABRT)
        return
    if case in FOREIGN:
        check_line(TABLE[case], done.err)
        assert done.code == -signal.SIGABRT
        return
    assert done.code == 0, done.err
    assert done.out.endswith("sound\n")
    if TABLE[case] is None or policy == "ignore":
        assert done.err == ""
    else:
        check_line(TABLE[case], done.err)


def test_system_allocator_differs(heddle):
    """The harness can fail: without Heddle no case gives Heddle's line."""
    done = heddle.run(heddle.program("misuse"), "double_large", preload=False)
    assert done.code < 0
    assert "heddle" not in done.err
