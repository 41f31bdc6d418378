# SPDX-License-Identifier: GPL-2.0-or-later
"""Who is asked to do a task, who is asked next if that one is lost, and when is it given up?"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import pytest
from builders.review import plan_of, result
from tlbcost.review.cluster import Seen
from tlbcost.review.errand import Reply
from tlbcost.review.fleet import Fleet
from tlbcost.review.task import Task, TaskResult, plan_tasks

Outcome = Reply | Literal["lost"] | None
PATIENCE_S = 10.0


@dataclass
class Asked:
    task: Task
    address: str
    answer: Outcome
    released: bool = False

    def outcome(self) -> Outcome:
        return self.answer

    def release(self) -> None:
        self.released = True


@dataclass
class Made:
    """A made-up cluster, and its clock: workers in `stopped` give no sign of life."""

    answer: Callable[[Task, str], Outcome]
    there: dict[str, Seen] = field(default_factory=dict)
    stopped: set[str] = field(default_factory=set)
    asked: list[Asked] = field(default_factory=list)
    now: float = 0.0
    then: Callable[[float], None] = lambda _: None

    def add(self, address: str, *machines: str, host: str | None = None) -> None:
        self.there[address] = Seen(frozenset(machines), host or address, self.now)

    def workers(self) -> dict[str, Seen]:
        for address, seen in self.there.items():
            if address not in self.stopped:
                self.there[address] = replace(seen, pulse=self.now)
        return self.there

    def start(self, task: Task, calibration: str | None, address: str) -> Asked:
        assert calibration is None
        self.asked.append(Asked(task, address, self.answer(task, address)))
        return self.asked[-1]

    def sleep(self, seconds: float) -> None:
        self.now += seconds
        assert self.now < 1000, "it does not end"
        self.then(self.now)

    def run(self, tasks: list[Task]) -> list[TaskResult]:
        fleet = Fleet(self, PATIENCE_S, lambda: self.now, self.sleep)
        begun: list[Task] = []
        found = list(fleet.run(tasks, begun.append))
        assert len(begun) == len({id(task) for task in begun}), "a task began twice"
        assert all(asked.released for asked in self.asked)
        return found


@pytest.fixture
def tasks(tmp_path: Path) -> list[Task]:
    text = "[machines.east]\n" + "".join(
        f'[[services]]\nname = "{name}"\ncommand = ["true"]\n' for name in ("one", "two", "three")
    )
    return plan_tasks(plan_of(tmp_path, text), fleet=True)


def done(task: Task, _: str = "") -> Reply:
    return Reply(result=result(task.service.name, None, task.machine_name, "made up"))


def test_each_task_is_done_once_and_one_at_a_time_on_a_host(tasks: list[Task]) -> None:
    made = Made(lambda *_: None)
    made.add("a", "east", host="h")
    made.add("b", "east", host="h")
    made.add("c", "east", host="i")
    made.add("d", "west", host="j")

    def later(_: float) -> None:
        running = [each for each in made.asked if not each.released]
        hosts = [made.there[each.address].host for each in running]
        assert len(hosts) == len(set(hosts))
        assert "j" not in hosts
        for each in running:
            each.answer = done(each.task)

    made.then = later
    found = made.run(tasks)
    assert sorted(each.service for each in found) == ["one", "three", "two"]
    assert len(made.asked) == 3


def test_a_task_whose_worker_went_away_is_tried_elsewhere(tasks: list[Task]) -> None:
    made = Made(lambda task, address: None if address == "a" else done(task))
    made.add("a", "east")
    made.add("b", "east")

    def later(_: float) -> None:
        made.there.pop("a", None)

    made.then = later
    found = made.run(tasks)
    assert [each.failure for each in found] == ["made up"] * 3
    assert [each.task.service.name for each in made.asked if each.address == "a"] == ["one"]
    assert any(each.task.service.name == "one" and each.address == "b" for each in made.asked)


def test_a_silent_worker_is_waited_for_and_then_not_asked(
    tasks: list[Task], capsys: pytest.CaptureFixture[str]
) -> None:
    made = Made(lambda task, address: None if address == "a" else done(task))
    made.add("a", "east")
    made.add("b", "east")
    made.then = lambda _: made.stopped.add("a")
    found = made.run(tasks)
    assert len(found) == 3
    assert PATIENCE_S <= made.now < PATIENCE_S + 2
    assert "one on east lost its worker a: silent for 10 s; it is tried again" in (
        capsys.readouterr().err
    )


def test_a_task_that_loses_every_worker_is_given_up(tasks: list[Task]) -> None:
    made = Made(lambda *_: "lost")
    for name in "abcde":
        made.add(name, "east")
    (found,) = made.run(tasks[:1])
    assert found.failure == "lost its worker c: it went away; tried 3 times"
    assert [each.address for each in made.asked] == ["a", "b", "c"]
    assert found.estimate is None
    assert found.plan == tasks[0].plan


def test_the_worker_that_was_lost_is_asked_again_if_nobody_else_is_there(tasks: list[Task]) -> None:
    answers: list[Outcome] = ["lost", done(tasks[0])]
    made = Made(lambda *_: answers.pop(0))
    made.add("a", "east")
    (found,) = made.run(tasks[:1])
    assert found.failure == "made up"


def test_a_refusal_is_no_try_and_is_named(tasks: list[Task]) -> None:
    made = Made(lambda *_: Reply(refusal="it has tlbcost 0"))
    for name in "abcd":
        made.add(name, "east")
    found = made.run(tasks)
    assert len(made.asked) == 4, "each is asked once"
    for each in found:
        assert str(each.failure).startswith("no worker for east within 10 s; a: it has tlbcost 0")


def test_a_worker_that_comes_in_time_does_it(tasks: list[Task]) -> None:
    made = Made(done)

    def later(now: float) -> None:
        if now > PATIENCE_S / 2 and not made.there:
            made.add("a", "east")

    made.then = later
    assert [each.failure for each in made.run(tasks)] == ["made up"] * 3
