# SPDX-License-Identifier: GPL-2.0-or-later
"""What the simulator counted in each process image."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Side = Literal["load", "store", "fetch"]


@dataclass(frozen=True, slots=True)
class SideCounts:
    """Misses of one kind of access on one page size."""

    l1_tlb_misses: int
    stlb_hits: int
    stlb_misses: int


@dataclass(frozen=True, slots=True)
class Touched:
    """The memory that a process touched.

    Base pages of anonymous memory, the huge-page-sized regions that these lie in, and base pages
    of files and shared memory.
    """

    anonymous_pages: int
    anonymous_huge_pages: int
    other_pages: int

    @property
    def pages(self) -> int:
        """Base pages of any kind."""
        return self.anonymous_pages + self.other_pages


@dataclass(frozen=True, slots=True)
class ProcessCounts:
    """What the simulator counted in one process image.

    `counts` maps (page size in bytes, side) to the misses. The last three are None if the process
    was killed before it could report; `touched` alone if its pages could not be noted.
    """

    pid: int
    parent_pid: int
    program: str
    threads: int | None
    counts: dict[tuple[int, Side], SideCounts] | None
    touched: Touched | None
