# SPDX-License-Identifier: GPL-2.0-or-later
"""How does a comparison of two estimates read: 24 lines of 80 columns at most?"""

from __future__ import annotations

import shlex
from typing import TYPE_CHECKING, TextIO

from tlbcost.common import units
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.interval import Interval
from tlbcost.common.units import middle
from tlbcost.report.comparison_document import Compared, ComparedEstimate, ComparisonDocument
from tlbcost.report.lines import visible, wrapped

if TYPE_CHECKING:
    from rich.console import Console

_CHANGES = {
    "larger": "larger",
    "smaller": "smaller",
    "within": "not clear",
    "unknown": units.NOT_OBTAINED,
}


def print_comparison(document: ComparisonDocument, file: TextIO) -> None:
    """Print it whole."""
    print_whole(lambda console: _fill(console, document), file)


def _fill(console: Console, document: ComparisonDocument) -> None:
    for line in wrapped(_sentence(document), console.width):
        console.print(line, style="bold")
    console.print()
    for label, each in (("A", document.first), ("B", document.second)):
        console.print(_head(label, each, console.width), soft_wrap=True)
    shown = table("", "A", "B", "B is")
    verdicts = [each.verdict.code.replace("_", " ") for each in (document.first, document.second)]
    shown.add_row("verdict", *verdicts, "different" if document.verdict_changed else "the same")
    for row in document.rows:
        if row.first is not None or row.second is not None:
            shown.add_row(row.name, _cell(row, row.first), _cell(row, row.second), _change(row))
    section(console, shown)
    if document.notes:
        console.print()
        for line in wrapped(f"Note: {', '.join(document.notes)}.", console.width):
            console.print(line)


def _sentence(document: ComparisonDocument) -> str:
    gain = document.rows[0]
    assert gain.first is not None
    assert gain.second is not None
    before, after = (units.percent(each.value) for each in (gain.first, gain.second))
    if gain.change in ("larger", "smaller"):
        return (
            f"DIFFERENT: the gain goes from {before} to {after}, which is more than the intervals "
            "allow for."
        )
    text = f"NO CLEAR DIFFERENCE: the gain is {before} and {after}, and the intervals overlap."
    clear = [row.name for row in document.rows[1:] if row.change in ("larger", "smaller")]
    return f"{text} These differ: {', '.join(clear)}." if clear else text


def _head(label: str, each: ComparedEstimate, width: int) -> str:
    start = f"{label}  {each.date[:10]}  "
    file = visible(each.file)
    room = width - len(start)
    command = visible(shlex.join(each.argv))
    start += f"{middle(file, room // 3)}  "
    return start + middle(command, width - len(start))


def _cell(row: Compared, interval: Interval | None) -> str:
    if interval is None:
        return units.NOT_OBTAINED
    if row.unit == "fraction":
        value, ends = units.percent(interval.value), units.range_of(interval)
    elif row.unit == "ns":
        value, ends = units.time(interval.value), units.times(interval.low, interval.high)
    else:
        low, high = units.count(round(interval.low)), units.count(round(interval.high))
        value, ends = units.count(round(interval.value)), f"{low} to {high}"
    return value if interval.low == interval.high else f"{value} ({ends})"


def _change(row: Compared) -> str:
    if row.first is not None and row.first == row.second:
        return "the same"
    return _CHANGES[row.change]
