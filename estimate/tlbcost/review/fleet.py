# SPDX-License-Identifier: GPL-2.0-or-later
"""Distribution of a review's tasks to workers that may die, hang or refuse.

One task at a time runs on a host, whatever number of workers it has. A task whose worker is lost is
tried elsewhere, a few times; what no worker can do is a failure with its reason.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

from tlbcost.common.progress import duration, say
from tlbcost.common.reading import read_text
from tlbcost.report.lines import visible
from tlbcost.review.cluster import Seen
from tlbcost.review.errand import Reply, failed
from tlbcost.review.task import Task, TaskResult

Begin = Callable[[Task], None]

_TRIES = 3
_POLL_S = 0.2


class Attempt(Protocol):
    """A task that was given to a worker."""

    def outcome(self) -> Reply | Literal["lost"] | None:
        """What the worker answered; lost: it will not; None: not yet."""

    def release(self) -> None:
        """It is not wanted any more."""


class Workers(Protocol):
    """A cluster's workers, or a test's."""

    def workers(self) -> Mapping[str, Seen]:
        """Those that are there, by address."""

    def start(self, task: Task, calibration: str | None, address: str) -> Attempt:
        """Ask this worker alone."""


@dataclass(slots=True, eq=False)
class _Job:
    """A task that has no result yet. `since`: since when no worker could run it."""

    task: Task
    calibration: str | None
    asked_s: float
    begun: bool = False
    tries: int = 0
    avoided: list[str] = field(default_factory=list)
    last: str = ""
    since: float | None = None


class Fleet:
    """Gives tasks to workers. `patience_s`: for one that is silent, or is not there."""

    def __init__(
        self,
        cluster: Workers,
        patience_s: float,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._cluster = cluster
        self._patience_s = patience_s
        self._clock = clock
        self._sleep = sleep
        self._pulses: dict[str, tuple[float, float]] = {}
        # By worker and machine.
        self._refused: dict[tuple[str, str], str] = {}
        self._running: dict[str, tuple[_Job, Attempt]] = {}

    def run(self, tasks: Sequence[Task], begin: Begin) -> Iterator[TaskResult]:
        """The results as they come. Raises TlbcostError: the scheduler went away."""
        texts = {
            file: read_text(Path(file))
            for file in {task.machine.calibration for task in tasks}
            if file is not None
        }
        now = self._clock()
        waiting = [_Job(t, texts.get(t.machine.calibration or ""), now) for t in tasks]
        while waiting or self._running:
            present = self._cluster.workers()
            alive = self._alive(present)
            for address in list(self._running):
                yield from self._collect(address, present, alive, waiting)
            self._assign(waiting, alive, begin)
            yield from self._give_up(waiting, alive)
            if waiting or self._running:
                self._sleep(_POLL_S)

    def _alive(self, present: Mapping[str, Seen]) -> dict[str, Seen]:
        """Those that gave a sign of life lately, by our clock: the hosts' may differ."""
        now = self._clock()
        for address, seen in present.items():
            if self._pulses.get(address, (None, 0.0))[0] != seen.pulse:
                self._pulses[address] = seen.pulse, now
        return {
            address: seen
            for address, seen in present.items()
            if now - self._pulses[address][1] <= self._patience_s
        }

    def _collect(
        self,
        address: str,
        present: Mapping[str, Seen],
        alive: Mapping[str, Seen],
        waiting: list[_Job],
    ) -> Iterator[TaskResult]:
        job, attempt = self._running[address]
        found = attempt.outcome()
        if found is None and address in alive:
            return
        del self._running[address]
        attempt.release()
        if isinstance(found, Reply) and found.result is not None:
            yield found.result
        elif isinstance(found, Reply):
            self._refuse(address, job, str(found.refusal))
            waiting.insert(0, job)
        else:
            silent = address in present and found is None
            why = f"silent for {duration(self._patience_s)}" if silent else "it went away"
            yield from self._lose(address, job, why, waiting)

    def _refuse(self, address: str, job: _Job, why: str) -> None:
        self._refused[address, job.task.machine_name] = why
        say(f"{address} does not fit {visible(job.task.machine_name)}: {visible(why)}")

    def _lose(self, address: str, job: _Job, why: str, waiting: list[_Job]) -> Iterator[TaskResult]:
        job.tries += 1
        job.avoided.append(address)
        job.last = f"lost its worker {address}: {why}"
        name = visible(f"{job.task.service.name} on {job.task.machine_name}")
        if job.tries == _TRIES:
            yield self._failure(job, f"{job.last}; tried {job.tries} times")
        else:
            say(f"{name} {job.last}; it is tried again")
            waiting.insert(0, job)

    def _fitting(self, job: _Job, alive: Mapping[str, Seen]) -> list[str]:
        """The workers that could run it; those that were lost with it only if no other can."""
        machine = job.task.machine_name
        fit = [
            address
            for address, seen in alive.items()
            if machine in seen.machines and (address, machine) not in self._refused
        ]
        return [address for address in fit if address not in job.avoided] or fit

    def _assign(self, waiting: list[_Job], alive: Mapping[str, Seen], begin: Begin) -> None:
        hosts = {alive[address].host for address in self._running if address in alive}
        for job in list(waiting):
            free = [a for a in self._fitting(job, alive) if alive[a].host not in hosts]
            if not free:
                continue
            waiting.remove(job)
            if not job.begun:
                begin(job.task)
                job.begun = True
            attempt = self._cluster.start(job.task, job.calibration, free[0])
            self._running[free[0]] = job, attempt
            hosts.add(alive[free[0]].host)

    def _give_up(self, waiting: list[_Job], alive: Mapping[str, Seen]) -> Iterator[TaskResult]:
        now = self._clock()
        for job in list(waiting):
            if self._fitting(job, alive):
                job.since = None
                continue
            job.since = now if job.since is None else job.since
            if now - job.since >= self._patience_s:
                waiting.remove(job)
                yield self._failure(job, self._nobody(job))

    def _nobody(self, job: _Job) -> str:
        machine = job.task.machine_name
        text = f"no worker for {machine} within {duration(self._patience_s)}"
        refused = [f"{a}: {why}" for (a, name), why in self._refused.items() if name == machine]
        return "; ".join([text, *refused, *([job.last] if job.last else [])])

    def _failure(self, job: _Job, why: str) -> TaskResult:
        task = job.task
        return failed(
            task.service.name, task.machine_name, task.plan, why, self._clock() - job.asked_s
        )
