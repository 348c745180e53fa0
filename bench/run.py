#!/usr/bin/env python3
"""Compare Heddle with every peer, interleaved: bench/run.py --help. Peers come from bench/peers.sh."""

import sys

try:
    from heddle_bench.cli import main
except ModuleNotFoundError as problem:
    if problem.name not in ("click", "rich"):
        raise
    sys.exit(f"run.py: needs {problem.name}: python3 -m pip install -r bench/requirements.txt")

if __name__ == "__main__":
    main()
