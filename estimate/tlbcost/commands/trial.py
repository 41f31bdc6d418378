# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost trial: how much faster is a program on huge pages, once it is proven to have them?"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import Stopped, signals_raise
from tlbcost.common.errors import CANNOT_MEASURE, SIGNAL_BASE, TOOL_FAILED, USAGE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.model.gain import PredictedGain
    from tlbcost.run.launch import Launcher
    from tlbcost.trial.comparison import ProgramTrials, Trial, Witnessed
    from tlbcost.trial.method import Method

_FEWEST_PAIRS, _MOST_PAIRS = 3, 1000
# For another tlbcost to put the settings back.
_WAIT_S = 60.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost trial [options] [--] COMMAND [ARG...]"
    parser.epilog = (
        "METHOD is auto, glibc-thp, glibc-hugetlb[=SIZE], thp, mthp-SIZE, hugetlb-1g, "
        "hugectl[:OPTIONS] or allocator=PATH: see tlbcost-trial(1). Exit codes: 0 huge pages were "
        "proven, 2 usage, 4 they were not or cannot be had here, 125 tlbcost failed, 126 or 127 "
        "COMMAND could not be started; a COMMAND that fails gives its own code, or 128 + its "
        "signal."
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the trials for programs to this file"
    )
    parser.add_argument(
        "--no-estimate", action="store_true", help="measure only; predict nothing beside it"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the report to this file, not stderr"
    )
    parser.add_argument(
        "--pairs", metavar="N", type=_pairs, default=5,
        help="run COMMAND N times on base and N times on huge pages (default: 5)",
    )  # fmt: skip
    parser.add_argument(
        "--prepare", metavar="CMD", help="run this shell command before each run of COMMAND"
    )
    parser.add_argument(
        "--table", metavar="FILE", type=Path, help="write the pairs of runs as a table"
    )
    parser.add_argument(
        "--with", metavar="METHOD", dest="methods", action="append", default=[],
        help="how to give it huge pages; can be given several times (default: auto)",
    )  # fmt: skip
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Try; returns the exit code, raises TlbcostError."""
    try:
        with signals_raise():
            return _try(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number


def _pairs(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not _FEWEST_PAIRS <= int(text) <= _MOST_PAIRS:
        raise argparse.ArgumentTypeError(
            f"not a number from {_FEWEST_PAIRS} to {_MOST_PAIRS}: {text}"
        )
    return int(text)


def _try(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_writable
    from tlbcost.run.launch import launcher_of
    from tlbcost.run.program import resolve
    from tlbcost.trial import catalog
    from tlbcost.trial.method import base_environment
    from tlbcost.trial.runs import first_run

    argv: list[str] = arguments.program
    if argv[:1] == ["--"]:
        argv = argv[1:]
    if not argv:
        raise TlbcostError("no program to try", "tlbcost trial -- ./app ARG...", USAGE)
    for file in (arguments.json, arguments.output, arguments.table):
        if file is not None:
            check_writable(file, TOOL_FAILED)
    # Whatever can be refused is refused before anything takes time.
    asked = [None if name == "auto" else catalog.named(name) for name in arguments.methods]
    for method in asked:
        if method is not None:
            method.check()
    path = resolve(argv[0])
    environment, notes = base_environment()
    for note in notes:
        _announce(note)
    # The estimate, too, is of the program on base pages.
    os.environ.clear()
    os.environ.update(environment)
    with launcher_of(arguments.prepare) as launcher:
        estimate, no_estimate = _estimate(arguments, launcher, argv)
        first = first_run(launcher, argv, path)
        trials = []
        for method in asked or [None]:
            chosen = method or _auto(first)
            trials.append(_trial(launcher, argv, path, chosen, arguments.pairs, first))
    _print(arguments, _tried(argv, trials, estimate, no_estimate, notes))
    return 0 if any(trial.proven for trial in trials) else CANNOT_MEASURE


def _announce(text: str) -> None:
    print(f"tlbcost: {text}", file=sys.stderr, flush=True)


def _auto(first: Witnessed) -> Method:
    from tlbcost.trial.catalog import auto

    method, why = auto(first.sized_run)
    _announce(f"trying {method.name}: {why}")
    return method


def _trial(
    launcher: Launcher, argv: list[str], path: Path, method: Method, pairs: int, first: Witnessed
) -> Trial:
    """One method's trial; the system's settings are put back after it."""
    from tlbcost.trial.runs import run_trial

    with contextlib.ExitStack() as stack:
        settings = None
        if method.changes_settings and os.geteuid() == 0:
            from tlbcost.settings.change import system_settings

            settings = stack.enter_context(system_settings(_announce))
        else:
            from tlbcost.settings.journal import undisturbed

            # What another tlbcost changes during the runs, such as THP's mode, would be measured.
            stack.enter_context(undisturbed(_announce, _WAIT_S))
        return run_trial(launcher, argv, path, method, pairs, settings, first=first)


def _estimate(
    arguments: argparse.Namespace, launcher: Launcher, argv: list[str]
) -> tuple[PredictedGain | None, str | None]:
    """What `tlbcost estimate` says of the program, or why it says nothing."""
    if arguments.no_estimate:
        return None, "not asked for"
    from tlbcost.answer.estimate import estimate
    from tlbcost.answer.request import EstimateRequest

    request = EstimateRequest(argv=tuple(argv), prepare=arguments.prepare)
    launcher.transparent = False
    try:
        return estimate(request, launcher).gain, None
    except TlbcostError as error:
        if error.exit_code not in (CANNOT_MEASURE, TOOL_FAILED):
            raise
        _announce(f"there will be no estimate beside the trial: {error}")
        return None, str(error)


def _tried(
    argv: list[str],
    trials: list[Trial],
    estimate: PredictedGain | None,
    no_estimate: str | None,
    notes: tuple[str, ...],
) -> ProgramTrials:
    import datetime

    from tlbcost.common.paths import version
    from tlbcost.system.machine import current_machine, huge_page_bytes
    from tlbcost.trial.comparison import ProgramTrials

    return ProgramTrials(
        version=version(),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=current_machine(),
        argv=tuple(argv),
        trials=tuple(trials),
        estimate=estimate,
        huge_page_bytes=huge_page_bytes(),
        no_estimate=no_estimate,
        notes=notes,
    )


def _print(arguments: argparse.Namespace, found: ProgramTrials) -> None:
    from tlbcost.common.document import to_json
    from tlbcost.common.output import write
    from tlbcost.trial.document import trial_document
    from tlbcost.trial.record import to_table
    from tlbcost.trial.report import print_trials

    # The text first: a report must not be lost because a second copy cannot be written.
    if arguments.output is None:
        print_trials(found, sys.stderr)
    else:
        text = io.StringIO()
        print_trials(found, text)
        write(arguments.output, text.getvalue(), TOOL_FAILED)
    if arguments.json is not None:
        write(arguments.json, to_json(trial_document(found)), TOOL_FAILED)
    if arguments.table is not None:
        write(arguments.table, to_table(found), TOOL_FAILED)
