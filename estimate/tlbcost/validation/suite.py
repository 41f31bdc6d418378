# SPDX-License-Identifier: GPL-2.0-or-later
"""How are programs predicted on base pages, and then tried on huge ones?"""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tlbcost.accuracy.checks import Program, prediction_of
from tlbcost.answer.estimate import estimate
from tlbcost.answer.request import EstimateRequest
from tlbcost.common import formats, paths
from tlbcost.common.cleanup import temporary_folder
from tlbcost.common.errors import CANNOT_MEASURE, NOT_FOUND, USAGE, TlbcostError
from tlbcost.common.table import read_table
from tlbcost.run.launch import Launcher
from tlbcost.run.outcome import Outcome
from tlbcost.run.program import resolve
from tlbcost.run.stdin import ProgramInput
from tlbcost.settings.change import system_settings
from tlbcost.system import hints, hugetlb
from tlbcost.system.sudo import calling_user
from tlbcost.trial import catalog
from tlbcost.trial.comparison import Trial
from tlbcost.trial.method import Method, base_environment
from tlbcost.trial.record import program_of
from tlbcost.trial.runs import run_trial

# The shell opens the file, and is gone before the program begins.
_TO_FILE = ("sh", "-c", 'exec "$@" >"$0"')


@dataclass(frozen=True, slots=True)
class Task:
    """One program of a suite: what it is called, its command, and how it gets huge pages."""

    name: str
    argv: tuple[str, ...]
    method: str


@dataclass(slots=True)
class Listener(Launcher):
    """Launches as its base does, and keeps what the programs print instead of showing it.

    `heard`: for each run the command, and its standard output.
    """

    heard: list[tuple[tuple[str, ...], str]] = field(default_factory=list, init=False)

    def execute(
        self,
        argv: Sequence[str],
        *,
        discard: bool,
        **options: Any,  # noqa: ANN401
    ) -> Outcome:
        """See Launcher.execute."""
        file = self.folder / f"heard{self.runs + 1}"
        # No super(): the decorator makes another class, the one that has the slots.
        outcome = Launcher.execute(self, [*_TO_FILE, str(file), *argv], discard=discard, **options)
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        self.heard.append((tuple(argv), text))
        return outcome


@contextlib.contextmanager
def listener() -> Iterator[Listener]:
    """A launcher with a folder of its own, for the user who called sudo where one did."""
    with temporary_folder() as folder, contextlib.closing(ProgramInput()) as stdin:
        # An estimate, too, is of the program on base pages.
        launcher = Listener(folder, stdin, calling_user(), transparent=False)
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        yield launcher


def read_suite(only: Sequence[str] = ()) -> list[Task]:
    """The programs of data/suite.tsv; with `only`, those of these names.

    Raises TlbcostError: 2 for an unknown name.
    """
    file = paths.data("suite.tsv")
    table = read_table(file, formats.SUITE)
    tasks = [
        Task(row["name"] or "", command_of(table.key(f"command_{row['program']}")),
             row["method"] or "")
        for row in table.records()
    ]  # fmt: skip
    known = [task.name for task in tasks]
    for name in only:
        if name not in known:
            raise TlbcostError(
                f"the suite has no program {name}", f"--only with some of {', '.join(known)}", USAGE
            )
    return [task for task in tasks if not only or task.name in only]


def command_of(text: str) -> tuple[str, ...]:
    """The words of a command, with what its placeholders stand for here."""
    places = {"{workloads}": str(paths.workloads()), "{python}": sys.executable}
    words = shlex.split(text)
    for place, here in places.items():
        words = [word.replace(place, here) for word in words]
    return tuple(words)


def check_there(argv: Sequence[str]) -> None:
    """Refuse a command, perhaps behind env(1), whose program or input is not on this system.

    Raises TlbcostError with exit code 127; what it says is enough without the hint.
    """
    name = next((word for word in argv if word != "env" and "=" not in word), argv[0])
    if "/" not in name and shutil.which(name) is None:
        installs = "scripts/install-deps --accuracy"
        raise TlbcostError(f"{name} is not installed ({installs})", installs, NOT_FOUND)
    inputs = paths.workloads() / "inputs"
    for word in argv:
        if Path(word).parent == inputs and not Path(word).exists():
            made = "make accuracy-inputs"
            raise TlbcostError(f"inputs/{Path(word).name} is not made ({made})", made, NOT_FOUND)


def ask_for_no_huge_pages(announce: Callable[[str], None]) -> None:
    """Take what asks for huge pages out of our environment: estimates are of base pages, too."""
    environment, notes = base_environment()
    for note in notes:
        announce(note)
    os.environ.clear()
    os.environ.update(environment)


def check_rights(names: Sequence[str], command: str) -> None:
    """Refuse what would fail for want of rights, before it takes time.

    Raises TlbcostError with exit code 4; the hint has `command`.
    """
    if hints.is_root():
        return
    for name in dict.fromkeys(names):
        method = catalog.named(name)
        pool = method.pool_bytes
        if method.needs_root or (pool is not None and not hugetlb.free_pages(pool)):
            raise TlbcostError(
                f"{name} needs huge pages that are reserved first, or other settings of the "
                "system, which root alone can change",
                hints.as_root(command),
                CANNOT_MEASURE,
            )


def validate(
    task: Task, pairs: int, announce: Callable[[str], None], *, recalibrate: bool = False
) -> Program:
    """Predict and try one program; what goes wrong with it becomes the reason to leave it out.

    With `recalibrate` this machine's costs are measured again first.
    """
    try:
        with listener() as launcher:
            return predict_and_try(launcher, task, pairs, announce, recalibrate=recalibrate)
    except TlbcostError as error:
        announce(f"{task.name}: {error}")
        return Program(task.name, _command(task), task.method, None, (), str(error))


def predict_and_try(
    launcher: Listener,
    task: Task,
    pairs: int,
    announce: Callable[[str], None],
    *,
    recalibrate: bool = False,
) -> Program:
    """Predict and try one program; `launcher.heard` are then the runs of the trial.

    The system's settings are put back at the end. Raises TlbcostError with the program's own exit
    code if it failed.
    """
    check_there(task.argv)
    path = resolve(task.argv[0])
    method = catalog.named(task.method)
    announce(f"{task.name}: estimating")
    request = EstimateRequest(argv=task.argv, recalibrate=recalibrate)
    prediction = prediction_of(estimate(request, launcher).gain)
    announce(f"{task.name}: {pairs} pairs of runs on base pages and with {task.method}")
    launcher.heard.clear()
    trial = _tried(launcher, task, path, method, pairs, announce)
    found = program_of(trial, task.argv, prediction)
    return replace(found, name=task.name, command=_command(task))


def _tried(
    launcher: Launcher,
    task: Task,
    path: Path,
    method: Method,
    pairs: int,
    announce: Callable[[str], None],
) -> Trial:
    if not hints.is_root():
        return run_trial(launcher, task.argv, path, method, pairs, None)
    with system_settings(announce) as settings:
        return run_trial(launcher, task.argv, path, method, pairs, settings)


def _command(task: Task) -> str:
    """For a record, which is read elsewhere, where the folders of this system mean nothing."""
    command = shlex.join(word.replace(f"{paths.workloads()}/", "") for word in task.argv)
    return command.replace(sys.executable, "python3")
