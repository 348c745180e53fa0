#!/usr/bin/env python3
"""Golden listings of the fast paths: a lost instruction is a reviewed diff.

    golden.py check    --library build/libheddle.so     compare with the listing of this compiler, and counts with limits.txt
    golden.py update   --library build/libheddle.so     write the listing anew, to be reviewed with the change that caused it
    golden.py count    --library ... --pairs PROGRAM    instructions a malloc/free pair under callgrind, against limits.txt
    golden.py selftest --library ...                    the check has to find a changed listing and a broken limit

A listing holds for one machine and one compiler's major version (x86_64-gcc12.txt); where there is none for the compiler that
built the library, only the limits are checked. Ends with 0 ok, 1 failed, 2 cannot run, 77 skipped.

SPDX-License-Identifier: MIT
"""
import argparse
import contextlib
import difflib
import io
import os
import pathlib
import platform
import re
import shutil
import subprocess
import sys
import tempfile
from dataclasses import dataclass

HERE = pathlib.Path(__file__).resolve().parent
LIMITED = "malloc free _Znwm _ZdlPvm".split()
FUNCTIONS = [*LIMITED, *"calloc hdi_alloc_claim hdi_alloc_zeroed hdi_alloc_aligned hdi_alloc_medium hdi_free_other take_gated".split()]
PAIR_BYTES = (64, 2000, 4000)
PAIRS = 200_000

# Written by the assembler to keep jumps off 32-byte boundaries: which of them appear depends on the address.
PADDING = re.compile(r"^(?:(?:cs|ds|es|ss|fs|gs|data16|addr32) )+")
LANDING_PAD = "endbr64"  # begins every function where a distribution's compiler protects indirect calls


class Unable(Exception):
    """The script cannot do its work: a sentence for the user."""


class Missing(Unable):
    """A tool is not installed."""


def run(*command, **options):
    if shutil.which(command[0]) is None:
        raise Missing(f"{command[0]} is not installed")
    done = subprocess.run(command, capture_output=True, text=True, **options)
    if done.returncode != 0:
        words = (done.stderr.strip() or "no message").splitlines()
        raise Unable(f"{command[0]} failed with {done.returncode}: {words[-1]}")
    return done.stdout


# ---- the library ------------------------------------------------------------------------------------------------------


@dataclass
class Symbol:
    name: str
    address: int
    size: int


class Library:
    """Symbols, compiler and code of libheddle.so."""

    def __init__(self, path):
        if not path.is_file():
            raise Unable(f"{path}: no such library")
        self.path = path
        self.symbols = self.read_symbols("--syms") or self.read_symbols("--dynamic-syms")
        for name in ("malloc", "free"):
            if self.function(name) is None:
                raise Unable(f"{path}: defines no function {name}")
        self.stripped = not any(symbol.name.startswith("hdi_") for symbol in self.symbols)

    def read_symbols(self, table):
        """Of several names of one address the plainest first: malloc before __libc_malloc and malloc.localalias."""
        row = re.compile(r"^([0-9a-f]{8,}) .{7} \.\S+\t([0-9a-f]+)\s(?:.*\s)?(\S+)$", re.M)
        found = [Symbol(name, int(at, 16), int(size, 16)) for at, size, name in row.findall(run("objdump", table, str(self.path)))]
        return sorted(found, key=lambda symbol: (symbol.name.startswith("_"), len(symbol.name), symbol.name))

    def compiler(self):
        """gcc12, or None when another compiler had a part in it."""
        names = re.findall(r"^\s*\[\s*[0-9a-f]+\]\s+(.+)$", run("readelf", "-p", ".comment", str(self.path)), re.M)
        majors = {match[1] if (match := re.match(r"GCC: .* (\d+)\.\d+\.\d+", name)) else None for name in names}
        return f"gcc{majors.pop()}" if len(majors) == 1 and None not in majors else None

    def family(self):
        """gcc or clang."""
        return "clang" if "clang version" in run("readelf", "-p", ".comment", str(self.path)) else "gcc"

    def function(self, name):
        """The symbol of a function, also where the compiler made a variant of it."""
        variant = re.compile(re.escape(name) + r"(\.(isra|constprop|part)\.\d+)*")
        return next((s for s in self.symbols if s.size > 0 and variant.fullmatch(s.name)), None)

    def at(self, address):
        return next((s for s in self.symbols if s.address <= address < s.address + s.size), None)

    def disassemble(self, symbol):
        """[(address, instruction)], as objdump prints them."""
        text = run("objdump", "-d", "-w", "--no-show-raw-insn", f"--start-address={symbol.address}",
                   f"--stop-address={symbol.address + symbol.size}", str(self.path))
        lines = re.findall(r"^\s*([0-9a-f]+):\t(.+)$", text, re.M)
        return [(int(at, 16), " ".join(code.split())) for at, code in lines]


