"""Shared by the Python tests: where the library and the test programs are, and running a program on Heddle.

The build sets HEDDLE_BUILD (directory of libheddle.so) and HEDDLE_TEST_BIN (directory of the test programs). Without them the
directory build beside this one is taken.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import shutil
import subprocess
from dataclasses import dataclass

import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent


@dataclass
class Outcome:
    code: int
    out: str
    err: str


class Heddle:
    """The library under test."""

    def __init__(self, build, programs):
        self.build, self.programs = build, programs
        self.shared = build / "libheddle.so"
        self.header = ROOT / "include" / "heddle.h"

    def program(self, name):
        path = self.programs / name
        if not path.exists():
            pytest.fail(f"test program {path} is not built")
        return str(path)

    def environment(self, preload=True, options=None, **more):
        clean = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE") and k != "LD_PRELOAD"}
        if preload:
            clean["LD_PRELOAD"] = str(self.shared)
        if options is not None:
            clean["HEDDLE"] = options
        return clean | more

    def run(self, *argv, preload=True, options=None, timeout=60, **keywords):
        more = keywords.pop("env", {})
        done = subprocess.run(
            [str(a) for a in argv],
            env=self.environment(preload, options, **more),
            stdin=keywords.pop("stdin", subprocess.DEVNULL),
            capture_output=True,
            timeout=timeout,
            errors="replace",
            text=True,
            **keywords,
        )
        return Outcome(done.returncode, done.stdout, done.stderr)


@pytest.fixture(scope="session")
def heddle():
    build = pathlib.Path(os.environ.get("HEDDLE_BUILD", ROOT / "build"))
    programs = pathlib.Path(os.environ.get("HEDDLE_TEST_BIN", build / "test"))
    if not (build / "libheddle.so").exists():
        pytest.fail(f"no {build / 'libheddle.so'}: build first, or set HEDDLE_BUILD")
    return Heddle(build, programs)


@pytest.fixture(scope="session")
def need():
    """need("git") gives the program's path; a missing one skips the test, or fails it when HEDDLE_CI=1."""

    def find(name):
        path = shutil.which(name)
        if path is None:
            complaint = f"{name} is not installed"
            if os.environ.get("HEDDLE_CI") == "1":
                pytest.fail(complaint)
            pytest.skip(complaint)
        return path

    return find
