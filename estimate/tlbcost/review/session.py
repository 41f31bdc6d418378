# SPDX-License-Identifier: GPL-2.0-or-later
"""In which order is a plan's work done, and what is seen of it while it is?"""

from __future__ import annotations

import contextlib
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from tlbcost.common.cleanup import temporary_folder
from tlbcost.common.progress import is_quiet, say
from tlbcost.report.lines import visible
from tlbcost.review.state import state_in
from tlbcost.review.task import Task, TaskResult, run_task

_Step = Callable[[Task | None], None]


def run_review(tasks: Sequence[Task], folder: Path, *, resume: bool) -> list[TaskResult]:
    """Do what is not done yet; one result for each task. Raises TlbcostError."""
    with state_in(folder, resume=resume) as state:
        found = [state.finished(task) for task in tasks] if resume else [None] * len(tasks)
        results: list[TaskResult] = []
        done = sum(each is not None for each in found)
        if done:
            say(f"{done} of {len(tasks)} were finished before")
        with _progress(len(tasks), done) as step:
            for task, before in zip(tasks, found, strict=True):
                if before is not None:
                    results.append(before)
                    continue
                step(task)
                with temporary_folder() as own:
                    result = run_task(task, own)
                state.keep(task, result)
                results.append(result)
                step(None)
    return results


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
