# SPDX-License-Identifier: GPL-2.0-or-later
"""Broken rules of a plan's gate, and changes since an earlier review."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, Literal

import msgspec

from tlbcost.common import units
from tlbcost.common.document import Part, doc, from_json, now
from tlbcost.common.errors import TlbcostError
from tlbcost.common.paths import version
from tlbcost.common.reading import read_text
from tlbcost.common.units import Interval
from tlbcost.report.comparison import change_of
from tlbcost.review.document import SCHEMA, BrokenRule, Decision, ReviewDocument, ReviewRow
from tlbcost.review.plan import share

Change = Literal["larger", "smaller", "within", "unknown", "new", "gone"]
COMPARISON = "tlbcost-review-comparison-1"
_HINT = "tlbcost review PLAN --json FILE writes one"


def read_review(path: Path) -> ReviewDocument:
    """A saved review. Raises TlbcostError naming the file and its defect."""
    text = read_text(path, hint=_HINT)
    try:
        found = from_json(text, ReviewDocument)
    except msgspec.DecodeError as error:
        raise TlbcostError(f"{path}: not a review of this version: {error}", _HINT) from error
    if found.schema != SCHEMA:
        raise TlbcostError(f"{path}: {found.schema[:40]}, not {SCHEMA}", _HINT)
    return found


def broken_rules(review: ReviewDocument, baseline: ReviewDocument | None) -> list[BrokenRule]:
    rules = [BrokenRule(rule=rule, service=row.service, machine=row.machine, why=why)
             for row in review.rows for rule, why in _broken_by(review, row)]  # fmt: skip
    if baseline is not None:
        rules += [
            BrokenRule(rule="baseline", service=each.service, machine=each.machine,
                       why="more gain is left than in the baseline, beyond both intervals")
            for each in compared(baseline, review).rows if each.change == "larger"
        ]  # fmt: skip
    return rules


def _broken_by(review: ReviewDocument, row: ReviewRow) -> Iterator[tuple[str, str]]:
    gate = review.policy.gate
    if gate.failures and row.decision == "failed":
        yield "failures", row.why
    checks = (
        ("most_translation", gate.most_translation, row.bound_fraction, "translation costs up to"),
        (
            "most_gain_left",
            gate.most_gain_left,
            (
                None
                if row.gain_fraction is None or row.decision == "done"
                else row.gain_fraction.low
            ),
            "huge pages would save at least",
        ),
        ("most_growth", gate.most_growth, row.growth_fraction, "its memory would grow by"),
    )
    for rule, limit, found, words in checks:
        if limit is not None and found is not None and found > share(limit, rule):
            yield rule, f"{words} {units.percent(found)}, and {limit} is allowed"


class ChangedRow(Part, frozen=True, kw_only=True):
    """One service on one type of host, in both reviews."""

    service: Annotated[str, doc("its name")]
    machine: Annotated[str, doc("the type of host")]
    first: Annotated[Interval | None, doc("gain in the first; null: not obtained")]
    second: Annotated[Interval | None, doc("gain in the second; null: not obtained")]
    change: Annotated[
        Change,
        doc("larger, smaller: the intervals do not overlap; within: they do; new, gone: in one"),
    ]
    decisions: Annotated[
        tuple[Decision | None, Decision | None], doc("in the first and in the second")
    ]


class ReviewComparison(Part, frozen=True, kw_only=True):
    """What `tlbcost review --compare OLD NEW --json FILE` writes."""

    schema: Annotated[str, doc("form of this document and its version", const=COMPARISON)] = (
        COMPARISON
    )
    tlbcost_version: Annotated[str, doc("the version of tlbcost that made it")]
    date: Annotated[str, doc("UTC, ISO 8601")]
    rows: Annotated[list[ChangedRow], doc("all of both")]


def compared(first: ReviewDocument, second: ReviewDocument) -> ReviewComparison:
    """What changed, never by less than both intervals explain."""
    old = {(row.service, row.machine): row for row in first.rows}
    new = {(row.service, row.machine): row for row in second.rows}
    rows = [_changed(key, old.get(key), new.get(key)) for key in {**old, **new}]
    return ReviewComparison(tlbcost_version=version(), date=now(), rows=rows)


def _changed(key: tuple[str, str], old: ReviewRow | None, new: ReviewRow | None) -> ChangedRow:
    first = None if old is None else old.gain_fraction
    second = None if new is None else new.gain_fraction
    return ChangedRow(
        service=key[0],
        machine=key[1],
        first=first,
        second=second,
        change="new" if old is None else "gone" if new is None else change_of(first, second),
        decisions=(None if old is None else old.decision, None if new is None else new.decision),
    )
