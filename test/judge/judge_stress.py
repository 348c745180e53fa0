"""stress-ng's stressors that live on malloc, each for a bounded number of rounds, with its own verification.

Its stressors of mmap, mremap and brk work on memory of their own and say nothing about malloc, so they are left out."""

from __future__ import annotations

import shutil
from typing import List, Tuple

COMMON = ("--verify", "--no-rand-seed", "--oomable", "--timeout", "60", "--quiet")
STRESSORS: Tuple[Tuple[str, Tuple[str, ...]], ...] = (
    ("malloc", ("--malloc", "2", "--malloc-ops", "200000")),
    ("malloc-touch", ("--malloc", "2", "--malloc-ops", "40000", "--malloc-touch", "--malloc-bytes", "1m")),
    ("malloc-threads", ("--malloc", "1", "--malloc-ops", "100000", "--malloc-pthreads", "4", "--malloc-bytes", "64k")),
    ("malloc-zerofree", ("--malloc", "2", "--malloc-ops", "20000", "--malloc-zerofree", "--malloc-bytes", "256k")),
    ("malloc-thresh", ("--malloc", "2", "--malloc-ops", "20000", "--malloc-thresh", "4k")),
    ("malloc-max", ("--malloc", "1", "--malloc-ops", "400000", "--malloc-max", "262144", "--malloc-bytes", "512")),
    ("bigheap", ("--bigheap", "1", "--bigheap-ops", "2000", "--bigheap-growth", "1m")),
    ("fork", ("--fork", "2", "--fork-ops", "2000")),
    ("pthread", ("--pthread", "2", "--pthread-ops", "4000", "--pthread-max", "64")),
    ("tree", ("--tree", "1", "--tree-ops", "20", "--tree-size", "20000")),
    ("skiplist", ("--skiplist", "1", "--skiplist-ops", "20", "--skiplist-size", "4096")),
    ("list", ("--list", "1", "--list-ops", "20")),
    ("tsearch", ("--tsearch", "1", "--tsearch-ops", "20")),
    ("hsearch", ("--hsearch", "1", "--hsearch-ops", "20")),
    ("qsort", ("--qsort", "1", "--qsort-ops", "5")),
    ("radixsort", ("--radixsort", "1", "--radixsort-ops", "5")),
    ("sparsematrix", ("--sparsematrix", "1", "--sparsematrix-ops", "10", "--sparsematrix-method", "all")),
    ("randlist", ("--randlist", "1", "--randlist-ops", "5")),
    ("env", ("--env", "1", "--env-ops", "20")),
    ("str", ("--str", "1", "--str-ops", "200")),
    ("zlib", ("--zlib", "1", "--zlib-ops", "40")),
)


def commands() -> List[Tuple[str, List[str]]]:
    """Name and command of each; empty where stress-ng is not installed."""
    program = shutil.which("stress-ng")
    return [(f"stress-{name}", [program, *arguments, *COMMON]) for name, arguments in STRESSORS] if program else []
