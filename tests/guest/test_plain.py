# SPDX-License-Identifier: GPL-2.0-or-later
"""What is said of counters that are less than one would like, and how well does a count repeat?"""

from __future__ import annotations

import pytest
from machine import Results
from test_counting import FEW, code, counts


def test_counters_that_know_no_modes_count_both(plain: Results, counting: Results) -> None:
    user = counts(counting, "loads")["dtlb_load_misses"]
    assert counts(plain, "both")["dtlb_load_misses"] > user + FEW


def test_counters_that_know_no_modes_are_not_taken_for_the_users_alone(plain: Results) -> None:
    assert code(plain, "user") == 4
    assert "dtlb_load_misses: unsupported" in plain.text("user.err")
    assert not plain.text("user.out")


def test_two_runs_count_the_same(exact: Results) -> None:
    first, second = counts(exact, "run-1"), counts(exact, "run-2")
    # But for what the kernel does in that time, whose devices have the host's time: a thousandth.
    assert first["dtlb_load_misses"] == pytest.approx(second["dtlb_load_misses"], rel=0.001)
