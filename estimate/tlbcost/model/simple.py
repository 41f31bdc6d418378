# SPDX-License-Identifier: GPL-2.0-or-later
"""Counts and costs in, gain out: what does translation cost, and what would huge pages give?

Pure functions: no I/O, no pandas. The formulas and their sources are in doc/method.md.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from typing import Literal

from tlbcost.calibration.costs import PageCosts, missing_costs, with_substitutes
from tlbcost.common.interval import Interval
from tlbcost.common.stats import centre
from tlbcost.run.records import Run
from tlbcost.simulator.counts import Side
from tlbcost.simulator.totals import CODE, DATA, Counts, Footprint

# Less than this share of the run time is not worth a change of the system: it is the size of the
# differences that code alignment and page colouring make between two builds of one program.
WORTHWHILE_FRACTION = 0.02

ModelName = Literal["overlap", "simple"]
MODELS: tuple[ModelName, ...] = ("overlap", "simple")
VerdictCode = Literal["worth_trying", "not_worth_it", "too_close_to_call", "already_huge"]

# With fewer page faults than this share of the pages it touched, a program's memory came in larger
# pieces. Below so many pages the start of any program hides it.
FAULTS_PER_PAGE = 0.5
SURE_PAGES = 4096


@dataclass(frozen=True, slots=True)
class Estimate:
    """The answer. Fractions are shares of `run_time_ns`; None: not obtained.

    Times in translation run from the lowest costs, of overlapped accesses, to the highest, of
    ones that wait for each other; in ns. So does the bound, whose value is its high end. Where
    no run time is known, fractions are shares of the cycles counted.

    `expected_fraction` is what `model` says, of the two that a simulation allows; None: counters
    tell. `models` has what each of them says, where it is known.
    """

    run_time_ns: float | None
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


def run_time_ns(run: Run) -> int:
    """The time that shares refer to: CPU time where several threads outrun the clock."""
    return max(run.wall_ns, run.user_ns + run.system_ns)


def estimate(
    runs: Sequence[Run], counts: Counts, memory: Footprint, base: PageCosts, huge: PageCosts
) -> Estimate:
    """The estimate from the native runs, the summed counts and the costs of both page sizes.

    Raises ValueError if there is no run or a serial cost of base pages was not obtained
    (`missing_costs`).
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
    return Estimate(
        run_time_ns=median([run_time_ns(run) for run in runs]),
        wall_ns=median([run.wall_ns for run in runs]),
        base_data_ns=base_data,
        base_code_ns=base_code,
        huge_data_ns=_translation(counts, huge_costs, DATA),
        bound_fraction=_bound(runs, base_data, base_code),
        bound_capped=any(base_data.high + base_code.high > run.user_ns for run in runs),
        expected_fraction=expected,
        code_fraction=_shares(runs, base_code.low, base_code.high, _user),
        fault_fraction=fault,
        verdict=verdict(expected, fault, already_huge(runs, memory)),
        model="simple",
        models={"simple": expected},
    )


def with_overlap(
    simple: Estimate, overlap: Interval, runs: Sequence[Run], memory: Footprint
) -> Estimate:
    """The estimate with the overlap model's expected gain, and the verdict that follows from it."""
    return replace(
        simple,
        expected_fraction=overlap,
        verdict=verdict(overlap, simple.fault_fraction, already_huge(runs, memory)),
        model="overlap",
        models={"overlap": overlap, **simple.models},
    )


def total_interval(result: Estimate) -> Interval:
    """Expected gain and page-fault saving together; the latter only where it was obtained."""
    fault = result.fault_fraction or Interval(0, 0, 0)
    expected = result.expected_fraction
    low, high = expected.low + fault.low, min(1.0, expected.high + fault.high)
    return Interval(min(max(expected.value + fault.value, low), high), low, high)


def speedup_ratio(fraction: float) -> float | None:
    """t / (t - saved); None where the whole run time would be saved."""
    return 1 / (1 - fraction) if fraction < 1 else None


def _low(interval: Interval | None) -> float:
    return interval.low if interval else 0.0


def _high(interval: Interval | None) -> float:
    return interval.high if interval else 0.0


def _time(
    counts: Counts, page_size_bytes: int, sides: Iterable[Side], hit_ns: float, walk_ns: float
) -> float:
    """Level matched: second-level hits at the price of a hit, walks at the price of a walk."""
    hits = walks = 0
    for side in sides:
        seen = counts.get((page_size_bytes, side))
        if seen is not None:
            hits += seen.stlb_hits
            walks += seen.stlb_misses
    return hits * hit_ns + walks * walk_ns


def _kinds(costs: PageCosts) -> list[tuple[Interval | None, Interval | None]]:
    """What an STLB hit and a walk may cost together: the same kinds in the same order."""
    return [
        (costs.stlb_hit_overlapped_ns, costs.walk_cached_ns),
        (costs.stlb_hit_overlapped_ns, costs.walk_overlapped_ns),
        (costs.stlb_hit_serial_ns, costs.walk_serial_ns),
    ]


