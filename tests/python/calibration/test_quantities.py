# SPDX-License-Identifier: GPL-2.0-or-later
"""Are caches, ways, stores, walk caches, code and the clock of a made-up machine found again?"""

from __future__ import annotations

from collections.abc import Callable, Iterable

import numpy as np
import pytest
from tlbcost.calibration.analysis.caches import caches
from tlbcost.calibration.analysis.quantities import Analysis, analyse
from tlbcost.calibration.analysis.samples import read_samples
from tlbcost.calibration.analysis.walk_caches import walk_caches
from tlbcost.calibration.analysis.ways import ways
from tlbcost.common.formats import SAMPLES
from tlbcost.common.interval import Interval
from tlbcost.common.table import Table

BASE, HUGE, GIANT = 4096, 2 << 20, 1 << 30
LADDER = tuple(int(n) for n in np.unique(np.round(np.geomspace(4, 16384, 70))))
FINE = tuple(range(2, 41))
SWEEPS = 10

Row = tuple[str | None, ...]


def table(*parts: Iterable[Row], **header: str) -> Table:
    """A `samples` table of a machine with 2 MiB pages."""
    keys = {
        "base_page_bytes": str(BASE),
        "huge_page_bytes": str(HUGE),
        "packed_spacing_bytes": "192",
        "packed_page_bytes": str(HUGE),
        "region_bytes": str(HUGE),
    }
    rows = tuple(row for part in parts for row in part)
    return Table("made-up", keys | header, SAMPLES.columns, rows, True)


def curve(
    probe: str,
    layout: str,
    access: str,
    ns: Callable[[int], float],
    ladder: Iterable[int] = LADDER,
    *,
    size: int = BASE,
    spacing: int | None = None,
    seed: int = 1,
    paired: bool = True,
    noise: float = 0.05,
) -> list[Row]:
    """Sweeps over a ladder; `ns` is the time above that of the packed chain."""
    random = np.random.default_rng(seed)
    rows: list[Row] = []
    for sweep in range(SWEEPS):
        for lines in ladder:
            packed = 2.0 if paired else 0.0
            time = packed + ns(lines) + random.normal(0, noise)
            rows.append((probe, str(size), layout, str(spacing or size), access, str(lines),
                         str(sweep), f"{time:.4f}", f"{packed}" if paired else None))  # fmt: skip
    return rows


def single(probe: str, size: int | None, values: Iterable[float]) -> list[Row]:
    """Timings without a footprint."""
    return [
        (probe, None if size is None else str(size), None, None, None, None, str(i), f"{ns:.5f}",
         None)
        for i, ns in enumerate(values)
    ]  # fmt: skip


def two_levels(first: int = 64, second: int = 1536) -> Callable[[int], float]:
    """Hits cost 2 ns and walks 20."""
    return lambda lines: 20.0 if lines > second else 2.0 if lines > first else 0.0


def step_at(end: int, ns: float = 2.0) -> Callable[[int], float]:
    """So much from there on."""
    return lambda lines: ns * (lines > end)


def always(ns: float) -> Callable[[int], float]:
    """The same at every footprint."""
    return lambda _: ns


def twice(make: Callable[[int], Table]) -> Analysis:
    """The analysis of two measurements, which differ in their seed."""
    return analyse([make(1)], [make(2)])


def values(analysis: Analysis, quantity: str) -> list[Interval | None]:
    """All rows of a quantity."""
    return [cost.interval for cost in analysis.costs if cost.quantity == quantity]


# Caches of 32 KiB, 1 MiB and 16 MiB; the probe goes up to 128 MiB.
def latency(lines: int) -> float:
    ends = ((512, 1.5), (16384, 4.0), (262144, 15.0))
    return next((ns for end, ns in ends if lines <= end), 80.0)


CACHE_LADDER = tuple(int(n) for n in np.unique(np.round(np.geomspace(64, 2097152, 121))))


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
    for quantity, value in expected.items():
        interval = found[quantity]
        assert interval is not None, quantity
        assert interval.value == pytest.approx(value, rel=0.1)
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
    assert found["memory_ns"] is not None
    assert found["memory_ns"].value == pytest.approx(130, rel=0.05)


def strided(entries: int, sets: int) -> Table:
    """Lines 1, 2, 4, ... pages apart in a level with so many entries."""

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


def test_ways_are_told_where_a_hash_spreads_pages_over_the_sets() -> None:
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


def stores(own: int, seed: int) -> Table:
    ladder = (*range(4, 20), 22, 24, 28, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 192, 256, 512)
    return table(
        curve("tlb", "spread", "serial", two_levels(), seed=seed),
        curve("tlb", "spread", "store", step_at(own, 1.5), ladder, seed=seed),
    )


