# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost run: a program with or without huge pages, without changing it or the system."""

from __future__ import annotations

import argparse

from tlbcost.common import arguments as options
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "tlbcost run --thp [options] [--] COMMAND [ARG...]\n"
        "       tlbcost run --thp [options] --pid PID\n"
        "       tlbcost run --no-thp|--thp-advised-only|--plan FILE [--] COMMAND [ARG...]"
    )
    options.add_exit_codes(
        parser,
        {
            1: "no such process",
            4: "transparent huge pages are off, the program may not be traced, or this kernel "
            "cannot do it",
        },
        program=True,
        before="Each mapping of COMMAND, its heap and static arrays included, asks for "
        "transparent huge pages as it is made; those of PID ask now. No root is needed, and no "
        "setting changes. COMMAND's exit code is ours.",
    )
    options.add_reports(parser, json="what was reached")
    parser.add_argument(
        "--no-collapse", action="store_true",
        help="with --pid: leave it to the kernel to move the memory that is there, over time",
    )  # fmt: skip
    parser.add_argument(
        "--plan", metavar="FILE", type=options.from_file,
        help="transparent huge pages for what the plan of tlbcost estimate --plan names",
    )  # fmt: skip
    parser.add_argument(
        "-p", "--pid", metavar="PID", type=options.process_id, help="a running process"
    )
    parser.add_argument(
        "--no-thp", action="store_true",
        help="without transparent huge pages, whatever the system's mode is and COMMAND asks for",
    )  # fmt: skip
    parser.add_argument(
        "--text", action="store_true",
        help="with --thp: the code of COMMAND and its libraries is copied to huge pages as it "
        "starts, too",
    )  # fmt: skip
    parser.add_argument("--thp", action="store_true", help="use transparent huge pages")
    parser.add_argument(
        "--thp-advised-only", action="store_true",
        help="transparent huge pages for memory that asks alone (madvise), also where the "
        "system's mode is always (Linux 6.18)",
    )  # fmt: skip
    options.add_program(parser)


def run(arguments: argparse.Namespace) -> int:
    from tlbcost.common.output import STDOUT, check_files, give_report
    from tlbcost.thp.program import print_reached

    argv = options.program_words(arguments.program)
    example = "tlbcost run --thp -- ./app ARG..."
    planned = arguments.plan is not None
    if arguments.thp + arguments.no_thp + arguments.thp_advised_only + planned != 1:
        why = "run: one of --thp, --no-thp, --thp-advised-only and --plan says which huge pages"
        raise TlbcostError(why, example, USAGE)
    if arguments.pid is not None and argv:
        raise TlbcostError("run: --pid and a COMMAND exclude each other", example, USAGE)
    if arguments.pid is None and not argv:
        raise TlbcostError("no program to run", example, USAGE)
    if arguments.no_collapse and arguments.pid is None:
        raise TlbcostError(
            "run: --no-collapse is for a running process",
            "tlbcost run --thp --no-collapse --pid PID",
            USAGE,
        )
    if arguments.text and (not arguments.thp or arguments.pid is not None):
        why = "run: --text is for a program that --thp starts"
        raise TlbcostError(why, "tlbcost run --thp --text -- ./app ARG...", USAGE)
    if not arguments.thp:
        if arguments.pid is not None or arguments.json or arguments.output:
            why = "run: --pid, --json and --output are for --thp"
            raise TlbcostError(why, "tlbcost run --no-thp -- ./app ARG...", USAGE)
        from tlbcost.thp.program import become_program, check_possible, replace_by

        if planned:
            from tlbcost.attribution.sites import plan_variables

            check_possible()
            become_program(argv, plan_variables(arguments.plan))
        replace_by(argv, advised=arguments.thp_advised_only)
    check_files({"--json": arguments.json, "--output": arguments.output}, TOOL_FAILED)
    if arguments.pid is not None:
        from tlbcost.thp.program import ask_process

        reached = ask_process(arguments.pid, collapse=not arguments.no_collapse)
    else:
        from tlbcost.thp.program import run_program

        reached = run_program(argv, text=arguments.text)
    silent = arguments.quiet and arguments.output is None and arguments.json != STDOUT
    give_report(arguments, reached, (lambda _found, _file: None) if silent else print_reached)
    return reached.exit_code or 0
