# SPDX-License-Identifier: GPL-2.0-or-later
"""Programs predicted on base pages, and then run on huge ones."""

from __future__ import annotations

import contextlib
import os
import shlex
import shutil
import sys
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

from tlbcost.accuracy.checks import Record, TriedProgram, prediction_of
from tlbcost.accuracy.record import format_record, save_record
from tlbcost.answer.estimate import estimate
from tlbcost.answer.request import AskedEngine, EstimateRequest
from tlbcost.common import formats, paths
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, NOT_FOUND, USAGE, TlbcostError
from tlbcost.common.files import temporary_folder
from tlbcost.common.formats import read_table
from tlbcost.common.names import program_only
from tlbcost.common.output import write
from tlbcost.common.paths import version
from tlbcost.common.sudo import calling_user
from tlbcost.measured import catalog
from tlbcost.measured.method import drop_huge_page_requests
from tlbcost.run.launch import Launcher, resolve
from tlbcost.run.outcome import Outcome
from tlbcost.run.stdin import ProgramInput
from tlbcost.settings.change import system_settings
from tlbcost.settings.journal import Announce
from tlbcost.system import hints, huge_pages
from tlbcost.system.machine import current_machine
from tlbcost.trial.session import program_of, run_trial

# The shell opens the file, and is replaced by the program.
_TO_FILE = ("sh", "-c", 'exec "$@" >"$0"')


@dataclass(slots=True)
class Listener(Launcher):
    """A launcher that keeps each run's command and standard output, and shows none."""

    heard: list[tuple[tuple[str, ...], str]] = field(default_factory=list, init=False)

    def execute(
        self,
        argv: Sequence[str],
        *,
        discard: bool,
        **options: Any,  # noqa: ANN401
    ) -> Outcome:
        file = self.folder / f"heard{self.runs + 1}"
        # No super(): the decorator makes another class, the one that has the slots.
        outcome = Launcher.execute(self, [*_TO_FILE, str(file), *argv], discard=discard, **options)
        text = file.read_text(encoding="utf-8", errors="replace") if file.exists() else ""
        self.heard.append((tuple(argv), text))
        return outcome


@contextlib.contextmanager
def listener() -> Iterator[Listener]:
    with temporary_folder() as folder, contextlib.closing(ProgramInput()) as stdin:
        # An estimate, too, is of the program on base pages.
        launcher = Listener(folder, stdin, calling_user(), transparent=False)
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)
        yield launcher


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """The suite's programs, or those named in `only`, with this number of pairs of runs.

    `within`: more pairs until the gain is known to this share of the run time. `recalibrate`: this
    machine's costs are measured again before each program. `engine`: what simulates for the
    estimates; `measured`: these measure, too. `turns`: see run_trial(); then nothing of the trial
    is heard. `table`: the file to write the record to after each program. `redacted`: without
    arguments of programs.
    """

    only: tuple[str, ...] = ()
    pairs: int = 5
    within: float | None = None
    recalibrate: bool = False
    engine: AskedEngine = "auto"
    measured: bool = True
    turns: bool = True
    table: Path | None = None
    redacted: bool = False


def validate_suite(request: SuiteRequest, announce: Announce) -> Record:
    """Predict and run each; keep the record of a whole suite. Raises TlbcostError (2, 4)."""
    tasks = read_suite(request.only)
    check_rights([task.method for task in tasks], "tlbcost validate")
    drop_huge_page_requests(announce)
    programs: list[TriedProgram] = []
    try:
        for n, task in enumerate(tasks, start=1):
            say = _numbered(n, len(tasks), announce)
            programs.append(validate(task, request, say))
            # After each program: what was measured is not lost if a later one is stopped.
            if request.table is not None:
                record = record_of_programs(programs, redacted=request.redacted)
                write(request.table, format_record(record))
    except TimeLimitPassed:
        if not programs:
            raise
        announce(f"the time limit passed: {len(programs)} of {len(tasks)} programs were run")
    record = record_of_programs(programs, redacted=request.redacted)
    whole = not request.only and len(programs) == len(tasks)
    unsaved = save_record(record) if whole else ""
    if unsaved:
        announce(unsaved)
    return record


