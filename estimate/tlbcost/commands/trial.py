# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost trial: gain of a program on huge pages that it is proven to have."""

from __future__ import annotations

import argparse
import functools
from dataclasses import replace

from tlbcost.common import arguments as options
from tlbcost.common.cleanup import until_stopped
from tlbcost.common.errors import CANNOT_MEASURE, TOOL_FAILED, USAGE, TlbcostError
from tlbcost.common.names import program_only


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost trial [options] [--] COMMAND [ARG...]"
    options.add_exit_codes(
        parser,
        {4: "huge pages were not proven, or cannot be provided here", **options.TIMED_OUT},
        program=True,
        before="METHOD is auto, run-thp[-text], glibc-thp, glibc-hugetlb[=SIZE], thp,\n"
        "mthp[-SIZE], hugetlb-1g, hugectl[:OPTIONS] or allocator=PATH: see tlbcost-trial(1).\n"
        "A COMMAND that fails gives its own exit code.",
    )
    options.add_details(parser)
    options.add_engine(parser)
    parser.add_argument(
        "--export-hyperfine", metavar="FILE", type=options.to_file,
        help="write the runs as hyperfine --export-json does; implies --no-turns",
    )  # fmt: skip
    parser.add_argument("--no-estimate", action="store_true", help="measure only; predict nothing")
    options.add_redact(parser)
    options.add_region(parser)
    options.add_run_options(parser)
    options.add_reports(parser, json="the trials")
    options.add_pairs(parser)
    options.add_file(
        parser, "--plot", "draw what each method saves (.png or .svg)", options.to_picture
    )
    options.add_precision(parser)
    options.add_file(parser, "--table", "write the pairs of runs as a table")
    options.add_time_limit(parser)
    parser.add_argument(
        "--no-turns", action="store_true",
        help="run the two of a pair one after the other; else they run at the same time on one "
        "CPU, in turns of 40 ms, where the program allows that",
    )  # fmt: skip
    parser.add_argument(
        "--with", metavar="METHOD", dest="methods", action="append", default=[],
        help="how to give it huge pages; may be repeated (default: auto)",
    )  # fmt: skip
    options.add_program(parser)


def run(arguments: argparse.Namespace) -> int:
    return until_stopped(lambda: _try(arguments), arguments.time_limit)


def _try(arguments: argparse.Namespace) -> int:
    from tlbcost.common.document import to_json
    from tlbcost.common.output import check_files, give_report, write
    from tlbcost.common.progress import say
    from tlbcost.trial.document import draw_trials, hyperfine, print_trials, trial_document
    from tlbcost.trial.session import TrialRequest, run_trials, to_table

    argv = options.program_words(arguments.program)
    if not argv:
        raise TlbcostError("no program to run", "tlbcost trial -- ./app ARG...", USAGE)
    files = ("--export-hyperfine", "--json", "--output", "--plot", "--table")
    check_files(options.files_of(arguments, *files), TOOL_FAILED)
    request = options.request_from(
        TrialRequest,
        arguments,
        argv=argv,
        methods=tuple(arguments.methods),
        within=arguments.precision,
        estimated=not arguments.no_estimate,
        # In turns, the time that passes is not the program's own.
        turns=not arguments.no_turns and arguments.export_hyperfine is None,
    )
    found = run_trials(request, say)
    if arguments.redact:
        found = replace(found, argv=program_only(found.argv))
    give_report(
        arguments,
        found,
        functools.partial(print_trials, details=arguments.details),
        lambda trials: to_json(trial_document(trials)),
    )
    if arguments.export_hyperfine is not None:
        write(arguments.export_hyperfine, hyperfine(found), TOOL_FAILED)
    if arguments.plot is not None:
        draw_trials(found, arguments.plot)
    if arguments.table is not None:
        write(arguments.table, to_table(found), TOOL_FAILED)
    return 0 if any(trial.proven for trial in found.trials) else CANNOT_MEASURE
