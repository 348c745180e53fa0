"""The layers that a seeded fault meets, in the order of what they cost, and running one of them on a library.

SPDX-License-Identifier: MIT
"""
import os
import resource
import signal
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

TESTS = Path(__file__).resolve().parent.parent
SEED = "20261121"
API = ("base", "core", "os")              # what the tests of the core can see of the source
OBJECTS = (*API, "objects")
ALL = (*OBJECTS, "override")


class Layer(NamedTuple):
    name: str
    kind: str                # api: linked with the library; process: run with it preloaded; pytest; sched
    program: str             # of the build; or the tests' directory; or the models of the explorer
    arguments: str = ""      # a | starts it once more
    sees: tuple = API
    environment: str = ""
    timeout: int = 30


UNITS = """sizeclass magazine lender shorter turns beginning remote remote_late parcel thread_edges page bits options text blockindex store
    region lock thread heap alloc api report stats space waves large large_moves across sparse_runs shelf purge collect orphans loose stops
    neighbours huge huge_again huge_cost huge_fast huge_small inherit pairs ahead order rows moves locked resident
    addresses clock purge_helper early host""".split()

TRAPS = " | ".join("""restore_exact whole_size huge_size bad_alignment point_anywhere exact_fit wrapping_size says_what_is_left
    memory_returns points_hold empty_stays empty_yields dense_is_huge sparse_is_small cut_short both_sides_return zero_is_free guards
    frames bad_configs""".split())

MODELS = "block_reuse push_collect adopt heap_destroy region_release page_reuse exit_free fork_free purge_alloc last_bit parcels " \
    "parcel_collect look loose"

LAYERS = [
    *[Layer(f"unit.{name}", "api", f"unit_{name}", sees=OBJECTS if name == "region" else API) for name in UNITS],
    Layer("growth", "api", "growth"),
    Layer("sparse", "api", "sparse"),
    Layer("model", "api", "model_api", "-t 1 -n 300000 --shrink-seconds 1", OBJECTS),
    Layer("limits", "api", "limits_api"),
    Layer("operators", "process", "operators", sees=ALL),
    Layer("own_clock", "process", "own_clock", sees=ALL),
    Layer("limits.process", "process", "limits_process", sees=ALL),
    Layer("deepbind", "process", "deepbind", "libtest_plugin_apart.so dropped", ALL),
    Layer("options", "pytest", "options", sees=ALL, timeout=60),
    Layer("misuse", "pytest", "misuse", sees=ALL, timeout=60),
    Layer("symbols", "pytest", "symbols", sees=ALL, timeout=60),
    Layer("arena.traps", "api", "arena_traps", TRAPS, OBJECTS),
    Layer("pool.model", "api", "pool_model", sees=OBJECTS),
    Layer("handle.model", "api", "handle_model", sees=OBJECTS),
    Layer("string_pool.model", "api", "string_pool_model", sees=OBJECTS),
    Layer("arena.model", "api", "arena_model", sees=OBJECTS),
    Layer("index.model", "api", "index_model", sees=OBJECTS),
    Layer("pool.threads", "api", "pool_threads", sees=OBJECTS),
    Layer("pool.fault", "api", "pool_fault", sees=OBJECTS),
    Layer("arena.fault", "api", "arena_fault", sees=OBJECTS),
    Layer("threads", "api", "threads_api"),
    Layer("first", "api", "first_api"),
    Layer("early", "api", "early", "handlers-before-calls first-calls-and-forks fork-in-start threads-in-start"),
    Layer("race", "api", "race_plain", sees=OBJECTS),
    Layer("one_user", "api", "one_user"),
    Layer("model.race", "api", "model_api", "--race -t 4 -n 500000", OBJECTS),
    Layer("model.purge", "api", "model_api", "--race -t 4 -n 300000", OBJECTS, "HEDDLE=purge-delay:0,onerror:ignore"),
    Layer("fault.look", "api", "faults", "-w look"),
    Layer("leave", "api", "leave_api"),
    Layer("ends", "api", "ends_api", timeout=60),
    Layer("filtered", "api", "filtered_api", timeout=60),
    Layer("rights", "api", "rights_api", timeout=60),
    Layer("fork", "api", "fork_api", timeout=60),
    Layer("fork.ways", "api", "fork_ways_api", timeout=60),
    Layer("fork.handlers", "api", "fork_handlers_api", timeout=60),
    Layer("return", "api", "return_api", timeout=60),
    Layer("hourly", "process", "hourly", "-t 3 -n 0.5 -m short", ALL, "HEDDLE=purge-delay:50", timeout=60),
    Layer("hardened.unit", "api", "hardened_unit", environment="HEDDLE=hardened,hardened-sample:0"),
    Layer("fault.hardened", "api", "faults", "-w look", environment="HEDDLE=hardened,hardened-sample:10", timeout=60),
    Layer("hardened.limits", "process", "limits_process", sees=ALL, environment="HEDDLE=hardened", timeout=60),
    Layer("fault.heap", "api", "faults", "-w heap", timeout=120),
    Layer("fault.tight", "api", "faults", "-w tight", timeout=120),
    Layer("sched", "sched", MODELS, timeout=400),
]
BY_NAME = {layer.name: layer for layer in LAYERS}