def test_a_store_tlb_of_its_own_is_found() -> None:
    (found,) = values(twice(lambda seed: stores(16, seed)), "dtlb_store_entries")
    assert found is not None
    assert found.value == pytest.approx(16, rel=0.1)


@pytest.mark.parametrize(("own", "reason"), [(64, "where loads do"), (9999, "show no step")])
def test_stores_without_a_tlb_of_their_own(own: int, reason: str) -> None:
    analysis = twice(lambda seed: stores(own, seed))
    assert values(analysis, "dtlb_store_entries") == [None]
    assert any(reason in note for note in analysis.notes)


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
    assert miss is not None
    assert reach.low <= 64 <= reach.high
    assert miss.value == pytest.approx(9, abs=0.5)


@pytest.mark.parametrize("slope", [0.0, 3.0])
def test_walks_that_grow_dearer_slowly_are_not_of_walk_caches(slope: float) -> None:
    rows, reason = walk_caches(read_samples([regions(lambda n: 15 + slope * np.log(n / 16))]))
    assert [row.interval for row in rows] == [None, None]
    assert reason


def test_the_instruction_side() -> None:
    ladder = tuple(n for n in LADDER if n <= 8192)
    analysis = twice(
        lambda seed: table(
            curve("tlb", "spread", "serial", two_levels(), seed=seed),
            curve("code", "spread", "serial", two_levels(128, 1536), ladder, seed=seed),
        )
    )
    (entries,), (miss,) = values(analysis, "itlb_entries"), values(analysis, "itlb_miss_ns")
    walks = values(analysis, "code_walk_ns")
    assert entries is not None
    assert miss is not None
    assert entries.value == pytest.approx(128, rel=0.1)
    assert miss.value == pytest.approx(2, abs=0.1)
    assert len(walks) > 3
    # What packed code pays for its own pages is added back: 384 of them at the end.
    assert all(walk is not None and 19.5 < walk.value < 23 for walk in walks)


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
    assert at_once is not None
    assert at_once.value == pytest.approx(4, rel=0.03)
    walks = {cost.access: cost.interval for cost in analysis.costs
             if cost.quantity == "walk_ns" and cost.pages == 8192}  # fmt: skip
    for access, ns in chains.items():
        interval = walks[access]  # type: ignore[index]
        assert interval is not None
        assert interval.value == pytest.approx(ns, rel=0.03)


def test_the_clock_and_a_change_of_it() -> None:
    steady = analyse([table(single("cycles", None, [0.25] * 40))])
    changed = analyse([table(single("cycles", None, [0.25] * 20 + [0.5] * 20))])
    (rate,) = values(steady, "cycles_per_ns")
    assert rate == Interval(4.0, 4.0, 4.0)
    assert not any("clock" in note for note in steady.notes)
    assert any("2.00 to 4.00 cycles/ns" in note for note in changed.notes)


def test_page_faults_and_giving_pages_back() -> None:
    analysis = analyse(
        [table(single("fault", BASE, [500, 510, 520]), single("unmap", BASE, [50, 51, 52]))]
    )
    assert values(analysis, "fault_ns") == [Interval(510, 500, 520)]
    assert values(analysis, "unmap_ns") == [Interval(51, 50, 52)]


def test_several_larger_page_sizes() -> None:
    def dense(size: int, ns: float, seed: int) -> list[Row]:
        return curve("tlb", "dense", "serial", lambda n: ns if n > 2000 else 0.0,
                     (64, 1024, 4096, 8192), size=size, spacing=BASE, seed=seed)  # fmt: skip

    analysis = twice(
        lambda seed: table(
            curve("tlb", "spread", "serial", two_levels(), seed=seed),
            dense(65536, 20.0, seed),
            dense(HUGE, 0.0, seed),
            curve("tlb", "spread", "serial", two_levels(32, 1024), size=HUGE, seed=seed),
            dense(GIANT, 0.0, seed),
            curve("tlb", "spread", "serial", lambda _: 0.0, (4, 6, 8), size=GIANT, seed=seed),
        )
    )
    assert values(analysis, "tlb_entry_bytes") == [
        Interval(size, size, size) for size in (BASE, HUGE, GIANT)
    ]
    base, medium, huge, giant = values(analysis, "dtlb_entries")
    assert base is not None
    assert huge is not None
    assert huge.value == pytest.approx(32, rel=0.1)
    assert (medium, giant) == (None, None)
    assert any("too few footprints were measured, 8 pages at most" in n for n in analysis.notes)
    assert any("the TLB holds 64 KiB pages as 4 KiB ones" in note for note in analysis.notes)
    assert not any("hypervisor" in note for note in analysis.notes)
