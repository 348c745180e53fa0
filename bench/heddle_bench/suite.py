"""The rows of the benchmark: which program, with which arguments, and which belong to the quick run."""

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Row:
    name: str  # shown in tables, e.g. "larson t2"
    family: str  # the same for all thread counts: "larson"
    threads: int
    command: tuple  # program and arguments; {bin} is the workloads' directory, {apps} and {tmp} likewise
    quick: bool = False
    real: bool = False  # a real program, not a workload of ours
    needs: str = ""  # a program that must be on PATH
    package: str = ""  # Debian's package of it
    env: dict = field(default_factory=dict)
    stdin: str = ""  # a file, with the same placeholders
    driver: str = ""  # name of a function in apps.py that talks to the program while it runs
    expect: str = ""  # a word that the output must have

    @classmethod
    def from_json(cls, fields):
        return cls(**fields | {"command": tuple(fields["command"])})


# (program, mode, scale, thread counts, quick). Scale brings one run to about 0.2 to 1 second on one core.
WORKLOADS = (
    [
        ("empty", "", 1, (1,), True),
        ("larson", "", 1, (1, 2, 8), True),
        ("xmalloc", "", 1, (1, 2, 8), True),
        ("mstress", "", 1, (1, 2, 8), True),
        ("rptest", "", 1, (1, 2, 8), True),
        ("cfrac", "", 1, (1, 2), True),
        ("espresso", "", 1, (1, 2), True),
        ("alloctest", "", 1, (1, 2, 8), True),
        ("shbench", "sh6", 1, (1, 2, 8), True),
        ("shbench", "sh8", 1, (2, 8), False),
        ("cache", "thrash", 1, (2, 8), False),
        ("cache", "scratch", 1, (2, 8), True),
        ("glibcbench", "simple", 1, (1, 2), True),
        ("glibcbench", "thread", 1, (1, 2, 8), True),
        ("large", "malloc-large", 1, (1,), True),
        ("large", "blocks", 1, (1,), False),
        ("large", "frames", 1, (1,), False),
        ("large", "buffers", 1, (1, 2), False),
        ("large", "begun", 1, (1, 2), False),
        ("large", "ends", 1, (1, 2), False),
        ("large", "image", 0.5, (1, 2), True),
        ("realloc", "many", 2, (1, 2), False),
        ("realloc", "append", 1, (1, 2), False),
        ("realloc", "shrink", 1, (1, 2), False),
        ("realloc", "touched", 1, (1,), True),
        ("realloc", "untouched", 0.2, (1,), True),
        ("calloc", "small", 1, (1,), True),
        ("calloc", "small-malloc", 1, (1,), False),
        ("calloc", "fresh", 1, (1,), True),
        ("calloc", "reused", 1, (1,), False),
        ("calloc", "big-untouched", 1, (1,), False),
        ("calloc", "big-touched", 1, (1,), False),
        ("calloc", "big-reused", 1, (1,), False),
        ("calloc", "table-front", 1, (1,), False),
        ("calloc", "table-spread", 1, (1,), False),
        ("calloc", "table-long", 1, (1,), False),
        ("threadlife", "", 1, (1, 8), True),
        ("threadlife", "together", 1, (1,), False),
        ("server", "", 2, (1, 2, 8), True),
        ("pipeline", "", 1, (1, 2), True),
        ("tree", "binary", 2, (1, 2), True),
        ("tree", "tall", 2, (1, 2), False),
        ("tree", "map", 2, (1, 2), True),
        ("tree", "list", 1, (1, 2), False),
        ("kv", "", 0.5, (1,), True),
        ("vectors", "", 0.7, (1, 2), True),
        ("waves", "", 1, (1, 2, 8), True),
        ("loglines", "", 1, (1, 2), True),
        ("cxx", "sized", 1, (1, 2, 8), True),
        ("cxx", "heirs", 1, (1, 2, 8), False),
        ("cxx", "crowd", 1, (1, 2), False),
        ("cxx", "objects", 1, (1, 2), True),
        ("cxx", "containers", 1, (1, 2), True),
    ]
    + [("pairs", f"pair-{size}", 1, (1,), size in (64, 32768)) for size in (16, 64, 1024, 2000, 32768, 262144, 1048576)]
    + [
        ("pairs", "lifo100", 1, (1,), False),
        ("pairs", "fifo", 2, (1,), False),
        ("pairs", "random", 1, (1,), False),
        ("pairs", "batch", 1, (1,), False),
        ("pairs", "replace", 1, (1,), True),
        ("pairs", "spsc", 0.25, (1,), True),
        ("pairs", "spsc-held", 0.25, (1,), False),
        ("pairs", "pingpong-1", 1, (1,), False),
        ("pairs", "pingpong-2", 1, (1,), False),
        ("pairs", "pingpong-4", 1, (1,), False),
        ("pairs", "pingpong-8", 1, (1,), False),
        ("pairs", "queue-2048", 1, (2,), False),
        ("pairs", "queue-16384", 1, (2,), False),
    ]
)

