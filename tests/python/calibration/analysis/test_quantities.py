# SPDX-License-Identifier: GPL-2.0-or-later
"""Are entries and costs found in samples of made-up and recorded machines, and defects named?"""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from builders.samples import (
    BASE,
    GIANT,
    HUGE,
    LADDER,
    RECORDED,
    Row,
    curve,
    machine,
    measured_twice,
    recorded,
    single,
    step_at,
    table,
    twice,
    two_levels,
    value,
    values,
)
from builders.tree import there
from tlbcost.calibration.analysis.levels import find_levels
from tlbcost.calibration.analysis.quantities import analyse, candidates
from tlbcost.calibration.analysis.samples import Curve
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import SAMPLES, Table
from tlbcost.common.units import Interval


@pytest.mark.parametrize(
    ("dtlb", "stlb"), [(48, 512), (64, 1536), (64, 1024), (96, 2048), (72, 3072)]
)
def test_entries_are_found_within_ten_percent(dtlb: int, stlb: int) -> None:
    analysis = measured_twice(dtlb=dtlb, stlb=stlb)
    for quantity, entries in (("dtlb_entries", dtlb), ("stlb_entries", stlb)):
        interval = there(value(analysis, quantity))
        assert abs(interval.value / entries - 1) < 0.1
        assert interval.low <= entries <= interval.high


def test_costs_are_found() -> None:
    analysis = measured_twice()
    for access in ("serial", "overlapped"):
        hit = value(analysis, "stlb_hit_ns", BASE, access)
        walk = there(value(analysis, "walk_ns", BASE, access, 8192))
        assert there(hit).value == pytest.approx(2.3, abs=0.15)
        assert walk.value == pytest.approx(18, abs=0.5)
    fault = there(value(analysis, "fault_ns"))
    assert 500 <= fault.low <= fault.value <= fault.high <= 512


@pytest.mark.parametrize("entry", [None, BASE])
def test_what_packed_chains_pay_is_added_back(entry: int | None) -> None:
    walk = there(value(measured_twice(entry=entry), "walk_ns", BASE, "serial", 16384))
    # Without it: 2.3 * (1 - 96 / 768) less.
    assert walk.value == pytest.approx(18, abs=0.5)


def test_one_entry_covers_what_the_hypervisor_backs() -> None:
    whole, splintered = measured_twice(), measured_twice(entry=BASE)
    assert value(whole, "tlb_entry_bytes", HUGE) == Interval(HUGE, HUGE, HUGE)
    assert value(splintered, "tlb_entry_bytes", HUGE) == Interval(BASE, BASE, BASE)
    walk = there(value(splintered, "walk_ns", HUGE, "serial", 8192))
    assert walk.value == pytest.approx(10, abs=1)
    assert any("hypervisor" in note for note in splintered.notes)
    assert not any("hypervisor" in note for note in whole.notes)


@pytest.mark.parametrize("noise", [0.0, 0.05, 2.0])
def test_no_step_gives_no_number(noise: float) -> None:
    analysis = measured_twice(hit=0, walk=0, noise=noise)
    for cost in analysis.costs:
        if cost.quantity != "fault_ns":
            assert cost.interval is None, cost
    assert any("no step" in note for note in analysis.notes)


def test_a_single_level_has_no_second_one() -> None:
    analysis = measured_twice(dtlb=64, stlb=64, hit=0, walk=20)
    assert there(value(analysis, "dtlb_entries")).value == pytest.approx(64, rel=0.1)
    assert value(analysis, "stlb_entries") is None
    assert value(analysis, "stlb_hit_ns", BASE, "serial") is None
    assert there(value(analysis, "walk_ns", BASE, "serial", 8192)).value == pytest.approx(20, abs=1)


def test_a_short_ladder_does_not_invent_a_second_level() -> None:
    pages = np.array([8, 16, 32, 48, 64, 96, 128, 256, 512, 1024], dtype=np.float64)
    deltas = np.tile(np.where(pages > 64, 2.3, 0.0), (5, 1))
    alone, informed = find_levels(Curve(pages, deltas)), find_levels(Curve(pages, deltas), 2.4)
    assert alone.second is None
    assert alone.walk_from() is None
    assert alone.hit_range() is None
    assert informed.hit_range() is not None
    assert informed.second is None
    assert informed.reason is not None


