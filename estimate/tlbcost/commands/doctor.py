# SPDX-License-Identifier: GPL-2.0-or-later
"""tlbcost doctor: what can be measured here, and fixes for the rest."""

from __future__ import annotations

import argparse

from tlbcost.common.arguments import add_details, add_exit_codes, add_reports
from tlbcost.common.console import width_of
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.common.output import check_files, give_report
from tlbcost.doctor.check import text_of
from tlbcost.doctor.examination import examine


def add_arguments(parser: argparse.ArgumentParser) -> None:
    add_exit_codes(parser, {0: "'tlbcost estimate' works here", 1: "failed", 4: "it does not"})
    add_details(parser)
    add_reports(parser, json="the findings", output=None)


def run(arguments: argparse.Namespace) -> int:
    check_files({"--json": arguments.json})
    found = examine()
    give_report(
        arguments,
        found,
        lambda findings, file: print(
            text_of(findings.checks, width_of(file), details=arguments.details), file=file
        ),
        stdout=True,
    )
    return 0 if found.estimate_works else CANNOT_MEASURE