def _ends(counts: Counts, costs: PageCosts, sides: tuple[Side, ...]) -> list[tuple[float, float]]:
    """For each kind of cost the time in translation at its low and at its high end."""
    size = costs.page_size_bytes
    return [
        (
            _time(counts, size, sides, _low(hit), _low(walk)),
            _time(counts, size, sides, _high(hit), _high(walk)),
        )
        for hit, walk in _kinds(costs)
    ]


def _translation(counts: Counts, costs: PageCosts, sides: tuple[Side, ...]) -> Interval:
    ends = _ends(counts, costs, sides)
    low, high = min(low for low, _ in ends), max(high for _, high in ends)
    return Interval(centre(low, high), low, high)


def _user(run: Run) -> int:
    return run.user_ns


def _system(run: Run) -> int:
    return run.system_ns


def _shares(
    runs: Sequence[Run], low_ns: float, high_ns: float, cap: Callable[[Run], int]
) -> Interval:
    """A saving as a share, with the spread of the runs; no run saves more than `cap` of it."""
    low = min(min(low_ns, cap(run)) / run_time_ns(run) for run in runs)
    high = max(min(high_ns, cap(run)) / run_time_ns(run) for run in runs)
    return Interval(centre(low, high), low, high)


def _bound(runs: Sequence[Run], data: Interval, code: Interval) -> Interval:
    """The share of all translation on base pages; its high end is the bound itself.

    Misses taken in user mode cannot cost more than the time spent there.
    """
    shares = _shares(runs, data.low + code.low, data.high + code.high, _user)
    return Interval(shares.high, shares.low, shares.high)


def _expected(runs: Sequence[Run], counts: Counts, base: PageCosts, huge: PageCosts) -> Interval:
    """Data side only: code stays on base pages, whatever the heap does.

    Costs of one kind are compared, base pages' lowest with huge pages' highest for the low end
    and the other way round for the high end; which kind holds for the program is not known. The
    low end is negative if huge pages may lose (fewer first-level entries).
    """
    differences: list[tuple[float, float]] = []
    size, huge_size = base.page_size_bytes, huge.page_size_bytes
    for (hit, walk), (huge_hit, huge_walk) in zip(_kinds(base), _kinds(huge), strict=True):
        # A walk of a huge page has one step less: whatever the noise of either figure, it is not
        # the dearer one.
        dear = min(_high(huge_walk), _low(walk))
        cheap = min(_low(huge_walk), dear)
        on_base = _time(counts, size, DATA, _low(hit), _low(walk))
        low = on_base - _time(counts, huge_size, DATA, _high(huge_hit), dear)
        on_base = _time(counts, size, DATA, _high(hit), _high(walk))
        high = on_base - _time(counts, huge_size, DATA, _low(huge_hit), cheap)
        differences.append((low, high))
    low = min(low for low, _ in differences)
    high = max(high for _, high in differences)
    return _shares(runs, low, high, _user)


def fault_saving(
    runs: Sequence[Run], memory: Footprint, base: PageCosts, huge: PageCosts
) -> Interval | None:
    """The page faults that huge pages avoid, less what their own faults cost (see doc/method.md).

    A page costs the kernel time of its first touch and, where it was obtained, of giving it back.

    How many huge pages there will be is known within limits: at most every region touched, at
    least as many as would hold the touched pages if these were dense. The value takes the latter:
    the sparse regions are mostly stacks and libraries' data, too small for a huge page. Memory
    that is given back and touched again, or read before it is written, shows as more faults than
    pages: then both sides are repeated, but for the low end.
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
    share = _shares(runs, low, max(low, high), _system)
    middle = min(value, median([run.system_ns for run in runs]))
    middle /= median([run_time_ns(run) for run in runs])
    return Interval(min(max(middle, share.low), share.high), share.low, share.high)


def _sum(one: Interval, other: Interval) -> Interval:
    return Interval(one.value + other.value, one.low + other.low, one.high + other.high)


def already_huge(runs: Sequence[Run], memory: Footprint) -> bool:
    """Did the native runs have most of their memory on huge pages as it is?

    The largest process alone is looked at: a forked child reads its parent's memory without faults.
    """
    pages = memory.largest_anonymous_pages
    faults = median([run.minor_faults for run in runs])
    return pages >= SURE_PAGES and faults < FAULTS_PER_PAGE * pages


def verdict(expected: Interval, fault: Interval | None, already: bool) -> VerdictCode:
    fault_low, fault_high = (fault.low, fault.high) if fault else (0.0, 0.0)
    if expected.high + fault_high < WORTHWHILE_FRACTION:
        return "not_worth_it"
    if already:
        return "already_huge"
    if expected.low + fault_low >= WORTHWHILE_FRACTION:
        return "worth_trying"
    return "too_close_to_call"
