# SPDX-License-Identifier: GPL-2.0-or-later
"""Where does translation time step up over footprint? Finds the TLB levels in one serial curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray
from tlbcost.records import Interval

Floats = NDArray[np.float64]

REPLICATES = 400
_SEED = 20
# Steps are looked for on a scale of ratios, above this: an STLB hit costs 1 ns or more anywhere.
_FLOOR_NS = 0.25
# A step is at least this large, this ratio, and this many standard errors of its neighbours.
_LEAST_STEP_NS = 0.5
_LEAST_RATIO = 1.5
_LEAST_ERRORS = 5
# Another step must explain this share of what the fit without it leaves.
_LEAST_GAIN = 0.4
# Farther out the caches, not the TLBs, make most of the curve's shape.
_NEAR_PAGES = 16384
# No second level is known to hold this many pages.
_BEYOND_ALL = 8192
# The entries are what still fits: the footprint where the curve is a third of the way up. Under
# true LRU any point of the step would do; real replacement makes it a slope around the capacity.
_CROSSING = 1 / 3


@dataclass(frozen=True, slots=True)
class Curve:
    """Paired differences, far apart minus packed, in ns.

    `deltas` has one row per sweep and one column per footprint of `pages` (ascending); NaN where
    a sweep did not get to a footprint.
    """

    pages: Floats
    deltas: Floats

    @property
    def medians(self) -> Floats:
        """Median difference at each footprint."""
        return np.asarray(np.nanmedian(self.deltas, axis=0), dtype=np.float64)

    def column(self, index: int) -> Floats:
        """The differences at one footprint."""
        values = self.deltas[:, index]
        return np.asarray(values[~np.isnan(values)], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Levels:
    """The TLBs that a curve shows. None: not resolved, and `reason` says why."""

    dtlb: Interval | None
    stlb: Interval | None
    reason: str | None
    # Footprint up to which accesses that miss the first level still hit the second.
    hit_to: float | None = None
    # Entries of the last level, beyond which an access needs a walk.
    last: float | None = None

    def hit_range(self) -> tuple[float, float] | None:
        """Footprints between which nearly every access misses the first level only."""
        if self.dtlb is None or self.hit_to is None:
            return None
        low, high = 1.25 * self.dtlb.value, 0.6 * self.hit_to
        return (low, high) if low < high else None

    def walk_from(self) -> float | None:
        """The footprint from which on nearly every access of a ring needs a walk."""
        return None if self.last is None else 1.8 * self.last


def find_levels(curve: Curve | None, hit_ns: float | None = None) -> Levels:
    """The TLB entries that a serial curve shows: the footprints up to which it stays on a level.

    `hit_ns` is the cost of an STLB hit if it is known from another page size: it tells, where
    only one step is found, whether that leads to the second level or to walks.
    """
    if curve is None:
        return Levels(None, None, "nothing was measured")
    near = curve.pages <= _NEAR_PAGES
    deltas = curve.deltas[:, near]
    curve = Curve(curve.pages[near], deltas[~np.isnan(deltas).all(axis=1)])
    if len(curve.pages) < 6:
        return Levels(None, None, "too few footprints were measured")
    bounds = _fit(curve)
    if bounds is None:
        return Levels(None, None, "no step above the noise in translation time over footprint")
    values = curve.medians
    cuts = [0, *bounds, len(values)]
    heights = [float(np.median(values[a:b])) for a, b in pairwise(cuts)]
    knees = [
        _knee(curve, cuts[i], cuts[i + 2], heights[i], heights[i + 1])
        for i in range(len(heights) - 1)
    ]
    if heights[0] > _LEAST_STEP_NS:
        # Even the smallest footprint misses the first level: its end was not seen.
        return Levels(None, None, "the first level's end is below the smallest footprint")
    if len(knees) == 1:
        return _one_step(curve, knees[0], heights[1], hit_ns)
    dtlb, stlb = knees
    if stlb is None:
        return Levels(dtlb, None, "the end of the second level is not clear")
    if curve.pages[-1] < 1.5 * stlb.value:
        # The curve was still rising, so that a third of its height is not known.
        return Levels(dtlb, None, "the footprints do not reach beyond the second level",
                      hit_to=stlb.low)  # fmt: skip
    return Levels(dtlb, stlb, None, hit_to=stlb.value, last=stlb.value)


def _one_step(curve: Curve, dtlb: Interval | None, height: float, hit_ns: float | None) -> Levels:
    largest = float(curve.pages[-1])
    if hit_ns is not None and height <= 2 * hit_ns + 1:
        return Levels(dtlb, None, "the footprints do not reach beyond the second level",
                      hit_to=largest)  # fmt: skip
    if dtlb is None or largest < _BEYOND_ALL:
        return Levels(dtlb, None, "only one step was found, and the footprints end too early "
                      "to tell a second level from walks")  # fmt: skip
    return Levels(dtlb, None, "only one TLB level was found", last=dtlb.value)


def resamples(rows: int) -> NDArray[np.int64]:
    """Row numbers of bootstrap replicates, the same every time: shape (REPLICATES, rows)."""
    return np.random.default_rng(_SEED).integers(0, rows, (REPLICATES, rows))


def _fit(curve: Curve) -> tuple[int, ...] | None:
    """Cut the curve into two or three levels; None if it has but one."""
    values = curve.medians
    scaled = np.log(np.maximum(values, 0) + _FLOOR_NS)
    n = len(values)
    costs = np.zeros((n, n + 1))
    for a in range(n):
        for b in range(a + 1, n + 1):
            part = scaled[a:b]
            costs[a, b] = np.abs(part - np.median(part)).sum()
    best: tuple[int, ...] = ()
    cost = costs[0, n]
    for steps in (1, 2):
        # A level has three footprints at least, so that a slope is not taken for one; only the
        # first may have two.
        candidates = [
            cut
            for cut in combinations(range(2, n - 1), steps)
            if all(b - a >= 3 for a, b in pairwise([*cut, n]))
        ]
        if not candidates:
            break
        totals = [sum(costs[a, b] for a, b in pairwise([0, *cut, n])) for cut in candidates]
        chosen = candidates[int(np.argmin(totals))]
        if min(totals) <= (1 - _LEAST_GAIN) * cost and _are_steps(curve, chosen):
            best, cost = chosen, min(totals)
    return best or None


def _are_steps(curve: Curve, cuts: tuple[int, ...]) -> bool:
    values = curve.medians
    errors = np.array([_standard_error(curve.column(i)) for i in range(len(values))])
    for (a, b), (_, c) in pairwise(pairwise([0, *cuts, len(values)])):
        low, high = float(np.median(values[a:b])), float(np.median(values[b:c]))
        noise = max(float(np.median(errors[a:b])), float(np.median(errors[b:c])))
        if high - low < max(_LEAST_STEP_NS, _LEAST_ERRORS * noise):
            return False
        if high + _FLOOR_NS < _LEAST_RATIO * (max(low, 0) + _FLOOR_NS):
            return False
    return True


def _standard_error(values: Floats) -> float:
    """Of a median: 1.25 standard deviations, taken from the MAD, over the root of n."""
    if len(values) < 2:
        return math.inf
    mad = float(np.median(np.abs(values - np.median(values))))
    return 1.25 * 1.4826 * mad / math.sqrt(len(values))


def _knee(curve: Curve, start: int, end: int, low: float, high: float) -> Interval | None:
    """Entries: where the curve crosses from one level to the next, with its interval in pages.

    The interval covers the resampled sweeps, and the footprints next to the crossing: between
    them nothing was measured.
    """
    threshold = low + _CROSSING * (high - low)
    found = _crossing(curve.pages, curve.medians, start, end, threshold)
    if found is None:
        return None
    value, before, after = found
    rows = resamples(len(curve.deltas))
    others = []
    for row in rows[:100]:
        with np.errstate(all="ignore"):
            medians = np.nanmedian(curve.deltas[row], axis=0)
        other = _crossing(curve.pages, medians, start, end, threshold)
        if other is not None:
            others.append(other[0])
    low_end, high_end = np.percentile(others, [2.5, 97.5]) if others else (value, value)
    return Interval(value, min(before, float(low_end)), max(after, float(high_end)))


def _crossing(
    pages: Floats, medians: Floats, start: int, end: int, threshold: float
) -> tuple[float, float, float] | None:
    for i in range(start + 1, end):
        a, b = float(medians[i - 1]), float(medians[i])
        # One high footprint alone is noise.
        if a < threshold <= b and (i + 1 == end or medians[i + 1] >= threshold):
            share = (threshold - a) / (b - a)
            value = pages[i - 1] * (pages[i] / pages[i - 1]) ** share
            return float(value), float(pages[i - 1]), float(pages[i])
    return None
