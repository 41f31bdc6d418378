# SPDX-License-Identifier: GPL-2.0-or-later
"""The measured gain, and the statistics of its interval."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Annotated, Literal

from tlbcost.common import units
from tlbcost.common.document import doc, portion
from tlbcost.common.units import Interval
from tlbcost.copies.run import Also

# Less than this share of the run time is not worth a change of the system: it is the size of the
# differences that code alignment and page colouring make between two builds of one program.
WORTHWHILE_FRACTION = 0.02

Source = Literal["runs in turns", "runs one by one", "copies"]
# Student's t: 95 % of its distribution are below, by degrees of freedom from 1 on (any table).
_T95 = (
    6.314, 2.920, 2.353, 2.132, 2.015, 1.943, 1.895, 1.860, 1.833, 1.812,
    1.796, 1.782, 1.771, 1.761, 1.753, 1.746, 1.740, 1.734, 1.729, 1.725,
    1.721, 1.717, 1.714, 1.711, 1.708, 1.706, 1.703, 1.701, 1.699, 1.697,
)  # fmt: skip
_Z95 = 1.645
# The standard deviation between pairs of runs in turns, a share of the CPU time, and how many
# pairs' worth of knowledge that is (doc/accuracy.md).
_USUAL_FRACTION, _USUAL_FREEDOM = 0.015, 3
# The same where other programs have a fifth of the CPUs or more.
_BUSY_FRACTION = 0.03
# A range of growths that need not be said.
_NARROW_FRACTION, _NARROW_BYTES = 0.1, 1 << 20
# More pairs than this nobody runs.
_MANY = 1000


# Two measurements of one program, some minutes apart, differ by more than their rounds or copies
# show, as frames and neighbours are others by then: by 2 points (root mean square) over 13
# programs of the suite, 1.5 for each of the two (doc/accuracy.md). A share of the CPU time.
_REPEAT_FRACTION = 0.015


@dataclass(frozen=True, slots=True)
class TriedMethod:
    """Another way to huge pages that was tried."""

    name: Annotated[str, doc("as for trial --with")]
    total_fraction: Annotated[Interval | None, doc("CPU time saved; null: it says nothing")]
    why_not: Annotated[str | None, doc("why it says nothing")]


@dataclass(frozen=True, slots=True)
class MeasuredGain:
    """What huge pages saved; shares are of the CPU time on base pages, with 90 % intervals."""

    source: Annotated[
        Source,
        doc(
            "whole runs at the same time, in turns, or one after the other; or copies of the "
            "running program, which do the same work in turns"
        ),
    ]
    total_fraction: Annotated[Interval, doc("CPU time that huge pages saved")]
    user_fraction: Annotated[Interval, doc("of that, in user mode: cheaper TLB misses")]
    system_fraction: Annotated[
        Interval | None, doc("of that, in the kernel: page faults; null: copies do not show it")
    ]
    null_fraction: Annotated[
        Interval | None,
        doc("of copies: user time of two on base pages, compared in the same way; about 0"),
    ]
    rounds: Annotated[int, doc("pairs of runs, or copies", minimum=1)]
    dropped: Annotated[Mapping[str, int], doc("slices of copies that were not used, by reason")]
    huge_part: Annotated[
        float | None, portion("of the memory that could be on huge pages, what was")
    ]
    seen_fraction: Annotated[float, portion("share of the program's time that this stands for")]
    method: Annotated[
        str | None,
        doc("of runs: the way to huge pages, as for trial --with; 'as it runs': by itself"),
    ] = None
    start_cost_s: Annotated[
        Interval | None,
        doc("of runs: kernel time in seconds that huge pages add to one run, mostly when memory is "
            "first touched; negative: they save it")] = None  # fmt: skip
    growth_bytes: Annotated[
        Interval | None,
        doc(
            "of runs: what memory at the peak grew by on huge pages: median and range of the pairs"
        ),
    ] = None
    more_pairs: Annotated[
        int | None, doc("of runs: pairs that would decide the verdict; null: it is decided")
    ] = None
    others: Annotated[
        tuple[TriedMethod, ...], doc("of runs: ways that reached too little memory, or lost")
    ] = ()
    also: Annotated[
        tuple[Also, ...],
        doc(
            "what was on huge pages besides anonymous memory: text, the code of the program and "
            "of its libraries; shared memory, which copies have for themselves"
        ),
    ] = ()


class OverLimit(str):
    """Why nothing was measured: on huge pages the program is killed at its memory limit."""

    __slots__ = ()


def grown_words(growth: Interval) -> str:
    """How much more memory; with its range, if that is not narrow."""
    if growth.value <= 0:
        return "no extra memory"
    low, value, high = (
        units.size(max(round(each), 0)) for each in (growth.low, growth.value, growth.high)
    )
    narrow = growth.high - growth.low <= max(_NARROW_FRACTION * growth.value, _NARROW_BYTES)
    return f"{value} more memory" + ("" if narrow else f", {low} to {high}")


def repeated(found: Interval) -> Interval:
    """With what another measurement, some minutes later, would differ by."""
    return found.widened(_Z95 * _REPEAT_FRACTION)


def decides(total: Interval) -> bool:
    """Whether the verdict is the same wherever in its interval the gain lies."""
    return total.low >= WORTHWHILE_FRACTION or total.high < WORTHWHILE_FRACTION


def t95(freedom: int) -> float:
    """The 0.95 quantile of Student's t distribution, by degrees of freedom, from 1 on."""
    return _T95[freedom - 1] if freedom <= len(_T95) else _Z95 * (1 + 0.61 / freedom)


def mean_of_pairs(differences: Sequence[float], *, busy: bool = False) -> Interval:
    """The mean over pairs of runs with its 90 % interval.

    `differences`: base - huge, as shares of the CPU time on base pages; `busy`: next to other load.
    Few pairs hardly tell their own variance, so what pairs in turns usually have counts as some
    more of them (a moderated t statistic: Smyth 2004, Stat. Appl. Genet. Mol. Biol. 3).
    """
    n, value = len(differences), fmean(differences)
    squares = sum((each - value) ** 2 for each in differences)
    freedom = n - 1 + _USUAL_FREEDOM
    usual = _BUSY_FRACTION if busy else _USUAL_FRACTION
    variance = (squares + _USUAL_FREEDOM * usual**2) / freedom
    half = t95(freedom) * math.sqrt(variance / n)
    return Interval(value, value - half, value + half)


def more_pairs(total: Interval, n: int) -> int | None:
    """How many more pairs would decide, by what `n` of them showed; None: it is decided."""
    if decides(total):
        return None
    half, distance = (total.high - total.low) / 2, abs(total.value - WORTHWHILE_FRACTION)
    needed = n * (half / distance) ** 2 if distance else math.inf
    return max(1, math.ceil(min(needed, _MANY) - n))


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
