# SPDX-License-Identifier: GPL-2.0-or-later
"""TLB levels and their ways in a serial curve, and their confirmation by a second measurement."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from tlbcost.calibration.analysis.samples import LEAST_STEP_NS, Curve, Samples, Step, find_steps
from tlbcost.calibration.records import Cost
from tlbcost.common.units import Interval

# Farther out the caches, not the TLBs, make most of the curve's shape.
_NEAR_PAGES = 16384
# No second level is known to hold this many pages.
_BEYOND_ALL = 8192
# Two measurements of a knee may differ by this share.
AGREEMENT = 0.15
# A curve of fewer footprints shows nothing.
_FEWEST = 6
_TOO_SHORT = "the footprints do not reach beyond the second level"
ONE_LEVEL = "only one TLB level was found"
# A curve that ends below this share of its peak goes down.
_DOWN = 0.7
# What counts as the surroundings of a knee, as multiples of it.
_AROUND = (0.4, 2.5)
# Knees that do not move over as many doublings of the spacing are of one set.
_DOUBLINGS = 2
# A step between two lines is sharp if no more than this share of it lies on either side.
_FLAT = 0.2


@dataclass(frozen=True, slots=True)
class Levels:
    """The TLBs that a curve shows. None: not resolved, and `reason` says why.

    `first` and `second` are the entries of the two levels (of code: of the iTLB and behind it).
    """

    first: Interval | None
    second: Interval | None
    reason: str | None
    # Footprint from which accesses miss the first level.
    miss_from: float | None = None
    # Footprint up to which accesses that miss the first level still hit the second.
    hit_to: float | None = None
    # Entries of the last level, beyond which an access needs a walk.
    last: float | None = None

    def hit_range(self) -> tuple[float, float] | None:
        """Footprints between which nearly every access misses the first level only."""
        if self.miss_from is None or self.hit_to is None:
            return None
        low, high = 1.25 * self.miss_from, 0.6 * self.hit_to
        return (low, high) if low < high else None

    def walk_from(self) -> float | None:
        """The footprint from which on nearly every access of a ring needs a walk."""
        return None if self.last is None else 1.8 * self.last


def find_levels(
    curve: Curve | None, hit_ns: float | None = None, packed_pages: float = 0
) -> Levels:
    """The TLB entries that a serial curve shows: the footprints up to which it stays on a level.

    `hit_ns` is the cost of an STLB hit if it is known from another page size: it shows, where
    only one step is found, whether it is that of the second level or of walks. `packed_pages` is
    how many entries a line of the packed chain takes, where it lies in the same pages.
    """
    if curve is None:
        return Levels(None, None, "nothing was measured")
    near = curve.lines <= _NEAR_PAGES
    deltas = curve.deltas[:, near]
    curve = Curve(curve.lines[near], deltas[~np.isnan(deltas).all(axis=1)])
    if len(curve.lines) < _FEWEST:
        most = 0 if len(curve.lines) == 0 else int(curve.lines[-1])
        return Levels(None, None, f"too few footprints were measured, {most} pages at most")
    curve = _without_packed(curve, packed_pages)
    steps = find_steps(curve)
    if not steps:
        return Levels(None, None, "no step above the noise in translation time over footprint")
    first = steps[0]
    if first is not None and first.low_ns > LEAST_STEP_NS:
        # Even the smallest footprint misses the first level: its end was not seen.
        return Levels(None, None, "the first level's end is below the smallest footprint")
    if first is None:
        return Levels(None, None, "the end of the first level is not clear")
    miss = first.at.value
    if len(steps) == 1:
        largest = float(curve.lines[-1])
        if hit_ns is not None and first.high_ns <= 2 * hit_ns + 1:
            return Levels(first.at, None, _TOO_SHORT, miss, hit_to=largest)
        if largest < _BEYOND_ALL:
            why = "only one step was found, and the footprints end too early "
            return Levels(first.at, None, f"{why}to tell a second level from walks", miss)
        return Levels(first.at, None, ONE_LEVEL, miss, last=miss)
    second = steps[1]
    if second is None:
        return Levels(first.at, None, "the end of the second level is not clear", miss)
    if curve.lines[-1] < 1.5 * second.at.value:
        # The curve was still rising, so that a third of its height is not known.
        return Levels(first.at, None, _TOO_SHORT, miss, hit_to=second.at.low)
    end = second.at.value
    return Levels(first.at, second.at, None, miss, hit_to=end, last=end)


def _without_packed(curve: Curve, packed_pages: float) -> Curve:
    """Add what packed chains pay, so that the curve does not go down, and cut its end."""
    if not packed_pages:
        return curve
    first = _leftmost(curve, 1)
    if first is None:
        return curve
    misses = np.clip(1 - first.at.value / (curve.lines * packed_pages), 0, None)
    curve = Curve(curve.lines, curve.deltas + misses * first.high_ns)
    second = _leftmost(curve, 2)
    if second is None or curve.medians[-1] > _DOWN * curve.medians.max():
        return curve
    return _between(curve, 0, second.at.value / packed_pages) or curve


def _leftmost(curve: Curve, number: int) -> Step | None:
    before = 0.0
    for end in range(_FEWEST, len(curve.lines) + 1):
        largest = float(curve.lines[end - 1])
        if largest < 1.4 * before:
            continue
        before = largest
        steps = find_steps(Curve(curve.lines[:end], curve.deltas[:, :end]), most=number)
        found = steps[-1] if len(steps) == number else None
        if found is not None and largest >= 2 * found.at.value:
            return found
    return None


@dataclass(frozen=True, slots=True)
class Knee:
    """A step that a first measurement shows, for a second one to confirm."""

    quantity: str
    page_size_bytes: int
    probe: str
    layout: str
    access: str
    entries: Interval


@dataclass(frozen=True, slots=True)
class Confirmation:
    """What a second measurement says of a knee: `entries` None is not confirmed, and why.

    `refuted`: it was looked for, and there is no step at all.
    """

    entries: Interval | None
    reason: str = ""
    refuted: bool = False


def confirm(knee: Knee, curve: Curve | None) -> Confirmation:
    """Is the knee there once more in `curve`, measured anew with lines around it?"""
    entries = knee.entries
    again = None if curve is None else _between(curve, *(f * entries.value for f in _AROUND))
    if again is None:
        return Confirmation(None, "not measured a second time")
    steps = find_steps(again, most=1)
    if not steps or steps[0] is None:
        return Confirmation(None, "a second measurement does not show it", refuted=True)
    at = steps[0].at
    if not _agree(entries, at):
        return Confirmation(None, f"measured first {entries.value:.0f}, then {at.value:.0f}")
    # The second one has the footprints closer together.
    value = math.sqrt(entries.value * at.value)
    return Confirmation(Interval(value, min(entries.value, at.low), max(entries.value, at.high)))


def same_in_halves(curve: Curve, step: Step, find: Callable[[Curve], list[Step]]) -> Confirmation:
    """Whether even and odd sweeps, of different memory, both show the step."""
    for half in (curve.deltas[0::2], curve.deltas[1::2]):
        if not any(_agree(step.at, other.at) for other in find(Curve(curve.lines, half))):
            return Confirmation(None, "half of the sweeps do not show it there")
    return Confirmation(step.at)


def _agree(one: Interval, other: Interval) -> bool:
    overlap = one.low <= other.high and other.low <= one.high
    return overlap or abs(other.value / one.value - 1) <= AGREEMENT


def settle(levels: Levels, verdicts: Sequence[Confirmation]) -> Levels:
    """The levels that a second measurement leaves; a verdict for each that was found, in order.

    Costs at footprints far from a knee hold wherever exactly it is, unless there is none.
    """
    if not verdicts:
        return levels
    alone = levels.second is None
    levels = replace(levels, first=verdicts[0].entries)
    if verdicts[0].refuted:
        # What lies beyond it are not hits, and if it was the only level, not walks.
        last = None if alone else levels.last
        levels = replace(levels, miss_from=None, hit_to=None, last=last)
    if len(verdicts) > 1:
        levels = replace(levels, second=verdicts[1].entries)
        if verdicts[1].refuted:
            levels = replace(levels, hit_to=None, last=None)
    return levels


def _between(curve: Curve, low: float, high: float) -> Curve | None:
    near = (curve.lines >= low) & (curve.lines <= high)
    if np.count_nonzero(near) < _FEWEST:
        return None
    return Curve(curve.lines[near], curve.deltas[:, near])


def shape(samples: Samples, data: Levels, stores: Levels | None) -> tuple[list[Cost], list[str]]:
    """Ways of the base page's TLBs and entries for stores alone, as rows, and notes."""
    base = samples.base_bytes
    costs, notes = [], []
    if samples.spaced("tlb", base, "strided", "serial"):
        for i, (name, entries) in enumerate((("dtlb", data.first), ("stlb", data.second))):
            found, reason = ways(samples, i, entries)
            costs.append(Cost(f"{name}_ways", base, interval=found))
            notes += [f"{name}_ways: {reason}"] if reason else []
    if stores is not None:
        own, reason = stores.first, ""
        if stores.miss_from is None:
            reason = "stores show no step: what they miss may be hidden behind the store buffer"
        elif own and data.first and abs(own.value / data.first.value - 1) <= AGREEMENT:
            own, reason = None, "stores miss where loads do, so that they have no TLB of their own"
        costs.append(Cost("dtlb_store_entries", base, interval=own))
        notes += [f"dtlb_store_entries: {reason}"] if reason else []
    return costs, notes


