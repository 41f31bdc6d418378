# SPDX-License-Identifier: GPL-2.0-or-later
"""What do page faults, spread and verdicts come to?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.answer import BASE, BASE_COSTS, HUGE, HUGE_COSTS, RUN, counts, interval
from builders.model import NO_MEMORY, costs, memories, native_runs
from hypothesis import given
from tlbcost.calibration.records import PageCosts
from tlbcost.model import gain, miss_costs
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import Footprint


@given(native_runs(), memories, costs(BASE), costs(HUGE))
def test_fault_saving_is_an_interval_within_the_system_time(
    runs: list[Run], memory: Footprint, base: PageCosts, huge: PageCosts
) -> None:
    result = miss_costs.predicted(runs, {}, memory, base, huge)
    if base.fault_ns is None or huge.fault_ns is None:
        assert result.fault_fraction is None
    else:
        assert result.fault_fraction is not None
        system = max(gain.fraction(run.system_ns, run) for run in runs)
        assert result.fault_fraction.high <= system


def test_shares_are_of_cpu_time() -> None:
    run = replace(RUN, user_ns=1_900_000_000, wall_ns=60_000_000_000)
    assert gain.fraction(500_000_000, run) == 0.25
    assert gain.fraction(0, replace(RUN, user_ns=0, system_ns=0)) == 0


def test_faults_are_net_of_what_huge_faults_cost() -> None:
    memory = Footprint(65536, 128, 128, 0, 65536)
    run = replace(RUN, minor_faults=65536)
    exact = replace(BASE_COSTS, fault_ns=interval(500, 0))
    huge = replace(HUGE_COSTS, fault_ns=interval(100_000, 0))
    result = miss_costs.predicted([run], {}, memory, exact, huge)
    saved = 65536 * 500 - 128 * 100_000
    assert result.fault_fraction is not None
    assert result.fault_fraction.value == pytest.approx(saved / 1e9)
    assert result.fault_fraction.low == pytest.approx(saved / 1e9)


def test_pages_that_fault_twice_save_twice_but_for_the_low_end() -> None:
    memory = Footprint(65536, 128, 128, 1000, 65536)
    run = replace(RUN, minor_faults=2 * 65536 + 1000)
    exact = replace(BASE_COSTS, fault_ns=interval(500, 0))
    huge = replace(HUGE_COSTS, fault_ns=interval(100_000, 0))
    result = miss_costs.predicted([run], {}, memory, exact, huge)
    saved = 65536 * 500 - 128 * 100_000
    assert result.fault_fraction is not None
    assert result.fault_fraction.value == pytest.approx(2 * saved / 1e9)
    assert result.fault_fraction.high == pytest.approx(2 * saved / 1e9)
    assert result.fault_fraction.low == pytest.approx(saved / 1e9)


def test_giving_pages_back_counts_where_it_is_known_for_both_page_sizes() -> None:
    memory = Footprint(65536, 128, 128, 0, 65536)
    run = replace(RUN, minor_faults=65536)
    base = replace(BASE_COSTS, fault_ns=interval(500, 0), unmap_ns=interval(200, 0))
    huge = replace(HUGE_COSTS, fault_ns=interval(100_000, 0), unmap_ns=interval(20_000, 0))
    both = miss_costs.predicted([run], {}, memory, base, huge).fault_fraction
    assert both is not None
    assert both.value == pytest.approx((65536 * 700 - 128 * 120_000) / 1e9)
    alone = replace(huge, unmap_ns=None)
    one = miss_costs.predicted([run], {}, memory, base, alone).fault_fraction
    assert one is not None
    assert one.value == pytest.approx((65536 * 500 - 128 * 100_000) / 1e9)


def test_faults_avoided_are_no_more_than_were_measured() -> None:
    memory = Footprint(65536, 128, 128, 0, 65536)
    run = replace(RUN, minor_faults=1000)
    huge = replace(HUGE_COSTS, fault_ns=interval(0, 0))
    result = miss_costs.predicted([run], {}, memory, BASE_COSTS, huge)
    assert result.fault_fraction is not None
    assert result.fault_fraction.value == pytest.approx(1000 * 200 / 1e9)


def test_sparse_regions_make_the_fault_saving_uncertain() -> None:
    memory = Footprint(200, 20, 1, 0, 200)
    run = replace(RUN, minor_faults=200)
    result = miss_costs.predicted([run], {}, memory, BASE_COSTS, HUGE_COSTS)
    assert result.fault_fraction is not None
    assert result.fault_fraction.low == pytest.approx((200 * 180 - 20 * 55_000) / 1e9)
    assert result.fault_fraction.value == pytest.approx((200 * 200 - 50_000) / 1e9)


@pytest.mark.parametrize(
    ("walks", "verdict"),
    [(10_000_000, "worth_trying"), (1000, "not_worth_it"), (1_000_000, "not_proven")],
)
def test_verdicts(walks: int, verdict: str) -> None:
    result = miss_costs.predicted([RUN], counts(walks), NO_MEMORY, BASE_COSTS, HUGE_COSTS)
    assert result.verdict == verdict


def test_a_program_on_huge_pages_already_has_nothing_left_to_gain() -> None:
    memory = Footprint(150_000, 300, 293, 0, 150_000)
    few, many = replace(RUN, minor_faults=7_000), replace(RUN, minor_faults=150_000)
    args = (counts(10_000_000), memory, BASE_COSTS, HUGE_COSTS)
    assert miss_costs.predicted([few], *args).verdict == "already_huge"
    assert miss_costs.predicted([many], *args).verdict == "worth_trying"
    idle = (counts(1000), replace(memory, anonymous_pages=0), BASE_COSTS, HUGE_COSTS)
    assert miss_costs.predicted([few], *idle).verdict == "not_worth_it"
    # A process that ran before took its faults then.
    running = (args[0], replace(memory, faulted=False), *args[2:])
    assert miss_costs.predicted([few], *running).verdict == "worth_trying"
    # A few pages less than faults say nothing: every program's start takes as many.
    small = replace(memory, largest_anonymous_pages=1000)
    assert not gain.already_huge([replace(RUN, minor_faults=100)], small)


def test_speedup() -> None:
    assert gain.speedup_ratio(0.5) == 2
    assert gain.speedup_ratio(1.0) is None
