# SPDX-License-Identifier: GPL-2.0-or-later
"""What do the calibrator's samples say: TLB entries, costs of a hit, a walk and a fault, caches?

Pure functions from `samples` tables to calibrated quantities and the curves behind them. What
cannot be told from the samples is None, with a note that gives the reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from tlbcost import bootstrap, units
from tlbcost.levels import Knee, Levels, confirm, find_levels, settle
from tlbcost.records import Access, Cost, Interval
from tlbcost.samples import Samples, read_samples
from tlbcost.table import Table
from tlbcost.walks import Reference, entry_bytes, find_hit, hit_cost, walk_costs

__all__ = ["Analysis", "CurvePoint", "Knee", "analyse", "candidates"]

_ACCESSES: tuple[Access, ...] = ("serial", "overlapped")
# A cost whose interval is wider than this share on either side is worth measuring longer.
_WIDE = 0.15
# The footprint whose walk_ns stands for the machine.
_USUAL_PAGES = 8192


@dataclass(frozen=True, slots=True)
class CurvePoint:
    """Time per access at one footprint, in ns: a row of the `curve` table."""

    probe: str
    page_size_bytes: int
    layout: str
    spacing_bytes: int
    access: str
    lines: int
    ns: Interval


@dataclass(frozen=True, slots=True)
class Analysis:
    """What the samples say.

    `notes` are sentences about what is missing or limited; `unsettled` names what would be more
    certain if it were measured longer.
    """

    costs: tuple[Cost, ...]
    curve: tuple[CurvePoint, ...]
    notes: tuple[str, ...]
    unsettled: tuple[str, ...]


# The columns of `samples` that a curve over lines has in common: probe to access.
_CurveKey = tuple[str, int, str, str]
# What the two levels of a curve are called, by probe and access.
_QUANTITIES = {("tlb", "serial"): ("dtlb_entries", "stlb_entries")}


def candidates(samples: Sequence[Table]) -> tuple[Knee, ...]:
    """The ends of TLB levels that a first pass shows, to be measured once more."""
    first = read_samples(samples)
    return tuple(knee for key, found in _levels(first, ()).items() for knee in _knees(key, found))


def analyse(samples: Sequence[Table], confirmation: Sequence[Table] = ()) -> Analysis:
    """Calibrated quantities from `samples` tables. Raises TlbcostError if they are of no use.

    `confirmation` is of a second pass, with lines around each of candidates(samples): entries
    that it does not show as well are not reported.
    """
    first, every = read_samples(samples), read_samples([*samples, *confirmation])
    second = read_samples(confirmation) if confirmation else None
    base, notes, unsettled = every.base_bytes, list(every.notes), []
    levels: dict[_CurveKey, Levels] = {}
    for key, found in _levels(first, every.page_sizes()).items():
        verdicts = [
            (knee, confirm(knee, second.curve(*key) if second else None))
            for knee in _knees(key, found)
        ]
        levels[key] = settle(found, [verdict for _, verdict in verdicts])
        doubts = [f"{_subject(knee)} {v.reason}" for knee, v in verdicts if v.reason]
        unsettled += doubts
        notes += [f"{doubt}: not reported" for doubt in doubts]
        if found.reason:
            notes.append(f"{_place(key)}: {found.reason}")
    data = levels[_data(base)]
    hit = find_hit(every.tlb(base, "spread", "serial"), "serial", data)
    covers = {size: entry_bytes(every, size, data, hit) for size in every.page_sizes()}
    covers[base] = base
    costs: list[Cost] = []
    for size, covered in sorted(covers.items()):
        own = levels[_data(size)]
        costs.append(_entries("dtlb_entries", size, own.first))
        costs.append(_entries("stlb_entries", size, own.second))
        if size != base:
            exact = None if covered is None else Interval(covered, covered, covered)
            costs.append(Cost("tlb_entry_bytes", size, None, None, exact, 0))
            if covered == base:
                notes.append(_splintered(size, every))
        for access in _ACCESSES:
            spread = every.tlb(size, "spread", access)
            hit = find_hit(spread, access, own)
            costs.append(hit_cost("stlb_hit_ns", size, access, hit))
            reference = _reference(every, access, data, covers)
            if size != base and covered == base:
                # Of the walks of pieces the dense chain has one at each line.
                costs += walk_costs("walk_ns", every.tlb(size, "dense", access), size, access,
                                    data, hit, reference)  # fmt: skip
            else:
                costs += walk_costs("walk_ns", spread, size, access, own, hit, reference)
        costs += [_single(every, "fault", size), _single(every, "unmap", size)]
    unsettled += _wide(costs, base)
    return Analysis(tuple(costs), tuple(_points(every)), tuple(notes), tuple(unsettled))


def _data(size: int) -> _CurveKey:
    return "tlb", size, "spread", "serial"


def _levels(samples: Samples, sizes: Sequence[int]) -> dict[_CurveKey, Levels]:
    """The levels that each curve shows, the base page's first; none for other `sizes` in bytes."""
    base = samples.base_bytes
    found = find_levels(samples.curve(*_data(base)))
    levels = {_data(base): found}
    hit = find_hit(samples.curve(*_data(base)), "serial", found)
    hit_ns = hit.interval.value if hit else None
    for size in sorted({*samples.page_sizes(), *sizes}):
        if size != base:
            levels[_data(size)] = find_levels(samples.curve(*_data(size)), hit_ns)
    return levels


