"""One run of one row under one allocator, measured; and the allocators there are."""

import json
import os
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass, field
from pathlib import Path

from . import apps

BENCH = Path(__file__).resolve().parent.parent
ROOT = BENCH.parent
BASELINE = "mimalloc3"
SUBJECT = "heddle"
CONTROL = "control"  # what it differs by is chance
CONTROL_IS = f"a copy of {SUBJECT}"
OLDER = ("jemalloc-deb", "mimalloc-deb")  # second builds of peers that are there anyway


class BenchError(Exception):
    """Something the user can mend; shown as one line."""


@dataclass(frozen=True)
class Allocator:
    name: str
    path: str  # "" is the system's own
    version: str


@dataclass
class Sample:
    cpu: float
    wall: float
    rss_kib: int
    faults: int
    figure: float = 0.0  # ns per operation or us per thread, where a workload prints one
    extra: dict = field(default_factory=dict)


def find_allocators(heddle, peers_json, wanted=None):
    """Heddle (when built), the system's allocator, and every peer that peers.sh recorded; returns (allocators, remarks)."""
    found, remarks = [], []
    if Path(heddle).is_file():
        found.append(Allocator(SUBJECT, str(Path(heddle).resolve()), "this tree"))
    else:
        remarks.append(f"no {heddle}: Heddle is not among the allocators of this run")
    libc = " ".join(os.confstr("CS_GNU_LIBC_VERSION").split())
    found.append(Allocator("system", "", libc))
    try:
        listing = json.loads(Path(peers_json).read_text())
    except FileNotFoundError:
        raise BenchError(f"no {peers_json}: run bench/peers.sh first") from None
    except (OSError, ValueError) as problem:
        raise BenchError(f"{peers_json}: {problem}") from None
    found += [Allocator(p["name"], p["path"], p["version"]) for p in listing["peers"]]
    remarks += [f"peer {m['name']} is missing: {m['problem']}" for m in listing.get("missing", [])]
    for allocator in [a for a in found if a.path and not Path(a.path).is_file()]:
        remarks.append(f"{allocator.name} is left out: {allocator.path} is gone; run bench/peers.sh again")
        found.remove(allocator)
    if wanted:
        unknown = set(wanted) - {a.name for a in found}
        if unknown:
            raise BenchError(f"no allocator named {', '.join(sorted(unknown))}; there are: {', '.join(a.name for a in found)}")
        found = [a for a in found if a.name in wanted]
    if len(found) < 2:
        raise BenchError("a figure without a partner is no figure: at least two allocators are needed")
    return found, remarks


def with_control(allocators, directory):
    """The subject and a copy of it, both run from a directory of their own: under paths of one length, which decides where a program's
    stack begins."""
    subject = next((a for a in allocators if a.name == SUBJECT), None)
    if subject is None:
        raise BenchError(f"--control copies {SUBJECT}, which is not among the allocators")
    pair = [Allocator(SUBJECT, str(Path(directory) / "subject.so"), subject.version)]
    pair.append(Allocator(CONTROL, str(Path(directory) / "control.so"), CONTROL_IS))
    for one in pair:
        shutil.copyfile(subject.path, one.path)
    return pair + [a for a in allocators if a is not subject]


def build_workloads(out_dir):
    """Compile what has changed; returns the directory of the programs."""
    built = subprocess.run(["bash", str(BENCH / "build.sh"), str(out_dir)], capture_output=True, text=True)
    if built.returncode:
        raise BenchError("bench/build.sh failed: " + (built.stderr.strip().splitlines() or ["no message"])[-1])
    return Path(out_dir).resolve()


class Runner:
    """Builds the workloads once and then runs rows; keeps a scratch directory for the real programs."""

    def __init__(self, out_dir):
        self.bin = build_workloads(out_dir)
        self._scratch = tempfile.TemporaryDirectory(prefix="heddle-bench-")
        self.tmp = Path(self._scratch.name)
        for name, holes in (("pigeons", "8"), ("many-pigeons", "36")):
            with open(self.tmp / f"{name}.smt2", "w") as out:
                subprocess.run([sys.executable, str(BENCH / "apps" / "pigeons.py"), holes], stdout=out, check=True)

    def close(self):
        self._scratch.cleanup()

    def _fill(self, text):
        return text.format(bin=self.bin, apps=BENCH / "apps", tmp=self.tmp, bench=BENCH)

    def lacking(self, row):
        """Why this row cannot run, or an empty string."""
        return (
            f"{row.needs} is not installed (--install, or apt-get install {row.package})"
            if row.needs and not shutil.which(row.needs)
            else ""
        )

    def run(self, row, allocator, limit_s=120):
        report = self.tmp / "report"
        report.unlink(missing_ok=True)
        command = [str(self.bin / "launch"), str(report), str(limit_s), allocator.path, "--"] + [
            self._fill(word) for word in row.command
        ]
        env = {k: v for k, v in os.environ.items() if k != "LD_PRELOAD"}
        env.update(row.env)
        stdin = open(self._fill(row.stdin), "rb") if row.stdin else subprocess.DEVNULL
        with tempfile.TemporaryFile() as out:
            process = subprocess.Popen(command, stdin=stdin, stdout=out, stderr=subprocess.STDOUT, env=env, cwd=self.tmp)
            try:
                if row.driver:
                    getattr(apps, row.driver)(self.tmp)
                process.wait(limit_s + 10)
            finally:
                if process.poll() is None:
                    process.terminate()
                    process.wait()
                if row.stdin:
                    stdin.close()
            out.seek(0)
            text = out.read().decode(errors="replace")
        return self._sample(row, allocator, report, text)

    def _sample(self, row, allocator, report, text):
        where = f"{row.name} under {allocator.name}"
        last = (text.strip().splitlines() or [""])[-1][:200]
        if not report.is_file():
            raise RuntimeError(f"{where}: the launcher failed: {last}")
        code, user, system, wall, rss, minor, major = report.read_text().split()
        if code != "0":
            raise RuntimeError(f"{where}: exit code {code}{' (time limit)' if code == '124' else ''}{': ' + last if last else ''}")
        if "cannot be preloaded" in text:  # the dynamic linker goes on without, and the system's malloc would be measured
            raise RuntimeError(f"{where}: {allocator.path} cannot be preloaded")
        if row.expect and row.expect not in text.split():
            raise RuntimeError(f"{where}: wrong output, no '{row.expect}'")
        sample = Sample(float(user) + float(system), float(wall), int(rss), int(minor) + int(major))
        if not row.real:
            words = next((line.split() for line in text.splitlines() if line.startswith("RESULT ")), None)
            if words is None:
                raise RuntimeError(f"{where}: no RESULT line")
            sample.extra = dict(word.split("=", 1) for word in words[6:])
            sample.extra["seconds"] = words[4]
            sample.figure = float(sample.extra.get("ns") or sample.extra.get("us_per_thread") or 0)
        return sample
