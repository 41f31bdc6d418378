# SPDX-License-Identifier: GPL-2.0-or-later
"""Gains by the models, from runs, counts and costs together."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import fields, replace
from statistics import median

from tlbcost.answer.record import CountedPart, Evidence, Simulated
from tlbcost.calibration.records import PageCosts, cost_at, page_costs
from tlbcost.common.errors import CANNOT_MEASURE, TlbcostError
from tlbcost.common.units import Interval
from tlbcost.counters.count_tool import PartialSum, formula_values, partial_sums
from tlbcost.counters.importing.printed_counts import not_counted
from tlbcost.counters.pmu import perf_stat
from tlbcost.measured.method import AS_IT_RUNS
from tlbcost.measured.record import MeasuredGain
from tlbcost.model import overlap
from tlbcost.model.gain import (
    PredictedGain,
    Prices,
    memory_of,
    predicted,
    prices_of,
    shares,
    total_interval,
    user_time,
    verdict,
    without_spread,
    witness,
)
from tlbcost.processors.events import generic_pmu
from tlbcost.processors.events import names as names_in
from tlbcost.run.outcome import Run
from tlbcost.simulator.counts import (
    Counts,
    Footprint,
    ProcessCounts,
    footprint_pages,
    splintered,
    total_counts,
    total_footprint,
)

_BOUNDING = ("share", "pending_share", "walks")
# Of base and of huge pages.
Costs = tuple[PageCosts, PageCosts]


def processes_of(given: Evidence) -> tuple[ProcessCounts, ...]:
    """The simulated processes; on TLBs that hold pieces of huge pages, as these miss there."""
    if given.simulation is None or given.geometry is None:
        return ()
    sizes = (given.geometry.base.page_size_bytes, given.geometry.huge.page_size_bytes)
    if given.geometry.huge.entry_bytes != sizes[0]:
        return given.simulation.processes
    return tuple(splintered(process, *sizes) for process in given.simulation.processes)


def footprint_of(given: Evidence, processes: tuple[ProcessCounts, ...]) -> Footprint | None:
    """The memory that the simulation saw, else what the runs show of it; None: not known."""
    base = given.base_page_bytes
    if base is None:
        return None
    pages_per_huge = given.huge_page_bytes // base
    if processes and not _unseen(given, processes):
        found = total_footprint(processes, pages_per_huge)
        # What smaps showed says more than page faults.
        anonymous = sum(mapping.anonymous_bytes for _, mapping in given.seen)
        huge = sum(mapping.anonymous_huge_bytes for _, mapping in given.seen)
        faulted = not given.followed and given.region is None and 2 * huge >= anonymous
        return replace(found, faulted=faulted)
    return memory_of(given.runs, base, pages_per_huge)


def _unseen(given: Evidence, processes: tuple[ProcessCounts, ...]) -> bool:
    """Copies do not show what the program touched, and it was too short to be seen otherwise."""
    return given.copied is not None and all(process.touched is None for process in processes)


def costs_of(
    given: Evidence, footprint: Footprint | None, processes: tuple[ProcessCounts, ...]
) -> Costs | None:
    """Prices of both page sizes at the footprint; if unknown, at the smallest one with walks."""
    base = given.base_page_bytes
    if given.calibrated is None or base is None:
        return None
    if processes and not _unseen(given, processes):
        pages = footprint_pages(processes)
    else:
        pages = footprint.largest_anonymous_pages if footprint is not None else 1
    entry_bytes = (base, given.huge_page_bytes)
    if given.geometry is not None:
        levels = (given.geometry.base, given.geometry.huge)
        entry_bytes = (
            levels[0].entry_bytes or levels[0].page_size_bytes,
            levels[1].entry_bytes or levels[1].page_size_bytes,
        )
    calibration = given.calibrated.calibration
    return (
        page_costs(calibration, base, entry_bytes[0], pages * base),
        page_costs(calibration, given.huge_page_bytes, entry_bytes[1], pages * base),
    )


def by_simulation(
    given: Evidence,
    processes: tuple[ProcessCounts, ...],
    costs: Costs | None,
    footprint: Footprint | None,
) -> Simulated | None:
    """The simulation's results, if any."""
    if given.simulation is None or given.geometry is None:
        return None
    assert costs is not None, "a simulation is priced by a calibration"
    assert footprint is not None
    counts = total_counts(processes)
    if given.copied is not None:
        sample = overlap.sample_of_copies(given.copied)
    else:
        sample = overlap.sample_of(given.simulation.windows)
    gain = _simulated_gain(given, given.runs, counts, sample, footprint, costs)
    no_overlap = None
    if gain.model != "overlap":
        no_overlap = given.no_core or overlap.shortfall(sample)
    return Simulated(
        given.geometry,
        given.simulation.outcome.run,
        given.simulation.outcome.code,
        processes,
        counts,
        gain,
        sample,
        no_overlap,
        copies=given.copied.record if given.copied is not None else None,
    )


