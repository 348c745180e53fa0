"""The command as users meet it: a child process, its texts and its exit statuses."""

import json
import os
import shutil
import signal
import subprocess
import sys

import pytest

from heddle.allocators import SYSTEM, find_allocators, parse_extra
from heddle.demo import WORKLOADS
from heddle.demo_command import rounds_within
from heddle.errors import HeddleError
from heddle.info_commands import parse_bindings
from heddle.libraries import loader_accepts


def figures(done):
    (comparison,) = json.loads(done.stdout)["comparisons"]
    return comparison, {entry["name"]: entry["figures"] for entry in comparison["allocators"]}


@pytest.mark.parametrize("command", ["", "run", "compare", "demo", "allocators", "doctor"])
def test_help_everywhere(heddle, command):
    done = heddle(*command.split(), "--help")
    assert done.returncode == 0 and "Usage: heddle" in done.stdout and "--help" in done.stdout


def test_version(heddle):
    assert heddle("--version").stdout.startswith("heddle, version ")


@pytest.mark.parametrize("arguments, status, text", [
    (("run", "--library", "/no/such", "--", "true"), 1, "/no/such is not a file"),
    (("run", "--library", __file__, "--", "true"), 1, "is not a shared library"),
    (("run", "--set", "A=1", "--", "true"), 2, "key=value"),
    (("run",), 2, "Missing argument"),
    (("compare", "--", "no-such-program"), 127, "no-such-program: not found"),
    (("compare", "--only", "nothing", "--", "true"), 2, "no allocator 'nothing'"),
    (("compare", "--baseline", "nothing", "--", "true"), 2, "no allocator 'nothing'"),
    (("compare", "--rounds", "0", "--", "true"), 2, "--rounds"),
    (("compare", "--allocator", "x", "--", "true"), 2, "NAME=path"),
    (("compare", "--html", "/no/such/dir/x.html", "--", "true"), 2, "there is no directory"),
    (("demo", "--workloads", "cobol"), 2, "no workload 'cobol'"),
    (("doctor", "--library", "/no/such", "--", "true"), 1, "is not a file"),
])
def test_errors_are_clear_and_have_their_status(heddle, arguments, status, text):
    done = heddle(*arguments)
    assert done.returncode == status
    assert text in done.stderr and "Traceback" not in done.stderr


def test_a_static_program_is_an_error_before_anything_runs(heddle, compile_c):
    path = compile_c("static_command", "int main(void) { return 0; }", "-static")
    for command in ("compare", "doctor"):
        done = heddle(command, *(["--library", shared_library()] if command == "doctor" else []), "--", path)
        assert done.returncode == 126 and "statically linked" in done.stderr


def shared_library():
    """Any shared library that a program can be preloaded with."""
    with open("/proc/self/maps") as maps:
        return next(line.split()[-1] for line in maps if "/libc.so" in line or "/libc-" in line)


def test_run_passes_everything_through(heddle, fake_allocator):
    library = fake_allocator("through")
    done = heddle("run", "--library", library, "--set", "thp=never", "--stats", "--no-children", "--", "sh", "-c",
                  'echo "$HEDDLE|$LD_PRELOAD|$1"; cat; exit 42', "sh", "--stats", input="input")
    assert done.returncode == 42
    assert done.stdout == f"thp:never,stats:on,preload-children:off|{library}|--stats\ninput"
    assert heddle("run", "--library", library, "sh", "-c", "kill -TERM $$").returncode == -signal.SIGTERM


def test_run_on_heddle(heddle, heddle_library):
    done = heddle("run", "--", sys.executable, "-c", "print(sum(len(str(i)) for i in range(10000)))")
    assert (done.returncode, done.stdout) == (0, "38890\n"), done.stderr
    assert heddle("doctor", "--", sys.executable, "-c", "pass").returncode == 0


def test_a_slower_and_larger_allocator_is_found_out(heddle, fake_allocator, churner):
    slow = fake_allocator("slow", spin=3000, waste=32 << 20)
    done = heddle("compare", "--only", "system,slow", "--allocator", f"slow={slow}", "--rounds", "6", "--json", "-",
                  "--check-output", "--", churner)
    comparison, by_name = figures(done)
    assert done.returncode == 0, done.stderr
    assert by_name["slow"]["cpu"]["verdict"] == "more" and by_name["slow"]["cpu"]["ratio"]["low"] > 1.5
    assert by_name["slow"]["peak"]["verdict"] == "more" and by_name["slow"]["faults"]["verdict"] == "more"
    assert any(line.startswith("Least CPU time: system") for line in comparison["summary"])
    assert len({run["output_sha256"] for run in comparison["runs"]}) == 1


