"""Two ways to count: locked instructions by callgrind, for any allocator; an instrumented build, for Heddle alone."""

import os
import re
import subprocess
from collections import defaultdict
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path

WITHOUT_VALGRIND = {"snmalloc": "reserves more address space than valgrind gives"}
# Objects that are neither the program nor the allocator.
SYSTEM_OBJECT = re.compile(r"^(libc|libm|libpthread|libdl|ld-linux.*|libstdc\+\+|libgcc_s|vgpreload.*|\?\?\?)(\.so|-|$)")
# Functions of libc that lock for the program's sake. The rest of libc's locked instructions are its malloc's.
PROGRAM_SYNC = re.compile(r"^_*(pthread|nptl|lll_lock_w|new_sem|sem_|start_thread|clone|printf|vfprintf|puts|IO_|exit|run_exit|dl_)")
LOCKED = re.compile(r"^\s*([0-9a-f]+):\s+(?:[a-z0-9]+ )*?(lock |xchg\s.*\()")


class CountError(RuntimeError):
    """A run that gave no count; the message says which and why."""


@dataclass
class Count:
    ops: float  # of the workload, as it says itself
    values: dict  # what was counted


def run(command, env, limit_s=300):
    clean = {k: v for k, v in os.environ.items() if k not in ("LD_PRELOAD", "HEDDLE")}
    try:
        done = subprocess.run(command, capture_output=True, text=True, errors="replace", env=clean | env, timeout=limit_s)
    except subprocess.TimeoutExpired:
        raise CountError(f"did not end in {limit_s} s") from None
    if done.returncode:
        raise CountError(f"exit code {done.returncode}: {(done.stderr.strip().splitlines() or ['no message'])[-1][:160]}")
    words = next((line.split() for line in done.stdout.splitlines() if line.startswith("RESULT ")), None)
    if words is None:
        raise CountError("no RESULT line")
    return float(words[3])


# ---- locked instructions ------------------------------------------------------------------------------------------------


@lru_cache(maxsize=None)
def locked_addresses(path):
    """Addresses in a binary of instructions with a lock prefix, and of exchanges with memory, which lock without one."""
    done = subprocess.run(["objdump", "-d", "--no-show-raw-insn", path], capture_output=True, text=True, errors="replace")
    if done.returncode:
        raise CountError("objdump: " + (done.stderr.strip().splitlines() or ["failed"])[-1])
    return frozenset(int(m.group(1), 16) for m in map(LOCKED.match, done.stdout.splitlines()) if m)


class Profile:
    """A callgrind dump by instruction.

    executions[object, function][address] is a number; callers[object, function] is a list of (object, function, calls)."""

    def __init__(self, path):
        self.executions = defaultdict(lambda: defaultdict(int))
        self.callers = defaultdict(list)
        self._names = {"ob": {}, "fn": {}}
        with open(path, errors="replace") as dump:
            self._read(dump)

    def _name(self, kind, text):
        """Names are written once, as '(7) name', and as '(7)' from then on."""
        found = re.match(r"\((\d+)\)(?: (.*))?$", text)
        if found.group(2):
            self._names[kind][found.group(1)] = found.group(2)
        return self._names[kind][found.group(1)]

    def _read(self, dump):
        ob = fn = callee_ob = callee = None
        address, is_call = 0, False
        for line in dump:
            word, _, rest = line.rstrip("\n").partition("=")
            if word == "ob":
                ob = self._name("ob", rest)
            elif word == "fn":
                fn = self._name("fn", rest)
            elif word == "cob":
                callee_ob = self._name("ob", rest)
            elif word == "cfn":
                callee = self._name("fn", rest)
            elif word == "calls":
                self.callers[callee_ob or ob, callee].append((ob, fn, int(rest.split()[0])))
                callee_ob, is_call = None, True
            elif line[0] in "0123456789+-*" and fn is not None:
                at, _, cost = line.split()
                address = address if at == "*" else address + int(at) if at[0] in "+-" else int(at, 16)
                if not is_call:  # the line below calls= is what the callee cost
                    self.executions[ob, fn][address] += int(cost)
                is_call = False

    def _share(self, function, program, known):
        """How much of a function of libc runs for the allocator: that share of its callers, through other functions of libc."""
        if function in known:
            return known[function]
        known[function] = 0.0  # a circle of calls adds nothing
        callers = [((ob, fn), n) for ob, fn, n in self.callers[function]]
        total = sum(n for _, n in callers)
        part = 0.0
        for caller, n in callers:
            if SYSTEM_OBJECT.match(Path(caller[0]).name):
                part += n * (self._share(caller, program, known) if PROGRAM_SYNC.match(caller[1]) else 1.0)
            elif caller[0] != program:
                part += n
        known[function] = part / total if total else 0.0
        return known[function]

    def locked(self, program):
        """Locked instructions executed: by the program with what it calls in libc, and by the allocator with what it calls there."""
        own, known = {"program": 0.0, "allocator": 0.0}, {}
        for (ob, fn), counts in self.executions.items():
            hits = sum(counts[a] for a in counts.keys() & locked_addresses(ob)) if os.path.isfile(ob) else 0
            if not hits:
                continue
            if not SYSTEM_OBJECT.match(Path(ob).name):
                share = 0.0 if ob == program else 1.0
            else:
                share = self._share((ob, fn), program, known) if PROGRAM_SYNC.match(fn) else 1.0
            own["allocator"] += hits * share
            own["program"] += hits * (1 - share)
        return own


def by_callgrind(command, allocator, tmp):
    """Locked instructions of one run. Valgrind runs one thread at a time, so retries after a lost race are not among them."""
    if allocator.name in WITHOUT_VALGRIND:
        raise CountError(WITHOUT_VALGRIND[allocator.name])
    dump = f"{tmp}/dump"
    env = {"HEDDLE": "passthrough:off"} | ({"LD_PRELOAD": allocator.path} if allocator.path else {})
    tool = ["valgrind", "--tool=callgrind", "--dump-instr=yes", "--fair-sched=yes", f"--callgrind-out-file={dump}"]
    ops = run(tool + command, env)
    return Count(ops, Profile(dump).locked(os.path.realpath(command[0])))


# ---- the instrumented build ---------------------------------------------------------------------------------------------


def build_watched(path):
    done = subprocess.run(["bash", str(Path(__file__).parent / "watch.sh"), str(path)], capture_output=True, text=True)
    if done.returncode:
        raise CountError("watch.sh: " + (done.stderr.strip().splitlines() or ["failed"])[-1])


def by_watching(command, library, tmp):
    """rmw, stores and lines (see watch.c) of one run; threads run side by side, races and retries included."""
    report = Path(tmp) / "watched"
    report.unlink(missing_ok=True)
    ops = run(command, {"HEDDLE": "passthrough:off", "HEDDLE_WATCH": str(report), "LD_PRELOAD": str(library)})
    if not report.is_file():
        raise CountError("the instrumented library wrote no report")
    return Count(ops, {k: float(v) for k, v in (word.split("=") for word in report.read_text().split())})


def per_operation(small, large):
    """What one more operation costs: start-up, thread births and the end fall out of the difference."""
    if large.ops <= small.ops:
        raise CountError("the larger run did no more operations")
    return {k: (large.values[k] - small.values[k]) / (large.ops - small.ops) for k in large.values}
