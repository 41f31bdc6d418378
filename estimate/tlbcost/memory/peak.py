# SPDX-License-Identifier: GPL-2.0-or-later
"""A program's memory at its peak, and how much of it was on huge pages."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from tlbcost.memory.smaps import MappingKind

# Which memory a way to get huge pages should reach.
MemoryScope = Literal["malloc", "anonymous", "all", "segments", "shared"]

_REACHED: dict[MemoryScope, frozenset[MappingKind]] = {
    "malloc": frozenset({"heap", "anonymous"}),
    "anonymous": frozenset({"heap", "anonymous", "segment"}),
    "all": frozenset({"heap", "anonymous", "segment", "stack", "file", "shared"}),
    "segments": frozenset({"segment"}),
    "shared": frozenset({"shared"}),
}


@dataclass(frozen=True, slots=True)
class MemoryPart:
    """Memory of one name and kind in one program; its pages of all sizes, and the huge ones.

    `program`: path of the executable, of all processes that run it. `eligible_bytes`: of those on
    base pages, what transparent huge pages were allowed for; None: the kernel does not report it.
    """

    name: str
    kind: MappingKind
    resident_bytes: int
    huge_bytes: int
    program: str | None = None
    eligible_bytes: int | None = None

    @property
    def base_bytes(self) -> int:
        return self.resident_bytes - self.huge_bytes


@dataclass(frozen=True, slots=True)
class PeakMemory:
    """The memory of a process tree when it had most, in bytes; pages of two processes count twice.

    `resident_bytes`: Rss and hugetlb pages, which are not in Rss. `mthp_bytes`: by page size, what
    the whole system's counters grew by, and no more than the program can have; None where the
    kernel has no such counters. `mappings`: most on base pages first. `unreadable`: processes
    whose memory may not be looked at, and is missing. `samples`: how often smaps was read.
    `fallbacks`: page faults in the whole system that got no huge page for lack of one.
    """

    resident_bytes: int
    anonymous_huge_bytes: int
    hugetlb_bytes: int
    shmem_huge_bytes: int
    file_huge_bytes: int
    mthp_bytes: dict[int, int] | None
    mappings: tuple[MemoryPart, ...]
    samples: int
    unreadable: int = 0
    fallbacks: int | None = None

    @property
    def huge_bytes(self) -> int:
        mthp = sum(self.mthp_bytes.values()) if self.mthp_bytes else 0
        return (
            self.anonymous_huge_bytes
            + self.hugetlb_bytes
            + self.shmem_huge_bytes
            + self.file_huge_bytes
            + mthp
        )

    def reachable_bytes(self, reach: MemoryScope) -> int:
        return sum(part.resident_bytes for part in self.parts(reach))

    def reached_bytes(self, reach: MemoryScope) -> int:
        reachable = self.reachable_bytes(reach)
        mthp = sum(self.mthp_bytes.values()) if self.mthp_bytes else 0
        if reach in ("segments", "shared"):
            mthp = 0
        return min(sum(part.huge_bytes for part in self.parts(reach)) + mthp, reachable)

    def reached_fraction(self, reach: MemoryScope) -> float | None:
        reachable = self.reachable_bytes(reach)
        return self.reached_bytes(reach) / reachable if reachable else None

    def parts(self, reach: MemoryScope) -> list[MemoryPart]:
        return [part for part in self.mappings if part.kind in _REACHED[reach]]
