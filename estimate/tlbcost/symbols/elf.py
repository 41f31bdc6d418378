# SPDX-License-Identifier: GPL-2.0-or-later
"""The function at an offset of an ELF file."""

from __future__ import annotations

import bisect
import struct
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile
    from elftools.elf.sections import Section

_DEBUG = Path("/usr/lib/debug/.build-id")
# Of the ELF symbol table (System V ABI, "Symbol Table"): kinds that are code, and NOTYPE, which
# hand-written assembly leaves its labels.
_NOTYPE, _FUNC, _IFUNC = 0, 2, 10
_GLOBAL, _WEAK = 1, 2
_UNDEFINED, _FIRST_RESERVED = 0, 0xFF00
_EXECUTABLE = 4  # SHF_EXECINSTR


@dataclass(frozen=True, slots=True)
class Symbol:
    """`size` bytes of code from `start` on; 0: up to the next symbol.

    `chooses`: what it names is another function, which this one returns when the program starts.
    """

    start: int
    size: int
    name: str
    rank: int = 0  # of several at one place, the lowest is shown
    chooses: bool = False


class SymbolTable:
    """Symbols by address."""

    def __init__(self, symbols: Iterable[Symbol]) -> None:
        best: dict[int, Symbol] = {}
        for symbol in symbols:
            other = best.get(symbol.start)
            if other is None or _preference(symbol) < _preference(other):
                best[symbol.start] = symbol
        self._symbols = sorted(best.values(), key=lambda symbol: symbol.start)
        self._starts = [symbol.start for symbol in self._symbols]

    def __len__(self) -> int:
        return len(self._symbols)

    def find(self, address: int) -> str | None:
        """The name of the symbol that the address is within, or None."""
        i = bisect.bisect_right(self._starts, address) - 1
        if i < 0:
            return None
        symbol = self._symbols[i]
        return symbol.name if not symbol.size or address < symbol.start + symbol.size else None


def _preference(symbol: Symbol) -> tuple[int, bool, int, int, str]:
    """Preference among several names for one place: global, with a size, without underscores,
    short.
    """
    name = symbol.name
    underscores = len(name) - len(name.lstrip("_"))
    return symbol.rank, symbol.size == 0, underscores, len(name), name


@dataclass(frozen=True, slots=True)
class ElfObject:
    """An ELF file: its symbols, and its loaded segments as (offset, size, address).

    `named`: all symbols, several of one place too. `stripped`: they are only those that other
    files may use.
    """

    symbols: SymbolTable
    segments: tuple[tuple[int, int, int], ...]
    named: tuple[Symbol, ...]
    stripped: bool

    @classmethod
    def read(cls, path: Path) -> ElfObject:
        """Raises OSError, and ValueError for a file that is not a sound ELF file."""
        try:
            return cls._read(path)
        except damage_errors() as error:
            raise ValueError(f"{path}: not a sound ELF file") from error

    @classmethod
    def _read(cls, path: Path) -> ElfObject:
        from elftools.elf.elffile import ELFFile

        with path.open("rb") as file:
            elf = ELFFile(file)
            segments = tuple(
                (part["p_offset"], part["p_filesz"], part["p_vaddr"])
                for part in elf.iter_segments()
                if part["p_type"] == "PT_LOAD"
            )
            whole = _symbols(elf, ".symtab") or _debug_symbols(_build_id(elf))
            symbols = whole or _symbols(elf, ".dynsym")
        return cls(SymbolTable(symbols), segments, tuple(symbols), not whole)

    def address(self, offset_bytes: int) -> int | None:
        """The address at which this offset of the file is loaded; None: it is not loaded."""
        for offset, size, address in self.segments:
            if offset <= offset_bytes < offset + size:
                return offset_bytes - offset + address
        return None

    def offset(self, address: int) -> int | None:
        """Where in the file is what is loaded at this address? None: nothing of it."""
        for offset, size, start in self.segments:
            if start <= address < start + size:
                return address - start + offset
        return None

    def find(self, offset_bytes: int) -> str | None:
        """The symbol at this offset of the file."""
        address = self.address(offset_bytes)
        return None if address is None else self.symbols.find(address)


def damage_errors() -> tuple[type[Exception], ...]:
    """Exceptions of the library for damaged files."""
    from elftools.common.exceptions import ELFError
    from elftools.construct import ConstructError

    own = (ELFError, ConstructError, struct.error)
    plain = (KeyError, IndexError, TypeError, AssertionError, AttributeError, OverflowError)
    return (*own, *plain, ValueError, MemoryError, zlib.error)


def build_id_of(path: str) -> str | None:
    """In hexadecimal; None: it is not known."""
    from elftools.elf.elffile import ELFFile

    try:
        with Path(path).open("rb") as file:
            return _build_id(ELFFile(file))
    except OSError:
        return None
    except damage_errors():
        return None


def _build_id(elf: ELFFile) -> str | None:
    from elftools.elf.segments import NoteSegment

    for segment in elf.iter_segments():
        if isinstance(segment, NoteSegment):
            for note in segment.iter_notes():
                if note["n_type"] == "NT_GNU_BUILD_ID":
                    return str(note["n_desc"])
    return None


def _debug_symbols(build_id: str | None) -> list[Symbol]:
    """The symbols that a distribution ships separately from the object."""
    if not build_id:
        return []
    from elftools.elf.elffile import ELFFile

    try:
        with (_DEBUG / build_id[:2] / f"{build_id[2:]}.debug").open("rb") as file:
            return _symbols(ELFFile(file), ".symtab")
    except OSError:
        return []
    except damage_errors():
        return []


def _symbols(elf: ELFFile, section: str) -> list[Symbol]:
    """The code in a symbol table; empty if there is none."""
    table = elf.get_section_by_name(section)
    if table is None or table["sh_type"] not in ("SHT_SYMTAB", "SHT_DYNSYM"):
        return []
    strings = elf.get_section(table["sh_link"]).data()
    code = _code_sections(list(elf.iter_sections()))
    order = "<" if elf.little_endian else ">"
    found: list[Symbol] = []
    # Unpacked here, not symbol by symbol through the library, which takes seconds for a browser.
    if elf.elfclass == 64:
        layout = struct.Struct(f"{order}IBBHQQ")
    else:
        layout = struct.Struct(f"{order}IIIBBH")
    data = table.data()
    for fields in layout.iter_unpack(data[: len(data) - len(data) % layout.size]):
        if elf.elfclass == 64:
            name, info, _, index, value, size = fields
        else:
            name, value, size, info, _, index = fields
        kind, binding = info & 0xF, info >> 4
        if index == _UNDEFINED or index >= _FIRST_RESERVED:
            continue
        if kind not in (_FUNC, _IFUNC) and not (kind == _NOTYPE and index in code):
            continue
        text = strings[name : strings.find(b"\0", name)].decode(errors="replace")
        # Arm's and RISC-V's marks of where code and data begin.
        if not text or text.startswith("$"):
            continue
        rank = {_GLOBAL: 0, _WEAK: 1}.get(binding, 2) + (3 if kind == _NOTYPE else 0)
        # Thumb code has an odd address.
        start = value & ~1 if elf["e_machine"] == "EM_ARM" else value
        found.append(Symbol(start, size, text, rank, kind == _IFUNC))
    return found


def _code_sections(sections: Sequence[Section]) -> set[int]:
    return {i for i, section in enumerate(sections) if section["sh_flags"] & _EXECUTABLE}
