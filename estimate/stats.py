# SPDX-License-Identifier: GPL-2.0-or-later
"""What single figure and what spread stand for several runs? Pure functions on plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones. Raises ValueError if there is none."""
    if not values:
        raise ValueError("no values")
    ordered = sorted(values)
    half = len(ordered) // 2
    if len(ordered) % 2:
        return ordered[half]
    return (ordered[half - 1] + ordered[half]) / 2


def spread_fraction(values: Sequence[float]) -> float | None:
    """Largest minus smallest over the median; None for a single value, which has no spread."""
    middle = median(values)
    if len(values) < 2 or middle <= 0:
        return None
    return (max(values) - min(values)) / middle


def centre(low: float, high: float) -> float:
    """The value to name for an interval.

    Where both ends are positive the unknown is a factor (how much of a cost is hidden), so that
    the median of a log-uniform distribution is meant, the geometric mean; else the midpoint.
    """
    if low > 0:
        # The clamp undoes rounding: the root may fall just outside [low, high].
        return min(max(math.sqrt(low) * math.sqrt(high), low), high)
    return min(max(low / 2 + high / 2, low), high)
