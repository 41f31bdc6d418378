# SPDX-License-Identifier: GPL-2.0-or-later
"""A calibration as JSON and as a figure, and the comparison of two."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Annotated

import msgspec

from tlbcost.calibration.consistency import UNIT_BYTES, presentable
from tlbcost.calibration.file import (
    MOST_BYTES,
    QUANTITIES,
    calibration_text,
    graded,
    quantity_named,
)
from tlbcost.calibration.records import (
    CHAINS,
    WORDS,
    Access,
    Calibration,
    Cost,
    Extent,
    Grade,
    Obtained,
    ReportedFigure,
    find,
)
from tlbcost.calibration.report import WIDTH, cpu, short, wrap
from tlbcost.common import formats, units
from tlbcost.common.document import Part, amount, doc, from_json, part_of
from tlbcost.common.errors import TlbcostError
from tlbcost.common.formats import MOST_COUNT, parse_table
from tlbcost.common.gnuplot import draw_by, word_list
from tlbcost.common.reading import read_file
from tlbcost.common.units import Interval
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
    duration_s: Annotated[float, amount("how long the measurement took")]
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
    return part_of(
        CalibrationDocument,
        calibration,
        tlbcost_version=calibration.version,
        source=obtained.source,
        notes=obtained.notes,
        costs=tuple(
            part_of(
                CalibratedCost,
                cost,
                footprint_pages=cost.pages,
                value=cost.interval and cost.interval.value,
                low=cost.interval and cost.interval.low,
                high=cost.interval and cost.interval.high,
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


# Shares of this and more are written without decimals.
_WHOLE_PERCENT = 10
_ABOUT_ZERO_PERCENT = 0.05
_HEADS = ("quantity", "page", "access", "footprint", "A", "B", "change", "95 %")
_WORDS = ("quantity", "page", "access", "95 %")


@dataclass(frozen=True, slots=True)
class CostPair:
    first: Cost | None
    second: Cost | None

    @property
    def cost(self) -> Cost:
        cost = self.first or self.second
        assert cost is not None
        return cost

    @property
    def change_fraction(self) -> float | None:
        a, b = _interval(self.first), _interval(self.second)
        if a is None or b is None or a.value <= 0 or b.value < 0:
            return None
        return b.value / a.value - 1

    @property
    def overlap(self) -> bool | None:
        a, b = _interval(self.first), _interval(self.second)
        if a is None or b is None:
            return None
        return a.low <= b.high and b.low <= a.high


def cost_pairs(first: Calibration, second: Calibration) -> list[CostPair]:
    """Each quantity of either calibration once, in the order of the first.

    A quantity that both measured at one footprint each is one pair, whatever the footprints: the
    one of an STLB hit depends on the TLB's size.
    """
    alone = {key for key, n in _rows(first).items() if n == 1 == _rows(second)[key]}

    def key(cost: Cost) -> tuple[object, ...]:
        kind = _kind(cost)
        return kind if kind in alone else (*kind, cost.pages)

    others = {key(cost): cost for cost in second.costs}
    found = [CostPair(cost, others.pop(key(cost), None)) for cost in first.costs]
    return found + [CostPair(None, cost) for cost in others.values()]


def compare_files(first: Path, second: Path) -> str:
    """Two documents of `tlbcost calibrate --json`. Raises TlbcostError naming the file."""
    return compare(read_document(first), read_document(second), (str(first), str(second)))


def compare(first: Calibration, second: Calibration, names: tuple[str, str]) -> str:
    """Two calibrations from files of these `names` side by side, mostly within 80 columns."""
    first, second = presentable(first), presentable(second)
    lines: list[str] = []
    for letter, name, calibration in zip("AB", names, (first, second), strict=True):
        lines += wrap(f"{letter}  ", name)
        lines += wrap("   ", f"{cpu(calibration.machine)}; {calibration.extent}, "
                      f"{calibration.date}, tlbcost {calibration.version}")  # fmt: skip
        if calibration.grade_reasons:
            lines += wrap("   ", f"poor calibration: {calibration.grade_reasons[0]}")
    lines += ["", *_machines(first.machine, second.machine), ""]
    found = cost_pairs(first, second)
    rows = [_HEADS, *(_row(pair) for pair in found)]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    between = "  " if sum(widths) + 2 * len(widths) - 2 <= WIDTH else " "
    lines += [
        between.join(
            f"{cell:<{width}}" if head in _WORDS else f"{cell:>{width}}"
            for cell, width, head in zip(row, widths, _HEADS, strict=True)
        )
        for row in rows
    ]
    apart = sum(pair.overlap is False for pair in found)
    both = sum(pair.overlap is not None for pair in found)
    lines += ["", *wrap("", f"{both} figures are in both; of {apart} the 95 % intervals do not "
                        "overlap. The suffix of a quantity is its unit. NA: not obtained, or in "
                        "one calibration alone.")]  # fmt: skip
    return "\n".join(line.rstrip() for line in lines) + "\n"


def _machines(first: Machine, second: Machine) -> list[str]:
    lines = []
    for field in fields(Machine):
        a, b = getattr(first, field.name), getattr(second, field.name)
        if a != b:
            unknown = units.NOT_OBTAINED
            lines += wrap("   ", f"{field.name}: {unknown if a is None else a} | "
                          f"{unknown if b is None else b}")  # fmt: skip
    if not lines:
        return ["The same machine with the same settings."]
    return ["Different machines or settings (A | B):", *lines]


def _kind(cost: Cost) -> tuple[object, ...]:
    return cost.quantity, cost.page_size_bytes, cost.access


def _rows(calibration: Calibration) -> Counter[tuple[object, ...]]:
    return Counter(_kind(cost) for cost in calibration.costs)


def _row(pair: CostPair) -> tuple[str, ...]:
    cost = pair.cost
    page = "" if cost.page_size_bytes is None else units.size(cost.page_size_bytes)
    values = (_value(cost.quantity, _interval(side)) for side in (pair.first, pair.second))
    words = {None: units.NOT_OBTAINED, True: "overlap", False: "apart"}[pair.overlap]
    change = _change(pair.change_fraction)
    return (cost.quantity, page, cost.access or "", _footprint(pair), *values, change, words)


def _footprint(pair: CostPair) -> str:
    found = {side.pages for side in (pair.first, pair.second) if side is not None}
    if len(found) > 1:
        return "differs"
    pages = pair.cost.pages
    if pages is not None and pair.cost.quantity in ("load_ns", "stream_ns"):
        return units.size(pages * UNIT_BYTES)
    return "" if pages is None else str(pages)


def _value(quantity: str, interval: Interval | None) -> str:
    if interval is None:
        return units.NOT_OBTAINED
    if quantity.endswith("_bytes"):
        return units.size(round(interval.value))
    return short(interval.value)


def _change(fraction: float | None) -> str:
    if fraction is None:
        return units.NOT_OBTAINED
    percent = 100 * fraction
    if abs(percent) < _ABOUT_ZERO_PERCENT:
        return units.ZERO
    return f"{percent:+.0f} %" if abs(percent) >= _WHOLE_PERCENT else f"{percent:+.1f} %"


def _interval(cost: Cost | None) -> Interval | None:
    return None if cost is None else cost.interval


_CACHES = {"l1d_bytes": "L1d", "l2_bytes": "L2", "l3_bytes": "L3"}
_LEVELS = ("dtlb_entries", "stlb_entries")
# Knees closer together than this share one label.
_NEAR = 1.2
_ENTRY_BYTES = 8


@dataclass(frozen=True, slots=True)
class _Mark:
    at: float
    words: str


def draw(
    obtained: Obtained, reported: Sequence[ReportedFigure], picture: Path, *, caches: bool = True
) -> None:
    """Draw the curve, the walks' costs and `caches`. Raises TlbcostError, and leaves no file."""
    calibration, text = obtained.calibration, obtained.curve or ""
    curve = []
    if text:
        curve = parse_table(text, "the curve of the calibration", formats.CURVE).records()
    base = calibration.machine.base_page_bytes
    tlb = [row for row in curve if row["probe"] == "tlb"]
    sizes = _sizes(row["page_size_bytes"] for row in tlb if row["layout"] == "spread")
    dense = _sizes(row["page_size_bytes"] for row in tlb if row["layout"] == "dense")
    walks = [cost for cost in calibration.costs if cost.quantity == "walk_ns" and cost.interval]
    walked = _sizes(cost.page_size_bytes for cost in walks if cost.access == "serial")
    chains = {c.access.removeprefix("chains_") for c in walks if c.access in CHAINS and c.access}
    if not tlb and not walks:
        raise TlbcostError(
            "cannot draw: nothing was measured of the TLBs",
            "tlbcost calibrate --recalibrate  (while nothing else runs)",
        )
    # The next power of two but one, for room beyond the last point.
    last = max([int(str(row["lines"])) for row in tlb] + [cost.pages or 1 for cost in walks])
    spacings = _sizes(row["spacing_bytes"] for row in curve if row["probe"] == "cache")
    cached = max([int(str(r["lines"])) for r in curve if r["probe"] == "cache"], default=0)
    cached *= min(spacings, default=0)
    marked = _caches(calibration, reported)
    marks = {
        "knee": _knees(calibration, sizes),
        "table": [_Mark(m.at / _ENTRY_BYTES, f"fill {m.words}") for m in marked],
        "cache": marked,
    }
    settings: dict[str, object] = {
        "title_words": cpu(calibration.machine),
        "base": base,
        "huge": max(dense, default=0),
        "huge_words": units.size(max(dense, default=0)),
        "sizes": word_list(sizes),
        "size_words": word_list(map(units.size, sizes)),
        "walk_sizes": word_list(walked),
        "walk_words": word_list(map(units.size, walked)),
        "chains": word_list(sorted(chains)),
        "last_page": 1 << last.bit_length() + 1,
        "caches": int(caches and bool(spacings)),
        # A chain of every line has them closest together.
        "line": min(spacings, default=0),
        "cache_last": round(1.25 * max([cached, *(mark.at for mark in marked)])),
    }
    for name, lines in marks.items():
        settings[f"{name}_at"] = word_list(f"{line.at:.6g}" for line in lines)
        settings[f"{name}_labels"] = word_list(line.words for line in lines)
    tables = {"curve": text, "calibration": calibration_text(calibration)}
    draw_by("calibration.gp", picture, settings, tables)


