"""Find the program that the user named and say whether an allocator can be preloaded into it.

The loader ignores LD_PRELOAD in silence for static, setuid and capability-bearing programs; a comparison of such a
program would compare the system allocator with itself. So each case is an error here, before anything runs.
"""

from __future__ import annotations

import os
import shutil
import stat
import sys
from dataclasses import dataclass
from typing import List, Tuple

from .elf import Elf, MalformedElf, read_elf
from .errors import EXIT_NOT_FOUND, EXIT_UNUSABLE, HeddleError

# The kernel follows this many "#!" lines before it gives up.
MAX_SCRIPT_DEPTH = 4
SHEBANG_BYTES = 256


@dataclass(frozen=True)
class Target:
    """A program that can take a preloaded library."""

    name: str               # as the user typed it
    path: str               # what is executed
    binary: str             # the ELF file that runs: `path`, or the interpreter of a script
    elf: Elf
    chain: Tuple[str, ...]  # files looked at: script, interpreter, ...


def _unusable(message: str) -> HeddleError:
    return HeddleError(message, EXIT_UNUSABLE)


def find_program(name: str) -> str:
    """The path of a program, by the rules of the shells: 127 if there is none, 126 if it cannot be executed."""
    if not name:
        raise HeddleError("the program's name is empty", EXIT_NOT_FOUND)
    if os.sep not in name:
        found = shutil.which(name)
        if found is None:
            raise HeddleError(f"{name}: not found (no such program on PATH)", EXIT_NOT_FOUND)
        return found
    if not os.path.exists(name):
        raise HeddleError(f"{name}: not found", EXIT_NOT_FOUND)
    if os.path.isdir(name):
        raise _unusable(f"{name}: is a directory")
    if not os.access(name, os.X_OK):
        raise _unusable(f"{name}: is not executable (permission denied)")
    return name


def _check_privileges(path: str) -> None:
    mode = os.stat(path).st_mode
    if mode & stat.S_ISUID:
        raise _unusable(f"{path}: is setuid, so the loader ignores preloaded libraries; run a copy without the bit")
    if mode & stat.S_ISGID and mode & stat.S_IXGRP:
        raise _unusable(f"{path}: is setgid, so the loader ignores preloaded libraries; run a copy without the bit")
    try:
        capabilities = os.getxattr(path, "security.capability")
    except (OSError, AttributeError):
        return
    if capabilities:
        raise _unusable(
            f"{path}: has file capabilities, so the loader ignores preloaded libraries; run a copy without them")


def _parse_shebang(path: str) -> List[str]:
    """The interpreter of a script and its argument, or an empty list."""
    with open(path, "rb") as file:
        line = file.read(SHEBANG_BYTES).split(b"\n", 1)[0]
    if not line.startswith(b"#!"):
        return []
    return [os.fsdecode(word) for word in line[2:].strip().split(None, 1)]


def _program_behind_env(argument: str) -> str:
    """The program that `#!/usr/bin/env ARGUMENT` starts; empty if it cannot be told."""
    for word in argument.split():
        if word.startswith("-S") and len(word) > 2:
            return word[2:]
        if word.startswith("-") or "=" in word:
            continue
        return word
    return ""


def _next_in_chain(path: str) -> str:
    words = _parse_shebang(path)
    if not words:
        raise _unusable(f"{path}: is neither an ELF program nor a script with a #! line")
    interpreter = words[0]
    if os.path.basename(interpreter) == "env" and len(words) > 1:
        behind = _program_behind_env(words[1])
        if behind:
            return find_program(behind)
    if not os.path.exists(interpreter):
        raise HeddleError(f"{path}: its interpreter {interpreter} was not found", EXIT_NOT_FOUND)
    return interpreter


def _is_musl(interpreter: str) -> bool:
    return "ld-musl" in os.path.basename(interpreter)


def _check_elf(name: str, path: str, elf: Elf) -> None:
    if elf.is_static:
        subject = name if name == path else f"{name} ({path})"
        raise _unusable(f"{subject} is statically linked, an allocator can't be preloaded; link it with Heddle instead")
    own = read_elf(os.path.realpath(sys.executable))
    if own and own.interpreter and _is_musl(own.interpreter) != _is_musl(elf.interpreter):
        raise _unusable(f"{path}: uses another C library ({elf.interpreter}) than the allocators found here")


def resolve_target(name: str) -> Target:
    """Find a program and check that a library can be preloaded into it. Raises HeddleError."""
    path = find_program(name)
    chain: List[str] = []
    current = path
    while True:
        chain.append(current)
        if len(chain) > MAX_SCRIPT_DEPTH:
            raise _unusable(f"{path}: too many levels of #! interpreters")
        try:
            _check_privileges(current)
            elf = read_elf(current)
            if elf is not None:
                break
            current = _next_in_chain(current)
        except MalformedElf as error:
            raise _unusable(f"{current}: is not a valid ELF file ({error})") from None
        except OSError as error:
            raise _unusable(f"{current}: cannot be read ({error.strerror})") from None
    _check_elf(name, current, elf)
    return Target(name, path, current, elf, tuple(chain))