def _simulated_gain(
    given: Evidence,
    runs: tuple[Run, ...],
    counts: Counts,
    sample: overlap.ModelledWindows | None,
    footprint: Footprint,
    costs: Costs,
) -> PredictedGain:
    """By the overlap model where there are enough windows, else by the simple one."""
    most_walks = given.copied.most_walks if given.copied is not None else 1.0
    simple = overlap.predicted(runs, counts, footprint, *costs, most_walks)
    if sample is None or sample.saving is None:
        return simple
    expected = overlap.expected_gain(sample.saving, runs, simple.bound_fraction)
    return overlap.with_overlap(simple, expected, runs, footprint)


def unexplained(given: Evidence) -> PredictedGain:
    """Nothing is known of the misses of some runs: at most, all user time is translation."""
    most = shares(given.runs, 0, math.inf, user_time).high
    return PredictedGain(
        cpu_ns=median([run.cpu_ns for run in given.runs]),
        wall_ns=median([run.wall_ns for run in given.runs]),
        base_data_ns=None,
        base_code_ns=None,
        huge_data_ns=None,
        bound_fraction=Interval(most, 0, most),
        bound_capped=True,
        expected_fraction=Interval(0, 0, most),
        code_fraction=None,
        fault_fraction=None,
        verdict="not_proven",
    )


def with_measured(modelled: PredictedGain, measured: MeasuredGain) -> PredictedGain:
    faults = measured.system_fraction
    if faults is None:
        # Copies show user mode alone.
        faults = modelled.fault_fraction
    total = measured.total_fraction if measured.system_fraction is not None else None
    gain = replace(
        modelled,
        expected_fraction=measured.user_fraction,
        fault_fraction=faults,
        measured_fraction=total,
    )
    if measured.method == AS_IT_RUNS:
        return replace(gain, verdict="already_huge")
    # What runs show, by faults or otherwise, is known of copies alone: pairs refuse huge pages.
    already = modelled.verdict == "already_huge" and measured.source == "copies"
    return replace(gain, verdict=verdict(total_interval(gain), None, already))


def spread_part(
    given: Evidence,
    costs: Costs | None,
    footprint: Footprint | None,
    simulated: Simulated | None,
    counted: CountedPart | None,
) -> float | None:
    """Share of the gain's interval from the spread of the runs, which more runs would shrink."""
    best = counted or simulated
    if len(given.runs) < 2 or best is None:
        return None
    whole = total_interval(best.gain)
    alike = (
        Run(
            **{
                field.name: int(median([getattr(run, field.name) for run in given.runs]))
                for field in fields(Run)
                if field.name != "waited_ns"
            }
        ),
    )
    if counted is not None:
        seen = without_spread(counted.witness)
        remaining = None if simulated is None else _remaining(simulated.gain)
        gain = predicted(counted.counted, seen, alike, costs, footprint, remaining)
    else:
        assert simulated is not None
        assert costs is not None
        assert footprint is not None
        gain = _simulated_gain(given, alike, simulated.counts, simulated.sample, footprint, costs)
    without = total_interval(gain)
    width = whole.high - whole.low
    return max(0.0, 1 - (without.high - without.low) / width) if width > 0 else 0.0


