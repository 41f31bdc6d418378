# SPDX-License-Identifier: GPL-2.0-or-later
"""The document of `tlbcost calibrate --json`, written and read."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

import msgspec

from tlbcost.calibration.consistency import presentable
from tlbcost.calibration.file import MOST_BYTES, QUANTITIES, graded, quantity_named
from tlbcost.calibration.other_sources import ReportedFigure
from tlbcost.calibration.records import Access, Calibration, Cost, Extent, Grade, Obtained
from tlbcost.common.document import Part, doc, from_json
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import MOST_COUNT
from tlbcost.common.interval import Interval
from tlbcost.common.reading import read_file
from tlbcost.system.machine import Machine

SCHEMA = "tlbcost-calibration-4"
# Without a grade; and with other names of quantities.
_READ = (SCHEMA, "tlbcost-calibration-3", "tlbcost-calibration-2")
_AGAIN = "tlbcost calibrate --json FILE, with this version of tlbcost on that machine"


class CalibratedCost(Part, frozen=True, kw_only=True):
    """One calibrated quantity. null: not obtained, or it does not apply."""

    quantity: Annotated[
        str,
        doc(
            "the suffix is the unit of value, low and high; entries, ways, regions and times "
            "(walks_at_once) are plain numbers",
            enum=QUANTITIES,
        ),
    ]
    page_size_bytes: Annotated[int | None, doc("null: does not apply", minimum=1)]
    access: Annotated[
        Access | None, doc("whether an access waits for the one before it; null: does not apply")
    ]
    footprint_pages: Annotated[
        int | None,
        doc(
            "where it was measured; pages that one TLB entry covers a piece of are counted in "
            "pieces; null: does not apply",
            minimum=1,
        ),
    ]
    value: Annotated[float | None, doc("median")]
    low: Annotated[float | None, doc("of the 95 % interval; a cost is never below zero")]
    high: Annotated[float | None, doc("of the 95 % interval")]
    samples: Annotated[int, msgspec.Meta(ge=0), doc("how many timings it comes from")]


class CalibrationDocument(Part, frozen=True, kw_only=True):
    """What translation costs on one machine.

    The unit of a figure is the suffix of its key, or of its quantity's name; null means that a
    figure was not obtained.
    """

    schema: Annotated[str, doc("form of this document and its version", const=SCHEMA)] = SCHEMA
    tlbcost_version: Annotated[str, doc("the version of tlbcost that measured it")]
    machine: Annotated[Machine, doc("what a calibration depends on")]
    extent: Annotated[Extent, doc("how much was measured")]
    grade: Annotated[Grade, doc("whether estimates may rely on it")] = "good"
    grade_reasons: Annotated[tuple[str, ...], doc("why it is poor")] = ()
    date: Annotated[str, doc("UTC, ISO 8601")]
    duration_s: Annotated[float, doc("how long the measurement took", minimum=0)]
    source: Annotated[str, doc("measured now, or cached in which file")]
    notes: Annotated[tuple[str, ...], doc("what is missing or limited")]
    costs: Annotated[tuple[CalibratedCost, ...], doc("what was measured")]
    expected: Annotated[
        tuple[ReportedFigure, ...],
        doc(
            "what other sources report of the same quantities; shown alongside what was measured, "
            "never in its place"
        ),
    ]


class _AnyDocument(msgspec.Struct):
    schema: str


def calibration_document(
    obtained: Obtained, reported: Iterable[ReportedFigure] = ()
) -> CalibrationDocument:
    calibration = obtained.calibration
    return CalibrationDocument(
        tlbcost_version=calibration.version,
        machine=calibration.machine,
        extent=calibration.extent,
        grade=calibration.grade,
        grade_reasons=calibration.grade_reasons,
        date=calibration.date,
        duration_s=calibration.duration_s,
        source=obtained.source,
        notes=obtained.notes,
        costs=tuple(
            CalibratedCost(
                quantity=cost.quantity,
                page_size_bytes=cost.page_size_bytes,
                access=cost.access,
                footprint_pages=cost.pages,
                value=cost.interval.value if cost.interval else None,
                low=cost.interval.low if cost.interval else None,
                high=cost.interval.high if cost.interval else None,
                samples=cost.samples,
            )
            for cost in presentable(calibration).costs
        ),
        expected=tuple(reported),
    )


def read_document(path: Path) -> Calibration:
    """The calibration in a document. Raises TlbcostError naming the file and its defect."""
    try:
        text = read_file(path, MOST_BYTES, _AGAIN)
        schema = from_json(text, _AnyDocument).schema
    except msgspec.ValidationError as error:
        raise TlbcostError(f"{path}: not a calibration", _AGAIN) from error
    except msgspec.DecodeError as error:
        raise TlbcostError(f"{path}: not a JSON document", _AGAIN) from error
    if not schema.startswith("tlbcost-calibration-"):
        raise TlbcostError(f"{path}: not a calibration", _AGAIN)
    if schema not in _READ:
        raise TlbcostError(f"{path}: a calibration of schema {schema}, not {SCHEMA}", _AGAIN)
    try:
        found = from_json(text, CalibrationDocument)
        costs = tuple(_cost(cost) for cost in found.costs)
    except (msgspec.DecodeError, ValueError) as error:
        raise TlbcostError(f"{path}: not a whole calibration: {error}", _AGAIN) from error
    return graded(
        Calibration(
            machine=found.machine,
            date=found.date,
            version=found.tlbcost_version,
            duration_s=found.duration_s,
            costs=costs,
            extent=found.extent,
            grade_reasons=found.grade_reasons,
        )
    )


def _cost(cost: CalibratedCost) -> Cost:
    interval = None
    if cost.value is not None and cost.low is not None and cost.high is not None:
        interval = Interval(cost.value, cost.low, cost.high)
    elif not cost.value is cost.low is cost.high is None:
        raise ValueError(f"{cost.quantity} has a value without its interval")
    counts = (cost.page_size_bytes, cost.footprint_pages, cost.samples)
    if any(count is not None and count > MOST_COUNT for count in counts):
        raise ValueError(f"{cost.quantity} has a count of more than 64 bits")
    return Cost(
        quantity_named(cost.quantity),
        cost.page_size_bytes,
        cost.access,
        cost.footprint_pages,
        interval,
        cost.samples,
    )
