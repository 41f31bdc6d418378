# SPDX-License-Identifier: GPL-2.0-or-later
"""The bootstrap of a median, with the same draws every time."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tlbcost.common.units import Interval

Floats = NDArray[np.float64]

# Fewer values say nothing of their spread.
MIN_SAMPLES = 3
_REPLICATES = 400
_SEED = 20


def resamples(rows: int) -> NDArray[np.int64]:
    """Row numbers of replicates, the same every time: shape (400, rows)."""
    return np.random.default_rng(_SEED).integers(0, rows, (_REPLICATES, rows))


def median(values: Floats, runs: NDArray[np.int64] | None = None) -> Interval | None:
    """Median with its 95 % interval; None for fewer than MIN_SAMPLES values.

    `runs` has for each value the run of the calibrator that it is from. The interval is then at
    least that of the runs' medians: other memory moves a cost more than one run's spread shows.
    """
    if len(values) < MIN_SAMPLES:
        return None
    found = _interval(float(np.median(values)), np.median(values[resamples(len(values))], axis=1))
    each = [] if runs is None else [values[runs == run] for run in np.unique(runs)]
    medians = np.array([np.median(part) for part in each if len(part) >= MIN_SAMPLES])
    if len(medians) < 2:
        return found
    low, high = np.percentile(np.median(medians[resamples(len(medians))], axis=1), [2.5, 97.5])
    return Interval(found.value, min(found.low, float(low)), max(found.high, float(high)))


def ratio(above: Floats, below: Floats) -> Interval | None:
    """Ratio of two medians with its 95 % interval; None if the lower one may be zero."""
    if min(len(above), len(below)) < MIN_SAMPLES:
        return None
    tops = np.median(above[resamples(len(above))], axis=1)
    # Drawn from the other end, so that the same rows are not drawn together.
    bottoms = np.median(below[resamples(len(below))], axis=1)[::-1]
    middle = float(np.median(below))
    if middle <= 0 or float(np.percentile(bottoms, 2.5)) <= 0:
        return None
    return _interval(
        float(np.median(above)) / middle, tops / np.where(bottoms > 0, bottoms, np.nan)
    )


def _interval(value: float, replicates: Floats) -> Interval:
    low, high = np.nanpercentile(replicates, [2.5, 97.5])
    return Interval(value, min(value, float(low)), max(value, float(high)))
