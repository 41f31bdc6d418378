# SPDX-License-Identifier: GPL-2.0-or-later
"""The sizes and associativity of the TLBs, and where each figure comes from."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Annotated, Literal

from tlbcost.common.document import doc

Level = Literal["dtlb", "dtlb_store", "itlb", "stlb"]
SourceKind = Literal["measured", "published", "assumed"]


@dataclass(frozen=True, slots=True)
class TlbLevel:
    """Geometry of one TLB level for one page size; fully associative if ways == entries."""

    entries: Annotated[int, doc("how many it holds", minimum=1)]
    ways: Annotated[int, doc("its associativity; as many as entries: fully", minimum=1)]


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
    """The source of a TLB level's figures; `confirmed`: published, and the measurement agrees."""

    kind: SourceKind
    sentence: str
    confirmed: bool = False


@dataclass(frozen=True, slots=True)
class Geometry:
    """The TLBs to simulate, and for each level where its figures come from.

    `sources` is keyed by the level and its page size in bytes. `stlb_folded`: the set of an STLB
    entry is its page number xored with the number's next higher bits.
    """

    base: PageSizeGeometry
    huge: PageSizeGeometry
    sources: dict[tuple[Level, int], LevelSource] = field(default_factory=dict)
    stlb_folded: bool = False
