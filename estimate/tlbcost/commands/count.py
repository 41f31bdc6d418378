# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost count: what do the hardware counters say about a program, or about what runs already?"""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tlbcost.common.arguments import program_words, whole_number
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError

if TYPE_CHECKING:
    from tlbcost.counters.count_findings import CountFindings
    from tlbcost.counters.event_selection import EventRequest
    from tlbcost.counters.readings import Reading
    from tlbcost.counters.target import Target

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
        "-I",
        "--interval",
        metavar="MS",
        type=whole_number(_SHORTEST_MS, _LONGEST_MS),
        help="print the counts every MS ms too",
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
        "-p",
        "--pid",
        metavar="PID",
        type=whole_number(1, (1 << 22) - 1),
        help="count this process, its threads and children",
    )
    parser.add_argument(
        "--pmu", metavar="NAME", help="take the event names of this CPU: 'tlbcost events --list'"
    )
    parser.add_argument(
        "--prepare", metavar="CMD", help="run this shell command before each run of COMMAND"
    )
    parser.add_argument(
        "--runs",
        metavar="N",
        type=whole_number(1, _MOST_RUNS),
        default=1,
        help="count everything N times (default: 1)",
    )
    parser.add_argument(
        "--table", metavar="FILE", type=Path,
        help="write the counts as a table, for 'tlbcost estimate --from FILE'",
    )  # fmt: skip
    parser.add_argument("--user", action="store_true", help="count in user mode (the default)")
    parser.add_argument("program", nargs=argparse.REMAINDER, help=argparse.SUPPRESS)


def run(arguments: argparse.Namespace) -> int:
    """Count; returns the program's exit code, or 0 if there is none. Raises TlbcostError."""
    return until_stopped(lambda: _count(arguments))


def _count(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_writable
    from tlbcost.counters.count_session import CountRequest, count

    argv = program_words(arguments.program)
    target = _target(arguments, argv)
    for file in (arguments.json, arguments.output, arguments.table):
        if file is not None:
            check_writable(file, TOOL_FAILED)
    intervals = _Intervals(arguments.output)
    request = CountRequest(
        argv=argv,
        target=target,
        events=tuple(name for words in arguments.event for name in words.split(",")),
        pmu=arguments.pmu,
        mode=("both" if arguments.user else "kernel") if arguments.kernel else "user",
        multiplex=arguments.multiplex,
        interval_ms=arguments.interval,
        runs=arguments.runs,
        prepare=arguments.prepare,
        show=intervals.show,
    )
    code, findings = count(request)
    _print(arguments, findings, intervals)
    return code


def _target(arguments: argparse.Namespace, argv: tuple[str, ...]) -> Target:
    from tlbcost.counters.target import PROGRAM_ITSELF, Target

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
    return chosen[0] if chosen else PROGRAM_ITSELF


class _Intervals:
    """Prints intervals where the report will go; a file is opened when the first one ends."""

    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None

    def show(self, readings: Sequence[Reading], requests: Sequence[EventRequest]) -> None:
        from tlbcost.counters.count_report import print_interval

        if self._file is None:
            self._file = self._path.open("w", encoding="utf-8") if self._path else sys.stderr
        print_interval(readings, requests, self._file)

    def finish(self, report: str) -> bool:
        """Put the report below the intervals; False if there were none."""
        if self._file is None or self._path is None:
            return False
        with self._file:
            self._file.write(f"\n{report}")
        return True


def _print(arguments: argparse.Namespace, findings: CountFindings, intervals: _Intervals) -> None:
    from tlbcost.common.output import write
    from tlbcost.counters.count_document import to_json
    from tlbcost.counters.count_report import print_counts
    from tlbcost.counters.count_table import to_table

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
