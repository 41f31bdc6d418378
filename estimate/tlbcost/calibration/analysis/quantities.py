# SPDX-License-Identifier: GPL-2.0-or-later
"""Calibrated quantities: TLB entries, costs of hits, walks and faults, caches, clock.

Pure functions from `samples` tables to calibrated quantities and the curves behind them. What
the samples do not show is None, with a note that gives the reason.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tlbcost.calibration.analysis import levels as tlb_levels
from tlbcost.calibration.analysis import walks as page_walks
from tlbcost.calibration.analysis.samples import Samples, read_samples
from tlbcost.calibration.records import Access, Cost
from tlbcost.common import bootstrap, units
from tlbcost.common.formats import Table
from tlbcost.common.units import Interval

_ACCESSES: tuple[Access, ...] = ("serial", "overlapped")
# A cost whose interval is wider than this share on either side is worth measuring longer.
_WIDE = 0.15
# The footprint whose walk_ns stands for the machine.
_USUAL_PAGES = 8192
# The clock is steady if the medians of N parts of the run differ by less than this share.
_CLOCK_PARTS = 8
_STEADY = 0.05


@dataclass(frozen=True, slots=True)
class CostPoint:
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
    curve: tuple[CostPoint, ...]
    notes: tuple[str, ...]
    unsettled: tuple[str, ...]


_Part = tuple[list[Cost], list[str]]  # rows of a calibration, and notes
# The columns of `samples` that a curve over lines has in common: probe to access.
_CurveKey = tuple[str, int, str, str]
# What the ends of a curve's levels are called, by probe and access.
_QUANTITIES: dict[tuple[str, str], tuple[str, ...]] = {
    ("tlb", "serial"): ("dtlb_entries", "stlb_entries"),
    ("tlb", "store"): ("dtlb_store_entries",),
    ("code", "serial"): ("itlb_entries",),
}


def candidates(samples: Sequence[Table]) -> tuple[tlb_levels.Knee, ...]:
    """The ends of TLB levels that a first pass shows, to be measured once more."""
    found = _all_levels(read_samples(samples), ())
    return tuple(knee for key, levels in found.items() for knee in _knees(key, levels))


def analyse(samples: Sequence[Table], confirmation: Sequence[Table] = ()) -> Analysis:
    """Quantities of the samples; entries that `confirmation` does not show are left out."""
    first, every = read_samples(samples), read_samples([*samples, *confirmation])
    second = read_samples(confirmation) if confirmation else None
    levels: dict[_CurveKey, tlb_levels.Levels] = {}
    notes, unsettled = list(every.notes), []
    for key, found in _all_levels(first, every.page_sizes()).items():
        doubts = []
        verdicts = []
        for knee in _knees(key, found):
            verdict = tlb_levels.confirm(knee, second.curve(*key) if second else None)
            verdicts.append(verdict)
            if verdict.entries is None:
                doubts.append(f"{knee.quantity} of {_place(key)}: {verdict.reason}")
        levels[key] = tlb_levels.settle(found, verdicts)
        pieces = every.tlb(key[1], "dense", "serial") and not every.curve(*key)
        if found.reason and key[3] != "store" and not pieces:
            notes.append(f"on {_place(key)} {found.reason}")
            if key == _data(first.base_bytes) and found.reason != tlb_levels.ONE_LEVEL:
                unsettled.append(notes[-1])
        notes += [f"{doubt}: not reported" for doubt in doubts]
        unsettled += doubts
    # Footprints that the second pass alone has say where a knee is; the memory of that pass is
    # smaller, so that their costs are not those of their neighbours.
    usual = every.at_footprints_of(first)
    parts = [
        clock(usual),
        page_walks.caches(usual),
        (page_walks.load_rows(every), []),
        *_page_sizes(usual, levels),
        tlb_levels.shape(
            usual, levels[_data(usual.base_bytes)], levels.get(_data(usual.base_bytes, "store"))
        ),
        _code(usual, levels),
    ]
    costs = [cost for part, _ in parts for cost in part]
    notes += [note for _, part in parts for note in part]
    unsettled += _wide(costs, every.base_bytes)
    return Analysis(tuple(costs), tuple(_points(every)), tuple(notes), tuple(unsettled))


def _data(size: int, access: str = "serial") -> _CurveKey:
    return "tlb", size, "spread", access


def _code_key(base: int) -> _CurveKey:
    return "code", base, "spread", "serial"


def _place(key: _CurveKey) -> str:
    words = {"code": " of code", "store": " for stores"}
    return f"{units.size(key[1])} pages{words.get(key[0]) or words.get(key[3]) or ''}"


def _all_levels(samples: Samples, sizes: Sequence[int]) -> dict[_CurveKey, tlb_levels.Levels]:
    """The levels that each curve shows, the base page's first; none for other `sizes` in bytes."""
    base = samples.base_bytes
    share = samples.packed_spacing_bytes / base
    packed = share if samples.packed_page_bytes in (None, base) else 0.0
    found = tlb_levels.find_levels(samples.curve(*_data(base)), None, packed)
    levels = {_data(base): found}
    hit = page_walks.find_hit(samples.curve(*_data(base)), "serial", found)
    hit_ns = hit.interval.value if hit else None
    for size in sorted({*samples.page_sizes(), *sizes} - {base}):
        levels[_data(size)] = tlb_levels.find_levels(samples.curve(*_data(size)), hit_ns)
    # Packed code lies in base pages.
    for key, taken in ((_data(base, "store"), packed), (_code_key(base), share)):
        curve = samples.curve(*key)
        if curve is not None:
            levels[key] = tlb_levels.find_levels(curve, None, taken)
    return levels


