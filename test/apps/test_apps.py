"""Real programs with and without Heddle: the same results, and Heddle was really there.

SPDX-License-Identifier: MIT
"""
import hashlib
import pathlib
import re
import socket
import subprocess
import sys
import time

import pytest

SCRIPTS = pathlib.Path(__file__).parent / "scripts"


def active_in(pid):
    """Whether the process has libheddle mapped."""
    return "libheddle.so" in pathlib.Path(f"/proc/{pid}/maps").read_text()


@pytest.fixture
def both(heddle):
    """Run a program without and with Heddle; the outcomes must be equal. Returns the common outcome."""

    def run(*argv, repeat=lambda: None, **keywords):
        plain = heddle.run(*argv, preload=False, **keywords)
        repeat()
        ours = heddle.run(*argv, **keywords)
        assert ours == plain
        assert plain.code == 0, plain
        return ours

    return run


@pytest.mark.parametrize("program", ["python3", "git", "gcc", "perl", "lua5.4", "sqlite3"])
def test_heddle_is_active(heddle, need, program):
    """A program's own statistics at exit show live blocks, and the loader has mapped the library."""
    done = heddle.run(need(program), "--version" if program != "lua5.4" else "-v", options="stats:json")
    assert done.code == 0
    assert re.search(r'"live_count": ?\d+', done.err), "no statistics at exit: Heddle was not active"


def test_maps_of_a_running_program(heddle, need):
    process = subprocess.Popen([need("cat")], env=heddle.environment(), stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    try:
        process.stdin.write(b"up\n")
        process.stdin.flush()
        assert process.stdout.readline() == b"up\n"
        assert active_in(process.pid)
    finally:
        process.stdin.close()
        assert process.wait(10) == 0


def test_python_script(both, need):
    assert len(both(need("python3"), SCRIPTS / "objects.py", timeout=60).out) > 60


def verdict(done):
    """What of a unittest run must be equal: the count and the names of the tests that did not pass."""
    text = done.out + done.err
    counts = re.findall(r"^Ran (\d+) tests", text, re.M)
    return done.code, counts, sorted(re.findall(r"^(?:FAIL|ERROR): (\S+)", text, re.M))


@pytest.mark.parametrize("part", ["test_dict", "test_list", "test_json", "test_threading.ThreadTests"])
def test_python_own_tests(heddle, need, tmp_path, part):
    python = need("python3")
    if heddle.run(python, "-c", f"import test.{part.split('.')[0]}", preload=False).code != 0:
        pytest.skip("python's test package is not installed")
    runs = [heddle.run(python, "-m", "unittest", f"test.{part}", timeout=150, cwd=tmp_path, preload=preload,
                       env={"PYTHONMALLOC": "malloc"}) for preload in (False, True)]
    assert verdict(runs[1]) == verdict(runs[0]), runs[1].err[-3000:]
    assert int(verdict(runs[1])[1][0]) > 20
    assert "heddle:" not in runs[1].out + runs[1].err


def test_python_with_its_allocator_off(both, need):
    """Every object of the interpreter comes from malloc."""
    both(need("python3"), SCRIPTS / "objects.py", timeout=60, env={"PYTHONMALLOC": "malloc"})


def test_gcc_objects_are_equal(heddle, need, tmp_path):
    gcc, digests = need("gcc"), []
    for preload in (False, True):
        out = tmp_path / f"program{preload}.o"
        done = heddle.run(gcc, "-O2", "-c", SCRIPTS / "program.c", "-o", out, preload=preload)
        assert (done.code, done.err) == (0, "")
        digests.append(hashlib.sha256(out.read_bytes()).hexdigest())
    assert digests[0] == digests[1]


def test_perl(both, need):
    both(need("perl"), SCRIPTS / "words.pl")


def test_lua(both, need):
    both(need("lua5.4"), SCRIPTS / "tables.lua")


def test_sqlite(both, need):
    with open(SCRIPTS / "rows.sql", encoding="utf8") as script:
        both(need("sqlite3"), ":memory:", "-batch", stdin=script, repeat=lambda: script.seek(0))


def make_repository(run, folder):
    folder.mkdir()
    run("init", "-q", "-b", "main", ".")
    for number in range(12):
        for at in range(15):
            text = "\n".join(f"{number * at * line} line {line} of {at}" for line in range(120 + at * 10))
            (folder / f"file{at}.txt").write_text(text)
        run("add", ".")
        run("commit", "-q", "-m", f"change {number}")


def test_git(heddle, need, tmp_path):
    git, results = need("git"), []
    fixed = {
        "GIT_CONFIG_GLOBAL": "/dev/null",
        "GIT_CONFIG_SYSTEM": "/dev/null",
        "HOME": str(tmp_path),
        **{f"GIT_{who}_{what}": value for who in ("AUTHOR", "COMMITTER")
           for what, value in (("NAME", "a"), ("EMAIL", "a@b"), ("DATE", "2020-01-01T00:00:00Z"))},
    }
    for preload in (False, True):
        folder = tmp_path / f"repo{preload}"

        def run(*argv, where=folder, on=preload):
            done = heddle.run(git, *argv, cwd=where, preload=on, env=fixed)
            assert done.code == 0, done.err
            return done.out

        make_repository(run, folder)
        clone = tmp_path / f"clone{preload}"
        run("clone", "-q", f"file://{folder}", clone)
        run("gc", "-q", "--aggressive", where=clone)
        run("fsck", "--strict", where=clone)
        shown = (("log", "-p", "--stat"), ("rev-parse", "HEAD"), ("blame", "file3.txt"))
        results.append("".join(run(*words, where=clone) for words in shown))
    assert results[0] == results[1]
    assert len(results[0]) > 100_000


# ---- redis -------------------------------------------------------------------------------------------------------------


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


def command(port, *words):
    """One command in redis's protocol; returns the raw answer."""
    with socket.create_connection(("127.0.0.1", port), 5) as link:
        link.sendall(b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words))
        link.settimeout(10)
        return link.recv(65536)


