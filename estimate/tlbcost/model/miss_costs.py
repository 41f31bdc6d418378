# SPDX-License-Identifier: GPL-2.0-or-later
"""The simple model: simulated misses times their calibrated costs, on base and on huge pages.

Pure functions: no I/O, no pandas. The formulas and their sources are in doc/model.md.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from statistics import median

from tlbcost.calibration.records import PageCosts, missing_costs, with_substitutes
from tlbcost.common.interval import Interval, centre
from tlbcost.model.gain import PredictedGain, already_huge, fault_saving, shares, user_time, verdict
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import CODE, DATA, Counts, Footprint, Side


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
    most_ns = most_walks * (base_data.high + base_code.high)
    return PredictedGain(
        cpu_ns=median([run.cpu_ns for run in runs]),
        wall_ns=median([run.wall_ns for run in runs]),
        base_data_ns=base_data,
        base_code_ns=base_code,
        huge_data_ns=_translation(counts, huge_costs, DATA),
        bound_fraction=_bound(runs, base_data.low + base_code.low, most_ns),
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


def _ends(counts: Counts, costs: PageCosts, sides: tuple[Side, ...]) -> list[tuple[float, float]]:
    """For each kind of cost the time in translation at its lower and at its upper end."""
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


def _bound(runs: Sequence[Run], low_ns: float, high_ns: float) -> Interval:
    """Share of all translation, at most the user time; its upper end is the bound."""
    of_run_time = shares(runs, low_ns, high_ns, user_time)
    return Interval(of_run_time.high, of_run_time.low, of_run_time.high)


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
