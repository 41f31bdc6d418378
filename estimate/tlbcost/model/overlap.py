# SPDX-License-Identifier: GPL-2.0-or-later
"""Gains by both models of a simulation: modelled windows, and misses times their costs.

One window is in each period of a process image's references. The saving is a ratio of estimated
totals, of core cycles on huge and on base pages. Its variance is the linearised one, each window
being a cluster (W. G. Cochran, Sampling Techniques, 3rd ed., 1977: sections 2.11 and 6.3, chapter
9A), from the differences of successive windows (K. M. Wolter, Introduction to Variance Estimation,
2nd ed., 2007, section 8.2): that a program starts differently adds no uncertainty.

Pure functions: no I/O, no pandas. The formulas and their sources are in doc/model.md.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from statistics import median

from tlbcost.calibration.records import PageCosts, missing_costs, with_substitutes
from tlbcost.common.units import Interval, centre, median_bounds
from tlbcost.copies.estimator import CopiedRun
from tlbcost.model.gain import (
    PredictedGain,
    already_huge,
    fault_saving,
    fraction,
    shares,
    user_time,
    verdict,
)
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import CODE, DATA, Counts, Footprint, Side
from tlbcost.simulator.memory_tables import ImageWindows, Window

# The model's own error, without sampling: as a share of the CPU time, and of the saving itself.
MODEL_POINTS = 0.05
MODEL_RELATIVE = 0.5
# What windows must cover to represent the program. Those of copies are ten times as long, and
# their interval knows how few they are.
MIN_WINDOWS, MIN_COPIES = 10, 4
MIN_FRACTION = 0.9
# Of copies: windows that a system call ended too early were not timed.
MIN_SEEN_FRACTION = 0.5
_NORMAL_97_5 = 1.959964


@dataclass(frozen=True, slots=True)
class ModelledWindows:
    """The result of the windows of all finished process images.

    `references`: of these images, `sampled_references` of them in windows; `modelled_fraction`: the
    part of the references in images with windows. `saving`: the share of user time that huge pages
    save, with its 95 % sampling interval; None if there are fewer windows than `needed`.
    """

    core: str
    windows: int
    references: int
    sampled_references: int
    modelled_fraction: float
    saving: Interval | None
    needed: int = MIN_WINDOWS


def sample_of(images: Sequence[ImageWindows]) -> ModelledWindows | None:
    """The windows of all images together; None if there is no image that finished."""
    finished = [image for image in images if image.references is not None]
    if not finished:
        return None
    weighted: list[tuple[float, Window]] = []
    modelled = sampled = 0
    for image in finished:
        used = [window for window in image.windows if window.references]
        if not used or not image.references:
            continue
        modelled += image.references
        measured = sum(window.references for window in used)
        sampled += measured
        # Each window stands for its part of the image's references.
        weighted += [(image.references / measured, window) for window in used]
    total = sum(image.references or 0 for image in finished)
    part = modelled / total if total else 0.0
    enough = len(weighted) >= MIN_WINDOWS and part >= MIN_FRACTION
    saving = _saving(weighted, part) if enough else None
    return ModelledWindows(finished[0].core, len(weighted), total, sampled, part, saving)


def sample_of_copies(copied: CopiedRun) -> ModelledWindows | None:
    """The same for windows of copies, which are of all of the program's CPU time."""
    if copied.core is None:
        return None
    part, windows = copied.record.seen_fraction or 0.0, copied.windows
    saving = copied.saving if windows >= MIN_COPIES and part >= MIN_SEEN_FRACTION else None
    of = copied.references, copied.sampled_references
    return ModelledWindows(copied.core, windows, *of, part, saving, MIN_COPIES)


def shortfall(sample: ModelledWindows | None) -> str:
    if sample is None:
        return "no finished process has modelled windows"
    if sample.windows < sample.needed:
        number = str(sample.windows or "none")
        return f"{number} of its windows could be modelled, and {sample.needed} are needed"
    return (
        f"processes with modelled windows have {100 * sample.modelled_fraction:.0f} % of "
        f"the references, and {100 * MIN_FRACTION:.0f} % are needed"
    )


def _saving(weighted: Sequence[tuple[float, Window]], part: float) -> Interval:
    """1 - huge / base cycles; the part that was not modelled may save nothing or as much."""
    base = sum(weight * window.base_cycles for weight, window in weighted)
    ratio = sum(weight * window.huge_cycles for weight, window in weighted) / base
    residuals = [
        weight * (window.huge_cycles - ratio * window.base_cycles) for weight, window in weighted
    ]
    n = len(residuals)
    squares = sum((one - other) ** 2 for one, other in itertools.pairwise(residuals))
    variance = n / (2 * (n - 1)) * squares
    # By the variance of such a mean square (J. von Neumann et al., Ann. Math. Stat. 12, 1941).
    freedom = 2 * (n - 1) ** 2 / (3 * n - 4)
    error = _t_97_5(freedom) * math.sqrt(variance) / base
    value = 1 - ratio
    low, high = value - error, value + error
    return Interval(value, min(low, low * part), max(high, high * part))


def _t_97_5(freedom: float) -> float:
    """Student's t that 2.5 % exceed (Abramowitz and Stegun, 26.7.5); to 1 % from 6 degrees on."""
    z = _NORMAL_97_5
    first = (z**3 + z) / 4
    second = (5 * z**5 + 16 * z**3 + 3 * z) / 96
    return z + first / freedom + second / freedom**2


