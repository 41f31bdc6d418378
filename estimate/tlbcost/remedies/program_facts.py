# SPDX-License-Identifier: GPL-2.0-or-later
"""What kind of program is this, as far as ways to huge pages depend on it?"""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.symbols.elf import damage_errors

if TYPE_CHECKING:
    from elftools.elf.elffile import ELFFile

_RUNTIMES = (
    (re.compile(r"java"), "java"),
    (re.compile(r"python[0-9.]*[a-z]?"), "python"),
    (re.compile(r"postgres(?:ql)?"), "postgres"),
    (re.compile(r"redis-server|valkey-server"), "redis-server"),
    (re.compile(r"mongod"), "mongod"),
)
# Sections that Go's linker writes.
_GO_SECTIONS = (".go.buildinfo", ".note.go.buildid")
_OTHER_MALLOCS = ("jemalloc", "tcmalloc", "mimalloc", "tbbmalloc", "snmalloc")


@dataclass(frozen=True, slots=True)
class Facts:
    """What an executable tells of itself; None: it does not, or cannot be read.

    `runtime`: as in data/remedies/switches.tsv. `glibc`: it uses the shared glibc of this system.
    `allocator`: another malloc than the C library's that it is linked with. `movable`: it is linked
    so that libhugetlbfs can move its segments. `aligned`: its segments are aligned to `2 MiB`.
    """

    path: str
    runtime: str | None = None
    glibc: bool | None = None
    allocator: str | None = None
    movable: bool | None = None
    aligned: bool | None = None


def facts_of(path: str, huge_page_bytes: int) -> Facts:
    """What is known of the executable at `path`."""
    runtime = _runtime(Path(path).name)
    try:
        from elftools.elf.elffile import ELFFile

        with Path(path).open("rb") as file:
            return _read(ELFFile(file), path, runtime, huge_page_bytes)
    except OSError:
        return Facts(path, runtime)
    except damage_errors():
        return Facts(path, runtime)


def _runtime(name: str) -> str | None:
    return next((runtime for pattern, runtime in _RUNTIMES if pattern.fullmatch(name)), None)


def _read(elf: ELFFile, path: str, runtime: str | None, huge_page_bytes: int) -> Facts:
    if runtime is None and any(elf.get_section_by_name(name) for name in _GO_SECTIONS):
        runtime = "go"
    needed = _needed(elf)
    loaded = [part for part in elf.iter_segments() if part["p_type"] == "PT_LOAD"]
    return Facts(
        path,
        runtime,
        any(name.startswith(("libc.so.6", "libc.so.6.1")) for name in needed),
        next((m for name in needed for m in _OTHER_MALLOCS if m in name), None),
        any(name.startswith("libhugetlbfs") for name in needed),
        all(part["p_align"] % huge_page_bytes == 0 for part in loaded) if loaded else None,
    )


def _needed(elf: ELFFile) -> Sequence[str]:
    from elftools.elf.dynamic import DynamicSegment

    found: list[str] = []
    for part in elf.iter_segments():
        if isinstance(part, DynamicSegment):
            found += [
                str(getattr(tag, "needed", ""))
                for tag in part.iter_tags()
                if tag["d_tag"] == "DT_NEEDED"
            ]
    return found
