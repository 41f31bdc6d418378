# SPDX-License-Identifier: GPL-2.0-or-later
"""Does a worker take what fits it alone, and answer no half of a result?"""

from __future__ import annotations

import threading
from dataclasses import replace
from pathlib import Path

import msgspec
import pytest
from builders.calibration import of_this_machine
from builders.review import plan_of, result
from tlbcost.calibration.file import write_calibration
from tlbcost.common.paths import version
from tlbcost.review import errand
from tlbcost.review.errand import WANTED, Reply, fill, order
from tlbcost.review.execution import Interrupted
from tlbcost.review.plan import Plan
from tlbcost.review.task import Task, TaskResult, plan_tasks

TEXT = '[machines.a]\ncalibration = "a.tsv"\n[[services]]\nname = "one"\ncommand = ["./app"]\n'


@pytest.fixture
def plan(tmp_path: Path) -> Plan:
    write_calibration(tmp_path / "a.tsv", of_this_machine())
    return plan_of(tmp_path, TEXT)


@pytest.fixture
def task(plan: Plan) -> Task:
    return plan_tasks(plan, fleet=True)[0]


def calibration(task: Task) -> str:
    return Path(str(task.machine.calibration)).read_text(encoding="utf-8")


def reply(words: bytes) -> Reply:
    return msgspec.json.decode(fill(words), type=Reply)


def test_another_version_is_refused_whatever_else_it_asks() -> None:
    found = reply(b'{"version": "9.9", "what": [1]}')
    assert found == Reply(refusal=f"it has tlbcost {version()}, and the review 9.9")


@pytest.mark.parametrize(
    "change",
    [{"cpu_model": "none"}, {"cpu_stepping": "99"}, {"hypervisor": "none"}, {"base_page_bytes": 1}],
)
def test_the_calibration_of_another_machine_is_refused(
    task: Task, tmp_path: Path, change: dict[str, str]
) -> None:
    made = of_this_machine()
    machine = replace(made.machine, **change)
    write_calibration(tmp_path / "b.tsv", replace(made, machine=machine))
    text = (tmp_path / "b.tsv").read_text(encoding="utf-8")
    found = reply(order(task, text, "key"))
    assert found.result is None
    assert "and the calibration of a is of " in str(found.refusal)


def test_a_calibration_that_cannot_be_read_is_refused(task: Task) -> None:
    found = reply(order(task, calibration(task)[:-20], "key"))
    assert "cannot use the plan's calibration" in str(found.refusal)


def test_the_command_that_repeats_it_has_the_plans_files(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    used: list[str] = []

    def run(planned: Task, *_: object) -> TaskResult:
        assert planned.options is not None
        file = planned.options[planned.options.index("--calibration") + 1]
        used.append(Path(file).read_text(encoding="utf-8"))
        return msgspec.structs.replace(result("one", None), command=planned.command)

    monkeypatch.setattr(errand, "run_task", run)
    found = reply(order(task, calibration(task), "key")).result
    assert found is not None
    assert used == [calibration(task)]
    assert found.command[:4] == ("tlbcost", "estimate", "--calibration", task.machine.calibration)
    assert found.plan == task.plan


def test_what_is_not_on_the_host_is_the_services_failure(plan: Plan, task: Task) -> None:
    service = msgspec.structs.replace(plan.services[0], folder="/no/such")
    found = reply(order(replace(task, service=service), None, "key")).result
    assert found is not None
    assert found.failure == "the worker's host has no folder /no/such"


def test_an_order_that_nobody_wants_any_more_has_no_result(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: Task, __: Path, stop: threading.Event) -> TaskResult:
        WANTED.stop("key")
        assert stop.is_set()
        return result("one", None, failure="ended by SIGTERM")

    monkeypatch.setattr(errand, "run_task", run)
    with pytest.raises(Interrupted):
        fill(order(task, None, "key"))
    # Known before it began.
    WANTED.stop("early")
    with pytest.raises(Interrupted):
        fill(order(replace(task, service=msgspec.structs.replace(task.service, folder="/")),
                   None, "early"))  # fmt: skip


def test_a_fleets_task_does_not_depend_on_this_host(plan: Plan, tmp_path: Path) -> None:
    (before,) = plan_tasks(plan, fleet=True)
    assert before.options is None
    assert before.command == ()
    made = of_this_machine()
    write_calibration(tmp_path / "a.tsv", replace(made, date="2020-01-01T00:00:00Z"))
    (after,) = plan_tasks(plan, fleet=True)
    assert after.plan != before.plan, "its calibration is part of it"
    gone = plan_of(tmp_path, TEXT.replace('command = ["./app"]', "pid = 4194304"))
    assert plan_tasks(gone, fleet=True)[0].options is None
