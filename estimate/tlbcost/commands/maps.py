# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost maps: which memory of a process is on which pages, and does it exceed the TLB's reach?"""

from __future__ import annotations

import argparse
import functools
import io
import math
import signal
import sys
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tlbcost.common.cleanup import Stopped, sigint_left_to_the_program, signals_raise
from tlbcost.common.errors import (
    CANNOT_MEASURE,
    FAILED,
    SIGNAL_BASE,
    TOOL_FAILED,
    USAGE,
    TlbcostError,
)

if TYPE_CHECKING:
    from tlbcost.memory.maps import Looked
    from tlbcost.memory.maps_report import Findings

_LONGEST_S = 3600.0
# Nobody times the program.
_REST = 3


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost maps [options] PID\n       tlbcost maps [options] [--] COMMAND [ARG...]"
    parser.epilog = (
        "Of a process the report goes to standard output; of a COMMAND, whose memory is looked at "
        "when it has most, to standard error, and its exit code is ours. Other exit codes: 0 "
        "done, 1 no such process, 2 usage, 4 it may not be looked at or this kernel does not "
        "tell, 125 tlbcost failed, 126 or 127 COMMAND could not be started, 128 + signal."
    )
    parser.add_argument("--all", action="store_true", help="list small mappings one by one, too")
    parser.add_argument(
        "--calibration", metavar="FILE", type=Path,
        help="take the TLB's size from this calibration table",
    )  # fmt: skip
    parser.add_argument(
        "--json", metavar="FILE", type=Path, help="write the report for programs to this file"
    )
    parser.add_argument("--output", metavar="FILE", type=Path, help="write the report to this file")
    parser.add_argument(
        "--touched", metavar="SECONDS", type=_seconds,
        help="tell which pages PID uses in so many seconds; that takes it some page walks more",
    )  # fmt: skip
    parser.add_argument("target", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Look; returns 0 or the program's exit code. Raises TlbcostError."""
    try:
        with signals_raise():
            return _look(arguments)
    except Stopped as stop:
        print(f"tlbcost: ended by {signal.Signals(stop.number).name}", file=sys.stderr)
        return SIGNAL_BASE + stop.number


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"not a number of seconds up to {_LONGEST_S:.0f}: {text}")
    return seconds


def _look(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_writable
    from tlbcost.memory.maps import look

    words: list[str] = arguments.target
    pid = _pid(words)
    command = words[1:] if words[:1] == ["--"] else words
    if pid is None and not command:
        raise TlbcostError("no process and no program to look at", "tlbcost maps PID", USAGE)
    if pid is None and arguments.touched is not None:
        raise TlbcostError(
            "--touched watches a process that runs, and no COMMAND",
            "start the program, then: tlbcost maps --touched SECONDS PID",
            USAGE,
        )
    failed = TOOL_FAILED if pid is None else FAILED
    for file in (arguments.json, arguments.output):
        if file is not None:
            check_writable(file, failed)
    if pid is not None:
        _print(_findings(arguments, [look(pid, arguments.touched)], ()), arguments, sys.stdout)
        return 0
    code, looked = _run(command)
    _print(_findings(arguments, looked, tuple(command)), arguments, sys.stderr)
    return code


def _pid(words: list[str]) -> int | None:
    """The process that is asked for; None: a command."""
    if len(words) == 1 and words[0].isascii() and words[0].isdigit():
        number = int(words[0])
        if not 0 < number < 1 << 31:
            raise TlbcostError(f"there is no process {words[0]}", "ps -e lists them")
        return number
    return None


def _run(argv: list[str]) -> tuple[int, list[Looked]]:
    """Run the program; its exit code, and its processes when they had most memory."""
    from tlbcost.answer.obtain import launcher_of
    from tlbcost.memory.maps import Looked, areas_of
    from tlbcost.memory.peak_sampler import PeakSampler
    from tlbcost.run.program import resolve, start_failure
    from tlbcost.system.huge_pages import huge_settings

    path = resolve(argv[0])
    sampler = PeakSampler(_REST)
    with launcher_of(None) as launcher, sigint_left_to_the_program():
        outcome = launcher.execute(argv, discard=False, started=sampler.start)
        sampler.stop()
    if outcome.exec_errno is not None:
        raise start_failure(argv[0], path, outcome.exec_errno)
    peak = sampler.peak()
    if not peak:
        raise TlbcostError(
            f"nothing to tell of {argv[0]}: {sampler.why_not}",
            "tlbcost maps PID looks at one that runs",
            outcome.code or CANNOT_MEASURE,
        )
    settings = huge_settings()
    programs = dict.fromkeys(program for program, _ in peak)
    return outcome.code, [
        Looked(0, program, areas_of([m for p, m in peak if p == program], settings), settings, None)
        for program in programs
    ]


def _findings(
    arguments: argparse.Namespace, looked: list[Looked], argv: tuple[str, ...]
) -> Findings:
    """What was looked at, and the TLB of this machine; nothing is measured for it."""
    import datetime

    from tlbcost.calibration import cache as calibration
    from tlbcost.calibration.file import read_calibration
    from tlbcost.common.paths import version
    from tlbcost.memory.maps_report import Findings
    from tlbcost.simulator.geometry import geometry_for
    from tlbcost.system.machine import current_machine

    machine = current_machine()
    if arguments.calibration is not None:
        cached: calibration.Obtained | None = calibration.Obtained(
            read_calibration(arguments.calibration), "a file"
        )
    else:
        cached, _ = calibration.look_up()
    base = machine.base_page_bytes
    huge = looked[0].settings.huge_page_bytes or base * (base // 8)
    return Findings(
        version=version(),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%dT%H:%M:%SZ"),
        machine=machine,
        argv=argv,
        looked=tuple(looked),
        geometry=geometry_for(cached.calibration if cached else None, machine, huge),
    )


def _print(findings: Findings, arguments: argparse.Namespace, stream: TextIO) -> None:
    from tlbcost.common.output import print_stderr, write
    from tlbcost.memory.maps_report import print_maps, to_json

    failed = TOOL_FAILED if findings.argv else FAILED
    if arguments.output is None and stream is sys.stderr:
        print_stderr(findings, functools.partial(print_maps, everything=arguments.all))
    elif arguments.output is None:
        print_maps(findings, stream, everything=arguments.all)
    else:
        text = io.StringIO()
        print_maps(findings, text, everything=arguments.all)
        write(arguments.output, text.getvalue(), failed)
    if arguments.json is not None:
        write(arguments.json, to_json(findings), failed)
