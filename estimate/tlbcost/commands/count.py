# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost count: hardware counts of a program, or of what runs already."""

from __future__ import annotations

import argparse
import io
import sys
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.names import program_only

if TYPE_CHECKING:
    from tlbcost.counters.count_tool import Reading, Target
    from tlbcost.counters.pmu import EventRequest

_SHORTEST_MS, _LONGEST_MS = 10, 3_600_000


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost count [options] [--] [COMMAND [ARG...]]"
    options.add_exit_codes(
        parser,
        {4: "this machine or this user cannot count"},
        program=True,
        before="COMMAND keeps its own standard input, output and error, and its exit code is ours.",
    )
    options.add_counted(parser, "count")
    parser.add_argument("--cgroup", metavar="PATH", help="count what runs in this cgroup")
    options.add_details(parser)
    parser.add_argument(
        "-I", "--interval", metavar="MS", type=options.whole_number(_SHORTEST_MS, _LONGEST_MS),
        help="print the counts every MS ms too",
    )  # fmt: skip
    options.add_flag(parser, "--multiplex", "run COMMAND once, with events taking turns")
    options.add_redact(parser)
    options.add_run_options(parser)
    options.add_reports(parser, json="the counts")
    options.add_runs(parser, 1, "count everything")
    options.add_file(
        parser, "--table", "write the counts as a table, for 'tlbcost estimate --from FILE'"
    )
    options.add_program(parser)


def run(arguments: argparse.Namespace) -> int:
    return until_stopped(lambda: _count(arguments))


def _count(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import check_files
    from tlbcost.counters.count_runs import CountRequest, count

    argv = options.program_words(arguments.program)
    target = _target(arguments, argv)
    check_files(options.files_of(arguments, "--json", "--output", "--table"), TOOL_FAILED)
    intervals = _Intervals(arguments.output)
    request = options.request_from(
        CountRequest,
        arguments,
        argv=argv,
        target=target,
        events=options.event_names(arguments),
        mode=options.counted_mode(arguments),
        interval_ms=arguments.interval,
        show=intervals.show,
    )
    code, findings = count(request)
    if arguments.redact and argv:
        counts = replace(findings.counts, command=program_only(argv)[0])
        findings = replace(findings, counts=counts)
    from tlbcost.common.output import write
    from tlbcost.counters.count_report import print_counts, to_json
    from tlbcost.counters.count_tool import to_table

    # The text first: a report must not be lost because a second copy cannot be written.
    if arguments.output is None:
        print_counts(findings, sys.stderr, details=arguments.details)
    else:
        text = io.StringIO()
        print_counts(findings, text, details=arguments.details)
        if not intervals.finish(text.getvalue()):
            write(arguments.output, text.getvalue(), TOOL_FAILED)
    for file, write_text in ((arguments.json, to_json), (arguments.table, to_table)):
        if file is not None:
            write(file, write_text(findings), TOOL_FAILED)
    return code


def _target(arguments: argparse.Namespace, argv: tuple[str, ...]) -> Target:
    from tlbcost.counters.count_tool import PROGRAM_ITSELF, Target

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
    def __init__(self, path: Path | None) -> None:
        self._path = path
        self._file: TextIO | None = None

    def show(self, readings: Sequence[Reading], requests: Sequence[EventRequest]) -> None:
        from tlbcost.common.output import open_text
        from tlbcost.counters.count_report import print_interval

        if self._file is None:
            self._file = open_text(self._path) if self._path else sys.stderr
        print_interval(readings, requests, self._file)

    def finish(self, report: str) -> bool:
        if self._file is None or self._path is None:
            return False
        with self._file:
            self._file.write(f"\n{report}")
        return True
