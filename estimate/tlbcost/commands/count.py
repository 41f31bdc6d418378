# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost count: what do the hardware counters say about a program, or about what runs already?"""

from __future__ import annotations

import argparse
import contextlib
import io
import os
import signal
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tlbcost.common.cleanup import (
    Stopped,
    sigint_left_to_the_program,
    signals_raise,
    temporary_folder,
)
from tlbcost.common.errors import SIGNAL_BASE, TOOL_FAILED, USAGE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.counters.counted import Counted, Mode
    from tlbcost.counters.target import Plan
    from tlbcost.counters.tool import Reading
    from tlbcost.run.launch import Outcome

_MOST_RUNS = 1000
_SHORTEST_MS, _LONGEST_MS = 10, 3_600_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost count [options] [--] [COMMAND [ARG...]]"
    parser.epilog = (
        "COMMAND keeps its own standard input, output and error, and its exit code is ours. Other "
        "exit codes: 0 done, 2 usage, 4 this machine or this user cannot count, 125 tlbcost "
        "failed, 126 or 127 COMMAND could not be started, 128 + signal."
    )
    parser.add_argument(
        "-a", "--all-cpus", action="store_true", help="count everything that runs on this system"
    )
    parser.add_argument("--cgroup", metavar="PATH", help="count what runs in this cgroup")
    parser.add_argument(
        "-e", "--event", metavar="NAME", action="append", default=[],
        help="count these events, separated by commas: names of 'tlbcost events', or libpfm4's",
    )  # fmt: skip
    parser.add_argument(
        "-I", "--interval", metavar="MS", type=_interval, help="print the counts every MS ms too"
    )
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the counts for programs to this file"
    )
    parser.add_argument(
        "--kernel", action="store_true", help="count in the kernel (with --user: there as well)"
    )
    parser.add_argument(
        "--multiplex", action="store_true", help="run COMMAND once, with events taking turns"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the report to this file, not stderr"
    )
    parser.add_argument(
        "-p", "--pid", metavar="PID", type=_pid, help="count this process, its threads and children"
    )
    parser.add_argument(
        "--pmu", metavar="NAME", help="take the event names of this CPU: 'tlbcost events --list'"
    )
    parser.add_argument(
        "--prepare", metavar="CMD", help="run this shell command before each run of COMMAND"
    )
    parser.add_argument(
        "--runs", metavar="N", type=_runs, default=1, help="count everything N times (default: 1)"
    )
    parser.add_argument(
        "--table", metavar="FILE", type=Path,
        help="write the counts as a table, for 'tlbcost estimate --from FILE'",
    )  # fmt: skip
    parser.add_argument("--user", action="store_true", help="count in user mode (the default)")
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Count; returns the program's exit code, or 0 if there is none. Raises TlbcostError."""
    try:
        with signals_raise():
            return _count(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number


def _number(text: str, low: int, high: int) -> int:
    if not (text.isascii() and text.isdigit()) or not low <= int(text) <= high:
        raise argparse.ArgumentTypeError(f"not a number from {low} to {high}: {text}")
    return int(text)


def _runs(text: str) -> int:
    return _number(text, 1, _MOST_RUNS)


def _interval(text: str) -> int:
    return _number(text, _SHORTEST_MS, _LONGEST_MS)


def _pid(text: str) -> int:
    return _number(text, 1, (1 << 22) - 1)


def _count(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_writable
    from tlbcost.counters.count import count_target
    from tlbcost.run.program import resolve

    argv: list[str] = arguments.program
    if argv[:1] == ["--"]:
        argv = argv[1:]
    plan, notes = _plan(arguments, argv)
    for file in (arguments.json, arguments.output, arguments.table):
        if file is not None:
            check_writable(file, TOOL_FAILED)
    path = resolve(argv[0]) if argv else None
    intervals = _Intervals(arguments.output)
    plan = replace(plan, show=lambda readings: intervals.show(plan, readings))
    with temporary_folder() as folder:
        if path is None:
            code, counted = 0, count_target(folder, plan)
        else:
            code, counted = _program(arguments, folder, argv, path, plan)
    _print(arguments, plan, replace(counted, notes=(*notes, *counted.notes)), intervals)
    return code


def _plan(arguments: argparse.Namespace, argv: list[str]) -> tuple[Plan, tuple[str, ...]]:
    """What to count, and what is to be said about the choice of events."""
    from tlbcost.counters.choice import choose_events, choose_pmu
    from tlbcost.counters.refusal import no_process
    from tlbcost.counters.target import Plan, Target

    targets = [
        Target("process", pid=arguments.pid) if arguments.pid is not None else None,
        Target("cgroup", cgroup=arguments.cgroup) if arguments.cgroup is not None else None,
        Target("system") if arguments.all_cpus else None,
    ]
    chosen = [target for target in targets if target is not None]
    if len(chosen) > 1:
        raise TlbcostError(
            "--pid, --cgroup and --all-cpus exclude each other", "give one of them", USAGE
        )
    if not argv and not chosen:
        raise TlbcostError("nothing to count", "tlbcost count -- ./app ARG..., or -p PID", USAGE)
    if not argv and (arguments.runs > 1 or arguments.prepare is not None):
        raise TlbcostError(
            "--runs and --prepare need a COMMAND to run", "tlbcost count -- ./app ARG...", USAGE
        )
    if arguments.pid is not None and not Path(f"/proc/{arguments.pid}").exists():
        raise no_process(arguments.pid)
    pmu, notes = choose_pmu(arguments.pmu)
    wanted = choose_events(pmu, [name for words in arguments.event for name in words.split(",")])
    plan = Plan(pmu, wanted, _mode(arguments), multiplex=arguments.multiplex)
    return replace(plan, target=(*chosen, plan.target)[0], interval_ms=arguments.interval), notes


def _mode(arguments: argparse.Namespace) -> Mode:
    if arguments.kernel:
        return "both" if arguments.user else "kernel"
    return "user"


class _Intervals:
    """Prints intervals where the report will go; a file is opened when the first one ends."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None

    def show(self, plan: Plan, readings: Sequence[Reading]) -> None:
        from tlbcost.counters.report import print_interval

        if self._file is None:
            self._file = self._path.open("w", encoding="utf-8") if self._path else sys.stderr
        print_interval(readings, plan.wanted, self._file)

    def finish(self, report: str) -> bool:
        """Put the report below the intervals; False if there were none."""
        if self._file is None or self._path is None:
            return False
        with self._file:
            self._file.write(f"\n{report}")
        return True


def _program(
    arguments: argparse.Namespace, folder: Path, argv: list[str], path: Path, plan: Plan
) -> tuple[int, Counted]:
    """Run the program as often as it takes; its exit code, and the counts."""
    from tlbcost.counters.count import count_series
    from tlbcost.run.launch import Launcher
    from tlbcost.run.stdin import ProgramInput
    from tlbcost.system.sudo import calling_user

    codes: list[int] = []
    with contextlib.closing(ProgramInput()) as stdin, sigint_left_to_the_program() as interrupted:
        launcher = Launcher(folder, stdin, calling_user(), arguments.prepare)
        if launcher.user is not None:
            os.chown(folder, launcher.user.uid, launcher.user.gid)

        def go_on(outcome: Outcome) -> bool:
            codes.append(outcome.code)
            return not interrupted()

        counted = count_series(launcher, argv, path, plan, arguments.runs, go_on)
    return codes[0], counted


def _print(
    arguments: argparse.Namespace, plan: Plan, counted: Counted, intervals: _Intervals
) -> None:
    import datetime

    from tlbcost.common.output import write
    from tlbcost.common.paths import version
    from tlbcost.counters.files import to_json, to_table
    from tlbcost.counters.report import Findings, print_counts, relevant
    from tlbcost.model.walk_share import figures
    from tlbcost.system.machine import current_machine

    findings = Findings(
        version=version(),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=current_machine(),
        pmu=plan.pmu,
        wanted=plan.wanted,
        counted=counted,
        figures=figures(relevant(plan.pmu, plan.wanted), counted),
    )
    # The text first: a report must not be lost because a second copy cannot be written.
    if arguments.output is None:
        print_counts(findings, sys.stderr)
    else:
        text = io.StringIO()
        print_counts(findings, text)
        if not intervals.finish(text.getvalue()):
            write(arguments.output, text.getvalue(), TOOL_FAILED)
    for file, write_text in ((arguments.json, to_json), (arguments.table, to_table)):
        if file is not None:
            write(file, write_text(findings), TOOL_FAILED)
