# SPDX-License-Identifier: GPL-2.0-or-later
"""`tlbcost doctor`: what can be measured here, and what to type to fix what cannot."""

from __future__ import annotations

import argparse
import json
import textwrap
from pathlib import Path

from tlbcost.common import paths
from tlbcost.common.errors import CANNOT_MEASURE
from tlbcost.common.output import write
from tlbcost.doctor.check import Check
from tlbcost.doctor.checks import examine

_COLUMNS = 80


def add_arguments(parser: argparse.ArgumentParser) -> None:
    """Declare the command's options."""
    parser.epilog = "exit code: 0 if 'tlbcost estimate' works here, 4 if not"
    parser.add_argument(
        "--json", type=Path, metavar="FILE", help="write the findings as JSON to FILE as well"
    )


def run(arguments: argparse.Namespace) -> int:
    """Print the findings; returns 0, or 4 if estimate cannot work here."""
    checks = examine()
    if arguments.json is not None:
        write(arguments.json, json_text(checks))
    print(report(checks))
    return CANNOT_MEASURE if any(check.blocks for check in checks) else 0


def report(checks: list[Check]) -> str:
    """The findings as text of 80 columns; commands stand alone on a line, however long."""
    width = max(len(check.name) for check in checks)
    lines: list[str] = []
    for check in checks:
        head = f"{check.state:<8} {check.name:<{width}}  "
        indent = " " * len(head)
        lines += textwrap.wrap(
            check.finding,
            _COLUMNS,
            initial_indent=head,
            subsequent_indent=indent,
            break_on_hyphens=False,
        )
        if check.command:
            lines.append(f"{'':9}-> {check.command}")
    blocking = [check.name for check in checks if check.blocks]
    if blocking:
        lines += ["", f"'tlbcost estimate' cannot work here: fix {', '.join(blocking)} first."]
    else:
        lines += ["", "'tlbcost estimate' works here."]
    return "\n".join(lines)


def json_text(checks: list[Check]) -> str:
    """The findings for programs: null is "not obtained", units are in the keys."""
    document = {
        "format": "tlbcost doctor 1",
        "tlbcost_version": paths.version(),
        "estimate_works": not any(check.blocks for check in checks),
        "checks": [
            {
                "name": check.name,
                "state": check.state,
                "finding": check.finding,
                "command": check.command,
                "blocks_estimate": check.blocks,
                "values": dict(check.values),
            }
            for check in checks
        ],
    }
    return json.dumps(document, indent=2) + "\n"
