# SPDX-License-Identifier: GPL-2.0-or-later
"""Symbols and source lines of code: of ELF files, and of JIT compilers."""

from __future__ import annotations

import contextlib
import os
import re
import shutil
import stat
import subprocess
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from pathlib import Path, PurePosixPath

from tlbcost.symbols.elf import ElfObject, Symbol, SymbolTable

# Debug information of a browser takes longer; then it is not used.
_TIMEOUT_S = 20
_LINE = re.compile(r"(.+):(\d+)(?: \(discriminator \d+\))?")
_ADDRESS = re.compile(r"0x[0-9a-f]+")
_MANGLED = ("_Z", "_R")

# The innermost function, even if inlined, its file without folders, and the line.
Source = tuple[str, str, int]


def source_lines(path: str, addresses: Sequence[int]) -> dict[int, tuple[Source, ...]]:
    """The source of addresses in an ELF file (as in its segments), where known.

    The innermost function first, then those that it is inlined into.
    """
    command = ["addr2line", "--addresses", "--inlines", "--functions", "--demangle"]
    words = _answers([*command, f"--exe={path}"], [f"{address:#x}" for address in addresses])
    found: dict[int, list[Source]] = {}
    chain: list[Source] = []
    lines = iter(words or ())
    for word in lines:
        if _ADDRESS.fullmatch(word):
            chain = found.setdefault(int(word, 16), [])
            continue
        line = _LINE.fullmatch(next(lines, ""))
        if word != "??" and line is not None and int(line[2]):
            chain.append((word, PurePosixPath(line[1]).name, int(line[2])))
    return {address: tuple(chain) for address, chain in found.items() if chain}


def demangled(names: Iterable[str]) -> dict[str, str]:
    """Demangled C++ and Rust names; other names are left out."""
    mangled = sorted(name for name in names if name.startswith(_MANGLED) and "\n" not in name)
    readable = _answers(["c++filt"], mangled)
    if readable is None or len(readable) != len(mangled):
        return {}
    return dict(zip(mangled, readable, strict=True))


def _answers(command: Sequence[str], lines: Sequence[str]) -> list[str] | None:
    """The lines that the program prints for these; None: there is none, it fails or takes long."""
    program = shutil.which(command[0])
    if program is None or not lines:
        return None
    try:
        done = subprocess.run(
            [program, *command[1:]],
            input="".join(f"{line}\n" for line in lines),
            capture_output=True,
            encoding="utf-8",
            errors="surrogateescape",
            timeout=_TIMEOUT_S,
            check=True,
        )
    except (OSError, subprocess.SubprocessError, UnicodeError):
        return None
    return done.stdout.splitlines()


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
        return [chain[0] if chain else None for chain in self.chains(places)]

    def chains(self, places: Sequence[CodePlace]) -> list[tuple[Source, ...]]:
        """The same, and the functions that each is inlined into."""
        addresses: dict[str, set[int]] = {}
        found: list[tuple[str, int] | None] = []
        for place in places:
            elf = self._object(place.path) if place.path is not None else None
            address = elf.address(place.offset_bytes) if elf is not None else None
            found.append(None if place.path is None or address is None else (place.path, address))
            if place.path is not None and address is not None:
                addresses.setdefault(place.path, set()).add(address)
        known = {name: source_lines(name, sorted(some)) for name, some in addresses.items()}
        return [() if each is None else known[each[0]].get(each[1], ()) for each in found]

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


def mapped_file(pid: int, name: str, inode: int, start: int, end: int) -> str:
    """A path of ours for the file that process `pid` has mapped at [start, end) by this name.

    `inode` as in /proc/PID/maps. If it is in a file system that is not ours and cannot be reached,
    the path is never one of another file.
    """
    inside = f"/proc/{pid}/root{name}"
    for path in (name, inside, f"/proc/{pid}/map_files/{start:x}-{end:x}"):
        with contextlib.suppress(OSError, ValueError):
            if Path(path).stat().st_ino == inode:
                return path
    return inside if _has_other_files(pid) else name


def _has_other_files(pid: int) -> bool:
    """Whether it has mounts of its own; not known of one that has ended."""
    try:
        return Path(f"/proc/{pid}/ns/mnt").readlink() != Path("/proc/self/ns/mnt").readlink()
    except OSError:
        return False
