# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the budget hold what is used to its share, whatever one look costs?"""

from __future__ import annotations

import pytest
from tlbcost.live.budget import SHARE, Budget


class Clocks:
    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def budget(self, saved_s: float = 4.0) -> Budget:
        return Budget(saved_s, clock=lambda: self.wall, cpu=lambda: self.cpu)


@pytest.mark.parametrize("look_s", [0.0004, 0.05, 1.0])
def test_no_more_than_the_share_is_used_in_the_long_run(look_s: float) -> None:
    clocks = Clocks()
    budget = clocks.budget()
    while budget.left_s() > 0:
        clocks.cpu += look_s
    first = clocks.cpu
    for _ in range(1000):
        clocks.wall += 2
        while budget.left_s() > 0:
            clocks.cpu += look_s
    assert clocks.cpu - first <= SHARE * clocks.wall + look_s
    assert clocks.cpu - first >= SHARE * clocks.wall - 2 * look_s


def test_what_is_not_used_is_not_saved_up() -> None:
    clocks = Clocks()
    budget = clocks.budget(saved_s=4.0)
    clocks.cpu += budget.left_s()
    clocks.wall += 3600
    assert budget.left_s() == pytest.approx(SHARE * 4)


def test_the_first_reading_has_its_own_allowance() -> None:
    clocks = Clocks()
    budget = clocks.budget()
    clocks.cpu += 0.2
    assert budget.left_s() > 0
    assert budget.used_fraction() is None
    budget.first_reading_done()
    clocks.wall, clocks.cpu = 10.0, clocks.cpu + 0.05
    assert budget.used_fraction() == pytest.approx(0.005)
