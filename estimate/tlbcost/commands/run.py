# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost run: put a program's memory on huge pages, without changing it or the system."""

from __future__ import annotations

import argparse

from tlbcost.common.arguments import (
    add_exit_codes,
    add_program,
    add_reports,
    process_id,
    program_words,
)
from tlbcost.common.errors import TOOL_FAILED, USAGE, TlbcostError


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = (
        "tlbcost run --thp [options] [--] COMMAND [ARG...]\n"
        "       tlbcost run --thp [options] --pid PID"
    )
    add_exit_codes(
        parser,
        {
            1: "no such process",
            4: "transparent huge pages are off, or the program may not be traced",
        },
        program=True,
        before="Each mapping of COMMAND, its heap and static arrays included, asks for "
        "transparent huge pages as it is made; those of PID ask now. No root is needed, and no "
        "setting changes. COMMAND's exit code is ours.",
    )
    add_reports(parser, json="what was reached")
    parser.add_argument(
        "--no-collapse", action="store_true",
        help="with --pid: leave it to the kernel to move the memory that is there, over time",
    )  # fmt: skip
    parser.add_argument("-p", "--pid", metavar="PID", type=process_id, help="a running process")
    parser.add_argument("--thp", action="store_true", help="use transparent huge pages")
    add_program(parser)


def run(arguments: argparse.Namespace) -> int:
    from tlbcost.common.document import to_json
    from tlbcost.common.output import STDOUT, check_files, give_report
    from tlbcost.thp.program import print_reached

    argv = program_words(arguments.program)
    example = "tlbcost run --thp -- ./app ARG..."
    if not arguments.thp:
        raise TlbcostError("run: which huge pages? --thp is missing", example, USAGE)
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
    check_files({"--json": arguments.json, "--output": arguments.output}, TOOL_FAILED)
    if arguments.pid is not None:
        from tlbcost.thp.program import ask_process

        reached = ask_process(arguments.pid, collapse=not arguments.no_collapse)
    else:
        from tlbcost.thp.program import run_program

        reached = run_program(argv)
    silent = arguments.quiet and arguments.output is None and arguments.json != STDOUT
    give_report(
        reached,
        (lambda _found, _file: None) if silent else print_reached,
        to_json,
        arguments.output,
        arguments.json,
    )
    return reached.exit_code or 0
