# SPDX-License-Identifier: GPL-2.0-or-later
"""A value and the interval that it is believed to lie in."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
