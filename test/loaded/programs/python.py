"""python3: a script of every kind of object, on python's own allocator and without it; and python's own tests.

SPDX-License-Identifier: MIT
"""
import concurrent.futures
import json
import pathlib
import shutil

from harness.program import Failed, Program

TESTS = """test_dict test_list test_set test_tuple test_json test_re test_bytes test_str test_long test_array test_buffer test_memoryview
test_mmap test_gc test_weakref test_deque test_collections test_itertools test_heapq test_struct test_pickle test_copy test_zlib test_bz2
test_lzma test_hashlib test_decimal test_xml_etree test_ctypes test_sqlite3 test_io test_fork1 test_thread test_threading test_queue
test_subprocess test_posix test_signal test_generators test_descr test_class test_functools test_traceback
test_threading_local test_concurrent_futures.ThreadPoolAsCompletedTests test_concurrent_futures.ProcessPoolForkExecutorTest
test_concurrent_futures.ProcessPoolForkAsCompletedTest test_concurrent_futures.ThreadPoolWaitTests test_faulthandler
test_multiprocessing_fork.WithProcessesTestPool test_multiprocessing_fork.WithProcessesTestQueue
test_multiprocessing_fork.WithProcessesTestLock
test_multiprocessing_fork.WithManagerTestPool test_multiprocessing_spawn.WithProcessesTestProcess test_asyncio.test_tasks""".split()
AT_ONCE = 2
DEBIAN = "/usr/bin/python3.11"


def run_script(place):
    python = shutil.which("python3")
    script = place.input / "objects.py"
    rounds = str(place.times(3))
    own = place.run(python, script, rounds)
    every = place.run(python, script, rounds, env={"PYTHONMALLOC": "malloc"})
    if own.out != every.out or not own.out:
        raise Failed("python3: another result without its own allocator")
    return {"script": own.out, "stderr": own.err + every.err}


def run_tests(place):
    """test -> outcome, of every test of the chosen modules."""

    def one(name):
        folder = place.folder / name
        folder.mkdir()
        report = folder / "report.json"
        # Those tests compare what their children print, so no statistics here: the watcher is the proof.
        done = place.run(DEBIAN, place.input / "python_tests.py", name, report, cwd=folder,
                         stats=False, expect=None, env={"PYTHONMALLOC": "malloc"}, timeout=400)
        if not report.exists():
            raise Failed(f"{name}: ended with {done.code} before its report: {done.err[-600:]}")
        return name, json.loads(report.read_text())

    with concurrent.futures.ThreadPoolExecutor(AT_ONCE) as pool:
        reports = dict(pool.map(one, TESTS))
    outcomes = {}
    for name, report in reports.items():
        if report["again"]:
            place.notes.append(f"{name}: passed when run again: {', '.join(report['again'])}")
        outcomes |= report["outcomes"]
    passed = sum(outcome == "ok" for outcome in outcomes.values())
    place.notes.append(f"{len(outcomes)} tests, {passed} passed, {sum(o == 'skipped' for o in outcomes.values())} skipped")
    if passed < 20 * len(TESTS):
        raise Failed(f"python's tests: only {passed} of {len(outcomes)} passed")
    return outcomes


PROGRAMS = [
    Program("python", "python3: objects, threads, pickling; with pymalloc and without", run_script, {"python3": "python3"}, short=True),
    Program("python-tests", f"python3's own tests: {len(TESTS)} modules and classes", run_tests,
            {DEBIAN: "python3.11", "/usr/lib/python3.11/test/test_dict.py": "libpython3.11-testsuite"},
            mapped=(pathlib.Path(DEBIAN).name,), seconds=1800),
]