def test_the_same_allocator_twice_is_not_called_different(heddle, fake_allocator, churner):
    """Each attempt errs with 3 % by construction, so two of three must agree; memory must agree always."""
    same = fake_allocator("same")
    verdicts = []
    for _ in range(3):
        done = heddle("compare", "--only", "one,two", "--baseline", "one", "--allocator", f"one={same}",
                      "--allocator", f"two={same}", "--rounds", "6", "--json", "-", "--", churner)
        _, by_name = figures(done)
        verdicts.append(by_name["two"]["cpu"]["verdict"])
    assert verdicts.count("no difference shown") >= 2


def test_an_allocator_that_breaks_the_program_is_left_out(heddle, fake_allocator, churner):
    broken = fake_allocator("broken", fail=1)
    done = heddle("compare", "--only", "system,broken", "--allocator", f"broken={broken}", "--rounds", "2", "--",
                  churner)
    assert done.returncode == 1
    assert "broken: the program was ended by SIGABRT" in done.stdout and "left out" in done.stdout


def test_a_program_that_prints_otherwise_is_reported(heddle, fake_allocator):
    done = heddle("compare", "--only", "system,other", "--allocator", f"other={fake_allocator('other')}", "--rounds",
                  "2", "--warmup", "0", "--check-output", "--", "sh", "-c", "echo $LD_PRELOAD")
    assert done.returncode == 1 and "other: standard output differs from that under system" in done.stdout


def test_a_failing_program_is_still_compared(heddle, fake_allocator):
    done = heddle("compare", "--only", "system,failing", "--allocator", f"failing={fake_allocator('failing')}",
                  "--rounds", "2", "--", "sh", "-c", "echo why >&2; exit 3")
    assert done.returncode == 0
    assert "the program itself exited with status 3" in done.stdout and "its last words: why" in done.stdout


def test_compare_writes_both_reports_with_idle(heddle, tmp_path, fake_allocator, churner):
    done = heddle("compare", "--only", "system,own", "--allocator", f"own={fake_allocator('own')}", "--rounds", "2",
                  "--idle", "0.1", "--json", tmp_path / "r.json", "--html", tmp_path / "r.html", "--", churner)
    assert done.returncode == 0, done.stderr
    data = json.loads((tmp_path / "r.json").read_text())
    assert all(run["idle_rss_bytes"] > 100_000 for run in data["comparisons"][0]["runs"])
    assert "RSS after idle" in (tmp_path / "r.html").read_text()


def test_idle_without_a_compiler_says_why(heddle, churner):
    done = heddle("compare", "--only", "system", "--rounds", "1", "--idle", "0.1", "--", churner,
                  environment={"CC": "false"})
    assert "RSS after idle: n/a, " in done.stdout and "failed" in done.stdout


def test_every_real_allocator_found_runs_a_program(heddle):
    names = [name for name in find_allocators() if name != SYSTEM]
    if not names:
        pytest.skip("no other allocator is installed")
    done = heddle("compare", "--rounds", "2", "--warmup", "0", "--json", "-", "--check-output", "--",
                  sys.executable, "-I", "-S", "-c", "print(len([str(i) for i in range(50000)]))")
    comparison, by_name = figures(done)
    assert done.returncode == 0, (comparison["warnings"], done.stderr)
    assert set(by_name) == {SYSTEM, *names}
    assert all(run["library_seen"] for run in comparison["runs"] if run["allocator"] != SYSTEM)


def test_doctor_tells_why_not(heddle, compile_c, fake_allocator):
    own = compile_c("own_malloc", """
        #include <stddef.h>
        static char pool[1 << 20]; static size_t used;
        void *malloc(size_t bytes) { used += (bytes + 15) / 16 * 16; return pool + used; }
        void free(void *p) { (void)p; }
        int main(void) { free(malloc(10)); return 0; }
    """, "-rdynamic")
    done = heddle("doctor", "--library", fake_allocator("doctor"), "--", own)
    assert done.returncode == 1 and "override not active" in done.stdout
    real = [entry for name, entry in find_allocators().items() if name == "jemalloc"]
    if real:
        done = heddle("doctor", "--library", real[0].path, "--", sys.executable, "-c", "pass")
        assert done.returncode == 0 and "override active" in done.stdout


