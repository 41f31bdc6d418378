# SPDX-License-Identifier: GPL-2.0-or-later
"""Do intervals hold the truth as often as they say?"""

from __future__ import annotations

import numpy as np
import pytest
from tlbcost.common.interval import Interval
from tlbcost.measured.record import (
    decides,
    mean_of_copies,
    mean_of_pairs,
    more_pairs,
    repeated,
    t95,
)

TRIALS = 2000


def test_quantiles_of_students_t() -> None:
    assert t95(1) == 6.314
    assert t95(9) == 1.833
    assert t95(30) == 1.697
    # Tables: 1.671 for 60, 1.658 for 120.
    assert t95(60) == pytest.approx(1.671, abs=0.01)
    assert t95(120) == pytest.approx(1.658, abs=0.01)


def test_another_session_is_part_of_the_interval() -> None:
    found = repeated(Interval(0.05, 0.05, 0.05))
    assert (found.low, found.high) == pytest.approx((0.05 - 0.0247, 0.05 + 0.0247), abs=1e-4)
    # What is uncertain anyway hardly changes.
    wide = repeated(Interval(0.05, -0.15, 0.25))
    assert wide.low == pytest.approx(-0.1515, abs=1e-4)


@pytest.mark.parametrize(("noise", "least"), [(0.01, 0.9), (0.015, 0.88), (0.03, 0.75)])
@pytest.mark.parametrize("pairs", [2, 3, 6, 15])
def test_pairs_hold_the_truth_nine_times_of_ten(pairs: int, noise: float, least: float) -> None:
    """Where pairs differ twice as much as usual, few of them are somewhat too sure."""
    random, truth, inside = np.random.default_rng(pairs), 0.05, 0
    for _ in range(TRIALS):
        found = mean_of_pairs(list(truth + random.normal(0, noise, pairs)))
        inside += found.low <= truth <= found.high
    assert inside / TRIALS >= least


@pytest.mark.parametrize("gain", [0.0, 0.03, 0.12])
def test_pairs_that_end_once_they_decide_hold_the_truth_all_the_same(gain: float) -> None:
    """Pairs end by what they show: that must not make the verdict wrong more often."""
    random, inside, wrong = np.random.default_rng(7), 0, 0
    for _ in range(TRIALS):
        differences = list(random.normal(gain, 0.015, 2))
        while len(differences) < 10 and not decides(mean_of_pairs(differences)):
            differences.append(random.normal(gain, 0.015))
        found = mean_of_pairs(differences)
        inside += found.low <= gain <= found.high
        wrong += decides(found) and (found.low >= 0.02) != (gain >= 0.02)
    assert inside / TRIALS >= 0.86
    assert wrong / TRIALS <= 0.05


def test_how_many_more_pairs_would_decide() -> None:
    assert more_pairs(Interval(0.05, 0.03, 0.07), 3) is None
    # Half as wide takes four times as many.
    assert more_pairs(Interval(0.05, -0.01, 0.11), 3) == 9
    assert more_pairs(Interval(0.02, 0.01, 0.03), 3) == 997


@pytest.mark.parametrize("copies", [4, 8, 20])
@pytest.mark.parametrize("spread", [0.0, 0.05])
def test_copies_hold_the_truth_at_least_so_often(copies: int, spread: float) -> None:
    """Unequal weights, a program whose phases gain differently, and noise."""
    random, truth, inside = np.random.default_rng(copies), 0.05, 0
    for _ in range(TRIALS):
        weights = random.uniform(0.5, 1.5, copies)
        gains = truth + random.normal(0, spread, copies) + random.normal(0, 0.01, copies)
        found = mean_of_copies(list(gains), list(weights), [0.01] * copies)
        inside += found.low <= truth <= found.high
    assert inside / TRIALS >= 0.86


def test_one_copy_is_as_sure_as_its_nulls() -> None:
    found = mean_of_copies([0.1], [1.0], [0.01])
    assert found.value == 0.1
    assert found.high - found.value == pytest.approx(0.06314)
