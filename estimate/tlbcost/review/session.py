# SPDX-License-Identifier: GPL-2.0-or-later
"""The work of a plan in its order, its progress, and the state folder."""

from __future__ import annotations

import contextlib
import fcntl
import hashlib
import itertools
import os
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

import msgspec

from tlbcost.common.document import from_json, to_json
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError, hint_for
from tlbcost.common.files import lock_file, temporary_folder
from tlbcost.common.output import write_file
from tlbcost.common.progress import is_quiet, say
from tlbcost.report.lines import visible
from tlbcost.review.execution import run_task
from tlbcost.review.task import Task, TaskResult

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
        results = _finished(state, tasks) if resume else {}
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


def _finished(state: State, tasks: Sequence[Task]) -> dict[tuple[str, str], TaskResult]:
    found = ((task, state.finished(task)) for task in tasks)
    return {_name(task): result for task, result in found if result is not None}


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
        yield _lines(total, done)
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


def _lines(total: int, done: int) -> _Step:
    begun = done

    def step(task: Task | None) -> None:
        nonlocal begun
        if task is not None:
            begun += 1
            say(f"{begun} of {total}: {_words(task)}")

    return step


def _words(task: Task) -> str:
    return f"{visible(task.service.name)[:60]} on {visible(task.machine_name)[:40]}"


class State:
    """The folder of one review."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder

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
