# SPDX-License-Identifier: GPL-2.0-or-later
"""The predicted gain and its verdict, and the gain by the measured share of cycles in page walks.

Pure functions: no I/O, no pandas. The formulas of each CPU are data (data/events); doc/model.md
has the meaning and sources of all formulas.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from statistics import median
from types import MappingProxyType
from typing import Literal, get_args

from tlbcost.calibration.records import PageCosts, missing_costs, with_substitutes
from tlbcost.common.units import Interval, centre, median_bounds
from tlbcost.counters.count_tool import PartialSum, only_of_code
from tlbcost.counters.event_counts import EventCounts
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

    Fractions are shares of `cpu_ns`, or of the cycles counted where no CPU time is known. Times in
    translation range from the lowest costs (overlapped accesses) to the highest (serialized ones);
    so does the bound, whose value is its upper end. `measured_fraction`: both savings together,
    where whole runs showed them; the two parts are then measured, too. `expected_fraction` is the
    result of `model` (None: of counters); `models` has that of each, where known.
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

    Huge pages: at most every region touched, at least as many as would hold the touched pages
    densely, which the value uses: sparse regions are mostly stacks and libraries' data, too small
    for a huge page. Memory that is unmapped and touched again, or read before it is written, shows
    as more faults than pages: then both sides are multiplied, except for the lower end.
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


# How the share of the cycles was obtained, best first.
Way = Literal["walk_cycles", "pending_cycles", "walks_times_cost", "stall_cycles"]
# Fitted to the single-socket pairs of data/published by bench/published_gains.py, which compares
# them with other forms, too (doc/published-gains.md).
# Of the walk share on base pages: the mean of gain over share, and how far the gain was from that
# line, over the root of the share, in nine cases of ten from machines that the line was not
# fitted to.
SHARE_SLOPE = 0.621
SHARE_SPREAD = 0.245
# The same for the walk cycles that huge pages eliminated, as a share of the base run; the slope is
# that of least absolute errors.
REMOVED_SLOPE = 0.904
REMOVED_SPREAD = 0.208


@dataclass(frozen=True, slots=True)
class Witness:
    """The share of the counted cycles spent in translation. None: not obtained.

    `data` is the part of loads and stores, or all of it if that of code is not known (`split` is
    False then). `exposed` is a lower bound. `ept` is the second stage of a virtual machine, if it
    is counted separately; `total` does not contain it. `missing` are the events whose part is not
    in `total` because they were not counted.
    """

    way: Way
    total: Interval
    data: Interval
    split: bool
    exposed: Interval | None
    ept: Interval | None
    capped: bool
    missing: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Prices:
    """What one walk and one hit of the second level cost, in cycles. None: not known."""

    walk_cycles: Interval
    hit_cycles: Interval | None


def prices_of(costs: PageCosts, cycles_per_ns: float) -> Prices | None:
    """Calibrated costs in cycles, from the cheapest kind to the most expensive, if any."""
    if missing_costs(costs):
        return None
    priced = with_substitutes(costs, costs)
    walks = priced.walk_cached_ns, priced.walk_overlapped_ns, priced.walk_serial_ns
    walk = _span(cycles_per_ns, *walks)
    hit = _span(cycles_per_ns, priced.stlb_hit_overlapped_ns, priced.stlb_hit_serial_ns)
    return None if walk is None else Prices(walk, hit)


def _span(factor: float, *kinds: Interval | None) -> Interval | None:
    known = [kind for kind in kinds if kind is not None]
    if not known:
        return None
    low = factor * min(kind.low for kind in known)
    high = factor * max(kind.high for kind in known)
    return Interval(centre(low, high), low, high)


def witness(
    found: Mapping[str, Interval | None],
    cycles: float | None,
    prices: Prices | None,
    partial: Mapping[str, PartialSum] = MappingProxyType({}),
) -> Witness | None:
    """What the counts say about translation, by the best Way; None if they do not bound it.

    What lacks counts of loads or stores (`partial`) comes before stalls alone. `cycles` and
    `prices` are needed for walks times their cost only.
    """
    exposed, ept = _share(found.get("exposed_share")), _share(found.get("ept_share"))
    candidates = [
        _by_cycles("walk_cycles", "share", found, partial),
        _by_cycles("pending_cycles", "pending_share", found, partial),
        _by_walks(found, cycles, prices, partial),
    ]
    seen = [each for each in candidates if each is not None]
    if seen:
        # Stable: of those that are equally complete, the best way.
        best = min(seen, key=lambda each: not only_of_code(each.missing))
        return replace(best, exposed=exposed, ept=ept)
    if exposed is not None:
        return Witness("stall_cycles", exposed, exposed, False, exposed, ept, False)
    return None


def without_spread(seen: Witness) -> Witness:
    """The same, as if all runs had counted the same; calibrated costs keep their interval."""
    if seen.way == "walks_times_cost":
        return seen
    total, data = (Interval(x.value, x.value, x.value) for x in (seen.total, seen.data))
    return replace(seen, total=total, data=data)


def _by_cycles(
    way: Way, key: str, found: Mapping[str, Interval | None], partial: Mapping[str, PartialSum]
) -> Witness | None:
    """Cycles as counted; if counts are missing, those of the other accesses."""
    value, missing = _whole_or_part(key, found, partial)
    share = _share(value)
    if share is None:
        return None
    # If code's walks are not counted, only the share of data is known.
    data = _share(found.get("data_share")) if way == "walk_cycles" and not missing else None
    split = data is not None and found.get("code_share") is not None
    return Witness(way, share, data or share, split, None, None, share.high >= 1, missing)


def _by_walks(
    found: Mapping[str, Interval | None],
    cycles: float | None,
    prices: Prices | None,
    partial: Mapping[str, PartialSum],
) -> Witness | None:
    """Each level at its own cost: walks at that of a walk, second-level hits at that of a hit."""
    if not cycles or prices is None:
        return None
    walks, missing = _whole_or_part("walks", found, partial)
    if walks is None:
        walks, missing = _whole_or_part("data_walks", found, partial)
    total = _cost(walks, found.get("hits") or found.get("data_hits"), prices)
    if total is None:
        return None
    split = found.get("walks") is not None and found.get("code_walks") is not None
    data = _cost(found.get("data_walks"), found.get("data_hits"), prices) if split else None
    whole = _divided(total, cycles)
    part = whole if data is None else _divided(data, cycles)
    capped = total.high > cycles
    return Witness("walks_times_cost", whole, part, data is not None, None, None, capped, missing)


def _whole_or_part(
    key: str, found: Mapping[str, Interval | None], partial: Mapping[str, PartialSum]
) -> tuple[Interval | None, tuple[str, ...]]:
    """The value of a formula, or of its counted part, and what that lacks."""
    whole, part = found.get(key), partial.get(key)
    if whole is not None or part is None:
        return whole, ()
    return part.value, part.missing


def _cost(walks: Interval | None, hits: Interval | None, prices: Prices) -> Interval | None:
    if walks is None:
        return None
    walk, hit = prices.walk_cycles, prices.hit_cycles
    low, value, high = walks.low * walk.low, walks.value * walk.value, walks.high * walk.high
    if hits is not None and hit is not None:
        low, value, high = (
            low + hits.low * hit.low, value + hits.value * hit.value, high + hits.high * hit.high
        )  # fmt: skip
    return Interval(value, low, high)


def _divided(interval: Interval, by: float) -> Interval:
    """Clamped to 0 to 1."""
    ends = (interval.value, interval.low, interval.high)
    return Interval(*(min(1.0, max(0.0, end / by)) for end in ends))


def _share(formula: Interval | None) -> Interval | None:
    return None if formula is None else _divided(formula, 1.0)


def counted_fraction(counted: EventCounts) -> float | None:
    """Share of the CPU time that was counted, if times are known: in user mode, user time."""
    whole = cpu_ns(counted)
    if not whole:
        return None
    part = {"user": counted.user_ns, "kernel": counted.system_ns}.get(counted.mode or "both", whole)
    return None if part is None else part / whole


def cpu_ns(counted: EventCounts) -> float | None:
    """CPU time, as of a native run; None: not in the file."""
    if counted.user_ns is None or counted.system_ns is None:
        return None
    return counted.user_ns + counted.system_ns


def memory_of(runs: Sequence[Run], base_bytes: int, pages_per_huge: int) -> Footprint | None:
    """The memory that a native run shows: its page faults, at most its peak size.

    The pages' density is not known; the lower end assumes twice as many huge pages as would hold
    them.
    """
    if not runs:
        return None
    peak = max(run.max_rss_bytes for run in runs) // base_bytes
    pages = min(int(median([run.minor_faults for run in runs])), peak)
    dense = -(-pages // pages_per_huge)
    return Footprint(pages, 2 * dense, dense, 0, peak)


def predicted(
    counted: EventCounts,
    seen: Witness,
    runs: Sequence[Run],
    costs: tuple[PageCosts, PageCosts] | None,
    memory: Footprint | None,
    remaining: float | None,
) -> PredictedGain:
    """The gain predicted from the counters' share.

    `runs` are the native runs, empty where the counts are from elsewhere. `costs` (base and huge
    pages) and `memory` are only for the page faults. `remaining` is the part of the translation
    time that remains on huge pages, by a simulation; None: not known.
    """
    part = counted_fraction(counted)
    scale = 1.0 if part is None else part
    if remaining is None:
        expected = expected_from_share(seen.data)
    else:
        expected = expected_with_remaining(seen.data, remaining)
    floor = 0.0 if seen.exposed is None else seen.exposed.low
    fault, already = None, False
    if runs and memory is not None:
        already = already_huge(runs, memory)
        fault = None if costs is None else fault_saving(runs, memory, *costs)
    expected = expected.scaled(scale)
    total, data, code = seen.total, seen.data, None
    if seen.split:
        ends = sorted(max(0.0, each) for each in (total.low - data.low, total.high - data.high))
        code = Interval(min(max(total.value - data.value, ends[0]), ends[1]), *ends).scaled(scale)
    high = total.high
    return PredictedGain(
        cpu_ns=cpu_ns(counted),
        wall_ns=counted.wall_ns,
        base_data_ns=None,
        base_code_ns=None,
        huge_data_ns=None,
        bound_fraction=Interval(high, min(floor, high), high).scaled(scale),
        bound_capped=seen.capped,
        expected_fraction=expected,
        code_fraction=code,
        fault_fraction=fault,
        verdict=verdict(expected, fault, already),
    )


def expected_from_share(share: Interval | float) -> Interval:
    """The gain on huge pages as a fraction of the base run, from its walk share alone.

    `share`, 0 to 1, of cycles with a page walk in progress on base pages. The lower end may be
    negative, as some programs lose. The upper end is at most the share, which is all that can be
    saved: 1 of the 22 pairs gained over half a percentage point more than that. Raises ValueError
    if the share is not within 0 and 1.
    """
    within = _checked(share)
    low, high = _band(within, SHARE_SLOPE, SHARE_SPREAD)
    return Interval(SHARE_SLOPE * within.value, low, min(high, within.high))


def expected_with_remaining(share: Interval | float, remaining: float) -> Interval:
    """The same if it is known what part of the walk cycles remains on huge pages.

    `remaining`: walk cycles on huge pages over those on base pages, by a simulation of both; above
    1 if huge pages walk more. Raises ValueError if the share is not within 0 and 1, or `remaining`
    is below 0.
    """
    within = _checked(share)
    if not 0 <= remaining < math.inf:
        raise ValueError(f"not a part of the walk cycles: {remaining}")
    went = 1 - remaining
    ends = sorted((within.low * went, within.high * went))
    low, high = _band(Interval(within.value * went, *ends), REMOVED_SLOPE, REMOVED_SPREAD)
    return Interval(REMOVED_SLOPE * within.value * went, low, min(high, within.high))


def _checked(share: Interval | float) -> Interval:
    within = share if isinstance(share, Interval) else Interval(share, share, share)
    if not 0 <= within.low <= within.high <= 1:
        raise ValueError(f"not a share: {within}")
    return within


def _band(over: Interval, slope: float, spread: float) -> tuple[float, float]:
    """The lowest and the highest gain over an interval, at slope * x -+ spread * sqrt(|x|)."""
    # On each side of zero the band turns at this distance.
    turn = (spread / (2 * slope)) ** 2
    points = [over.low, over.high]
    points += [x for x in (-turn, 0.0, turn) if over.low < x < over.high]

    def edge(sign: float) -> Callable[[float], float]:
        return lambda x: slope * x + sign * spread * math.sqrt(abs(x))

    return min(map(edge(-1.0), points)), max(map(edge(1.0), points))
