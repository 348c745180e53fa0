"""The system refuses from outside: limits on addresses and data, calls that strace makes fail, a memory cgroup, and the fault layer inside
real programs. Each program ends well or with its own word about memory, never by a signal, and what it prints is right or nothing.

SPDX-License-Identifier: MIT
"""
import os
import pathlib
import resource
import signal
import subprocess

import pytest

MIB = 1 << 20
SMALL = {"sort": ["sort", "-n"], "python3": ["python3", "-S", "-c", "print(sum(len(str(i)) for i in list(range(30000))))"]}
FULL = pathlib.Path(os.environ.get("HEDDLE_FAULT_LONG", "")).name == "1"


@pytest.fixture
def victim(heddle):
    return heddle.program("fault/victim")


def judge(done, what):
    """3 is the victim's own word; programs say what they like, but no signal ends them, nor does Heddle report anything."""
    assert done.code >= 0, f"{what}: ended by {signal.Signals(-done.code).name}: {done.err[-300:]}"
    assert "heddle: " not in done.err, f"{what}: {done.err[-300:]}"
    assert "lost its content" not in done.err and "errno is" not in done.err, f"{what}: {done.err[-300:]}"
    return done.code


def limited(kind, bytes_):
    return lambda: resource.setrlimit(kind, (bytes_, bytes_))


@pytest.mark.parametrize("kind", ["AS", "DATA"])
@pytest.mark.parametrize("shape", ["", "threads"])
def test_limits_on_a_victim(heddle, victim, kind, shape):
    codes = set()
    for mib in [8, 12, 16, 20, 26, 34, 48, 64, 90, 128, 200, 400, 4000]:
        done = heddle.run(victim, shape, preexec_fn=limited(getattr(resource, f"RLIMIT_{kind}"), mib * MIB))
        code = judge(done, f"RLIMIT_{kind} {mib} MiB")
        assert code in (0, 3) or "error while loading" in done.err or code == 127, f"{mib} MiB: {done}"
        codes.add(code)
    assert {0, 3} <= codes, f"the limits are too wide or too narrow: {codes}"


def run_limited(name, bytes_=None, environment=None):
    text = "".join(f"{i * 7919 % 10007}\n" for i in range(10000))
    return subprocess.run(SMALL[name], input=text, capture_output=True, text=True, check=False, env=environment,
                          preexec_fn=bytes_ and limited(resource.RLIMIT_AS, bytes_), timeout=60)


def falls_over_by_itself(name):
    """Whether one limit or another makes the program fault on the system's malloc: Python 3.13 reads where NULL points to."""
    return any(run_limited(name, kib << 10).returncode == -signal.SIGSEGV for kib in range(10_000, 16_000, 16))


@pytest.mark.parametrize("name", sorted(SMALL))
def test_limits_on_programs(heddle, need, name):
    need(name)
    want = run_limited(name).stdout
    assert want
    good = 0
    for mib in [16, 24, 32, 40, 56, 80, 120, 200, 1000]:
        done = run_limited(name, mib * MIB, heddle.environment())
        # An interpreter that gives up while it starts may abort, with its reason; the same limit does that to it on any allocator.
        fatal = done.returncode == -signal.SIGABRT and "memory" in done.stderr.lower()
        assert done.returncode >= 0 or fatal or (done.returncode == -signal.SIGSEGV and falls_over_by_itself(name)), f"{mib} MiB: {done}"
        if done.returncode == 0:
            assert done.stdout == want
            good += 1
    assert good >= 1


def test_a_limit_below_what_is_used(heddle, victim):
    """Moving pages may lose the place they should go to, when the system lets go of it before it refuses."""
    assert judge(heddle.run(victim, "shrunk", options="purge-delay:0"), "shrunk") in (0, 3)


@pytest.fixture(scope="session")
def strace(need):
    path = need("strace")
    done = subprocess.run([path, "-o", "/dev/null", "true"], capture_output=True, check=False)
    if done.returncode != 0:
        pytest.skip("this machine does not let strace trace")
    return path


