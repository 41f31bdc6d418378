# SPDX-License-Identifier: GPL-2.0-or-later
"""Steps of a curve of times over footprint: change points of the whole curve."""

from __future__ import annotations

import math
import warnings
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
from numpy.typing import NDArray

from tlbcost.common import bootstrap
from tlbcost.common.bootstrap import Floats, resamples
from tlbcost.common.interval import Interval

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
# As many times as steep as the whole curve.
_STEEP = 2.0
# Replicates of a crossing: more would not move the ends of its interval by as much as a footprint.
_REPLICATES = 100


@dataclass(frozen=True, slots=True)
class Curve:
    """Paired differences, far apart minus packed, in ns.

    `deltas` has one row per sweep and one column per footprint of `lines` (ascending); NaN where
    a sweep did not get to a footprint. `runs` has for each row the run of the calibrator that it
    is from; None: all from one. `packed`, of the same shape, has the time per access of the packed
    chain in ns, NaN where the time was not paired; None: the caller does not need them.
    """

    lines: Floats
    deltas: Floats
    runs: NDArray[np.int64] | None = None
    packed: Floats | None = None

    def interval(self, index: int) -> Interval | None:
        there = ~np.isnan(self.deltas[:, index])
        runs = None if self.runs is None else self.runs[there]
        return bootstrap.median(self.column(index), runs)

    @property
    def medians(self) -> Floats:
        return np.asarray(np.nanmedian(self.deltas, axis=0), dtype=np.float64)

    def column(self, index: int) -> Floats:
        values = self.deltas[:, index]
        return np.asarray(values[~np.isnan(values)], dtype=np.float64)


@dataclass(frozen=True, slots=True)
class Step:
    """Where a curve goes from one level to the next: the last footprint of the lower one."""

    at: Interval
    low_ns: float
    high_ns: float


def find_steps(curve: Curve, most: int = 2) -> list[Step | None]:
    curve = Curve(curve.lines, curve.deltas[~np.isnan(curve.deltas).all(axis=1)])
    cuts = _fit(curve, most)
    heights = [float(np.median(curve.medians[a:b])) for a, b in pairwise(cuts)]
    return [
        _step(curve, cuts[i], cuts[i + 2], heights[i], heights[i + 1])
        for i in range(len(heights) - 1)
    ]


def is_steep(curve: Curve, step: Step) -> bool:
    """Does the curve rise at the step much faster than all along, over log(lines)?"""
    after = int(np.searchsorted(curve.lines, step.at.value))
    if not 0 < after < len(curve.lines):
        return False
    logs, values = np.log(curve.lines), curve.medians
    here = (values[after] - values[after - 1]) / (logs[after] - logs[after - 1])
    along = (values[-1] - values[0]) / (logs[-1] - logs[0])
    return bool(here >= _STEEP * along)


def _fit(curve: Curve, most: int) -> list[int]:
    """Cut the curve into levels: the indices at which they begin, and the end."""
    values = curve.medians
    scaled = np.log(np.maximum(values, 0) + _FLOOR_NS)
    n = len(values)
    best, cost = [0, n], float(np.abs(scaled - np.median(scaled)).sum())
    for cuts, total in _segmentations(scaled, most):
        if total <= (1 - _LEAST_GAIN) * cost and _are_steps(curve, cuts):
            best, cost = cuts, total
    return best


def _segmentations(values: Floats, most: int) -> list[tuple[list[int], float]]:
    """The best cuts into two and more levels, with the sum of distances from their medians."""
    n = len(values)
    apart = np.full((n, n + 1), np.inf)
    for length in range(2, n + 1):
        parts = np.lib.stride_tricks.sliding_window_view(values, length)
        distances = np.abs(parts - np.median(parts, axis=1)[:, None]).sum(axis=1)
        # A level has three footprints at least, so that a slope is not taken for one; only the
        # first may have two.
        begins_at = np.arange(len(parts) if length > 2 else 1)
        apart[begins_at, begins_at + length] = distances[begins_at]
    found = []
    # Least cost of the first b values in one level, in two, ...; and where the last one begins.
    least, begins = apart[0], []
    for _ in range(most):
        totals = least[:n, None] + apart
        totals[0] = np.inf
        begins.append(np.argmin(totals, axis=0))
        least = np.min(totals, axis=0)
        if not np.isfinite(least[n]):
            break
        cuts = [n]
        for begin in reversed(begins):
            cuts.append(int(begin[cuts[-1]]))
        found.append(([0, *reversed(cuts)], float(least[n])))
    return found


def _are_steps(curve: Curve, cuts: list[int]) -> bool:
    values = curve.medians
    errors = np.array([_standard_error(curve.column(i)) for i in range(len(values))])
    for (a, b), (_, c) in pairwise(pairwise(cuts)):
        low, high = float(np.median(values[a:b])), float(np.median(values[b:c]))
        noise = max(float(np.median(errors[a:b])), float(np.median(errors[b:c])))
        if high - low < max(LEAST_STEP_NS, _LEAST_ERRORS * noise):
            return False
        if high + _FLOOR_NS < _LEAST_RATIO * (max(low, 0) + _FLOOR_NS):
            return False
    return True


def _standard_error(values: Floats) -> float:
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
    lines, deltas = curve.lines[start:end], curve.deltas[:, start:end]
    found = _crossing(lines, curve.medians[start:end], threshold)
    if found is None:
        return None
    value, before, after = found
    with warnings.catch_warnings():
        # A footprint that no sweep of a replicate got to has no median.
        warnings.simplefilter("ignore", RuntimeWarning)
        replicates = np.nanmedian(deltas[resamples(len(deltas))[:_REPLICATES]], axis=1)
    others = [other[0] for row in replicates if (other := _crossing(lines, row, threshold))]
    low_end, high_end = np.percentile(others, [2.5, 97.5]) if others else (value, value)
    at = Interval(value, min(before, float(low_end)), max(after, float(high_end)))
    return Step(at, low, high)


def _crossing(
    lines: Floats, medians: Floats, threshold: float
) -> tuple[float, float, float] | None:
    """Where `medians` go through `threshold` to stay, and the footprints next to it."""
    for i in range(1, len(lines)):
        a, b = float(medians[i - 1]), float(medians[i])
        # One high footprint alone is noise.
        if a < threshold <= b and (i + 1 == len(lines) or medians[i + 1] >= threshold):
            share = (threshold - a) / (b - a)
            value = lines[i - 1] * (lines[i] / lines[i - 1]) ** share
            return float(value), float(lines[i - 1]), float(lines[i])
    return None
