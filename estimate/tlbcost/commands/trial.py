# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost trial: how much faster is a program on huge pages, once it is proven to have them?"""

from __future__ import annotations

import argparse
from pathlib import Path

from tlbcost.common.arguments import program_words, whole_number
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, USAGE, TlbcostError

_FEWEST_PAIRS, _MOST_PAIRS = 3, 1000


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
    parser.add_argument("--no-estimate", action="store_true", help="measure only; predict nothing")
    parser.add_argument(
        "--output", metavar="FILE", type=Path, help="write the report to this file, not stderr"
    )
    parser.add_argument(
        "--pairs", metavar="N", type=whole_number(_FEWEST_PAIRS, _MOST_PAIRS), default=5,
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
    return until_stopped(lambda: _try(arguments))


def _try(arguments: argparse.Namespace) -> int:
    from tlbcost.common.document import to_json
    from tlbcost.common.output import check_writable, give_report, write
    from tlbcost.settings.change import say
    from tlbcost.trial.document import trial_document
    from tlbcost.trial.record import to_table
    from tlbcost.trial.report import print_trials
    from tlbcost.trial.session import TrialRequest, run_trials

    argv = program_words(arguments.program)
    if not argv:
        raise TlbcostError("no program to try", "tlbcost trial -- ./app ARG...", USAGE)
    for file in (arguments.json, arguments.output, arguments.table):
        if file is not None:
            check_writable(file, TOOL_FAILED)
    request = TrialRequest(
        argv=argv,
        methods=tuple(arguments.methods),
        pairs=arguments.pairs,
        prepare=arguments.prepare,
        estimated=not arguments.no_estimate,
    )
    found = run_trials(request, say)
    give_report(
        found,
        print_trials,
        lambda trials: to_json(trial_document(trials)),
        arguments.output,
        arguments.json,
    )
    if arguments.table is not None:
        write(arguments.table, to_table(found), TOOL_FAILED)
    return 0 if any(trial.proven for trial in found.trials) else CANNOT_MEASURE
