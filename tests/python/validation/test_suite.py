# SPDX-License-Identifier: GPL-2.0-or-later
from __future__ import annotations

from pathlib import Path

import pytest
from builders.record import TWO, record, text_of
from tlbcost.answer.request import EstimateRequest
from tlbcost.common.errors import TlbcostError
from tlbcost.validation import session
from tlbcost.validation.session import SuiteRequest, Task, read_suite, validate


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
    monkeypatch.setattr("tlbcost.validation.session.paths.workloads", lambda: tmp_path)
    words = ("env", "LC_ALL=C", "no-such-solver", "--threads=1")
    heard: list[str] = []
    left = validate(Task("solver", words, "glibc-hugetlb"), SuiteRequest(), heard.append)
    why = "no-such-solver is not installed (scripts/install-deps --accuracy)"
    assert heard == [f"solver: {why}"]
    assert (left.excluded, left.prediction, left.pairs) == (why, None, ())
    some = record(*TWO.programs, left)
    assert f"Not compared: solver: {why}" in " ".join(text_of(some).split())
    assert len(some.checks) == 2
    # What it reads may be missing, too.
    words = ("env", "A=1", "sh", str(tmp_path / "inputs" / "clauses"))
    left = validate(Task("solver", words, "glibc-hugetlb"), SuiteRequest(), heard.append)
    assert left.excluded == "inputs/clauses is not made (make accuracy-inputs)"


def test_the_estimate_is_by_the_engine_that_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    asked: list[str] = []

    def note(request: EstimateRequest, *_: object) -> None:
        asked.append(request.engine)
        raise TlbcostError("enough", exit_code=4)

    monkeypatch.setattr(session, "estimate", note)
    task = Task("true", ("true",), "glibc-thp")
    validate(task, SuiteRequest(engine="valgrind"), lambda _: None)
    validate(task, SuiteRequest(), lambda _: None)
    assert asked == ["valgrind", "auto"]
