# SPDX-License-Identifier: GPL-2.0-or-later
"""STREAM and other programs, predicted on base pages, and then run on huge ones."""

from __future__ import annotations

import contextlib
import re
import shlex
import shutil
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, TextIO

from tlbcost.accuracy.record import (
    CheckedPrediction,
    PairedRun,
    Record,
    TriedProgram,
    check_of,
    covered_fraction,
    format_record,
    prediction_of,
    save_record,
)
from tlbcost.accuracy.report import points
from tlbcost.answer.estimate import estimate
from tlbcost.answer.request import AskedEngine, EstimateRequest
from tlbcost.common import formats, paths, units
from tlbcost.common.cleanup import TimeLimitPassed
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.document import now
from tlbcost.common.errors import CANNOT_MEASURE, NOT_FOUND, USAGE, TlbcostError
from tlbcost.common.formats import read_table
from tlbcost.common.names import program_only
from tlbcost.common.output import write
from tlbcost.common.paths import version
from tlbcost.common.units import Interval
from tlbcost.measured import catalog
from tlbcost.measured.method import drop_huge_page_requests
from tlbcost.run.launch import Listener, listener, resolve
from tlbcost.settings.change import system_settings
from tlbcost.settings.journal import Announce
from tlbcost.system import hints, huge_pages
from tlbcost.system.machine import current_machine
from tlbcost.trial.session import program_of, run_trial

if TYPE_CHECKING:
    from rich.console import Console
    from rich.table import Table


@dataclass(frozen=True, slots=True)
class SuiteRequest:
    """The suite's programs, or those named in `only`, with this number of pairs of runs.

    `within`: more pairs until the gain is known to this share of the run time. `recalibrate`:
    before each program. `engine`: what simulates for the estimates; `measured`: these measure, too.
    `turns`: see run_trial(); then nothing of the trial is heard. `table`: the file to write the
    record to after each program. `redacted`: without arguments of programs.
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
            why = "reserved huge pages, or other settings of the system, which only root can change"
            raise TlbcostError(f"{name} needs {why}", hints.as_root(command), CANNOT_MEASURE)


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
    again, measured = request.recalibrate, request.measured
    asked = EstimateRequest(task.argv, recalibrate=again, engine=request.engine, measured=measured)
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
    tasks = []
    for row in table.records():
        argv = command_of(table.key(f"command_{row['program']}"))
        tasks.append(SuiteTask(row["name"] or "", argv, row["method"] or ""))
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
    """Raise TlbcostError with exit code 127 if the program of the command is missing."""
    name = next((word for word in argv if word != "env" and "=" not in word), argv[0])
    if "/" not in name and shutil.which(name) is None:
        raise TlbcostError(f"{name} is not installed", None, NOT_FOUND)


def portable_command(task: SuiteTask) -> str:
    """For a record that is read elsewhere, where this system's folders mean nothing."""
    command = shlex.join(word.replace(f"{paths.workloads()}/", "") for word in task.argv)
    return command.replace(sys.executable, "python3")


_ROW = re.compile(r"^(Copy|Scale|Add|Triad):\s+(\d+(?:\.\d+)?)\s", re.MULTILINE)


@dataclass(frozen=True, slots=True)
class Rates:
    """MB/s of one function (10^6 bytes), medians over the runs; None: no run printed it."""

    function: str
    base: float | None
    huge: float | None


@dataclass(frozen=True, slots=True)
class StreamResult:
    """One variant of STREAM: `words` say which; `program` has its prediction and runs."""

    words: str
    program: TriedProgram
    rates: tuple[Rates, ...]


@dataclass(frozen=True, slots=True)
class StreamRequest:
    """STREAM with arrays of `size` bytes, in its notation (None: 1G), and these options."""

    size: str | None = None
    options: tuple[str, ...] = ()
    pairs: int = 5


def rates_in(text: str) -> dict[str, float]:
    return {name: float(rate) for name, rate in _ROW.findall(text)}


def rates_heard(argv: Sequence[str], heard: Sequence[tuple[tuple[str, ...], str]]) -> list[Rates]:
    base = [rates_in(text) for command, text in heard if command == tuple(argv)]
    huge = [rates_in(text) for command, text in heard if command != tuple(argv)]

    def middle(runs: list[dict[str, float]], name: str) -> float | None:
        known = [rates[name] for rates in runs if name in rates]
        return median(known) if known else None

    return [
        Rates(name, middle(base, name), middle(huge, name))
        for name in ("Copy", "Scale", "Add", "Triad")
    ]


