# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost maps: a process's memory by page size, and what exceeds the TLB's reach."""

from __future__ import annotations

import argparse
import functools
from dataclasses import replace
from typing import TYPE_CHECKING

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import FAILED, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.names import program_only

if TYPE_CHECKING:
    from tlbcost.memory.process import ProcessMemory

_LONGEST_S = 3600.0


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost maps [options] PID\n       tlbcost maps [options] [--] COMMAND [ARG...]"
    options.add_exit_codes(
        parser,
        {1: "no such process", 4: "the memory may not be read, or this kernel does not report it"},
        program=True,
        before="The report on a process goes to standard output. The report on a COMMAND, taken "
        "when it uses most memory, goes to standard error, and COMMAND's exit code is ours.",
    )
    options.add_details(parser)
    options.add_calibration(parser, "take the TLB's size from this calibration table")
    options.add_redact(parser)
    options.add_reports(parser, output="where it goes otherwise")
    parser.add_argument(
        "--touched", metavar="SECONDS", type=_seconds,
        help="report which pages PID uses within SECONDS; costs it a few more page walks",
    )  # fmt: skip
    parser.add_argument(
        "--waste", action="store_true",
        help="report what of PID's huge pages holds nothing but zeros; reads all of them",
    )  # fmt: skip
    parser.add_argument("target", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    return until_stopped(lambda: _look(arguments))


def _seconds(text: str) -> float:
    seconds = options.as_number(text)
    if not 0 < seconds <= _LONGEST_S:
        raise argparse.ArgumentTypeError(f"not a number of seconds up to {_LONGEST_S:.0f}: {text}")
    return seconds


def _look(arguments: argparse.Namespace) -> int:
    from tlbcost.allocators.recognise import asking
    from tlbcost.common.document import now
    from tlbcost.common.output import check_files, give_report
    from tlbcost.common.paths import version
    from tlbcost.memory.process import MemoryMaps, look, print_maps, run_program
    from tlbcost.run.launch import launcher_of
    from tlbcost.simulator.geometry import reaches_here
    from tlbcost.system.machine import current_machine

    words: list[str] = arguments.target
    pid = _pid(words)
    command = options.program_words(words)
    if pid is None and not command:
        raise TlbcostError("neither a process nor a program is given", "tlbcost maps PID", USAGE)
    if pid is None and (arguments.touched is not None or arguments.waste):
        raise TlbcostError(
            "--touched and --waste are for a running process, not a COMMAND",
            "start the program, then: tlbcost maps --touched SECONDS PID",
            USAGE,
        )
    check_files(
        {"--json": arguments.json, "--output": arguments.output},
        TOOL_FAILED if pid is None else FAILED,
    )
    machine = current_machine()
    reaches = reaches_here(machine, arguments.calibration)
    code = 0
    processes: tuple[ProcessMemory, ...]
    if pid is not None:
        processes = (look(pid, reaches, arguments.touched, waste=arguments.waste),)
    else:
        with launcher_of(None) as launcher:
            code, processes = run_program(launcher, command, reaches)
    processes = tuple(
        replace(each, malloc_asks=asking(each.program, [area.name for area in each.areas]))
        for each in processes
    )
    shown = program_only(command) if arguments.redact else command
    maps = MemoryMaps(
        tlbcost_version=version(),
        date=now(),
        machine=machine,
        argv=shown if pid is None else None,
        reach=reaches,
        processes=processes,
    )
    text = functools.partial(print_maps, details=arguments.details)
    give_report(arguments, maps, text, stdout=pid is not None)
    return code


def _pid(words: list[str]) -> int | None:
    if len(words) == 1 and words[0].isascii() and words[0].isdigit():
        number = int(words[0])
        if not 0 < number < 1 << 31:
            raise TlbcostError(f"there is no process {words[0]}", "ps -e lists them")
        return number
    return None
