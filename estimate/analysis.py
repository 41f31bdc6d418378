# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the calibrator's samples say: TLB entries, cost of a hit and of a walk, cost of a fault?

Pure functions from a `samples` table to calibrated quantities and the curve behind them. What
cannot be told from the samples is None, with a note that gives the reason.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
from tlbcost import units
from tlbcost.records import Access, Cost, Interval
from tlbcost.samples import ACCESSES, MIN_SAMPLES, CurveKey, integer, read_curves
from tlbcost.samples import notes as left_out
from tlbcost.steps import Curve, Floats, Levels, find_levels, resamples
from tlbcost.table import Table

# Chains in huge pages that cost more than this share of a base page's walk show that the TLB
# holds base pages; below the lower share, that it holds huge pages.
_SPLINTERED = 0.3
_WHOLE = 0.1


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Translation time per access at one footprint, in ns."""

    page_size_bytes: int
    layout: str
    access: Access
    pages: int
    delta: Interval


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the samples say. `notes` are sentences about what is missing or limited."""

    costs: tuple[Cost, ...]
    curve: tuple[CurvePoint, ...]
    notes: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class _Reference:
    """What the packed chains themselves pay for translation.

    They are close together, but many lines need many pages all the same: if the TLB holds base
    pages, a packed chain of more than 2000 lines starts to miss it.
    """

    spacing_bytes: int
    entry_bytes: int
    levels: Levels
    walks: Curve | None

    def paid_ns(self, lines: float, hit_ns: float) -> float:
        """Translation time per access of a packed chain of that many lines, in random order."""
        pages = lines * self.spacing_bytes / self.entry_bytes
        if self.levels.dtlb is None or pages <= self.levels.dtlb.value:
            return 0.0
        paid = (1 - self.levels.dtlb.value / pages) * hit_ns
        first = self.levels.walk_from()
        if self.levels.stlb is None or first is None or pages <= self.levels.stlb.value:
            return paid
        if self.walks is None:
            return paid
        walk = float(
            np.interp(np.log(max(pages, first)), np.log(self.walks.pages), self.walks.medians)
        )
        return paid + (1 - self.levels.stlb.value / pages) * max(walk - hit_ns, 0.0)


def analyse(samples: Table) -> Analysis:
    """Calibrated quantities from a `samples` table. Raises TlbcostError if it is not usable."""
    base = integer(samples, "base_page_bytes")
    spacing = integer(samples, "packed_spacing_bytes")
    huge = None if samples.key("huge_page_bytes") == "NA" else integer(samples, "huge_page_bytes")
    curves, faults = read_curves(samples)
    notes = left_out(samples)
    levels = find_levels(curves.get((base, "spread", "serial")))
    if levels.reason:
        notes.append(f"on {units.size(base)} pages {levels.reason}")
    entry = None if huge is None else _entry_bytes(curves, base, huge, levels)
    costs = _entries(base, levels)
    references = {
        access: _Reference(
            spacing, base if huge is None or entry == base else huge, levels,
            curves.get((huge, "dense", access) if huge is not None and entry == base
                       else (base, "spread", access)),
        )
        for access in ACCESSES
    }  # fmt: skip
    hits = {
        access: _hit(curves.get((base, "spread", access)), access, levels) for access in ACCESSES
    }
    for access in ACCESSES:
        costs.append(_hit_cost(base, access, hits[access]))
        costs += _walks(
            curves.get((base, "spread", access)), base, access, levels, hits[access],
            references[access],
        )  # fmt: skip
    costs.append(_fault(base, faults.get(base)))
    if huge is not None:
        serial = hits["serial"]
        own = find_levels(
            curves.get((huge, "spread", "serial")), serial.interval.value if serial else None
        )
        if own.reason:
            notes.append(f"on {units.size(huge)} pages {own.reason}")
        costs += _entries(huge, own)
        costs.append(_exact("tlb_entry_bytes", huge, entry))
        if entry == base:
            notes.append(
                f"the hypervisor backs {units.size(huge)} pages with {units.size(base)} ones, so "
                "that the TLB holds these; footprints of walks count them"
            )
        for access in ACCESSES:
            hit = _hit(curves.get((huge, "spread", access)), access, own)
            costs.append(_hit_cost(huge, access, hit))
            layout, at = ("dense", levels) if entry == base else ("spread", own)
            curve = curves.get((huge, layout, access))
            costs += _walks(curve, huge, access, at, hit, references[access])
        costs.append(_fault(huge, faults.get(huge)))
    return Analysis(tuple(costs), tuple(_points(curves)), tuple(notes))


