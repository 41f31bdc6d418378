# SPDX-License-Identifier: GPL-2.0-or-later
"""How are figures written for people?"""

from __future__ import annotations

import pytest
from tlbcost.common import units
from tlbcost.common.interval import Interval


def test_ends_that_round_to_nothing_are_said_once() -> None:
    assert units.range_of(Interval(0, 0, 1e-4)) == "about 0"
    assert units.range_of(Interval(0, -1e-4, 1e-4)) == "about 0"
    assert units.range_of(Interval(0, 0, 0)) == "0 %"
    assert units.range_of(Interval(0.1, -1e-4, 0.2)) == "about 0 to 20 %"


@pytest.mark.parametrize(
    ("shown", "expected"),
    [
        (units.size(4096), "4 KiB"), (units.size(3 << 29), "1.5 GiB"), (units.size(7), "7 B"),
        (units.time(1_234_000_000), "1.23 s"), (units.time(-3_000_000), "-3 ms"),
        (units.time(0), "0 s"), (units.time(12.34), "12.3 ns"),
        (units.times(197e6, 238.4e6), "197-238 ms"),
        (units.count(59_800_000), "59.8 M"), (units.count(12_345), "12,345"),
        (units.percent(0.1284), "13 %"), (units.percent(0.0123), "1.2 %"),
        (units.percent(0), "0 %"), (units.percent(0.0001), "about 0"),
        (units.percent(-0.0001), "about 0"), (units.speedup(1.253), "1.25x"),
        (units.speedup(None), "no limit"),
    ],
)  # fmt: skip
def test_units(shown: str, expected: str) -> None:
    assert shown == expected
