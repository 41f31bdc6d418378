# SPDX-License-Identifier: GPL-2.0-or-later
"""Are errors of predictions what they should be, and is nothing told that was not measured?"""

from __future__ import annotations

import io
import re
import shutil
from dataclasses import replace
from pathlib import Path

import pytest
from tlbcost.accuracy import record as trial_record
from tlbcost.accuracy.errors import Half, PairOfRuns, Prediction, Program, Record, check_of, gain_of
from tlbcost.accuracy.figure import draw_record
from tlbcost.accuracy.record import format_record, read_record, record_of
from tlbcost.accuracy.report import markdown, print_record
from tlbcost.common.errors import TlbcostError
from tlbcost.common.interval import Interval
from tlbcost.model.gain import ModelName
from tlbcost.system.machine import Machine
from tlbcost.validation.stream import StreamResult, rates_heard
from tlbcost.validation.stream_report import print_stream
from tlbcost.validation.suite import Task, read_suite, validate

MACHINE = Machine(
    "GenuineIntel", "6", "207", "2", "Some CPU", "0x1", "kvm", "6.1", 4096, "madvise", None
)
S = 1_000_000_000


def half(user_s: float, system_s: float = 0.1, wall_s: float | None = None) -> Half:
    wall = user_s + system_s if wall_s is None else wall_s
    return Half(round(wall * S), round(user_s * S), round(system_s * S), 1000, 1 << 30)


def pairs(base_user_s: float, huge_user_s: float, n: int = 3) -> tuple[PairOfRuns, ...]:
    return tuple(
        PairOfRuns(half(base_user_s), half(huge_user_s), 1 << 30, (1 << 30) - (1 << 20))
        for _ in range(n)
    )


def program(
    name: str, base: float, huge: float, expected: tuple[float, float, float], bound: float
) -> Program:
    value, low, high = expected
    return Program(
        name, f"./{name} --size 1G", "glibc-hugetlb",
        Prediction(bound, Interval(value, low, high), 0.05), pairs(base, huge),
    )  # fmt: skip


def record(*programs: Program) -> Record:
    return Record(MACHINE, "2026-11-21T00:00:00Z", "1.0", programs)


TWO = record(
    # Run times of 1 s: the user part saves 0.3 and 0.1 of it.
    program("chase", 0.9, 0.6, (0.25, 0.1, 0.4), 0.5),
    program("sort", 0.9, 0.8, (0.2, 0.15, 0.25), 0.05),
)


def text_of(some: Record) -> str:
    text = io.StringIO()
    print_record(some, text)
    return text.getvalue()


def test_errors_are_predicted_less_measured() -> None:
    chase, sort = TWO.checks
    assert chase.expected_error() == pytest.approx(-0.05)
    assert chase.bound_error == pytest.approx(0.2)
    assert chase.total_error == pytest.approx(0.25 + 0.05 - 0.3)
    assert (chase.inside(), chase.above_bound) == (True, False)
    assert (sort.inside(), sort.above_bound) == (False, True)


def test_mean_and_largest_are_of_sizes() -> None:
    judged = TWO.judged()
    assert judged is not None
    assert judged.errors.mean == pytest.approx(0.075)
    assert (judged.errors.largest, judged.errors.worst) == (pytest.approx(0.1), "sort")
    assert (judged.programs, judged.inside) == (2, 1)


def test_several_threads_share_the_time_of_all_cpus() -> None:
    two_threads = PairOfRuns(half(1.9, 0.1, 1.0), half(1.5, 0.1, 0.8), None, None)
    gain = gain_of([two_threads] * 3)
    assert gain is not None
    assert gain.user.value == pytest.approx(0.2)
    assert gain.whole.value == pytest.approx(0.2)


def test_too_few_pairs_are_no_measurement() -> None:
    few = replace(TWO.programs[0], pairs=TWO.programs[0].pairs[:2])
    assert check_of(few) is None
    assert record(few).left_out[0][1] == "2 pairs of runs tell no interval"


def test_excluded_programs_count_for_nothing_and_are_told() -> None:
    unproven = replace(TWO.programs[1], excluded="12 % of its memory was on huge pages")
    some = record(TWO.programs[0], unproven)
    assert [check.program.name for check in some.checks] == ["chase"]
    assert "Not compared: sort: 12 % of its memory was on huge pages" in text_of(some)


def test_unpredicted_page_faults_are_not_zero() -> None:
    said = TWO.programs[0].prediction
    assert said is not None
    unknown = replace(TWO.programs[0], prediction=replace(said, fault_fraction=None))
    check = check_of(unknown)
    assert check is not None
    assert check.total_error is None
    assert record(unknown).total is None
    assert "page faults against" not in text_of(record(unknown))
    assert "| NA |" in markdown(record(unknown))


def test_nothing_compared_is_said() -> None:
    nothing = record(replace(TWO.programs[0], prediction=None))
    assert nothing.judged() is None
    assert "No program was both predicted and measured" in text_of(nothing)
    assert "Not compared: chase: not estimated" in text_of(nothing)


def test_report_names_the_worst_and_counts() -> None:
    text = text_of(TWO)
    assert "expected gain against user time: mean 7.5, largest 10.0 (sort)" in text
    assert "The gain lies in the expected interval in 1 of 2." in text
    assert "It exceeds the bound in 1 of 2: sort." in text
    assert max(map(len, text.splitlines())) <= 80


def test_section_has_a_row_for_each_check() -> None:
    section = markdown(TWO)
    assert section.count("\n| chase |") == 1
    assert "| sort | 5.0 % | 20 % (15 % to 25 %) | 10 % (10 %) | " in section
    assert "| bound against user time | 12.5 | 20.0 | chase |" in section


