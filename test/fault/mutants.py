#!/usr/bin/env python3
"""Break the library on purpose and see the driver notice: each mutant is one change of one source file, in a copy.

Among them are results of the system that are ignored, leaks that are planted, and the faults that the driver found first. A mutant counts
against us when the driver passes, or when its text is no longer in the source.
"""
import argparse
import shutil
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent / "support"))

from mutants import Gone, copy_broken, report  # noqa: E402

SOURCES = [HERE / name for name in ("fault.c", "work_heap.c", "work_threads.c", "work_objects.c")] + [HERE.parent / "support" / "support.c"]
TRIES = 3  # the window's place is drawn: its second one may by chance be the first again, where the table is


class Mutant(NamedTuple):
    name: str
    file: str
    old: str
    new: str
    arguments: str   # of the driver: what should notice


MUTANTS = [
    Mutant("a refused claim is ignored", "core/space_grow.c",
           "  return hdi_os_claim(start, bytes);",
           "  hdi_os_claim(start, bytes);\n  return HD_CLAIM_DONE;", "-w tight -m kind -k claim"),
    Mutant("a refused move is ignored", "core/large.c",
           "if (!hdi_os_move(first->base, hdi_space_address(&hdi_space, target), old_bytes)) {",
           "if (!hdi_os_move(first->base, hdi_space_address(&hdi_space, target), old_bytes) && false) {", "-w heap -m kind -k move"),
    Mutant("a refused purge counts as done", "core/space.c", "    if (purge_run(space, run)) {", "    if (purge_run(space, run) || true) {",
           "-w heap -m from"),
    Mutant("what the system did not exchange is not cleared", "core/clear.c",
           "  if (!hdi_os_purge(p, bytes)) memset(p, 0, bytes);\n", "  (void)hdi_os_purge(p, bytes);\n", "-w heap -m kind -k purge"),
    Mutant("guards that stay shut are given away", "core/region.c", "  else keep_shut(first);",
           "  else hdi_region_give(region, clean_from, clean_to);", "-w objects -m once"),
    Mutant("leak: the place that nothing could be moved to", "core/large.c",
           "    hdi_space_give(&hdi_space, target, target_units, false);\n    return NULL;", "    return NULL;", "-w heap -m kind -k move"),
    Mutant("leak: a range that could not be committed is reserved again", "core/purge.c",
           "  if (purge.sights == NULL) purge.sights = hdi_os_reserve(", "  purge.sights = hdi_os_reserve(", "-w look -m kind -k commit"),
    Mutant("pages are looked at that the collector is not ready for", "core/purge.c",
           "hdi_os_commit(purge.sights, bytes)) return purge.sight_units;", "hdi_os_commit(purge.sights, bytes)) return end;",
           "-w look -m kind -k commit"),
    Mutant("the window's second place has no table", "core/space_grow.c", "    leave_place();\n", "", "-w look -m twice -k claim"),
    Mutant("a range is given back twice", "core/purge.c", "    else if (stack != NULL) hdi_os_unreserve(stack, HD_LOCK_HELPER_STACK);\n",
           "    else if (stack != NULL) hdi_os_unreserve(stack, HD_LOCK_HELPER_STACK), hdi_os_unreserve(stack, HD_LOCK_HELPER_STACK);\n",
           "-w threads -m kind -k commit"),
    Mutant("a start that failed is final", "core/thread.c", "if (!start_space()) return START_NONE;",
           "static bool gone;\n  if (gone || !start_space()) return gone = true, START_NONE;", "-w look -m from"),
    Mutant("no memory, and errno says nothing", "core/alloc.h", "  errno = ENOMEM;\n  return NULL;", "  return NULL;", "-w tight -m from"),
    Mutant("the barrier is asked for once", "core/purge.c", "if (!purge.barrier_ready) purge.barrier_ready",
           "static bool tried;\n  if (!tried) tried = true, purge.barrier_ready", "-w threads -m kind -k barrier"),
    Mutant("half a page is purged", "core/page.c", "size_t step = hdi_os.page_bytes;", "size_t step = 4096;",
           "-w look -m once --page 16384"),
]


def build(options, source, out):
    """The driver, of the library's sources in `source`."""
    files = [f for part in ("base", "core", "objects") for f in sorted((source / part).glob("*.c"))]
    files += [*sorted((source / "os").glob("*.c")), *SOURCES]  # and nothing that starts the library before main
    command = [options.cc, "-std=gnu11", "-O1", "-fno-builtin", "-ftls-model=initial-exec", "-w", "-DTS_API", f"-I{source}",
               f"-I{options.include}", "-o", str(out), *map(str, files), options.wrap, "-lpthread", "-ldl"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"does not compile: {done.stderr.strip().splitlines()[0]}")


def try_mutant(options, number, mutant):
    """(killed, what happened)"""
    folder = options.out / f"mutant-{number}"
    try:
        copy_broken(options.source, folder / "src", mutant.file, [(mutant.old, mutant.new)])
        build(options, folder / "src", folder / "faults")
    except (Gone, RuntimeError) as error:
        return False, str(error)
    command = [str(folder / "faults"), *mutant.arguments.split(), "-s", str(options.seed), "--first"]
    for _ in range(TRIES):
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=300)
        if done.returncode != 0:
            break
    shutil.rmtree(folder)
    lines = [line for line in done.stderr.splitlines() if line.startswith(("FAIL", "os_fault"))]
    return done.returncode != 0, lines[0] if lines else "SURVIVED"


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--source", type=Path, default=HERE.parents[1] / "src")
    parser.add_argument("--include", type=Path, default=HERE.parents[1] / "include")
    parser.add_argument("--out", type=Path, default=Path("fault-mutants"))
    parser.add_argument("--cc", default="cc")
    parser.add_argument("--wrap", required=True, help="the linker option that puts the layer between")
    parser.add_argument("--seed", type=int, default=7)
    parser.add_argument("--only", help="a part of the mutant's name")
    options = parser.parse_args()
    chosen = [(i, m) for i, m in enumerate(MUTANTS) if options.only is None or options.only in m.name]
    bad = report(chosen, lambda item: try_mutant(options, *item), lambda item: item[1].name)
    print(f"{len(chosen)} mutants, {bad} problems")
    return 1 if bad or not chosen else 0


if __name__ == "__main__":
    sys.exit(main())