def _sizes(sizes: Iterable[int | str | None]) -> list[int]:
    return sorted({int(size) for size in sizes if size is not None})


def _knees(calibration: Calibration, sizes: Sequence[int]) -> list[_Mark]:
    marks = []
    for quantity in _LEVELS:
        groups: list[list[tuple[float, int]]] = []
        for cost in (cost for size in sizes for cost in find(calibration, quantity, size)):
            if cost.interval is not None and cost.page_size_bytes is not None:
                knee = cost.interval.value, cost.page_size_bytes
                for group in groups:
                    if 1 / _NEAR < knee[0] / group[0][0] < _NEAR:
                        group.append(knee)
                        break
                else:
                    groups.append([knee])
        for group in groups:
            at = [entries for entries, _ in group]
            low, high = f"{min(at):.0f}", f"{max(at):.0f}"
            # Several page sizes at one knee are distinguished by their curves.
            words = f"{low} x {units.size(group[0][1])}" if len(group) == 1 else low
            if high != low:
                words = f"{low}..{high}"
            marks.append(_Mark(at[0], f"{WORDS[quantity].removesuffix(' entries')} {words}"))
    return marks


def _caches(calibration: Calibration, reported: Sequence[ReportedFigure]) -> list[_Mark]:
    marks = []
    for quantity, name in _CACHES.items():
        measured = [c.interval for c in find(calibration, quantity, None) if c.interval]
        cited = [figure.value for figure in reported if figure.quantity == quantity]
        if measured:
            size = units.size(round(measured[0].value))
            marks.append(_Mark(measured[0].value, f"{name} ({size})"))
        elif cited:
            marks.append(_Mark(cited[0], f"{name} ({units.size(cited[0])}, reported)"))
    return marks
