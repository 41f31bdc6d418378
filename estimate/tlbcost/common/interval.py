# SPDX-License-Identifier: GPL-2.0-or-later
"""A value with its interval, and the statistics that yield one."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated

from tlbcost.common.document import doc


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the interval that it is believed to lie in."""

    value: Annotated[float, doc("the value")]
    low: Annotated[float, doc("lower end of its interval")]
    high: Annotated[float, doc("upper end of its interval")]

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"not an interval: {self.low} <= {self.value} <= {self.high}")

    def scaled(self, factor: float) -> Interval:
        """All of it times a factor that is not below zero."""
        return Interval(self.value * factor, self.low * factor, self.high * factor)

    def widened(self, error: float) -> Interval:
        """With another error that is independent of it."""
        low, high = self.value - self.low, self.high - self.value
        return Interval(
            self.value, self.value - math.hypot(low, error), self.value + math.hypot(high, error)
        )


# 95 % of a normal distribution are within this number of standard deviations of its mean.
_Z95 = 1.96
_OUTSIDE = 0.05


def spread_fraction(values: Sequence[float]) -> float | None:
    """Largest minus smallest over the median; None for a single value, which has no spread."""
    middle = median(values)
    if len(values) < 2 or middle <= 0:
        return None
    return (max(values) - min(values)) / middle


def median_bounds(values: Sequence[float]) -> tuple[float, float]:
    """The 95 % interval of the median of what was drawn, by order statistics.

    That is the smallest and the largest of up to eight values (of five, with 94 %; of fewer it
    is all that is known), and of more the interval that a median lies in whatever the
    distribution (H. A. David, Order Statistics, 1981, section 2.5).
    """
    ordered, n = sorted(values), len(values)
    left, outside = 0, 1 / 2**n
    while left + 1 < n - left - 1:
        outside += math.comb(n, left + 1) / 2**n
        if 2 * outside > _OUTSIDE:
            break
        left += 1
    return ordered[left], ordered[n - 1 - left]


def share_interval(share: float, n: int) -> tuple[float, float]:
    """The 95 % interval of a share that was seen in n > 0 independent samples.

    Wilson's (Journal of the American Statistical Association 22, 1927), which keeps within 0..1
    and says something of shares that no sample or every sample has.
    """
    shrink = 1 + _Z95**2 / n
    middle = (share + _Z95**2 / (2 * n)) / shrink
    half = _Z95 * math.sqrt(share * (1 - share) / n + _Z95**2 / (4 * n * n)) / shrink
    return max(0.0, middle - half), min(1.0, middle + half)


def centre(low: float, high: float) -> float:
    """The value to name for an interval.

    Where both ends are positive the unknown is a factor (how much of a cost is hidden), so that
    the median of a log-uniform distribution is meant, the geometric mean; else the midpoint.
    """
    if low > 0:
        # The clamp undoes rounding: the root may fall just outside [low, high].
        return min(max(math.sqrt(low) * math.sqrt(high), low), high)
    return min(max(low / 2 + high / 2, low), high)