def record_of_programs(programs: Sequence[TriedProgram], *, redacted: bool = False) -> Record:
    """A new record of this machine; `redacted`: without arguments of the programs."""
    if redacted:
        programs = [
            replace(each, command=" ".join(program_only(shlex.split(each.command))))
            for each in programs
        ]
    return Record(current_machine(), now(), version(), tuple(programs))


def _numbered(n: int, of: int, announce: Announce) -> Announce:
    return lambda text: announce(f"{n} of {of}: {text}")


def check_rights(names: Sequence[str], command: str) -> None:
    """Refuse at once what needs more privileges. Raises TlbcostError (4) that hints `command`."""
    if hints.is_root():
        return
    for name in dict.fromkeys(names):
        method = catalog.named(name)
        pool = method.pool_bytes
        if method.needs_root or (pool is not None and not huge_pages.free_pages(pool)):
            raise TlbcostError(
                f"{name} needs reserved huge pages, or other settings of the "
                "system, which only root can change",
                hints.as_root(command),
                CANNOT_MEASURE,
            )


def validate(task: SuiteTask, request: SuiteRequest, announce: Announce) -> TriedProgram:
    try:
        with listener() as launcher:
            return predict_and_try(launcher, task, request, announce)
    except TlbcostError as error:
        announce(f"{task.name}: {error}")
        return TriedProgram(task.name, portable_command(task), task.method, None, (), str(error))


def predict_and_try(
    launcher: Listener, task: SuiteTask, request: SuiteRequest, announce: Announce
) -> TriedProgram:
    """Predict and run one program, heard by `launcher`. Raises TlbcostError if it failed."""
    check_there(task.argv)
    path = resolve(task.argv[0])
    method = catalog.named(task.method)
    announce(f"{task.name}: estimating")
    asked = EstimateRequest(
        argv=task.argv,
        recalibrate=request.recalibrate,
        engine=request.engine,
        measured=request.measured,
    )
    found = estimate(asked, launcher)
    prediction = prediction_of(found.gain, found.given.measured or found.given.not_measured)
    announce(f"{task.name}: pairs of runs on base pages and with {task.method}")
    launcher.heard.clear()
    with contextlib.ExitStack() as stack:
        settings = stack.enter_context(system_settings(announce)) if hints.is_root() else None
        trial = run_trial(
            launcher, task.argv, path, method, request.pairs, settings,
            within=request.within, turns=request.turns,
        )  # fmt: skip
    program = program_of(trial, task.argv, prediction)
    return replace(program, name=task.name, command=portable_command(task))


@dataclass(frozen=True, slots=True)
class SuiteTask:
    """One program of a suite: its name, its command, and how it gets huge pages."""

    name: str
    argv: tuple[str, ...]
    method: str


def read_suite(only: Sequence[str] = ()) -> list[SuiteTask]:
    """Programs of data/suite.tsv, or those in `only`. Raises TlbcostError for unknown names."""
    file = paths.data("suite.tsv")
    table = read_table(file, formats.SUITE)
    tasks = [
        SuiteTask(row["name"] or "", command_of(table.key(f"command_{row['program']}")),
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
    places = {"{workloads}": str(paths.workloads()), "{python}": sys.executable}
    words = shlex.split(text)
    for place, here in places.items():
        words = [word.replace(place, here) for word in words]
    return tuple(words)


def check_there(argv: Sequence[str]) -> None:
    """Raise TlbcostError with exit code 127 if a program or input of the command is missing."""
    name = next((word for word in argv if word != "env" and "=" not in word), argv[0])
    if "/" not in name and shutil.which(name) is None:
        installs = "scripts/install-deps --accuracy"
        raise TlbcostError(f"{name} is not installed ({installs})", installs, NOT_FOUND)
    inputs = paths.workloads() / "inputs"
    for word in argv:
        if Path(word).parent == inputs and not Path(word).exists():
            made = "make accuracy-inputs"
            raise TlbcostError(f"inputs/{Path(word).name} is not made ({made})", made, NOT_FOUND)


def portable_command(task: SuiteTask) -> str:
    """For a record that is read elsewhere, where this system's folders mean nothing."""
    command = shlex.join(word.replace(f"{paths.workloads()}/", "") for word in task.argv)
    return command.replace(sys.executable, "python3")