def _knees(key: _CurveKey, found: Levels) -> list[Knee]:
    intervals = zip(_QUANTITIES[key[0], key[3]], (found.first, found.second), strict=True)
    return [
        Knee(quantity, key[1], key[0], key[2], key[3], interval)
        for quantity, interval in intervals
        if interval is not None
    ]


def _place(key: _CurveKey) -> str:
    return f"on {units.size(key[1])} pages"


def _subject(knee: Knee) -> str:
    return f"{knee.quantity} of {units.size(knee.page_size_bytes)} pages:"


def _splintered(size: int, samples: Samples) -> str:
    pages, base = units.size(size), units.size(samples.base_bytes)
    if samples.huge_bytes is not None and size >= samples.huge_bytes:
        why = f"the hypervisor backs {pages} pages with {base} ones, so that the TLB holds these"
    else:
        why = f"the TLB holds {pages} pages as {base} ones"
    return f"{why}; footprints of walks count them"


def _reference(
    samples: Samples, access: Access, data: Levels, covers: dict[int, int | None]
) -> Reference:
    base = samples.base_bytes
    packed = samples.packed_page_bytes or base
    covered = covers.get(packed)
    if packed == base or covered == base:
        walks = samples.tlb(packed, "spread" if packed == base else "dense", access)
        return Reference(samples.packed_spacing_bytes, base, data, walks)
    return Reference(samples.packed_spacing_bytes, packed, data, None)


def _entries(quantity: str, size: int, interval: Interval | None) -> Cost:
    return Cost(quantity, size, None, None, interval, 0)


def _single(samples: Samples, probe: str, size: int) -> Cost:
    nothing = Cost(f"{probe}_ns", size, None, None, None, 0)
    values = samples.singles.get((probe, size))
    if values is None:
        return nothing
    return replace(nothing, interval=bootstrap.median(values), samples=len(values))


def _wide(costs: list[Cost], base: int) -> list[str]:
    """What is known too roughly of the base page's costs, as sentences."""
    wide = []
    for cost in costs:
        usual = cost.quantity == "stlb_hit_ns" or cost.pages == _USUAL_PAGES
        known = cost.interval
        if cost.access != "serial" or cost.page_size_bytes != base or not usual or known is None:
            continue
        if max(known.high - known.value, known.value - known.low) > _WIDE * known.value:
            wide.append(f"{cost.quantity} lies between {known.low:.3g} and {known.high:.3g} ns")
    return wide


def _points(samples: Samples) -> list[CurvePoint]:
    return [
        CurvePoint(key.probe, key.page_size_bytes, key.layout, key.spacing_bytes, key.access,
                   int(lines), ns)
        for key, curve in samples.curves.items()
        for i, lines in enumerate(curve.lines)
        if (ns := bootstrap.median(curve.column(i))) is not None
    ]  # fmt: skip
