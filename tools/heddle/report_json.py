"""The machine-readable report. Fields are only added; a changed meaning gets a new schema number."""

from __future__ import annotations

import datetime
import json
import os
import platform
from typing import Any, Dict, List, Optional

from . import __version__, stats, wording
from .allocators import version_of
from .comparison import METRICS, Comparison, results_differ, warnings
from .measure import Run

SCHEMA = "heddle-compare/1"


def processor_name() -> str:
    try:
        with open("/proc/cpuinfo") as file:
            for line in file:
                if line.startswith(("model name", "Hardware", "uarch")):
                    return line.split(":", 1)[1].strip()
    except OSError:
        pass
    return platform.machine()


def machine() -> Dict[str, Any]:
    system = {}
    try:
        with open("/etc/os-release") as file:
            system = dict(line.rstrip("\n").split("=", 1) for line in file if "=" in line)
    except OSError:
        pass
    return {
        "processor": processor_name(),
        "architecture": platform.machine(),
        "cores": len(os.sched_getaffinity(0)),
        "memory_bytes": os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"),
        "page_bytes": os.sysconf("SC_PAGE_SIZE"),
        "kernel": platform.release(),
        "system": system.get("PRETTY_NAME", "").strip('"'),
    }


def _finite(value: Optional[float]) -> Optional[float]:
    """JSON has no infinity; an interval without an upper end has none."""
    return value if value is not None and abs(value) != float("inf") else None


def _estimate(estimate: Optional[stats.Estimate]) -> Optional[Dict[str, Any]]:
    if estimate is None:
        return None
    return {"median": estimate.median, "low": _finite(estimate.low), "high": _finite(estimate.high),
            "count": estimate.count}


def _run(run: Run) -> Dict[str, Any]:
    return {
        "allocator": run.allocator, "round": run.round, "wall_s": run.wall_s, "user_s": run.user_s,
        "system_s": run.system_s, "peak_rss_bytes": run.peak_bytes, "minor_faults": run.minor_faults,
        "major_faults": run.major_faults, "idle_rss_bytes": run.idle_bytes, "exit_status": run.exit_status,
        "timed_out": run.timed_out, "library_seen": run.loaded, "processes": run.processes,
        "output_sha256": run.output_sha256,
    }


def _figures(comparison: Comparison, name: str) -> Dict[str, Any]:
    figures = {}
    for metric in METRICS:
        ratio = None if name == comparison.baseline else comparison.ratio(name, metric)
        figures[metric.key] = {
            "unit": {"s": "seconds", "B": "bytes"}.get(metric.unit, metric.unit),
            "estimate": _estimate(comparison.estimate(name, metric)),
            "ratio": _estimate(ratio),
            "verdict": "baseline" if name == comparison.baseline else wording.verdict(ratio),
        }
    return figures


def _comparison(comparison: Comparison) -> Dict[str, Any]:
    plan = comparison.plan
    return {
        "title": comparison.title,
        "command": [plan.target.name, *plan.arguments],
        "program": plan.target.path,
        "baseline": comparison.baseline,
        "rounds": comparison.rounds,
        "warmup": comparison.warmup,
        "idle_s": plan.idle_s,
        "allocators": [
            {"name": entry.name, "title": entry.title, "path": entry.path, "version": version_of(entry),
             "dropped": comparison.dropped.get(entry.name), "figures": _figures(comparison, entry.name)}
            for entry in comparison.allocators
        ],
        "summary": wording.summary(comparison),
        "warnings": warnings(comparison),
        "results_differ": results_differ(comparison),
        "runs": [_run(run) for run in comparison.runs],
    }


def report(comparisons: List[Comparison]) -> Dict[str, Any]:
    return {
        "schema": SCHEMA,
        "tool": {"name": "heddle", "version": __version__},
        "date": datetime.datetime.now(datetime.timezone.utc).isoformat(timespec="seconds"),
        "confidence": stats.CONFIDENCE,
        "machine": machine(),
        "comparisons": [_comparison(comparison) for comparison in comparisons],
    }


def to_text(data: Dict[str, Any]) -> str:
    return json.dumps(data, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
