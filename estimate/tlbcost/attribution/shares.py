# SPDX-License-Identifier: GPL-2.0-or-later
"""What share of the page walks does each memory region and line of code have, and what would it
save?

One RegionShare is one mapping, or all of the same kind and name in one program. A figure that was
not obtained is None. Shares of all regions of an estimate sum to the whole.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.common.document import doc
from tlbcost.common.interval import Interval
from tlbcost.memory.kinds import Backing, MemoryKind
from tlbcost.simulator.memory_tables import ImageAttribution, SourceLocation
from tlbcost.simulator.windows import ImageWindows


@dataclass(frozen=True, slots=True, kw_only=True)
class AllocationSite(SourceLocation):
    """Where memory was allocated, and that call's share of the walks on the memory."""

    misses_fraction: Annotated[float, doc("share of the memory's own walks", minimum=0, maximum=1)]


@dataclass(frozen=True, slots=True)
class RegionShare:
    """One mapping's part of the misses, the time and the gain.

    `name`: the path, or `[heap]`, `[stack]`, `[bss]`, `anonymous memory`. `touched_bytes`: base
    pages that the program accessed; `touched_huge_bytes`: what they use on huge pages, by the
    regions that contain them. `misses_fraction`, `huge_misses_fraction`: of all walks on base
    pages, and on huge ones. `time_fraction`: of the time in translation on base pages.
    `gain_fraction`: part of the run time that huge pages for this memory alone should save.
    `sites`: where it was allocated, with their share of its misses, most first. `samples`: the
    number behind `misses_fraction`, with its 95 % interval; None: it was simulated.
    `malloc_fraction`: of its walks, those on memory that calls of malloc mapped; None: the calls
    are unknown.
    """

    program: Annotated[str, doc("the executable")]
    kind: Annotated[MemoryKind, doc("what kind of memory it is")]
    name: Annotated[str, doc("its path or name")]
    size_bytes: Annotated[int | None, doc("mapped; null: not known", minimum=0)]
    touched_bytes: Annotated[int | None, doc("base pages that it touched", minimum=0)]
    touched_huge_bytes: Annotated[
        int | None, doc("what the touched memory would use on huge pages", minimum=0)
    ]
    code: Annotated[bool, doc("it is code")]
    misses_fraction: Annotated[
        float | None,
        doc(
            "of all page walks on base pages; of samples: of the loads and stores that missed, "
            "null if there are too few",
            minimum=0,
            maximum=1,
        ),
    ]
    huge_misses_fraction: Annotated[
        float | None, doc("of all page walks on huge pages", minimum=0, maximum=1)
    ]
    time_fraction: Annotated[
        float | None, doc("of the time in translation on base pages", minimum=0, maximum=1)
    ]
    huge_time_fraction: Annotated[
        float | None, doc("of the time in translation on huge pages", minimum=0, maximum=1)
    ]
    gain_fraction: Annotated[
        Interval | None,
        doc(
            "part of expected_fraction from huge pages for this memory alone; of samples: as if "
            "each miss cost the same"
        ),
    ]
    sites: Annotated[tuple[AllocationSite, ...], doc("where it was allocated, most first")] = ()
    backed: Annotated[Backing | None, doc("from smaps, while the program ran natively")] = None
    samples: Annotated[int | None, doc("of its misses; null: it was simulated", minimum=0)] = None
    misses_interval: Annotated[
        Interval | None, doc("of samples: the 95 % interval of misses_fraction")
    ] = None
    malloc_fraction: Annotated[
        float | None,
        doc(
            "of its page walks, those on memory that calls of malloc mapped; null: the calls are "
            "not known",
            minimum=0,
            maximum=1,
        ),
    ] = None

    @property
    def mapped_bytes(self) -> int:
        """`size_bytes` of memory whose size is known; remedies are for no other."""
        assert self.size_bytes is not None
        return self.size_bytes


CostedBy = Literal["windows", "prices"]
SIMULATION = "simulation"


@dataclass(frozen=True, slots=True)
class CodeLine:
    """A line of code and its share of all walks on base pages.

    `walks`, `huge_walks`: its number on each page size, of data and of fetches; None: not known.
    `samples`: the number that the others are estimated from; None: they are simulated.
    """

    site: Annotated[SourceLocation, doc("where it is")]
    walks_fraction: Annotated[float | None, doc("of all page walks", minimum=0, maximum=1)]
    walks: Annotated[int, doc("of samples: the misses that they stand for", minimum=0)]
    huge_walks: Annotated[int | None, doc("page walks on huge pages", minimum=0)]
    samples: Annotated[int | None, doc("null: it was simulated", minimum=0)] = None


@dataclass(frozen=True, slots=True)
class Attribution:
    """Walks by memory and code. `costed_by`: the basis of times; None: there are none.

    `windows`: what was modelled of the images. `other_fraction`: the share of the walks in unknown
    memory, which is a region as well. `source`: what found the misses.
    """

    regions: tuple[RegionShare, ...]
    code: tuple[CodeLine, ...]
    images: tuple[ImageAttribution, ...]
    costed_by: CostedBy | None
    other_fraction: float
    windows: tuple[ImageWindows, ...] = ()
    source: str = SIMULATION


def on_huge_bytes(touched_bytes: int, huge_pages: int, mapped_bytes: int, huge_bytes: int) -> int:
    """What touched memory uses on huge pages, of which it touches this many.

    A huge page needs a whole region, and no more is used than is mapped.
    """
    if mapped_bytes < huge_bytes:
        return touched_bytes
    return max(touched_bytes, min(huge_pages * huge_bytes, mapped_bytes))
