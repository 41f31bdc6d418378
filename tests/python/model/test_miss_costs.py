# SPDX-License-Identifier: GPL-2.0-or-later
"""What do misses times their costs give? On made-up counts and costs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.answer import BASE, BASE_COSTS, HUGE, HUGE_COSTS, RUN, counts, interval
from builders.model import NO_MEMORY, SIDES, costs, many, memories, native_runs
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.calibration.records import PageCosts, missing_costs
from tlbcost.common.interval import Interval
from tlbcost.model import miss_costs
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import Counts, Footprint, SideCounts


@st.composite
def all_counts(draw: st.DrawFn) -> Counts:
    return {
        (size, side): SideCounts(hits + misses, hits, misses)
        for size in (BASE, HUGE)
        for side in SIDES
        for hits, misses in [draw(st.tuples(many, many))]
    }


@given(native_runs(), all_counts(), memories, costs(BASE), costs(HUGE))
def test_expected_gain_is_an_interval_below_the_bound_and_the_run_time(
    runs: list[Run], seen: Counts, memory: Footprint, base: PageCosts, huge: PageCosts
) -> None:
    result = miss_costs.predicted(runs, seen, memory, base, huge)
    expected = result.expected_fraction
    assert expected.low <= expected.value <= expected.high
    bound = result.bound_fraction
    assert 0 <= bound.low <= bound.value == bound.high <= 1 + 1e-9
    assert expected.high <= bound.value * (1 + 1e-9)
    assert result.base_data_ns.low >= 0
    assert result.huge_data_ns.low >= 0


@given(native_runs(), memories, costs(BASE), costs(HUGE))
def test_no_misses_no_gain(
    runs: list[Run], memory: Footprint, base: PageCosts, huge: PageCosts
) -> None:
    none = {(size, side): SideCounts(0, 0, 0) for size in (BASE, HUGE) for side in SIDES}
    result = miss_costs.predicted(runs, none, memory, base, huge)
    assert result.bound_fraction == Interval(0, 0, 0)
    assert result.expected_fraction == Interval(0, 0, 0)
    assert result.code_fraction == Interval(0, 0, 0)
    assert not result.bound_capped


@given(native_runs(), all_counts(), costs(BASE), costs(HUGE), st.integers(0, 10**10))
def test_more_walks_on_base_pages_never_lower_the_estimate(
    runs: list[Run], seen: Counts, base: PageCosts, huge: PageCosts, more: int
) -> None:
    side = seen[BASE, "load"]
    larger = {
        **seen,
        (BASE, "load"): SideCounts(
            side.l1_tlb_misses + more, side.stlb_hits, side.stlb_misses + more
        ),
    }
    before = miss_costs.predicted(runs, seen, NO_MEMORY, base, huge)
    after = miss_costs.predicted(runs, larger, NO_MEMORY, base, huge)
    slack = 1e-9
    assert after.bound_fraction.value >= before.bound_fraction.value - slack
    assert after.expected_fraction.low >= before.expected_fraction.low - slack
    assert after.expected_fraction.high >= before.expected_fraction.high - slack


@given(native_runs(), all_counts(), costs(BASE), costs(HUGE), st.integers(0, 10**10))
def test_more_walks_on_huge_pages_never_raise_the_gain(
    runs: list[Run], seen: Counts, base: PageCosts, huge: PageCosts, more: int
) -> None:
    side = seen[HUGE, "store"]
    larger = {
        **seen,
        (HUGE, "store"): SideCounts(side.l1_tlb_misses, side.stlb_hits, side.stlb_misses + more),
    }
    before = miss_costs.predicted(runs, seen, NO_MEMORY, base, huge).expected_fraction
    after = miss_costs.predicted(runs, larger, NO_MEMORY, base, huge).expected_fraction
    assert after.low <= before.low + 1e-9
    assert after.high <= before.high + 1e-9


def test_known_figures() -> None:
    seen: Counts = {
        (BASE, "load"): SideCounts(30_000_000, 20_000_000, 10_000_000),
        (BASE, "fetch"): SideCounts(2_000_000, 0, 2_000_000),
        (HUGE, "load"): SideCounts(5_000_000, 5_000_000, 0),
    }
    exact = {name: Interval(v, v, v) for name, v in
             (("hit", 2.0), ("hit_over", 1.0), ("walk", 30.0), ("walk_over", 6.0))}  # fmt: skip
    base = PageCosts(
        BASE,
        1,
        exact["hit"],
        exact["hit_over"],
        exact["walk"],
        exact["walk_over"],
        exact["walk_over"],
        None,
    )
    huge = replace(base, page_size_bytes=HUGE)
    result = miss_costs.predicted([RUN], seen, NO_MEMORY, base, huge)
    # Serial: 20 M x 2 ns + 10 M x 30 ns; with code 2 M x 30 ns more; huge pages 5 M x 2 ns.
    assert result.base_data_ns.high == pytest.approx(340e6)
    assert result.bound_fraction.value == pytest.approx(0.400)
    # Overlapped: 20 M x 1 ns + 12 M x 6 ns.
    assert result.bound_fraction.low == pytest.approx(0.092)
    assert result.expected_fraction.high == pytest.approx(0.330)
    # Overlapped: 20 M x 1 ns + 10 M x 6 ns - 5 M x 1 ns.
    assert result.expected_fraction.low == pytest.approx(0.075)
    assert result.expected_fraction.value == pytest.approx((0.330 * 0.075) ** 0.5)
    assert result.code_fraction.low == pytest.approx(0.012)


def test_bound_is_capped_at_user_time_and_says_so() -> None:
    result = miss_costs.predicted([RUN], counts(10**9), NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    assert result.bound_capped
    assert result.bound_fraction.value == pytest.approx(0.9)
    assert result.expected_fraction.high == pytest.approx(0.9)


def test_huge_pages_can_lose() -> None:
    seen: Counts = {
        (BASE, "load"): SideCounts(0, 0, 0),
        (HUGE, "load"): SideCounts(10_000_000, 10_000_000, 0),
    }
    result = miss_costs.predicted([RUN], seen, NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    assert result.expected_fraction.low < result.expected_fraction.value < 0
    assert result.verdict == "not_worth_it"


def test_spread_of_the_runs_widens_the_interval() -> None:
    slow = replace(RUN, wall_ns=2 * RUN.wall_ns, user_ns=2 * RUN.user_ns)
    one = miss_costs.predicted([RUN], counts(10**7), NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    both = miss_costs.predicted([RUN, slow], counts(10**7), NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    assert both.expected_fraction.low == pytest.approx(one.expected_fraction.low / 1.9)
    assert both.expected_fraction.high == one.expected_fraction.high


def test_noise_cannot_make_a_huge_page_s_walk_the_more_expensive_one() -> None:
    wide = Interval(25.0, 0.0, 40.0)
    base = replace(BASE_COSTS, walk_serial_ns=wide)
    huge = replace(HUGE_COSTS, walk_serial_ns=replace(wide, low=0.0))
    seen: Counts = {(size, "load"): SideCounts(10**6, 0, 10**6) for size in (BASE, HUGE)}
    assert miss_costs.predicted([RUN], seen, NO_MEMORY, base, huge).expected_fraction.low == 0


def test_a_huge_page_s_walk_above_the_base_page_s_is_priced_as_that() -> None:
    base = replace(BASE_COSTS, walk_serial_ns=interval(0), walk_cached_ns=None)
    base = replace(base, walk_overlapped_ns=None, stlb_hit_serial_ns=interval(0))
    huge = replace(HUGE_COSTS, walk_serial_ns=interval(1), walk_overlapped_ns=interval(1))
    seen: Counts = {(size, "load"): SideCounts(10**6, 0, 10**6) for size in (BASE, HUGE)}
    result = miss_costs.predicted([RUN], seen, NO_MEMORY, base, huge)
    assert result.expected_fraction == Interval(0, 0, 0)


def test_missing_base_costs_are_refused() -> None:
    bare = replace(BASE_COSTS, walk_serial_ns=None)
    assert missing_costs(bare) == ["walk_ns"]
    with pytest.raises(ValueError, match="cost"):
        miss_costs.predicted([RUN], counts(1), NO_MEMORY, bare, HUGE_COSTS)