# ---- normal form ------------------------------------------------------------------------------------------------------


def data_name(library, address, note):
    """What a rip-relative operand refers to; the linker's own slots have no name that lasts."""
    symbol = library.at(address)
    if symbol is not None:
        return symbol.name + (f"+{address - symbol.address:#x}" if address > symbol.address else "")
    return note.split("@")[0] if "@" in note else "<rip>"


def is_padding(code):
    return code.split()[0] in ("nop", "nopw", "nopl") or code == "xchg %ax,%ax"


def normalise(library, symbol):
    """Lines of a listing: labels for jumps within the function, names for everything outside, no padding."""
    lines = [(at, PADDING.sub("", code)) for at, code in library.disassemble(symbol)]
    jump = re.compile(r"^((?:j|call)\w*) ([0-9a-f]+) <.*>$")
    inside = range(symbol.address, symbol.address + symbol.size)
    targets = sorted({int(m[2], 16) for _, code in lines if (m := jump.match(code)) and int(m[2], 16) in inside})
    labels = {address: f".{number}" for number, address in enumerate(targets, 1)}
    out = []
    for at, code in lines:
        if at in labels:
            out.append(f"{labels[at]}:")
        if is_padding(code) or code == LANDING_PAD:
            continue
        if match := jump.match(code):
            address = int(match[2], 16)
            other = library.at(address)
            code = f"{match[1]} {labels.get(address) or (other.name if other else '<outside>')}"
        elif match := re.match(r"^(.*?)-?0x[0-9a-f]+(\(%rip\).*?) # ([0-9a-f]+) <(.*)>$", code):
            code = match[1] + data_name(library, int(match[3], 16), match[4]) + match[2]
        out.append("  " + code)
    return out


def hit_path(lines):
    """Instructions from the entry to ret, or to the jump into another function; conditional jumps are not taken."""
    count, at, seen = 0, 0, set()
    while at < len(lines):
        code = lines[at].strip()
        at += 1
        if code.endswith(":"):
            continue
        count += 1
        if code.startswith(("ret", "jmp *")):
            return count
        if code.startswith("jmp "):
            label = code.split()[1] + ":"
            if label not in lines or label in seen:
                return count
            seen.add(label)
            at = lines.index(label)
    return count


def make_listing(library):
    out = []
    for name in FUNCTIONS:
        symbol = library.function(name)
        lines = normalise(library, symbol) if symbol else []
        out.append(f"{name}: straight path {hit_path(lines)}" if symbol else f"{name}: not a function of its own")
        out += lines
    return out


def write_lines(file, lines):
    file.write_text("".join(line + "\n" for line in lines))


def counts_of(listing):
    return {m[1]: int(m[2]) for line in listing if (m := re.match(r"^(\w+): straight path (\d+)", line))}


# ---- the checks -------------------------------------------------------------------------------------------------------


class Limits(dict):
    def __missing__(self, what):
        raise Unable(f"limits.txt: nothing for {platform.machine()} {what}")


def read_limits(library, directory):
    """Of this machine, and this compiler where it has its own; None when there are none for the machine."""
    limits, machine, own = Limits(), platform.machine(), {}
    for line in (directory / "limits.txt").read_text().splitlines():
        words = line.split("#")[0].split()
        if not words:
            continue
        if len(words) != 3 or not re.fullmatch(r"\d+(\.\d+)?", words[2]):
            raise Unable(f"limits.txt: not 'machine what instructions': {line}")
        if words[0] == machine:
            limits[words[1]] = float(words[2])
        elif words[0] == f"{machine}-{library.family()}":
            own[words[1]] = float(words[2])
    if not limits:
        print(f"golden: skipped: limits.txt has no limits for {machine}")
        return None
    limits.update(own)
    return limits


def listing_file(library, directory):
    compiler = library.compiler()
    return directory / f"{platform.machine()}-{compiler}.txt" if compiler else None


def check(library, directory):
    limits = read_limits(library, directory)
    if limits is None:
        return 77
    now = make_listing(library)
    counts = counts_of(now)
    failed = False
    for name in LIMITED:
        verdict = "ok" if counts[name] <= limits[name] else "TOO MANY"
        failed |= verdict != "ok"
        print(f"{name}: {counts[name]} instructions on the hit path, limit {limits[name]:g}: {verdict}")
    file = listing_file(library, directory)
    if library.stripped or file is None or not file.exists():
        reason = "the library is stripped" if library.stripped else "there is none for the library's compiler"
        print(f"listing: not compared: {reason}")
        return int(failed)
    before = file.read_text().splitlines()
    if before == now:
        print(f"listing: as in {file.name}")
        return int(failed)
    print("\n".join(difflib.unified_diff(before, now, file.name, library.path.name, lineterm="")))
    old = counts_of(before)
    for name in FUNCTIONS:
        if old.get(name) != counts.get(name):
            print(f"{name}: straight path {old.get(name, 'none')} -> {counts.get(name, 'none')}")
    print(f"listing: differs from {file.name}; if that is meant: test/golden/golden.py update --library {library.path}")
    return 1