def test_few_samples_give_no_number() -> None:
    analysis = measured_twice(sweeps=1)
    assert all(cost.interval is None for cost in analysis.costs)


def test_a_cost_covers_each_run_and_only_footprints_of_the_first_pass() -> None:
    first, second = machine(walk=18), machine(walk=20)
    at = SAMPLES.columns.index("lines")
    odd = [tuple("8000" if i == at and cell == "8192" else cell for i, cell in enumerate(row))
           for row in second.rows]  # fmt: skip
    both = Table("y", second.header, SAMPLES.columns, (*second.rows, *odd), True)
    analysis = analyse([first], [both])
    walk = there(value(analysis, "walk_ns", BASE, "serial", 8192))
    assert walk.low <= 18.2
    assert walk.high >= 19.8
    assert not any(cost.pages == 8000 for cost in analysis.costs)


@pytest.mark.parametrize("name", sorted(p.parent.name for p in RECORDED.glob("*/samples.tsv")))
def test_recorded_samples(name: str) -> None:
    """Recorded on an Emerald Rapids guest: 96 and 2048 entries, quiet and alongside stress-ng."""
    analysis = recorded(name)
    dtlb, stlb = value(analysis, "dtlb_entries"), value(analysis, "stlb_entries")
    hit = value(analysis, "stlb_hit_ns", BASE, "serial")
    walk = there(value(analysis, "walk_ns", BASE, "serial", 8192))
    assert there(dtlb).value == pytest.approx(96, rel=0.1)
    assert there(stlb).value == pytest.approx(2048, rel=0.12)
    assert 1.8 < there(hit).value < 3
    assert 12 < walk.value < 40
    assert analysis.unsettled == ()


def test_the_rest_of_a_recorded_machine() -> None:
    """48 KiB and 2 MiB caches, a 256-entry iTLB, 6 ways; its L3 has 300 MiB."""
    analysis = recorded("emerald-rapids-guest")
    found = {cost.quantity: cost.interval for cost in analysis.costs}
    for quantity, published in (("l1d_bytes", 48 << 10), ("l2_bytes", 2 << 20),
                                ("itlb_entries", 256), ("dtlb_ways", 6),
                                ("stlb_ways", 16)):  # fmt: skip
        interval = there(found[quantity])
        assert interval.value == pytest.approx(published, rel=0.1)
    for quantity, low, high in (("l1d_ns", 1, 2), ("l2_ns", 3, 7), ("l3_ns", 20, 40),
                                ("itlb_miss_ns", 2, 6), ("cycles_per_ns", 3, 4),
                                ("walks_at_once", 3, 8), ("unmap_ns", 20, 5000),
                                ("walk_cache_regions", 24, 48),
                                ("walk_cache_miss_ns", 3, 9)):  # fmt: skip
        assert low < there(found[quantity]).value < high
    for quantity in ("l3_bytes", "memory_ns", "dtlb_store_entries"):
        assert found[quantity] is None
        assert any(note.startswith(f"{quantity}: ") for note in analysis.notes)
    assert value(analysis, "tlb_entry_bytes", HUGE) == Interval(BASE, BASE, BASE)


def test_a_knee_that_a_second_pass_does_not_show_is_not_reported() -> None:
    first, flat = machine(), machine(hit=0, walk=0, seed=8)
    analysis = analyse([first], [flat])
    assert value(analysis, "dtlb_entries") is None
    assert value(analysis, "stlb_entries") is None
    assert value(analysis, "stlb_hit_ns", BASE, "serial") is None
    assert any("dtlb_entries of 4 KiB pages" in doubt for doubt in analysis.unsettled)


def test_a_knee_that_moves_is_not_reported_but_walks_far_from_it_are() -> None:
    analysis = analyse([machine(stlb=2048)], [machine(stlb=1024, seed=8)])
    assert value(analysis, "dtlb_entries") is not None
    assert value(analysis, "stlb_entries") is None
    assert value(analysis, "walk_ns", BASE, "serial", 8192) is not None


