# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

import math
import re
from dataclasses import replace
from pathlib import Path

import pytest
from builders.record import (
    MACHINE,
    TWO,
    measured,
    modelled,
    paired_run,
    pairs,
    program,
    record,
    text_of,
)
from builders.tree import needs_gnuplot, printed, there
from tlbcost.accuracy import record as trial_record
from tlbcost.accuracy.record import (
    PairOfRuns,
    Record,
    TriedProgram,
    accuracy,
    check_of,
    format_record,
    gain_of,
    read_record,
    record_of,
)
from tlbcost.accuracy.report import draw_record, print_record
from tlbcost.common.errors import TlbcostError
from tlbcost.common.units import Interval


def test_mean_and_largest_are_of_sizes() -> None:
    expected = accuracy(TWO.checks)["expected"]
    assert expected.mean == pytest.approx(0.075)
    assert (expected.largest, expected.worst) == (pytest.approx(0.1), "sort")
    assert (expected.programs, expected.inside) == (2, 1)


def test_unpredicted_page_faults_are_not_zero() -> None:
    said = TWO.programs[0].prediction
    assert said is not None
    unknown = replace(TWO.programs[0], prediction=replace(said, fault_fraction=None))
    assert there(check_of(unknown)).total_error is None
    assert "total" not in accuracy(record(unknown).checks)
    assert "page faults against" not in text_of(record(unknown))


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


def test_the_spread_of_pairs_is_the_error_of_a_trial() -> None:
    runs = (*pairs(0.9, 0.6), *pairs(0.9, 0.64), *pairs(0.9, 0.56))
    one = replace(measured("chase", 0.9, 0.6, Interval(0.33, 0.3, 0.36), 0.0), pairs=runs)
    check = there(check_of(one))
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
    gain = there(gain_of([two_threads] * 3))
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


def test_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    some = record(
        *TWO.programs,
        measured("hash", 0.9, 0.6, Interval(0.3, 0.28, 0.32), -0.01),
        replace(TWO.programs[0], name="musl", excluded="no huge pages", pairs=()),
        TriedProgram("failed", "./failed", "thp", None, (), "no estimate: ./failed exited with 3"),
    )
    path = tmp_path / "trials.tsv"
    path.write_text(format_record(some), encoding="utf-8")
    assert read_record(path) == some


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ("expected_value_0: 0.25", "expected_value_0: 0.9"),
        ("bound_fraction_0: 0.5", "bound_fraction_0: wide"),
        ("base_page_bytes: 4096", "base_page_bytes: NA"),
        ("# date:", "# day:"),
        ("\t1000000000\t900000000", "\t0\t900000000"),
        ("\t1000000000\t900000000", "\tNA\t900000000"),
    ],
)
def test_garbage_is_refused_by_name(tmp_path: Path, before: str, after: str) -> None:
    path = tmp_path / "trials.tsv"
    text = format_record(TWO)
    assert before in text
    path.write_text(text.replace(before, after, 1), encoding="utf-8")
    with pytest.raises(TlbcostError, match=r"trials\.tsv"):
        read_record(path)


def test_record_of_this_machine_is_found(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "samples" / "some").mkdir(parents=True)
    monkeypatch.setattr(trial_record, "data", lambda *parts: tmp_path.joinpath(*parts))
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    assert record_of(MACHINE) is None
    (tmp_path / "samples" / "some" / "trials.tsv").write_text(format_record(TWO))
    assert record_of(replace(MACHINE, kernel="6.2", microcode="0x2")) == (TWO, False)
    assert record_of(replace(MACHINE, cpu_model="143")) is None
    assert record_of(replace(MACHINE, hypervisor=None)) is None
    # The user's own goes first; one of no use is passed over.
    own = tmp_path / "cache" / "tlbcost" / "trials.tsv"
    own.parent.mkdir(parents=True)
    own.write_text(format_record(record(TWO.programs[0])))
    found = there(record_of(MACHINE))
    assert (len(found[0].checks), found[1]) == (1, True)
    own.write_text("garbage")
    assert record_of(MACHINE) == (TWO, False)


def test_records_without_models_are_read(tmp_path: Path) -> None:
    text = format_record(TWO)
    old = "".join(
        line
        for line in text.splitlines(keepends=True)
        if not line.startswith(("# expected_overlap", "# expected_simple"))
    )
    assert old != text
    (tmp_path / "trials.tsv").write_text(old, encoding="utf-8")
    assert read_record(tmp_path / "trials.tsv") == TWO


def test_only_the_errors_of_the_same_model_are_quoted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    own = tmp_path / "tlbcost" / "trials.tsv"
    own.parent.mkdir()

    def quoted(some: Record) -> dict[str, float]:
        own.write_text(format_record(some))
        return {
            model: round(tried.mean_error_fraction, 4)
            for model, tried in trial_record.track_records(MACHINE).items()
        }

    overlap = Interval(0.32, 0.29, 0.34)
    assert quoted(modelled(overlap)) == {"overlap": 0.02, "simple": 0.05}
    assert quoted(modelled(None)) == {"simple": 0.05}
    # From before there were two models.
    assert quoted(modelled(None, with_ways=False)) == {"simple": 0.05}


def test_nothing_compared_is_said() -> None:
    nothing = record(replace(TWO.programs[0], prediction=None))
    assert accuracy(nothing.checks) == {}
    assert "No program was both predicted and measured" in text_of(nothing)
    assert "Not compared: chase: not estimated" in text_of(nothing)


def test_report_names_the_worst_and_counts() -> None:
    text = text_of(TWO)
    assert "expected gain against user time: mean 7.5, largest 10.0 (sort)" in text
    assert "The gain lies in the expected interval in 1 of 2." in text
    assert "It exceeds the bound in 1 of 2: sort." in text
    assert max(map(len, text.splitlines())) <= 80


def test_a_summary_has_the_largest_errors() -> None:
    others = [program(f"small{n}", 0.9, 0.8, (0.1, 0.05, 0.2), 0.05) for n in range(30)]
    text = printed(print_record, record(*others, *TWO.programs), details=False)
    lines = text.splitlines()
    assert len(lines) <= 24
    assert lines[0].startswith("32 programs")
    assert "chase" in text
    assert "The 8 largest errors of 32: --details" in text


@needs_gnuplot
def test_figure_is_drawn(tmp_path: Path) -> None:
    draw_record(TWO, tmp_path / "accuracy.svg")
    picture = (tmp_path / "accuracy.svg").read_text(encoding="utf-8")
    for words in ("chase", "sort", "trial: user time saved", "estimated"):
        assert words in picture
    draw_record(modelled(Interval(0.32, 0.29, 0.34)), tmp_path / "both.svg")
    assert "expected by the simple model" in (tmp_path / "both.svg").read_text("utf-8")


def test_nothing_to_draw_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="no program"):
        draw_record(record(), tmp_path / "accuracy.png")
    assert not list(tmp_path.iterdir())
