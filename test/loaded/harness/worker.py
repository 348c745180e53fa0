"""One run of one program, in a process of its own, so that nothing of it is left when it ends.

usage: worker.py PROGRAM SETTINGS       SETTINGS: JSON with folder, shared, library, options, scale, prove, prepare
Prints one line of JSON: verdict, result, wall, peak_kib, proofs, mapped, without, left, notes.

SPDX-License-Identifier: MIT
"""
import ctypes
import json
import os
import pathlib
import shutil
import signal
import subprocess
import sys
import time
import traceback

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent.parent))
from harness.place import Place  # noqa: E402
from harness.program import Failed, Void  # noqa: E402
from harness.watch import Watch, end_all_below, reap  # noqa: E402
from programs import PROGRAMS  # noqa: E402

PR_SET_PDEATHSIG, PR_SET_CHILD_SUBREAPER = 1, 36


def adopt_orphans():
    """Daemons stay below this process, and this process ends with the one that started it."""
    libc = ctypes.CDLL(None, use_errno=True)
    for what, value in ((PR_SET_CHILD_SUBREAPER, 1), (PR_SET_PDEATHSIG, signal.SIGTERM)):
        if libc.prctl(what, value, 0, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "prctl")


def resolved(name):
    """The executable behind a command that is a link."""
    return os.path.basename(os.path.realpath(shutil.which(name) or name))


def judge(program, place, watch):
    """Was Heddle where it had to be, and nowhere else?"""
    if not place.preload:
        if watch.mapped():
            raise Void(f"the control had the library mapped: {', '.join(sorted(watch.mapped()))}")
        return
    absent = {name for name in program.mapped if not {name, resolved(name)} & watch.mapped()}
    if absent:
        raise Void(f"not seen with the library mapped: {', '.join(sorted(absent))}")
    strangers = watch.without() - set(program.outside)
    if strangers:
        raise Void(f"ran without the library: {', '.join(sorted(strangers))}")
    if place.prove and not place.proofs and not program.mapped:
        raise Void("no process printed statistics and none had to be mapped: nothing is proven")


def work(program, place):
    """(verdict, result, watch, wall): verdict is done, failed or void with its sentence."""
    watch = Watch(place.preload)
    watch.start()
    began, result = time.monotonic(), None
    try:
        result, verdict = program.run(place), "done"
    except Void as problem:
        verdict = f"void: {problem}"
    except Failed as problem:
        verdict = f"failed: {problem}"
    except subprocess.TimeoutExpired as problem:
        verdict = f"failed: {problem}"
    wall = time.monotonic() - began
    watch.stop()
    if verdict == "done":
        try:
            judge(program, place, watch)
        except Void as problem:
            verdict = f"void: {problem}"
    return verdict, result, watch, wall


def leave(number, frame):
    end_all_below(os.getpid(), patience=0.5)
    os._exit(128 + number)


def main():
    program, settings = PROGRAMS[sys.argv[1]], json.loads(sys.argv[2])
    adopt_orphans()
    for number in (signal.SIGTERM, signal.SIGINT):
        signal.signal(number, leave)
    prepare = settings.pop("prepare")
    place = Place(**settings)
    report = {}
    try:
        if prepare:
            program.prepare(place)
            report = {"verdict": "done"}
        else:
            verdict, result, watch, wall = work(program, place)
            report = {"verdict": verdict, "result": result, "wall": round(wall, 2), "peak_kib": watch.peak_kib(), "proofs": place.proofs,
                      "mapped": sorted(watch.mapped()), "without": sorted(watch.without()), "notes": place.notes}
    except Exception:
        report = {"verdict": f"failed: {traceback.format_exc()[-1500:]}"}
    finally:
        report["left"] = end_all_below(os.getpid())
        reap()
    print(json.dumps(report), flush=True)


if __name__ == "__main__":
    main()
