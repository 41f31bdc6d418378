# SPDX-License-Identifier: GPL-2.0-or-later
"""In which order is a plan's work done, and what is seen of it while it is?"""

from __future__ import annotations

import contextlib
import itertools
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tlbcost.common.progress import is_quiet, say
from tlbcost.common.temporary import temporary_folder
from tlbcost.report.lines import visible
from tlbcost.review.execution import run_task
from tlbcost.review.state import State, state_in
from tlbcost.review.task import Task, TaskResult

_Step = Callable[[Task | None], None]
# Does tasks, and says which begins.
Runner = Callable[[Sequence[Task], _Step], Iterator[TaskResult]]


def run_review(
    tasks: Sequence[Task], folder: Path, *, resume: bool, fleet: Runner | None = None
) -> list[TaskResult]:
    """Do what is not done yet; one result for each task. Raises TlbcostError.

    `fleet` does those that depend on their workers.
    """
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
