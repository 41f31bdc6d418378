# SPDX-License-Identifier: GPL-2.0-or-later
"""What does one executable or library reveal about who allocates memory in it?"""

from __future__ import annotations

import functools
import mmap
import os
import re
import stat
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.symbols.elf import damage_errors
from tlbcost.system import glibc

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

# Sections that Go's linker writes.
_GO_SECTIONS = (".go.buildinfo", ".note.go.buildid")
# Texts that a linked allocator or runtime leaves in the file, stripped or not.
TEXTS = {
    # The names of its statistics: jemalloc has had THP modes since 5.1, the first with both.
    "jemalloc": b"<jemalloc>",
    "jemalloc thp": b"\0opt.thp\0",
    "jemalloc metadata_thp": b"\0opt.metadata_thp\0",
    "tcmalloc": b"TCMALLOC_MAX_TOTAL_THREAD_CACHE_BYTES",
    "mimalloc": b"mimalloc: ",
    "mimalloc large": b"\0large_os_pages\0",
    "mimalloc allow large": b"\0allow_large_os_pages\0",
    # Since version 3 mimalloc asks by itself, which this option can forbid.
    "mimalloc thp": b"\0allow_thp\0",
    "glibc": b"glibc.malloc.",
    "glibc hugetlb": glibc.HUGETLB.encode(),
    # An option of V8 that no other program has reason to name.
    "v8": b"semi_space_growth_factor",
}
# jemalloc's variable has the prefix that its functions were built with: JE_MALLOC_CONF in redis.
_JEMALLOC_VARIABLE = re.compile(rb"\0([A-Z0-9_]*MALLOC_CONF)\0")


@dataclass(frozen=True, slots=True)
class ElfFile:
    """One executable or library. All is empty, and `interpreter` None, if it cannot be read.

    `interpreter`: its dynamic linker; '': none. `needed`: the names of libraries. `texts`: which of
    TEXTS it contains. `jemalloc_variable`: the environment variable that its jemalloc reads.
    `load_alignment`: the least alignment of its segments, bytes. `secure`: it gains rights
    when it starts, so that the C library drops requests in the environment.
    """

    path: str
    interpreter: str | None = None
    needed: tuple[str, ...] = ()
    texts: frozenset[str] = frozenset()
    jemalloc_variable: str | None = None
    go: bool = False
    load_alignment: int | None = None
    secure: bool = False

    @property
    def name(self) -> str:
        """The file's own name."""
        return Path(self.path).name


def read_elf(path: str) -> ElfFile:
    """Read the file; a file is read again only if it has changed."""
    try:
        status = Path(path).stat()
    except (OSError, ValueError):
        return ElfFile(path)
    return _read(path, status.st_mtime_ns, status.st_size)


@functools.lru_cache(maxsize=64)
def _read(path: str, _changed_ns: int, size: int) -> ElfFile:
    from elftools.elf.elffile import ELFFile

    secure = _is_secure(Path(path))
    try:
        with Path(path).open("rb") as file:
            if not size or file.read(4) != b"\x7fELF":
                return ElfFile(path, secure=secure)
            with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
                texts = frozenset(name for name, text in TEXTS.items() if content.find(text) >= 0)
                variable = _jemalloc_variable(content) if "jemalloc" in texts else None
            return _headers(ELFFile(file), path, texts, variable, secure=secure)
    except OSError:
        return ElfFile(path, secure=secure)
    except damage_errors():
        return ElfFile(path, secure=secure)


def _jemalloc_variable(content: mmap.mmap) -> str:
    """A prefixed name stands by itself; the plain one may be the end of a longer text."""
    found = _JEMALLOC_VARIABLE.search(content)
    return found[1].decode() if found else "MALLOC_CONF"


def _headers(
    elf: ELFFile, path: str, texts: frozenset[str], variable: str | None, *, secure: bool
) -> ElfFile:
    from elftools.elf.dynamic import DynamicSegment
    from elftools.elf.segments import InterpSegment

    interpreter, needed, alignments = "", [], []
    for part in elf.iter_segments():
        if isinstance(part, InterpSegment):
            interpreter = str(part.get_interp_name())
        elif isinstance(part, DynamicSegment):
            needed += [
                str(getattr(tag, "needed", ""))
                for tag in part.iter_tags()
                if tag["d_tag"] == "DT_NEEDED"
            ]
        elif part["p_type"] == "PT_LOAD":
            alignments.append(int(part["p_align"]))
    return ElfFile(
        path,
        interpreter,
        tuple(needed),
        texts,
        variable,
        any(elf.get_section_by_name(name) is not None for name in _GO_SECTIONS),
        min(alignments, default=None),
        secure,
    )


def _is_secure(path: Path) -> bool:
    try:
        if path.stat().st_mode & (stat.S_ISUID | stat.S_ISGID):
            return True
        return "security.capability" in os.listxattr(path)
    except OSError:
        return False