def expected_gain(saving: Interval, runs: Sequence[Run], bound: Interval) -> Interval:
    """The expected gain as a share of the CPU time, at most the bound; `saving`: of user time.

    With the sampling error, the spread of the runs, and the model's own error, which is
    independent of both. The lower end is negative if huge pages may lose.
    """
    shares = [fraction(run.user_ns, run) for run in runs]
    value = saving.value * median(shares)
    margin = MODEL_POINTS + MODEL_RELATIVE * abs(value)
    below = value - median_bounds([saving.low * share for share in shares])[0]
    above = median_bounds([saving.high * share for share in shares])[1] - value
    low, high = value - math.hypot(below, margin), value + math.hypot(above, margin)
    return Interval(*(min(end, bound.high) for end in (value, low, high)))


def with_overlap(
    simple: PredictedGain, expected: Interval, runs: Sequence[Run], memory: Footprint
) -> PredictedGain:
    """The gain with this model's expected fraction, and the verdict that follows from it."""
    already, fault = already_huge(runs, memory), simple.fault_fraction
    return replace(
        simple,
        expected_fraction=expected,
        verdict=verdict(expected, fault, already, simple.bound_fraction),
        model="overlap",
        models={"overlap": expected, **simple.models},
    )


def predicted(
    runs: Sequence[Run],
    counts: Counts,
    memory: Footprint,
    base: PageCosts,
    huge: PageCosts,
    most_walks: float = 1.0,
) -> PredictedGain:
    """The gain predicted from the native runs, the summed counts and the costs of both page sizes.

    `most_walks`: how many times the walks of `counts` there may be, where these are of a sample.
    Raises ValueError without a run, or a serial cost of base pages (`missing_costs`).
    """
    if not runs:
        raise ValueError("no runs")
    if missing_costs(base):
        raise ValueError("no cost on base pages")
    base_costs = with_substitutes(base, base)
    huge_costs = with_substitutes(huge, base_costs)
    base_data = _translation(counts, base_costs, DATA)
    base_code = _translation(counts, base_costs, CODE)
    expected = _expected(runs, counts, base_costs, huge_costs)
    fault = fault_saving(runs, memory, base, huge)
    most_ns = most_walks * (base_data.high + base_code.high)
    # Of all translation, at most the user time; its upper end is the bound.
    bound = shares(runs, base_data.low + base_code.low, most_ns, user_time)
    return PredictedGain(
        cpu_ns=median([run.cpu_ns for run in runs]),
        wall_ns=median([run.wall_ns for run in runs]),
        base_data_ns=base_data,
        base_code_ns=base_code,
        huge_data_ns=_translation(counts, huge_costs, DATA),
        bound_fraction=Interval(bound.high, bound.low, bound.high),
        bound_capped=any(most_ns > run.user_ns for run in runs),
        expected_fraction=expected,
        code_fraction=shares(runs, base_code.low, base_code.high, user_time),
        fault_fraction=fault,
        verdict=verdict(expected, fault, already_huge(runs, memory)),
        model="simple",
        models={"simple": expected},
    )


def _low(interval: Interval | None) -> float:
    return interval.low if interval else 0.0


def _high(interval: Interval | None) -> float:
    return interval.high if interval else 0.0


def _time(
    counts: Counts, page_size_bytes: int, sides: Iterable[Side], hit_ns: float, walk_ns: float
) -> float:
    """Each level at its own cost: second-level hits at that of a hit, walks at that of a walk."""
    hits = walks = 0
    for side in sides:
        seen = counts.get((page_size_bytes, side))
        if seen is not None:
            hits += seen.stlb_hits
            walks += seen.stlb_misses
    return hits * hit_ns + walks * walk_ns


def _kinds(costs: PageCosts) -> list[tuple[Interval | None, Interval | None]]:
    """The costs of an STLB hit and a walk that go together: the same kinds in the same order."""
    return [
        (costs.stlb_hit_overlapped_ns, costs.walk_cached_ns),
        (costs.stlb_hit_overlapped_ns, costs.walk_overlapped_ns),
        (costs.stlb_hit_serial_ns, costs.walk_serial_ns),
    ]


def _translation(counts: Counts, costs: PageCosts, sides: tuple[Side, ...]) -> Interval:
    size, kinds = costs.page_size_bytes, _kinds(costs)
    low = min(_time(counts, size, sides, _low(hit), _low(walk)) for hit, walk in kinds)
    high = max(_time(counts, size, sides, _high(hit), _high(walk)) for hit, walk in kinds)
    return Interval(centre(low, high), low, high)


def _expected(runs: Sequence[Run], counts: Counts, base: PageCosts, huge: PageCosts) -> Interval:
    """Data only: code remains on base pages, whatever the heap does.

    Costs of one kind are compared, base pages' lowest with huge pages' highest for the lower end
    and vice versa for the upper end; which kind applies to the program is not known. The lower end
    is negative if huge pages may lose (fewer first-level entries).
    """
    differences: list[tuple[float, float]] = []
    size, huge_size = base.page_size_bytes, huge.page_size_bytes
    for (hit, walk), (huge_hit, huge_walk) in zip(_kinds(base), _kinds(huge), strict=True):
        # A walk of a huge page has one step less: whatever the noise of either figure, it is not
        # the more expensive one.
        dear = min(_high(huge_walk), _low(walk))
        cheap = min(_low(huge_walk), dear)
        on_base = _time(counts, size, DATA, _low(hit), _low(walk))
        low = on_base - _time(counts, huge_size, DATA, _high(huge_hit), dear)
        on_base = _time(counts, size, DATA, _high(hit), _high(walk))
        high = on_base - _time(counts, huge_size, DATA, _low(huge_hit), cheap)
        differences.append((low, high))
    low = min(low for low, _ in differences)
    high = max(high for _, high in differences)
    return shares(runs, low, high, user_time)
