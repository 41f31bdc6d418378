# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from dataclasses import replace

import pytest
from builders.record import TWO, paired_run, record, text_of
from tlbcost.accuracy.checks import PairOfRuns, check_of, gain_of


def test_errors_are_predicted_less_measured() -> None:
    chase, sort = TWO.checks
    assert chase.expected_error() == pytest.approx(-0.05)
    assert chase.bound_error == pytest.approx(0.2)
    assert chase.total_error == pytest.approx(0.25 + 0.05 - 0.3)
    assert (chase.inside(), chase.above_bound) == (True, False)
    assert (sort.inside(), sort.above_bound) == (False, True)


def test_several_threads_share_the_time_of_all_cpus() -> None:
    two_threads = PairOfRuns(paired_run(1.9, 0.1, 1.0), paired_run(1.5, 0.1, 0.8), None, None)
    gain = gain_of([two_threads] * 3)
    assert gain is not None
    assert gain.user.value == pytest.approx(0.2)
    assert gain.whole.value == pytest.approx(0.2)


def test_too_few_pairs_are_no_measurement() -> None:
    few = replace(TWO.programs[0], pairs=TWO.programs[0].pairs[:2])
    assert check_of(few) is None
    assert record(few).left_out[0][1] == "2 pairs of runs are too few for an interval"


def test_excluded_programs_count_for_nothing_and_are_reported() -> None:
    unproven = replace(TWO.programs[1], excluded="12 % of its memory was on huge pages")
    some = record(TWO.programs[0], unproven)
    assert [check.program.name for check in some.checks] == ["chase"]
    assert "Not compared: sort: 12 % of its memory was on huge pages" in text_of(some)