IDLE_MODES = ("whole-order", "whole-reverse", "random2", "random10")
SCALING_THREADS = (1, 2, 4, 8, 16)
SCALING = ("larson", "alloctest", "glibcbench", "mstress")


def workload_row(program, mode, scale, threads, quick):
    family = f"{program}/{mode}" if mode else program
    command = ("{bin}/" + program, "-t", str(threads), "-n", f"{scale:g}") + (("-m", mode) if mode else ())
    return Row(f"{family} t{threads}", family, threads, command, quick)


def workload_rows(factor=1.0, quick=False):
    """All workload rows; `factor` scales the work, and eight threads get a quarter of it each."""
    rows = []
    for program, mode, scale, counts, in_quick in WORKLOADS:
        for threads in counts:
            if quick and (not in_quick or threads > 2 and program != "larson"):
                continue
            share = 0.25 if threads > 2 else 1.0
            rows.append(workload_row(program, mode, scale * share * factor, threads, in_quick))
    return rows


def idle_rows():
    """Memory returned: 10 seconds of sleep each, so they run once per allocator and in a table of their own."""
    return [workload_row("burst", mode, 1, threads, False) for mode in IDLE_MODES for threads in (1, 4)]


def hourly_rows():
    """Months in miniature: about a minute each, nearly all of it asleep."""
    return [workload_row("hourly", "hours", 1, threads, False) for threads in (1, 4)]


def scaling_rows(factor=1.0):
    rows = []
    for program, mode, scale, _, _ in WORKLOADS:
        if program in SCALING and mode != "simple":
            rows += [workload_row(program, mode, scale * factor * 0.5, threads, False) for threads in SCALING_THREADS]
    return rows


def shape_rows(kind, first, last, factor=1.0):
    """Random shapes of programs, by number: what no row was written for. kind: the workload that draws them, shape or longshape."""
    return [
        Row(f"{kind} {seed}", kind, 1, (f"{{bin}}/{kind}", "-s", str(seed), "-n", f"{factor:g}")) for seed in range(first, last + 1)
    ]


def real_rows():
    def real(name, command, package, needs=None, **more):
        return Row(name, name, 1, tuple(command), real=True, needs=needs or command[0], package=package, **more)

    return [
        real("python3", ("python3", "-I", "{apps}/objects.py"), "python3", quick=True),
        real("python3 malloc", ("python3", "{apps}/objects.py"), "python3", env={"PYTHONMALLOC": "malloc"}),
        real("lua5.4", ("lua5.4", "{apps}/tables.lua"), "lua5.4", quick=True),
        real("perl", ("perl", "{apps}/words.pl"), "perl"),
        real("gcc", ("gcc", "-std=gnu11", "-O2", "-c", "-o", "{tmp}/out.o", "{bench}/workloads/burst.c"), "gcc"),
        real("sqlite3", ("sqlite3", "-bail", ":memory:"), "sqlite3", stdin="{apps}/memory.sql", quick=True, expect="ok"),
        real(
            "redis",
            (
                "redis-server",
                "--port",
                "0",
                "--unixsocket",
                "{tmp}/redis.sock",
                "--save",
                "",
                "--appendonly",
                "no",
                "--daemonize",
                "no",
                "--dir",
                "{tmp}",
            ),
            "redis-server",
            driver="redis",
        ),
        real(
            "ghostscript",
            ("gs", "-q", "-dNOPAUSE", "-dBATCH", "-dSAFER", "-sDEVICE=ppmraw", "-r100", "-o", "/dev/null", "{apps}/page.ps"),
            "ghostscript",
        ),
        real("z3", ("z3", "-in"), "z3", stdin="{tmp}/pigeons.smt2", expect="unsat"),
        real("xz", ("xz", "-T2", "--stdout", "{tmp}/many-pigeons.smt2"), "xz-utils"),
        real("sort", ("sort", "--parallel=2", "{tmp}/many-pigeons.smt2"), "coreutils"),
    ]
