"""The bundled workload of `heddle demo`: scripts for real interpreters that check their own results."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import Tuple

DIRECTORY = os.path.dirname(os.path.abspath(__file__))


@dataclass(frozen=True)
class Workload:
    """One script: programs that can run it (the first found is taken), and how."""

    name: str
    title: str
    programs: Tuple[str, ...]
    debian: str
    arguments: Tuple[str, ...]
    script: str
    on_stdin: bool = False

    @property
    def path(self) -> str:
        return os.path.join(DIRECTORY, self.script)


WORKLOADS = (
    Workload("lua", "Lua: tables and strings", ("lua5.4",), "lua5.4", (), "tables.lua"),
    Workload("python", "Python: objects and text", ("python3",), "python3", ("-I", "-S"), "objects.py"),
    Workload("sqlite", "SQLite: rows and indexes in memory", ("sqlite3",), "sqlite3",
             ("-batch", "-bail", "-init", "/dev/null", ":memory:"), "rows.sql", on_stdin=True),
)
