# SPDX-License-Identifier: GPL-2.0-or-later
"""Where does a curve of times over footprint step up? Change points of the whole curve."""

from __future__ import annotations

import math
from dataclasses import dataclass
from itertools import combinations, pairwise

import numpy as np
from tlbcost.bootstrap import Floats, resamples
from tlbcost.records import Interval

# Steps are looked for on a scale of ratios, above this: an STLB hit costs 1 ns or more anywhere.
_FLOOR_NS = 0.25
# A step is at least this large, this ratio, and this many standard errors of its neighbours.
LEAST_STEP_NS = 0.5
_LEAST_RATIO = 1.5
_LEAST_ERRORS = 5
# Another step must explain this share of what the fit without it leaves.
_LEAST_GAIN = 0.4
# The entries are what still fits: the footprint where the curve is a third of the way up. Under
# true LRU any point of the step would do; real replacement makes it a slope around the capacity.
_CROSSING = 1 / 3


@dataclass(frozen=True, slots=True)
class Curve:
    """Paired differences, far apart minus packed, in ns.

    `deltas` has one row per sweep and one column per footprint of `lines` (ascending); NaN where
    a sweep did not get to a footprint.
    """

    lines: Floats
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
class Step:
    """Where a curve goes from one level to the next: the last footprint of the lower one."""

    at: Interval
    low_ns: float
    high_ns: float


def find_steps(curve: Curve, most: int = 2) -> list[Step | None]:
    """The steps of a curve, at most so many; None: there is one, but where is not clear."""
    curve = Curve(curve.lines, curve.deltas[~np.isnan(curve.deltas).all(axis=1)])
    cuts = _fit(curve, most)
    heights = [float(np.median(curve.medians[a:b])) for a, b in pairwise(cuts)]
    return [
        _step(curve, cuts[i], cuts[i + 2], heights[i], heights[i + 1])
        for i in range(len(heights) - 1)
    ]


def _fit(curve: Curve, most: int) -> list[int]:
    """Cut the curve into levels: the indices at which they begin, and the end."""
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
    for steps in range(1, most + 1):
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
    return [0, *best, n]


def _are_steps(curve: Curve, cuts: tuple[int, ...]) -> bool:
    values = curve.medians
    errors = np.array([_standard_error(curve.column(i)) for i in range(len(values))])
    for (a, b), (_, c) in pairwise(pairwise([0, *cuts, len(values)])):
        low, high = float(np.median(values[a:b])), float(np.median(values[b:c]))
        noise = max(float(np.median(errors[a:b])), float(np.median(errors[b:c])))
        if high - low < max(LEAST_STEP_NS, _LEAST_ERRORS * noise):
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


def _step(curve: Curve, start: int, end: int, low: float, high: float) -> Step | None:
    """Where the curve crosses from one level to the next, with its interval.

    The interval covers the resampled sweeps, and the footprints next to the crossing: between
    them nothing was measured.
    """
    threshold = low + _CROSSING * (high - low)
    found = _crossing(curve.lines, curve.medians, start, end, threshold)
    if found is None:
        return None
    value, before, after = found
    rows = resamples(len(curve.deltas))
    others = []
    for row in rows[:100]:
        with np.errstate(all="ignore"):
            medians = np.nanmedian(curve.deltas[row], axis=0)
        other = _crossing(curve.lines, medians, start, end, threshold)
        if other is not None:
            others.append(other[0])
    low_end, high_end = np.percentile(others, [2.5, 97.5]) if others else (value, value)
    at = Interval(value, min(before, float(low_end)), max(after, float(high_end)))
    return Step(at, low, high)


def _crossing(
    lines: Floats, medians: Floats, start: int, end: int, threshold: float
) -> tuple[float, float, float] | None:
    for i in range(start + 1, end):
        a, b = float(medians[i - 1]), float(medians[i])
        # One high footprint alone is noise.
        if a < threshold <= b and (i + 1 == end or medians[i + 1] >= threshold):
            share = (threshold - a) / (b - a)
            value = lines[i - 1] * (lines[i] / lines[i - 1]) ** share
            return float(value), float(lines[i - 1]), float(lines[i])
    return None
