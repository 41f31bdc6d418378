# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost record: where in a program do TLB misses and page walks happen?"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from tlbcost.common.arguments import program_words
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError
from tlbcost.counters.hits import DEFAULT_FILE

if TYPE_CHECKING:
    from tlbcost.counters.recording import Recording
    from tlbcost.counters.target import Target

_MOST = 1 << 60


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.usage = "tlbcost record [options] [--] [COMMAND [ARG...]]"
    parser.epilog = (
        "COMMAND keeps its own standard input, output and error, and its exit code is ours. Other "
        "exit codes: 0 done, 2 usage, 4 this machine or this user cannot sample, 125 tlbcost "
        "failed, 126 or 127 COMMAND could not be started, 128 + signal."
    )
    parser.add_argument(
        "--addresses", action="store_true", help="note the address of the data too, where there is"
    )
    parser.add_argument(
        "-a", "--all-cpus", action="store_true", help="sample everything that runs on this system"
    )
    parser.add_argument(
        "-e", "--event", metavar="NAME", action="append", default=[],
        help="sample these events, separated by commas: names of 'tlbcost events', or libpfm4's",
    )  # fmt: skip
    parser.add_argument(
        "--frequency", metavar="N", type=_positive, help="take N samples a second of each event"
    )
    parser.add_argument(
        "--kernel", action="store_true", help="sample the kernel (with --user: it as well)"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=Path, default=DEFAULT_FILE,
        help=f"write the samples to this file (default: {DEFAULT_FILE})",
    )  # fmt: skip
    parser.add_argument(
        "--period", metavar="N", type=_positive, help="take each Nth event of each kind"
    )
    parser.add_argument(
        "-p", "--pid", metavar="PID", type=_positive, help="sample this process and its children"
    )
    parser.add_argument(
        "--pmu", metavar="NAME", help="take the event names of this CPU: 'tlbcost events --list'"
    )
    parser.add_argument("--user", action="store_true", help="sample user mode (the default)")
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Record; returns the program's exit code, or 0 if there is none. Raises TlbcostError."""
    return until_stopped(lambda: _record(arguments))


def _positive(text: str) -> int:
    if not (text.isascii() and text.isdigit()) or not 1 <= int(text) <= _MOST:
        raise argparse.ArgumentTypeError(f"not a number from 1: {text}")
    return int(text)


def _record(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_writable, write
    from tlbcost.counters.recording import Pace, RecordRequest, record

    argv = program_words(arguments.program)
    target = _target(arguments, argv)
    check_writable(arguments.output, TOOL_FAILED)
    request = RecordRequest(
        argv=argv,
        target=target,
        events=tuple(name for words in arguments.event for name in words.split(",")),
        pmu=arguments.pmu,
        mode=("both" if arguments.user else "kernel") if arguments.kernel else "user",
        pace=Pace(arguments.period, arguments.frequency),
        addresses=arguments.addresses,
    )
    recording = record(request, lambda text: print(f"tlbcost: {text}", file=sys.stderr))
    write(arguments.output, recording.table, TOOL_FAILED)
    _print(recording, arguments.output)
    return recording.code


def _target(arguments: argparse.Namespace, argv: tuple[str, ...]) -> Target:
    from tlbcost.counters.target import PROGRAM_ITSELF, Target

    if arguments.pid is not None and (arguments.all_cpus or argv):
        raise TlbcostError(
            "--pid excludes --all-cpus and a COMMAND", "tlbcost record -p PID", USAGE
        )
    if arguments.period is not None and arguments.frequency is not None:
        raise TlbcostError("--period and --frequency exclude each other", "give one", USAGE)
    if arguments.pid is not None:
        return Target("process", pid=arguments.pid)
    if arguments.all_cpus:
        return Target("system")
    if not argv:
        raise TlbcostError("nothing to record", "tlbcost record -- ./app ARG..., or -p PID", USAGE)
    return PROGRAM_ITSELF


def _print(recording: Recording, output: Path) -> None:
    from tlbcost.counters.profile import Profile, describe

    hits = recording.hits
    profile = Profile(hits, (None,) * len(hits.hits), "object", notes=recording.notes)
    file = "" if output == DEFAULT_FILE else f" {output}"
    print(describe(profile), end="", file=sys.stderr)
    print(
        f"tlbcost: the samples are in {output}; 'tlbcost annotate{file}' shows the functions",
        file=sys.stderr,
    )
