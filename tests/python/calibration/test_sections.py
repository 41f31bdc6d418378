# SPDX-License-Identifier: GPL-2.0-or-later
"""Is it said how long lines stay in the last-level cache?"""

from __future__ import annotations

from dataclasses import replace

import pytest
from builders.calibration import cost, quick
from tlbcost.calibration.sections import load_table


@pytest.mark.parametrize(
    ("ns", "words"),
    [
        (3e6, "3 ms 2.91-3.09 ms"),
        # The calibrator waited no longer.
        (32e6, "32 ms or more"),
        (40e6, "32 ms or more"),
        (None, "NA"),
    ],
)
def test_how_long_lines_stay(ns: float | None, words: str) -> None:
    costs = (
        cost("load_ns", 4, None, "serial", 8192),
        cost("l3_half_life_ns", ns, None, None, 65536),
    )
    lines = load_table(replace(quick().calibration, costs=costs), None)
    assert lines[-2] == "Half of the lines that are not accessed leave the last-level cache in"
    assert lines[-1].split() == words.split()


def test_nothing_is_said_of_what_was_not_measured() -> None:
    costs = (cost("load_ns", 4, None, "serial", 8192),)
    lines = load_table(replace(quick().calibration, costs=costs), None)
    assert not any("not accessed" in line for line in lines)
