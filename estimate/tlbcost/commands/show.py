# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost show: a saved estimate, printed again."""

from __future__ import annotations

import argparse

from tlbcost.common import arguments as options
from tlbcost.common.errors import FAILED


def add_arguments(parser: argparse.ArgumentParser) -> None:
    parser.usage = "tlbcost show [options] FILE"
    options.add_exit_codes(
        parser,
        {1: "FILE cannot be read, or is no estimate of this version", **options.FAIL_IF_CODES},
    )
    options.add_details(parser)
    options.add_fail_if(parser)
    options.add_reports(parser, json="the estimate", output="stdout")
    parser.add_argument(
        "--openmetrics", metavar="FILE", type=options.to_file,
        help="write its gain, bound, growth and stalls as gauges for Prometheus to FILE",
    )  # fmt: skip
    options.add_file(
        parser, "file", "what tlbcost estimate --json wrote; -: standard input", options.from_file
    )


def run(arguments: argparse.Namespace) -> int:
    from functools import partial

    from tlbcost.answer.estimate_document import read_estimate
    from tlbcost.common.output import check_files, give_report, write
    from tlbcost.report.condition import exit_code, parse_comparison
    from tlbcost.report.details import print_report
    from tlbcost.report.gauges import gauges

    conditions = [parse_comparison(text) for text in arguments.fail_if]
    files = options.files_of(arguments, "--json", "--openmetrics", "--output")
    check_files(files, FAILED, {"FILE": [arguments.file]})
    document = read_estimate(arguments.file)
    give_report(arguments, document, partial(print_report, details=arguments.details), stdout=True)
    if arguments.openmetrics is not None:
        write(arguments.openmetrics, gauges(document))
    return exit_code(conditions, document)
