# SPDX-License-Identifier: GPL-2.0-or-later
"""Which function is a hit in? Symbols of ELF files, of the kernel and of JIT compilers."""

from __future__ import annotations

import os
import re
import stat
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from tlbcost.counters.hits import SampleHit
from tlbcost.symbols.binutils import Source, demangled, source_lines
from tlbcost.symbols.elf import ChangedError, ElfObject, Symbol, SymbolTable
from tlbcost.system.machine import read_line, sys_path

# Where JIT compilers write perf-PID.map, by convention.
JIT_MAPS = Path("/tmp")
_BOOT_ID = "/proc/sys/kernel/random/boot_id"


@dataclass(slots=True)
class Resolver:
    """Names the places of hits; `notes` has what it could not resolve, each thing once.

    `boot_id` is that of the recording: kernel addresses are valid only in that boot.
    """

    boot_id: str | None = None
    notes: list[str] = field(default_factory=list)
    _objects: dict[tuple[str, str | None], ElfObject | None] = field(default_factory=dict)
    _kernel: SymbolTable | None = None
    _jits: dict[int, SymbolTable | None] = field(default_factory=dict)

    def names(self, hits: Sequence[SampleHit]) -> list[str | None]:
        """The symbol of each hit, demangled; None: not known."""
        found = [self._name(hit) for hit in hits]
        readable = demangled({name for name in found if name is not None})
        return [None if name is None else readable.get(name, name) for name in found]

    def _name(self, hit: SampleHit) -> str | None:
        if hit.mode == "kernel":
            return self._kernel_symbols().find(hit.offset_bytes)
        if hit.mode not in (None, "user"):
            return None
        if hit.object is None or not hit.object.startswith("/"):
            if hit.pid is None or hit.object == "[vdso]":
                return None
            jit = self._jit(hit.pid)
            return jit.find(hit.offset_bytes) if jit else None
        found = self._object(hit.object, hit.build_id)
        return found.find(hit.offset_bytes) if found else None

    def sources(self, hits: Sequence[SampleHit]) -> list[Source | None]:
        """The source of each hit in a file with debug information; None: not known."""
        addresses: dict[str, set[int]] = {}
        places: list[tuple[str, int] | None] = []
        for hit in hits:
            name = hit.object if hit.object is not None and hit.object.startswith("/") else None
            found = self._object(name, hit.build_id) if name is not None else None
            address = found.address(hit.offset_bytes) if found is not None else None
            places.append(None if name is None or address is None else (name, address))
            if name is not None and address is not None:
                addresses.setdefault(name, set()).add(address)
        known = {name: source_lines(name, sorted(some)) for name, some in addresses.items()}
        return [None if place is None else known[place[0]].get(place[1]) for place in places]

    def _object(self, name: str, build_id: str | None) -> ElfObject | None:
        if (name, build_id) not in self._objects:
            self._objects[name, build_id] = self._load(name, build_id)
        return self._objects[name, build_id]

    def _load(self, name: str, build_id: str | None) -> ElfObject | None:
        try:
            return ElfObject.read(Path(name), build_id)
        except OSError as error:
            self._note(f"{name} cannot be read ({error.strerror}): its symbols are NA")
        except ChangedError:
            self._note(f"{name} is not the file that was recorded: its symbols are NA")
        except ValueError:
            self._note(f"{name} is not a readable ELF file: its symbols are NA")
        return None

    def _kernel_symbols(self) -> SymbolTable:
        if self._kernel is None:
            self._kernel = SymbolTable(self._read_kernel())
        return self._kernel

    def _read_kernel(self) -> list[Symbol]:
        if self.boot_id is None or self.boot_id != read_line(_BOOT_ID):
            self._note("the kernel's symbols are NA: it was recorded in another boot, or elsewhere")
            return []
        try:
            text = sys_path("/proc/kallsyms").read_text(encoding="utf-8", errors="replace")
        except OSError as error:
            self._note(f"the kernel's symbols are NA: /proc/kallsyms: {error.strerror}")
            return []
        symbols = parse_kallsyms(text)
        if not symbols:
            self._note(
                "the kernel's symbols are NA: /proc/kallsyms hides its addresses; read it as root, "
                "or set kernel.kptr_restrict to 0"
            )
        return symbols

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


def parse_kallsyms(text: str) -> list[Symbol]:
    """The functions in /proc/kallsyms; none if the addresses are hidden (0)."""
    symbols: list[Symbol] = []
    for line in text.splitlines():
        words = line.split()
        if len(words) < 3 or words[1] not in "tTwW":
            continue
        try:
            start = int(words[0], 16)
        except ValueError:
            continue
        if start:
            symbols.append(Symbol(start, 0, words[2], 0 if words[1] in "TW" else 1))
    return symbols


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
