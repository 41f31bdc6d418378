# SPDX-License-Identifier: GPL-2.0-or-later
"""Made-up runs of patterns 2 and 9 on pages of three sizes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from tlbcost.pagesizes.page_size import PageSupply, Shortage
from tlbcost.pagesizes.patterns import GIB, PATTERNS, Pattern
from tlbcost.pagesizes.runs import PageTimes, PatternRun

BASE, HUGE = PageSupply(4096, "base"), PageSupply(2 << 20, "pool")
GIGANTIC = PageSupply(GIB, "pool")


def pattern(number: int) -> Pattern:
    return PATTERNS[number - 1]


def timed(round_: int, number: int, size: int, ns: float, rate: float = 2.0) -> PatternRun:
    return PatternRun(
        round_, number, size, 64 << 20, 4096, 16384, 64, 1024, 911, 911, 32, 1, 4096, 4096,
        1000, 1000 * ns, rate,
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
    lack = Shortage("5 pages of 1 GiB at least are needed, and there are 2", "reserve more")
    return times(runs, shortages={(2, GIB): lack}, missing={64 << 10: Shortage("none here", None)})
