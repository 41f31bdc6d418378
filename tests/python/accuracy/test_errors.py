# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import re
from dataclasses import replace
from pathlib import Path

import pytest
from builders.record import TWO, modelled, record, text_of
from tlbcost.accuracy.checks import check_of
from tlbcost.accuracy.errors import accuracy
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
    assert modelled(None).models == ("simple",)


def test_each_model_is_judged_by_itself(tmp_path: Path) -> None:
    some = modelled(Interval(0.32, 0.29, 0.34))
    assert some.models == ("overlap", "simple")
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
