"""Who is measured, how the programs are built, and the interleaved rounds."""

import json
import os
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent.parent
sys.path.append(str(HERE.parent))

from heddle_bench.measure import Allocator, BenchError, find_allocators  # noqa: E402

NEWEST_MIMALLOC = ("mimalloc3", "mimalloc2", "mimalloc-deb")
SIZES = (16, 64, 256, 1024, 4096, 5120, 16384, 65536)
PAPER_SIZE = 5120
POOL_SIZE = 64
FLAGS = ["-std=gnu11", "-O2", "-Wall", "-Wextra", "-fno-builtin-malloc", "-fno-builtin-calloc", "-fno-builtin-free"]
RUN_LIMIT_S = 120


@dataclass(frozen=True)
class Subject:
    """A row of the tables. A heap is the program's malloc; the others are forms of arena.c and pools.c."""

    name: str
    title: str
    program: str  # heap, arena or pools
    form: str = ""
    preload: str = ""

    @property
    def is_heap(self):
        return self.program == "heap"

    def operation(self, general):
        """What take, give and round are called here; other names are the same everywhere."""
        names = {
            "heap": {"take": "malloc", "give": "free", "round": "malloc+free"},
            "arena": {"take": "alloc", "give": "release", "round": "point+alloc+release"},
            "pools": {"round": "take+give"},
        }
        return names[self.program].get(general, general)


@dataclass(frozen=True)
class Scenario:
    how: str  # batch or single
    state: str  # warm, cold, life
    touch: bool
    sizes: tuple = (PAPER_SIZE,)
    rounds: int = 100000

    def arguments(self):
        sizes = ",".join(str(s) for s in self.sizes)
        return ["-w", self.how, "-s", self.state, "-b", sizes, "-n", str(self.rounds)] + ["-t"] * self.touch

    def suits(self, subject):
        """Pools are measured in batches, warm, at one size."""
        return subject.program != "pools" or (self.how, self.state, self.sizes) == ("batch", "warm", (POOL_SIZE,))


def scenarios(quick):
    """All ways of measuring; the sweep leaves out the sizes that are measured longer by themselves."""
    rounds = 20000 if quick else 100000
    kinds = [("batch", "warm"), ("batch", "cold"), ("single", "warm"), ("single", "cold"), ("batch", "life")]
    ways = [Scenario(how, state, touch, rounds=rounds) for how, state in kinds for touch in (False, True)]
    ways += [Scenario("batch", "warm", touch, (POOL_SIZE,), rounds=rounds) for touch in (False, True)]
    others = tuple(s for s in SIZES if s not in (PAPER_SIZE, POOL_SIZE))
    return ways + [Scenario("batch", "warm", touch, others, rounds=rounds // 5) for touch in (False, True)]


def find_subjects(heddle, peers_json):
    """The system's malloc, the newest mimalloc, Heddle's; Heddle's arenas; the published scheme. Returns (subjects, remarks)."""
    remarks = []
    try:
        allocators, _ = find_allocators(heddle, peers_json)
    except BenchError as problem:
        remarks.append(f"mimalloc is left out: {problem}")
        allocators = [Allocator("system", "", " ".join(os.confstr("CS_GNU_LIBC_VERSION").split()))]
        if Path(heddle).is_file():
            allocators.append(Allocator("heddle", str(Path(heddle).resolve()), "this tree"))
    known = {a.name: a for a in allocators}
    if "heddle" not in known:
        raise BenchError(f"there is no {heddle}: build it first (make)")
    found = [Subject("system", f"system, {known['system'].version}", "heap")]
    newest = next((known[n] for n in NEWEST_MIMALLOC if n in known), None)
    if newest:
        found.append(Subject("mimalloc", f"mimalloc {newest.version}", "heap", preload=newest.path))
    elif not remarks:
        remarks.append("mimalloc is left out: bench/peers.sh could not get it")
    found.append(Subject("heddle", "Heddle, heap", "heap", preload=known["heddle"].path))
    for form, title in (
        ("fixed", "Heddle, arena"),
        ("growing", "Heddle, arena that grows"),
        ("value", "Heddle, arena, marks by value"),
        ("shared", "Heddle, shared arena"),
        ("weaver", "Heddle, weaver.h"),
        ("lock", "mutex + bump pointer"),
    ):
        found.append(Subject(form, title, "arena", form))
    for form, title in (("pool", "pool"), ("shared-pool", "shared pool"), ("index-pool", "index pool"), ("handles", "handles")):
        found.append(Subject(form, "Heddle, " + title, "pools", form))
    return found, remarks


def compile_program(out, name, sources, library):
    command = [os.environ.get("CC", "cc"), *FLAGS, f"-I{ROOT / 'include'}", "-o", str(out / name)]
    command += [str(HERE / s) for s in sources] + ([str(library)] if library else []) + ["-lm", "-lpthread", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True)
    if done.returncode:
        raise BenchError(f"{name} does not compile: " + (done.stderr.strip().splitlines() or ["no message"])[0])


def build(out, heddle):
    """Heddle's arenas come from the archive beside the shared library, so that malloc stays the system's in that program."""
    archive = Path(heddle).resolve().parent / "libheddle.a"
    if not archive.is_file():
        raise BenchError(f"there is no {archive}: build it first (make)")
    out.mkdir(parents=True, exist_ok=True)
    compile_program(out, "heap", ["heap.c"], None)
    compile_program(out, "arena", ["arena.c", "lock_arena.c"], archive)
    compile_program(out, "pools", ["pools.c"], archive)


def measure(out, subject, scenario):
    """One process; its records."""
    command = [str(out / subject.program), *(["-f", subject.form] if subject.form else []), *scenario.arguments()]
    environment = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "HEDDLE")}
    if subject.preload:
        environment["LD_PRELOAD"] = subject.preload
    done = subprocess.run(command, capture_output=True, text=True, env=environment, timeout=RUN_LIMIT_S)
    if done.returncode:
        raise BenchError(f"{subject.name}, {' '.join(scenario.arguments())}: status {done.returncode}: {done.stderr.strip()[-200:]}")
    return [json.loads(line) for line in done.stdout.splitlines()]


def play(out, subjects, ways, rounds, budget_s, results, step):
    """Every round runs each way under each subject, the order turning by one; step(text) is called before each process. Returns the
    number of rounds: a budget (None for none) ends the run between rounds, never within one."""
    start = time.monotonic()
    for turn in range(rounds):
        turn_start = time.monotonic()
        for number, way in enumerate(ways):
            shift = (turn + number) % len(subjects)
            for subject in subjects[shift:] + subjects[:shift]:
                if way.suits(subject):
                    step(f"round {turn + 1}/{rounds}  {way.how} {way.state}{' touched' if way.touch else ''}  {subject.name}")
                    results.add(subject.name, measure(out, subject, way))
        now = time.monotonic()
        if budget_s and now - start + (now - turn_start) > budget_s:
            return turn + 1
    return rounds
