"""The little of an ELF file that decides whether a library can be preloaded into it."""

from __future__ import annotations

import os
import struct
from dataclasses import dataclass
from typing import Optional

PT_DYNAMIC = 2
PT_INTERP = 3
MAX_PROGRAM_HEADERS = 4096
MAX_INTERPRETER_BYTES = 4096

MACHINES = {
    3: "i386", 8: "mips", 20: "powerpc", 21: "powerpc64", 22: "s390x", 40: "arm",
    62: "x86-64", 183: "aarch64", 243: "riscv", 258: "loongarch",
}


class MalformedElf(ValueError):
    """The file starts like ELF and is not."""


@dataclass(frozen=True)
class Elf:
    """What the loader looks at first. `interpreter` is None in a static program and in most libraries."""

    bits: int
    machine: int
    interpreter: Optional[str]
    has_dynamic: bool

    @property
    def architecture(self) -> str:
        name = MACHINES.get(self.machine, f"machine {self.machine}")
        return f"{self.bits}-bit {name}"

    @property
    def is_static(self) -> bool:
        """No interpreter means no dynamic loader; a static PIE has a dynamic section and still no loader."""
        return self.interpreter is None

    def fits(self, other: "Elf") -> bool:
        return (self.bits, self.machine) == (other.bits, other.machine)


def _read_exactly(file, offset: int, count: int) -> bytes:
    file.seek(offset)
    data = file.read(count)
    if len(data) != count:
        raise MalformedElf("truncated")
    return data


def _program_headers(file, bits: int, order: str):
    """Yield (type, offset, file size) of each program header."""
    if bits == 64:
        table, entry_bytes, count = struct.unpack(order + "Q14xHH", _read_exactly(file, 32, 26))
        needed, layout = 56, order + "I4xQ16xQ"
    else:
        table, entry_bytes, count = struct.unpack(order + "I10xHH", _read_exactly(file, 28, 18))
        needed, layout = 32, order + "II8xI"
    if count and entry_bytes < needed or count > MAX_PROGRAM_HEADERS:
        raise MalformedElf("bad program headers")
    for index in range(count):
        entry = _read_exactly(file, table + index * entry_bytes, needed)
        yield struct.unpack_from(layout, entry)


def read_elf(path: str) -> Optional[Elf]:
    """Read an ELF file; None if it is not ELF. Raises OSError, or MalformedElf."""
    with open(path, "rb") as file:
        ident = file.read(16)
        if ident[:4] != b"\x7fELF":
            return None
        if len(ident) != 16 or ident[4] not in (1, 2) or ident[5] not in (1, 2):
            raise MalformedElf("bad identification")
        bits = 64 if ident[4] == 2 else 32
        order = "<" if ident[5] == 1 else ">"
        (machine,) = struct.unpack(order + "H", _read_exactly(file, 18, 2))
        interpreter, has_dynamic = None, False
        for kind, offset, size in list(_program_headers(file, bits, order)):
            if kind == PT_DYNAMIC:
                has_dynamic = True
            elif kind == PT_INTERP:
                if size > MAX_INTERPRETER_BYTES:
                    raise MalformedElf("bad interpreter")
                raw = _read_exactly(file, offset, size)
                interpreter = os.fsdecode(raw.split(b"\0", 1)[0])
        return Elf(bits, machine, interpreter, has_dynamic)
