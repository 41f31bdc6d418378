# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the ways of a TLB found where pages a power of two apart share a set?"""

from __future__ import annotations

from collections.abc import Callable

import pytest
from builders.samples import (
    BASE,
    curve,
    step_at,
    table,
)
from tlbcost.calibration.analysis.samples import read_samples
from tlbcost.calibration.analysis.ways import ways
from tlbcost.common.interval import Interval
from tlbcost.common.table import Table

FINE = tuple(range(2, 41))


def strided(entries: int, sets: int) -> Table:
    """Lines 1, 2, 4, ... pages apart in a level with this many entries."""

    def held(spacing: int) -> int:
        return max(entries // sets, entries // spacing)

    return table(*(
        curve("tlb", "strided", "serial", step_at(held(2**i)),
              (*FINE, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 144, 160), spacing=BASE << i)
        for i in range(11)
    ))  # fmt: skip


@pytest.mark.parametrize(
    ("entries", "sets", "expected"), [(96, 16, 6), (64, 16, 4), (64, 4, 16), (48, 1, 48)]
)
def test_ways_are_what_one_set_holds(entries: int, sets: int, expected: int) -> None:
    samples = read_samples([strided(entries, sets)])
    found, reason = ways(samples, 0, Interval(entries, entries, 1.05 * entries))
    assert found is not None, reason
    assert found.value == expected
    assert found.low <= expected <= found.high < 1.2 * expected


def test_ways_are_found_where_a_hash_spreads_pages_over_the_sets() -> None:
    """As measured on a Golden Cove core: 16 ways, 128 sets; the knee is not sharp."""

    def levels(spacing: int) -> Callable[[int], float]:
        second = {1 << 14: 17, 1 << 15: 17, 1 << 16: 18}.get(spacing, (1 << 18) // spacing)
        return lambda n: 0 if n <= 6 else 2 if n <= second else 18

    samples = read_samples([table(*(
        curve("tlb", "strided", "serial", levels(2**i),
              (*FINE, 48, 56, 64, 72, 80, 88, 96, 104, 112, 128, 144, 160), spacing=BASE << i)
        for i in range(17)
    ))])  # fmt: skip
    assert ways(samples, 0, Interval(99, 97, 101))[0] == Interval(6, 6, 6)
    second, reason = ways(samples, 1, Interval(2005, 1950, 2060))
    assert second is not None, reason
    assert second.value == 16


def test_ways_that_do_not_fit_the_entries_are_not_reported() -> None:
    samples = read_samples([strided(96, 16)])
    for entries in (Interval(64, 60, 68), None):
        found, reason = ways(samples, 0, entries)
        assert found is None
        assert reason
    assert ways(samples, 1, Interval(1536, 1500, 1600))[0] is None
