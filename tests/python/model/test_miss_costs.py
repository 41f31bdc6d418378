# SPDX-License-Identifier: GPL-2.0-or-later
"""What do misses times their costs give, and what verdict, on made-up counts and costs?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.answer import BASE, BASE_COSTS, HUGE, HUGE_COSTS, RUN, counts, interval
from builders.tree import there
from hypothesis import given
from hypothesis import strategies as st
from tlbcost.calibration.records import PageCosts, missing_costs, price
from tlbcost.common.units import Interval
from tlbcost.model import gain, overlap
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import Counts, Footprint, Side, SideCounts

NO_MEMORY = Footprint(0, 0, 0, 0, 0)

SIDES: tuple[Side, ...] = ("load", "store", "fetch")

many = st.integers(0, 10**12)


@st.composite
def intervals(draw: st.DrawFn) -> Interval:
    """A price in ns; noise may have brought the measured low end below zero."""
    low = draw(st.floats(-5, 200))
    value = low + draw(st.floats(0, 100))
    return there(price(Interval(value, low, value + draw(st.floats(0, 100)))))


@st.composite
def costs(draw: st.DrawFn, size: int) -> PageCosts:
    cost = intervals() if size == BASE else st.none() | intervals()
    maybe = st.none() | intervals()
    figures = [draw(each) for each in (cost, maybe, cost, maybe, maybe, maybe)]
    return PageCosts(size, 1, *figures)


@st.composite
def native_runs(draw: st.DrawFn) -> list[Run]:
    times = st.integers(1, 10**12)
    return [
        Run(draw(times), draw(st.integers(0, 10**12)), draw(st.integers(0, 10**12)),
            draw(st.integers(0, 10**7)), 0, 1 << 20)
        for _ in range(draw(st.integers(1, 5)))
    ]  # fmt: skip


memories = st.builds(Footprint, *[st.integers(0, 10**7)] * 4)


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
    result = overlap.predicted(runs, seen, memory, base, huge)
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
    result = overlap.predicted(runs, none, memory, base, huge)
    for found in (result.bound_fraction, result.expected_fraction, result.code_fraction):
        assert found == Interval(0, 0, 0)
    assert not result.bound_capped


@given(native_runs(), all_counts(), costs(BASE), costs(HUGE), st.integers(0, 10**10))
def test_more_walks_on_base_pages_never_lower_the_estimate(
    runs: list[Run], seen: Counts, base: PageCosts, huge: PageCosts, more: int
) -> None:
    side = seen[BASE, "load"]
    l1, walks = side.l1_tlb_misses + more, side.stlb_misses + more
    larger = {**seen, (BASE, "load"): SideCounts(l1, side.stlb_hits, walks)}
    before = overlap.predicted(runs, seen, NO_MEMORY, base, huge)
    after = overlap.predicted(runs, larger, NO_MEMORY, base, huge)
    slack = 1e-9
    assert after.bound_fraction.value >= before.bound_fraction.value - slack
    assert after.expected_fraction.low >= before.expected_fraction.low - slack
    assert after.expected_fraction.high >= before.expected_fraction.high - slack


@given(native_runs(), all_counts(), costs(BASE), costs(HUGE), st.integers(0, 10**10))
def test_more_walks_on_huge_pages_never_raise_the_gain(
    runs: list[Run], seen: Counts, base: PageCosts, huge: PageCosts, more: int
) -> None:
    side = seen[HUGE, "store"]
    larger = {**seen, (HUGE, "store"): replace(side, stlb_misses=side.stlb_misses + more)}
    before = overlap.predicted(runs, seen, NO_MEMORY, base, huge).expected_fraction
    after = overlap.predicted(runs, larger, NO_MEMORY, base, huge).expected_fraction
    assert after.low <= before.low + 1e-9
    assert after.high <= before.high + 1e-9


def test_known_figures() -> None:
    seen: Counts = {
        (BASE, "load"): SideCounts(30_000_000, 20_000_000, 10_000_000),
        (BASE, "fetch"): SideCounts(2_000_000, 0, 2_000_000),
        (HUGE, "load"): SideCounts(5_000_000, 5_000_000, 0),
    }
    hit, hit_over, walk, walk_over = (Interval(v, v, v) for v in (2.0, 1.0, 30.0, 6.0))
    base = PageCosts(BASE, 1, hit, hit_over, walk, walk_over, walk_over, None)
    huge = replace(base, page_size_bytes=HUGE)
    result = overlap.predicted([RUN], seen, NO_MEMORY, base, huge)
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
    result = overlap.predicted([RUN], counts(10**9), NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    assert result.bound_capped
    assert result.bound_fraction.value == pytest.approx(0.9)
    assert result.expected_fraction.high == pytest.approx(0.9)


def test_huge_pages_can_lose() -> None:
    seen: Counts = {
        (BASE, "load"): SideCounts(0, 0, 0),
        (HUGE, "load"): SideCounts(10_000_000, 10_000_000, 0),
    }
    result = overlap.predicted([RUN], seen, NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    assert result.expected_fraction.low < result.expected_fraction.value < 0
    assert result.verdict == "not_worth_it"


def test_spread_of_the_runs_widens_the_interval() -> None:
    slow = replace(RUN, wall_ns=2 * RUN.wall_ns, user_ns=2 * RUN.user_ns)
    one = overlap.predicted([RUN], counts(10**7), NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    both = overlap.predicted([RUN, slow], counts(10**7), NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    assert both.expected_fraction.low == pytest.approx(one.expected_fraction.low / 1.9)
    assert both.expected_fraction.high == one.expected_fraction.high


def test_noise_cannot_make_a_huge_page_s_walk_the_more_expensive_one() -> None:
    wide = Interval(25.0, 0.0, 40.0)
    base = replace(BASE_COSTS, walk_serial_ns=wide)
    huge = replace(HUGE_COSTS, walk_serial_ns=replace(wide, low=0.0))
    seen: Counts = {(size, "load"): SideCounts(10**6, 0, 10**6) for size in (BASE, HUGE)}
    assert overlap.predicted([RUN], seen, NO_MEMORY, base, huge).expected_fraction.low == 0


def test_a_huge_page_s_walk_above_the_base_page_s_is_priced_as_that() -> None:
    base = replace(BASE_COSTS, walk_serial_ns=interval(0), walk_cached_ns=None)
    base = replace(base, walk_overlapped_ns=None, stlb_hit_serial_ns=interval(0))
    huge = replace(HUGE_COSTS, walk_serial_ns=interval(1), walk_overlapped_ns=interval(1))
    seen: Counts = {(size, "load"): SideCounts(10**6, 0, 10**6) for size in (BASE, HUGE)}
    result = overlap.predicted([RUN], seen, NO_MEMORY, base, huge)
    assert result.expected_fraction == Interval(0, 0, 0)


def test_missing_base_costs_are_refused() -> None:
    bare = replace(BASE_COSTS, walk_serial_ns=None)
    assert missing_costs(bare) == ["walk_ns"]
    with pytest.raises(ValueError, match="cost"):
        overlap.predicted([RUN], counts(1), NO_MEMORY, bare, HUGE_COSTS)


@given(native_runs(), memories, costs(BASE), costs(HUGE))
def test_fault_saving_is_an_interval_within_the_system_time(
    runs: list[Run], memory: Footprint, base: PageCosts, huge: PageCosts
) -> None:
    result = overlap.predicted(runs, {}, memory, base, huge)
    if base.fault_ns is None or huge.fault_ns is None:
        assert result.fault_fraction is None
    else:
        system = max(gain.fraction(run.system_ns, run) for run in runs)
        assert there(result.fault_fraction).high <= system


def test_shares_are_of_cpu_time() -> None:
    run = replace(RUN, user_ns=1_900_000_000, wall_ns=60_000_000_000)
    assert gain.fraction(500_000_000, run) == 0.25
    assert gain.fraction(0, replace(RUN, user_ns=0, system_ns=0)) == 0


DENSE = Footprint(65536, 128, 128, 0, 65536)
COSTLY = (
    replace(BASE_COSTS, fault_ns=interval(500, 0)),
    replace(HUGE_COSTS, fault_ns=interval(100_000, 0)),
)
SAVED = (65536 * 500 - 128 * 100_000) / 1e9


def saved(faults: int, memory: Footprint, base: PageCosts, huge: PageCosts) -> Interval:
    """By fewer page faults, of a run with that many."""
    run = replace(RUN, minor_faults=faults)
    return there(overlap.predicted([run], {}, memory, base, huge).fault_fraction)


def test_faults_are_net_of_what_huge_faults_cost() -> None:
    found = saved(65536, DENSE, *COSTLY)
    assert (found.low, found.value) == pytest.approx((SAVED, SAVED))


def test_pages_that_fault_twice_save_twice_but_for_the_low_end() -> None:
    found = saved(2 * 65536 + 1000, Footprint(65536, 128, 128, 1000, 65536), *COSTLY)
    assert (found.low, found.value, found.high) == pytest.approx((SAVED, 2 * SAVED, 2 * SAVED))


def test_giving_pages_back_counts_where_it_is_known_for_both_page_sizes() -> None:
    base = replace(COSTLY[0], unmap_ns=interval(200, 0))
    huge = replace(COSTLY[1], unmap_ns=interval(20_000, 0))
    both = saved(65536, DENSE, base, huge)
    assert both.value == pytest.approx((65536 * 700 - 128 * 120_000) / 1e9)
    one = saved(65536, DENSE, base, replace(huge, unmap_ns=None))
    assert one.value == pytest.approx(SAVED)


def test_faults_avoided_are_no_more_than_were_measured() -> None:
    found = saved(1000, DENSE, BASE_COSTS, replace(HUGE_COSTS, fault_ns=interval(0, 0)))
    assert found.value == pytest.approx(1000 * 200 / 1e9)


def test_sparse_regions_make_the_fault_saving_uncertain() -> None:
    found = saved(200, Footprint(200, 20, 1, 0, 200), BASE_COSTS, HUGE_COSTS)
    assert found.low == pytest.approx((200 * 180 - 20 * 55_000) / 1e9)
    assert found.value == pytest.approx((200 * 200 - 50_000) / 1e9)


def test_a_program_on_huge_pages_already_has_nothing_left_to_gain() -> None:
    memory = Footprint(150_000, 300, 293, 0, 150_000)
    few, many = replace(RUN, minor_faults=7_000), replace(RUN, minor_faults=150_000)
    args = (counts(10_000_000), memory, BASE_COSTS, HUGE_COSTS)
    assert overlap.predicted([few], *args).verdict == "already_huge"
    assert overlap.predicted([many], *args).verdict == "worth_trying"
    idle = (counts(1000), replace(memory, anonymous_pages=0), BASE_COSTS, HUGE_COSTS)
    assert overlap.predicted([few], *idle).verdict == "not_worth_it"
    # A process that ran before took its faults then.
    running = (args[0], replace(memory, faulted=False), *args[2:])
    assert overlap.predicted([few], *running).verdict == "worth_trying"
    # A few pages less than faults say nothing: every program's start takes as many.
    small = replace(memory, largest_anonymous_pages=1000)
    assert not gain.already_huge([replace(RUN, minor_faults=100)], small)


def test_speedup() -> None:
    assert gain.speedup_ratio(0.5) == 2
    assert gain.speedup_ratio(1.0) is None
