# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost compare: differences between two estimates that are more than chance."""

from __future__ import annotations

import argparse

from tlbcost.common.arguments import add_exit_codes, add_reports, files_of, from_file
from tlbcost.common.errors import FAILED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost compare [options] A.json B.json"
    add_exit_codes(parser, {1: "a file cannot be read, or is no estimate of this version"})
    add_reports(parser, json="the comparison", output="stdout")
    for name in ("first", "second"):
        parser.add_argument(
            name, metavar=f"{'A' if name == 'first' else 'B'}.json", type=from_file,
            help="what tlbcost estimate --json wrote; -: standard input",
        )  # fmt: skip


def run(arguments: argparse.Namespace) -> int:
    from tlbcost.answer.estimate_document import read_estimate
    from tlbcost.common.output import check_files, give_report
    from tlbcost.report.comparison import compared, print_comparison

    given = (arguments.first, arguments.second)
    files = files_of(arguments, "--json", "--output")
    check_files(files, FAILED, {"A.json": [given[0]], "B.json": [given[1]]})
    found = compared(
        read_estimate(given[0]), read_estimate(given[1]), (str(given[0]), str(given[1]))
    )
    give_report(arguments, found, print_comparison, stdout=True)
    return 0
