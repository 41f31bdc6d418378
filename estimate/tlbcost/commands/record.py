# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost record: where in a program TLB misses and page walks happen."""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError
from tlbcost.counters.profile import DEFAULT_FILE

if TYPE_CHECKING:
    from tlbcost.counters.count_tool import Target

_POSITIVE = options.whole_number(1, 1 << 60)


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost record [options] [--] [COMMAND [ARG...]]"
    options.add_exit_codes(
        parser,
        {4: "this machine or this user cannot sample"},
        program=True,
        before="COMMAND keeps its own standard input, output and error, and its exit code is ours.",
    )
    options.add_counted(parser, "sample")
    options.add_flag(
        parser, "--addresses", "record the addresses of data as well, where the CPU has them"
    )
    parser.add_argument(
        "--frequency", metavar="N", type=_POSITIVE, help="take N samples a second of each event"
    )
    parser.add_argument(
        "--output", metavar="FILE", type=options.to_file, default=DEFAULT_FILE,
        help=f"write the samples to this file (default: {DEFAULT_FILE})",
    )  # fmt: skip
    parser.add_argument(
        "--period", metavar="N", type=_POSITIVE, help="sample every Nth event of each kind"
    )
    options.add_quiet(parser)
    options.add_program(parser)


def run(arguments: argparse.Namespace) -> int:
    return until_stopped(lambda: _record(arguments))


def _record(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_writable, write
    from tlbcost.common.progress import say
    from tlbcost.counters.recording import Pace, RecordRequest, record

    argv = options.program_words(arguments.program)
    target = _target(arguments, argv)
    check_writable(arguments.output, TOOL_FAILED)
    request = RecordRequest(
        argv=argv,
        target=target,
        events=options.event_names(arguments),
        pmu=arguments.pmu,
        mode=options.counted_mode(arguments),
        pace=Pace(arguments.period, arguments.frequency),
        addresses=arguments.addresses,
    )
    recording = record(request, say)
    write(arguments.output, recording.data, TOOL_FAILED)
    from tlbcost.counters.profile import Profile, describe

    profile = Profile(recording.hits, "object", notes=recording.notes)
    file = "" if arguments.output == DEFAULT_FILE else f" {arguments.output}"
    print(describe(profile), end="", file=sys.stderr)
    print(
        f"tlbcost: the samples are in {arguments.output}; "
        f"'tlbcost annotate{file}' shows the functions",
        file=sys.stderr,
    )
    return recording.code


def _target(arguments: argparse.Namespace, argv: tuple[str, ...]) -> Target:
    from tlbcost.counters.count_tool import PROGRAM_ITSELF, Target

    if arguments.pid is not None and arguments.all_cpus:
        raise TlbcostError("--pid and --all-cpus exclude each other", "give one of them", USAGE)
    if arguments.period is not None and arguments.frequency is not None:
        raise TlbcostError("--period and --frequency exclude each other", "give one", USAGE)
    if arguments.pid is not None:
        return Target("process", pid=arguments.pid)
    if arguments.all_cpus:
        return Target("system")
    if not argv:
        raise TlbcostError("nothing to record", "tlbcost record -- ./app ARG..., or -p PID", USAGE)
    return PROGRAM_ITSELF