def layers_for(file, until):
    """Layers that can see the file, the cheapest first."""
    last = LAYERS.index(BY_NAME[until])
    return [layer for layer in LAYERS[:last + 1] if file.split("/")[0] in layer.sees]


def quiet_end():
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))


def end_group(process):
    try:
        os.killpg(process.pid, signal.SIGKILL)
    except ProcessLookupError:
        pass


def run(command, environment, timeout, folder):
    """(status or None after the timeout, output)"""
    clean = {k: v for k, v in os.environ.items() if not k.startswith("HEDDLE") and k != "LD_PRELOAD"}
    clean |= {"HEDDLE_TEST_SEED": SEED, "PYTHONDONTWRITEBYTECODE": "1", **environment}
    with subprocess.Popen(command, env=clean, cwd=folder, stdin=subprocess.DEVNULL, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
                          start_new_session=True, preexec_fn=quiet_end) as process:
        try:
            output, _ = process.communicate(timeout=timeout)
            status = process.returncode
        except subprocess.TimeoutExpired:
            status, output = None, b""
        end_group(process)  # also what it has left behind
    return status, output.decode(errors="replace")


TELLING = ("[  ERROR", "heddle:", "FAIL", "Expected", "Error", "ERROR", "failed", "error:", "differs", " != ")


def message(status, output):
    """The line of the output that says most, and how the program ended."""
    lines = [line.strip() for line in output.splitlines() if line.strip()]
    end = "no end" if status is None else f"signal {signal.Signals(-status).name}" if status < 0 else f"status {status}"
    for mark in TELLING:
        for line in lines:
            if mark in line:
                return f"{line[:150]} ({end})"
    return f"{lines[-1][:150]} ({end})" if lines else end


def commands(layer, built):
    """(commands, environment) of a layer that starts programs."""
    environment = dict([layer.environment.split("=", 1)] if layer.environment else [])
    if layer.kind == "pytest":
        built.shared(), built.archive()
        environment |= {"HEDDLE_BUILD": str(built.folder), "HEDDLE_TEST_BIN": str(built.test_programs)}
        pytest = [sys.executable, "-B", "-m", "pytest", "-q", "-x", "-p", "no:cacheprovider", "--tb=line", str(TESTS / layer.program)]
        return [pytest], environment
    if layer.kind == "process":
        environment |= {"LD_PRELOAD": str(built.shared()), "HEDDLE_TEST_EXPECT": "1"}
    program = built.program(layer.program) if layer.kind == "api" else built.built_program(layer.program)
    return [[str(program), *arguments.split()] for arguments in layer.arguments.split("|")], environment


def run_layer(layer, built, folder):
    """Whether the library in `built` passes the layer: (passed, message)."""
    if layer.kind == "sched":
        return built.explore(layer.program.split())
    each, environment = commands(layer, built)
    for command in each:
        status, output = run(command, environment, layer.timeout, folder)
        if status != 0:
            return False, message(status, output)
    return True, ""
