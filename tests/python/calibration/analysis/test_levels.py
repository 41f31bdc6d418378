# SPDX-License-Identifier: GPL-2.0-or-later
"""Are the TLB levels of made-up machines found, and none that are not there?

`make accuracy-analysis` does the same with a thousand of them.
"""

from __future__ import annotations

import numpy as np
import pytest
from synthetic import Outcome, draw_machine, measure_twice
from tlbcost.calibration.analysis.levels import Knee, confirm, find_levels, settle
from tlbcost.calibration.analysis.steps import Curve, find_steps, is_steep
from tlbcost.common.bootstrap import median, ratio
from tlbcost.common.interval import Interval

CURVES = 60


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


def test_the_same_machine_is_drawn_every_time() -> None:
    one, other = draw_machine(5), draw_machine(5)
    assert one == other
    assert np.array_equal(one.curve(3).deltas, other.curve(3).deltas)


def steps(*levels: tuple[int, float], noise: float = 0.05, seed: int = 1) -> Curve:
    """A curve that is at each height up to this many lines."""
    random = np.random.default_rng(seed)
    lines = np.unique(np.round(np.geomspace(4, 16384, 60)))
    true = np.zeros(len(lines))
    for end, height in levels:
        true[lines > end] = height
    return Curve(lines, true + random.normal(0, noise, (10, len(lines))))


def test_a_curve_without_steps_has_none() -> None:
    assert find_steps(steps()) == []


def test_both_steps_of_a_curve_are_found() -> None:
    found = find_steps(steps((64, 2.0), (1500, 20.0)))
    assert [step is not None and round(step.high_ns) for step in found] == [2, 20]
    for step, end in zip(found, (64, 1500), strict=True):
        assert step is not None
        assert step.at.low <= end <= step.at.high


def test_a_slope_is_no_step() -> None:
    lines = np.geomspace(16, 520, 11)
    random = np.random.default_rng(1)
    slope = Curve(lines, np.log(lines / 16) * 3 + random.normal(0, 0.2, (12, 11)))
    sharp = Curve(lines, np.where(lines > 64, 8.0, 0.0) + random.normal(0, 0.2, (12, 11)))
    for curve, expected in ((slope, False), (sharp, True)):
        (step,) = find_steps(curve, most=1)
        assert step is not None
        assert is_steep(curve, step) == expected


def knee(entries: float) -> Knee:
    interval = Interval(entries, 0.97 * entries, 1.03 * entries)
    return Knee("dtlb_entries", 4096, "tlb", "spread", "serial", interval)


def test_a_knee_is_confirmed_where_it_is_found_again() -> None:
    verdict = confirm(knee(66), steps((64, 2.0)))
    assert verdict.entries is not None
    assert verdict.entries.value == pytest.approx(65, rel=0.1)


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
    assert levels.second is not None
    assert levels.second.value == pytest.approx(600, rel=0.12)


def test_medians_and_ratios_have_intervals_around_them() -> None:
    values = np.random.default_rng(1).normal(10, 1, 50)
    middle, share = median(values), ratio(values, values / 4)
    assert middle is not None
    assert share is not None
    assert 9.4 < middle.low < middle.value < middle.high < 10.6
    assert share.low < 4 < share.high
    assert median(values[:2]) is None
    assert ratio(values, values - 10) is None
