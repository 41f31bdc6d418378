# SPDX-License-Identifier: GPL-2.0-or-later
"""Are walks and the time between them, caches and memory found in samples?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from builders.samples import (
    BASE,
    HUGE,
    LADDER,
    always,
    curve,
    machine,
    measured_twice,
    table,
    twice,
    two_levels,
    value,
    values,
)
from builders.tree import there
from tlbcost.calibration.analysis.quantities import analyse
from tlbcost.calibration.analysis.samples import read_samples
from tlbcost.calibration.analysis.walks import caches, walk_caches
from tlbcost.common.formats import Table


def test_intervals_of_walks_have_the_whole_time_of_accesses_that_walk() -> None:
    analysis = measured_twice(hit=2.0)
    rows = [cost for cost in analysis.costs if cost.quantity == "walk_interval_ns"]
    walks = [cost for cost in analysis.costs if cost.quantity == "walk_ns"]
    # The same footprints as those of overlapped walks; none of larger pages that do not miss.
    assert [(cost.page_size_bytes, cost.pages, cost.samples) for cost in rows] == [
        (cost.page_size_bytes, cost.pages, cost.samples)
        for cost in walks
        if cost.access == "overlapped"
    ]
    assert {cost.access for cost in rows} == {None}
    assert value(analysis, "walk_interval_ns", HUGE) is None
    for pages in (4096, 8192, 16384):
        interval = there(value(analysis, "walk_interval_ns", BASE, None, pages))
        # An access takes 5.3 ns besides. STLB hits are charged to walks.
        hits = 2.0 * (2048 - 96) / (pages - 2048)
        assert interval.low <= interval.value <= interval.high
        assert interval.value == pytest.approx(18 + 5.3 + hits, abs=0.5)


def test_intervals_of_walks_where_the_tlb_holds_pieces_of_pages() -> None:
    analysis = measured_twice(entry=BASE)
    interval = there(value(analysis, "walk_interval_ns", HUGE, None, 8192))
    hits = 2.3 * (2048 - 96) / (8192 - 2048)
    assert interval.value == pytest.approx(10 + 5.3 + hits, abs=0.7)


def test_times_without_a_packed_one_give_no_interval_of_walks() -> None:
    alone = []
    for made in (machine(), machine(seed=8)):
        rows = ((*row[:-1], None) if row[4] == "overlapped" else row for row in made.rows)
        alone.append(replace(made, rows=tuple(rows)))
    analysis = analyse(alone[:1], alone[1:])
    assert value(analysis, "walk_ns", BASE, "serial", 8192) is not None
    assert value(analysis, "walk_interval_ns", BASE) is None


def test_walks_side_by_side() -> None:
    chains = {"chains_2": 10.0, "chains_4": 5.0, "chains_8": 5.5}
    analysis = twice(
        lambda seed: table(
            curve("tlb", "spread", "serial", two_levels(), (*LADDER, 8192), seed=seed),
            *(curve("tlb", "spread", access, always(ns), (8192,), seed=seed)
              for access, ns in chains.items()),
        )
    )  # fmt: skip
    (at_once,) = values(analysis, "walks_at_once")
    assert there(at_once).value == pytest.approx(4, rel=0.03)
    walks = {cost.access: cost.interval for cost in analysis.costs
             if cost.quantity == "walk_ns" and cost.pages == 8192}  # fmt: skip
    for access, ns in chains.items():
        assert there(walks[access]).value == pytest.approx(ns, rel=0.03)


def regions(ns: Callable[[float], float]) -> Table:
    counts = (16, 24, 40, 56, 72, 104, 136, 200, 264, 392, 520)
    return table(*(
        curve("tlb", "regions", "serial", always(ns(n)), (8192,),
              spacing=n * HUGE // 8192, noise=0.2, seed=n)
        for n in counts
    ))  # fmt: skip


def test_the_reach_of_walk_caches_is_a_step() -> None:
    rows, reason = walk_caches(read_samples([regions(lambda n: 15.0 if n <= 64 else 24.0)]))
    assert reason == ""
    reach, miss = rows[0].interval, rows[1].interval
    assert reach is not None
    assert reach.low <= 64 <= reach.high
    assert there(miss).value == pytest.approx(9, abs=0.5)


@pytest.mark.parametrize("slope", [0.0, 3.0])
def test_walks_whose_cost_grows_slowly_are_not_of_walk_caches(slope: float) -> None:
    rows, reason = walk_caches(read_samples([regions(lambda n: 15 + slope * np.log(n / 16))]))
    assert [row.interval for row in rows] == [None, None]
    assert reason


CACHE_LADDER = tuple(int(n) for n in np.unique(np.round(np.geomspace(64, 2097152, 121))))


# Caches of 32 KiB, 1 MiB and 16 MiB; the probe goes up to 128 MiB.
def latency(lines: int) -> float:
    ends = ((512, 1.5), (16384, 4.0), (262144, 15.0))
    return next((ns for end, ns in ends if lines <= end), 80.0)


def cache_table(ns: Callable[[int], float], ladder: tuple[int, ...] = CACHE_LADDER) -> Table:
    parts = [
        curve("cache", layout, "serial", ns, ladder, size=HUGE, spacing=spacing, paired=False)
        for layout, spacing in (("each", 64), ("third", 192))
    ]
    return table(*parts)


def test_caches_and_memory_are_found() -> None:
    rows, notes = caches(read_samples([cache_table(latency)]))
    found = {row.quantity: row.interval for row in rows}
    expected = {"l1d_bytes": 32 << 10, "l2_bytes": 1 << 20, "l3_bytes": 16 << 20, "l1d_ns": 1.5,
                "l2_ns": 4.0, "l3_ns": 15.0, "memory_ns": 80.0}  # fmt: skip
    for quantity, known in expected.items():
        interval = found[quantity]
        assert interval is not None, quantity
        assert interval.value == pytest.approx(known, rel=0.1)
    assert notes == []


def test_memory_that_is_not_reached_is_not_reported() -> None:
    rows, notes = caches(read_samples([cache_table(latency, CACHE_LADDER[:90])]))
    found = {row.quantity: row.interval for row in rows}
    assert found["memory_ns"] is None
    assert found["l3_bytes"] is None
    assert found["l3_ns"] is not None
    assert any(note.startswith("memory_ns: ") for note in notes)


def test_two_levels_of_caches_end_in_memory() -> None:
    def small(lines: int) -> float:
        return 1.5 if lines <= 512 else 8.0 if lines <= 8192 else 130.0

    rows, _ = caches(read_samples([cache_table(small)]))
    found = {row.quantity: row.interval for row in rows}
    assert found["l3_bytes"] is None
    assert found["l3_ns"] is None
    assert there(found["memory_ns"]).value == pytest.approx(130, rel=0.05)
