# SPDX-License-Identifier: GPL-2.0-or-later
"""Orders to a worker, and its replies.

Both are JSON: of a worker of another version its version can be read, whatever else has changed.
"""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Annotated

import msgspec

from tlbcost.calibration.file import parse_calibration
from tlbcost.common.document import Part, doc, now, to_json
from tlbcost.common.errors import TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.output import write_file
from tlbcost.common.paths import version
from tlbcost.common.progress import say
from tlbcost.report.lines import visible
from tlbcost.review.execution import Interrupted, run_task
from tlbcost.review.plan import MachineType, Service
from tlbcost.review.task import Task, TaskResult, is_here, task_here
from tlbcost.system.machine import Machine, current_machine


class Order(Part, frozen=True, kw_only=True):
    """One task for a worker."""

    version: Annotated[str, doc("the version of tlbcost that asks")]
    key: Annotated[str, doc("of this attempt")]
    service: Annotated[Service, doc("of the plan; its files are those of the worker's host")]
    machine_name: Annotated[str, doc("the type of host, by its name in the plan")]
    machine: Annotated[MachineType, doc("that type")]
    calibration: Annotated[str | None, doc("the text of its calibration; null: there is none")]
    plan: Annotated[str, doc("hash of the task")]


class Reply(Part, frozen=True, kw_only=True):
    """Either a refusal or a result."""

    refusal: Annotated[str | None, doc("why this worker does not fit the plan")] = None
    result: Annotated[TaskResult | None, doc("of the task")] = None


class _Asker(msgspec.Struct):
    version: str


class _Wanted:
    """Which orders are still wanted: what ends them is known in another thread."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._closed = False
        self._stops: dict[str, threading.Event] = {}

    def begin(self, key: str) -> threading.Event:
        with self._lock:
            stop = self._stops.setdefault(key, threading.Event())
            if self._closed:
                stop.set()
            return stop

    def end(self, key: str) -> None:
        with self._lock:
            self._stops.pop(key, None)

    def stop(self, key: str) -> None:
        with self._lock:
            # It may not have begun yet.
            self._stops.setdefault(key, threading.Event()).set()

    def close(self) -> None:
        with self._lock:
            self._closed = True
            for stop in self._stops.values():
                stop.set()


WANTED = _Wanted()


def order(task: Task, calibration: str | None, key: str) -> bytes:
    asked = Order(
        version=version(),
        key=key,
        service=task.service,
        machine_name=task.machine_name,
        machine=task.machine,
        calibration=calibration,
        plan=task.plan,
    )
    return to_json(asked).encode()


def fill(words: bytes) -> bytes:
    """Reply to an order, on a worker. Raises Interrupted if it is to be tried elsewhere."""
    asker = msgspec.json.decode(words, type=_Asker)
    if asker.version != version():
        why = f"it has tlbcost {version()}, and the review {asker.version}"
        say(f"refused a review: {why}")
        return to_json(Reply(refusal=why)).encode()
    found = msgspec.json.decode(words, type=Order)
    refusal = _misfit(found)
    if refusal is not None:
        say(f"refused a review: {refusal}")
        return to_json(Reply(refusal=refusal)).encode()
    say(f"{visible(found.service.name)} on {visible(found.machine_name)}")
    stop = WANTED.begin(found.key)
    try:
        with temporary_folder() as folder:
            result = _result(found, folder, stop)
    finally:
        WANTED.end(found.key)
    if stop.is_set():
        # An estimate that a signal ended, too, is no result.
        raise Interrupted
    return to_json(Reply(result=result)).encode()


def _misfit(found: Order) -> str | None:
    """Why this host is not of the plan's type. Of a published core each host can simulate."""
    if found.calibration is None:
        return None
    try:
        made_on = parse_calibration(found.calibration, "calibration").machine
    except TlbcostError as error:
        return f"it cannot use the plan's calibration: {error}"
    here = current_machine()
    virtual = ("hypervisor", "base_page_bytes")
    if is_here(made_on) and all(getattr(here, key) == getattr(made_on, key) for key in virtual):
        return None
    name = found.machine_name
    return f"it is {_words(here)}, and the calibration of {name} is of {_words(made_on)}"


def _words(machine: Machine) -> str:
    numbers = (machine.cpu_family, machine.cpu_model, machine.cpu_stepping)
    cpu = f"{machine.cpu_name or machine.cpu_vendor} {'/'.join(map(str, numbers))}"
    where = "no hypervisor" if machine.hypervisor is None else machine.hypervisor
    return f"{cpu} ({where}, pages of {machine.base_page_bytes} bytes)"


def _result(found: Order, folder: Path, stop: threading.Event) -> TaskResult:
    machine = found.machine
    theirs = machine.calibration
    if found.calibration is not None:
        own = folder / "calibration.tsv"
        write_file(own, found.calibration)
        machine = msgspec.structs.replace(machine, calibration=str(own))
    try:
        if not Path(str(found.service.folder)).is_dir():
            raise TlbcostError(f"the worker's host has no folder {found.service.folder}")
        task = task_here(found.service, found.machine_name, machine)
        result = run_task(task, folder, stop)
    except TlbcostError as error:
        return failed(found.service.name, found.machine_name, found.plan, str(error))
    # What repeats it has the plan's file, since ours is gone by then.
    command = tuple(str(theirs) if word == machine.calibration else word for word in result.command)
    return msgspec.structs.replace(result, plan=found.plan, command=command)


def failed(service: str, machine: str, plan: str, why: str, seconds: float = 0.0) -> TaskResult:
    return TaskResult(
        service=service, machine=machine, plan=plan, date=now(), seconds=seconds, command=(),
        failure=why,
    )  # fmt: skip