def _entry_bytes(curves: dict[CurveKey, Curve], base: int, huge: int, levels: Levels) -> int | None:
    """What one TLB entry covers when memory is in huge pages; None if that cannot be told.

    Under a hypervisor that backs its guest with base pages it is a base page, whatever the guest
    maps. Judged at a footprint that overflows the TLBs in base pages but is few huge pages.
    """
    dense, spread = curves.get((huge, "dense", "serial")), curves.get((base, "spread", "serial"))
    first = levels.walk_from()
    if dense is None or spread is None or first is None:
        return None
    beyond = np.flatnonzero(dense.pages >= first)
    if len(beyond) == 0:
        return None
    at = int(beyond[0])
    walk = float(np.interp(np.log(dense.pages[at]), np.log(spread.pages), spread.medians))
    share = float(dense.medians[at]) / walk
    if share >= _SPLINTERED:
        return base
    return huge if share <= _WHOLE else None


def _entries(size: int, levels: Levels) -> list[Cost]:
    return [
        Cost("dtlb_entries", size, None, None, levels.dtlb, 0),
        Cost("stlb_entries", size, None, None, levels.stlb, 0),
    ]


def _exact(quantity: str, size: int, value: int | None) -> Cost:
    interval = None if value is None else Interval(value, value, value)
    return Cost(quantity, size, None, None, interval, 0)


def _median(values: Floats) -> Interval | None:
    """Median, with the 95 % percentile interval of its bootstrap."""
    if len(values) < MIN_SAMPLES:
        return None
    value = float(np.median(values))
    medians = np.median(values[resamples(len(values))], axis=1)
    low, high = np.percentile(medians, [2.5, 97.5])
    return Interval(value, min(value, float(low)), max(value, float(high)))


@dataclass(frozen=True, slots=True)
class _Hit:
    """Cost of an STLB hit, and the footprint in the middle of those that it comes from."""

    interval: Interval
    pages: int
    samples: int


def _hit(curve: Curve | None, access: Access, levels: Levels) -> _Hit | None:
    between = levels.hit_range()
    if curve is None or between is None or levels.dtlb is None:
        return None
    inside = (curve.pages >= between[0]) & (curve.pages <= between[1])
    if not inside.any():
        return None
    pages, deltas = curve.pages[inside], curve.deltas[:, inside]
    deltas = deltas[~np.isnan(deltas).all(axis=1)]
    if access == "overlapped":
        # A ring beyond the first level misses it always, random updates only where they do not
        # fit: charge the time to those.
        deltas = deltas / (1 - levels.dtlb.value / pages)
    interval = _median(np.asarray(np.nanmedian(deltas, axis=1)))
    if interval is None:
        return None
    middle = round(float(np.sqrt(pages[0] * pages[-1])))
    return _Hit(interval, middle, int(np.count_nonzero(~np.isnan(deltas))))


def _hit_cost(size: int, access: Access, hit: _Hit | None) -> Cost:
    if hit is None:
        return Cost("stlb_hit_ns", size, access, None, None, 0)
    return Cost("stlb_hit_ns", size, access, hit.pages, hit.interval, hit.samples)


def _walks(
    curve: Curve | None,
    size: int,
    access: Access,
    levels: Levels,
    hit: _Hit | None,
    reference: _Reference,
) -> list[Cost]:
    """Cost of a walk at each footprint that overflows the TLBs."""
    first, last = levels.walk_from(), levels.last
    nothing = Cost("walk_ns", size, access, None, None, 0)
    if curve is None or first is None or last is None:
        return [nothing]
    hit_ns = hit.interval.value if hit else 0.0
    costs = []
    for i, pages in enumerate(curve.pages):
        interval = _median(curve.column(i)) if pages >= first else None
        if interval is None:
            continue
        # What the packed chain paid is missing from the difference.
        paid = reference.paid_ns(float(pages), hit_ns)
        # A ring misses on every access; of random updates the share that fits still hits.
        hits = last / pages if access == "overlapped" else 0.0
        scaled = [(v + paid - hits * hit_ns) / (1 - hits)
                  for v in (interval.value, interval.low, interval.high)]  # fmt: skip
        costs.append(
            Cost("walk_ns", size, access, int(pages), Interval(*scaled), len(curve.column(i)))
        )
    return costs or [nothing]


def _fault(size: int, values: Floats | None) -> Cost:
    nothing = Cost("fault_ns", size, None, None, None, 0)
    if values is None:
        return nothing
    return replace(nothing, interval=_median(values), samples=len(values))


def _points(curves: dict[CurveKey, Curve]) -> list[CurvePoint]:
    points = []
    for (size, layout, access), curve in curves.items():
        for i, pages in enumerate(curve.pages):
            delta = _median(curve.column(i))
            if delta is not None:
                points.append(CurvePoint(size, layout, access, int(pages), delta))
    return points