@pytest.fixture
def redis(heddle, need, tmp_path):
    port = free_port()
    arguments = ["--port", port, "--bind", "127.0.0.1", "--save", "", "--appendonly", "no", "--dir", tmp_path, "--maxmemory", "256mb"]
    process = subprocess.Popen(
        [need("redis-server"), *map(str, arguments)], env=heddle.environment(), stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    try:
        for _ in range(100):
            try:
                if command(port, b"PING") == b"+PONG\r\n":
                    break
            except OSError:
                time.sleep(0.05)
        else:
            pytest.fail("redis-server did not answer")
        yield port, process
        assert process.poll() is None, "redis-server died"
    finally:
        process.terminate()
        err = process.communicate(timeout=20)[1].decode()
    assert process.returncode == 0 and "heddle" not in err, err


def test_redis(heddle, need, redis):
    port, process = redis
    assert active_in(process.pid)
    bench = heddle.run(
        need("redis-benchmark"), "-p", port, "-n", 20000, "-c", 20, "-q", "-d", 300, "-r", 5000,
        "-t", "set,get,incr,lpush,lpop,sadd,hset,zadd,mset", timeout=90,
    )
    assert bench.code == 0 and bench.out.count("requests per second") >= 9, bench
    for i in range(200):
        assert command(port, b"SET", b"key%d" % i, b"v" * i) == b"+OK\r\n"
    assert command(port, b"GET", b"key150") == b"$150\r\n" + b"v" * 150 + b"\r\n"
    # A forked child writes the snapshot while it shares the parent's heap.
    assert command(port, b"SAVE") == b"+OK\r\n"
    assert command(port, b"BGSAVE").startswith(b"+Background")
    for _ in range(100):
        if b"rdb_bgsave_in_progress:0" in command(port, b"INFO", b"persistence"):
            break
        time.sleep(0.05)
    assert b"rdb_last_bgsave_status:ok" in command(port, b"INFO", b"persistence")
    assert command(port, b"FLUSHALL") == b"+OK\r\n"
    assert command(port, b"DBSIZE") == b":0\r\n"


def test_a_dozen_small_programs(both, need, tmp_path):
    """Whole pipelines run with the preload inherited."""
    (tmp_path / "data").write_text("".join(f"{i * 7919 % 10007} {'x' * (i % 90)}\n" for i in range(20000)))
    script = """sort -n data | uniq -c | sort -rn | head -50
        gzip -9 -c data | gunzip | md5sum; tar cf - data | wc -c; find . | sort; grep -c '99 x' data
        awk '{s += $1} END {print s}' data; sed 's/x/yy/g' data | md5sum; diff data data && echo same
        bash -c 'a=(); for i in {1..3000}; do a+=($i$i); done; echo ${#a[@]}'"""
    need("awk")
    both("/bin/sh", "-c", script, cwd=tmp_path, env={"LC_ALL": "C", "PATH": "/usr/bin:/bin"})


if __name__ == "__main__":
    sys.exit(pytest.main([__file__, *sys.argv[1:]]))
