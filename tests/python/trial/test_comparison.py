# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import io
from dataclasses import replace

import pytest
from builders.answer import estimated
from builders.trial import BASE, METHOD, MIB, backing, made_trials, pair
from tlbcost.common.interval import Interval
from tlbcost.trial.comparison import MIN_PAIRS, Pair, ProgramTrials, judge
from tlbcost.trial.report import bloat_bytes, print_trials, verdict


def text_of(report: ProgramTrials) -> str:
    file = io.StringIO()
    print_trials(report, file, details=True)
    return file.getvalue()


def test_the_share_is_the_median_of_the_pairs() -> None:
    trial = judge(METHOD, tuple(pair(w, user=1 - w) for w in (0.9, 0.7, 0.8, 0.75, 0.85)))
    assert trial.proven
    assert trial.why_not is None
    assert trial.measured_fraction is not None
    assert trial.measured_fraction.value == pytest.approx(0.2)
    assert (trial.measured_fraction.low, trial.measured_fraction.high) == pytest.approx((0.1, 0.3))
    assert trial.measured_user_fraction is not None
    assert trial.measured_user_fraction.value == pytest.approx(0.2)
    assert trial.measured_system_fraction == Interval(0, 0, 0)
    assert trial.difference_proven


def test_an_interval_that_holds_0_proves_nothing() -> None:
    trial = judge(METHOD, tuple(pair(w) for w in (0.9, 1.1, 0.95, 0.97, 1.02)))
    assert trial.proven
    assert not trial.difference_proven
    assert "no difference proven" in text_of(made_trials(trial))


def test_half_of_the_memory_must_be_on_huge_pages() -> None:
    trial = judge(METHOD, (pair(0.5, 0.49),) * 5)
    assert not trial.proven
    assert trial.measured_fraction is None
    assert trial.why_not is not None
    assert "131 MiB of the 256 MiB that a-method should reach stayed" in trial.why_not
    shown = text_of(made_trials(trial))
    assert "huge pages not proven" in shown
    assert "50 %" not in shown
    assert judge(METHOD, (pair(0.5, 0.5),) * 5).proven


def test_runs_that_did_not_get_huge_pages_are_left_out() -> None:
    trial = judge(METHOD, (pair(0.8),) * 3 + (pair(0.1, 0.0),) * 2)
    assert trial.measured_fraction is not None
    assert trial.measured_fraction.value == pytest.approx(0.2)
    assert (len(trial.pairs), len(trial.proven_pairs)) == (5, 3)
    assert any(note.startswith("2 of 5 pairs are left out") for note in trial.notes)
    assert not judge(METHOD, (pair(0.8),) * (MIN_PAIRS - 1) + (pair(0.8, 0.0),)).proven


def test_memory_that_was_not_seen_proves_nothing() -> None:
    trial = judge(METHOD, (pair(0.5, None),) * 3, "it ended too soon")
    assert (trial.proven, trial.why_not) == (False, "it ended too soon")
    # "0 B" would be a figure that was not obtained.
    row = next(
        line for line in text_of(made_trials(trial)).splitlines() if "on huge pages  " in line
    )
    assert row.split()[-1] == "NA"


def test_a_program_with_huge_pages_of_its_own_is_reported() -> None:
    own = Pair(BASE, BASE, backing(256 * MIB), backing(200 * MIB))
    assert any("200 MiB of its 256 MiB" in note for note in judge(METHOD, (own,) * 3).notes)
    # Multi-size pages are counted for the whole system, and refused to runs on base pages.
    others = Pair(BASE, BASE, backing(256 * MIB), backing(0, mthp=100 * MIB))
    assert judge(METHOD, (others,) * 3).notes == METHOD.notes


def test_memory_that_grew_counts_hugetlb_pages() -> None:
    # Those are not in what getrusage(2) tells.
    huge = replace(BASE, max_rss_bytes=2 * MIB)
    grown = Pair(BASE, huge, backing(300 * MIB, resident=300 * MIB), backing(0))
    assert bloat_bytes([grown] * 3) == 44 * MIB
    assert bloat_bytes([]) is None
    assert "It uses 44 MiB more memory" in text_of(made_trials(judge(METHOD, (grown,) * 3)))


def test_the_estimate_is_compared_with_pages_of_its_size() -> None:
    estimate = replace(
        estimated().gain,
        bound_fraction=Interval(0.4, 0.3, 0.5),
        expected_fraction=Interval(0.1, 0.05, 0.2),
        fault_fraction=Interval(0.1, 0.05, 0.1),
    )
    trial = judge(METHOD, (pair(0.8),) * 3)
    report = made_trials(trial, estimate=estimate)
    assert verdict(trial, report) == "inside"
    assert "Measured 20 % is within the predicted range, 10 % to 30 %" in text_of(report)
    assert verdict(judge(METHOD, (pair(0.65),) * 3), report) == "outside"
    assert verdict(judge(METHOD, (pair(0.8, 0.0),) * 3), report) is None
    small = replace(METHOD, page_bytes=65536)
    assert verdict(judge(small, (pair(0.8),) * 3), report) is None
    assert verdict(trial, made_trials(trial)) is None


def test_a_summary_fits_a_screen_and_begins_with_the_result() -> None:
    trials = [judge(METHOD, (pair(0.8),) * 5)] * 2
    for shown in (trials[:1], trials):
        file = io.StringIO()
        print_trials(replace(made_trials(*shown), estimate=estimated().gain), file, details=False)
        lines = file.getvalue().splitlines()
        assert len(lines) <= 24
        assert lines[0].startswith("a-method: huge pages saved 20 % of the run time; ")
        assert "A made-up CPU" not in file.getvalue()
