# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost maps: which memory of a process is on which pages, and does it exceed the TLB's reach?"""

from __future__ import annotations

import argparse
import functools
import io
import math
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import FAILED, TOOL_FAILED, USAGE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.calibration.records import Calibration
    from tlbcost.memory.areas import Reaches
    from tlbcost.memory.maps_report import MemoryMaps
    from tlbcost.memory.process import ProcessMemory
    from tlbcost.system.machine import Machine

_LONGEST_S = 3600.0


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
    return until_stopped(lambda: _look(arguments))


def _seconds(text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"not a number of seconds up to {_LONGEST_S:.0f}: {text}")
    return seconds


def _look(arguments: argparse.Namespace) -> int:
    from tlbcost.common.document import now
    from tlbcost.common.output import check_writable
    from tlbcost.common.paths import version
    from tlbcost.memory.maps_report import MemoryMaps
    from tlbcost.memory.process import look, run_program
    from tlbcost.run.launch import launcher_of
    from tlbcost.system.machine import current_machine

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
    for file in (arguments.json, arguments.output):
        if file is not None:
            check_writable(file, TOOL_FAILED if pid is None else FAILED)
    machine = current_machine()
    reaches = _reaches(machine, arguments.calibration)
    code = 0
    processes: tuple[ProcessMemory, ...]
    if pid is not None:
        processes = (look(pid, reaches, arguments.touched),)
    else:
        with launcher_of(None) as launcher:
            code, processes = run_program(launcher, command, reaches)
    maps = MemoryMaps(
        tlbcost_version=version(),
        date=now(),
        machine=machine,
        argv=tuple(command) if pid is None else None,
        reach=reaches,
        processes=processes,
    )
    _print(maps, arguments)
    return code


def _pid(words: list[str]) -> int | None:
    """The process that is asked for; None: a command."""
    if len(words) == 1 and words[0].isascii() and words[0].isdigit():
        number = int(words[0])
        if not 0 < number < 1 << 31:
            raise TlbcostError(f"there is no process {words[0]}", "ps -e lists them")
        return number
    return None


def _reaches(machine: Machine, calibration: Path | None) -> Reaches:
    """Of the TLB of this machine; nothing is measured for it."""
    from tlbcost.calibration.cache import look_up
    from tlbcost.calibration.file import read_calibration
    from tlbcost.memory.areas import reaches_of
    from tlbcost.simulator.geometry import geometry_for
    from tlbcost.system.machine import huge_page_or_assumed

    if calibration is not None:
        known: Calibration | None = read_calibration(calibration)
    else:
        cached, _ = look_up()
        known = cached.calibration if cached else None
    return reaches_of(geometry_for(known, machine, huge_page_or_assumed(machine)[0]))


def _print(maps: MemoryMaps, arguments: argparse.Namespace) -> None:
    from tlbcost.common.document import to_json
    from tlbcost.common.output import print_stderr, write
    from tlbcost.memory.maps_report import print_maps

    failed = TOOL_FAILED if maps.argv else FAILED
    print_text = functools.partial(print_maps, everything=arguments.all)
    if arguments.output is not None:
        text = io.StringIO()
        print_text(maps, text)
        write(arguments.output, text.getvalue(), failed)
    elif maps.argv:
        print_stderr(maps, print_text)
    else:
        print_text(maps, sys.stdout)
    if arguments.json is not None:
        write(arguments.json, to_json(maps), failed)
