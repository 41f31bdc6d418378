# SPDX-License-Identifier: GPL-2.0-or-later
"""How is an estimate printed for people: the summary, and with --details all that is known?"""

from __future__ import annotations

from typing import TYPE_CHECKING, TextIO

from tlbcost.answer.estimate_document import EstimateDocument
from tlbcost.common.console import print_whole
from tlbcost.report.details import print_details
from tlbcost.report.summary import summary

if TYPE_CHECKING:
    from rich.console import Console


def print_report(document: EstimateDocument, file: TextIO, *, details: bool = False) -> None:
    """Print it whole, as wide as the terminal; 80 columns where there is none."""

    def fill(console: Console) -> None:
        verdict, rest = summary(document, console.width)
        for lines, style in ((verdict, "bold"), (rest, None)):
            for line in lines:
                console.print(line, style=style, soft_wrap=True)
        if details:
            print_details(console, document)

    print_whole(fill, file)