@pytest.mark.parametrize("call", ["mmap", "mprotect", "madvise", "mremap", "membarrier", "clone", "munmap"])
def test_calls_that_strace_refuses(heddle, victim, strace, call):
    """From the n-th on, and the n-th alone. The first calls are the loader's; a program that it can't start ends with 127."""
    numbers = range(1, 60, 1 if FULL else 7)
    for n in numbers:
        for more in ("", "+"):
            what = f"{call}:when={n}{more}"
            done = heddle.run(strace, "-f", "-o", "/dev/null", "-E", f"LD_PRELOAD={heddle.shared}", "-e",
                              f"inject={call}:error=ENOMEM:when={n}{more}", victim, preload=False)
            if done.code < 0:  # the loader's own calls, when it dies of that without Heddle too
                inject = f"inject={call}:error=ENOMEM:when={n}{more}"
                bare = heddle.run(strace, "-f", "-o", "/dev/null", "-e", inject, victim, preload=False)
                assert bare.code == done.code, f"{what}: ended by {signal.Signals(-done.code).name}: {done.err[-300:]}"
            else:
                assert judge(done, what) in (0, 1, 3, 127), f"{what}: {done}"


def cgroup():
    """A memory cgroup of ours, or the reason why there is none."""
    for root, limit in (("/sys/fs/cgroup", "memory.max"), ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")):
        path = pathlib.Path(root) / f"heddle-test-{os.getpid()}"
        try:
            path.mkdir()
        except OSError:
            continue
        if (path / limit).exists():
            return path, limit
        path.rmdir()
    return None, None


def test_memory_cgroup(heddle, victim):
    """Here the kernel kills, and only that: at 256 MiB a victim of 60 MiB lives, and memory that was freed is not charged to it."""
    path, limit = cgroup()
    if path is None:
        pytest.skip("no memory cgroup can be made here")
    try:
        (path / limit).write_text(str(256 * MIB))
        done = heddle.run(victim, "threads", preexec_fn=lambda: (path / "cgroup.procs").write_text(str(os.getpid())))
        assert judge(done, "cgroup") == 0
    finally:
        path.rmdir()


@pytest.mark.parametrize("plan", ["mode:once", "mode:from", "mode:every", "mode:from,most:16m", "mode:every,most:16m"])
def test_layer_in_a_program(heddle, need, victim, plan):
    """The same refusals as the driver's, in programs that know nothing of them."""
    library = str(heddle.build / "test" / "fault" / "libheddle-fault.so")
    for n in range(1, 80, 3 if FULL else 16):
        env = {"LD_PRELOAD": library, "HEDDLE_FAULT": f"{plan},n:{n}"}
        assert judge(heddle.run(victim, "threads", preload=False, env=env), f"{plan},n:{n}") in (0, 3)
        if "every" not in plan:
            judge(heddle.run(need("sort"), __file__, preload=False, env=env), f"sort {plan},n:{n}")


@pytest.mark.parametrize("page", ["16k", "64k"])
@pytest.mark.parametrize("program", ["python3", "sqlite3", "sort", "victim"])
def test_pages_in_programs(heddle, need, victim, program, page):
    """Systems with larger pages, pretended: each call to the system is for whole ones."""
    argv = {
        "python3": ["-c", "import json; print(len(json.dumps([str(i) * 50 for i in range(60000)])))"],
        "sqlite3": [":memory:", "create table t(x); with recursive c(i) as (select 1 union all select i+1 from c where i<50000)"
                    "insert into t select hex(i) from c; select count(distinct x), sum(length(x)) from t;"],
        "sort": [__file__],
        "victim": ["threads"],
    }[program]
    path = victim if program == "victim" else need(program)
    library = str(heddle.build / "test" / "fault" / "libheddle-fault.so")
    plain = heddle.run(path, *argv, preload=False)
    ours = heddle.run(path, *argv, preload=False, env={"LD_PRELOAD": library, "HEDDLE_FAULT": f"page:{page}"})
    assert ours == plain and plain.code == 0, ours
