# SPDX-License-Identifier: GPL-2.0-or-later
"""Does the budget hold what is used to its share, whatever one look costs?"""

from __future__ import annotations

import pytest
from tlbcost.live.budget import PAGES_SHARE, STAT_SHARE, Budget, OwnUse

SHARE = 0.005


class Clocks:
    def __init__(self) -> None:
        self.wall = self.cpu = 0.0

    def budget(self, saved_s: float = 4.0) -> Budget:
        return Budget(saved_s, SHARE, clock=lambda: self.wall, cpu=lambda: self.cpu)


@pytest.mark.parametrize("look_s", [0.0004, 0.05, 1.0])
def test_no_more_than_the_share_is_used_in_the_long_run(look_s: float) -> None:
    clocks = Clocks()
    budget = clocks.budget()
    while budget.left_s() > 0:
        clocks.cpu += look_s
    first = clocks.cpu
    budget.first_reading_done()
    for _ in range(1000):
        clocks.wall += 2
        while budget.left_s() > 0:
            clocks.cpu += look_s
    assert clocks.cpu - first <= SHARE * clocks.wall + look_s
    assert clocks.cpu - first >= SHARE * clocks.wall - 2 * look_s


def test_what_is_not_used_is_not_saved_up() -> None:
    clocks = Clocks()
    budget = clocks.budget(saved_s=4.0)
    budget.first_reading_done()
    clocks.wall += 3600
    assert budget.left_s() == pytest.approx(SHARE * 4)


def test_the_first_reading_has_its_own_allowance() -> None:
    clocks = Clocks()
    budget = clocks.budget()
    clocks.cpu += 0.2
    assert budget.left_s() > 0
    clocks.cpu += 0.2
    assert budget.left_s() < 0


def test_stat_and_all_else_are_counted_apart() -> None:
    own = OwnUse()
    assert own.fraction() is None
    with own.of_stat():
        while own.stat_s() < 0.002:
            pass
    stat = own.stat_s()
    assert stat >= 0.002
    others = own.others_s()
    while own.others_s() < others + 0.002:
        pass
    assert own.stat_s() == stat
    own.first_reading_done()
    while own.fraction() in (None, 0.0):
        pass


def test_the_shares_are_below_one_percent() -> None:
    assert STAT_SHARE + PAGES_SHARE < 0.01
