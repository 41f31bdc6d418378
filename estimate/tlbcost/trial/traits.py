# SPDX-License-Identifier: GPL-2.0-or-later
"""What about a program keeps the usual ways to huge pages from working on it?"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tlbcost.system import glibc

_MOST_BYTES = 256 << 20
_GO_SECTIONS = frozenset({".go.buildinfo", ".note.go.buildid"})
_ALLOCATORS = ("libjemalloc", "libtcmalloc", "libmimalloc", "libhoard", "libscudo", "librpmalloc")


@dataclass(frozen=True, slots=True)
class Traits:
    """Of one executable and the libraries that it maps.

    `secure`: it gains rights when it starts, so that the C library drops what the environment
    asks of malloc and of the linker. `static`: without a dynamic linker. `tunable`: it has
    glibc.malloc.hugetlb in it, if static. `musl`, `go`, `java`: its C library, or its runtime.
    `allocator`: the library of another malloc.
    """

    secure: bool = False
    static: bool = False
    tunable: bool = False
    musl: bool = False
    go: bool = False
    java: bool = False
    allocator: str | None = None


def traits(executable: str, mapped: Iterable[str]) -> Traits:
    """Look at the file, and at the names of what its processes map; what is not found is False."""
    names = [Path(name).name for name in mapped]
    allocators = [name for name in names if name.startswith(_ALLOCATORS)]
    interpreter, sections, tunable = _file(Path(executable))
    return Traits(
        secure=_is_secure(Path(executable)),
        static=interpreter == "",
        tunable=tunable,
        musl=interpreter is not None and Path(interpreter).name.startswith("ld-musl"),
        go=bool(_GO_SECTIONS & sections),
        java="libjvm.so" in names,
        allocator=allocators[0] if allocators else None,
    )


def _is_secure(path: Path) -> bool:
    try:
        if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            return True
        return "security.capability" in os.listxattr(path)
    except OSError:
        return False


def _file(path: Path) -> tuple[str | None, frozenset[str], bool]:
    """The dynamic linker ('': none; None: not known), the sections, and whether it has the tunable.

    A static executable of glibc carries the names of its tunables.
    """
    from elftools.elf.elffile import ELFFile
    from elftools.elf.segments import InterpSegment

    from tlbcost.symbols.elf import damage_errors

    try:
        with path.open("rb") as file:
            elf = ELFFile(file)
            linkers = [
                segment.get_interp_name()
                for segment in elf.iter_segments()
                if isinstance(segment, InterpSegment)
            ]
            sections = frozenset(section.name for section in elf.iter_sections())
            file.seek(0)
            static = not linkers
            tunable = static and glibc.HUGETLB.encode() in file.read(_MOST_BYTES)
    except OSError:
        return None, frozenset(), False
    except damage_errors():
        return None, frozenset(), False
    return (linkers[0] if linkers else ""), sections, tunable
