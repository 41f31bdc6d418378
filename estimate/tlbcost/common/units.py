# SPDX-License-Identifier: GPL-2.0-or-later
"""A value with its interval; counts, times, sizes and shares as they are written for people."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from statistics import median
from typing import Annotated, Any, final

from tlbcost.common.document import doc


@final
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


_BINARY = ((1 << 30, "GiB"), (1 << 20, "MiB"), (1 << 10, "KiB"))
NOT_OBTAINED = "NA"
_DOTS = "..."
ABOUT_ZERO = "about 0"
ZERO = "0 %"
_MORE_PLACES = 3


# Of each of the following, None is what was not obtained.


def size(n_bytes: int | None) -> str:
    """Bytes with three digits: '4 KiB', '1.5 GiB'."""
    if n_bytes is None:
        return NOT_OBTAINED
    for unit, name in _BINARY:
        if n_bytes >= unit:
            return f"{_three(n_bytes / unit)} {name}"
    return f"{n_bytes} B"


def time(ns: float | None) -> str:
    """A duration given in ns with three digits: '1.23 s', '45 ms', '-3 ms'."""
    if ns is None:
        return NOT_OBTAINED
    if ns == 0:
        return "0 s"
    unit, name = _time_unit(ns)
    return f"{_three(ns / unit)} {name}"


def times(low_ns: float, high_ns: float) -> str:
    """Two durations in one unit: '197-238 ms'."""
    unit, name = _time_unit(high_ns)
    return f"{_three(low_ns / unit)}-{_three(high_ns / unit)} {name}"


def sum_of_times(parts_ns: Sequence[float], total_ns: float) -> list[str]:
    """Durations and their total in one unit, with the fewest decimals that add up."""
    unit, name = _time_unit(max(map(abs, (*parts_ns, total_ns)), default=0.0) or 1.0)
    most = max(map(abs, (*parts_ns, total_ns)), default=0.0)
    places = max(0, 2 - math.floor(math.log10(max(most / unit, 1.0))))
    rounded: list[float] = []
    for more in range(_MORE_PLACES):
        rounded = [round(part / unit, places + more) for part in parts_ns]
        total = round(total_ns / unit, places + more)
        if abs(sum(rounded) - total) < 0.5 * 10 ** -(places + more):
            places += more
            break
    # Adding 0 makes 0 of -0.
    shown = (*rounded, round(total_ns / unit, places))
    return [f"{value + 0.0:,.{places}f} {name}" for value in shown]


def times_in_unit_of(first_ns: float, others_ns: Sequence[float]) -> tuple[str, list[str]]:
    """A duration with its unit, and others in the same unit without it."""
    unit, name = _time_unit(first_ns)
    return f"{_three(first_ns / unit)} {name}", [_three(other / unit) for other in others_ns]


def count(n: int | None) -> str:
    """A count with separators as long as it is short, else with a factor: '59.8 M'."""
    if n is None:
        return NOT_OBTAINED
    if abs(n) < 1_000_000:
        return f"{n:,}"
    for unit, name in ((1e9, "G"), (1e6, "M")):
        if abs(n) >= unit * 0.9995:
            return f"{_three(n / unit)} {name}"
    return f"{n:,}"


def known(value: object, write: Callable[[Any], str] = str) -> str:
    return NOT_OBTAINED if value is None else write(value)


def percent(fraction: float | None) -> str:
    """A share 0..1 as percent: two significant digits below 10 %, whole percent above.

    Shares below 0.05 % are 'about 0': '0 %' would read as 'nothing at all'.
    """
    if fraction is None:
        return NOT_OBTAINED
    value = 100 * fraction
    if value == 0:
        return ZERO
    if abs(value) < 0.05:
        return ABOUT_ZERO
    return f"{value:.1f} %" if abs(value) < 9.95 else f"{value:.0f} %"


def range_of(interval: Interval | None) -> str:
    """The interval's bounds as percent: '12 % to 38 %', or one where both read alike."""
    if interval is None:
        return NOT_OBTAINED
    low, high = percent(interval.low), percent(interval.high)
    if {low, high} == {ZERO, ABOUT_ZERO}:
        return ABOUT_ZERO
    return low if low == high else f"{low} to {high}"


def shortened(text: str, columns: int) -> str:
    """The end of what is too long for its column: the end of a path says most."""
    return text if len(text) <= columns else f"...{text[3 - columns :]}"


def middle(text: str, columns: int) -> str:
    """The start and the end of what is too long."""
    if len(text) <= columns:
        return text
    kept = columns - len(_DOTS)
    return text[: kept - kept // 2] + _DOTS + text[len(text) - kept // 2 :]


def nanoseconds(ns: float) -> str:
    """A cost in ns, without the unit: '2.1', '57'."""
    return _three(ns)


def speedup(ratio: float | None) -> str:
    """A speed-up: '1.25x'; None where the whole run time could go."""
    return "no limit" if ratio is None else f"{ratio:.2f}x"


def _time_unit(ns: float) -> tuple[float, str]:
    for unit, name in ((1e9, "s"), (1e6, "ms"), (1e3, "µs")):
        if abs(ns) >= unit * 0.9995:
            return unit, name
    return 1, "ns"


def _three(value: float) -> str:
    magnitude = abs(value)
    if magnitude >= 99.95:
        return f"{value:,.0f}"
    text = f"{value:.1f}" if magnitude >= 9.995 else f"{value:.2f}"
    return text.rstrip("0").rstrip(".") if "." in text else text
