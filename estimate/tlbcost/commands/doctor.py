# SPDX-License-Identifier: GPL-2.0-or-later
"""`tlbcost doctor`: what can be measured here, and what to type to fix what cannot."""

from __future__ import annotations

import argparse
from pathlib import Path

from tlbcost.common.document import to_json
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.common.output import write
from tlbcost.doctor.examination import examine
from tlbcost.doctor.report import text_of


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.epilog = "exit code: 0 if 'tlbcost estimate' works here, 4 if not"
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the findings as JSON to FILE as well"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; returns 0, or 4 if estimate cannot work here."""
    found = examine()
    if arguments.json is not None:
        write(arguments.json, to_json(found))
    print(text_of(found.checks))
    return 0 if found.estimate_works else CANNOT_MEASURE
