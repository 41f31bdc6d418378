# SPDX-License-Identifier: GPL-2.0-or-later
"""What do huge pages cost: memory, reserved pages, first touches, forks?"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Annotated, Literal

from tlbcost.attribution.shares import RegionShare
from tlbcost.common.document import doc
from tlbcost.common.interval import Interval
from tlbcost.remedies.situation import Situation

Pages = Literal["transparent", "pool"]

# Whether a page fault waits while the kernel compacts memory, by the setting defrag (Linux's
# Documentation/admin-guide/mm/transhuge.rst).
_DEFRAG = {
    "always": "page faults wait while the kernel compacts memory (defrag always)",
    "defer": "no page fault waits for compaction; huge pages may come late (defrag defer)",
    "defer+madvise": "page faults in memory that asks wait for compaction (defrag defer+madvise)",
    "madvise": "page faults in memory that asks wait for compaction (defrag madvise)",
    "never": "no page fault waits for compaction; without free huge pages there are none "
    "(defrag never)",
}
_FORK = {
    # Since Linux 5.8 a write to a shared transparent page splits it (mm/huge_memory.c).
    "transparent": "after a fork, writes split the huge pages again",
    "pool": "after a fork, each write copies a whole huge page and takes another from the pool; a "
    "child that finds none is killed (SIGBUS)",
}
_KHUGEPAGED = "khugepaged may fill holes that the program freed"


@dataclass(frozen=True, slots=True)
class Cost:
    """What one remedy costs; None: not known, or nothing of that kind.

    `pool_pages` of `pool_page_bytes`: to be reserved, and taken from all other programs.
    `growth_bytes`: what the program's memory grows by, since huge pages are touched in part.
    `fault_ns`: of the first touch of a huge page; `base_fault_ns`: of a base page. `sentences`:
    what else to expect.
    """

    pool_pages: Annotated[int | None, doc("huge pages to reserve")]
    pool_page_bytes: Annotated[int | None, doc("size of these")]
    growth_bytes: Annotated[
        int | None,
        doc(
            "what the program's memory grows by, from the regions of a huge page that it touched "
            "in part"
        ),
    ]
    fault_ns: Annotated[Interval | None, doc("first touch of a huge page")]
    base_fault_ns: Annotated[Interval | None, doc("first touch of a base page")]
    sentences: Annotated[tuple[str, ...], doc("what else to expect")]


def growth_bytes(regions: Sequence[RegionShare]) -> int | None:
    """What memory grows by on huge pages, by the regions touched in part; None: not known."""
    total = 0
    for region in regions:
        if region.touched_bytes is None or region.touched_huge_bytes is None:
            return None
        total += max(region.touched_huge_bytes - region.touched_bytes, 0)
    return total


def cost_of(
    regions: Sequence[RegionShare], pages: Pages, situation: Situation, pool: int | None = None
) -> Cost:
    """What huge pages of a kind cost for these regions. `pool`: pages to reserve."""
    settings = situation.settings
    # A fork does not copy shared memory.
    shared = all(region.kind in ("tmpfs", "memfd", "sysv", "shared") for region in regions)
    sentences: list[str] = []
    if pages == "transparent":
        if settings.defrag in _DEFRAG:
            sentences.append(_DEFRAG[settings.defrag])
        if settings.thp == "always" and not shared:
            sentences.append(_KHUGEPAGED)
    if not shared:
        sentences.append(_FORK[pages])
    if pages == "pool":
        sentences.append("reserved pages serve nothing else until they are returned")
    base, huge = situation.faults
    growth = growth_bytes(regions) if regions else None
    size = None if pool is None else situation.huge_page_bytes
    return Cost(pool, size, growth, huge, base, tuple(sentences))
