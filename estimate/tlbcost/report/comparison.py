# SPDX-License-Identifier: GPL-2.0-or-later
"""Comparison of two estimates: differences that exceed their intervals."""

from __future__ import annotations

import shlex
from collections.abc import Callable
from statistics import median
from typing import TYPE_CHECKING, Annotated, Literal, TextIO

from tlbcost.answer.estimate_document import EstimateDocument, VerdictPart
from tlbcost.common import units
from tlbcost.common.console import print_whole, section, table
from tlbcost.common.document import Part, doc, now
from tlbcost.common.paths import version
from tlbcost.common.units import Interval, middle
from tlbcost.report.facts import page_sizes, walks
from tlbcost.report.lines import visible, wrapped

if TYPE_CHECKING:
    from rich.console import Console

SCHEMA = "tlbcost-comparison-1"
Unit = Literal["fraction", "ns", "count"]
Change = Literal["larger", "smaller", "within", "unknown"]
_CHANGES = {
    "larger": "larger",
    "smaller": "smaller",
    "within": "not clear",
    "unknown": units.NOT_OBTAINED,
}


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


def compared(
    first: EstimateDocument, second: EstimateDocument, files: tuple[str, str]
) -> ComparisonDocument:
    rows = []
    for name, (unit, figure) in _FIGURES.items():
        a, b = figure(first), figure(second)
        rows.append(Compared(name=name, unit=unit, first=a, second=b, change=change_of(a, b)))
    pairs: dict[str, list[object]] = {
        "different programs or arguments": [each.program.argv for each in (first, second)],
        "different CPUs": [each.machine and each.machine.cpu_name for each in (first, second)],
        "different kernels": [each.machine and each.machine.kernel for each in (first, second)],
        "different THP modes": [each.machine and each.machine.thp_mode for each in (first, second)],
        "different huge pages": [each.huge_page_bytes for each in (first, second)],
        "different backends": [each.backend for each in (first, second)],
        "different models": [each.simulation and each.simulation.model for each in (first, second)],
        "different calibrations": [
            each.calibration and each.calibration.date for each in (first, second)
        ],
        "different versions of tlbcost": [each.tlbcost_version for each in (first, second)],
    }
    return ComparisonDocument(
        tlbcost_version=version(),
        date=now(),
        first=_head(first, files[0]),
        second=_head(second, files[1]),
        verdict_changed=first.verdict.code != second.verdict.code,
        rows=rows,
        notes=[words for words, (one, other) in pairs.items() if one != other],
    )


def _head(document: EstimateDocument, file: str) -> ComparedEstimate:
    return ComparedEstimate(
        file=file, date=document.date, argv=document.program.argv, verdict=document.verdict
    )


def _exact(value: float | None) -> Interval | None:
    return None if value is None else Interval(value, value, value)


def _of_runs(document: EstimateDocument, key: str) -> Interval | None:
    values = [getattr(run, key) for run in document.program.runs]
    return Interval(median(values), min(values), max(values)) if values else None


def _walks(document: EstimateDocument, size: int) -> Interval | None:
    simulated = walks(document, page_sizes(document)[size])
    if simulated is not None:
        return _exact(simulated)
    counted = document.counters.formulas.get("walks") if document.counters and not size else None
    return None if counted is None else counted.value


_FIGURES: dict[str, tuple[Unit, Callable[[EstimateDocument], Interval | None]]] = {
    "total gain": ("fraction", lambda document: document.total_fraction),
    "fewer page faults": ("fraction", lambda document: document.fault_fraction),
    "cheaper TLB misses": ("fraction", lambda document: document.expected_fraction),
    "upper bound": ("fraction", lambda document: _exact(document.bound_fraction.value)),
    "elapsed time": ("ns", lambda document: _of_runs(document, "wall_ns")),
    "CPU time": ("ns", lambda document: _of_runs(document, "cpu_ns")),
    "page faults": ("count", lambda document: _of_runs(document, "minor_faults")),
    "page walks": ("count", lambda document: _walks(document, 0)),
    "walks on huge pages": ("count", lambda document: _walks(document, 1)),
}


def change_of(first: Interval | None, second: Interval | None) -> Change:
    if first is None or second is None:
        return "unknown"
    if second.low > first.high:
        return "larger"
    return "smaller" if second.high < first.low else "within"


def print_comparison(document: ComparisonDocument, file: TextIO) -> None:
    print_whole(lambda console: _fill(console, document), file)


def _fill(console: Console, document: ComparisonDocument) -> None:
    for line in wrapped(_sentence(document), console.width):
        console.print(line, style="bold")
    console.print()
    for label, each in (("A", document.first), ("B", document.second)):
        start = f"{label}  {each.date[:10]}  "
        file = visible(each.file)
        room = console.width - len(start)
        command = visible(shlex.join(each.argv))
        start += f"{middle(file, room // 3)}  "
        console.print(start + middle(command, console.width - len(start)), soft_wrap=True)
    shown = table("", "A", "B", "B is")
    verdicts = [each.verdict.code.replace("_", " ") for each in (document.first, document.second)]
    shown.add_row("verdict", *verdicts, "different" if document.verdict_changed else "the same")
    for row in document.rows:
        if row.first is not None or row.second is not None:
            shown.add_row(
                row.name,
                _cell(row, row.first),
                _cell(row, row.second),
                (
                    "the same"
                    if row.first is not None and row.first == row.second
                    else _CHANGES[row.change]
                ),
            )
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