def test_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    some = record(
        *TWO.programs,
        replace(TWO.programs[0], name="musl", excluded="no huge pages", pairs=()),
        Program("failed", "./failed", "thp", None, (), "no estimate: ./failed exited with 3"),
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
    found = record_of(MACHINE)
    assert found is not None
    assert (len(found[0].checks), found[1]) == (1, True)
    own.write_text("garbage")
    assert record_of(MACHINE) == (TWO, False)


def test_figure_is_drawn(tmp_path: Path) -> None:
    if shutil.which("gnuplot") is None:
        pytest.skip("gnuplot is not installed")
    draw_record(TWO, tmp_path / "accuracy.svg")
    picture = (tmp_path / "accuracy.svg").read_text(encoding="utf-8")
    for words in ("chase", "sort", "predicted = measured"):
        assert words in picture


def test_nothing_to_draw_leaves_no_file(tmp_path: Path) -> None:
    with pytest.raises(TlbcostError, match="no program"):
        draw_record(record(), tmp_path / "accuracy.png")
    assert not list(tmp_path.iterdir())


STREAM = """Function    Rate (MB/s)    Avg time    Min time    Max time
Copy:           13490.1    0.053065    0.053064    0.053066
Scale:          13519.0    0.053065    0.053064    0.053066
Add:            14852.5    0.053065    0.053064    0.053066
Triad:          14904.9    0.053065    0.053064    0.053066
checksum 00
"""


def test_rates_are_medians_of_the_runs_on_each_kind_of_pages() -> None:
    faster = STREAM.replace("13490.1", "14000.0")
    heard = [
        (("stream",), STREAM),
        (("hugectl", "--heap", "stream"), faster),
        (("stream",), STREAM),
        (("hugectl", "--heap", "stream"), "no table: killed"),
    ]
    copy, *_, triad = rates_heard(["stream"], heard)
    assert (copy.function, copy.base, copy.huge) == ("Copy", 13490.1, 14000.0)
    assert (triad.base, triad.huge) == (14904.9, 14904.9)


def test_a_rate_that_no_run_told_is_none() -> None:
    rates = rates_heard(["stream"], [(("stream",), STREAM)])
    assert [rate.huge for rate in rates] == [None] * 4
    text = io.StringIO()
    print_stream(StreamResult("STREAM", TWO.programs[0], tuple(rates)), text)
    assert re.search(r"^Copy \(MB/s\) +13,490 +NA +NA$", text.getvalue(), re.MULTILINE)


def test_an_unproven_stream_shows_no_figures() -> None:
    unproven = replace(TWO.programs[0], excluded="0 B of 1 GiB")
    text = io.StringIO()
    print_stream(StreamResult("STREAM", unproven, ()), text)
    assert text.getvalue() == "STREAM: no result: 0 B of 1 GiB\n"


def test_suite_commands_name_programs_that_can_be_found() -> None:
    tasks = read_suite()
    assert len(tasks) >= 16
    assert len({task.name for task in tasks}) == len(tasks)
    assert not [word for task in tasks for word in task.argv if "{workloads}" in word]
    assert [task.name for task in read_suite(["loop"])] == ["loop"]
    with pytest.raises(TlbcostError, match="no program nothing"):
        read_suite(["nothing"])


def test_a_program_that_is_not_installed_is_left_out_and_named(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr("tlbcost.validation.suite.paths.workloads", lambda: tmp_path)
    words = ("env", "LC_ALL=C", "no-such-solver", "--threads=1")
    heard: list[str] = []
    left = validate(Task("solver", words, "glibc-hugetlb"), 3, heard.append)
    why = "no-such-solver is not installed (scripts/install-deps --accuracy)"
    assert heard == [f"solver: {why}"]
    assert (left.excluded, left.prediction, left.pairs) == (why, None, ())
    some = record(*TWO.programs, left)
    assert f"Not compared: solver: {why}" in " ".join(text_of(some).split())
    assert len(some.checks) == 2
    # What it reads may be missing, too.
    words = ("env", "A=1", "sh", str(tmp_path / "inputs" / "clauses"))
    left = validate(Task("solver", words, "glibc-hugetlb"), 3, heard.append)
    assert left.excluded == "inputs/clauses is not made (make accuracy-inputs)"


def modelled(overlap: Interval | None, *, told: bool = True) -> Record:
    """The record with what the models expected of the first program."""
    one = TWO.programs[0]
    assert one.prediction is not None
    models: dict[ModelName, Interval] = {"simple": one.prediction.expected_fraction}
    said = one.prediction
    if overlap is not None:
        models["overlap"] = overlap
        said = replace(said, expected_fraction=overlap)
    return record(replace(one, prediction=replace(said, models=models if told else {})))


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


def test_a_model_that_said_nothing_has_no_error() -> None:
    both = record(*modelled(Interval(0.3, 0.2, 0.4)).programs, *modelled(None).programs)
    judged = both.judged("overlap")
    assert judged is not None
    assert judged.programs == 1
    assert re.search(r"^chase .* NA +-5.0$", text_of(both), re.MULTILINE)
    assert modelled(None).judged("overlap") is None
    assert modelled(None).models == ("simple",)


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
    assert quoted(modelled(None, told=False)) == {"simple": 0.05}


def test_figure_has_both_models(tmp_path: Path) -> None:
    if shutil.which("gnuplot") is None:
        pytest.skip("gnuplot is not installed")
    draw_record(modelled(Interval(0.32, 0.29, 0.34)), tmp_path / "accuracy.svg")
    assert "expected by the simple model" in (tmp_path / "accuracy.svg").read_text("utf-8")