def variants(size: str | None, options: Sequence[str]) -> tuple[list[tuple[str, SuiteTask]], str]:
    """Both ways to give STREAM huge pages, in words and as tasks; and why one is missing, if so.

    `size`: of the arrays; None: that of the static ones. Raises TlbcostError, 4, without any.
    """
    folder = paths.workloads()
    if not (folder / "stream").is_file():
        raise TlbcostError(
            f"STREAM is not built: no {folder / 'stream'}", hints.build("workloads"), CANNOT_MEASURE
        )
    argv = (str(folder / "stream"), *(() if size is None else ("--size", size)), *options)
    heap = SuiteTask("stream", argv, "hugectl --heap")
    found = [("STREAM, arrays from malloc, hugectl --heap", heap)]
    if size is not None:
        return found, "static arrays have a fixed size, and are left out with --size"
    if not (folder / "stream-static").is_file():
        return found, "no STREAM with static arrays: ld.hugetlbfs was not available to link it"
    argv = (str(folder / "stream-static"), *options)
    static = SuiteTask("stream-static", argv, "hugectl --bss --data")
    return [*found, ("STREAM, static arrays, hugectl --bss --data", static)], ""


def run_stream(request: StreamRequest, announce: Announce) -> Iterator[StreamResult]:
    """Predict and run each variant. Raises TlbcostError as `session.predict_and_try` does."""
    found, missing = variants(request.size, request.options)
    check_rights([task.method for _, task in found], "tlbcost validate --stream")
    if missing:
        announce(missing)
    drop_huge_page_requests(announce)
    asked = SuiteRequest(pairs=request.pairs, measured=False, turns=False)
    for words, task in found:
        with listener() as launcher:
            program = predict_and_try(launcher, task, asked, announce)
            rates = rates_heard(task.argv, launcher.heard)
        yield StreamResult(words, program, tuple(rates))


def print_stream(result: StreamResult, file: TextIO, *, details: bool) -> None:
    def fill(console: Console) -> None:
        program = result.program
        if program.excluded is not None:
            console.print(f"{result.words}: no result: {program.excluded}")
            return
        console.print(
            f"{result.words}: {len(program.pairs)} pairs of runs; "
            f"{units.percent(covered_fraction(program))} of the memory was on huge pages"
        )
        check = check_of(program)
        if check is None:
            console.print("Too few runs, or no prediction, to compare with.")
        else:
            section(console, _comparison(check))
        rows = table("", "base pages", "huge pages", "difference")
        for rate in result.rates:
            rates = _compared(rate.base, rate.huge, lambda rate: f"{rate:,.0f}")
            rows.add_row(f"{rate.function} (MB/s)", *rates)
        for name, of, shown in _LINES if details else ():
            base = median([of(pair.base) for pair in program.pairs])
            huge = median([of(pair.huge) for pair in program.pairs])
            rows.add_row(name, *_compared(base, huge, shown))
        section(console, rows)
        if details:
            console.print(
                "Shares of the base run time; errors in points. Rates are no times: what they "
                "gain is not what the run gains."
            )

    print_whole(fill, file)


_LINES: tuple[tuple[str, Callable[[PairedRun], int], Callable[[float], str]], ...] = (
    ("elapsed", lambda run: run.wall_ns, units.time),
    ("user", lambda run: run.user_ns, units.time),
    ("system", lambda run: run.system_ns, units.time),
    ("minor faults", lambda run: run.minor_faults, lambda faults: units.count(round(faults))),
)


def _compared(
    base: float | None, huge: float | None, shown: Callable[[float], str]
) -> tuple[str, str, str]:
    ratio = None if base is None or huge is None or base <= 0 else huge / base - 1
    difference = units.known(ratio, lambda ratio: f"{100 * ratio:+.1f} %")
    return units.known(base, shown), units.known(huge, shown), difference


def _comparison(check: CheckedPrediction) -> Table:
    said, gain = check.prediction, check.gain
    fault, total = said.fault_fraction, said.total_fraction
    rows = table("", "predicted", "", "measured", "", "error")

    def row(name: str, value: float | None, ends: Interval | None, found: Interval) -> None:
        rows.add_row(
            name,
            units.percent(value),
            units.range_of(ends) if ends else "",
            units.percent(found.value),
            units.range_of(found),
            units.known(value, lambda value: points(value - found.value)),
        )

    row("bound (user time)", said.bound_fraction, None, gain.user)
    row("expected (user time)", said.expected_fraction.value, said.expected_fraction, gain.user)
    row("page faults (system time)", fault, None, gain.system)
    row("both (elapsed)", total, None, gain.whole)
    return rows
