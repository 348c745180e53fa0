"""Builds the small library that keeps a program alive at its end, and talks to it."""

from __future__ import annotations

import os
import shutil
import subprocess
from typing import Dict, Optional, Tuple

SOURCE = os.path.join(os.path.dirname(os.path.abspath(__file__)), "idle_shim.c")
# Beyond the tool's own wait; only a program whose tool was killed ever waits this long.
GRACE_MS = 10_000


def build_shim(directory: str) -> Tuple[Optional[str], str]:
    """Compile the shim into `directory`. Returns (path, "") or (None, reason)."""
    compiler = shutil.which(os.environ.get("CC", "cc")) or shutil.which("gcc") or shutil.which("clang")
    if compiler is None:
        return None, "no C compiler (Debian: apt-get install gcc libc6-dev)"
    path = os.path.join(directory, "idle_shim.so")
    command = [compiler, "-O2", "-shared", "-fPIC", "-o", path, SOURCE]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=60)
    except (OSError, subprocess.TimeoutExpired) as error:
        return None, f"{compiler} failed: {error}"
    if done.returncode != 0:
        lines = [line for line in done.stderr.splitlines() if "error" in line] or ["no message"]
        return None, f"{compiler} failed: {lines[0].strip()}"
    return path, ""


class IdleGate:
    """The tool's side: learns that the program has ended its work, and lets it go after the sample."""

    def __init__(self, directory: str, seconds: float):
        self._ready_path = os.path.join(directory, "idle_ready")
        self._go_path = os.path.join(directory, "idle_go")
        self._seconds = seconds
        for path in (self._ready_path, self._go_path):
            os.mkfifo(path, 0o600)
        self.ready_fd = os.open(self._ready_path, os.O_RDONLY | os.O_NONBLOCK)
        # Held open for reading too: a write then never fails, and never reaches the next run (see close).
        self._go_fd = os.open(self._go_path, os.O_RDWR | os.O_NONBLOCK)

    def environment(self) -> Dict[str, str]:
        limit_ms = int(self._seconds * 1000) + GRACE_MS
        return {"HD_IDLE_READY": self._ready_path, "HD_IDLE_GO": self._go_path, "HD_IDLE_LIMIT_MS": str(limit_ms)}

    def is_ready(self) -> bool:
        try:
            return os.read(self.ready_fd, 16) != b""
        except BlockingIOError:
            return False

    def release(self) -> None:
        os.write(self._go_fd, b"g")

    def close(self) -> None:
        os.close(self.ready_fd)
        os.close(self._go_fd)
        os.unlink(self._ready_path)
        os.unlink(self._go_path)
