# SPDX-License-Identifier: GPL-2.0-or-later
"""Do intervals hold the truth as often as they say?"""

from __future__ import annotations

import numpy as np
import pytest
from tlbcost.common.interval import Interval
from tlbcost.measured.record import too_busy
from tlbcost.measured.statistics import decides, mean_of_copies, mean_of_rounds, repeated, t95

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


@pytest.mark.parametrize("rounds", [2, 3, 6, 15])
def test_rounds_hold_the_truth_nine_times_of_ten(rounds: int) -> None:
    random, truth, inside = np.random.default_rng(rounds), 0.05, 0
    for _ in range(TRIALS):
        noise = random.normal(0, 0.02, (3, rounds))
        differences = truth + (noise[0] + noise[1]) / 2 - noise[2]
        found = mean_of_rounds(list(differences), list(noise[0] - noise[1]))
        inside += found.low <= truth <= found.high
    assert 0.88 <= inside / TRIALS <= 0.93


@pytest.mark.parametrize("gain", [0.0, 0.03, 0.12])
def test_rounds_that_end_once_they_decide_hold_the_truth_all_the_same(gain: float) -> None:
    """Rounds end by what they show: that must not make the verdict wrong more often."""
    random, inside, wrong = np.random.default_rng(7), 0, 0
    for _ in range(TRIALS):
        differences: list[float] = []
        nulls: list[float] = []
        session = random.normal(gain, 0.015)
        while len(differences) < 10:
            one, other, huge = random.normal(0, 0.015, 3)
            differences.append(session + (one + other) / 2 - huge)
            nulls.append(one - other)
            found = repeated(mean_of_rounds(differences, nulls))
            if len(differences) >= 3 and decides(found):
                break
        inside += found.low <= gain <= found.high
        wrong += decides(found) and (found.low >= 0.02) != (gain >= 0.02)
    assert inside / TRIALS >= 0.86
    assert wrong / TRIALS <= 0.05


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


def test_a_busy_machine_does_not_measure() -> None:
    assert too_busy(Interval(-0.015, -0.05, 0.03)) is None
    assert "differ by 2.5 %" in (too_busy(Interval(-0.025, -0.03, -0.02)) or "")
