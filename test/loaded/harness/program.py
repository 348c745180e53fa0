"""What the harness knows about a program, and how a run of it can end badly.

SPDX-License-Identifier: MIT
"""
from dataclasses import dataclass, field
from typing import Callable


class Failed(Exception):
    """The program did not do its work."""


class Void(Exception):
    """Nothing was proven: Heddle was not in use where it had to be, or was in use in the control."""


@dataclass(frozen=True)
class Program:
    """One real program and its load.

    run(place)      does the work in place.folder and returns a dictionary: what has to be the same without and with Heddle
    prepare(place)  once before all runs, without Heddle: sources, inputs, in place.shared
    tools           command -> Debian package that brings it; a command with a slash is a path or a pattern of paths
    mapped          executables that the watcher must have seen with the library mapped (beside the statistics at exit)
    outside         executables that may live without it -> why
    seconds         time limit of one run at scale 1
    """

    name: str
    what: str
    run: Callable
    tools: dict
    prepare: Callable = None
    mapped: tuple = ()
    outside: dict = field(default_factory=dict)
    short: bool = False
    seconds: int = 300
