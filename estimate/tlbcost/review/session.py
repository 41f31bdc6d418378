# SPDX-License-Identifier: GPL-2.0-or-later
"""The work of a plan in its order: its distribution to workers, its progress, the state folder.

One task at a time runs on a host, whatever number of workers it has. A task whose worker is lost is
tried elsewhere, a few times; what no worker can do is a failure with its reason.
"""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Literal, Protocol

import msgspec

from tlbcost.common.document import from_json, to_json
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError, hint_for
from tlbcost.common.files import lock_file, temporary_folder
from tlbcost.common.output import write_file
from tlbcost.common.progress import duration, is_quiet, say
from tlbcost.common.reading import read_text
from tlbcost.report.lines import visible
from tlbcost.review.task import Task, TaskResult, run_task
from tlbcost.review.worker import Reply, Seen, failed

_Step = Callable[[Task | None], None]
# Does tasks, and says which begins.
Runner = Callable[[Sequence[Task], _Step], Iterator[TaskResult]]
_LOCK = "lock"
_SUFFIX = ".task.json"


def run_review(
    tasks: Sequence[Task], folder: Path, *, resume: bool, fleet: Runner | None = None
) -> list[TaskResult]:
    """Do what is not done yet, `fleet` what depends on its workers. Raises TlbcostError."""
    with state_in(folder, resume=resume) as state:
        known = ((task, state.finished(task)) for task in tasks if resume)
        results = {_name(task): result for task, result in known if result is not None}
        done = len(results)
        if done:
            say(f"{done} of {len(tasks)} were finished before")
        left = {_name(task): task for task in tasks if _name(task) not in results}
        here = [task for task in left.values() if task.options is not None]
        away = [task for task in left.values() if task.options is None]
        with _progress(len(tasks), done) as step:
            doing = _run_here(here, step)
            if fleet is not None:
                doing = itertools.chain(doing, fleet(away, step))
            for result in doing:
                name = (result.service, result.machine)
                state.keep(left[name], result)
                results[name] = result
                step(None)
    return [results[_name(task)] for task in tasks]


def _run_here(tasks: Sequence[Task], step: _Step) -> Iterator[TaskResult]:
    for task in tasks:
        step(task)
        with temporary_folder() as own:
            result = run_task(task, own)
        yield result


def _name(task: Task) -> tuple[str, str]:
    return task.service.name, task.machine_name


@contextlib.contextmanager
def _progress(total: int, done: int) -> Iterator[_Step]:
    """A bar on a terminal; elsewhere a line for each that begins."""
    if is_quiet() or not sys.stderr.isatty():
        numbers = itertools.count(done + 1)

        def begin(task: Task | None) -> None:
            if task is not None:
                say(f"{next(numbers)} of {total}: {_words(task)}")

        yield begin
        return
    from rich.console import Console
    from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn
    from rich.progress import TimeRemainingColumn as Left

    columns = (BarColumn(), MofNCompleteColumn(), Left(), TextColumn("{task.description}"))
    console = Console(stderr=True, markup=False, highlight=False)
    with Progress(*columns, console=console, transient=True) as bar:
        number = bar.add_task("", total=total, completed=done)

        def step(task: Task | None) -> None:
            if task is None:
                bar.advance(number)
            else:
                bar.update(number, description=_words(task).replace("[", r"\["))

        yield step


def _words(task: Task) -> str:
    return f"{visible(task.service.name)[:60]} on {visible(task.machine_name)[:40]}"


@dataclass(frozen=True, slots=True)
class State:
    """The folder of one review."""

    folder: Path

    def finished(self, task: Task) -> TaskResult | None:
        """What an earlier review of the same plan found; None: nothing, or of another plan."""
        try:
            found = from_json(self._file(task).read_bytes(), TaskResult)
        except (OSError, msgspec.DecodeError):
            return None
        return found if found.plan == task.plan and found.failure is None else None

    def keep(self, task: Task, result: TaskResult) -> None:
        """Write it so that it is whole or not there. Raises TlbcostError."""
        try:
            write_file(self._file(task), to_json(result))
        except OSError as error:
            raise _refused(self.folder, error) from error

    def _file(self, task: Task) -> Path:
        # Names of services may hold anything.
        name = hashlib.sha256(f"{task.service.name}\0{task.machine_name}".encode()).hexdigest()
        return self.folder / f"{name[:32]}{_SUFFIX}"


@contextlib.contextmanager
def state_in(folder: Path, *, resume: bool) -> Iterator[State]:
    """The folder, ours alone. Raises TlbcostError: it is another's, or has results already."""
    try:
        folder.mkdir(parents=True, exist_ok=True)
        lock = lock_file(folder / _LOCK)
    except OSError as error:
        raise _refused(folder, error) from error
    try:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError as error:
            raise TlbcostError(
                f"{folder} is in use by another review", "--state with another folder", USAGE
            ) from error
        if not resume and any(folder.glob(f"*{_SUFFIX}")):
            raise TlbcostError(
                f"{folder} has results of an earlier review",
                "--resume to use them, or --state with another folder",
                USAGE,
            )
        for left in folder.glob(f".*{_SUFFIX}.*"):
            left.unlink(missing_ok=True)
        yield State(folder)
    finally:
        os.close(lock)


def _refused(folder: Path, error: OSError) -> TlbcostError:
    why = error.strerror or str(error)
    return TlbcostError(
        f"cannot save results in {folder}: {why}", hint_for(error.errno, folder), TOOL_FAILED
    )


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
            why = str(found.refusal)
            self._refused[address, job.task.machine_name] = why
            say(f"{address} does not fit {visible(job.task.machine_name)}: {visible(why)}")
            waiting.insert(0, job)
        else:
            silent = address in present and found is None
            why = f"silent for {duration(self._patience_s)}" if silent else "it went away"
            yield from self._lose(address, job, why, waiting)

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

    def _give_up(self, waiting: list[_Job], alive: Mapping[str, Seen]) -> Iterator[TaskResult]:
        now = self._clock()
        for job in list(waiting):
            if self._fitting(job, alive):
                job.since = None
                continue
            job.since = now if job.since is None else job.since
            if now - job.since >= self._patience_s:
                waiting.remove(job)
                machine = job.task.machine_name
                why = [f"no worker for {machine} within {duration(self._patience_s)}"]
                why += [f"{a}: {no}" for (a, name), no in self._refused.items() if name == machine]
                why += [job.last] if job.last else []
                yield self._failure(job, "; ".join(why))

    def _failure(self, job: _Job, why: str) -> TaskResult:
        task = job.task
        return failed(
            task.service.name, task.machine_name, task.plan, why, self._clock() - job.asked_s
        )
