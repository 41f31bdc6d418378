# SPDX-License-Identifier: GPL-2.0-or-later
"""A host's offer to reviews: a Dask worker of one thread, its orders and replies.

An estimate ends when the review does not want it any more, and when the worker ends.

Both are JSON: of a worker of another version its version can be read, whatever else has changed.
"""

from __future__ import annotations

import asyncio
import contextlib
import signal
import threading
import uuid
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import msgspec

from tlbcost.calibration.file import parse_calibration
from tlbcost.common.document import Part, doc, now, part_of, to_json
from tlbcost.common.errors import FAILED, SIGNAL_BASE, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.output import write_file
from tlbcost.common.paths import version
from tlbcost.common.progress import say
from tlbcost.report.lines import visible
from tlbcost.review.plan import MachineType, Service
from tlbcost.review.scheduler import (
    CONNECT_S,
    Scheduler,
    check_closed,
    check_reachable,
    load_dask,
    security_of,
    unreachable,
)
from tlbcost.review.task import Interrupted, Task, TaskResult, is_here, run_task, task_here
from tlbcost.system.machine import Machine, current_machine

if TYPE_CHECKING:
    from distributed import Client, Future, Worker, WorkerPlugin


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
    asked = part_of(Order, task, version=version(), key=key, calibration=calibration)
    return to_json(asked).encode()


def fill(words: bytes) -> bytes:
    """Reply to an order, on a worker. Raises Interrupted if it is to be tried elsewhere."""
    found: Order | None = None
    asker = msgspec.json.decode(words, type=_Asker)
    refusal: str | None = f"it has tlbcost {version()}, and the review {asker.version}"
    if asker.version == version():
        found = msgspec.json.decode(words, type=Order)
        refusal = _misfit(found)
    if refusal is not None or found is None:
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


_SIGNALS = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
# What an estimate has to put things back before the worker ends.
_CLOSE_S = 60
_RESOURCE = "tlbcost:"


@dataclass(frozen=True, slots=True)
class Offer:
    """A host: the types that it is one of, and where it listens; None: towards the scheduler."""

    machines: Sequence[str]
    host: str | None = None
    port: int = 0


def resource(machine: str) -> str:
    """What a task for this type of host needs of a worker, and takes."""
    return f"{_RESOURCE}{machine}"


def offered(resources: Sequence[str]) -> frozenset[str]:
    own = (name for name in resources if name.startswith(_RESOURCE))
    return frozenset(name.removeprefix(_RESOURCE) for name in own)


def _ender() -> WorkerPlugin:
    """Dask's threads run on, whoever has gone away: this ends what they run."""
    from distributed import WorkerPlugin

    class Ender(WorkerPlugin):
        def transition(self, key: object, start: str, finish: str, **_: object) -> None:
            if start == "executing" and finish == "released":
                WANTED.stop(str(key))

        def teardown(self, worker: Worker) -> None:  # noqa: ARG002
            WANTED.close()

    return Ender()


def work(scheduler: Scheduler, offer: Offer) -> int:
    check_closed(scheduler, offer.host)
    load_dask()
    return asyncio.run(_work(scheduler, offer))


async def _work(scheduler: Scheduler, offer: Offer) -> int:
    loop = asyncio.get_running_loop()
    stopped: asyncio.Future[int] = loop.create_future()

    def stop(number: int) -> None:
        if not stopped.done():
            stopped.set_result(number)

    for number in _SIGNALS:
        if signal.getsignal(number) != signal.SIG_IGN:
            loop.add_signal_handler(number, stop, number)
    with temporary_folder() as folder:
        worker = _worker(scheduler, offer, str(folder))
        begin = asyncio.ensure_future(worker.start())
        await asyncio.wait({begin, stopped}, return_when=asyncio.FIRST_COMPLETED)
        try:
            if not stopped.done():
                error = begin.exception()
                if isinstance(error, OSError) and offer.port:
                    raise TlbcostError(f"cannot listen on port {offer.port}: {error}") from error
                if error is not None:
                    raise unreachable(scheduler, error) from error
                say(f"{worker.address} waits for tasks for {', '.join(offer.machines)}")
                end = asyncio.ensure_future(worker.finished())
                await asyncio.wait({end, stopped}, return_when=asyncio.FIRST_COMPLETED)
        finally:
            begin.cancel()
            await worker.close(timeout=_CLOSE_S, nanny=False)
    if not stopped.done():
        raise TlbcostError(f"lost the scheduler {scheduler.address}", None, FAILED)
    say(f"ended by {signal.Signals(stopped.result()).name}")
    return SIGNAL_BASE + stopped.result()