def test_bindings_of_the_allocator_itself_do_not_count(tmp_path):
    text = "  1: binding file /bin/x [0] to /lib/a.so [0]: normal symbol `malloc' [V]\n" \
           "  1: binding file /lib/a.so [0] to /lib/libc.so [0]: normal symbol `malloc'\n" \
           "  1: binding file /bin/x [0] to /lib/libc.so [0]: normal symbol `mallopt'\n"
    assert parse_bindings(text, "/lib/a.so").targets == {"/lib/a.so": ["/bin/x"]}
    assert parse_bindings(text, "/lib/a.so").all_to("/lib/a.so")


def test_allocators_lists_and_says_how_to_get_more(heddle):
    done = heddle("allocators")
    assert done.returncode == 0 and "system" in done.stdout
    for name in ("jemalloc", "mimalloc3"):
        assert name in done.stdout


def test_allocator_names(tmp_path):
    for text in ("noequals", "=path", "bad name=/x", "system=/x", "x=/no/such/file"):
        with pytest.raises(HeddleError):
            parse_extra(text)
    spaced = tmp_path / "with space.so"
    shutil.copy(shared_library(), spaced)
    with pytest.raises(HeddleError, match="space or a colon"):
        parse_extra(f"x={spaced}")


def test_the_loader_settles_what_nobody_saw(fake_allocator, tmp_path):
    binary = os.path.realpath(shutil.which("true"))
    assert loader_accepts(binary, fake_allocator("settled"), dict(os.environ)) is True
    assert loader_accepts(binary, str(tmp_path / "nothing.so"), dict(os.environ)) is False
    assert loader_accepts(str(tmp_path / "no-program"), "/x.so", {}) is None


def test_a_narrow_terminal_gets_a_table_for_each_figure(heddle):
    done = heddle("compare", "--only", "system", "--rounds", "2", "--", "true", environment={"COLUMNS": "60"})
    assert done.returncode == 0 and done.stdout.count("median, interval") == 4
    assert max(map(len, done.stdout.splitlines())) <= 60


@pytest.mark.parametrize("workload", WORKLOADS, ids=lambda workload: workload.name)
def test_demo_scripts_check_themselves(workload):
    program = shutil.which(workload.programs[0])
    if program is None:
        pytest.skip(f"{workload.programs[0]} is not installed")
    arguments = list(workload.arguments) + ([] if workload.on_stdin else [workload.path])
    with open(workload.path if workload.on_stdin else os.devnull) as stdin:
        done = subprocess.run([program, *arguments], stdin=stdin, capture_output=True, text=True, timeout=60)
    assert done.returncode == 0 and " ok" in done.stdout, done.stderr


def test_demo_says_what_is_missing(heddle, tmp_path):
    done = heddle("demo", environment={"PATH": str(tmp_path)})
    assert done.returncode == 127 and "apt-get install lua5.4" in done.stderr


def test_demo_fits_its_rounds_into_the_budget():
    assert rounds_within(100, 10, 6) == 6 and rounds_within(100, 25, 6) == 4
    assert rounds_within(10, 25, 6) == 3 and rounds_within(10, 25, 2) == 2


def test_demo_on_one_small_part(heddle):
    if shutil.which("python3") is None:
        pytest.skip("python3 is not on PATH")
    done = heddle("demo", "--workloads", "python", "--only", "system", "--rounds", "1", "--json", "-")
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["comparisons"][0]["runs"][0]["exit_status"] == 0


def test_stub_of_a_position_dependent_program():
    text = "\n".join([
        "  7: binding file /lib/c.so [0] to /bin/x [0]: normal symbol `malloc' [V]",
        "  7: binding file /bin/x [0] to /bin/x [0]: normal symbol `malloc' [V]",
        "  7: binding file /bin/x [0] to /lib/a.so [0]: normal symbol `malloc' [V]",
        "  7: binding file /lib/c.so [0] to /bin/x [0]: normal symbol `free' [V]",
    ])
    bindings = parse_bindings(text, "/lib/a.so")
    assert bindings.targets == {"/lib/a.so": ["/lib/c.so", "/bin/x"], "/bin/x": ["/lib/c.so"]}
    assert not bindings.all_to("/lib/a.so")  # its free is the program's own
