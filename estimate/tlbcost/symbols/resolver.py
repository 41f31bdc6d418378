# SPDX-License-Identifier: GPL-2.0-or-later
"""Symbols and source lines of code: of ELF files, and of JIT compilers."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tlbcost.symbols.binutils import Source, demangled, source_lines
from tlbcost.symbols.elf import ElfObject, Symbol, SymbolTable

# Where JIT compilers write perf-PID.map, by convention.
JIT_MAPS = Path("/tmp")


@dataclass(frozen=True, slots=True)
class CodePlace:
    """An instruction of a process: its offset in the file `path`, its address without one."""

    pid: int
    path: str | None
    offset_bytes: int


@dataclass(slots=True)
class Resolver:
    """Names places of code; `notes` has what it could not resolve, each thing once."""

    notes: list[str] = field(default_factory=list)
    _objects: dict[str, ElfObject | None] = field(default_factory=dict)
    _jits: dict[int, SymbolTable | None] = field(default_factory=dict)

    def names(self, places: Sequence[CodePlace]) -> list[str | None]:
        """The symbol of each place, demangled; None: not known."""
        found = [self._name(place) for place in places]
        readable = demangled({name for name in found if name is not None})
        return [None if name is None else readable.get(name, name) for name in found]

    def _name(self, place: CodePlace) -> str | None:
        if place.path is None:
            jit = self._jit(place.pid)
            return jit.find(place.offset_bytes) if jit else None
        found = self._object(place.path)
        return found.find(place.offset_bytes) if found else None

    def sources(self, places: Sequence[CodePlace]) -> list[Source | None]:
        """The source line of each place in a file with debug information; None: not known."""
        addresses: dict[str, set[int]] = {}
        found: list[tuple[str, int] | None] = []
        for place in places:
            elf = self._object(place.path) if place.path is not None else None
            address = elf.address(place.offset_bytes) if elf is not None else None
            found.append(None if place.path is None or address is None else (place.path, address))
            if place.path is not None and address is not None:
                addresses.setdefault(place.path, set()).add(address)
        known = {name: source_lines(name, sorted(some)) for name, some in addresses.items()}
        return [None if each is None else known[each[0]].get(each[1]) for each in found]

    def _object(self, name: str) -> ElfObject | None:
        if name not in self._objects:
            self._objects[name] = self._load(name) if name.startswith("/") else None
        return self._objects[name]

    def _load(self, name: str) -> ElfObject | None:
        try:
            return ElfObject.read(Path(name))
        except OSError as error:
            self._note(f"{name} cannot be read ({error.strerror}): its symbols are NA")
        except ValueError:
            self._note(f"{name} is not a readable ELF file: its symbols are NA")
        return None

    def _jit(self, pid: int) -> SymbolTable | None:
        if pid not in self._jits:
            self._jits[pid] = self._read_jit(JIT_MAPS / f"perf-{pid}.map")
        return self._jits[pid]

    def _read_jit(self, path: Path) -> SymbolTable | None:
        """A JIT compiler's map of its code, if it exists and belongs to nobody else."""
        try:
            with path.open(encoding="utf-8", errors="replace") as file:
                status = os.fstat(file.fileno())
                if not stat.S_ISREG(status.st_mode) or status.st_uid not in _trusted():
                    self._note(f"{path} belongs to another user: not read")
                    return None
                symbols = SymbolTable(parse_jit(file))
        except OSError:
            return None
        self._note(f"symbols of code without a file are from {path}")
        return symbols

    def _note(self, text: str) -> None:
        if text not in self.notes:
            self.notes.append(text)


def parse_jit(lines: Iterable[str]) -> list[Symbol]:
    """The map that JIT compilers write: 'START SIZE name', hexadecimal; later lines win."""
    symbols: dict[int, Symbol] = {}
    for line in lines:
        found = re.fullmatch(r"([0-9a-fA-F]{1,16})\s+([0-9a-fA-F]{1,16})\s+(.+)", line.strip())
        if found:
            start = int(found[1], 16)
            symbols[start] = Symbol(start, int(found[2], 16), found[3])
    return list(symbols.values())


def _trusted() -> set[int]:
    """Whose files are trusted for names: root's, ours, and those of the user who called sudo."""
    caller = os.environ.get("SUDO_UID", "")
    return {0, os.geteuid(), *([int(caller)] if caller.isdigit() else [])}