def test_without_a_second_pass_knees_are_candidates_only() -> None:
    first = [machine()]
    analysis = analyse(first)
    assert value(analysis, "dtlb_entries") is None
    assert [knee.quantity for knee in candidates(first)] == ["dtlb_entries", "stlb_entries"]


def stores(own: int, seed: int) -> Table:
    ladder = (*range(4, 20), 22, 24, 28, 32, 40, 48, 56, 64, 72, 80, 96, 112, 128, 192, 256, 512)
    return table(
        curve("tlb", "spread", "serial", two_levels(), seed=seed),
        curve("tlb", "spread", "store", step_at(own, 1.5), ladder, seed=seed),
    )


def test_a_store_tlb_of_its_own_is_found() -> None:
    (found,) = values(twice(lambda seed: stores(16, seed)), "dtlb_store_entries")
    assert there(found).value == pytest.approx(16, rel=0.1)


@pytest.mark.parametrize(("own", "reason"), [(64, "where loads do"), (9999, "show no step")])
def test_stores_without_a_tlb_of_their_own(own: int, reason: str) -> None:
    analysis = twice(lambda seed: stores(own, seed))
    assert values(analysis, "dtlb_store_entries") == [None]
    assert any(reason in note for note in analysis.notes)


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
    assert there(entries).value == pytest.approx(128, rel=0.1)
    assert there(miss).value == pytest.approx(2, abs=0.1)
    assert len(walks) > 3
    # What packed code pays for its own pages is added back: 384 of them at the end.
    assert all(walk is not None and 19.5 < walk.value < 23 for walk in walks)


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
    assert there(huge).value == pytest.approx(32, rel=0.1)
    assert (medium, giant) == (None, None)
    assert any("too few footprints were measured, 8 pages at most" in n for n in analysis.notes)
    assert any("the TLB holds 64 KiB pages as 4 KiB ones" in note for note in analysis.notes)
    assert not any("hypervisor" in note for note in analysis.notes)


def test_the_clock_and_a_change_of_it() -> None:
    steady = analyse([table(single("cycles", None, [0.25] * 40))])
    changed = analyse([table(single("cycles", None, [0.25] * 20 + [0.5] * 20))])
    (rate,) = values(steady, "cycles_per_ns")
    assert rate == Interval(4.0, 4.0, 4.0)
    assert not any("clock" in note for note in steady.notes)
    assert any("2.00 to 4.00 cycles/ns" in note for note in changed.notes)


def test_page_sizes_that_cannot_be_had_are_reported_together() -> None:
    table = machine()
    off = "pages of this size are off; echo madvise >/sys/hugepages-{}kB/enabled"
    header = {**table.header, "skipped_65536": off.format(64), "skipped_16384": off.format(16),
              "skipped_1073741824": "the pool is empty", "moved_cpu_briefly": "1"}  # fmt: skip
    notes = analyse([replace(table, header=header)]).notes
    assert (f"16 KiB, 64 KiB pages were not measured: {off.format(16)}; and so for the other "
            "sizes") in notes  # fmt: skip
    assert "1 GiB pages were not measured: the pool is empty" in notes
    assert any("went away for a while" in note for note in notes)


def test_reasons_in_the_header_become_notes() -> None:
    table = machine()
    header = {**table.header, "skipped_2097152_fault": "no huge page",
              "limited_2097152_spread": "up to 5 pages: no time"}  # fmt: skip
    notes = analyse([replace(table, header=header)]).notes
    assert "page faults on 2 MiB pages were not measured: no huge page" in notes
    assert "2 MiB pages were measured in part: up to 5 pages (no time)" in notes


def test_a_broken_row_is_named() -> None:
    table = machine()
    rows = (*table.rows, ("tlb", "4096", "spread", "4096", "serial", "8", "0", "fast", None))
    with pytest.raises(TlbcostError, match=rf"x: row {len(rows)}"):
        analyse([Table("x", table.header, SAMPLES.columns, rows, True)])


def test_a_header_without_page_size_is_refused() -> None:
    table = machine()
    with pytest.raises(TlbcostError, match="base_page_bytes"):
        analyse([replace(table, header={**table.header, "base_page_bytes": "0"})])
