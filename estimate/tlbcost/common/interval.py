# SPDX-License-Identifier: GPL-2.0-or-later
"""A value and the interval that it is believed to lie in."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Interval:
    """A value and the interval that it is believed to lie in."""

    value: float
    low: float
    high: float

    def __post_init__(self) -> None:
        if not self.low <= self.value <= self.high:
            raise ValueError(f"not an interval: {self.low} <= {self.value} <= {self.high}")
