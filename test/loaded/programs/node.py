"""node: objects and buffers under its collector, worker threads, compression, digests, child processes.

SPDX-License-Identifier: MIT
"""
from harness.program import Failed, Program


def run(place):
    done = place.run("node", "--expose-gc", "--max-semi-space-size=1", place.input / "workers.js", place.times(5))
    if "done" not in done.out:
        raise Failed(f"node: {done.out[-300:]}")
    return {"out": done.out, "err": done.err}


PROGRAMS = [Program("node", "node: collector, worker threads, zlib, crypto, children", run, {"node": "nodejs"}, mapped=("node",))]