def _knees(key: _CurveKey, found: tlb_levels.Levels) -> list[tlb_levels.Knee]:
    ends = zip(_QUANTITIES[key[0], key[3]], (found.first, found.second), strict=False)
    return [
        tlb_levels.Knee(quantity, key[1], key[0], key[2], key[3], end)
        for quantity, end in ends
        if end
    ]


def _page_sizes(samples: Samples, levels: dict[_CurveKey, tlb_levels.Levels]) -> Iterator[_Part]:
    base = samples.base_bytes
    data = levels[_data(base)]
    hit = page_walks.find_hit(samples.tlb(base, "spread", "serial"), "serial", data)
    covers: dict[int, int | None] = {
        size: page_walks.entry_bytes(samples, size, data, hit) for size in samples.page_sizes()
    }
    covers[base] = base
    for size, covered in sorted(covers.items()):
        own, notes = levels[_data(size)], []
        costs = [
            Cost("dtlb_entries", size, interval=own.first),
            Cost("stlb_entries", size, interval=own.second),
        ]
        if size != base:
            exact = None if covered is None else Interval(covered, covered, covered)
            costs.append(Cost("tlb_entry_bytes", size, interval=exact))
            if covered == base:
                notes.append(_splintered(size, samples))
        for access in _ACCESSES:
            spread = samples.tlb(size, "spread", access)
            hit = page_walks.find_hit(spread, access, own)
            costs.append(page_walks.hit_cost("stlb_hit_ns", size, access, hit))
            reference = _reference(samples, access, data, covers)
            # Where the TLB holds pieces of pages, only dense chains have each of them once.
            curve, at = (
                (samples.tlb(size, "dense", access), data)
                if size != base and covered == base
                else (spread, own)
            )
            costs += page_walks.walk_costs("walk_ns", curve, size, access, at, hit, reference)
            if access == "overlapped":
                costs += page_walks.walk_intervals(curve, size, at)
        if size == base:
            costs += page_walks.walks_side_by_side(
                samples, [c for c in costs if (c.quantity == "walk_ns" and c.access == "serial")]
            )
            rows, reason = page_walks.walk_caches(samples)
            costs += rows
            notes += [f"walk_cache_regions: {reason}"] if reason else []
        costs += [_single(samples, "fault", size), _single(samples, "unmap", size)]
        yield costs, notes


def _code(samples: Samples, levels: dict[_CurveKey, tlb_levels.Levels]) -> _Part:
    base = samples.base_bytes
    found = levels.get(_code_key(base))
    if found is None:
        return [], []
    curve = samples.curve(*_code_key(base))
    hit = page_walks.find_hit(curve, "serial", found)
    reference = page_walks.Reference(samples.packed_spacing_bytes, base, found, curve)
    return [
        Cost("itlb_entries", base, interval=found.first),
        page_walks.hit_cost("itlb_miss_ns", base, "serial", hit),
        *page_walks.walk_costs("code_walk_ns", curve, base, "serial", found, hit, reference),
    ], []


def _splintered(size: int, samples: Samples) -> str:
    pages, base = units.size(size), units.size(samples.base_bytes)
    if samples.huge_bytes is not None and size >= samples.huge_bytes:
        why = f"the hypervisor backs {pages} pages with {base} ones, so that the TLB holds these"
    else:
        why = f"the TLB holds {pages} pages as {base} ones"
    return f"{why}; footprints of walks count them"


def _reference(
    samples: Samples, access: Access, data: tlb_levels.Levels, covers: dict[int, int | None]
) -> page_walks.Reference:
    base = samples.base_bytes
    packed = samples.packed_page_bytes or base
    covered = covers.get(packed)
    if packed == base or covered == base:
        walks = samples.tlb(packed, "spread" if packed == base else "dense", access)
        return page_walks.Reference(samples.packed_spacing_bytes, base, data, walks)
    return page_walks.Reference(samples.packed_spacing_bytes, packed, data, None)


def _single(samples: Samples, probe: str, size: int) -> Cost:
    nothing = Cost(f"{probe}_ns", size)
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


def _points(samples: Samples) -> list[CostPoint]:
    return [
        CostPoint(key.probe, key.page_size_bytes, key.layout, key.spacing_bytes, key.access,
                   int(lines), ns)
        for key, curve in samples.curves.items()
        for i, lines in enumerate(curve.lines)
        if (ns := bootstrap.median(curve.column(i))) is not None
    ]  # fmt: skip


def clock(samples: Samples) -> tuple[list[Cost], list[str]]:
    """Cycles per ns, and a note if they changed during the run."""
    times = samples.singles.get(("cycles", None))
    if times is None:
        return [], []
    rates = 1 / times
    row = Cost("cycles_per_ns", interval=bootstrap.median(rates), samples=len(rates))
    parts = [float(np.median(part)) for part in np.array_split(rates, _CLOCK_PARTS) if len(part)]
    low, high = min(parts), max(parts)
    if len(rates) < 3 * _CLOCK_PARTS or high - low <= _STEADY * float(np.median(rates)):
        return [row], []
    return [row], [f"the clock changed while it was measured: {low:.2f} to {high:.2f} cycles/ns"]