def _worker(scheduler: Scheduler, offer: Offer, folder: str) -> Worker:
    from distributed import Worker

    security = security_of(scheduler)
    own = check_reachable(scheduler)
    return Worker(
        scheduler.address,
        nthreads=1,
        resources={resource(name): 1 for name in offer.machines},
        plugins=(_ender(),),
        security=security,
        protocol=scheduler.protocol,
        host=offer.host or own,
        port=offer.port,
        dashboard_address="127.0.0.1:0",
        local_directory=folder,
        memory_limit=0,
        death_timeout=CONNECT_S,
    )


_ANSWER_S = 60
# A future that no worker can finish any more.
_GONE = ("cancelled", "lost")
# Dask's errors of workers that died.
_LOST = ("FutureCancelledError", "KilledWorker")


@dataclass(frozen=True, slots=True)
class Seen:
    """One worker. `pulse` changes with each sign of life."""

    machines: frozenset[str]
    host: str
    pulse: float


class GivenTask:
    """A task that was given to a worker. `plan`: its hash."""

    def __init__(self, future: Future[bytes], plan: str) -> None:
        self._future = future
        self._plan = plan

    def release(self) -> None:
        self._future.release()

    def outcome(self) -> Reply | Literal["lost"] | None:
        if not self._future.done():
            return None
        if self._future.status in _GONE:
            return "lost"
        try:
            answer = self._future.result(timeout=CONNECT_S)
            reply = msgspec.json.decode(answer, type=Reply)
        except (Interrupted, OSError, TimeoutError):
            return "lost"
        except Exception as error:
            # What ends up here is Dask's, or of a worker that is not ours.
            if type(error).__name__ in _LOST:
                return "lost"
            text = " ".join(str(error).split()) or type(error).__name__
            return Reply(refusal=f"it cannot do tasks of this version: {text}")
        if reply.result is not None and reply.result.plan != self._plan:
            return Reply(refusal="it answered what was not asked")
        return reply


class Cluster:
    def __init__(self, client: Client, scheduler: Scheduler) -> None:
        self._client = client
        self._scheduler = scheduler

    def workers(self) -> dict[str, Seen]:
        """Those that are there, by address. Raises TlbcostError: the scheduler went away."""
        try:
            # A synchronous call that returns in any case, if the scheduler hangs, too.
            found: Any = self._client.sync(self._identity, callback_timeout=_ANSWER_S)
        except (OSError, TimeoutError) as error:
            raise TlbcostError(
                f"lost the scheduler {self._scheduler.address}",
                "--resume uses what is finished, once it is there again",
                FAILED,
            ) from error
        return {
            address: Seen(offered(list(each["resources"])), each["host"], each["last_seen"])
            for address, each in found["workers"].items()
            if each["status"] == "running"
        }

    async def _identity(self) -> object:
        scheduler: Any = self._client.scheduler
        return await scheduler.identity(n_workers=-1)

    def start(self, task: Task, calibration: str | None, address: str) -> GivenTask:
        key = f"tlbcost-{uuid.uuid4()}"
        future = self._client.submit(
            fill,
            order(task, calibration, key),
            key=key,
            pure=False,
            retries=0,
            workers=[address],
            allow_other_workers=False,
            resources={resource(task.machine_name): 1},
        )
        return GivenTask(future, task.plan)


@contextlib.contextmanager
def connected(scheduler: Scheduler) -> Iterator[Cluster]:
    """The cluster; at the end nothing of ours runs on it. Raises TlbcostError: it is not there."""
    check_closed(scheduler)
    load_dask()
    security = security_of(scheduler)
    check_reachable(scheduler)
    from distributed import Client

    try:
        client: Client = Client(
            scheduler.address,
            security=security,
            timeout=CONNECT_S,
            name="tlbcost-review",
            set_as_default=False,
        )
    except (OSError, TimeoutError) as error:
        raise unreachable(scheduler, error) from error
    try:
        yield Cluster(client, scheduler)
    finally:
        # The scheduler then has the workers end what no task needs any more.
        client.close(timeout=CONNECT_S)
