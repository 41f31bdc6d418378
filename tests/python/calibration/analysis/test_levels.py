# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the TLB levels of made-up machines found, and none that are not there?"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from builders.samples import BASE, curve, step_at, table
from builders.synthetic import Outcome, draw_machine, measure_twice
from builders.tree import there
from tlbcost.calibration.analysis.levels import Knee, confirm, find_levels, settle, ways
from tlbcost.calibration.analysis.samples import Curve, read_samples
from tlbcost.common.bootstrap import median, ratio
from tlbcost.common.formats import Table
from tlbcost.common.units import Interval

CURVES = 60
FINE = tuple(range(2, 41))


@pytest.fixture(scope="module")
def outcomes() -> list[Outcome]:
    """Of each level of the first made-up machines."""
    return [
        outcome for seed in range(CURVES) for outcome in measure_twice(draw_machine(seed), seed)
    ]


@pytest.mark.long
@pytest.mark.parametrize("level", ["first", "second"])
def test_levels_that_are_there_are_found(outcomes: list[Outcome], level: str) -> None:
    there = [outcome for outcome in outcomes if outcome.level == level and outcome.entries]
    assert len(there) > CURVES / 2
    assert sum(outcome.right for outcome in there) >= 0.95 * len(there)


def test_levels_that_are_not_there_are_not_found(outcomes: list[Outcome]) -> None:
    absent = [outcome for outcome in outcomes if outcome.entries is None]
    assert len(absent) > CURVES / 6
    assert sum(outcome.found is not None for outcome in absent) <= 0.02 * len(absent)


def steps(*levels: tuple[int, float], noise: float = 0.05, seed: int = 1) -> Curve:
    """A curve that is at each height up to this many lines."""
    random = np.random.default_rng(seed)
    lines = np.unique(np.round(np.geomspace(4, 16384, 60)))
    true = np.zeros(len(lines))
    for end, height in levels:
        true[lines > end] = height
    return Curve(lines, true + random.normal(0, noise, (10, len(lines))))


def knee(entries: float) -> Knee:
    interval = Interval(entries, 0.97 * entries, 1.03 * entries)
    return Knee("dtlb_entries", 4096, "tlb", "spread", "serial", interval)


@pytest.mark.parametrize(
    ("second", "reason"),
    [(steps((100, 2.0)), "measured first 64, then 9"), (steps(), "does not show"), (None, "not m")],
)
def test_a_knee_is_not_confirmed(second: Curve | None, reason: str) -> None:
    verdict = confirm(knee(64), second)
    assert verdict.entries is None
    assert reason in verdict.reason
    assert verdict.refuted == (second is not None and "does not" in reason)


def test_what_a_refuted_knee_leaves() -> None:
    levels = find_levels(steps((64, 2.0), (1500, 20.0)))
    gone = confirm(knee(64), steps())
    kept = confirm(knee(1500), steps((64, 2.0), (1500, 20.0)))
    first, second = settle(levels, [gone, kept]), settle(levels, [kept, gone])
    assert (first.first, first.hit_range()) == (None, None)
    assert first.walk_from() is not None
    assert (second.second, second.walk_from()) == (None, None)


def test_packed_chains_in_base_pages_do_not_hide_the_second_level() -> None:
    curve = steps((16, 2.0), (600, 20.0))
    # Twenty-one packed lines to a page: from 340 lines on they miss the first level too.
    paid = 2.0 * np.clip(1 - 16 / (curve.lines * 192 / 4096), 0, None)
    levels = find_levels(Curve(curve.lines, curve.deltas - paid), None, 192 / 4096)
    assert levels.first is not None
    assert there(levels.second).value == pytest.approx(600, rel=0.12)


def test_medians_and_ratios_have_intervals_around_them() -> None:
    values = np.random.default_rng(1).normal(10, 1, 50)
    middle, share = median(values), ratio(values, values / 4)
    assert middle is not None
    assert share is not None
    assert 9.4 < middle.low < middle.value < middle.high < 10.6
    assert share.low < 4 < share.high
    assert median(values[:2]) is None
    assert ratio(values, values - 10) is None


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
