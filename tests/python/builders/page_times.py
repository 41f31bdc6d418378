# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up runs of patterns 2 and 9 on pages of three sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tlbcost.pagesizes.published import GIB, PATTERNS, Pattern
from tlbcost.pagesizes.runner import PageSupply, PageTimes, PatternRun, Places, RunTime, Shortage

BASE, HUGE = PageSupply(4096, "base"), PageSupply(2 << 20, "pool")
GIGANTIC = PageSupply(GIB, "pool")


def pattern(number: int) -> Pattern:
    return PATTERNS[number - 1]


def timed(round_: int, number: int, size: int, ns: float, rate: float = 2.0) -> PatternRun:
    return PatternRun(
        pattern=number,
        page_size_bytes=size,
        accesses=1000,
        places=Places(
            chunks=4096, stride_bytes=16384, offset_bytes=64, draws=1024, lines=911, pages_4k=911,
            pages_2m=32, pages_1g=1,
        ),
        time=RunTime(
            round=round_, elapsed_ns=1000 * ns, cycles_per_ns=rate, resident_bytes=4096,
            proven_bytes=4096,
        ),
    )  # fmt: skip


def times(
    runs: Sequence[PatternRun],
    sizes: Sequence[PageSupply] = (BASE, HUGE, GIGANTIC),
    shortages: Mapping[tuple[int, int], Shortage] | None = None,
    missing: Mapping[int, Shortage] | None = None,
) -> PageTimes:
    return PageTimes(
        (pattern(2), pattern(9)), tuple(sizes), missing or {}, 24, 3, 1000, tuple(runs),
        shortages or {},
    )  # fmt: skip


def full() -> PageTimes:
    runs = [
        timed(r, number, size.page_size_bytes, ns + r)
        for r in range(3)
        for number, costs in ((2, (10, 30, 20)), (9, (30, 10, 5)))
        for size, ns in zip((BASE, HUGE, GIGANTIC), costs, strict=True)
        if (number, size) != (2, GIGANTIC)
    ]
    lack = Shortage("5 pages of 1 GiB are needed at least, and there are 2", "reserve more")
    return times(runs, shortages={(2, GIB): lack}, missing={64 << 10: Shortage("none here", None)})
