"""Runs of real small programs: are the figures those of the program, and only of it?"""

import os
import subprocess
import sys
import time

import pytest

from heddle import launch, proc
from heddle.allocators import Allocator
from heddle.idle import build_shim
from heddle.measure import Plan, run_once
from heddle.target import resolve_target

SYSTEM = Allocator("system", "", None)
MIB = 1 << 20


@pytest.fixture
def plan(tmp_path):
    def make(program, *arguments, **extra):
        return Plan(resolve_target(program), list(arguments), dict(os.environ), scratch=str(tmp_path), **extra)

    return make


def test_the_peak_of_a_small_program_is_not_that_of_this_interpreter(plan):
    run = run_once(plan("true"), SYSTEM, 0)
    assert run.exit_status == 0
    assert 100_000 < run.peak_bytes < 8 * MIB
    assert proc.rss_bytes(os.getpid()) > 8 * MIB
    assert 0 < run.wall_s < 5 and 0 < run.faults < 5000


def test_without_the_launcher_the_peak_is_that_of_the_program_too(plan, monkeypatch):
    monkeypatch.setattr(launch, "indirect_launcher", lambda: "")
    run = run_once(plan("sleep", "0.2"), SYSTEM, 0)
    assert run.exit_status == 0 and 100_000 < run.peak_bytes < 8 * MIB


def test_exit_statuses_and_signals(plan):
    assert run_once(plan("sh", "-c", "exit 7"), SYSTEM, 0).exit_status == 7
    assert run_once(plan("sh", "-c", "kill -9 $$"), SYSTEM, 0).exit_status == -9


def test_cpu_wall_and_peak_are_those_of_the_work(plan):
    work = "import time; b = bytearray(b'x') * (80 << 20); t = time.process_time()\n" \
           "while time.process_time() - t < 0.3: pass\ntime.sleep(0.2)"
    run = run_once(plan(sys.executable, "-I", "-S", "-c", work), SYSTEM, 0)
    assert 0.3 <= run.cpu_s < 2.0 and run.wall_s >= 0.5
    assert 80 * MIB <= run.peak_bytes < 140 * MIB


def test_the_peak_of_a_tree_is_a_sum(plan):
    child = f"{sys.executable} -I -S -c \"b = bytearray(b'x') * (40 << 20); import time; time.sleep(0.6)\""
    run = run_once(plan("sh", "-c", f"{child} & {child} & wait"), SYSTEM, 0)
    assert run.processes == 3 and run.peak_bytes >= 80 * MIB


def test_a_timeout_ends_the_whole_tree(plan):
    begin = time.monotonic()
    run = run_once(plan("sh", "-c", "sleep 61.5 & sleep 61.5", timeout_s=0.3), SYSTEM, 0)
    assert run.timed_out and time.monotonic() - begin < 5
    assert subprocess.run(["pgrep", "-f", "sleep 61.5"], capture_output=True).stdout == b""


def test_what_a_program_leaves_behind_is_ended(plan):
    run = run_once(plan("sh", "-c", "setsid sleep 62.5 & exit 0"), SYSTEM, 0)
    assert run.exit_status == 0
    assert subprocess.run(["pgrep", "-f", "sleep 62.5"], capture_output=True).stdout == b""


def test_output_is_hashed_and_errors_are_kept(plan):
    def run(text):
        return run_once(plan("sh", "-c", f"echo {text}; echo trouble >&2", hash_output=True), SYSTEM, 0)

    assert run("one").output_sha256 == run("one").output_sha256 != run("two").output_sha256
    assert run("one").stderr_tail == "trouble"


def test_the_library_is_seen_in_the_program(plan, fake_allocator):
    library = fake_allocator("seen")
    assert run_once(plan("sleep", "0.1"), Allocator("seen", "", library), 0).loaded is True


def test_rss_after_idle_of_a_program_that_ends(plan, tmp_path, compile_c):
    shim, reason = build_shim(str(tmp_path))
    assert shim, reason
    program = compile_c("holder", """
        #include <stdlib.h>
        #include <string.h>
        #include <unistd.h>
        int main(int count, char **words) {
          char *p = malloc(30 << 20);
          memset(p, 1, 30 << 20);
          if (words[1][0] == 'f') free(p);
          if (count > 2) _exit(3);
          return 0;
        }
    """)
    kept = run_once(plan(program, "keep", idle_s=0.2, shim=shim), SYSTEM, 0)
    freed = run_once(plan(program, "free", idle_s=0.2, shim=shim), SYSTEM, 0)
    fast_exit = run_once(plan(program, "keep", "exit", idle_s=0.2, shim=shim), SYSTEM, 0)
    assert kept.idle_bytes >= 30 * MIB > 10 * MIB > freed.idle_bytes
    assert fast_exit.exit_status == 3 and fast_exit.idle_bytes >= 30 * MIB
    assert kept.wall_s < 0.2 and kept.exit_status == 0


def test_a_server_is_sampled_at_rest_and_ended(plan):
    work = "import time; b = bytearray(b'x') * (20 << 20); time.sleep(60)"
    run = run_once(plan(sys.executable, "-I", "-S", "-c", work, idle_s=0.3, server=True), SYSTEM, 0)
    assert run.exit_status == -15 and run.idle_bytes >= 20 * MIB and run.wall_s < 3


def test_a_compiler_that_fails_is_a_reason(tmp_path, monkeypatch):
    monkeypatch.setenv("CC", "false")
    shim, reason = build_shim(str(tmp_path))
    assert shim is None and "false failed" in reason
