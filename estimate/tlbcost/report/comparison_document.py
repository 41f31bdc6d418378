# SPDX-License-Identifier: GPL-2.0-or-later
"""What does `tlbcost compare --json` write? Its keys, each with what it means."""

from __future__ import annotations

from typing import Annotated, Literal

from tlbcost.answer.estimate_document import VerdictPart
from tlbcost.common.document import Part, doc
from tlbcost.common.interval import Interval

SCHEMA = "tlbcost-comparison-1"
Unit = Literal["fraction", "ns", "count"]
Change = Literal["larger", "smaller", "within", "unknown"]


class ComparedEstimate(Part, frozen=True, kw_only=True):
    """One of the two."""

    file: Annotated[str, doc("where it was read from")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    argv: Annotated[tuple[str, ...], doc("the program's command line")]
    verdict: Annotated[VerdictPart, doc("its verdict")]


class Compared(Part, frozen=True, kw_only=True):
    """One quantity of both; null: not obtained."""

    name: Annotated[str, doc("what it is")]
    unit: Annotated[Unit, doc("its unit")]
    first: Annotated[Interval | None, doc("of the first; of several runs: median and range")]
    second: Annotated[Interval | None, doc("of the second")]
    change: Annotated[
        Change,
        doc(
            "larger, smaller: the second's interval lies above or below the first's; within: the "
            "intervals overlap"
        ),
    ]


class ComparisonDocument(Part, frozen=True, kw_only=True):
    """What `tlbcost compare --json FILE` writes."""

    schema: Annotated[str, doc("form of this document and its version", const=SCHEMA)] = SCHEMA
    tlbcost_version: Annotated[str, doc("the version of tlbcost that made it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    first: Annotated[ComparedEstimate, doc("the first estimate")]
    second: Annotated[ComparedEstimate, doc("the second estimate")]
    verdict_changed: Annotated[bool, doc("their verdicts differ")]
    rows: Annotated[list[Compared], doc("what is compared; the total gain first")]
    notes: Annotated[list[str], doc("why they may not be comparable")]
