# SPDX-License-Identifier: GPL-2.0-or-later
"""How sure is a mean of few differences? Pure functions on plain numbers."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean

from tlbcost.common.interval import Interval
from tlbcost.measured.record import WORTHWHILE_FRACTION

# Student's t: 95 % of its distribution are below, by degrees of freedom from 1 on (any table).
_T95 = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
    1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
    1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697,
)  # fmt: skip
_Z95 = 1.645


# Two measurements of one program, some minutes apart, differ by more than their rounds or copies
# show, as frames and neighbours are others by then: by 2 points (root mean square) over 13
# programs of the suite, 1.5 for each of the two (doc/accuracy.md). A share of the CPU time.
_REPEAT_FRACTION = 0.015


def repeated(found: Interval) -> Interval:
    """With what another measurement, some minutes later, would differ by."""
    half = math.hypot((found.high - found.low) / 2, _Z95 * _REPEAT_FRACTION)
    return Interval(found.value, found.value - half, found.value + half)


def decides(total: Interval) -> bool:
    """Whether the verdict is the same wherever in its interval the gain lies."""
    return total.low >= WORTHWHILE_FRACTION or total.high < WORTHWHILE_FRACTION


def t95(freedom: int) -> float:
    """The 0.95 quantile of Student's t distribution, by degrees of freedom, from 1 on."""
    return _T95[freedom - 1] if freedom <= len(_T95) else _Z95 * (1 + 0.61 / freedom)


def mean_of_rounds(differences: Sequence[float], nulls: Sequence[float]) -> Interval:
    """The mean of rounds with its 90 % interval; each has two runs on base pages and one on huge.

    `differences`: (mean of base - huge) / base; `nulls`: (base - base) / base, which are 0 but for
    noise. One run's noise, of variance v, is in a difference with 3/2 v and in a null with 2 v, so
    both tell v: with n rounds there are 2 n - 1 degrees of freedom.
    """
    n, value = len(differences), fmean(differences)
    squares = sum((each - value) ** 2 for each in differences) / 1.5
    squares += sum(each**2 for each in nulls) / 2
    freedom = n - 1 + len(nulls)
    half = t95(freedom) * math.sqrt(1.5 * squares / freedom / n)
    return Interval(value, value - half, value + half)


def mean_of_copies(
    differences: Sequence[float], weights: Sequence[float], errors: Sequence[float]
) -> Interval:
    """The weighted mean over copies with its 90 % interval.

    Copies differ because the program does different things, and by noise. `errors`: the standard
    error of each by the nulls alone; the spread between copies, where it is less, is chance.
    """
    total, n = sum(weights), len(differences)
    shares = [weight / total for weight in weights]
    value = sum(share * each for share, each in zip(shares, differences, strict=True))
    by_noise = sum((share * error) ** 2 for share, error in zip(shares, errors, strict=True))
    if n < 2:
        half = t95(1) * math.sqrt(by_noise)
        return Interval(value, value - half, value + half)
    by_spread = sum(
        (share * (each - value)) ** 2 for share, each in zip(shares, differences, strict=True)
    ) * n / (n - 1)  # fmt: skip
    # As many as there were if all had the same weight.
    effective = 1 / sum(share**2 for share in shares)
    half = t95(max(1, round(effective) - 1)) * math.sqrt(max(by_noise, by_spread))
    return Interval(value, value - half, value + half)