def by_counters(
    given: Evidence, costs: Costs | None, footprint: Footprint | None, simulated: Simulated | None
) -> CountedPart | None:
    """The counters' results, if any. Raises TlbcostError (4) if they do not bound translation."""
    if given.counted is None or given.pmu is None:
        return None
    counted = given.counted
    found = formula_values(given.pmu.formulas, counted)
    cycles = counted.values().get("cycles")
    partial = partial_sums(given.pmu.formulas, counted)
    seen = witness(found, cycles, _prices(given, costs, cycles), partial)
    if seen is None:
        raise _unbounded(given, found, partial)
    remaining = None if simulated is None else _remaining(simulated.gain)
    return CountedPart(
        counted,
        given.pmu,
        found,
        seen,
        given.walk_cycles,
        predicted(counted, seen, given.runs, costs, footprint, remaining),
    )


def _prices(given: Evidence, costs: Costs | None, cycles: float | None) -> Prices | None:
    """What a walk costs in cycles: as the user said, else by the calibration."""
    if given.walk_cycles is not None:
        said = given.walk_cycles
        return Prices(Interval(said, said, said), None)
    if costs is None or given.calibrated is None or given.counted is None:
        return None
    clock = cost_at(given.calibrated.calibration, "cycles_per_ns", None)
    rate = None if clock is None else clock.value
    if cycles and given.counted.mode == "user" and given.counted.user_ns:
        # The program's own clock, and not that of the calibration.
        rate = cycles / given.counted.user_ns
    return None if rate is None else prices_of(costs[0], rate)


def _remaining(gain: PredictedGain) -> float | None:
    """The part of the time in translation that stays on huge pages, by the simulation."""
    base, huge = gain.base_data_ns, gain.huge_data_ns
    if base is None or huge is None or base.value <= 0:
        return None
    return huge.value / base.value


def _unbounded(
    given: Evidence, found: Mapping[str, Interval | None], partial: Mapping[str, PartialSum]
) -> TlbcostError:
    """Why the counts bound nothing, and how those are obtained that do."""
    assert given.pmu is not None
    assert given.counted is not None
    pmu, formulas = given.pmu, given.pmu.formulas
    from_file = given.path is None
    key = next((key for key in _BOUNDING if key in formulas), None)
    if from_file and pmu is generic_pmu():
        return TlbcostError(
            "no estimate: the CPU that was counted on is not known, nor what its events mean",
            "--cpu MODEL; 'tlbcost events --list' has them",
            CANNOT_MEASURE,
        )
    useful = {name for each in _BOUNDING if each in formulas for name in names_in(formulas[each])}
    refused = not_counted(given.counted, useful - given.counted.values().keys())
    if from_file and refused is not None:
        return refused
    has_walks = any(found.get(key) or key in partial for key in ("walks", "data_walks"))
    counts_cycles = any(key in formulas for key in ("share", "pending_share"))
    count_more = f"count what is missing: {perf_stat(pmu)}" if from_file and key else None
    if has_walks and given.calibrated is None:
        lack = "the counts have" if counts_cycles else f"{pmu.name} counts"
        known = "--calibration FILE, made there by tlbcost calibrate, or --walk-cycles N"
        return TlbcostError(
            f"no estimate: {lack} page walks but not the cycles in them, and what a walk costs is "
            "not known",
            f"{known}, or {count_more}" if counts_cycles and count_more else known,
            CANNOT_MEASURE,
        )
    needed = names_in(formulas[key]) if key else set()
    missing = sorted(needed - given.counted.values().keys())
    why = f": {', '.join(missing)} missing" if missing else ""
    if key is None and any(name.startswith("dtlb_") for name in given.counted.values()):
        why = f": {pmu.name} counts first-level misses alone, hits of the second level among them"
        count_more = "tlbcost estimate ./app simulates both levels; tlbcost trial measures"
    return TlbcostError(
        "no estimate: the counts have neither the cycles in page walks nor their number" + why,
        count_more or "'tlbcost doctor' shows what can be counted here",
        CANNOT_MEASURE,
    )