def update(library, directory):
    file = listing_file(library, directory)
    if file is None or library.stripped:
        raise Unable("listings are kept for unstripped libraries built by gcc alone")
    write_lines(file, make_listing(library))
    print(f"{file.name}: written")
    return 0


def pair_instructions(library, program, size):
    """Instructions of one pair: the difference of two runs leaves out the process's start and end."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE")}
    environment |= {"HEDDLE": "passthrough:off", "LD_PRELOAD": str(library.path.resolve())}
    totals = []
    with tempfile.TemporaryDirectory() as scratch:
        out = pathlib.Path(scratch, "callgrind")
        for pairs in (PAIRS, 2 * PAIRS):
            run("valgrind", "--quiet", "--tool=callgrind", f"--callgrind-out-file={out}", program, str(pairs), str(size),
                env=environment, timeout=60)
            total = re.search(r"^(?:totals|summary): (\d+)", out.read_text(), re.M)
            if total is None:
                raise Unable("callgrind wrote no total")
            totals.append(int(total[1]))
    return (totals[1] - totals[0]) / PAIRS


def count(library, directory, program):
    limits = read_limits(library, directory)
    if limits is None:
        return 77
    # malloc, free and the function of medium sizes each begin with one; the limits are of code without.
    pads = 3 if library.disassemble(library.function("malloc"))[0][1] == LANDING_PAD else 0
    failed = False
    for size in PAIR_BYTES:
        limit = limits[f"pair-{size}"] + pads
        instructions = pair_instructions(library, program, size)
        failed |= instructions > limit
        verdict = "TOO MANY" if instructions > limit else "ok"
        print(f"pair of {size} bytes: {instructions:.2f} instructions with its loop, limit {limit:g}: {verdict}")
    return int(failed)


def quiet_check(library, directory):
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        status = check(library, directory)
    return status, said.getvalue()


def selftest(library):
    """On a copy: the library's own listing passes; one instruction more in it, or a limit one lower, does not."""
    results = []  # (case, as expected)
    with tempfile.TemporaryDirectory() as scratch:
        copy = pathlib.Path(scratch)
        machine, listing = platform.machine(), make_listing(library)
        counts = counts_of(listing)
        limits_just = {name: counts[name] for name in LIMITED}

        def case(what, expected, phrase, **limits):
            write_lines(copy / "limits.txt", [f"{machine} {name} {most}" for name, most in (limits_just | limits).items()])
            status, said = quiet_check(library, copy)
            results.append((what, status == expected and phrase in said))

        file = listing_file(library, copy)
        if file is not None and not library.stripped:
            write_lines(file, listing)
            case("its own listing", 0, "listing: as in")
            write_lines(file, [*listing[:3], "  mov %rdi,%rdi", *listing[3:]])
            case("one instruction more", 1, "\n-  mov %rdi,%rdi\n")
            file.unlink()
        case("limits that just hold", 0, "listing: not compared")
        for name, most in limits_just.items():
            case(f"a limit too low for {name}", 1, "TOO MANY", **{name: most - 1})
    for what, right in results:
        print(f"selftest: {what}: {'ok' if right else 'WRONG'}")
    return 0 if all(right for _, right in results) else 1


def main():
    parser = argparse.ArgumentParser(description="Golden listings of Heddle's fast paths.")
    parser.add_argument("what", choices=["check", "update", "count", "selftest"])
    parser.add_argument("--library", dest="file", type=pathlib.Path, default=HERE.parents[1] / "build" / "libheddle.so")
    parser.add_argument("--pairs", default=str(HERE.parents[1] / "build" / "test" / "golden" / "pairs"), help="built from pairs.c")
    arguments = parser.parse_args()
    try:
        library = Library(arguments.file)
        if arguments.what == "check":
            return check(library, HERE)
        if arguments.what == "update":
            return update(library, HERE)
        if arguments.what == "count":
            return count(library, HERE, arguments.pairs)
        return selftest(library)
    except Missing as missing:
        print(f"golden: skipped: {missing}", file=sys.stderr)
        return 1 if os.environ.get("HEDDLE_CI") == "1" else 77
    except (Unable, OSError, subprocess.TimeoutExpired) as error:
        print(f"golden: {error}", file=sys.stderr)
        return 2


if __name__ == "__main__":
    sys.exit(main())
