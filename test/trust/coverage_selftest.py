"""The judge of coverage on a tiny program: it must find what was not reached, and exclusions that are wrong.

SPDX-License-Identifier: MIT
"""
import subprocess
import sys
from pathlib import Path

import pytest

HERE = Path(__file__).parent
WHOLE = [
    {"function": "never_called", "reason": "the sample is made so"},
    {"function": "half_taken", "lines": ["return never_called(n);"], "reason": "the same"},
    {"lines": ["if (n > 0) return 1;"], "branches": 1, "reason": "the same"},
]


@pytest.fixture(scope="module")
def found(tmp_path_factory):
    """Counts of one run of the sample."""
    where = tmp_path_factory.mktemp("sample")
    (where / "sample.c").write_text((HERE / "coverage_sample.c").read_text())
    subprocess.run(["gcc", "-O0", "--coverage", "sample.c", "-o", "sample"], cwd=where, check=True)
    subprocess.run(["./sample"], cwd=where, check=True)
    subprocess.run([sys.executable, "-m", "gcovr", "--root", ".", "--json", "found.json"], cwd=where, check=True)
    return where


def toml(entry):
    lines = ["[[exclude]]", 'file = "sample.c"']
    for key, value in entry.items():
        text = str(value).lower() if isinstance(value, bool) else repr(value).replace("'", '"')
        lines.append(f"{key} = {text}")
    return "\n".join(lines) + "\n"


def judge(found, entries):
    """Status and output of the judge with these exclusions."""
    (found / "exclusions.toml").write_text("\n".join(toml(entry) for entry in entries))
    command = [sys.executable, "-B", HERE / "coverage_report.py", "found.json", "exclusions.toml", "--source", "."]
    done = subprocess.run([*command, "--struck", "struck.json"], cwd=found, capture_output=True, text=True)
    return done.returncode, done.stdout + done.stderr


def test_gaps_are_found(found):
    status, out = judge(found, [])
    assert status == 1
    assert "sample.c:4: not reached: return n + 1;" in out
    assert "sample.c:8: 1 of 2 branches not reached: if (n > 0) return 1;" in out
    assert "sample.c:9: not reached: return never_called(n);" in out


def test_exclusions_strike_them(found):
    status, out = judge(found, WHOLE)
    assert status == 0, out
    html = [sys.executable, "-m", "gcovr", "--root", ".", "--add-tracefile", "struck.json", "--txt"]
    assert "100%" in subprocess.run(html, cwd=found, capture_output=True, text=True, check=True).stdout


@pytest.mark.parametrize("left", range(len(WHOLE)))
def test_each_is_needed(found, left):
    status, out = judge(found, WHOLE[:left] + WHOLE[left + 1:])
    assert status == 1 and " 1 lines with a gap" in out.replace(" 2 lines", " 1 lines"), out


@pytest.mark.parametrize(
    "entry, what",
    [
        ({"function": "no_such", "reason": "x"}, "there is no function no_such"),
        ({"function": "half_taken", "reason": "x"}, "the function half_taken is reached after all"),
        ({"lines": ["return 7;"], "reason": "x"}, "0 lines are 'return 7;'"),
        ({"lines": ["int main(void) {"], "reason": "x"}, "reached after all: 'int main(void) {'"),
        ({"lines": ["if (n > 0) return 1;"], "branches": 2, "reason": "x"}, "1 branches are unreached, not 2"),
        ({"function": "never_called"}, "no reason"),
        ({"function": "never_called", "reason": " "}, "no reason"),
        ({"function": "never_called", "line": 3, "reason": "x"}, "unknown keys ['line']"),
        ({"reason": "x"}, "neither function nor lines"),
    ],
)
def test_wrong_exclusions_are_found(found, entry, what):
    status, out = judge(found, [*WHOLE, entry])
    assert status == 1 and what in out, out


def test_chance_may_be_reached(found):
    entry = {"lines": ["int main(void) {"], "chance": True, "reason": "the moments of threads"}
    assert judge(found, [*WHOLE, entry])[0] == 0


def test_nothing_found_is_no_success(found):
    (found / "found.json").rename(found / "kept.json")
    (found / "found.json").write_text('{"files": []}')
    status, out = judge(found, [])
    (found / "kept.json").rename(found / "found.json")
    assert status != 0 and "no line of code" in out
