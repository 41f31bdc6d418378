# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from builders.record import TWO, measured, modelled, paired_run, pairs, record, text_of
from tlbcost.accuracy.checks import PairOfRuns, accuracy, check_of, gain_of
from tlbcost.accuracy.record import format_record, read_record
from tlbcost.accuracy.report import markdown
from tlbcost.common.interval import Interval


def test_mean_and_largest_are_of_sizes() -> None:
    expected = accuracy(TWO.checks)["expected"]
    assert expected.mean == pytest.approx(0.075)
    assert (expected.largest, expected.worst) == (pytest.approx(0.1), "sort")
    assert (expected.programs, expected.inside) == (2, 1)


def test_unpredicted_page_faults_are_not_zero() -> None:
    said = TWO.programs[0].prediction
    assert said is not None
    unknown = replace(TWO.programs[0], prediction=replace(said, fault_fraction=None))
    check = check_of(unknown)
    assert check is not None
    assert check.total_error is None
    assert "total" not in accuracy(record(unknown).checks)
    assert "page faults against" not in text_of(record(unknown))
    assert "| NA |" in markdown(record(unknown))


def test_a_model_that_said_nothing_has_no_error() -> None:
    both = record(*modelled(Interval(0.3, 0.2, 0.4)).programs, *modelled(None).programs)
    assert accuracy(both.checks)["overlap"].programs == 1
    assert re.search(r"^chase .* NA +-5.0$", text_of(both), re.MULTILINE)
    assert "overlap" not in accuracy(modelled(None).checks)
    assert modelled(None).ways == ("simple",)


def test_what_trials_do_not_explain_is_distinguished() -> None:
    some = record(
        measured("chase", 0.9, 0.6, Interval(0.27, 0.2, 0.31), 0.01),
        measured("sort", 0.9, 0.8, Interval(0.14, 0.12, 0.16), -0.02),
    )
    found = accuracy(some.checks)["measured"]
    # The pairs are alike, so that the trials have no error: off by 0.03 and 0.04.
    assert found.square == pytest.approx(math.sqrt((0.03**2 + 0.04**2) / 2))
    assert found.beyond == pytest.approx(found.square)
    assert (found.inside, found.worst) == (1, "sort")
    assert accuracy(some.checks)["overlap"].largest == pytest.approx(0.24)
    shown = " ".join(text_of(some).split())
    assert "in that measured by the estimate in 1 of 2" in shown
    assert "root mean square 3.5, of which 3.5 are not explained" in shown
    assert "differed by -0.50 points on average over 2 programs" in shown
    assert "Too close to call: 2 of 2." in shown
    assert "| error of measured | error of overlap model |" in markdown(some)


def test_the_spread_of_pairs_is_the_error_of_a_trial() -> None:
    runs = (*pairs(0.9, 0.6), *pairs(0.9, 0.64), *pairs(0.9, 0.56))
    one = replace(measured("chase", 0.9, 0.6, Interval(0.33, 0.3, 0.36), 0.0), pairs=runs)
    check = check_of(one)
    assert check is not None
    assert check.gain.user_error == pytest.approx(0.04 / 1.96)
    # Off by 0.03, of which that is a part.
    left = math.sqrt(0.03**2 - (0.04 / 1.96) ** 2)
    assert accuracy([check])["measured"].beyond == pytest.approx(left)


def test_each_model_is_judged_by_itself(tmp_path: Path) -> None:
    some = modelled(Interval(0.32, 0.29, 0.34))
    assert some.ways == ("overlap", "simple")
    (check,) = some.checks
    assert check.expected_error() == check.expected_error("overlap") == pytest.approx(0.02)
    assert check.expected_error("simple") == pytest.approx(-0.05)
    text = text_of(some)
    assert re.search(r"^chase .* 30.0 +\+2.0 +-5.0$", text, re.MULTILINE)
    assert "by the overlap model: mean 2.0" in text
    assert "by the simple model: mean 5.0" in text
    assert "in that of the overlap model in 1 of 1" in " ".join(text.split())
    assert "| error of overlap model | error of simple model |" in markdown(some)
    assert "| +2.0 | -5.0 |" in markdown(some)
    (tmp_path / "trials.tsv").write_text(format_record(some), encoding="utf-8")
    assert read_record(tmp_path / "trials.tsv") == some


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
