# SPDX-License-Identifier: GPL-2.0-or-later
"""Who is asked to do a task, and who next if that one is lost? Does a worker take what fits?"""

from __future__ import annotations

import argparse
import re
import socket
import threading
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Literal

import msgspec
import pytest
from builders.calibration import of_this_machine
from builders.review import plan_of, result
from builders.tree import fails, there
from tlbcost.calibration.file import write_calibration
from tlbcost.common.errors import USAGE, TlbcostError
from tlbcost.common.paths import version
from tlbcost.review import worker
from tlbcost.review.plan import Plan
from tlbcost.review.scheduler import Scheduler, add_scheduler, check_closed, scheduler_of
from tlbcost.review.session import Fleet
from tlbcost.review.task import Interrupted, Task, TaskResult, plan_tasks
from tlbcost.review.worker import WANTED, Reply, Seen, fill, order

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


def read(*words: str) -> Scheduler | None:
    parser = argparse.ArgumentParser(exit_on_error=False)
    add_scheduler(parser, required=False)
    return scheduler_of(parser.parse_args(words))


def test_addresses() -> None:
    assert read() is None
    found = there(read("--scheduler", "tls://[::1]:8786", "--tls-cert", "c"))
    assert (found.protocol, found.host, found.port) == ("tls", "::1", 8786)
    found = there(read("--scheduler", "tcp://build-1.example:1"))
    assert (found.protocol, found.host, found.port) == ("tcp", "build-1.example", 1)
    found = there(read("--scheduler", "127.0.0.1:1"))
    assert found.address == "tcp://127.0.0.1:1"
    found = there(read("--scheduler", "[2001:db8::1]:1", "--tls-cert", "c"))
    assert found.address == "tls://[2001:db8::1]:1"


@pytest.mark.parametrize(
    "text",
    ["host", "tcp://host", "tcp://:1", "tcp://h:0", "tcp://h:65536", "ucx://h:1",
     "tcp://h:1/x", "tcp://::1:8786", ""],
)  # fmt: skip
def test_what_is_no_address(text: str) -> None:
    with pytest.raises(argparse.ArgumentError, match="not tls://HOST:PORT"):
        read("--scheduler", text)


@pytest.mark.parametrize(
    ("address", "refused"),
    [("tcp://127.0.0.1:1", False), ("tcp://127.8.0.1:1", False), ("tcp://[::1]:1", False),
     ("tcp://localhost:1", False), ("tls://192.0.2.1:1", False), ("tcp://192.0.2.1:1", True),
     ("tcp://[2001:db8::1]:1", True), ("tcp://partly:1", True), ("tcp://unknown:1", True)],
)  # fmt: skip
def test_a_scheduler_that_others_reach_without_tls_is_refused(
    address: str, refused: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    numbers = {"localhost": ["127.0.0.1", "::1"], "partly": ["127.0.0.1", "192.0.2.1"]}

    def look_up(host: str, _: None) -> list[tuple[int, int, int, str, tuple[str, int]]]:
        if host not in numbers:
            raise socket.gaierror
        return [(0, 0, 0, "", (number, 0)) for number in numbers[host]]

    monkeypatch.setattr(socket, "getaddrinfo", look_up)
    if not refused:
        check_closed(Scheduler(address))
        return
    with fails(f"{re.escape(address)}: without TLS", USAGE) as error:
        check_closed(Scheduler(address))
    assert "--tls-ca-file FILE --tls-cert FILE" in there(error.value.hint)


def test_nor_does_a_worker_listen_to_others_without_tls() -> None:
    check_closed(Scheduler("tcp://127.0.0.1:1"), "127.0.0.2")
    check_closed(Scheduler("tls://127.0.0.1:1"), "192.0.2.1")
    with pytest.raises(TlbcostError, match=r"--host 192\.0\.2\.1: without TLS"):
        check_closed(Scheduler("tcp://127.0.0.1:1"), "192.0.2.1")


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

    monkeypatch.setattr(worker, "run_task", run)
    found = there(reply(order(task, calibration(task), "key")).result)
    assert used == [calibration(task)]
    assert found.command[:4] == ("tlbcost", "estimate", "--calibration", task.machine.calibration)
    assert found.plan == task.plan


def test_what_is_not_on_the_host_is_the_services_failure(plan: Plan, task: Task) -> None:
    service = msgspec.structs.replace(plan.services[0], folder="/no/such")
    found = there(reply(order(replace(task, service=service), None, "key")).result)
    assert found.failure == "the worker's host has no folder /no/such"


def test_an_order_that_nobody_wants_any_more_has_no_result(
    task: Task, monkeypatch: pytest.MonkeyPatch
) -> None:
    def run(_: Task, __: Path, stop: threading.Event) -> TaskResult:
        WANTED.stop("key")
        assert stop.is_set()
        return result("one", None, failure="ended by SIGTERM")

    monkeypatch.setattr(worker, "run_task", run)
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
