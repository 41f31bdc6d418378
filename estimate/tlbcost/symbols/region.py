# SPDX-License-Identifier: GPL-2.0-or-later
"""Begin and end of a region of a program: functions and markers by name, in ELF files."""

from __future__ import annotations

import difflib
import os
import re
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, BinaryIO

from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.run.outcome import Region, names_of
from tlbcost.symbols.elf import ElfObject, damage_errors
from tlbcost.symbols.resolver import demangled, source_lines

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_MARKERS = ".note.stapsdt"  # as SystemTap's, which strip leaves
_NEAR = 4
_HEADER = "tlbcost-marker.h"
# What compilers append to the name of a copy of a function; its cold part is no entry.
_CLONE = re.compile(r"\.(?:constprop|isra|lto_priv|llvm)\.\d+")
_HASH = re.compile(r"::h[0-9a-f]{16}$")


def region_of(text: str, program: Path) -> Region:
    """The region START:END of a program; END may be empty.

    START and END: a function, 0xADDRESS, or @MARKER; each with @FILE if it is not in the program's
    own file. Raises TlbcostError with exit code 2 where there is none or several of that name.
    """
    start, end = names_of(text)
    starts, ends = _places(start, program), _places(end, program) if end else ()
    if set(starts) & set(ends):
        raise TlbcostError(
            f"the region would end where it begins: {text}",
            "name what comes after it as END",
            USAGE,
        )
    return Region(text, starts, ends)


def _places(text: str, program: Path) -> tuple[str, ...]:
    """'OFFSET:FILE' for each place of that name."""
    marker = text.startswith("@")
    name, _, other = text.removeprefix("@").partition("@")
    path = Path(os.path.realpath(other or program))
    try:
        found = ElfObject.read(path)
        addresses = _markers(path, name) if marker else _function(path, found, name)
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or "no ELF file, such as a script"
        raise TlbcostError(
            f"cannot look for {name} in {path}: {why}",
            f"name the file that has it: {text.removesuffix('@' + other)}@/path/to/program",
            USAGE,
        ) from error
    offsets = [found.offset(address) for address in addresses]
    if None in offsets:
        raise TlbcostError(f"{name} is not in what is loaded of {path}", None, USAGE)
    return tuple(f"{offset}:{path}" for offset in offsets)


def _function(path: Path, found: ElfObject, name: str) -> list[int]:
    """The one entry of the function."""
    if re.fullmatch("0x[0-9a-fA-F]{1,16}", name):
        return [int(name, 16)]
    entries = {symbol.start for symbol in found.named if symbol.name == name}
    readable: dict[str, str] = {}
    if not entries:
        readable = demangled({symbol.name for symbol in found.named})
        entries = {
            symbol.start
            for symbol in found.named
            if name in _names(readable.get(symbol.name, symbol.name))
        }
    chosen = any(each.chooses and each.start in entries for each in found.named)
    if len(entries) == 1 and not chosen:
        return list(entries)
    if chosen:
        raise _chosen(path, found, name)
    if entries:
        raise _ambiguous(path, found, name, sorted(entries), readable)
    raise _unknown(path, found, name, readable)


def _names(readable: str) -> tuple[str, ...]:
    """What users may call a function: with its parameters, without, without what compilers add."""
    plain = _HASH.sub("", _CLONE.sub("", readable.partition(" [clone ")[0]))
    depth = 0
    for i in range(len(plain) - 1, -1, -1):
        depth += (plain[i] == ")") - (plain[i] == "(")
        if plain[i] == "(" and depth == 0:
            return readable, plain, plain[:i]
    return readable, plain


def _chosen(path: Path, found: ElfObject, name: str) -> TlbcostError:
    near = sorted({each.name for each in found.named if f"_{name}_" in each.name})
    return TlbcostError(
        f"{path} has several functions for {name}, of which the CPU decides one",
        f"name that one: {', '.join(near) or 'nm lists them'}",
        USAGE,
    )


