# SPDX-License-Identifier: GPL-2.0-or-later
"""The values that travel through tlbcost: what was measured, counted and concluded.

`None` means "not obtained" everywhere; it is never replaced by 0.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

Access = Literal["serial", "overlapped", "chains_2", "chains_4", "chains_8"]
Extent = Literal["quick", "full"]
Side = Literal["load", "store", "fetch"]
Level = Literal["dtlb", "dtlb_store", "itlb", "stlb"]
SourceKind = Literal["measured", "published", "assumed"]


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the interval that it is believed to lie in."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"not an interval: {self.low} <= {self.value} <= {self.high}")


@dataclass(frozen=True, slots=True)
class Machine:
    """What a calibration depends on; two machines that compare equal share one calibration."""

    cpu_vendor: str | None
    cpu_family: str | None
    cpu_model: str | None
    cpu_stepping: str | None
    cpu_name: str | None
    microcode: str | None
    hypervisor: str | None
    kernel: str | None
    base_page_bytes: int
    thp_mode: str | None
    governor: str | None


@dataclass(frozen=True, slots=True)
class TlbLevel:
    """Geometry of one TLB level for one page size; fully associative if ways == entries."""

    entries: int
    ways: int


@dataclass(frozen=True, slots=True)
class PageSizeGeometry:
    """The TLBs that serve one page size. `None`: that level does not hold this page size.

    `entry_bytes` is what one entry covers where that is less than a page: under a hypervisor that
    backs its guest with smaller pages. Misses are then those of pages of `entry_bytes`.
    """

    page_size_bytes: int
    dtlb: TlbLevel
    itlb: TlbLevel
    stlb: TlbLevel | None
    entry_bytes: int | None = None


@dataclass(frozen=True, slots=True)
class LevelSource:
    """Where the figures of a TLB level come from; `confirmed`: published, and measured alike."""

    kind: SourceKind
    sentence: str
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """The TLBs to simulate, and for each level where its figures come from.

    `sources` is keyed by the level and its page size in bytes. `stlb_folded`: the set of an STLB
    entry is chosen by its page number xored with the number's next higher bits.
    """

    base: PageSizeGeometry
    huge: PageSizeGeometry
    sources: dict[tuple[Level, int], LevelSource] = field(default_factory=dict)
    stlb_folded: bool = False


@dataclass(frozen=True, slots=True)
class Cost:
    """One calibrated quantity (doc/format.md, "calibration"); `interval` None: not obtained.

    `page_size_bytes` None: the quantity belongs to no page size.
    """

    quantity: str
    page_size_bytes: int | None
    access: Access | None
    pages: int | None
    interval: Interval | None
    samples: int


@dataclass(frozen=True, slots=True)
class Calibration:
    """Everything that was calibrated on one machine.

    `cpuid` has the raw words of CPUID leaves by their key in the samples' header; empty where the
    CPU has no such instruction. `notes` are sentences about what is missing or limited.
    """

    machine: Machine
    date: str
    version: str
    duration_s: float
    costs: tuple[Cost, ...]
    extent: Extent = "quick"
    cpuid: dict[str, str] = field(default_factory=dict)
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Run:
    """One native execution of the program and the children it waited for."""

    wall_ns: int
    user_ns: int
    system_ns: int
    minor_faults: int
    major_faults: int
    max_rss_bytes: int


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