def ways(samples: Samples, level: int, entries: Interval | None) -> tuple[Interval | None, str]:
    """Ways of a level (0, 1) of the base page's TLB; None, and the reason.

    With pages 2, 4, 8, ... apart the level holds half as many each time, until all are in one set
    and their number is the ways; where the index mixes higher bits of the page number in, that
    needs a larger spacing than there are sets. With the entries they must make a power of two of
    sets.
    """
    base = samples.base_bytes
    knees: list[tuple[Interval, int | None]] = []
    for curve in samples.spaced("tlb", base, "strided", "serial").values():
        steps = find_steps(curve)
        step = steps[level] if len(steps) > level else None
        if step is not None:
            knees.append((step.at, _sharp(curve, step)))
    if entries is None:
        return None, "the entries are not known"
    last = knees[-_DOUBLINGS - 1 :]
    values = [at.value for at, _ in last]
    if len(last) <= _DOUBLINGS or max(values) > (1 + AGREEMENT) * min(values):
        return None, "pages far apart do not settle on one number that the level holds"
    exact = {held for _, held in last}
    sharp = exact.pop() if len(exact) == 1 else None
    held = sharp or float(np.median(values))
    sets = 2 ** round(math.log2(entries.value / held))
    if abs(entries.value / (held * sets) - 1) > AGREEMENT:
        return None, f"{held:.0f} pages fit that are far apart: not what the entries make expect"
    if sharp:
        return Interval(sharp, sharp, sharp), ""
    # The slope of a replacement that is not LRU begins below the ways and ends above them.
    count = round(entries.value / sets)
    return Interval(count, min(count, *values), max(count, *values)), ""


def _sharp(curve: Curve, step: Step) -> int | None:
    """The lines that fit if one more misses always; None if the step is a slope."""
    fit = int(np.searchsorted(curve.lines, step.at.value, side="right")) - 1
    lines = curve.lines[fit : fit + 2]
    if len(lines) < 2 or lines[1] != lines[0] + 1:
        return None
    rise = (curve.medians[fit : fit + 2] - step.low_ns) / (step.high_ns - step.low_ns)
    return int(lines[0]) if rise[0] < _FLAT and rise[1] > 1 - _FLAT else None