def _ambiguous(
    path: Path, found: ElfObject, name: str, entries: Sequence[int], readable: dict[str, str]
) -> TlbcostError:
    lines = source_lines(str(path), entries)
    shown = []
    for entry in entries[:_NEAR]:
        full = next(each.name for each in found.named if each.start == entry)
        where = f" ({lines[entry][0][1]}:{lines[entry][0][2]})" if entry in lines else ""
        shown.append(f"{readable.get(full, full)}{where} is {entry:#x}")
    return TlbcostError(
        f"{len(entries)} functions of {path} are called {name}",
        "give one's parameters or address: " + "; ".join(shown),
        USAGE,
    )


def _unknown(path: Path, found: ElfObject, name: str, readable: dict[str, str]) -> TlbcostError:
    if found.stripped:
        return TlbcostError(
            f"no function {name} is known in {path}: it has no symbols (it was stripped)",
            "build it without -s and strip, install its debug symbols, or mark the place with "
            f"{_HEADER}",
            USAGE,
        )
    if _has_debug_name(path, name):
        return TlbcostError(
            f"{name} has no code of its own in {path}: the compiler inlined it, or it is no "
            "function",
            f"declare it __attribute__((noinline)), or mark the place with {_HEADER}",
            USAGE,
        )
    names = {_names(readable.get(each.name, each.name))[-1] for each in found.named}
    near = difflib.get_close_matches(name, names, _NEAR)
    near += sorted(each for each in names if name.lower() in each.lower())[:_NEAR]
    return TlbcostError(
        f"{path} has no function {name}",
        f"did you mean {', '.join(dict.fromkeys(near))}?" if near else "nm -C lists its functions",
        USAGE,
    )


def _has_debug_name(path: Path, name: str) -> bool:
    """Debug information has something of this name: its strings, or short ones in place."""
    last = name.rpartition("::")[2].partition("(")[0].encode()
    with path.open("rb") as file:
        elf = _elf(file)
        for section, before in ((".debug_str", b"\0"), (".debug_info", b"")):
            part = elf.get_section_by_name(section)
            if part is not None and before + last + b"\0" in b"\0" + part.data():
                return True
    return False


def _markers(path: Path, name: str) -> list[int]:
    """All places that are marked so: a loop that is unrolled has one several times."""
    with path.open("rb") as file:
        try:
            found = list(_notes(_elf(file)))
        except damage_errors() as error:
            raise ValueError(f"{path}: not sound markers") from error
    addresses = [at for at, provider, each in found if name in (each, f"{provider}/{each}")]
    if addresses:
        return addresses
    known = sorted({f"@{each}" for _, _, each in found})
    near = difflib.get_close_matches(f"@{name}", known, _NEAR) or known[:_NEAR]
    raise TlbcostError(
        f"{path} has no marker {name}",
        f"it has {', '.join(near)}" if near else f'TLBCOST_MARK("{name}") of {_HEADER} makes one',
        USAGE,
    )


def _notes(elf: ELFFile) -> Iterator[tuple[int, str, str]]:
    """(address, provider, name) of each marker. Of 64-bit files of this machine's byte order."""
    section = elf.get_section_by_name(_MARKERS)
    data = b"" if section is None else section.data()
    base = elf.get_section_by_name(".stapsdt.base")
    at = 0
    while at + 12 <= len(data):
        name_bytes, bytes_, kind = struct.unpack_from("<III", data, at)
        start = at + 12 + (name_bytes + 3 & ~3)
        at = start + (bytes_ + 3 & ~3)
        if kind != 3 or bytes_ < 24:
            continue
        address, linked, _ = struct.unpack_from("<QQQ", data, start)
        # Files whose addresses were changed after they were linked.
        moved = base["sh_addr"] - linked if base is not None and linked else 0
        provider, each, *_ = data[start + 24 : start + bytes_].split(b"\0")
        yield address + moved, provider.decode(errors="replace"), each.decode(errors="replace")


def _elf(file: BinaryIO) -> ELFFile:
    from elftools.elf.elffile import ELFFile

    return ELFFile(file)
