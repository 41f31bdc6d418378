# SPDX-License-Identifier: GPL-2.0-or-later
"""Which of a program's memory pays for translation, and what would huge pages for it alone give?

One Payer is one mapping, or all of the same kind and name in one program. What was not obtained is
None. Shares of all payers of an estimate sum to the whole.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

from tlbcost.common.interval import Interval

# heap: grown by brk. anonymous: private mmap, malloc's large blocks and arenas among them. segment:
# code, data and bss of the executable. file: a mapped file on a file system with storage. tmpfs,
# memfd, sysv: shared memory by the way it was made; shared: MAP_SHARED without a name. jit:
# anonymous memory that code runs from.
PayerKind = Literal[
    "heap", "anonymous", "stack", "segment", "file", "tmpfs", "memfd", "sysv", "shared",
    "hugetlbfs", "jit", "unknown",
]  # fmt: skip

_NAMES: Mapping[PayerKind, str] = {
    "heap": "[heap]",
    "anonymous": "anonymous memory",
    "stack": "[stack]",
    "shared": "shared memory",
    "sysv": "SysV shared memory",
    "hugetlbfs": "huge pages",
    "jit": "code made at run time",
    "unknown": "other memory",
}


@dataclass(frozen=True, slots=True)
class Site:
    """Where memory was allocated, or where in the code it is referred to; None: not told.

    `variable`: the name of a static one of the object's, which has no function.
    """

    object: str | None
    function: str | None
    file: str | None
    line: int | None
    variable: str | None = None


@dataclass(frozen=True, slots=True)
class Backed:
    """What the kernel said of a mapping while the program ran natively (smaps).

    `page_bytes`: size of the pages that hold most of it. `eligible`: THPeligible; None: not told.
    `flags`: VmFlags (`hg`: madvised, `nh`: madvised not to, `ht`: hugetlb). `start`, `end`: of the
    largest one, where alignment and size below a huge page matter. `offset_bytes`, `device`: in
    the file that is mapped there, and (major, minor) of its file system.
    """

    start: int
    end: int
    permissions: str
    resident_bytes: int
    huge_bytes: int
    page_bytes: int
    eligible: bool | None
    flags: tuple[str, ...]
    offset_bytes: int = 0
    device: tuple[int, int] | None = None


@dataclass(frozen=True, slots=True)
class Payer:
    """One mapping's part in the misses, the time and the gain.

    `name`: the path, or `[heap]`, `[stack]`, `[bss]`, `anonymous memory`. `touched_bytes`: base
    pages that the program referred to; `touched_huge_bytes`: what it takes on huge pages, by the
    regions that they lie in. `misses_fraction`, `huge_misses_fraction`: of all walks on base pages,
    and on huge ones. `time_fraction`: of the time in translation on base pages. `gain_fraction`:
    part of the run time that huge pages for this memory alone should give back. `sites`: where it
    was allocated, with their share of its misses, most first. `samples`: that `misses_fraction`
    rests on, with its 95 % interval; None: it was simulated.
    """

    program: str
    kind: PayerKind
    name: str
    size_bytes: int | None
    touched_bytes: int | None
    touched_huge_bytes: int | None
    code: bool
    misses_fraction: float | None
    huge_misses_fraction: float | None
    time_fraction: float | None
    huge_time_fraction: float | None
    gain_fraction: Interval | None
    sites: tuple[tuple[Site, float], ...] = ()
    backed: Backed | None = None
    samples: int | None = None
    misses_interval: Interval | None = None

    @property
    def mapped_bytes(self) -> int:
        """`size_bytes` of memory whose size is known; remedies are for no other."""
        assert self.size_bytes is not None
        return self.size_bytes


def on_huge_bytes(touched_bytes: int, huge_pages: int, mapped_bytes: int, huge_bytes: int) -> int:
    """What touched memory takes on huge pages, of which it touches so many.

    A huge page does not fit into less, and no more is taken than is mapped.
    """
    if mapped_bytes < huge_bytes:
        return touched_bytes
    return max(touched_bytes, min(huge_pages * huge_bytes, mapped_bytes))


def name_of(kind: PayerKind) -> str:
    """What memory of a kind is called where it has no name."""
    return _NAMES.get(kind, "other memory")
