# SPDX-License-Identifier: GPL-2.0-or-later
"""The predicted gain, the result of every model, and its verdict.

Pure functions: no I/O, no pandas. The formulas and their sources are in doc/model.md.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import Literal, get_args

from tlbcost.calibration.records import PageCosts
from tlbcost.common.interval import Interval
from tlbcost.common.stats import centre, median_bounds
from tlbcost.measured.record import WORTHWHILE_FRACTION
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import Footprint

ModelName = Literal["overlap", "simple"]
MODELS: tuple[ModelName, ...] = ("overlap", "simple")
VerdictCode = Literal["worth_trying", "not_worth_it", "not_proven", "already_huge"]
VERDICTS: tuple[VerdictCode, ...] = get_args(VerdictCode)

# With fewer page faults than this share of the pages it touched, a program got its memory in larger
# pieces. Below this number of pages the start of any program hides that.
FAULTS_PER_PAGE = 0.5
SURE_PAGES = 4096


@dataclass(frozen=True, slots=True)
class PredictedGain:
    """What translation costs, and what huge pages would save. None: not obtained.

    Fractions are shares of `cpu_ns`, or of the cycles counted where no CPU time is known.

    Times in translation, in ns, range from the lowest costs (overlapped accesses) to the highest
    (serialized ones). So does the bound, whose value is its upper end.

    `measured_fraction`: both savings together, where whole runs showed them; the two parts are
    then what was measured, too.

    `expected_fraction` is the result of `model`, one of the two of a simulation; None: it is from
    counters. `models` has the result of each, where known.
    """

    cpu_ns: float | None
    wall_ns: float | None
    base_data_ns: Interval | None
    base_code_ns: Interval | None
    huge_data_ns: Interval | None
    bound_fraction: Interval
    bound_capped: bool
    expected_fraction: Interval
    code_fraction: Interval | None
    fault_fraction: Interval | None
    verdict: VerdictCode
    model: ModelName | None = None
    models: Mapping[ModelName, Interval] = field(default_factory=dict)
    measured_fraction: Interval | None = None


def total_interval(gain: PredictedGain) -> Interval:
    """Expected gain and page-fault saving together; the latter only where it was obtained."""
    if gain.measured_fraction is not None:
        return gain.measured_fraction
    fault = gain.fault_fraction or Interval(0, 0, 0)
    expected = gain.expected_fraction
    low, high = expected.low + fault.low, min(1.0, expected.high + fault.high)
    return Interval(min(max(expected.value + fault.value, low), high), low, high)


def speedup_ratio(fraction: float) -> float | None:
    """t / (t - saved); None if the whole run time would be saved."""
    return 1 / (1 - fraction) if fraction < 1 else None


def fraction(saved_ns: float, run: Run) -> float:
    """A time as a share of the run's CPU time; 0 where the kernel's clock showed none of that."""
    return saved_ns / run.cpu_ns if run.cpu_ns else 0.0


def user_time(run: Run) -> int:
    return run.user_ns


def system_time(run: Run) -> int:
    return run.system_ns


def shares(
    runs: Sequence[Run], low_ns: float, high_ns: float, cap: Callable[[Run], int]
) -> Interval:
    low, _ = median_bounds([fraction(min(low_ns, cap(run)), run) for run in runs])
    _, high = median_bounds([fraction(min(high_ns, cap(run)), run) for run in runs])
    return Interval(centre(low, high), low, high)


def fault_saving(
    runs: Sequence[Run], memory: Footprint, base: PageCosts, huge: PageCosts
) -> Interval | None:
    """The page faults that huge pages avoid, less what their own faults cost (see doc/model.md).

    A page costs the kernel time of its first touch and, if it was obtained, of unmapping it.

    The number of huge pages is known within limits: at most every region touched, at least as many
    as would hold the touched pages densely. The value uses the latter: sparse regions are mostly
    stacks and libraries' data, too small for a huge page. Memory that is unmapped and touched
    again, or read before it is written, shows as more faults than pages: then both sides are
    multiplied, except for the lower end.
    """
    if base.fault_ns is None or huge.fault_ns is None:
        return None
    small, large = base.fault_ns, huge.fault_ns
    if base.unmap_ns is not None and huge.unmap_ns is not None:
        small, large = _sum(small, base.unmap_ns), _sum(large, huge.unmap_ns)
    measured = int(median([run.minor_faults for run in runs]))
    pages = min(memory.anonymous_pages, measured)
    most = min(memory.anonymous_huge_pages, pages)
    least = min(memory.dense_huge_pages, most)
    low = pages * small.low - most * large.high
    high = pages * small.high - least * large.low
    value = pages * small.value - least * large.value
    if pages:
        repeated = max(1.0, (measured - memory.other_pages) / pages)
        low, high = min(low, low * repeated), max(high, high * repeated)
        value *= repeated
    share = shares(runs, low, max(low, high), system_time)
    middle = min(value, median([run.system_ns for run in runs]))
    middle /= median([run.cpu_ns for run in runs]) or 1
    return Interval(min(max(middle, share.low), share.high), share.low, share.high)


def _sum(one: Interval, other: Interval) -> Interval:
    return Interval(one.value + other.value, one.low + other.low, one.high + other.high)


def already_huge(runs: Sequence[Run], memory: Footprint) -> bool:
    """Did the native runs already have most of their memory on huge pages?

    Only the largest process counts: a forked child reads its parent's memory without faults.
    """
    pages = memory.largest_anonymous_pages
    faults = median([run.minor_faults for run in runs])
    return memory.faulted and pages >= SURE_PAGES and faults < FAULTS_PER_PAGE * pages


def verdict(
    expected: Interval, fault: Interval | None, already: bool, bound: Interval | None = None
) -> VerdictCode:
    """`bound`: of a model of misses, which has been wrong by more than its interval: that a program
    cannot gain is the bound's to say.
    """
    fault_low, fault_high = (fault.low, fault.high) if fault else (0.0, 0.0)
    most = expected.high if bound is None else max(expected.high, bound.high)
    if most + fault_high < WORTHWHILE_FRACTION:
        return "not_worth_it"
    if already:
        return "already_huge"
    if expected.low + fault_low >= WORTHWHILE_FRACTION:
        return "worth_trying"
    return "not_proven"
